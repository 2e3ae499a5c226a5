//! `cargo xtask loom`: the models, and the controls that must fail.

use std::process::Command;

use anyhow::{Result, ensure};

use crate::shell::{call, cargo};

/// Protocols with a model and a control: `--cfg windlass_weaken="NAME"` weakens one ordering of it.
const PROTOCOLS: &[&str] = &["ring", "sleep", "slot"];

pub(crate) fn run() -> Result<()> {
    call(&mut models("loom_tests", None))?;
    for protocol in PROTOCOLS {
        println!("\ncontrol: the model of `{protocol}` must fail when its ordering is weakened");
        let mut control = models(&format!("loom_tests::{protocol}"), Some(protocol));
        // Built first, so that a control that does not compile is not taken for one that fails as it should.
        call(&mut models_build(protocol))?;
        let output = control.output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(printed.contains("running "), "the control of {protocol} did not run: {printed}");
        ensure!(!output.status.success(), "the model of {protocol} passed although its ordering was weakened");
        println!("it failed, as it must");
    }
    Ok(())
}

fn flags(weaken: Option<&str>) -> String {
    match weaken {
        None => "--cfg loom".to_owned(),
        Some(protocol) => format!("--cfg loom --cfg windlass_weaken=\"{protocol}\""),
    }
}

fn models(filter: &str, weaken: Option<&str>) -> Command {
    let mut command = cargo(&["test", "--package", "windlass-pool", "--release", "--lib", filter]);
    configure(&mut command, weaken);
    command
}

fn models_build(protocol: &str) -> Command {
    let mut command = cargo(&["test", "--package", "windlass-pool", "--release", "--lib", "--no-run"]);
    configure(&mut command, Some(protocol));
    command
}

fn configure(command: &mut Command, weaken: Option<&str>) {
    command
        .env("RUSTFLAGS", flags(weaken))
        // A folder of its own: other flags would have everything built again each time.
        .env("CARGO_TARGET_DIR", crate::shell::root().join("target/loom"))
        .env("LOOM_MAX_PREEMPTIONS", std::env::var("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|_| "3".to_owned()));
}
