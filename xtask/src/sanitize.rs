//! `cargo xtask sanitize`: the pool's tests under a sanitizer of the nightly toolchain.
//!
//! The thread sanitizer must see the standard library as well: without its source (`rust-src`) the locks of the
//! library look like races, hundreds of them, and a true one would drown. So it is skipped then, and says so.

use std::path::Path;

use anyhow::{Result, bail};

use crate::shell::{answers, call, command, output, root};

const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(crate) fn run(kind: &str) -> Result<()> {
    if !["thread", "address"].contains(&kind) {
        bail!("no sanitizer {kind:?}: use thread or address");
    }
    if !answers("cargo", &["+nightly", "--version"]) {
        println!("skipped: no nightly toolchain (rustup toolchain install nightly)");
        return Ok(());
    }
    let mut arguments =
        vec!["+nightly", "test", "--package", "windlass-pool", "--lib", "--test", "pool", "--target", TARGET];
    if kind == "thread" {
        let sysroot = output(&mut command("rustc", &["+nightly", "--print", "sysroot"]))?;
        if !Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir() {
            println!("skipped: no source of the standard library (rustup component add rust-src --toolchain nightly)");
            return Ok(());
        }
        arguments.push("-Zbuild-std");
    }
    call(
        command("cargo", &arguments)
            .env("RUSTFLAGS", format!("-Zsanitizer={kind}"))
            .env("CARGO_TARGET_DIR", root().join("target").join(format!("sanitize-{kind}"))),
    )
}
