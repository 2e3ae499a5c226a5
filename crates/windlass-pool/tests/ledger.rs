//! The ledger: every task is run exactly once, or dropped unrun and said to be, whatever is done to the pool meanwhile.
//!
//! Each task has an entry: a number, and a mark that may be set once. A scenario gives out entries to tasks that it spawns
//! in one of the ways the pool offers; afterwards every entry must have its mark, none two, and the sum of their names by
//! exclusive or must be right. Every round has a seed, from which follows what it does; threads add the rest.
//!
//! `WINDLASS_LEDGER_SEED` repeats a round that failed, `WINDLASS_LEDGER_TASKS` says how many tasks there are to be in all
//! (10⁷ if it says nothing). `cargo xtask soak --only ledger` goes on for as long as one likes.
#![expect(clippy::print_stdout, reason = "the watcher tells which round hangs before it ends the process")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use windlass_pool::{Pool, PoolConfig, Prepared, Priority, Scope, Shutdown, Task, TaskError, TaskOptions};

/// Entries of one round, at most.
const ENTRIES_MAX: u32 = 1 << 19;
/// Tasks in all, if nobody says otherwise.
const TASKS: u64 = 10_000_000;
/// A round takes some tenths of a second: one that takes so long hangs.
const ROUND_TIME_MAX: Duration = Duration::from_secs(60);

const NEW: u8 = 0;
const RUN: u8 = 1;
const DROPPED: u8 = 2;

/// The ledger of the round. One for the process: an entry is a number then, and costs its task nothing.
static MARKS: [AtomicU8; ENTRIES_MAX as usize] = [const { AtomicU8::new(NEW) }; ENTRIES_MAX as usize];
static LEDGER: Ledger = Ledger {
    len: AtomicU32::new(0),
    given: AtomicU32::new(0),
    run: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
    twice: AtomicU64::new(0),
    names: AtomicU64::new(0),
};
/// One round at a time.
static TURN: Mutex<()> = Mutex::new(());

struct Ledger {
    /// Entries there are, and entries given out.
    len: AtomicU32,
    given: AtomicU32,
    run: AtomicU64,
    dropped: AtomicU64,
    /// Entries that were to be marked a second time.
    twice: AtomicU64,
    /// The names of all entries that were marked, by exclusive or.
    names: AtomicU64,
}

/// What a round has come to.
#[derive(Clone, Copy, Default)]
struct Totals {
    rounds: u64,
    run: u64,
    dropped: u64,
}

impl Ledger {
    fn open(&self, len: u32) {
        MARKS[..len as usize].iter().for_each(|mark| mark.store(NEW, Ordering::Relaxed));
        self.len.store(len, Ordering::SeqCst);
        self.given.store(0, Ordering::SeqCst);
        for count in [&self.run, &self.dropped, &self.twice, &self.names] {
            count.store(0, Ordering::SeqCst);
        }
    }

    /// The next entry, while there are any.
    fn take(&self) -> Option<Entry> {
        let len = self.len.load(Ordering::Relaxed);
        if self.given.load(Ordering::Relaxed) >= len {
            return None;
        }
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        // Not `then_some`: an entry that is made and dropped is marked.
        (number < len).then(|| Entry(number))
    }

    fn settled(&self) -> u64 {
        self.run.load(Ordering::SeqCst) + self.dropped.load(Ordering::SeqCst)
    }

    /// Every entry was given out, and marked once.
    fn check(&self) {
        let len = self.len.load(Ordering::SeqCst);
        let missing = (0..len).filter(|number| mark_of(*number) == NEW).count();
        assert_eq!(missing, 0, "entries that were neither run nor dropped");
        assert_eq!(self.twice.load(Ordering::SeqCst), 0, "entries that were marked twice");
        assert_eq!(self.settled(), u64::from(len), "the marks add up");
        let names = (0..len).fold(0, |sum, number| sum ^ name_of(number));
        assert_eq!(self.names.load(Ordering::SeqCst), names, "the names add up");
    }
}

fn mark_of(number: u32) -> u8 {
    MARKS[number as usize].load(Ordering::Acquire)
}

/// A number that differs from its neighbours in many bits.
fn name_of(number: u32) -> u64 {
    splitmix(u64::from(number) + 1)
}

fn splitmix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The entry of one task: marked as run by the task, or as dropped with its closure.
struct Entry(u32);

impl Entry {
    fn run(self) {
        self.mark(RUN);
        LEDGER.run.fetch_add(1, Ordering::Relaxed);
        std::mem::forget(self);
    }

