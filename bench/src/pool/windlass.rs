//! Every use of the measured pool: one small function for each workload.
//!
//! Joins and loops come in two forms ([`Crew`]): the calling thread takes part, as those of chili and forte do, or it
//! waits and workers do everything, as with rayon. Tasks from outside come from the calling thread.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use windlass_pool::Pool;
use windlass_pool::{Lane, PoolConfig, Scope};

use super::coarse::spin;
use super::peers::{Countdown, TaskPool, all_workers, answered, with_caller};
use super::tree::Node;

/// Pieces of an indexed loop that is cut by hand.
const PIECES: u64 = 64;

pub fn pool(threads: usize) -> Pool {
    Pool::with(PoolConfig::with_threads(threads)).unwrap()
}

/// A pool that lives for ever, so that its tasks may hold it by reference; its threads end with this handle.
pub struct Kept(pub &'static Pool);

impl Kept {
    pub fn start(threads: usize) -> Kept {
        Kept(Box::leak(Box::new(pool(threads))))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.stop();
        self.0.join_threads();
    }
}

/// Runs `f` on a worker, and waits for its value without taking part.
pub fn on_worker<R: Send + 'static>(pool: &Pool, f: impl FnOnce() -> R + Send + 'static) -> R {
    pool.spawn(f).wait_blocking()
}

/// So many threads, and whether the caller is one of them.
pub struct Crew {
    kept: Kept,
    threads: usize,
    caller_takes_part: bool,
}

impl Crew {
    /// One worker less than threads; the caller is the last of them.
    pub fn with_caller(threads: usize) -> Crew {
        Crew { kept: Kept::start(threads - 1), threads, caller_takes_part: true }
    }

    /// As many workers as threads. The work begins on one of them.
    pub fn all_workers(threads: usize) -> Crew {
        Crew { kept: Kept::start(threads), threads, caller_takes_part: false }
    }

    /// Both kinds. There is no pool without a worker, so with one thread there is one kind.
    pub fn of_both_kinds(threads: usize) -> Vec<Crew> {
        let with_caller = (threads > 1).then(|| Crew::with_caller(threads));
        with_caller.into_iter().chain([Crew::all_workers(threads)]).collect()
    }

    /// What its row is called.
    pub fn named(&self, name: &str) -> String {
        if self.caller_takes_part { with_caller(name, self.threads) } else { all_workers(name, self.threads) }
    }

    pub fn run<R: Send + 'static>(&self, f: impl FnOnce(&'static Pool) -> R + Send + 'static) -> R {
        let pool = self.kept.0;
        if self.caller_takes_part { f(pool) } else { on_worker(pool, move || f(pool)) }
    }
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

/// `fib`: a join for each call, which passes the lane on.
#[inline(never)]
pub fn fib_by_lane(lane: &Lane, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = lane.join(|lane| fib_by_lane(lane, n - 1), |lane| fib_by_lane(lane, n - 2));
    a + b
}

/// `tree`: a join for each node.
pub fn sum(pool: &Pool, node: &Node) -> u64 {
    let side = |child: &Option<Box<Node>>| child.as_deref().map_or(0, |child| sum(pool, child));
    let (left, right) = pool.join(|| side(&node.left), || side(&node.right));
    node.value + left + right
}

/// `tree`: a join for each node, which passes the lane on.
pub fn sum_by_lane(lane: &Lane, node: &Node) -> u64 {
    let (left, right) = lane.join(
        |lane| node.left.as_deref().map_or(0, |child| sum_by_lane(lane, child)),
        |lane| node.right.as_deref().map_or(0, |child| sum_by_lane(lane, child)),
    );
    node.value + left + right
}

/// `coarse`: two spins.
pub fn spin_pair(pool: &Pool, a: Duration, b: Duration) {
    pool.join(|| spin(a), || spin(b));
}

