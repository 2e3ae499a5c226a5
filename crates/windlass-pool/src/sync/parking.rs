//! Threads under shuttle: how they park, and what their storage offers.
//!
//! Shuttle lets a parked thread wake for nothing at any step. So it may; but if it nearly always does, a thread that
//! nobody wakes is not missed. Here a thread wakes for nothing only in one of [`WAKES_FOR_NOTHING`] parks, and at once.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Mutex as MapLock, PoisonError};

use shuttle::rand::{Rng as _, thread_rng};
use shuttle::sync::{Arc, Condvar, Mutex};
#[cfg(test)]
pub(crate) use shuttle::thread::spawn;
pub(crate) use shuttle::thread::{Builder, LocalKey, ThreadId, yield_now};

use super::lock;

/// Parks of which one ends at once, for nothing.
const WAKES_FOR_NOTHING: u32 = 16;

/// What a thread sleeps on.
#[derive(Debug, Default)]
struct Parker {
    is_unparked: Mutex<bool>,
    changed: Condvar,
}

shuttle::lazy_static! {
    /// By thread, not in its storage: a thread that ends may still wait when that has gone.
    static ref PARKERS: MapLock<HashMap<usize, Arc<Parker>>> = MapLock::new(HashMap::new());
}

/// A thread, to be unparked.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    id: ThreadId,
    parker: Arc<Parker>,
}

impl Thread {
    pub(crate) fn id(&self) -> ThreadId {
        self.id
    }

    pub(crate) fn unpark(&self) {
        *lock(&self.parker.is_unparked) = true;
        self.parker.changed.notify_one();
    }
}

pub(crate) fn current() -> Thread {
    let id = shuttle::thread::current().id();
    let mut parkers = PARKERS.lock().unwrap_or_else(PoisonError::into_inner);
    Thread { id, parker: Arc::clone(parkers.entry(id.into()).or_default()) }
}

pub(crate) fn park() {
    if thread_rng().gen_ratio(1, WAKES_FOR_NOTHING) {
        return yield_now();
    }
    let parker = current().parker;
    let is_unparked = lock(&parker.is_unparked);
    let woken = parker.changed.wait_while(is_unparked, |is_unparked| !*is_unparked);
    *woken.unwrap_or_else(PoisonError::into_inner) = false;
}

/// What the standard library's storage for threads offers for cells, and shuttle's does not.
pub(crate) trait LocalPointer<T> {
    fn get(&'static self) -> *const T;
    fn set(&'static self, pointer: *const T);
}

/// Null once the storage of a thread that ends is gone: a plain cell of the standard library outlives what has a
/// destructor.
impl<T> LocalPointer<T> for LocalKey<Cell<*const T>> {
    fn get(&'static self) -> *const T {
        self.try_with(Cell::get).unwrap_or(std::ptr::null())
    }

    fn set(&'static self, pointer: *const T) {
        // Best effort: what is gone is null, and nobody sets anything else then.
        let _ = self.try_with(|cell| cell.set(pointer));
    }
}
