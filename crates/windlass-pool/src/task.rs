//! A closure in a slot, its result after it, and the handle that waits for it.
//!
//! The pool does not know the types of its tasks. A [`VTable`], made for each type, knows how to run the closure in
//! the storage and leave its outcome there, and how to drop either. What does not fit into the storage is boxed.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{align_of, size_of};

use crate::panic::{Outcome, catch, unwrap};
use crate::slot::{Detach, STORAGE_LEN, Storage, TaskId};
use crate::sync::Arc;
use crate::worker::{self, Shared};

/// How to treat what is in a slot's storage.
pub(crate) struct VTable {
    /// Takes the closure out, runs it, and puts its outcome in.
    ///
    /// # Safety
    /// The storage holds the closure this table was made for, and only the caller touches it.
    pub(crate) run: unsafe fn(*mut Storage),
    /// Drops the closure, unrun.
    ///
    /// # Safety
    /// As `run`.
    pub(crate) drop_closure: unsafe fn(*mut Storage),
    /// Drops the outcome, and answers its panic if it is one.
    ///
    /// # Safety
    /// The storage holds the outcome of the closure this table was made for, and only the caller touches it.
    pub(crate) drop_outcome: unsafe fn(*mut Storage) -> Option<Box<dyn Any + Send>>,
}

/// The table of one type of closure and its value.
struct TableOf<F, T>(PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> TableOf<F, T> {
    const TABLE: VTable = VTable { run: run::<F, T>, drop_closure: drop_closure::<F>, drop_outcome: drop_outcome::<T> };
}

/// Puts a closure into a storage, and answers its table.
///
/// # Safety
/// Only the caller touches the storage, and it holds nothing that needs dropping.
pub(crate) unsafe fn put_closure<F: FnOnce() -> T, T>(storage: *mut Storage, f: F) -> &'static VTable {
    // SAFETY: passed on to the caller.
    unsafe { put(storage, f) };
    &TableOf::<F, T>::TABLE
}

/// # Safety
/// See [`VTable::run`].
unsafe fn run<F: FnOnce() -> T, T>(storage: *mut Storage) {
    // SAFETY: the storage holds an `F`, by the contract of the table.
    let f = unsafe { take::<F>(storage) };
    let outcome: Outcome<T> = catch(f);
    // SAFETY: the closure has been taken out, so nothing is overwritten that needs dropping.
    unsafe { put(storage, outcome) };
}

/// # Safety
/// See [`VTable::drop_closure`].
unsafe fn drop_closure<F>(storage: *mut Storage) {
    // SAFETY: the storage holds an `F`, by the contract of the table.
    let f = unsafe { take::<F>(storage) };
    // A destructor that panics must not take the worker with it.
    let _ = catch(move || drop(f));
}

/// # Safety
/// See [`VTable::drop_outcome`].
unsafe fn drop_outcome<T>(storage: *mut Storage) -> Option<Box<dyn Any + Send>> {
    // SAFETY: the storage holds an `Outcome<T>`, by the contract of the table.
    let outcome = unsafe { take::<Outcome<T>>(storage) };
    match outcome {
        Err(panic) => Some(panic),
        Ok(value) => catch(move || drop(value)).err(),
    }
}

/// Whether a value lies in the storage itself, and not in a box.
const fn is_inline<V>() -> bool {
    // LZ-19: a value whose alignment the storage does not offer must not be put there.
    size_of::<V>() <= STORAGE_LEN && align_of::<V>() <= align_of::<Storage>()
}

/// # Safety
/// Only the caller touches the storage, and it holds nothing that needs dropping.
unsafe fn put<V>(storage: *mut Storage, value: V) {
    if is_inline::<V>() {
        // SAFETY: it fits in size and alignment.
        unsafe { storage.cast::<V>().write(value) };
    } else {
        let boxed = Box::into_raw(Box::new(value));
        // SAFETY: a thin pointer fits.
        unsafe { storage.cast::<*mut V>().write(boxed) };
    }
}

