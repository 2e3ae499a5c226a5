//! Who looks for work, who sleeps, and who is woken.
//!
//! A worker that finds nothing *searches* for a while, *announces* that it is about to sleep, *looks again*, and parks.
//! A thread that has made work visible wakes somebody if nobody searches and somebody sleeps. Neither may miss the
//! other: a task that nobody runs while everybody sleeps would lie there for ever.
//!
//! # The word and the bells
//! `word` counts the sleepers and the searchers, and every change of it is a read-modify-write. If every push read it
//! by one, too, all cores would pass that line around. So each thread that pushes has a *bell* of its own:
//!
//! | | sleeper | | pusher |
//! |---|---|---|---|
//! | S1 | `word += 1 sleeper` | P1 | put the task into the own ring |
//! | S2 | exchange every bell for *passed* | P2 | exchange the own bell for *quiet* |
//! | S3 | look into every ring | P3 | if it said *passed*: read `word`, wake one if there is a sleeper |
//! | S4 | park, unless something was found | | |
//!
//! The two exchanges of one bell stand in one order. If P2 comes before S2, then S2 acquires what P2 released, which
//! includes P1: S3 finds the task. If S2 comes before P2, then P2 reads *passed* and acquires what S2 released, which
//! includes S1: P3 sees the sleeper, or that somebody has woken it, who will look again. If P2 reads *quiet* although S2
//! came first, then an earlier push of the same thread took the *passed* away, and woke somebody for it, who will look
//! at this ring before it sleeps again. There is no other case, and no fence is needed.
//!
//! Work that the pusher comes back to itself (a task of a scope, the successor of a task that has ended) does not ring:
//! its plain load of `word` may miss a sleeper whose S1 to S3 fell between the push and the moment it left the pusher's
//! store buffer. The pusher will run it, unless it blocks before. So a sleeper looks once more, a *last look*, some
//! milliseconds after S4, when every such push has long arrived; only then it sleeps without an end.
//!
//! The injector has a bell as everybody has. The loom model is `loom_tests/sleep.rs`; its control makes P2 a plain
//! load, and must fail.
//!
//! # Who is woken
//! Nobody, while somebody searches: the searcher will find it, and when the last searcher finds something, it wakes the
//! next if there is more. So a burst wakes as many as it takes, one after another, while those awake take more.
//! Sleepers stand in a list, and the one that came last is woken first: its caches are warmest.
//!
//! # Naps
//! A wake costs its caller more than a hundred small tasks. A worker that was woken and found less work than the wake
//! cost was not needed: it *naps* for a while, and nobody pays for waking it. It looks around after each nap, and naps
//! again, longer, as long as tasks are spawned that others finish before it comes; when nothing was spawned meanwhile,
//! it goes to sleep as described. Who is about to wait without running anything itself says that workers are *needed*:
//! that wakes a napper, and the next rests are proper sleeps. So they are when a napper finds, waking up, that something
//! lies in a ring and does not move: its owner waits for something that the pool cannot see.

use std::time::Duration;

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

const ONE_SLEEPER: u64 = 1;
const SLEEPERS: u64 = u32::MAX as u64;
const ONE_SEARCHER: u64 = 1 << 32;
const SEARCHERS: u64 = SLEEPERS << 32;

/// Work worth less than this did not pay for the wake (measured: 12 to 15 µs on a sleeper of another core).
pub(crate) const WAKE_WORTH: Duration = Duration::from_micros(15);
/// The first nap after a wake that was not needed.
pub(crate) const NAP_MIN: Duration = Duration::from_micros(50);
/// The longest.
pub(crate) const NAP_MAX: Duration = Duration::from_millis(1);

const QUIET: u32 = 0;
const PASSED: u32 = 1;

/// What one pusher exchanges with those about to sleep.
#[derive(Debug, Default)]
pub(crate) struct Bell(AtomicU32);

impl Bell {
    /// P2. Answers whether somebody has gone by to sleep since the last time.
    #[must_use]
    #[cfg(not(windlass_weaken = "sleep"))]
    pub(crate) fn ring(&self) -> bool {
        // ORDER: AcqRel; P2, pairs with S2 in `pass`.
        self.0.swap(QUIET, Ordering::AcqRel) == PASSED
    }

    /// The control of the model: a plain load can miss a sleeper that misses the task.
    #[must_use]
    #[cfg(windlass_weaken = "sleep")]
    pub(crate) fn ring(&self) -> bool {
        self.0.load(Ordering::Acquire) == PASSED
    }

    /// S2.
    pub(crate) fn pass(&self) {
        // ORDER: AcqRel; S2, pairs with P2 in `ring`.
        self.0.swap(PASSED, Ordering::AcqRel);
    }
}

#[derive(Debug)]
pub(crate) struct Sleep {
    word: AtomicU64,
    /// Workers that may be parked, the latest last.
    sleepers: Mutex<Vec<u32>>,
    nappers: Mutex<Vec<u32>>,
    /// The length of `nappers`, to be read without the lock.
    napper_count: AtomicUsize,
    /// Somebody who runs nothing himself has waited since a worker last rested.
    was_needed: AtomicBool,
}

impl Sleep {
    pub(crate) fn new() -> Sleep {
        Sleep {
            word: AtomicU64::new(0),
            sleepers: Mutex::new(Vec::new()),
            nappers: Mutex::new(Vec::new()),
            napper_count: AtomicUsize::new(0),
            was_needed: AtomicBool::new(false),
        }
    }

