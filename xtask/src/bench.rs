//! `cargo xtask bench`: the benchmarks, which are a workspace of their own, and their C and C++ side.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::install::built;
use crate::shell::{answers, call, cargo, command, root};

pub(crate) fn run(names: &[&str]) -> Result<()> {
    // One of the peers asks for a newer compiler than it needs.
    let arguments = ["run", "--release", "--ignore-rust-version", "--manifest-path", "bench/Cargo.toml", "--"];
    let mut run = cargo(&[&arguments[..], names].concat());
    if names.first() == Some(&"cpp") {
        run.env("WINDLASS_BENCH_CPP", compile()?);
    }
    call(&mut run)
}

/// The sources of `bench/cpp`, each with its compiler and standard.
const SOURCES: &[(&str, &str, &str)] = &[
    ("queues.c", "cc", "-std=c11"),
    ("main.cpp", "c++", "-std=c++20"),
    ("queues.cpp", "c++", "-std=c++20"),
    ("tbb.cpp", "c++", "-std=c++20"),
    ("windlass.cpp", "c++", "-std=c++20"),
];

/// Compiles the C and C++ side against the library, and answers where the program is.
fn compile() -> Result<PathBuf> {
    call(&mut cargo(&["build", "--lib", "--package", "windlass-capi", "--release"]))?;
    let folder = built("release").join("bench-cpp");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let program = path("peer");
    let mut objects = Vec::new();
    for (source, compiler, standard) in SOURCES {
        let object = path(&format!("{source}.o"));
        let from = format!("bench/cpp/{source}");
        let options = ["-O3", "-DNDEBUG", "-Wall", "-Wextra", "-Icrates/windlass-capi/include", "-c"];
        call(command(compiler, &options).args([*standard, &from, "-o", &object]))?;
        objects.push(object);
    }
    let mut link = command("c++", &[]);
    link.args(&objects).arg(built("release").join("libwindlass_capi.a"));
    link.args(["-lpthread", "-ldl", "-lm", "-o", &program]);
    // The same question that the source asks.
    let probe = root().join("bench/cpp/has_tbb.cpp");
    if answers("c++", &["-fsyntax-only", &probe.to_string_lossy()]) {
        link.arg("-ltbb");
    } else {
        println!("skipped: oneTBB is not installed (apt-get install libtbb-dev)");
    }
    call(&mut link)?;
    Ok(PathBuf::from(program))
}
