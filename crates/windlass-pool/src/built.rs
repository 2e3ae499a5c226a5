//! Closures that are built where they will lie, and run there: for those of other languages, whose values only their own
//! code may move, and for whom each copy of fifty bytes costs more than the call.
//!
//! Everything else about them is as with any task that nobody has the handle of.

use std::any::Any;
use std::marker::PhantomData;

use crate::cancel::Cancelled;
use crate::lane::{Lane, with_lane};
use crate::panic::{Outcome, catch};
use crate::pool::Pool;
use crate::slot::{STORAGE_LEN, Slot, Storage};
use crate::task::{VTable, put};

/// What a task does, if it is run where it lies. Dropped there after it, or instead of it.
pub trait Built: Send + 'static {
    /// Does it. Called at most once.
    fn run(&mut self);
}

impl Pool {
    /// Spawns a task that nobody will ask for the result of, and has `build` put it where it will lie: nothing is moved,
    /// and nothing is allocated once the slots have grown. It has at most 80 bytes, aligned to at most 16.
    ///
    /// When the pool has no slot left, as [`spawn`](Pool::spawn).
    ///
    /// # Safety
    /// `build` writes a `B` to the place it is given, and returns: it does not panic.
    #[inline]
    pub unsafe fn spawn_built<B: Built>(&self, build: impl FnOnce(*mut B)) {
        const { assert!(size_of::<B>() <= STORAGE_LEN && align_of::<B>() <= align_of::<Storage>(), "it must fit a slot") };
        with_lane(self.shared(), |lane| {
            let slot = lane.take_slot().or_else(|| lane.make_room().then(|| lane.take_slot()).flatten());
            match slot {
                // SAFETY: the pool outlives its lanes. The slot is free, and passed on to the caller.
                Some(slot) => unsafe { lane.spawn_in(slot.get(), build) },
                // SAFETY: passed on to the caller.
                None => unsafe { self.spawn_boxed(build) },
            }
        });
    }

    /// # Safety
    /// As [`Pool::spawn_built`].
    #[cold]
    unsafe fn spawn_boxed<B: Built>(&self, build: impl FnOnce(*mut B)) {
        let mut place = Box::<B>::new_uninit();
        build(place.as_mut_ptr());
        // SAFETY: passed on to the caller: it was built.
        let mut built = unsafe { place.assume_init() };
        drop(self.spawn(move || built.run()));
    }
}

impl Lane {
    /// # Safety
    /// The slot is free, and this thread's alone; as [`Pool::spawn_built`].
    #[inline(always)]
    unsafe fn spawn_in<B: Built>(&self, slot: &Slot, build: impl FnOnce(*mut B)) {
        build(slot.storage().cast::<B>());
        let head = slot.head.get();
        // SAFETY: the slot was free: nobody else knows it.
        unsafe {
            (*head).vtable = &TableOf::<B>::TABLE;
            (*head).parent = std::ptr::null();
        }
        slot.state.queue_alone();
        self.push_for_others(slot);
    }
}

/// The table of one type of what is built.
struct TableOf<B>(PhantomData<B>);

impl<B: Built> TableOf<B> {
    const TABLE: VTable = VTable {
        run: run::<B>,
        run_alone: run_alone::<B>,
        cancel: cancel::<B>,
        drop_outcome: crate::task::drop_outcome::<()>,
        name: std::any::type_name::<B>,
    };
}

/// # Safety
/// See [`VTable::run`].
unsafe fn run<B: Built>(storage: *mut Storage) {
    // SAFETY: passed on to the caller.
    let outcome: Outcome<()> = unsafe { run_alone::<B>(storage) }.map_or(Ok(()), Err);
    // SAFETY: what was built has been dropped, so nothing is overwritten that needs dropping.
    unsafe { put(storage, outcome) };
}

/// # Safety
/// See [`VTable::run_alone`].
unsafe fn run_alone<B: Built>(storage: *mut Storage) -> Option<Box<dyn Any + Send>> {
    /// Drops what was built, however it ends; a panic of that while it panics ends the process.
    struct End<B>(*mut B);
    impl<B> Drop for End<B> {
        fn drop(&mut self) {
            // SAFETY: the storage holds a `B`, by the contract of the table, and nobody uses it any more.
            unsafe { self.0.drop_in_place() };
        }
    }
    catch(|| {
        let end = End(storage.cast::<B>());
        // SAFETY: as above, and only the caller touches it.
        unsafe { &mut *end.0 }.run();
    })
    .err()
}

/// # Safety
/// See [`VTable::cancel`].
unsafe fn cancel<B: Built>(storage: *mut Storage) {
    // SAFETY: the storage holds a `B`, by the contract of the table.
    let dropped = catch(|| unsafe { storage.cast::<B>().drop_in_place() });
    let outcome: Outcome<()> = Err(dropped.err().unwrap_or_else(|| Box::new(Cancelled)));
    // SAFETY: what was built has been dropped, so nothing is overwritten that needs dropping.
    unsafe { put(storage, outcome) };
}