    /// Whether anybody would take work now. A hint, and one load of a line that seldom changes.
    #[inline]
    pub(crate) fn is_anybody_idle(&self) -> bool {
        // ORDER: Relaxed; a miss only delays.
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody sleeps and nobody searches: the case for a wake. A hint.
    #[inline]
    pub(crate) fn would_wake(&self) -> bool {
        // ORDER: Relaxed; a miss only delays, where this is used.
        let word = self.word.load(Ordering::Relaxed);
        word & SEARCHERS == 0 && word != 0
    }

    /// Whether somebody is looking for work right now. A hint.
    #[inline(always)]
    pub(crate) fn is_anybody_searching(&self) -> bool {
        self.word.load(Ordering::Relaxed) & SEARCHERS != 0
    }

    /// A worker begins to look at others.
    pub(crate) fn begin_search(&self) {
        // ORDER: Relaxed; publishes nothing.
        self.word.fetch_add(ONE_SEARCHER, Ordering::Relaxed);
    }

    /// A searcher found something, or gives up. Answers whether it was the last one, and somebody sleeps.
    pub(crate) fn end_search(&self) -> bool {
        // ORDER: AcqRel; a pusher that saw the searcher and woke nobody relies on what comes after this: the search
        // that found something wakes the next, the one that did not is followed by S1 to S3.
        let before = self.word.fetch_sub(ONE_SEARCHER, Ordering::AcqRel);
        before & SEARCHERS == ONE_SEARCHER && before & SLEEPERS != 0
    }

    /// S1. Afterwards the worker must pass every bell, look again, and then park or call [`Sleep::give_up`].
    pub(crate) fn announce(&self, worker: u32) {
        lock(&self.sleepers).push(worker);
        // ORDER: AcqRel; S1.
        self.word.fetch_add(ONE_SLEEPER, Ordering::AcqRel);
    }

    /// The worker has found something after all, or wakes by itself. Answers whether somebody had woken it already; it
    /// counts as a searcher then.
    pub(crate) fn give_up(&self, worker: u32) -> bool {
        let mut sleepers = lock(&self.sleepers);
        let Some(place) = sleepers.iter().position(|sleeper| *sleeper == worker) else {
            return true;
        };
        sleepers.remove(place);
        // ORDER: AcqRel; keeps the count equal to the list, under the list's lock.
        self.word.fetch_sub(ONE_SLEEPER, Ordering::AcqRel);
        false
    }

    /// Whether nobody has woken the worker since it announced itself.
    pub(crate) fn is_listed(&self, worker: u32) -> bool {
        lock(&self.sleepers).contains(&worker)
    }

    /// P3: whom to unpark, if nobody searches. It counts as a searcher from now on, so that nobody else is woken for
    /// the same work.
    #[must_use]
    pub(crate) fn notify(&self) -> Option<u32> {
        // ORDER: Acquire; P3, follows the exchange in `Bell::ring`.
        let word = self.word.load(Ordering::Acquire);
        if word & SLEEPERS == 0 || word & SEARCHERS != 0 { None } else { self.take_one() }
    }

    /// Takes a sleeper off the list, whoever searches.
    pub(crate) fn take_one(&self) -> Option<u32> {
        let mut sleepers = lock(&self.sleepers);
        let worker = sleepers.pop()?;
        // ORDER: AcqRel; as in `give_up`.
        self.word.fetch_add(ONE_SEARCHER - ONE_SLEEPER, Ordering::AcqRel);
        Some(worker)
    }

    /// A worker begins to nap. `false` if somebody needs it.
    #[must_use]
    pub(crate) fn begin_nap(&self, worker: u32) -> bool {
        let mut nappers = lock(&self.nappers);
        // ORDER: Relaxed; set under this lock.
        if self.was_needed.load(Ordering::Relaxed) {
            return false;
        }
        nappers.push(worker);
        // ORDER: Relaxed, under the lock; a miss lasts as long as the nap.
        self.napper_count.store(nappers.len(), Ordering::Relaxed);
        true
    }

    /// A nap is over.
    pub(crate) fn end_nap(&self, worker: u32) {
        let mut nappers = lock(&self.nappers);
        nappers.retain(|napper| *napper != worker);
        self.napper_count.store(nappers.len(), Ordering::Relaxed);
    }

    /// Somebody who runs nothing himself is about to wait: whom to unpark for it, if all nap.
    #[must_use]
    pub(crate) fn need(&self) -> Option<u32> {
        let mut nappers = lock(&self.nappers);
        // ORDER: Relaxed; under the lock, so that a worker that is about to nap sees it, or is found here.
        self.was_needed.store(true, Ordering::Relaxed);
        if self.is_anybody_searching() { None } else { self.pop_napper(&mut nappers) }
    }

    /// Whether somebody who runs nothing himself has waited since this was asked last.
    pub(crate) fn take_was_needed(&self) -> bool {
        // ORDER: Relaxed; a hint. The look saves the exchange.
        self.was_needed.load(Ordering::Relaxed) && self.was_needed.swap(false, Ordering::Relaxed)
    }

    fn pop_napper(&self, nappers: &mut Vec<u32>) -> Option<u32> {
        let napper = nappers.pop();
        self.napper_count.store(nappers.len(), Ordering::Relaxed);
        napper
    }

    /// A napper to be unparked, unless somebody is looking for work anyway.
    #[must_use]
    pub(crate) fn rouse(&self) -> Option<u32> {
        // ORDER: Relaxed; a hint.
        if self.napper_count.load(Ordering::Relaxed) == 0 || self.is_anybody_searching() {
            return None;
        }
        self.pop_napper(&mut lock(&self.nappers))
    }

    /// Takes all sleepers off: for the end of the pool.
    pub(crate) fn take_all(&self) -> Vec<u32> {
        std::iter::from_fn(|| self.take_one()).collect()
    }
}
