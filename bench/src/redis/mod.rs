//! `cargo xtask bench jobs [--quick] [redis|sqlite]`: jobs through a store, beside other job systems, in one run.
//!
//! Each competitor is a program of its own, in its own language, with the settings that it recommends: it enqueues so
//! many jobs of 200 bytes as fast as it can, and then a process of it drains them, doing nothing for each. The
//! competitors take turns at one redis-server, without persistence, that is emptied in between. Each of them counts what
//! it ran and adds up the numbers of the jobs: a run that lost a job, or ran one twice, is no figure. Who is missing on
//! this machine, or fails, is left out, and the table says so.
//!
//! A drain is timed from the start of the first job until the store has the outcome of the last, so that no one's
//! start-up counts. Memory is the most that the draining process had. The server's processor time is its own, on the
//! same cores.
//!
//! `peer` is the protocol that all of them speak, `competitors` who they are, `rounds` takes the turns.

mod competitors;
mod peer;
mod rounds;
mod targets;

use crate::suite::Kind;
use crate::suite::measure::Suite;

pub const KIND: Kind =
    Kind { name: "jobs", workloads: &[("redis", on_redis), ("sqlite", on_sqlite)], targets: targets::TARGETS };

fn on_redis(suite: &mut Suite) {
    rounds::run(suite, "redis", rounds::Place::redis(), competitors::on_redis());
}

fn on_sqlite(suite: &mut Suite) {
    rounds::run(suite, "sqlite", rounds::Place::sqlite(), competitors::on_sqlite());
}