/// `coarse`: two pairs of spins.
pub fn spin_pairs(pool: &Pool, [a, b, c, d]: [Duration; 4]) {
    pool.join(|| spin_pair(pool, a, b), || spin_pair(pool, c, d));
}

/// `pool_fib`: two tasks for each call, and a wait until a predicate holds.
///
/// The origin's tasks write to their caller's stack. These share an allocation with it, which costs a `malloc`.
pub fn fib_by_predicate(pool: &'static Pool, n: u64) -> u64 {
    /// What a task has not written yet.
    const UNKNOWN: u64 = u64::MAX;
    if n < 2 {
        return n;
    }
    let answers = Arc::new([AtomicU64::new(UNKNOWN), AtomicU64::new(UNKNOWN)]);
    for (place, n) in [n - 1, n - 2].into_iter().enumerate() {
        let answers = Arc::clone(&answers);
        // ORDER: Release; pairs with the load in the predicate.
        pool.spawn_detached(move || answers[place].store(fib_by_predicate(pool, n), Ordering::Release));
    }
    // ORDER: Acquire; pairs with the tasks' stores.
    let read = || answers.each_ref().map(|answer| answer.load(Ordering::Acquire));
    pool.wait_until(|| read().iter().all(|answer| *answer != UNKNOWN));
    read().iter().sum()
}

/// `pool_fib`: two tasks for each call, and a wait for each of them: for the one that was spawned last, which nobody is
/// likely to have taken, first.
pub fn fib_by_handles(pool: &'static Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let spawn = |n: u64| pool.spawn(move || fib_by_handles(pool, n));
    let (a, b) = (spawn(n - 1), spawn(n - 2));
    b.wait() + a.wait()
}

/// `pool_fib`: the same, with the waits in the order of the tasks.
pub fn fib_by_handles_in_order(pool: &'static Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let spawn = |n: u64| pool.spawn(move || fib_by_handles_in_order(pool, n));
    let (a, b) = (spawn(n - 1), spawn(n - 2));
    a.wait() + b.wait()
}

/// `pool_fib`: two tasks for each call, in a scope of their own.
pub fn fib_by_scopes(pool: &'static Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (mut a, mut b) = (0, 0);
    pool.scope(|scope| {
        scope.spawn(|_| a = fib_by_scopes(pool, n - 1));
        scope.spawn(|_| b = fib_by_scopes(pool, n - 2));
    });
    a + b
}

/// `range`: the sum of a range, as the pool cuts it.
pub fn range_sum(pool: &Pool, len: u64) -> u64 {
    pool.map_reduce(0..len as usize, || 0, |item| black_box(item) as u64, |a, b| a + b)
}

/// `range`: the sum of a range, cut by hand into a few pieces.
pub fn range_sum_in_pieces(pool: &Pool, len: u64) -> u64 {
    let mut sums = [0; PIECES as usize];
    pool.for_each_chunk(&mut sums, 1, |piece, sum| {
        let (start, end) = (len * piece as u64 / PIECES, len * (piece as u64 + 1) / PIECES);
        sum[0] = (start..end).map(black_box).sum();
    });
    sums.iter().sum()
}

/// `range`: the sum of a range, halved by joins down to single items.
pub fn range_sum_by_items(pool: &Pool, len: u64) -> u64 {
    fn sum(lane: &Lane, range: Range<u64>) -> u64 {
        if range.end - range.start < 2 {
            return range.map(black_box).sum();
        }
        let middle = range.start + (range.end - range.start) / 2;
        let (left, right) = lane.join(|lane| sum(lane, range.start..middle), |lane| sum(lane, middle..range.end));
        left + right
    }
    pool.attach(|lane| sum(lane, 0..len))
}

