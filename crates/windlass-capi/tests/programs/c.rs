//! The C tests: compiled as C11 by the system's compiler, linked to both libraries, and run.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::compile::{Link, answers, compile, compile_and_run, run, skip};

#[test]
fn pool_h_keeps_its_promises_in_the_static_library() {
    compile_and_run("cc", "tests/c/plain.c", Link::Static, &[]);
}

#[test]
fn pool_h_keeps_its_promises_in_the_shared_library() {
    compile_and_run("cc", "tests/c/plain.c", Link::Shared, &[]);
}

#[test]
fn windlass_h_keeps_its_promises_in_the_static_library() {
    compile_and_run("cc", "tests/c/whole.c", Link::Static, &[]);
}

#[test]
fn windlass_h_keeps_its_promises_in_the_shared_library() {
    compile_and_run("cc", "tests/c/whole.c", Link::Shared, &[]);
}

#[test]
fn clang_says_the_same() {
    if !answers("clang") {
        return skip("clang is not installed");
    }
    compile_and_run("clang", "tests/c/plain.c", Link::Static, &["-O2"]);
    compile_and_run("clang", "tests/c/whole.c", Link::Shared, &[]);
}

#[test]
fn ca08_exit_during_work_does_not_hang() {
    let program = compile("cc", "tests/c/exit.c", Link::Shared, &[]);
    for _ in 0..10 {
        run(Command::new("timeout").arg("20").arg(&program));
        run(Command::new("timeout").arg("20").arg(&program).arg("inside"));
    }
}

#[test]
fn ca14_a_closed_library_stays_for_its_threads() {
    let program = compile("cc", "tests/c/load.c", Link::Shared, &[]);
    let library = program.with_file_name("libwindlass.so.0");
    run(Command::new("timeout").arg("60").arg(program).arg(library));
}

/// CA-07, CA-08: a callback that leaves its frame in another way than by returning ends the process, at once.
#[test]
fn ca07_ca08_a_callback_that_throws_or_ends_its_thread_ends_the_process() {
    let program = compile("g++", "tests/c/misuse.cpp", Link::Shared, &[]);
    for how in ["throw", "pthread_exit"] {
        let output = Command::new("timeout").arg("20").arg(&program).arg(how).output().expect("timeout is there");
        assert_eq!(
            output.status.signal().or(output.status.code().map(|code| code - 128)),
            Some(6),
            "{how}: {output:?}"
        );
        assert!(!output.stderr.is_empty(), "{how} was not told");
    }
}

/// Where the program forks, `leaks` are not looked for: the child has lost its threads, and what was theirs.
fn valgrind_finds_nothing_in(compiler: &str, source: &str, leaks: &str) {
    if !answers("valgrind") {
        return skip("valgrind is not installed");
    }
    let program = compile(compiler, source, Link::Shared, &["-O1"]);
    let mut check = Command::new("timeout");
    // One thread at a time, whoever is ready next, lest one that spins keeps the processor. What is still reachable at the
    // end is kept for threads to come.
    check.args(["240", "valgrind", "--quiet", "--fair-sched=yes", "--error-exitcode=9", leaks]);
    run(check.args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]).arg(program));
}

#[test]
fn valgrind_finds_nothing_in_pool_h() {
    valgrind_finds_nothing_in("cc", "tests/c/plain.c", "--leak-check=no");
}

#[test]
fn valgrind_finds_nothing_in_windlass_h() {
    valgrind_finds_nothing_in("cc", "tests/c/whole.c", "--leak-check=full");
}

#[test]
fn valgrind_finds_nothing_in_windlass_hpp() {
    valgrind_finds_nothing_in("g++", "tests/c/pool.cpp", "--leak-check=full");
}
