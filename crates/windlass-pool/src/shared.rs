//! What all threads of a pool share.
//!
//! Every thread that uses the pool, worker or not, has a [`Desk`]: the part of its place that others look at. Desks are
//! never moved nor freed while the pool lives; one whose thread has gone is given to the next. Whoever looks for work
//! goes by the desks.

use std::time::Duration;

use crate::config::PoolConfig;
use crate::forks::ShownForks;
use crate::injector::Injector;
use crate::metrics::{Counters, WorkerMetrics};
use crate::ring::Ring;
use crate::sleep::{Bell, Sleep};
use crate::slot::Slots;
use crate::stop::StopSign;
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Condvar, Mutex, Ordering, Padded, Thread, available_threads,
    lock, wait_while,
};
use crate::task::Wakers;
use crate::trace::TraceBuffer;

/// What others need of one thread.
pub(crate) struct Desk {
    pub(crate) ring: Ring,
    pub(crate) forks: ShownForks,
    /// Rung by the thread after a push that somebody must find.
    pub(crate) bell: Padded<Bell>,
    pub(crate) counters: Padded<Counters>,
    pub(crate) trace: TraceBuffer,
    /// The thread is no worker, and runs tasks inside a wait.
    pub(crate) is_guest_at_work: AtomicBool,
    /// Whom to unpark.
    thread: Mutex<Option<Thread>>,
}

impl Desk {
    fn new() -> Desk {
        Desk {
            ring: Ring::new(),
            forks: ShownForks::new(),
            bell: Padded(Bell::default()),
            counters: Padded::default(),
            trace: TraceBuffer::default(),
            is_guest_at_work: AtomicBool::new(false),
            thread: Mutex::new(None),
        }
    }

    /// Gives the desk to the calling thread, or to nobody.
    pub(crate) fn give_to(&self, thread: Option<Thread>) {
        *lock(&self.thread) = thread;
    }

    /// Wakes the thread. One that has gone needs no waking, and one that came in its place looks up once for nothing.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }

    fn has_work(&self) -> bool {
        !self.ring.is_empty() || self.forks.is_any_left()
    }
}

/// Desks of the first chunk; each further chunk doubles their number.
const FIRST_CHUNK_LEN: u32 = 16;
const CHUNKS: usize = 13;
/// Threads that can use a pool at a time.
const DESKS_MAX: u32 = FIRST_CHUNK_LEN * ((1 << CHUNKS) - 1);

