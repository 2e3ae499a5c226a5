//! `cargo xtask bench`: the benchmarks, which are a workspace of their own.

use anyhow::Result;

use crate::shell::{call, cargo};

pub(crate) fn run(names: &[&str]) -> Result<()> {
    // One of the peers asks for a newer compiler than it needs.
    let arguments = ["run", "--release", "--ignore-rust-version", "--manifest-path", "bench/Cargo.toml", "--"];
    call(&mut cargo(&[&arguments[..], names].concat()))
}
