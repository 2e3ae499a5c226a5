//! Running what was found: a task in one of its ways, a segment, a stolen fork; and seeing to its end.
//!
//! Nearly all tasks are *plain*: nobody has the handle and nothing is attached, so the slot belongs to whoever took the
//! entry out, and no exchange is needed. All others are claimed, run, and ended by the protocols of `slot.rs` and
//! `continuation.rs`. A panic ends here, whoever runs the task.

use crate::continuation::{Ending, end_closure, end_everything};
use crate::forks::ForkHead;
use crate::graph::Segment;
use crate::lane::{Lane, Role};
use crate::shared::flag;
use crate::slot::{Entered, Finish, Slot, SlotRef};
use crate::worker::Work;

impl Lane {
    pub(crate) fn run(&self, work: Work) {
        match work {
            Work::Task(slot) => self.run_entry(slot),
            Work::Fork { fork, owner } => self.run_fork(fork, owner),
        }
    }

    fn run_fork(&self, fork: *const ForkHead, owner: u32) {
        // Nobody knows how long it takes.
        self.tell_tally();
        self.enter_call();
        // SAFETY: it was taken off its cell, so nobody else runs it, and its owner waits for its end.
        let head = unsafe { &*fork };
        // SAFETY: as above.
        unsafe { (head.run)(fork, self) };
        self.leave_call();
        self.desk().counters.run.add(1);
        if head.state.end() {
            self.shared.desk(owner).unpark();
        }
    }

    /// User code is about to run on this lane.
    #[inline]
    pub(crate) fn enter_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    #[inline]
    pub(crate) fn leave_call(&self) {
        let calls = self.calls.get() - 1;
        self.calls.set(calls);
        // What an outside thread pushed without ringing, because it was busy with the pool, it may now leave behind.
        if calls == 0 && self.role == Role::Guest && !self.desk().ring.is_empty() {
            self.ring_bell();
        }
    }

    /// The entry of a task came out of a queue.
    #[inline]
    pub(crate) fn run_entry(&self, slot: SlotRef) {
        if let Some(segment) = slot.as_segment() {
            return self.run_segment(segment);
        }
        // SAFETY: the pool outlives its lanes.
        let slot = unsafe { slot.get() };
        match slot.state.enter() {
            Entered::Alone if slot.state.is_plain() && self.shared.flags() & flag::CLOSELY == 0 => self.run_plain(slot),
            Entered::Alone => {
                let is_mine = slot.state.claim_alone();
                debug_assert!(is_mine, "the entry found the task queued, and nobody has the handle");
                self.run_claimed(slot);
            }
            Entered::Shared => self.run_claimed(slot),
            Entered::Spent => {}
            Entered::SpentLast => self.free_slot(slot),
        }
    }

    /// The entry of a segment came out of a queue.
    fn run_segment(&self, segment: *const Segment) {
        self.enter_call();
        let floor = self.floor.replace(self.desk().ring.tail());
        // SAFETY: it came out of a queue.
        unsafe { Segment::run(segment, self) };
        self.restore_floor(floor);
        self.leave_call();
        if self.shared.flags() & flag::WATCHED != 0 {
            self.shared.tell_watchers();
        }
    }

    /// Runs a task that nobody has the handle of, and nothing is attached to: nearly all are like this.
    #[inline]
    fn run_plain(&self, slot: &Slot) {
        // SAFETY: the entry gave us the slot, and nobody else knows it.
        let head = unsafe { &*slot.head.get() };
        let parent = head.parent;
        self.begin_of(parent);
        let floor = self.enter_task(slot);
        // SAFETY: the storage holds the closure of this table, and it is ours.
        let panic = unsafe { (head.vtable.run_alone)(slot.storage()) };
        self.leave_task(floor);
        self.free_slot(slot);
        if let Some(panic) = panic {
            self.tell_panic(panic);
        }
        self.count_end_of(parent);
    }

    /// Runs a claimed task on this thread, whoever it is, and sees to its end.
    pub(crate) fn run_claimed(&self, slot: &Slot) {
        let flags = self.shared.flags();
        if flags & flag::CANCEL != 0 {
            return self.cancel_claimed(slot);
        }
        // SAFETY: the claim made the closure ours. The table was written before the task was scheduled.
        let head = unsafe { &*slot.head.get() };
        self.begin_of(head.parent);
        let span = (flags & flag::TRACE != 0).then(|| self.desk().trace.begin((head.vtable.name)().into()));
        let floor = self.enter_task(slot);
        // SAFETY: as above.
        unsafe { (head.vtable.run)(slot.storage()) };
        self.leave_task(floor);
        if let Some(span) = span {
            self.desk().trace.end(span);
        }
        self.end_body(slot);
    }