/// All desks of a pool.
struct Desks {
    chunks: [AtomicPtr<Desk>; CHUNKS],
    /// Desks that were ever given out.
    count: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Desks {
    fn new() -> Desks {
        Desks {
            chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            count: AtomicU32::new(0),
            free: Mutex::new(Vec::new()),
        }
    }

    fn place_of(index: u32) -> (usize, usize) {
        let shifted = index + FIRST_CHUNK_LEN;
        let chunk = shifted.ilog2() - FIRST_CHUNK_LEN.ilog2();
        (chunk as usize, (shifted - (FIRST_CHUNK_LEN << chunk)) as usize)
    }

    fn count(&self) -> u32 {
        // ORDER: Acquire; pairs with the store in `take`: the desks below are there.
        self.count.load(Ordering::Acquire)
    }

    fn take(&self) -> u32 {
        let mut free = lock(&self.free);
        if let Some(index) = free.pop() {
            return index;
        }
        let index = self.count.load(Ordering::Relaxed);
        assert!(index < DESKS_MAX, "more than {DESKS_MAX} threads use one pool at the same time");
        let (chunk, place) = Desks::place_of(index);
        if place == 0 {
            let desks: Box<[Desk]> = (0..FIRST_CHUNK_LEN << chunk).map(|_| Desk::new()).collect();
            // ORDER: Relaxed; published by the store of `count`.
            self.chunks[chunk].store(Box::into_raw(desks).cast::<Desk>(), Ordering::Relaxed);
        }
        // ORDER: Release; pairs with the load in `count`.
        self.count.store(index + 1, Ordering::Release);
        index
    }

    fn give_back(&self, index: u32) {
        lock(&self.free).push(index);
    }

    fn get(&self, index: u32) -> &Desk {
        let (chunk, place) = Desks::place_of(index);
        // ORDER: Acquire; for an index that came by another way than `count`.
        let first = self.chunks[chunk].load(Ordering::Acquire);
        assert!(!first.is_null(), "the number of a desk that was never made");
        // SAFETY: the chunk was made with `FIRST_CHUNK_LEN << chunk` desks, `place` is below that by `place_of`, and
        // chunks live as long as `self`.
        unsafe { &*first.add(place) }
    }
}

impl Drop for Desks {
    fn drop(&mut self) {
        for (chunk, first) in self.chunks.iter().enumerate() {
            // ORDER: Relaxed; `&mut self` means that every other thread has gone.
            let first = first.load(Ordering::Relaxed);
            if !first.is_null() {
                let desks = std::ptr::slice_from_raw_parts_mut(first, (FIRST_CHUNK_LEN << chunk) as usize);
                // SAFETY: made in `take` by `Box::into_raw` from a slice of this length, and freed only here.
                drop(unsafe { Box::from_raw(desks) });
            }
        }
    }
}

/// What every task looks at before it runs: one word that nearly never changes.
pub(crate) mod flag {
    /// Runs are written down (`trace.rs`).
    pub(crate) const TRACE: u32 = 1;
    /// Queued tasks are cancelled instead of run.
    pub(crate) const CANCEL: u32 = 2;
    /// Everything runs on the threads that wait (`deterministic.rs`).
    pub(crate) const DETERMINISTIC: u32 = 4;
    /// Tasks are not just run.
    pub(crate) const CLOSELY: u32 = TRACE | CANCEL;
    /// Somebody wants to look when a task has ended.
    pub(crate) const WATCHED: u32 = 8;
    /// Somebody wants to look when a worker goes to sleep.
    pub(crate) const WATCHED_FOR_QUIET: u32 = 16;
}

/// How far the threads of a pool are.
#[derive(Debug, Default)]
struct Crew {
    /// Workers that have not ended.
    alive: usize,
    /// Spare threads, of the workers: how many may take tasks, how many wait to be wanted again.
    spares: usize,
    idle_spares: usize,
}

/// What all threads of a pool share.
pub(crate) struct Shared {
    pub(crate) config: PoolConfig,
    pub(crate) spin: Duration,
    /// There are several processors: to look again for a moment may be worth it.
    pub(crate) has_processors: bool,
    pub(crate) slots: Slots,
    pub(crate) injector: Injector,
    pub(crate) sleep: Padded<Sleep>,
    pub(crate) wakers: Wakers,
    pub(crate) deterministic: Option<crate::deterministic::Queue>,
    desks: Desks,
    flags: Padded<AtomicU32>,
    pub(crate) stop_sign: StopSign,
    has_ended: AtomicBool,
    /// Workers that sleep, or are about to, and have no task in hand.
    resting: AtomicUsize,
    crew: Mutex<Crew>,
    /// Workers ended, spares wanted.
    crew_changed: Condvar,
    /// Those in `wait_idle` and `wait_until`, to be unparked when something has ended.
    watchers: Mutex<Vec<Thread>>,
    pub(crate) blocking: crate::blocking::Blocking,
}

impl Shared {
    pub(crate) fn new(config: PoolConfig) -> Shared {
        let desks = Desks::new();
        // Workers have the first desks.
        for _ in 0..config.threads {
            desks.take();
        }
        let deterministic = config.deterministic_seed.map(crate::deterministic::Queue::new);
        let flags = if deterministic.is_some() { flag::DETERMINISTIC } else { 0 };
        Shared {
            spin: config.spin(),
            has_processors: available_threads() > 1,
            slots: Slots::new(config.slot_count_max),
            injector: Injector::new(),
            sleep: Padded(Sleep::new()),
            wakers: Wakers::default(),
            deterministic,
            desks,
            flags: Padded(AtomicU32::new(flags)),
            stop_sign: StopSign::new(),
            has_ended: AtomicBool::new(false),
            resting: AtomicUsize::new(0),
            crew: Mutex::new(Crew::default()),
            crew_changed: Condvar::new(),
            watchers: Mutex::new(Vec::new()),
            blocking: crate::blocking::Blocking::default(),
            config,
        }
    }

