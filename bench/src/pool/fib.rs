//! `fib` and `pool_fib`: what a fork costs when there is nothing else to do.
//!
//! Threads are counted alike: chili's and forte's caller takes part and is one of them, rayon's waits, and windlass's
//! does either, in rows of their own.

use std::hint::black_box;

use super::peers::{self, all_workers, with_caller};
use super::windlass::{self, Crew, Pool};
use crate::suite;
use crate::suite::measure::{Effort, Extra, Panel, Row, Suite, Unit};

/// The n of `fib`, its value, and the calls it takes.
const N: u64 = 35;
const VALUE: u64 = 9_227_465;
const CALLS: u64 = calls(14_930_352);

/// Calls of fib(n), from the value of fib(n + 1).
const fn calls(next: u64) -> u64 {
    2 * next - 1
}

/// Two calls make a fork. With one thread only: the plain call has no more.
const FORK: Extra = Extra { label: "per fork over a call", of: fork_cost };

fn fork_cost(row: &Row, rows: &[Row]) -> Option<f64> {
    Some((row.median - rows[0].median) * 2.0)
}

pub fn run_fib(suite: &mut Suite) {
    for threads in [1, 2] {
        suite.measure(joined(threads));
    }
}

fn joined(threads: usize) -> Panel {
    let title = format!("fib({N}) by join, per call, {}", suite::threads(threads));
    let mut panel = Panel::new("fib", title, Unit::Nanoseconds).per(CALLS);
    if threads == 1 {
        panel = panel.extra(FORK);
    }
    panel.floor("plain call", |clock| check(VALUE, clock.time(|| plain(N))));
    let pool = peers::chili(threads);
    panel.peer(with_caller("chili", threads), move |clock| {
        check(VALUE, clock.time(|| in_chili(&mut pool.scope(), N)));
    });
    let pool = peers::rayon(threads);
    panel.peer(all_workers("rayon join", threads), move |clock| {
        check(VALUE, clock.time(|| pool.install(|| in_rayon(N))));
    });
    let pool = peers::Forte::start(threads);
    panel.peer(with_caller("forte", threads), move |clock| {
        check(VALUE, clock.time(|| pool.0.with_worker(|worker| in_forte(worker, N))));
    });
    for crew in Crew::of_both_kinds(threads) {
        panel.windlass(crew.named("windlass lane"), move |clock| {
            let fib = |pool: &Pool| pool.attach(|lane| windlass::fib_by_lane(lane, N));
            check(VALUE, clock.time(|| crew.run(fib)));
        });
    }
    for crew in Crew::of_both_kinds(threads) {
        panel.windlass(crew.named("windlass join"), move |clock| {
            check(VALUE, clock.time(|| crew.run(|pool| windlass::fib(pool, N))));
        });
    }
    panel
}

fn check(expected: u64, found: u64) {
    assert_eq!(found, expected, "the sum is wrong");
}

/// The second call is hidden from the optimiser, which would make a loop of it.
#[inline(never)]
fn plain(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    plain(n - 1) + black_box(plain(n - 2))
}

#[inline(never)]
fn in_chili(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = scope.join(|scope| in_chili(scope, n - 1), |scope| in_chili(scope, n - 2));
    a + b
}

#[inline(never)]
fn in_rayon(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| in_rayon(n - 1), || in_rayon(n - 2));
    a + b
}

#[inline(never)]
fn in_forte(worker: &forte::Worker, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = worker.join(|worker| in_forte(worker, n - 1), |worker| in_forte(worker, n - 2));
    a + b
}

const THREADS: usize = 2;

/// A way to compute fib(n) with two tasks for each call.
type SpawnedFib = fn(&'static Pool, u64) -> u64;

const FORMS: [(&str, SpawnedFib); 4] = [
    ("windlass, two spawns, wait_until", windlass::fib_by_predicate),
    ("windlass, two spawns, two waits", windlass::fib_by_handles),
    ("windlass, the same, older first", windlass::fib_by_handles_in_order),
    ("windlass, scope with two spawns", windlass::fib_by_scopes),
];

pub fn run_pool_fib(suite: &mut Suite) {
    suite.measure(spawned_in_new_pools());
    suite.measure(spawned(25, 75_025, calls(121_393)));
    suite.measure(spawned(28, 317_811, calls(514_229)));
    if suite.effort == Effort::Full {
        suite.measure(spawned(30, 832_040, calls(1_346_269)));
    }
}

/// As its origin has it: the pool begins and ends inside the timed part.
fn spawned_in_new_pools() -> Panel {
    let title = "fib(25), two tasks per call, pool created inside the timed part, whole, 2 threads";
    let mut panel = Panel::new("pool_fib", title, Unit::Milliseconds);
    let in_rayon = || peers::rayon(THREADS).install(|| scoped_in_rayon(25));
    panel.peer("rayon, scope with two spawns", move |clock| check(75_025, clock.time(in_rayon)));
    panel.peer("forte, scope with two spawns", |clock| {
        let in_forte = || peers::Forte::start(THREADS).0.with_worker(|worker| scoped_in_forte(worker, 25));
        check(75_025, clock.time(in_forte));
    });
    for (name, fib) in FORMS {
        panel.windlass(name, move |clock| {
            check(75_025, clock.time(|| Crew::all_workers(THREADS).run(move |pool| fib(pool, 25))));
        });
    }
    panel
}

fn spawned(n: u64, value: u64, calls: u64) -> Panel {
    let title = format!("fib({n}), two tasks per call, per call, 2 threads");
    let mut panel = Panel::new("pool_fib", title, Unit::Nanoseconds).per(calls);
    panel.floor("plain call", move |clock| check(value, clock.time(|| plain(n))));
    let pool = peers::rayon(THREADS);
    panel.peer("rayon, scope with two spawns", move |clock| {
        check(value, clock.time(|| pool.install(|| scoped_in_rayon(n))));
    });
    let pool = peers::Forte::start(THREADS);
    panel.peer("forte, scope with two spawns", move |clock| {
        check(value, clock.time(|| pool.0.with_worker(|worker| scoped_in_forte(worker, n))));
    });
    for (name, fib) in FORMS {
        let crew = Crew::all_workers(THREADS);
        panel.windlass(name, move |clock| check(value, clock.time(|| crew.run(move |pool| fib(pool, n)))));
    }
    panel
}

fn scoped_in_forte(worker: &forte::Worker, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (mut a, mut b) = (0, 0);
    worker.scope(|scope| {
        scope.spawn(|worker: &forte::Worker| a = scoped_in_forte(worker, n - 1));
        scope.spawn(|worker: &forte::Worker| b = scoped_in_forte(worker, n - 2));
    });
    a + b
}

fn scoped_in_rayon(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (mut a, mut b) = (0, 0);
    rayon::scope(|scope| {
        scope.spawn(|_| a = scoped_in_rayon(n - 1));
        scope.spawn(|_| b = scoped_in_rayon(n - 2));
    });
    a + b
}
