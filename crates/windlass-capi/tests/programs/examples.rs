//! The examples: in C, in C++ and in Rust they say the same.

use crate::compile::{Link, compile_and_run};

#[path = "../../examples/rust/fib.rs"]
mod fib;
#[path = "../../examples/rust/frames.rs"]
mod frames;
#[path = "../../examples/rust/graph.rs"]
mod graph;
#[path = "../../examples/rust/hello.rs"]
mod hello;

fn says_in_all(name: &str, in_rust: fn() -> String, said: &str) {
    assert_eq!(in_rust(), said);
    assert_eq!(compile_and_run("cc", &format!("examples/c/{name}.c"), Link::Shared, &["-O2"]), said);
    assert_eq!(compile_and_run("g++", &format!("examples/cpp/{name}.cpp"), Link::Shared, &["-O2"]), said);
}

#[test]
fn hello_greets_and_squares() {
    says_in_all("hello", hello::run, "hello, world\n144\n");
}

#[test]
fn fib_is_right() {
    says_in_all("fib", fib::run, "fib(20) = 6765\n");
}

#[test]
fn the_arithmetic_graph_is_run_three_times() {
    says_in_all("graph", graph::run, "21\n45\n77\n");
}

#[test]
fn frames_move_and_sound() {
    says_in_all("frames", frames::run, "60000 bodies moved, 180 sounds heard\n");
}
