//! `flat` and `ordered`: empty tasks from one outside thread, all at once or one after the other.
//!
//! `ordered` is at the scheduler's mercy, like `one`, whose text says how.

use std::hint::black_box;

use super::peers::{
    ChannelPool, MutexPool, RayonInPlace, RayonScope, RayonSpawn, TaskPool, Threadpool, Tokio, started,
};
use super::windlass::{
    Windlass, WindlassDetached, WindlassMany, WindlassPrepared, WindlassScopeMany, WindlassWithin, WindlassWithinMany,
};
use crate::report::grouped;
use crate::suite::measure::{Effort, Panel, Role, Suite, Unit};
use crate::suite::tally;

const THREADS: usize = 2;

/// How many tasks, and how many samples of them in one turn.
const SIZES: [(usize, usize); 3] = [(2_047, 15), (100_000, 1), (1_000_000, 1)];

pub fn run_flat(suite: &mut Suite) {
    let sizes = match suite.effort {
        Effort::Full => &SIZES[..],
        Effort::Quick => &SIZES[..2],
    };
    for (count, samples) in sizes {
        suite.measure(flat(*count, *samples));
    }
}

fn flat(count: usize, samples: usize) -> Panel {
    let title = format!("{} empty tasks from outside, per task, 2 threads", grouped(count as f64));
    let mut panel = Panel::new("flat", title, Unit::Nanoseconds).per(count as u64);
    panel.floor("plain loop", move |clock| {
        tally::verify(count as u64, || clock.time(|| (0..count).for_each(|_| black_box(tally::add_one as fn())())));
    });
    add_flat::<RayonInPlace>(&mut panel, Role::Peer, count, samples);
    add_flat::<RayonScope>(&mut panel, Role::Peer, count, samples);
    add_flat::<RayonSpawn>(&mut panel, Role::Peer, count, samples);
    add_flat::<Tokio>(&mut panel, Role::Peer, count, samples);
    add_flat::<Threadpool>(&mut panel, Role::Peer, count, samples);
    add_flat::<ChannelPool>(&mut panel, Role::Peer, count, samples);
    add_flat::<MutexPool>(&mut panel, Role::Peer, count, samples);
    add_flat::<Windlass>(&mut panel, Role::Windlass, count, samples);
    add_flat::<WindlassScopeMany>(&mut panel, Role::Windlass, count, samples);
    add_flat::<WindlassPrepared>(&mut panel, Role::Windlass, count, samples);
    add_flat::<WindlassMany>(&mut panel, Role::Windlass, count, samples);
    add_flat::<WindlassDetached>(&mut panel, Role::Windlass, count, samples);
    add_flat::<WindlassWithin>(&mut panel, Role::Windlass, count, samples);
    add_flat::<WindlassWithinMany>(&mut panel, Role::Windlass, count, samples);
    panel
}

fn add_flat<P: TaskPool>(panel: &mut Panel, role: Role, count: usize, samples: usize) {
    panel.add(role, P::NAME, move |clock| {
        let mut pool: P = started(THREADS, count);
        for _ in 0..samples {
            tally::verify(count as u64, || clock.time(|| pool.flat(count, tally::add_one)));
        }
    });
}

const ORDERED: u64 = 2_047;

pub fn run_ordered(suite: &mut Suite) {
    let title = "2 047 times spawn one task and wait for it, per task, 2 threads";
    let mut panel = Panel::new("ordered", title, Unit::Nanoseconds).per(ORDERED);
    add_ordered::<RayonInPlace>(&mut panel, Role::Peer);
    add_ordered::<RayonScope>(&mut panel, Role::Peer);
    add_ordered::<RayonSpawn>(&mut panel, Role::Peer);
    add_ordered::<Tokio>(&mut panel, Role::Peer);
    add_ordered::<Threadpool>(&mut panel, Role::Peer);
    add_ordered::<ChannelPool>(&mut panel, Role::Peer);
    add_ordered::<MutexPool>(&mut panel, Role::Peer);
    add_ordered::<Windlass>(&mut panel, Role::Windlass);
    add_ordered::<WindlassPrepared>(&mut panel, Role::Windlass);
    add_ordered::<WindlassWithin>(&mut panel, Role::Windlass);
    add_ordered::<WindlassDetached>(&mut panel, Role::Windlass);
    suite.measure(panel);
}

/// Each task counts on from the one before.
fn add_ordered<P: TaskPool>(panel: &mut Panel, role: Role) {
    let mut pool = P::start(THREADS);
    panel.add(role, P::NAME_OF_ONE, move |clock| {
        let last = clock.time(|| (0..ORDERED).fold(0, |value, _| pool.one(value)));
        assert_eq!(last, ORDERED, "a task was lost");
    });
}