    /// Runs a task that the caller has the entry and the only handle of, for its outcome. Answers whether that is there:
    /// children may keep the task open.
    #[inline]
    pub(crate) fn run_for_outcome(&self, slot: &Slot) -> bool {
        if !slot.state.is_plain() || self.shared.flags() & flag::CLOSELY != 0 {
            self.run_claimed(slot);
            return slot.state.is_done();
        }
        // SAFETY: nobody else knows the slot.
        let head = unsafe { &*slot.head.get() };
        let parent = head.parent;
        self.begin_of(parent);
        let floor = self.enter_task(slot);
        // SAFETY: the storage holds the closure of this table, and it is ours.
        unsafe { (head.vtable.run)(slot.storage()) };
        self.leave_task(floor);
        self.count_end_of(parent);
        true
    }

    /// Drops the closure of a claimed task unrun, and sees to its end.
    pub(crate) fn cancel_claimed(&self, slot: &Slot) {
        // SAFETY: the claim made the closure ours.
        let head = unsafe { &*slot.head.get() };
        // SAFETY: the storage holds the closure of this table.
        unsafe { (head.vtable.cancel)(slot.storage()) };
        self.end_body(slot);
    }

    #[inline]
    fn enter_task(&self, slot: &Slot) -> u64 {
        #[cfg(debug_assertions)]
        self.under_way.borrow_mut().push(slot.id());
        #[cfg(not(debug_assertions))]
        let _ = slot;
        self.enter_call();
        self.floor.replace(self.desk().ring.tail())
    }

    #[inline]
    fn leave_task(&self, floor: u64) {
        self.restore_floor(floor);
        self.leave_call();
        self.desk().counters.run.add(1);
        if self.shared.flags() & flag::WATCHED != 0 {
            self.shared.tell_watchers();
        }
        #[cfg(debug_assertions)]
        self.under_way.borrow_mut().pop();
    }

    /// The closure has ended; so has the task, unless children keep it open.
    fn end_body(&self, slot: &Slot) {
        if let Some(ending) = end_closure(slot) {
            self.see_to(slot, ending);
        }
    }

    /// The end of a task: its outcome is there, and the caller has counted the last of those out that kept it open.
    pub(crate) fn complete(&self, slot: &Slot) {
        self.see_to(slot, end_everything(slot));
    }

    /// A task has ended, and its slot may be gone, unless it is an orphan's.
    #[inline]
    fn see_to(&self, slot: &Slot, ending: Ending) {
        match ending.finish {
            Finish::Handed => {
                if ending.has_waker
                    && let Err(panic) = crate::panic::catch(|| self.shared.wakers.wake(ending.id))
                {
                    // Nobody who waits may be unwound through: the hook is told instead.
                    self.tell_panic(panic);
                }
                if let Some(desk) = ending.waiter {
                    self.shared.desk(desk).unpark();
                }
            }
            Finish::Orphaned => self.discard(slot),
            Finish::Open => unreachable!("a task was ended that others keep open"),
        }
        self.release(ending.edges);
        self.count_end_of(ending.parent);
    }

    /// Drops the outcome of a task nobody waits for, tells the hook of its panic, and gives up the slot.
    pub(crate) fn discard(&self, slot: &Slot) {
        // SAFETY: the task has ended, and the outcome is the caller's.
        let head = unsafe { &*slot.head.get() };
        // SAFETY: the task has run: the storage holds the outcome of this table's closure.
        let panic = unsafe { (head.vtable.drop_outcome)(slot.storage()) };
        if slot.state.leave() {
            self.free_slot(slot);
        }
        if let Some(panic) = panic {
            self.tell_panic(panic);
        }
    }

    #[cold]
    pub(crate) fn tell_panic(&self, panic: Box<dyn std::any::Any + Send>) {
        if panic.is::<crate::cancel::Cancelled>() {
            return;
        }
        crate::panic::tell_hook(&self.shared.config.panic_hook, panic);
    }
}
