//! `cargo xtask bench burst [--quick] [WORKLOAD…]`: bursts of items to threads that sleep, in one run.
//!
//! An item notes when it was begun; a figure is the time from just before the first item of its burst was sent until
//! then. Competitors take turns burst by burst, with milliseconds between, and who was first in one round is last in the
//! next. Every item must be handled once.
//!
//! The floor is a loop that writes to each thread's own word and unparks it: no queue, no lock, nothing shared. It wakes
//! as many threads as there are items, though, and where items are short that is too many.
//!
//! `round` is what an item does, `bursters` are the competitors; `latency` and `uneven` say what is sent.

mod bursters;
mod latency;
mod round;
mod targets;
mod uneven;

use crate::suite::Kind;

pub const KIND: Kind = Kind {
    name: "burst",
    workloads: &[
        ("short", latency::run_short),
        ("holding", latency::run_holding),
        ("few", latency::run_few),
        ("single", latency::run_single),
        ("hot", latency::run_hot),
        ("uneven", uneven::run),
    ],
    targets: targets::TARGETS,
};
