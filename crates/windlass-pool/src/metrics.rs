//! What each worker has done, counted.

use crate::sync::{AtomicU64, Ordering};

/// What one worker has done since the pool started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerMetrics {
    /// Tasks it ran.
    pub run: u64,
    /// Of these, tasks it took from another worker.
    pub stolen: u64,
    /// Times it went to sleep.
    pub parked: u64,
    /// Times it was woken for work.
    pub woken: u64,
}

/// The counters of one worker. Written by that worker only, read by anybody.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) run: Count,
    pub(crate) stolen: Count,
    pub(crate) parked: Count,
    pub(crate) woken: Count,
}

/// A number that one thread counts up.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add_one(&self) {
        // ORDER: Relaxed; only this thread writes it, and it publishes nothing. So a load and a store are enough.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        // ORDER: Relaxed; a number for people.
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn snapshot(&self) -> WorkerMetrics {
        WorkerMetrics {
            run: self.run.get(),
            stolen: self.stolen.get(),
            parked: self.parked.get(),
            woken: self.woken.get(),
        }
    }
}
