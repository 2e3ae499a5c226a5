//! What each thread has done, counted.

use crate::sync::{AtomicU64, Ordering};

/// What one worker has done since the pool was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Tasks and forks it ran.
    pub run: u64,
    /// Of these, those it took from another thread.
    pub stolen: u64,
    /// Tasks it queued, and forks it showed to others.
    pub offered: u64,
    /// Times it went to sleep.
    pub parked: u64,
    /// Times it was woken for work.
    pub woken: u64,
}

/// The counters of one thread. Written by that thread only, read by anybody.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) run: Count,
    pub(crate) stolen: Count,
    pub(crate) offered: Count,
    pub(crate) parked: Count,
    pub(crate) woken: Count,
}

/// A number that one thread counts up.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, number: u64) {
        // ORDER: Relaxed; only this thread writes it, and it publishes nothing. So a load and a store are enough.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // ORDER: Relaxed; a number for people.
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn snapshot(&self) -> WorkerMetrics {
        WorkerMetrics {
            run: self.run.get(),
            stolen: self.stolen.get(),
            offered: self.offered.get(),
            parked: self.parked.get(),
            woken: self.woken.get(),
        }
    }

    pub(crate) fn offered(&self) -> u64 {
        self.offered.get()
    }
}
