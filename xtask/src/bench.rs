//! `cargo xtask bench`: the benchmarks, which are a workspace of their own.

use anyhow::Result;

use crate::shell::{call, cargo};

pub(crate) fn run(names: &[&str]) -> Result<()> {
    let arguments = ["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"];
    call(&mut cargo(&[&arguments[..], names].concat()))
}
