//! `windlass quiet PROCESS` and `windlass stop PROCESS`: orders to processes, through the store.
//!
//! A process is named by the beginning of its identity, as `windlass processes` shows it, as long as that is enough to
//! tell it from the others.

use windlass::Error;
use windlass::store::{MemberId, ProcessInfo, ProcessOrder, ProcessTarget};

use crate::exit::Usage;
use crate::store::Opened;
use crate::{Common, output, store};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The process, or the beginning of its identity
    #[arg(required_unless_present = "all")]
    process: Option<String>,
    /// Every process
    #[arg(long, conflicts_with = "process")]
    all: bool,
}

pub(crate) fn run(common: &Common, arguments: &Arguments, order: ProcessOrder) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let to = match &arguments.process {
        Some(name) => ProcessTarget::One(find(name, &opened.wait(opened.inspector().processes())?)?),
        None => ProcessTarget::All,
    };
    let reached = opened.wait(opened.client().order(to.clone(), order))?;
    tell(common, &opened, &to, order, reached)
}

/// The one process whose identity begins so.
fn find(name: &str, processes: &[ProcessInfo]) -> anyhow::Result<MemberId> {
    let ids = || processes.iter().map(|process| &process.info.id);
    if let Some(exact) = ids().find(|id| id.as_str() == name) {
        return Ok(exact.clone());
    }
    let mut found = ids().filter(|id| !name.is_empty() && id.as_str().starts_with(name));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only.clone()),
        (None, _) => Err(Error::NoSuchProcess { id: name.to_owned() }.into()),
        (Some(one), Some(other)) => {
            let more = found.count();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Err(Usage(format!("{name:?} may be {one}, {other}{more}: write more of the identity")).into())
        }
    }
}

fn tell(
    common: &Common,
    opened: &Opened,
    to: &ProcessTarget,
    order: ProcessOrder,
    reached: usize,
) -> anyhow::Result<()> {
    let process = match to {
        ProcessTarget::One(id) => Some(id.as_str()),
        ProcessTarget::All => None,
    };
    if common.json {
        return output::json(&serde_json::json!({ "order": order, "process": process, "reached": reached }));
    }
    let whom = match (process, reached) {
        (Some(id), _) => output::printable(id),
        (None, 0) => return output::line(&format!("no process works on {}", opened.inspector().describe().url)),
        (None, 1) => "1 process".to_owned(),
        (None, count) => format!("{count} processes"),
    };
    output::line(&format!("{whom} will {} at the next beat, within 5 s", phrase(order)))
}

fn phrase(order: ProcessOrder) -> &'static str {
    match order {
        ProcessOrder::Dump => "log what is running",
        ProcessOrder::Quiet => "lease no more jobs",
        ProcessOrder::Stop => "begin to stop",
    }
}

#[cfg(test)]
mod tests {
    use windlass::Timestamp;
    use windlass::store::{MemberInfo, Vitals};

    use super::*;

    fn process(id: &str) -> ProcessInfo {
        let id = MemberId::from(id.to_owned());
        let host = "host".to_owned();
        let info = MemberInfo {
            id,
            host,
            pid: 1,
            queues: Vec::new(),
            weights: Vec::new(),
            concurrency: 1,
            version: "0".to_owned(),
        };
        let at = Timestamp::EPOCH;
        let (vitals, jobs) = (Vitals::default(), Vec::new());
        ProcessInfo { info, joined_at: at, beat_at: at, lease_until: at, vitals, running: 0, jobs }
    }

    #[test]
    fn the_beginning_of_an_identity_is_enough_when_it_is_the_only_one() {
        let processes = [process("apple:1:aa"), process("apple:12:bb"), process("pear:1:cc")];

        assert_eq!(find("p", &processes).unwrap().as_str(), "pear:1:cc");
        assert_eq!(find("apple:12", &processes).unwrap().as_str(), "apple:12:bb");
        assert_eq!(find("apple:1:aa", &processes).unwrap().as_str(), "apple:1:aa");
        let ambiguous = find("apple", &processes).unwrap_err().to_string();
        assert!(ambiguous.contains("apple:1:aa, apple:12:bb: write more"), "{ambiguous}");
        assert!(find("quince", &processes).unwrap_err().to_string().contains("no process \"quince\""));
        assert!(find("", &processes).is_err());
    }
}
