//! A count that becomes zero once, and a thread that waits for it.
//!
//! Held by reference count, so that the last one to count down may touch it after the waiter has gone on.

use std::any::Any;

use crate::sync::{AtomicUsize, Mutex, Ordering, Thread, lock};

#[derive(Debug)]
pub(crate) struct CountLatch {
    /// What is still to come. Counted up before work is made visible, down when it has ended.
    count: AtomicUsize,
    waiter: Mutex<Option<Thread>>,
    /// The first panic of the work counted.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl CountLatch {
    pub(crate) fn new() -> CountLatch {
        CountLatch { count: AtomicUsize::new(0), waiter: Mutex::new(None), panic: Mutex::new(None) }
    }

    /// One more to come.
    pub(crate) fn count_up(&self) {
        // ORDER: Relaxed; the caller holds the latch open: it is the scope's owner, or one of those counted.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// One less. The last one wakes the waiter.
    pub(crate) fn count_down(&self) {
        // ORDER: AcqRel; pairs with `probe`: the waiter sees everything that was done before each of the counts.
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waiter) = lock(&self.waiter).take()
        {
            waiter.unpark();
        }
    }

    /// Whether nothing is to come.
    pub(crate) fn probe(&self) -> bool {
        // ORDER: Acquire; pairs with `count_down`.
        self.count.load(Ordering::Acquire) == 0
    }

    /// Registers whom to wake. The caller must probe once more before it parks: either it sees zero, or the last
    /// `count_down`, which takes the lock after its count, sees the waiter.
    pub(crate) fn set_waiter(&self, thread: Thread) {
        *lock(&self.waiter) = Some(thread);
    }

    /// Keeps a panic, if it is the first.
    pub(crate) fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        lock(&self.panic).get_or_insert(panic);
    }

    pub(crate) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        lock(&self.panic).take()
    }
}