    fn mark(&self, mark: u8) {
        let place = &MARKS[self.0 as usize];
        if place.compare_exchange(NEW, mark, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            LEDGER.twice.fetch_add(1, Ordering::Relaxed);
        }
        LEDGER.names.fetch_xor(name_of(self.0), Ordering::Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.mark(DROPPED);
        LEDGER.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// xorshift (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(splitmix(seed) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A pool of any size and shape.
fn any_config(random: &mut Random) -> PoolConfig {
    let threads = random.one_of(&[1, 2, 2, 3, 4, 8, 64]);
    PoolConfig {
        threads,
        stack_size: 512 << 10,
        slot_count_max: random.one_of(&[1, 2, 7, 64, 1_000, 1 << 16, 1 << 16, 1 << 19]),
        spin: random.one_of(&[None, Some(Duration::ZERO), Some(Duration::from_micros(50))]),
        // Every fourth pool has all its threads on one processor.
        pinned_to: if random.below(4) == 0 { vec![0; threads] } else { Vec::new() },
        ..PoolConfig::default()
    }
}

fn any_pool(random: &mut Random) -> Arc<Pool> {
    Arc::new(Pool::with(any_config(random)).unwrap())
}

/// One way to use a pool: gives out all entries.
type Scenario = fn(&mut Random);

const SCENARIOS: &[Scenario] =
    &[bursts, trees, handles, strangers, structured, graphs, shutdowns, restarts, bursts_of_many, crowds];

/// From one outside thread, before the pool is started and after: long rings that grow, and are stolen from.
fn bursts(random: &mut Random) {
    let pool = Pool::unstarted(any_config(random)).unwrap();
    let early = random.below(100_000);
    (0..early).map_while(|_| LEDGER.take()).for_each(|entry| pool.spawn_detached(|| entry.run()));
    pool.start().unwrap();
    while let Some(entry) = LEDGER.take() {
        pool.spawn_detached(|| entry.run());
    }
    if random.below(2) == 0 {
        pool.wait_idle();
        LEDGER.check();
    }
}

/// As above, many at a time, with an iterator that now and then stops by a panic.
fn bursts_of_many(random: &mut Random) {
    let pool = any_pool(random);
    while LEDGER.given.load(Ordering::Relaxed) < LEDGER.len.load(Ordering::Relaxed) {
        let (len, stop) = (random.below(2_000), random.below(10_000));
        let entry = |number| {
            if number == stop {
                resume_unwind(Box::new("on purpose"));
            }
            LEDGER.take()
        };
        if random.below(2) == 0 {
            let tasks = (0..len).map_while(entry).map(|entry| || entry.run());
            let _ = catch_unwind(AssertUnwindSafe(|| pool.spawn_many(tasks)));
        } else {
            let tasks = (0..len).map_while(entry).map(|entry| |_: &Scope<'_>| entry.run());
            let _ = catch_unwind(AssertUnwindSafe(|| pool.scope(|s| s.spawn_many(tasks))));
        }
    }
    pool.wait_idle();
}

/// Tasks that spawn tasks, on whichever worker has stolen them.
fn trees(random: &mut Random) {
    fn grow(pool: &Arc<Pool>, entry: Entry, children: u64) {
        entry.run();
        for _ in 0..children {
            let Some(entry) = LEDGER.take() else { return };
            let inner = Arc::clone(pool);
            pool.spawn_detached(move || grow(&inner, entry, children));
        }
    }
    let pool = any_pool(random);
    let children = 1 + random.below(4);
    while let Some(entry) = LEDGER.take() {
        let inner = Arc::clone(&pool);
        pool.spawn_detached(move || grow(&inner, entry, children));
        pool.wait_idle();
    }
}

/// What can be done with a handle, by an outside thread and by tasks: wait in every way, cancel, drop, hand on.
fn handles(random: &mut Random) {
    fn use_handles(pool: &Pool, random: &mut Random) {
        let mut held = Vec::new();
        while let Some(entry) = LEDGER.take() {
            let number = entry.0;
            held.push((number, pool.spawn(|| entry.run())));
            if held.len() as u64 > random.below(100) {
                let place = random.below(held.len() as u64) as usize;
                let (number, task) = held.swap_remove(place);
                use_handle(number, task, random);
            }
        }
        held.into_iter().for_each(|(number, task)| use_handle(number, task, random));
    }
    fn use_handle(number: u32, task: Task<()>, random: &mut Random) {
        match random.below(16) {
            0 => drop(task),
            1 => task.wait_blocking(),
            2 => drop(task.wait_timeout(Duration::from_micros(random.below(20))).map_err(Task::wait)),
            3..6 => {
                // Who cancels it knows it, and nobody else does.
                let is_mine = task.cancel();
                assert!(!task.cancel());
                let outcome = task.wait_result();
                assert_eq!(matches!(outcome, Err(TaskError::Cancelled)), is_mine);
                assert_eq!(mark_of(number), if is_mine { DROPPED } else { RUN });
            }
            _ => task.wait(),
        }
    }
    let pool = any_pool(random);
    let tasks: Vec<Task<()>> = (0..random.below(3))
        .map(|_| {
            let (inner, mut random) = (Arc::clone(&pool), Random::new(random.next()));
            pool.spawn(move || use_handles(&inner, &mut random))
        })
        .collect();
    use_handles(&pool, random);
    tasks.into_iter().for_each(Task::wait);
    pool.wait_idle();
}

/// Outside threads that come, spawn, and go without looking back.
fn strangers(random: &mut Random) {
    let pool = any_pool(random);
    while LEDGER.given.load(Ordering::Relaxed) < LEDGER.len.load(Ordering::Relaxed) {
        std::thread::scope(|threads| {
            for _ in 0..1 + random.below(6) {
                let (pool, count, is_held) = (&pool, random.below(5_000), random.below(2) == 0);
                threads.spawn(move || {
                    for entry in (0..count).map_while(|_| LEDGER.take()) {
                        if is_held {
                            drop(pool.spawn(|| entry.run()));
                        } else {
                            pool.spawn_detached(|| entry.run());
                        }
                    }
                });
            }
        });
    }
    pool.wait_idle();
}

/// Scopes in scopes, joins in joins, loops, and each in each.
fn structured(random: &mut Random) {
    fn split(pool: &Pool, random: &mut Random, depth: u64) {
        if depth == 0 {
            LEDGER.take().into_iter().for_each(Entry::run);
            return;
        }
        let (mut left, mut right) = (Random::new(random.next()), Random::new(random.next()));
        match random.below(8) {
            0 => pool.scope(|s| {
                s.spawn(|s| {
                    s.spawn(|_| split(pool, &mut left, depth - 1));
                    LEDGER.take().into_iter().for_each(Entry::run);
                });
                s.spawn(|_| split(pool, &mut right, depth - 1));
            }),
            1 => pool.for_each(0..50, |_| LEDGER.take().into_iter().for_each(Entry::run)),
            _ => {
                pool.join(|| split(pool, &mut left, depth - 1), || split(pool, &mut right, depth - 1));
            }
        }
    }
    let pool = any_pool(random);
    while LEDGER.given.load(Ordering::Relaxed) < LEDGER.len.load(Ordering::Relaxed) {
        let depth = 1 + random.below(14);
        split(&pool, random, depth);
    }
}

/// Prepared tasks with ties at random: each runs after all it follows, and ends after all that keep it open.
fn graphs(random: &mut Random) {
    let config = any_config(random);
    let pool = Pool::with(PoolConfig { slot_count_max: 1 << 16, ..config }).unwrap();
    let mut is_over = false;
    while !is_over {
        let len = 1 + random.below(300);
        let entries: Vec<Entry> = (0..len).map_while(|_| LEDGER.take()).collect();
        is_over = entries.len() < len as usize;
        one_graph(&pool, random, entries);
    }
    pool.wait_idle();
}

fn one_graph(pool: &Pool, random: &mut Random, entries: Vec<Entry>) {
    let first = entries.first().map_or(0, |entry| entry.0);
    let numbers: Vec<u32> = entries.iter().map(|entry| entry.0).collect();
    // Every tie goes from an earlier to a later node, so there is no circle.
    let mut befores: Vec<Vec<(usize, bool)>> = Vec::new();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); entries.len()];
    let mut nodes: Vec<Prepared<()>> = Vec::new();
    for (place, entry) in entries.into_iter().enumerate() {
        let count = if place == 0 { 0 } else { random.below(4) };
        // Another node, and whether it is a child; if not, this one follows it.
        let any_tie = |_| (random.below(place as u64) as usize, random.below(4) == 0);
        let before: Vec<(usize, bool)> = (0..count).map(any_tie).collect();
        let ended: Vec<u32> = before.iter().filter(|tie| !tie.1).map(|tie| numbers[tie.0]).collect();
        let priority = random.one_of(&[Priority::Normal, Priority::Normal, Priority::High, Priority::Low]);
        let node = pool.prepare_with(TaskOptions { priority, ..TaskOptions::default() }, move || {
            ended.iter().for_each(|number| assert_ne!(mark_of(*number), NEW, "it was begun too early"));
            entry.run();
        });
        befores.push(before);
        nodes.push(node);
    }
    for (place, before) in befores.iter().enumerate() {
        for (before, is_child) in before {
            if *is_child {
                nodes[*before].finish_with(&nodes[place]).unwrap();
                children[place].push(*before);
            } else {
                nodes[*before].continue_with(&nodes[place]);
            }
        }
    }
    let mut nodes: Vec<(usize, Prepared<()>)> = nodes.into_iter().enumerate().collect();
    let mut tasks = Vec::new();
    while !nodes.is_empty() {
        let (place, node) = nodes.swap_remove(random.below(nodes.len() as u64) as usize);
        match random.below(10) {
            0 => drop(node),
            1..4 => node.schedule_detached(),
            _ => tasks.push((place, node.schedule())),
        }
    }
    for (place, task) in tasks {
        let is_cancelled = random.below(10) == 0 && task.cancel();
        let outcome = task.wait_result();
        assert_eq!(outcome.is_err(), is_cancelled, "{outcome:?}, node {} of {first}", numbers[place]);
        for child in &children[place] {
            assert_ne!(mark_of(numbers[*child]), NEW, "a parent ended before its child");
        }
    }
}

/// Every way to end a pool, with work queued and under way; the report adds up.
fn shutdowns(random: &mut Random) {
    while LEDGER.given.load(Ordering::Relaxed) < LEDGER.len.load(Ordering::Relaxed) {
        let config = any_config(random);
        let threads = config.threads;
        let pool = Pool::with(PoolConfig { slot_count_max: 1 << 16, ..config }).unwrap();
        let before = (LEDGER.run.load(Ordering::SeqCst), LEDGER.dropped.load(Ordering::SeqCst));
        let mut spawned = 0;
        let spawn = |count: u64| {
            let entries: Vec<Entry> = (0..count).map_while(|_| LEDGER.take()).collect();
            let count = entries.len() as u64;
            entries.into_iter().for_each(|entry| pool.spawn_detached(|| entry.run()));
            count
        };
        match random.below(3) {
            0 => {
                spawned += spawn(random.below(20_000));
                let report = pool.shutdown(Shutdown::Drain, Duration::from_secs(100));
                assert_eq!((report.ended, report.left, report.queued), (threads, 0, 0));
                assert_eq!(LEDGER.run.load(Ordering::SeqCst), before.0 + spawned);
            }
            1 => {
                spawned += spawn(random.below(20_000));
                let report = pool.shutdown(Shutdown::CancelQueued, Duration::from_secs(100));
                assert_eq!((report.ended, report.left, report.queued), (threads, 0, 0));
            }
            _ => spawned += abandon(pool, threads, random.below(5_000)),
        }
        let (run, dropped) = (LEDGER.run.load(Ordering::SeqCst), LEDGER.dropped.load(Ordering::SeqCst));
        assert_eq!(run - before.0 + dropped - before.1, spawned, "run + cancelled = spawned");
    }
}

/// All workers are kept busy, so that what is queued stays so: run + cancelled + running + queued = spawned.
fn abandon(pool: Pool, threads: usize, count: u64) -> u64 {
    let (begun, has_begun) = mpsc::channel();
    let mut gates = Vec::new();
    let mut running = 0;
    for entry in (0..threads).map_while(|_| LEDGER.take()) {
        let (begun, (go, wait)) = (begun.clone(), mpsc::channel::<()>());
        pool.spawn_detached(move || {
            begun.send(()).unwrap();
            // An error means that the gate has gone, which opens it as well.
            let _ = wait.recv();
            entry.run();
        });
        gates.push(go);
        running += 1;
    }
    (0..running).for_each(|_| has_begun.recv().unwrap());
    let entries: Vec<Entry> = (0..count).map_while(|_| LEDGER.take()).collect();
    let queued = entries.len();
    if running == threads {
        entries.into_iter().for_each(|entry| pool.spawn_detached(|| entry.run()));
        let report = pool.shutdown(Shutdown::Abandon, Duration::from_secs(100));
        assert_eq!((report.ended, report.left, report.queued), (0, running, queued));
    } else {
        // The last entries of the round were too few for all workers.
        entries.into_iter().for_each(Entry::run);
        drop(gates);
        drop(pool);
        return (running + queued) as u64;
    }
    let spawned = (running + queued) as u64;
    let settled = LEDGER.settled() + spawned;
    drop(gates);
    // The threads go on by themselves, and cancel what is queued.
    while LEDGER.settled() < settled {
        std::thread::yield_now();
    }
    spawned
}

/// Stopped and started again and again, with tasks spawned at any moment.
fn restarts(random: &mut Random) {
    let pool = any_pool(random);
    while LEDGER.given.load(Ordering::Relaxed) < LEDGER.len.load(Ordering::Relaxed) {
        let spawn = |count: u64| {
            (0..count).map_while(|_| LEDGER.take()).for_each(|entry| pool.spawn_detached(|| entry.run()));
        };
        spawn(random.below(20_000));
        pool.stop();
        spawn(random.below(500));
        pool.join_threads();
        spawn(random.below(500));
        pool.start().unwrap();
    }
}

/// Sixty-four workers, or eight on one processor, and several producers of different kinds at a time.
fn crowds(random: &mut Random) {
    let is_large = random.below(2) == 0;
    let config = if is_large {
        PoolConfig { threads: 64, stack_size: 512 << 10, ..PoolConfig::default() }
    } else {
        PoolConfig { threads: 8, pinned_to: vec![0; 8], ..PoolConfig::default() }
    };
    let pool = &Pool::with(config).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while let Some(entry) = LEDGER.take() {
                pool.spawn_detached(|| entry.run());
            }
        });
        threads.spawn(|| {
            while let Some(entry) = LEDGER.take() {
                pool.spawn(|| entry.run()).wait();
            }
        });
        threads.spawn(|| {
            while let (Some(left), right) = (LEDGER.take(), LEDGER.take()) {
                pool.join(|| left.run(), || right.into_iter().for_each(Entry::run));
            }
        });
        pool.scope(|s| {
            while let Some(entry) = LEDGER.take() {
                s.spawn(|_| entry.run());
            }
        });
    });
    pool.wait_idle();
}

