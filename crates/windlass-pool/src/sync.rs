//! Everything that threads share, from one place: the standard library, or loom's models of it.

#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle, Thread},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle, Thread},
};

/// How many threads this process may use at a time.
#[cfg(not(loom))]
pub(crate) fn available_threads() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Models are small.
#[cfg(loom)]
pub(crate) fn available_threads() -> usize {
    2
}

/// The guard, also when a thread panicked under the lock: every lock here guards plain data that is valid between any
/// two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
