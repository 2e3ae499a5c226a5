//! The C tests: compiled as C11 by the system's compiler, linked to both libraries, and run.

use crate::compile::{Link, answers, compile_and_run, skip};

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
    compile_and_run("clang", "tests/c/whole.c", Link::Shared, &[]);
}
