//! `cargo xtask bench pool [--quick] [WORKLOAD…]`: the pool of tasks beside other pools, in one run.
//!
//! `--quick` only shows, in less than a minute, that everything runs.
//!
//! Threads are counted alike where work begins inside a pool: the rows say who is one of them. Where tasks come from
//! outside they are the pool's own, the calling thread being one more; windlass's runs tasks, too, while it waits.
//!
//! `peers` and `windlass` are the pools; a file for each kind of workload says what is run.

pub mod peers;
pub mod windlass;

mod adds;
mod coarse;
mod crowd;
mod fib;
mod flat;
mod idle;
mod one;
mod range;
mod tree;

mod targets;

use crate::suite::Kind;

/// What the suite is called on the command line.
const NAME: &str = "pool";

pub const KIND: Kind = Kind {
    name: NAME,
    workloads: &[
        ("fib", fib::run_fib),
        ("tree", tree::run),
        ("coarse", coarse::run),
        ("pool_fib", fib::run_pool_fib),
        ("flat", flat::run_flat),
        ("ordered", flat::run_ordered),
        ("one", one::run),
        ("adds", adds::run),
        ("range", range::run),
        ("idle", idle::run),
        ("crowd", crowd::run),
    ],
    targets: targets::TARGETS,
};

/// Runs the workloads that are named, or all of them.
pub fn run(words: &[String]) {
    if words == [crowd::NEIGHBOUR] {
        return crowd::be_neighbour();
    }
    KIND.run(words);
}
