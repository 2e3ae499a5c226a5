//! `fib` and `pool_fib`: what a fork costs when there is nothing else to do.
//!
//! The peers' threads are counted alike: chili's and forte's caller takes part and is one of them; rayon's and
//! windlass's caller waits.

use std::hint::black_box;

use super::measure::{Extra, Panel, Row, Table, Unit};
use super::{peers, windlass};

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

pub fn run_fib(tables: &mut Vec<Table>) {
    for threads in [1, 2] {
        tables.push(joined(threads));
    }
}

fn joined(threads: usize) -> Table {
    let title = format!("fib({N}) by join, per call, {}", super::threads(threads));
    let mut panel = Panel::new("fib", title, Unit::Nanoseconds).per(CALLS);
    if threads == 1 {
        panel = panel.extra(FORK);
    }
    panel.floor("plain call", |clock| check(VALUE, clock.time(|| plain(N))));
    let pool = peers::chili(threads);
    panel.peer("chili", move |clock| check(VALUE, clock.time(|| in_chili(&mut pool.scope(), N))));
    let pool = peers::rayon(threads);
    panel.peer("rayon join", move |clock| check(VALUE, clock.time(|| pool.install(|| in_rayon(N)))));
    let pool = peers::Forte::start(threads);
    panel.peer("forte", move |clock| {
        check(VALUE, clock.time(|| pool.0.with_worker(|worker| in_forte(worker, N))));
    });
    let pool = windlass::pool(threads);
    panel.windlass("windlass join", move |clock| {
        check(VALUE, clock.time(|| windlass::within(&pool, || windlass::fib(&pool, N))));
    });
    panel.run()
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

pub fn run_pool_fib(tables: &mut Vec<Table>) {
    tables.push(spawned_in_new_pools());
    for (n, value, next) in [(25, 75_025, 121_393), (30, 832_040, 1_346_269)] {
        tables.push(spawned(n, value, calls(next)));
    }
}

/// As its origin has it: the pool begins and ends inside the timed part.
fn spawned_in_new_pools() -> Table {
    let title = "fib(25), two tasks per call, pool created inside the timed part, whole, 2 threads";
    let mut panel = Panel::new("pool_fib", title, Unit::Milliseconds);
    let in_rayon = || peers::rayon(THREADS).install(|| scoped_in_rayon(25));
    panel.peer("rayon, scope with two spawns", move |clock| check(75_025, clock.time(in_rayon)));
    panel.windlass("windlass, two spawns and waits", |clock| {
        check(75_025, clock.time(|| windlass::spawned_fib_in_new_pool(THREADS, 25)));
    });
    panel.windlass("windlass, scope with two spawns", |clock| {
        let run = || {
            let pool = windlass::pool(THREADS);
            windlass::within(&pool, || windlass::scoped_fib(&pool, 25))
        };
        check(75_025, clock.time(run));
    });
    panel.run()
}

fn spawned(n: u64, value: u64, calls: u64) -> Table {
    let title = format!("fib({n}), two tasks per call, per call, 2 threads");
    let mut panel = Panel::new("pool_fib", title, Unit::Nanoseconds).per(calls);
    panel.floor("plain call", move |clock| check(value, clock.time(|| plain(n))));
    let pool = peers::rayon(THREADS);
    panel.peer("rayon, scope with two spawns", move |clock| {
        check(value, clock.time(|| pool.install(|| scoped_in_rayon(n))));
    });
    let pool = windlass::kept_pool(THREADS);
    panel.windlass("windlass, two spawns and waits", move |clock| {
        check(value, clock.time(|| windlass::within(pool, || windlass::spawned_fib(&pool, n))));
    });
    let pool = windlass::pool(THREADS);
    panel.windlass("windlass, scope with two spawns", move |clock| {
        check(value, clock.time(|| windlass::within(&pool, || windlass::scoped_fib(&pool, n))));
    });
    panel.run()
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