/// # Safety
/// The storage holds a `V` that [`put`] wrote, only the caller touches it, and nobody reads it again.
unsafe fn take<V>(storage: *mut Storage) -> V {
    if is_inline::<V>() {
        // SAFETY: `put` wrote it inline, for the same reason.
        unsafe { storage.cast::<V>().read() }
    } else {
        // SAFETY: `put` wrote a pointer, for the same reason.
        let boxed = unsafe { storage.cast::<*mut V>().read() };
        // SAFETY: made by `Box::into_raw` in `put`, and read once.
        *unsafe { Box::from_raw(boxed) }
    }
}

/// A task that was spawned: wait for its result, or drop the handle and let it run by itself.
///
/// May be sent to other threads. Dropping it does not stop the task: it runs all the same, and its result is dropped.
#[must_use = "a task runs without its handle; drop it in so many words"]
pub struct Task<T> {
    kind: Kind<T>,
}

enum Kind<T> {
    /// In a slot.
    Slot { shared: Arc<Shared>, id: TaskId, of: PhantomData<fn() -> T> },
    /// Run already, on the caller's thread, because there was no slot.
    Ready(Option<Outcome<T>>),
}

impl<T> Task<T> {
    pub(crate) fn in_slot(shared: Arc<Shared>, id: TaskId) -> Task<T> {
        Task { kind: Kind::Slot { shared, id, of: PhantomData } }
    }

    pub(crate) fn ready(outcome: Outcome<T>) -> Task<T> {
        Task { kind: Kind::Ready(Some(outcome)) }
    }

    /// Whether it has ended. Costs one load.
    pub fn is_done(&self) -> bool {
        match &self.kind {
            Kind::Ready(_) => true,
            Kind::Slot { shared, id, .. } => shared.slots.get(id.index()).state.is_done(),
        }
    }

    /// Waits until the task has ended, and answers its value.
    ///
    /// A task that has not begun is run right here. A worker runs other tasks while it waits, to a bounded depth; other
    /// threads sleep.
    ///
    /// # Panics
    /// With the panic of the task. In debug builds also when a task waits for itself, which would never end.
    ///
    /// # Blocking
    /// Until the task has ended.
    pub fn wait(mut self) -> T {
        unwrap(self.outcome())
    }

    /// Waits and takes the outcome. The handle is spent then.
    pub(crate) fn outcome(&mut self) -> Outcome<T> {
        match std::mem::replace(&mut self.kind, Kind::Ready(None)) {
            Kind::Ready(outcome) => outcome.expect("a handle is waited for once"),
            Kind::Slot { shared, id, .. } => {
                worker::run_or_wait(&shared, id);
                let slot = shared.slots.get(id.index());
                // SAFETY: the word says done, and we hold the only handle (slot.rs, table): the body is ours.
                let body = unsafe { &mut *slot.body.get() };
                body.waiter = None;
                // SAFETY: the slot holds the outcome of a closure whose value is a `T`, by the type of the handle.
                let outcome = unsafe { take::<Outcome<T>>(&mut body.storage) };
                worker::free_slot(&shared, id.index());
                outcome
            }
        }
    }

    /// Takes the task back if it has not begun: its closure is dropped, unrun. `false` if somebody runs or ran it.
    pub(crate) fn revoke(&mut self) -> bool {
        let Kind::Slot { shared, id, .. } = &self.kind else {
            return false;
        };
        let is_revoked = worker::revoke(shared, *id);
        if is_revoked {
            self.kind = Kind::Ready(None);
        }
        is_revoked
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        let Kind::Slot { shared, id, .. } = &self.kind else {
            return;
        };
        if shared.slots.get(id.index()).state.detach() == Detach::Mine {
            worker::discard_outcome(shared, id.index());
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", if self.is_done() { "done" } else { "under way" })
    }
}