    // Desks.

    pub(crate) fn desk(&self, index: u32) -> &Desk {
        self.desks.get(index)
    }

    pub(crate) fn desk_count(&self) -> u32 {
        self.desks.count()
    }

    fn all_desks(&self) -> impl Iterator<Item = &Desk> {
        (0..self.desk_count()).map(|index| self.desk(index))
    }

    pub(crate) fn take_desk(&self) -> u32 {
        self.desks.take()
    }

    pub(crate) fn give_desk_back(&self, index: u32) {
        self.desks.give_back(index);
    }

    pub(crate) fn metrics(&self) -> Vec<WorkerMetrics> {
        (0..self.config.threads as u32).map(|index| self.desk(index).counters.snapshot()).collect()
    }

    // Flags.

    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        // ORDER: Relaxed; a switch. Who must know that it was turned waits for the threads.
        self.flags.load(Ordering::Relaxed)
    }

    pub(crate) fn set_flag(&self, flag: u32) {
        self.flags.fetch_or(flag, Ordering::Relaxed);
    }

    pub(crate) fn clear_flag(&self, flag: u32) {
        self.flags.fetch_and(!flag, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop_sign.is_set()
    }

    /// Whether the pool has gone, and only handles and desks of other threads are left of it.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// As `has_ended`, after something was queued: either this says so, or the pool, which looks once more after `end`,
    /// finds it. Both are exchanges of one flag, and the later one acquires what came before the earlier one.
    pub(crate) fn has_ended_by_now(&self) -> bool {
        // ORDER: AcqRel; pairs with `end`.
        self.has_ended.fetch_or(false, Ordering::AcqRel)
    }

    pub(crate) fn end(&self) {
        // ORDER: AcqRel; pairs with `has_ended_by_now`, and with `has_ended`.
        self.has_ended.swap(true, Ordering::AcqRel);
    }

    /// Has the workers end: when nothing is queued any more, or after the task in hand.
    pub(crate) fn stop(&self, after_draining: bool) {
        self.stop_sign.set(after_draining);
        self.wake_everybody();
        let _crew = lock(&self.crew);
        self.crew_changed.notify_all();
    }

    fn wake_everybody(&self) {
        // Everybody who is about to sleep looks at the flags after its announcement, and everybody who sleeps, or naps,
        // is unparked.
        self.sleep.take_all();
        for desk in self.all_desks() {
            desk.unpark();
        }
    }

    // Waking.

    /// Whether anything is queued, or shown. A hint, ordered as the rings' are.
    pub(crate) fn has_work(&self) -> bool {
        self.injector.len() > 0 || self.all_desks().any(Desk::has_work)
    }

    /// Whether some thread is inside a join that others could help with: more is likely to come. A hint.
    pub(crate) fn is_anybody_joining(&self) -> bool {
        self.all_desks().any(|desk| desk.forks.is_in_use())
    }

    /// Tasks in queues, about.
    pub(crate) fn queued_count(&self) -> usize {
        let deterministic = self.deterministic.as_ref().map_or(0, |queue| queue.len());
        deterministic + self.injector.len() + self.all_desks().map(|desk| desk.ring.len()).sum::<usize>()
    }

    /// Tells all pushers that somebody is about to sleep (sleep.rs, S2).
    pub(crate) fn pass_bells(&self) {
        self.injector.bell.pass();
        for desk in self.all_desks() {
            desk.bell.pass();
        }
    }

    /// Wakes a worker if one sleeps and nobody searches (sleep.rs, P3).
    pub(crate) fn wake_one(&self) {
        if let Some(sleeper) = self.sleep.notify() {
            self.desk(sleeper).unpark();
        }
    }

    /// Everything that was ever offered to others, as a number that changes with each.
    pub(crate) fn offered_count(&self) -> u64 {
        self.all_desks().map(|desk| desk.counters.offered()).fold(0, u64::wrapping_add)
    }

    // The crew.

    pub(crate) fn count_in(&self, is_spare: bool) {
        let mut crew = lock(&self.crew);
        crew.alive += 1;
        crew.spares += usize::from(is_spare);
    }

    /// Counts a worker out that has ended, or never started.
    pub(crate) fn count_out(&self, is_spare: bool) {
        let mut crew = lock(&self.crew);
        crew.alive -= 1;
        crew.spares -= usize::from(is_spare);
        self.crew_changed.notify_all();
    }

    /// Waits until every worker has ended, or for `timeout`. Answers how many have not.
    pub(crate) fn wait_for_end(&self, timeout: Option<Duration>) -> usize {
        wait_while(&self.crew_changed, lock(&self.crew), timeout, |crew| crew.alive > 0).alive
    }

    pub(crate) fn alive_count(&self) -> usize {
        lock(&self.crew).alive
    }

    pub(crate) fn spare_count(&self) -> usize {
        lock(&self.crew).spares
    }

    /// A spare thread that is not needed waits to be wanted again, at most for `timeout`. Answers whether it is.
    pub(crate) fn wait_to_be_wanted(&self, timeout: Duration) -> bool {
        let mut crew = lock(&self.crew);
        crew.idle_spares += 1;
        let is_wanted = || self.blocking.lacks_spares() || self.is_stopping();
        let mut crew = wait_while(&self.crew_changed, crew, Some(timeout), |_| !is_wanted());
        crew.idle_spares -= 1;
        is_wanted() && !self.is_stopping()
    }

    /// Wakes a spare thread that waits to be wanted. `false` if there is none.
    pub(crate) fn want_a_spare(&self) -> bool {
        let crew = lock(&self.crew);
        self.crew_changed.notify_all();
        crew.idle_spares > 0
    }

    // Watching.

    /// Has the thread unparked when a task has ended, or a worker goes to sleep. Once, and not for certain: it must look
    /// again from time to time.
    pub(crate) fn add_watcher(&self, thread: Thread) {
        lock(&self.watchers).push(thread);
        self.set_flag(flag::WATCHED);
    }

    /// Has the thread unparked when a worker goes to sleep. As `add_watcher`.
    pub(crate) fn add_quiet_watcher(&self, thread: Thread) {
        lock(&self.watchers).push(thread);
        self.set_flag(flag::WATCHED_FOR_QUIET);
    }

    /// Unparks all watchers, to look for themselves.
    #[cold]
    pub(crate) fn tell_watchers(&self) {
        self.clear_flag(flag::WATCHED | flag::WATCHED_FOR_QUIET);
        for thread in lock(&self.watchers).drain(..) {
            thread.unpark();
        }
    }

    /// Whether nothing is queued and nobody runs anything.
    pub(crate) fn is_idle(&self) -> bool {
        // ORDER: Acquire; pairs with `set_at_work`, which comes before the task leaves its queue.
        let no_guest = || !self.all_desks().any(|desk| desk.is_guest_at_work.load(Ordering::Acquire));
        // ORDER: Acquire; pairs with `begin_rest`: what the worker has done is there.
        let all_rest = || self.resting.load(Ordering::Acquire) >= self.awake_count_max();
        // A worker that is awake may have a task in hand, on its way from one queue to another; one that rests has not.
        // So: all rest and nothing queued, and then still all rest.
        all_rest() && self.queued_count() == 0 && no_guest() && all_rest()
    }

    /// A worker without a task goes to sleep, until this is dropped.
    pub(crate) fn begin_rest(&self) -> impl Drop {
        struct Resting<'a>(&'a AtomicUsize);
        impl Drop for Resting<'_> {
            fn drop(&mut self) {
                // ORDER: AcqRel; before anything is taken out of a queue.
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.resting.fetch_add(1, Ordering::AcqRel);
        Resting(&self.resting)
    }

    /// Workers that could be awake.
    fn awake_count_max(&self) -> usize {
        let crew = lock(&self.crew);
        crew.alive - crew.idle_spares
    }
}

/// The pool a handle or a desk belongs to, counted.
pub(crate) type SharedRef = Arc<Shared>;
