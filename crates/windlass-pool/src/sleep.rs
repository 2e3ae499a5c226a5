//! Who sleeps, and who is woken.
//!
//! A worker that finds nothing *announces* that it is about to sleep, *looks again*, and parks. A thread that has made
//! work visible looks whether anybody sleeps, and wakes one. Neither may miss the other: a task that nobody runs while
//! everybody sleeps would lie there for ever.
//!
//! # The word
//! `word` counts the sleepers in its lower half and notices in its upper half. Both sides change it by a
//! read-modify-write:
//!
//! | | sleeper | | notifier |
//! |---|---|---|---|
//! | S1 | `word += 1 sleeper` | N1 | make the task visible |
//! | S2 | look for tasks again | N2 | `word += 1 notice`, and read the sleepers |
//! | S3 | park, unless something was found | N3 | wake one, if there is any |
//!
//! All changes of one word stand in one order. If N2 comes before S1, then S1 acquires what N2 released, which
//! includes N1: S2 finds the task. If S1 comes before N2, then N2 reads at least one sleeper: N3 wakes one. There is
//! no third case, and no fence is needed.
//!
//! A worker that pushes to its own ring only loads the word: if it misses a sleeper, it runs the task itself. The
//! loom model is `loom_tests/sleep.rs`; its control makes N2 a plain load, and must fail.
//!
//! # Who is woken
//! Sleepers stand in a list, and the one that came last is woken first: its caches are warmest. Whoever takes a
//! sleeper off the list counts it out of the word, so that the next notifier wakes the next one. A sleeper that finds
//! work in its second look takes itself off; if somebody was faster, it has been woken already, which costs nothing.

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

const ONE_SLEEPER: u64 = 1;
const SLEEPERS: u64 = u32::MAX as u64;
const ONE_NOTICE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Sleep {
    word: AtomicU64,
    /// Workers that may be parked, the latest last.
    sleepers: Mutex<Vec<usize>>,
}

impl Sleep {
    pub(crate) fn new() -> Sleep {
        Sleep { word: AtomicU64::new(0), sleepers: Mutex::new(Vec::new()) }
    }

    /// S1. Afterwards the worker must look again, and then park or call [`Sleep::give_up`].
    pub(crate) fn announce(&self, worker: usize) {
        lock(&self.sleepers).push(worker);
        // ORDER: AcqRel; S1, pairs with N2: either this sees what the notifier published, or the notifier sees this.
        self.word.fetch_add(ONE_SLEEPER, Ordering::AcqRel);
    }

    /// The worker has found something after all, or wakes by itself. Answers whether somebody had woken it already.
    pub(crate) fn give_up(&self, worker: usize) -> bool {
        let mut sleepers = lock(&self.sleepers);
        let Some(place) = sleepers.iter().position(|sleeper| *sleeper == worker) else {
            return true;
        };
        sleepers.remove(place);
        // ORDER: AcqRel; keeps the count equal to the list, under the list's lock.
        self.word.fetch_sub(ONE_SLEEPER, Ordering::AcqRel);
        false
    }

    /// N2 and the choice of N3, for work that the caller will not run by itself. Answers whom to unpark.
    #[must_use]
    pub(crate) fn notify(&self) -> Option<usize> {
        if self.notice() & SLEEPERS == 0 { None } else { self.take_one() }
    }

    #[cfg(not(windlass_weaken = "sleep"))]
    fn notice(&self) -> u64 {
        // ORDER: AcqRel; N2, pairs with S1.
        self.word.fetch_add(ONE_NOTICE, Ordering::AcqRel)
    }

    /// The control of the model: a plain load can miss a sleeper that misses the task.
    #[cfg(windlass_weaken = "sleep")]
    fn notice(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// For work on the caller's own ring: wakes one if it happens to see a sleeper.
    #[must_use]
    pub(crate) fn notify_own(&self) -> Option<usize> {
        // ORDER: Relaxed; a miss is harmless, the caller runs the task itself.
        if self.word.load(Ordering::Relaxed) & SLEEPERS == 0 { None } else { self.take_one() }
    }

    fn take_one(&self) -> Option<usize> {
        let mut sleepers = lock(&self.sleepers);
        let worker = sleepers.pop()?;
        // ORDER: AcqRel; as in `give_up`.
        self.word.fetch_sub(ONE_SLEEPER, Ordering::AcqRel);
        Some(worker)
    }

    /// Takes all sleepers off: for the end of the pool.
    pub(crate) fn take_all(&self) -> Vec<usize> {
        self.notice();
        std::iter::from_fn(|| self.take_one()).collect()
    }
}