/// A closure for `spawn_many` of a scope.
fn many<'scope>(count: usize, task: fn()) -> impl Iterator<Item = impl FnOnce(&Scope<'scope>) + Send> {
    (0..count).map(move |_| move |_: &Scope<'scope>| task())
}

/// Tasks from outside, in a scope.
pub struct Windlass(Pool);

impl TaskPool for Windlass {
    const NAME: &'static str = "windlass scope";
    const NAME_OF_ONE: &'static str = "windlass spawn + wait";

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

/// Tasks from outside, in a scope, many at a time.
pub struct WindlassScopeMany(Pool);

impl TaskPool for WindlassScopeMany {
    const NAME: &'static str = "windlass scope, spawn_many";
    const NAME_OF_ONE: &'static str = "windlass scope of one";

    fn start(threads: usize) -> WindlassScopeMany {
        WindlassScopeMany(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        self.0.scope(|scope| scope.spawn_many(many(count, task)));
    }

    fn one(&mut self, value: u64) -> u64 {
        let mut answer = 0;
        self.0.scope(|scope| scope.spawn(|_| answer = value + 1));
        answer
    }
}

/// Tasks from outside that are prepared: the many keep a root open, as LibZ.Jobs has it.
pub struct WindlassPrepared(Pool);

impl TaskPool for WindlassPrepared {
    const NAME: &'static str = "windlass prepared, under a root";
    const NAME_OF_ONE: &'static str = "windlass prepare + run";

    fn start(threads: usize) -> WindlassPrepared {
        WindlassPrepared(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let root = self.0.prepare(|| ());
        for _ in 0..count {
            let child = self.0.prepare(task);
            child.finish_with(&root).expect("the root has not ended");
            child.schedule_detached();
        }
        root.schedule().wait();
    }

    fn one(&mut self, value: u64) -> u64 {
        self.0.prepare(move || value + 1).run()
    }
}

/// Tasks from outside that nobody has the handles of, many at a time; the pool is waited for.
pub struct WindlassMany(Pool);

impl TaskPool for WindlassMany {
    const NAME: &'static str = "windlass spawn_many + wait_idle";

    fn start(threads: usize) -> WindlassMany {
        WindlassMany(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        self.0.spawn_many((0..count).map(|_| task));
        self.0.wait_idle();
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| self.0.spawn_many([task]))
    }
}

/// Tasks from outside that nobody has the handles of, one at a time; what they have done is counted outside the pool.
pub struct WindlassDetached(Pool);

impl TaskPool for WindlassDetached {
    const NAME: &'static str = "windlass spawn_detached";
    const NAME_OF_ONE: &'static str = "windlass spawn_detached + channel";

    fn start(threads: usize) -> WindlassDetached {
        WindlassDetached(pool(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let countdown = Countdown::new(count);
        for _ in 0..count {
            let countdown = Arc::clone(&countdown);
            self.0.spawn_detached(move || {
                task();
                countdown.count_down();
            });
        }
        countdown.wait();
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| self.0.spawn_detached(task))
    }
}

/// Tasks that a worker spawns into a scope; the one task is left to a worker.
pub struct WindlassWithin(Kept);

impl TaskPool for WindlassWithin {
    const NAME: &'static str = "windlass scope, from a worker";
    const NAME_OF_ONE: &'static str = "windlass spawn + wait_blocking";

    fn start(threads: usize) -> WindlassWithin {
        WindlassWithin(Kept::start(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let pool = self.0.0;
        on_worker(pool, move || pool.scope(|scope| (0..count).for_each(|_| scope.spawn(move |_| task()))));
    }

    fn one(&mut self, value: u64) -> u64 {
        self.0.0.spawn(move || value + 1).wait_blocking()
    }
}

/// Tasks that a worker spawns into a scope, many at a time.
pub struct WindlassWithinMany(Kept);

impl TaskPool for WindlassWithinMany {
    const NAME: &'static str = "windlass spawn_many, from a worker";

    fn start(threads: usize) -> WindlassWithinMany {
        WindlassWithinMany(Kept::start(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let pool = self.0.0;
        on_worker(pool, move || pool.scope(|scope| scope.spawn_many(many(count, task))));
    }

    fn one(&mut self, value: u64) -> u64 {
        on_worker(self.0.0, move || value + 1)
    }
}
