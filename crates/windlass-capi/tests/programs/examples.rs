//! The examples: in C and in C++ they say the same.

use crate::compile::{Link, compile_and_run};

fn says_in_both(name: &str, said: &str) {
    assert_eq!(compile_and_run("cc", &format!("examples/c/{name}.c"), Link::Shared, &["-O2"]), said);
    assert_eq!(compile_and_run("g++", &format!("examples/cpp/{name}.cpp"), Link::Shared, &["-O2"]), said);
}

#[test]
fn hello_greets_and_squares() {
    says_in_both("hello", "hello, world\n144\n");
}

#[test]
fn fib_is_right() {
    says_in_both("fib", "fib(20) = 6765\n");
}

#[test]
fn the_arithmetic_graph_is_run_three_times() {
    says_in_both("graph", "21\n45\n77\n");
}

#[test]
fn frames_move_and_sound() {
    says_in_both("frames", "60000 bodies moved, 180 sounds heard\n");
}
