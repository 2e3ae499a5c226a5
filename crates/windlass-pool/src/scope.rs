//! `scope(|s| s.spawn(..))`: any number of tasks that may borrow what outlives the scope.
//!
//! A scope is a task without a closure, on the stack of its owner: its tasks are its children, counted in its `open`.
//! The scope does not return, nor unwind, before the count is zero: that is why its tasks may borrow. The owner counts
//! what it spawns in plain memory, beside a count that is too large meanwhile, and corrects it at the end; each worker
//! counts the ends it has seen and tells them together (`lane.rs`, the tally). So a task costs no shared count.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use crate::continuation::BUILDING;
use crate::lane::{Lane, with_lane};
use crate::panic::{catch, keep_first, unwrap};
use crate::shared::SharedRef;
use crate::slot::{Slot, SlotRef};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::wait::Help;

/// When the owner's own count has come so far, it is told.
const OWN_COUNT_MAX: u32 = 1 << 30;

/// What the tasks of a scope share; on the stack of its owner.
struct Core {
    /// Not a slot of the pool: a count, a state, and a waiter.
    root: Slot,
    shared: SharedRef,
    /// The lane of the owner.
    owner: *const Lane,
    /// What the owner has spawned and not told `root`. Owner only.
    own_count: Cell<u32>,
    /// The owner's closure has ended, and what the owner still spawns, in tasks it runs while it waits, is told at once.
    /// Owner only.
    is_closed: Cell<bool>,
    is_cancelled: AtomicBool,
    /// The first panic of a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Where tasks are spawned that may borrow for `'scope`. Made by [`Pool::scope`](crate::Pool::scope).
pub struct Scope<'scope> {
    core: *const Core,
    /// Invariant: a longer or shorter scope is another one.
    of: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

// SAFETY: the core lives until all tasks have ended; `own_count` is touched on the owner's thread only, which `is_owner`
// makes sure of, and all else of it may be shared.
unsafe impl Send for Scope<'_> {}
// SAFETY: as above.
unsafe impl Sync for Scope<'_> {}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope")
    }
}

impl<'scope> Scope<'scope> {
    fn core(&self) -> &Core {
        // SAFETY: a scope is lent to its owner's closure and to its tasks, and the core outlives both.
        unsafe { &*self.core }
    }

    /// Spawns a task that may borrow for `'scope`, and may spawn further ones. It has ended when the scope returns.
    ///
    /// When the pool has no slot left, a task runs here and now.
    ///
    /// # Panics
    /// A panic of the task is thrown again by the scope, when all tasks have ended; the first one, if there are several.
    ///
    /// # Cost
    /// No allocation for a closure of up to 72 bytes, once the slots have grown.
    #[inline]
    pub fn spawn(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        let core = self.core();
        with_lane(&core.shared, |lane| {
            core.count_up(lane, 1);
            // SAFETY: what `f` borrows lives for `'scope`, and the scope ends only after this task's end was counted,
            // which is after the last use of `f`. The root counts it.
            if let Err(task) = unsafe { lane.spawn_alone_or_work(self.task_of(f), &raw const core.root) } {
                run_without_slot(lane, core, task);
            }
        });
    }

    /// Spawns many tasks, shows them to the others at once, and wakes at most who can help.
    ///
    /// # Panics
    /// As [`spawn`](Scope::spawn).
    pub fn spawn_many<F>(&self, tasks: impl IntoIterator<Item = F>)
    where
        F: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        let core = self.core();
        with_lane(&core.shared, |lane| {
            let mut batch = Batch::new(lane);
            for f in tasks {
                core.count_up(lane, 1);
                // SAFETY: as in `spawn`.
                if let Err(task) = unsafe { batch.add(self.task_of(f), &raw const core.root) } {
                    run_without_slot(lane, core, task);
                }
            }
        });
    }

    /// The closure as the pool runs it.
    #[inline(always)]
    fn task_of(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) -> impl FnOnce() + Send + 'scope {
        let scope = Scope { core: self.core, of: PhantomData };
        move || {
            let scope = scope;
            if scope.is_cancelled() {
                return;
            }
            if let Err(panic) = catch(|| f(&scope)) {
                keep_first(&scope.core().panic, panic);
            }
        }
    }

    /// Keeps the scope's tasks that have not begun from running. Those that run may ask.
    pub fn cancel(&self) {
        self.core().is_cancelled.store(true, Ordering::Release);
    }

    /// Whether the scope was cancelled.
    pub fn is_cancelled(&self) -> bool {
        // ORDER: Acquire; pairs with `cancel`.
        self.core().is_cancelled.load(Ordering::Acquire)
    }
}

