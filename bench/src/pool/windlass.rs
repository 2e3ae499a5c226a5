//! Every use of the measured pool: one small function for each workload.
//!
//! Joins and loops begin on a worker ([`within`]), as the peers' begin on theirs; tasks from outside come from the
//! calling thread.

use std::hint::black_box;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use windlass_pool::Pool;
use windlass_pool::PoolConfig;

use super::coarse::spin;
use super::peers::{Countdown, TaskPool, answered};
use super::tree::Node;

/// Pieces of an indexed loop.
const CHUNKS: u64 = 64;

pub fn pool(threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap()
}

/// Runs `f` on a worker, and waits for its value.
pub fn within<R: Send>(pool: &Pool, f: impl FnOnce() -> R + Send) -> R {
    let mut value = None;
    pool.scope(|scope| scope.spawn(|_| value = Some(f())));
    value.expect("the scope has waited")
}

/// `fib`: a join for each call.
#[inline(never)]
pub fn fib(pool: &Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = pool.join(|| fib(pool, n - 1), || fib(pool, n - 2));
    a + b
}

/// `tree`: a join for each node.
pub fn sum(pool: &Pool, node: &Node) -> u64 {
    let side = |child: &Option<Box<Node>>| child.as_deref().map_or(0, |child| sum(pool, child));
    let (left, right) = pool.join(|| side(&node.left), || side(&node.right));
    node.value + left + right
}

/// `coarse`: two spins, from outside.
pub fn spin_pair(pool: &Pool, a: Duration, b: Duration) {
    pool.join(|| spin(a), || spin(b));
}

/// `coarse`: two pairs of spins, from outside.
pub fn spin_pairs(pool: &Pool, [a, b, c, d]: [Duration; 4]) {
    pool.join(|| spin_pair(pool, a, b), || spin_pair(pool, c, d));
}

/// `pool_fib`: two tasks for each call, and a wait for each of them.
pub fn spawned_fib<P>(pool: &P, n: u64) -> u64
where
    P: Deref<Target = Pool> + Clone + Send + 'static,
{
    if n < 2 {
        return n;
    }
    let spawn = |n: u64| {
        let inner = pool.clone();
        pool.spawn(move || spawned_fib(&inner, n))
    };
    let (a, b) = (spawn(n - 1), spawn(n - 2));
    a.wait() + b.wait()
}

/// `pool_fib`: two tasks for each call, in a scope of their own.
pub fn scoped_fib(pool: &Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (mut a, mut b) = (0, 0);
    pool.scope(|scope| {
        scope.spawn(|_| a = scoped_fib(pool, n - 1));
        scope.spawn(|_| b = scoped_fib(pool, n - 2));
    });
    a + b
}

/// `pool_fib`: a pool made for one run, whose tasks hold it.
pub fn spawned_fib_in_new_pool(threads: usize, n: u64) -> u64 {
    let pool = Arc::new(pool(threads));
    within(&pool, || spawned_fib(&pool, n))
}

/// `pool_fib`: a pool that is kept; its tasks copy a reference to it. The first call says how many threads it has.
pub fn kept_pool(threads: usize) -> &'static Pool {
    static KEPT: OnceLock<Pool> = OnceLock::new();
    KEPT.get_or_init(|| pool(threads))
}

/// `range`: the sum of a range, item by item.
pub fn range_sum(pool: &Pool, len: u64) -> u64 {
    let mut sums = [0; CHUNKS as usize];
    pool.scope(|scope| {
        for (chunk, sum) in (0..).zip(&mut sums) {
            let (start, end) = (len * chunk / CHUNKS, len * (chunk + 1) / CHUNKS);
            scope.spawn(move |_| *sum = (start..end).map(black_box).sum());
        }
    });
    sums.iter().sum()
}

/// Tasks from outside.
pub struct Windlass(Pool);

impl TaskPool for Windlass {
    const NAME: &'static str = "windlass scope";
    const NAME_OF_ONE: &'static str = "windlass spawn + wait (or runs it)";

    fn start(threads: usize) -> Windlass {
        Windlass(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        self.0.scope(|scope| (0..count).for_each(|_| scope.spawn(move |_| task())));
    }

    fn one(&mut self, value: u64) -> u64 {
        self.0.spawn(move || value + 1).wait()
    }
}

/// Tasks from outside that nobody's scope waits for: only workers run them.
pub struct WindlassSpawn(Pool);

impl TaskPool for WindlassSpawn {
    const NAME: &'static str = "windlass spawn";
    const NAME_OF_ONE: &'static str = "windlass spawn + channel";

    fn start(threads: usize) -> WindlassSpawn {
        WindlassSpawn(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let countdown = Countdown::new(count);
        for _ in 0..count {
            let countdown = Arc::clone(&countdown);
            drop(self.0.spawn(move || {
                task();
                countdown.count_down();
            }));
        }
        countdown.wait();
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| drop(self.0.spawn(task)))
    }
}

/// Tasks that a worker spawns.
pub struct WindlassWithin(Pool);

impl TaskPool for WindlassWithin {
    const NAME: &'static str = "windlass scope, from a worker";

    fn start(threads: usize) -> WindlassWithin {
        WindlassWithin(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let pool = &self.0;
        within(pool, || pool.scope(|scope| (0..count).for_each(|_| scope.spawn(move |_| task()))));
    }

    fn one(&mut self, value: u64) -> u64 {
        within(&self.0, || value + 1)
    }
}
