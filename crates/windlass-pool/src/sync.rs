//! Everything that threads share, from one place: the standard library, or what takes its place in the checks.
//!
//! Loom (`cfg(loom)`) models the memory of single protocols. Shuttle (`cfg(shuttle)`) runs the whole pool on one thread
//! and decides at every step who goes on; there, time is a matter of chance, too (`chance.rs`).

#[cfg(shuttle)]
mod chance;
#[cfg(shuttle)]
pub(crate) mod parking;

pub(crate) use std::sync::atomic::{AtomicU32 as ProcessCounter, compiler_fence};
/// A lock that is a constant, for what the whole process has once and no model looks at.
#[cfg(debug_assertions)]
pub(crate) use std::sync::{Mutex as ProcessMutex, MutexGuard as ProcessMutexGuard, PoisonError};
/// A lock around what users' closures exchange, which no model looks at.
pub(crate) use std::sync::{RwLock as ResultLock, RwLockReadGuard as ResultReadGuard, TryLockError};

#[cfg(not(shuttle))]
pub(crate) use std::{hint::spin_loop, thread_local, time::Instant};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle, Thread},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle, Thread},
};

#[cfg(shuttle)]
pub(crate) use chance::Instant;
#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::JoinHandle,
    thread_local,
};
#[cfg(shuttle)]
pub(crate) use {
    parking as thread,
    parking::{LocalPointer, Thread},
};

/// How many threads this process may use at a time: the least of processors, affinity and quota.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn available_threads() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Models are small.
#[cfg(loom)]
pub(crate) fn available_threads() -> usize {
    2
}

/// One: looking again instead of sleeping would only make schedules longer.
#[cfg(shuttle)]
pub(crate) fn available_threads() -> usize {
    1
}

/// Parks for at most `timeout`.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn park_timeout(timeout: std::time::Duration) {
    thread::park_timeout(timeout);
}

/// Models have no time. Nor have schedules: the timeout is over when others have had a turn.
#[cfg(any(loom, shuttle))]
pub(crate) fn park_timeout(_timeout: std::time::Duration) {
    thread::yield_now();
}

/// The guard, also when a thread panicked under the lock: every lock here guards plain data that is valid between any
/// two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Waits on the condition while `is_wanted`, for at most `timeout`, and gives the guard back.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn wait_while<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<std::time::Duration>,
    is_wanted: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    match timeout {
        None => condition.wait_while(guard, is_wanted).unwrap_or_else(|poisoned| poisoned.into_inner()),
        Some(timeout) => {
            let waited = condition.wait_timeout_while(guard, timeout, is_wanted);
            waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
        }
    }
}

/// As above, but a timeout that is not zero is never over.
#[cfg(shuttle)]
pub(crate) fn wait_while<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Option<std::time::Duration>,
    is_wanted: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return guard;
    }
    condition.wait_while(guard, is_wanted).unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// No model waits on a condition.
#[cfg(loom)]
pub(crate) fn wait_while<'a, T>(
    _condition: &Condvar,
    guard: MutexGuard<'a, T>,
    _timeout: Option<std::time::Duration>,
    _is_wanted: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    guard
}

/// On cache lines of its own: two, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
