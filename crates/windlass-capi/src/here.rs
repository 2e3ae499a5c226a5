//! What the calling thread is in the middle of.
//!
//! A thread that runs a task, or waits, keeps its pool from being taken down: a call to that pool needs no pin of its
//! own, and a call that would wait for what lies below it on the stack is found out.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pools::Entry;

/// Something on the stack that must end before what it is asked to wait for can: a task, a group's task, or a call.
struct Frame {
    handle: u64,
    below: *const Frame,
}

struct Here {
    frames: Cell<*const Frame>,
    /// The pool that the innermost task or wait belongs to, or zero.
    pool: Cell<u64>,
    /// Where that pool is kept.
    entry: Cell<Option<&'static Entry>>,
    /// The pool whose worker this is, or zero.
    worker_of: Cell<u64>,
    worker_index: Cell<c_int>,
    /// A number of this thread, plus one.
    thread: Cell<usize>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            frames: Cell::new(std::ptr::null()),
            pool: Cell::new(0),
            entry: Cell::new(None),
            worker_of: Cell::new(0),
            worker_index: Cell::new(-1),
            thread: Cell::new(0),
        }
    };
}

/// Where the pool of this number is kept, if this thread keeps it from being taken down.
#[inline]
pub(crate) fn entry_of(pool: u64) -> Option<&'static Entry> {
    HERE.with(|here| if here.pool.get() == pool { here.entry.get() } else { None })
}

/// A small number of this thread, for spreading counts.
#[inline]
pub(crate) fn thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    HERE.with(|here| {
        if here.thread.get() == 0 {
            // ORDER: Relaxed; a number that others need not know.
            here.thread.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        here.thread.get()
    })
}

/// This thread is a worker from now on.
pub(crate) fn become_worker(pool: u64, entry: &'static Entry, index: usize) {
    HERE.with(|here| {
        here.worker_of.set(pool);
        here.pool.set(pool);
        here.entry.set(Some(entry));
        here.worker_index.set(c_int::try_from(index).unwrap_or(-1));
    });
}

/// In the child of a fork: whatever is on the stack belongs to the parent.
pub(crate) fn forget() {
    HERE.with(|here| {
        here.frames.set(std::ptr::null());
        here.pool.set(0);
        here.entry.set(None);
        here.worker_of.set(0);
        here.worker_index.set(-1);
    });
}

/// Whether this thread is in the middle of it.
pub(crate) fn is_inside(handle: u64) -> bool {
    HERE.with(|here| {
        let mut frame = here.frames.get();
        // SAFETY: frames are on this thread's stack, and taken off the list before they go.
        while let Some(this) = unsafe { frame.as_ref() } {
            if this.handle == handle {
                return true;
            }
            frame = this.below;
        }
        // Zero is no pool.
        handle != 0 && here.worker_of.get() == handle
    })
}

/// Runs `f` in the middle of it.
#[inline]
pub(crate) fn within<R>(handle: u64, f: impl FnOnce() -> R) -> R {
    struct Below(*const Frame);
    impl Drop for Below {
        fn drop(&mut self) {
            HERE.with(|here| here.frames.set(self.0));
        }
    }
    let below = HERE.with(|here| here.frames.get());
    let frame = Frame { handle, below };
    HERE.with(|here| here.frames.set(&raw const frame));
    let _below = Below(below);
    f()
}

/// Runs `f`, which waits in this pool, and which the pool therefore waits for.
#[inline]
pub(crate) fn within_pool<R>(pool: u64, entry: &'static Entry, f: impl FnOnce() -> R) -> R {
    struct Before(u64, Option<&'static Entry>);
    impl Drop for Before {
        fn drop(&mut self) {
            HERE.with(|here| {
                here.pool.set(self.0);
                here.entry.set(self.1);
            });
        }
    }
    let _before = HERE.with(|here| Before(here.pool.replace(pool), here.entry.replace(Some(entry))));
    within(pool, f)
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_worker_index() -> c_int {
    HERE.with(|here| here.worker_index.get())
}
