//! The C++ tests: compiled as C++20, linked to both libraries, run; once more under the sanitizers.

use std::path::PathBuf;
use std::process::Command;

use crate::compile::{Link, answers, compile, compile_and_run, folder, run, skip};

const OPTIMIZED: &[&str] = &["-O2"];

#[test]
fn windlass_hpp_keeps_its_promises_in_the_static_library() {
    compile_and_run("g++", "tests/c/pool.cpp", Link::Static, OPTIMIZED);
}

#[test]
fn windlass_hpp_keeps_its_promises_in_the_shared_library() {
    compile_and_run("g++", "tests/c/pool.cpp", Link::Shared, &[]);
}

#[test]
fn clang_says_the_same() {
    if !answers("clang++") {
        return skip("clang++ is not installed");
    }
    compile_and_run("clang++", "tests/c/pool.cpp", Link::Shared, OPTIMIZED);
}

#[test]
fn a_submit_of_a_small_closure_allocates_nothing() {
    if !cfg!(target_env = "gnu") {
        return skip("the allocations are counted by glibc's names");
    }
    compile_and_run("g++", "tests/c/allocations.cpp", Link::Shared, OPTIMIZED);
}

/// Whether a program with this sanitizer can be linked here.
fn has_sanitizer(flag: &str) -> bool {
    let folder: PathBuf = folder("sanitizer_probe");
    let source = folder.join("probe.cpp");
    std::fs::write(&source, "int main() { return 0; }\n").expect("a file can be written");
    let mut command = Command::new("g++");
    command.arg(flag).arg(&source).arg("-o").arg(folder.join("probe"));
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_sanitizers_find_nothing() {
    let flag = "-fsanitize=address,undefined";
    if !has_sanitizer(flag) {
        return skip("g++ has no address and undefined-behaviour sanitizers here");
    }
    // What the library keeps for threads that come later is not lost, but reached by numbers only.
    let more = ["-O1", "-fno-sanitize-recover=all", flag];
    for source in ["tests/c/pool.cpp", "tests/c/whole.c", "tests/c/plain.c"] {
        let compiler = if source.ends_with(".c") { "gcc" } else { "g++" };
        let program = compile(compiler, source, Link::Shared, &more);
        // What was freed is kept for a while; so much of it that `ca12_` would take it for growth.
        let options = "detect_stack_use_after_return=0:quarantine_size_mb=1:thread_local_quarantine_size_kb=16";
        run(Command::new("timeout").arg("120").arg(program).env("ASAN_OPTIONS", options));
    }
}
