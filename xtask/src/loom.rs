//! `cargo xtask loom`: the models, and the controls that must fail.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::shell::{call, cargo, command, output, root};

/// Protocols with models and a control: `--cfg windlass_weaken="NAME"` weakens one ordering or one step of it, and one of
/// the models in `loom_tests/NAME.rs` must fail then.
const PROTOCOLS: &[&str] =
    &["ring", "fork", "forks", "shutdown", "sleep", "children", "continuation", "slot", "home", "graph", "burst"];

pub(crate) fn run() -> Result<()> {
    call(&mut models(&build("loom", None)?, "loom_tests::"))?;
    for protocol in PROTOCOLS {
        println!("\ncontrol: a model of `{protocol}` must fail when it is weakened");
        // Built first, so that a control that does not compile is not taken for one that fails as it should.
        let output = models(&build("loom", Some(protocol))?, &format!("loom_tests::{protocol}::")).output()?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(printed.contains("running "), "the control of {protocol} did not run: {printed}");
        ensure!(!printed.contains("running 0 tests"), "there is no model of {protocol}");
        ensure!(!output.status.success(), "the models of {protocol} passed although it was weakened");
        println!("it failed, as it must");
    }
    Ok(())
}

/// Builds the pool's own tests with loom, or shuttle, and answers the program. What is weakened is told to the pool alone,
/// so that the checker is built once; with debug assertions, which are then checked, too.
pub(crate) fn build(checker: &str, weaken: Option<&str>) -> Result<String> {
    let mut build = cargo(&["rustc", "--package", "windlass-pool", "--lib", "--profile", "test"]);
    // Less is said about a weakened build: it does not use everything.
    build.args(["--quiet", "--message-format", "json", "--"]);
    if let Some(protocol) = weaken {
        build.arg("--cfg").arg(format!("windlass_weaken=\"{protocol}\""));
    }
    build
        .env("RUSTFLAGS", format!("--cfg {checker}"))
        // A folder of its own: other flags would have everything built again each time.
        .env("CARGO_TARGET_DIR", root().join("target").join(checker));
    program_in(&output(&mut build)?).context("cargo did not say which program it has built")
}

/// The program in what cargo says, a line of JSON for each thing it has built.
fn program_in(messages: &str) -> Option<String> {
    let (_, rest) = messages.rsplit_once("\"executable\":\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn models(program: &str, filter: &str) -> Command {
    let mut models = command(program, &[filter]);
    models.env("LOOM_MAX_PREEMPTIONS", std::env::var("LOOM_MAX_PREEMPTIONS").unwrap_or_else(|_| "3".to_owned()));
    models
}
