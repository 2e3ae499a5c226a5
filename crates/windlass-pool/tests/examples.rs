//! The examples run, and are right.

#[path = "../examples/arithmetic.rs"]
mod arithmetic;
#[path = "../examples/frame.rs"]
mod frame;
#[path = "../examples/wavefront.rs"]
mod wavefront;

#[test]
fn the_graph_of_arithmetic_gives_what_the_formula_gives() {
    arithmetic::main();
}

#[test]
fn a_wavefront_gives_what_row_by_row_gives() {
    wavefront::main();
}

#[test]
fn every_frame_is_drawn_whole() {
    frame::main();
}
