//! `cargo xtask bench graph [--quick] [WORKLOAD…]`: graphs of tasks that are built once and run again and again.
//!
//! Two threads: the caller and one worker for windlass, two workers for those whose caller waits. The floor is a plain
//! loop over boxed closures in an order that fits.
//!
//! There is no pool of Rust's that everybody runs graphs with, so most peers are what its users write: a counter in each
//! node, and whoever brings it to zero goes on with that node. They are written with care: the first node that gets
//! ready is run at once, and only others are spawned.
//!
//! `shape` is what is run, `engines` are the competitors; a file for each kind of question says how.

mod by_hand;
mod engines;
mod shape;

mod again;
pub mod matmul;
mod memory;
mod phases;

mod targets;

use crate::suite::Kind;

/// What the suite is called on the command line.
const NAME: &str = "graph";

pub const KIND: Kind = Kind {
    name: NAME,
    workloads: &[
        ("chain", phases::run_chain),
        ("tree", phases::run_tree),
        ("short_chain", again::run_short_chain),
        ("random", again::run_random),
        ("wavefront", again::run_wavefront),
        ("matmul", matmul::run),
        ("memory", memory::run),
    ],
    targets: targets::TARGETS,
};

/// Runs the workloads that are named, or all of them.
pub fn run(words: &[String]) {
    if let Some((memory::CHILD, words)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return memory::be_child(words);
    }
    KIND.run(words);
}
