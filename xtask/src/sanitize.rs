//! `cargo xtask sanitize`: the pool's tests under a sanitizer of the nightly toolchain.

use anyhow::{Result, bail};

use crate::shell::{answers, call, command};

const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run_kind(kind: &str, flags: &str) -> Result<()> {
    if !answers("cargo", &["+nightly", "--version"]) {
        println!("skipped: no nightly toolchain (rustup toolchain install nightly)");
        return Ok(());
    }
    let arguments = ["+nightly", "test", "--package", "windlass-pool", "--lib", "--test", "pool", "--target", TARGET];
    let target = crate::shell::root().join("target").join(format!("sanitize-{kind}"));
    // Arc's counts are in the standard library, which is not instrumented: its last release looks like a race.
    let suppressions = crate::shell::root().join("xtask/tsan-suppressions.txt");
    call(
        command("cargo", &arguments)
            .env("RUSTFLAGS", flags)
            .env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()))
            .env("CARGO_TARGET_DIR", target),
    )
}

pub(crate) fn run(kind: &str) -> Result<()> {
    match kind {
        "thread" => run_kind(kind, "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"),
        "address" => run_kind(kind, "-Zsanitizer=address"),
        _ => bail!("no sanitizer {kind:?}: use thread or address"),
    }
}
