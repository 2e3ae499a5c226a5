//! `windlass doctor`: examines the store and says what should be mended.

use windlass::store::Severity;

use crate::{Common, output, store};

pub(crate) fn run(common: &Common) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let findings = opened.wait(opened.inspector().check())?;
    if common.json {
        output::json(&findings)?;
    } else {
        let row = |finding: &windlass::store::Finding| {
            let sign = match finding.severity {
                Severity::Good => "ok",
                Severity::Warning => "warning",
                Severity::Problem => "PROBLEM",
            };
            vec![sign.to_owned(), finding.subject.to_owned(), finding.detail.clone()]
        };
        output::table(&["", "what", "found"], findings.iter().map(row).collect(), "nothing to examine")?;
    }
    let problems = findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    anyhow::ensure!(problems == 0, "{problems} of {} findings must be mended", findings.len());
    Ok(())
}