/// Tasks that are shown together, at most: the others need not wait for the last of many.
const SHOWN_TOGETHER_MAX: usize = 256;

/// Tasks that are written, and not shown yet. They are shown when there are enough of them, when there is no slot for
/// another, and when this is dropped: also if the iterator they come from panics, for their group counts them already.
pub(crate) struct Batch<'a> {
    lane: &'a Lane,
    slots: [SlotRef; SHOWN_TOGETHER_MAX],
    len: usize,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(lane: &'a Lane) -> Batch<'a> {
        Batch { lane, slots: [SlotRef::NONE; SHOWN_TOGETHER_MAX], len: 0 }
    }

    /// Writes a task. If there is no slot, it runs queued ones, those of the batch too; if that does not help, it gives
    /// the task back.
    ///
    /// # Safety
    /// As [`Lane::write_alone`].
    pub(crate) unsafe fn add<F: FnOnce() + Send>(&mut self, f: F, parent: *const Slot) -> Result<(), F> {
        // SAFETY: passed on to the caller.
        match unsafe { self.lane.write_alone(f, parent) } {
            Ok(slot) => {
                self.slots[self.len] = slot;
                self.len += 1;
                if self.len == SHOWN_TOGETHER_MAX {
                    self.show();
                }
                Ok(())
            }
            Err(f) => {
                self.show();
                // SAFETY: passed on to the caller.
                unsafe { self.lane.spawn_alone_or_work(f, parent) }
            }
        }
    }

    fn show(&mut self) {
        let len = std::mem::replace(&mut self.len, 0);
        if len > 0 {
            self.lane.push_many(self.slots[..len].iter().copied());
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.show();
    }
}

/// There was no slot: some task runs here and now, this one if need be.
#[cold]
fn run_without_slot(lane: &Lane, core: &Core, task: impl FnOnce()) {
    // It catches its own panic.
    lane.for_want_of_a_slot(task);
    lane.count_end_of(&raw const core.root);
}

impl Core {
    fn is_owner(&self, lane: &Lane) -> bool {
        ptr::eq(self.owner, lane)
    }

    #[inline]
    fn count_up(&self, lane: &Lane, count: u32) {
        if !self.is_owner(lane) || self.is_closed.get() {
            // ORDER: Relaxed; the task that spawns is counted itself, so the scope is open.
            self.root.open.fetch_add(count, Ordering::Relaxed);
            return;
        }
        let own = self.own_count.get() + count;
        self.own_count.set(own);
        if own >= OWN_COUNT_MAX {
            self.root.open.fetch_add(self.own_count.replace(0), Ordering::Relaxed);
        }
    }

    /// The owner's closure has ended: what the count says is true from now on.
    fn close(&self, lane: &Lane) {
        self.is_closed.set(true);
        let change = BUILDING - self.own_count.replace(0);
        lane.tell_tally();
        if self.root.count_ends(change) {
            lane.complete(&self.root);
        }
    }

    fn wait(&self, lane: &Lane) {
        let register = || {
            // SAFETY: the waiter's place is the owner's until the flag is set (slot.rs), and it is set once.
            unsafe { (*self.root.head.get()).waiter = lane.index };
            self.root.state.add_waiter()
        };
        lane.wait(Help::Anything, || self.root.state.is_done(), register);
    }
}

/// Runs `f` with a scope, and waits for every task spawned in it.
pub(crate) fn scope<'scope, R>(shared: &SharedRef, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
    with_lane(shared, |lane| {
        let core = Core {
            root: Slot::new(),
            shared: Arc::clone(shared),
            owner: lane,
            own_count: Cell::new(0),
            is_closed: Cell::new(false),
            is_cancelled: AtomicBool::new(false),
            panic: Mutex::new(None),
        };
        core.root.state.open_root();
        // ORDER: Relaxed; published with the first task.
        core.root.open.store(BUILDING, Ordering::Relaxed);
        lane.enter_call();
        let outcome = catch(|| f(&Scope { core: &raw const core, of: PhantomData }));
        core.close(lane);
        core.wait(lane);
        lane.leave_call();
        let value = unwrap(outcome);
        if let Some(panic) = lock(&core.panic).take() {
            std::panic::resume_unwind(panic);
        }
        value
    })
}