/// Runs the scenario that belongs to a seed.
fn round(seed: u64) -> Totals {
    let mut random = Random::new(seed);
    let scenario = SCENARIOS[(seed % SCENARIOS.len() as u64) as usize];
    let len = ENTRIES_MAX >> random.below(4);
    LEDGER.open(len);
    scenario(&mut random);
    LEDGER.check();
    let (run, dropped) = (LEDGER.run.load(Ordering::SeqCst), LEDGER.dropped.load(Ordering::SeqCst));
    Totals { rounds: 1, run, dropped }
}

/// Ends the process when nothing is heard for too long: a lost task shows itself by a wait that never ends.
fn watch(rounds: mpsc::Receiver<u64>) {
    let mut seed = 0;
    loop {
        match rounds.recv_timeout(ROUND_TIME_MAX) {
            Ok(next) => seed = next,
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                println!("a round hangs: repeat with WINDLASS_LEDGER_SEED={seed}");
                std::process::abort();
            }
        }
    }
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}: no number")))
}

/// LZ-2, LZ-7, LZ-8: across wrapped rings, thieves, cancelling, growth, full pools and every kind of end.
#[test]
fn every_task_is_run_exactly_once_or_said_to_be_dropped() {
    let _turn = TURN.lock().unwrap();
    let base = number_in("WINDLASS_LEDGER_SEED").unwrap_or(1);
    let wanted = number_in("WINDLASS_LEDGER_TASKS").unwrap_or(TASKS);
    let (tell, rounds) = mpsc::channel();
    let watcher = std::thread::spawn(move || watch(rounds));
    let mut totals = Totals::default();
    while totals.run + totals.dropped < wanted {
        let seed = base.wrapping_add(totals.rounds);
        // Read where the process is aborted, by a stack that overflows or by the watcher.
        println!("WINDLASS_LEDGER_SEED={seed}");
        tell.send(seed).unwrap();
        let outcome = catch_unwind(|| round(seed)).unwrap_or_else(|panic| {
            println!("a round failed: repeat with WINDLASS_LEDGER_SEED={seed}");
            resume_unwind(panic)
        });
        totals.rounds += 1;
        totals.run += outcome.run;
        totals.dropped += outcome.dropped;
    }
    drop(tell);
    watcher.join().unwrap();
    let Totals { rounds, run, dropped } = totals;
    // What is lost or double fails its round, so these are always none.
    println!("ledger: rounds={rounds} tasks={} run={run} cancelled={dropped} lost=0 double=0", run + dropped);
}
