//! `cargo xtask shuttle`: the whole pool in 100,000 schedules, and the controls that must fail.

use anyhow::{Result, ensure};

use crate::loom::build;
use crate::shell::{call, command};

/// Flaws (`--cfg windlass_weaken="NAME"`) that lose a wake or a task, and the scenario that must fail then.
const CONTROLS: &[(&str, &str)] = &[
    // A worker that is about to sleep does not look once more.
    ("look", "tasks::who_only_sleeps"),
    // A worker of a burst looks before it is noted as asleep.
    ("burst", "burst::mail_from_several_threads"),
    // A task that ends leaves its successors alone if they were tied meanwhile.
    ("continuation", "tasks::a_continuation_runs"),
];

/// Runs all scenarios and then the controls, or only the scenarios whose names hold a word.
pub(crate) fn run(word: Option<&str>) -> Result<()> {
    let program = build("shuttle", None)?;
    if let Some(word) = word {
        return call(&mut command(&program, &[&format!("shuttle_tests::{word}")]));
    }
    call(&mut command(&program, &["shuttle_tests::"]))?;
    for (flaw, scenario) in CONTROLS {
        println!("\ncontrol: `{scenario}` must fail when `{flaw}` is weakened");
        // Built first, so that a control that does not compile is not taken for one that fails as it should.
        let output = command(&build("shuttle", Some(flaw))?, &[&format!("shuttle_tests::{scenario}")]).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(printed.contains("running 1 test"), "the control of {flaw} did not run: {printed}");
        ensure!(!output.status.success(), "`{scenario}` passed although {flaw} was weakened");
        println!("it failed, as it must");
    }
    Ok(())
}
