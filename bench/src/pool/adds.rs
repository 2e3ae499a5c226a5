//! `adds`: 500,000 tasks of 100 additions each from one outside thread, with more and more threads.

use std::hint::black_box;

use super::peers::{ChannelPool, MutexPool, RayonInPlace, RayonScope, TaskPool, started};
use super::windlass::{Windlass, WindlassMany};
use crate::report::grouped;
use crate::suite;
use crate::suite::measure::{Effort, Extra, Panel, Role, Suite, Unit};
use crate::suite::tally;

pub const TASKS: usize = 500_000;
pub const ADDS: u64 = 100;
pub const WARM_UP: usize = 100_000;

/// How many times as long as the plain loop.
const TO_LOOP: Extra = Extra { label: "to plain loop", of: |row, rows| Some(row.median / rows[0].median) };

/// A task.
pub fn add_up() {
    let mut sum = 0;
    for _ in 0..ADDS {
        sum = black_box(sum + 1);
    }
    tally::add(sum);
}

pub fn run(suite: &mut Suite) {
    let (thread_counts, tasks): (&[usize], usize) = match suite.effort {
        Effort::Full => (&[1, 2, 4, 8, 16, 32], TASKS),
        Effort::Quick => (&[2, 32], TASKS / 5),
    };
    for threads in thread_counts {
        suite.measure(panel(*threads, tasks));
    }
}

fn panel(threads: usize, tasks: usize) -> Panel {
    let title = format!("{} tasks of 100 adds from outside, {}", grouped(tasks as f64), suite::threads(threads));
    let mut panel = Panel::new("adds", title, Unit::Nanoseconds).per(tasks as u64).extra(TO_LOOP);
    panel.floor("plain loop", move |clock| verify(tasks, || clock.time(|| (0..tasks).for_each(|_| add_up()))));
    add::<RayonInPlace>(&mut panel, Role::Peer, threads, tasks);
    add::<RayonScope>(&mut panel, Role::Peer, threads, tasks);
    add::<ChannelPool>(&mut panel, Role::Peer, threads, tasks);
    add::<MutexPool>(&mut panel, Role::Peer, threads, tasks);
    add::<Windlass>(&mut panel, Role::Windlass, threads, tasks);
    add::<WindlassMany>(&mut panel, Role::Windlass, threads, tasks);
    panel
}

fn add<P: TaskPool>(panel: &mut Panel, role: Role, threads: usize, tasks: usize) {
    panel.add(role, P::NAME, move |clock| {
        let mut pool: P = started(threads, WARM_UP);
        verify(tasks, || clock.time(|| pool.flat(tasks, add_up)));
    });
}

fn verify(tasks: usize, f: impl FnOnce()) {
    tally::verify(tasks as u64 * ADDS, f);
}
