//! `cargo xtask sanitize`: the pool's tests under a sanitizer of the nightly toolchain.
//!
//! The thread sanitizer must see the standard library as well: without its source (`rust-src`) the locks of the
//! library look like races, hundreds of them, and a true one would drown. So it is skipped then, and says so.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell::{answers, call, command, output, root};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests that mean something there: not those that count allocations or context switches.
const TESTS: &[&str] = &["pool", "ties", "structured", "waiting", "life", "graph", "burst", "ledger", "hazards"];

/// Tasks of the ledger: each costs some ten times as much as without a sanitizer.
const LEDGER_TASKS: &str = "1000000";

pub(crate) fn run(kind: &str) -> Result<()> {
    if let Some(why) = step(kind)? {
        println!("skipped: {why}");
    }
    Ok(())
}

/// Runs the tests, or answers why they are skipped.
pub(crate) fn step(kind: &str) -> Result<Option<String>> {
    if !["thread", "address"].contains(&kind) {
        bail!("no sanitizer {kind:?}: use thread or address");
    }
    if !answers("cargo", &["+nightly", "--version"]) {
        return Ok(Some("no nightly toolchain (rustup toolchain install nightly)".to_owned()));
    }
    let mut arguments = vec!["+nightly", "test", "--package", "windlass-pool", "--target", TARGET, "--lib"];
    arguments.extend(TESTS.iter().flat_map(|test| ["--test", test]));
    if kind == "thread" {
        let sysroot = output(&mut command("rustc", &["+nightly", "--print", "sysroot"]))?;
        if !Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir() {
            let why = "no source of the standard library (rustup component add rust-src --toolchain nightly)";
            return Ok(Some(why.to_owned()));
        }
        arguments.push("-Zbuild-std");
    }
    call(
        command("cargo", &arguments)
            .env("RUSTFLAGS", format!("-Zsanitizer={kind}"))
            .env("WINDLASS_LEDGER_TASKS", LEDGER_TASKS)
            .env("CARGO_TARGET_DIR", root().join("target").join(format!("sanitize-{kind}"))),
    )?;
    Ok(None)
}
