//! `adds`: 500,000 tasks of 100 additions each from one outside thread, with more and more threads.

use std::hint::black_box;

use super::measure::{Extra, Panel, Role, Table, Unit};
use super::peers::{ChannelPool, MutexPool, RayonInPlace, RayonScope, TaskPool, started};
use super::tally;
use super::windlass::Windlass;

pub const TASKS: usize = 500_000;
pub const ADDS: u64 = 100;
pub const WARM_UP: usize = 100_000;

const PER_TASK: Extra = Extra { label: "ns per task", of: |row, _| Some(row.median * 1e6 / TASKS as f64) };

/// A task.
pub fn add_up() {
    let mut sum = 0;
    for _ in 0..ADDS {
        sum = black_box(sum + 1);
    }
    tally::add(sum);
}

pub fn run(tables: &mut Vec<Table>) {
    for threads in [1, 2, 4, 8, 16, 32] {
        let title = format!("500 000 tasks of 100 adds from outside, {}", super::threads(threads));
        let mut panel = Panel::new("adds", title, Unit::Milliseconds).extra(PER_TASK);
        panel.floor("plain loop", |clock| verify(|| clock.time(|| (0..TASKS).for_each(|_| add_up()))));
        add::<RayonInPlace>(&mut panel, Role::Peer, threads);
        add::<RayonScope>(&mut panel, Role::Peer, threads);
        add::<ChannelPool>(&mut panel, Role::Peer, threads);
        add::<MutexPool>(&mut panel, Role::Peer, threads);
        add::<Windlass>(&mut panel, Role::Windlass, threads);
        tables.push(panel.run());
    }
}

fn add<P: TaskPool>(panel: &mut Panel, role: Role, threads: usize) {
    panel.add(role, P::NAME, move |clock| {
        let mut pool: P = started(threads, WARM_UP);
        verify(|| clock.time(|| pool.flat(TASKS, add_up)));
    });
}

fn verify(f: impl FnOnce()) {
    tally::verify(TASKS as u64 * ADDS, f);
}
