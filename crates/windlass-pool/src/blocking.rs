//! `blocking(f)`: while a task waits for the world, another thread takes its place.
//!
//! A worker inside `blocking` runs no tasks. For each of them, up to the configured number, one spare thread works. When
//! fewer are inside than spares work, a spare stops between two tasks, and waits some seconds to be wanted again before
//! it ends.

use std::time::Duration;

use crate::lane::{self, Lane, Role};
use crate::shared::{Shared, SharedRef};
use crate::sync::{Arc, AtomicUsize, JoinHandle, Mutex, Ordering, lock, thread};
use crate::worker;

/// How long a spare thread waits to be wanted again.
const SPARE_KEPT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// Workers inside `blocking`.
    inside: AtomicUsize,
    /// Spare threads that take tasks, or are about to.
    active: AtomicUsize,
    max: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Blocking {
    fn wanted(&self) -> usize {
        // ORDER: Acquire; only a number: what is decided by it is decided by the exchange in `change_active`.
        self.inside.load(Ordering::Acquire).min(self.max.load(Ordering::Acquire))
    }

    pub(crate) fn lacks_spares(&self) -> bool {
        self.active.load(Ordering::Acquire) < self.wanted()
    }

    /// Changes the number of active spares as `next` says. `false` if it says no.
    fn change_active(&self, next: impl Fn(usize) -> Option<usize>) -> bool {
        self.active.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// One spare more, if one lacks.
    fn add_spare(&self) -> bool {
        self.change_active(|active| (active < self.wanted()).then_some(active + 1))
    }

    /// One spare less, if there are too many: the caller stops taking tasks.
    pub(crate) fn retire_spare(&self) -> bool {
        self.active.load(Ordering::Relaxed) > self.wanted()
            && self.change_active(|active| (active > self.wanted()).then(|| active - 1))
    }

    /// Before the threads are started.
    pub(crate) fn reset(&self, max: usize) {
        self.active.store(0, Ordering::Release);
        self.max.store(max, Ordering::Release);
    }

    /// The threads that were started, to be joined.
    pub(crate) fn take_threads(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *lock(&self.threads))
    }
}

/// Runs `f`, which may block, and has another thread take this worker's place meanwhile. On a thread that is not a
/// worker it just runs `f`.
///
/// # Cost
/// Some microseconds, and a thread's start if no spare thread is at hand. At the configured maximum of spare threads,
/// or if the system gives no thread, no place is taken.
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    /// Counts this worker out again, also when `f` panics.
    struct Inside<'a>(&'a Shared);
    impl Drop for Inside<'_> {
        fn drop(&mut self) {
            self.0.blocking.inside.fetch_sub(1, Ordering::AcqRel);
        }
    }
    lane::with_current(|lane| {
        let Some(lane) = lane.filter(|lane| lane.role == Role::Worker) else {
            return f();
        };
        lane.shared.blocking.inside.fetch_add(1, Ordering::AcqRel);
        let _inside = Inside(&lane.shared);
        lane.prepare_to_block();
        f()
    })
}

impl Lane {
    /// Leaves nothing that others wait for, and calls a spare.
    fn prepare_to_block(&self) {
        self.tell_tally();
        if self.shared.want_a_spare() || !self.shared.blocking.add_spare() {
            return;
        }
        if start_spare(&self.shared).is_err() {
            // The system gives no thread: the pool works on with one less, as it would without `blocking`.
            self.shared.blocking.change_active(|active| active.checked_sub(1));
        }
    }
}

fn start_spare(shared: &SharedRef) -> std::io::Result<()> {
    let config = &shared.config;
    let desk = shared.take_desk();
    shared.count_in(true);
    let builder = thread::Builder::new().name(format!("{}-spare", config.name)).stack_size(config.stack_size);
    let spare = Arc::clone(shared);
    match builder.spawn(move || live(&spare, desk)) {
        Ok(thread) => {
            lock(&shared.blocking.threads).push(thread);
            Ok(())
        }
        Err(cause) => {
            shared.count_out(true);
            shared.give_desk_back(desk);
            Err(cause)
        }
    }
}

/// The life of a spare thread.
fn live(shared: &SharedRef, first_desk: u32) {
    let mut desk = first_desk;
    loop {
        worker::main(shared, desk, true);
        if !shared.wait_to_be_wanted(SPARE_KEPT) {
            break;
        }
        desk = shared.take_desk();
        if !shared.blocking.add_spare() {
            // Somebody else was faster; this one retires at once.
            shared.blocking.active.fetch_add(1, Ordering::AcqRel);
        }
    }
    shared.count_out(true);
    lane::see_to_what_came_last(shared);
}
