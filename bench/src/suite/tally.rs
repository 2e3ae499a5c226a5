//! Counts what tasks did, so that a run that lost one is a failed run.
//!
//! A counter of each thread's own, written by a plain load and store: about a nanosecond a task, the same for every
//! subject, and nothing shared between the threads that run them. What a pool's wait orders before its return is seen.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

static COUNTERS: Mutex<Vec<Arc<AtomicU64>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<AtomicU64> = register();
}

fn register() -> Arc<AtomicU64> {
    let counter = Arc::new(AtomicU64::new(0));
    COUNTERS.lock().unwrap().push(Arc::clone(&counter));
    counter
}

/// Counts `amount`, on the thread that calls it.
pub fn add(amount: u64) {
    // ORDER: Relaxed; only this thread writes. Readers come after the pool's own wait.
    OWN.with(|own| own.store(own.load(Ordering::Relaxed) + amount, Ordering::Relaxed));
}

/// A task that only counts itself.
pub fn add_one() {
    add(1);
}

/// What was counted so far, on all threads.
pub fn total() -> u64 {
    // ORDER: Relaxed; see `add`.
    COUNTERS.lock().unwrap().iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
}

/// Runs `f`, whose tasks must have counted exactly `expected` when it returns.
pub fn verify(expected: u64, f: impl FnOnce()) {
    let before = total();
    f();
    assert_eq!(total() - before, expected, "tasks were lost, or ran twice");
}
