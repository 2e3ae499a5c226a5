//! A closure in a slot, its result after it, and the handle that waits for it.
//!
//! The pool does not know the types of its tasks. A [`VTable`], made for each type, knows how to run the closure in the
//! storage and leave its outcome there, and how to drop either. What does not fit into the storage is boxed.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::cancel::Cancelled;
use crate::error::TaskError;
use crate::home::{self, Home};
use crate::lane::{self, Lane, with_lane};
use crate::panic::{Outcome, catch, unwrap};
use crate::slot::{BATCH_LEN, Detach, Entered, STORAGE_LEN, Slot, SlotRef, Storage, TaskId};
use crate::sync::{Instant, Mutex, Ordering, lock, park_timeout};
use crate::wait::{Help, LOOK_AGAIN};

/// Tasks that are run inside each other for want of a slot, at most. Each level costs the stack of one task.
const ROOM_DEPTH_MAX: u32 = 32;

/// How to treat what is in a slot's storage.
pub(crate) struct VTable {
    /// Takes the closure out, runs it, and puts its outcome in.
    ///
    /// # Safety
    /// The storage holds the closure this table was made for, and only the caller touches it.
    pub(crate) run: unsafe fn(*mut Storage),
    /// Takes the closure out, runs it, and drops its value; answers its panic.
    ///
    /// # Safety
    /// As `run`.
    pub(crate) run_alone: unsafe fn(*mut Storage) -> Option<Box<dyn Any + Send>>,
    /// Drops the closure, unrun, and puts in that it was cancelled.
    ///
    /// # Safety
    /// As `run`.
    pub(crate) cancel: unsafe fn(*mut Storage),
    /// Drops the outcome, and answers its panic if it is one.
    ///
    /// # Safety
    /// The storage holds the outcome of the closure this table was made for, and only the caller touches it.
    pub(crate) drop_outcome: unsafe fn(*mut Storage) -> Option<Box<dyn Any + Send>>,
    /// What the closure is called in traces.
    pub(crate) name: fn() -> &'static str,
}

/// The table of a slot that was never used.
pub(crate) static NOTHING: VTable = VTable {
    run: |_| unreachable!("an empty slot was run"),
    run_alone: |_| unreachable!("an empty slot was run"),
    cancel: |_| unreachable!("an empty slot was cancelled"),
    drop_outcome: |_| None,
    name: || "nothing",
};

/// The table of one type of closure and its value.
struct TableOf<F, T>(PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> TableOf<F, T> {
    const TABLE: VTable = VTable {
        run: run::<F, T>,
        run_alone: run_alone::<F, T>,
        cancel: cancel::<F, T>,
        drop_outcome: drop_outcome::<T>,
        name: std::any::type_name::<F>,
    };
}

/// Puts a closure into a storage, and answers its table.
///
/// # Safety
/// Only the caller touches the storage, and it holds nothing that needs dropping.
#[inline(always)]
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
/// See [`VTable::run_alone`].
unsafe fn run_alone<F: FnOnce() -> T, T>(storage: *mut Storage) -> Option<Box<dyn Any + Send>> {
    // SAFETY: the storage holds an `F`, by the contract of the table.
    let f = unsafe { take::<F>(storage) };
    // The value is dropped inside: its destructor may panic, too.
    catch(move || drop(f())).err()
}

/// # Safety
/// See [`VTable::cancel`].
unsafe fn cancel<F, T>(storage: *mut Storage) {
    // SAFETY: the storage holds an `F`, by the contract of the table.
    let f = unsafe { take::<F>(storage) };
    // A destructor that panics must not take the worker with it; what it says, the waiter is told.
    let outcome: Outcome<T> = Err(catch(move || drop(f)).err().unwrap_or_else(|| Box::new(Cancelled)));
    // SAFETY: the closure has been taken out, so nothing is overwritten that needs dropping.
    unsafe { put(storage, outcome) };
}

/// # Safety
/// See [`VTable::drop_outcome`].
pub(crate) unsafe fn drop_outcome<T>(storage: *mut Storage) -> Option<Box<dyn Any + Send>> {
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
#[inline(always)]
pub(crate) unsafe fn put<V>(storage: *mut Storage, value: V) {
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
#[inline(always)]
pub(crate) unsafe fn take<V>(storage: *mut Storage) -> V {
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

/// The wakers of tasks that are awaited, beside the slots: awaiting is rare, and wakers are large.
#[derive(Debug, Default)]
pub(crate) struct Wakers(Mutex<HashMap<TaskId, Waker>>);

impl Wakers {
    fn keep(&self, id: TaskId, waker: &Waker) {
        let waker = waker.clone();
        // Not under the lock: the destructor of a waker may do anything, also drop a task that is awaited.
        let before = lock(&self.0).insert(id, waker);
        drop(before);
    }

    fn remove(&self, id: TaskId) -> Option<Waker> {
        lock(&self.0).remove(&id)
    }

    /// The task has said done: whoever registered before that is found here, whoever comes later sees that it is done.
    pub(crate) fn wake(&self, id: TaskId) {
        // Not under the lock: a waker may do anything.
        let waker = self.remove(id);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Lane {
    /// Writes a task into a free slot, or gives it back when there is none.
    ///
    /// # Safety
    /// What `f` borrows outlives its run or its drop. `parent` is null, or counts this task until its end.
    #[inline(always)]
    unsafe fn write<F, T>(&self, f: F, parent: *const Slot) -> Result<&Slot, F>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let Some(slot) = self.take_slot() else {
            return Err(f);
        };
        // SAFETY: the pool outlives its lanes, and so does the reference.
        let slot = unsafe { slot.get() };
        let head = slot.head.get();
        // SAFETY: the slot was free: nobody else knows it.
        unsafe {
            (*head).vtable = put_closure::<F, T>(slot.storage(), f);
            (*head).parent = parent;
        }
        Ok(slot)
    }

    /// Queues a task that nobody has the handle of, or gives it back when there is no slot. The group must be waited for
    /// on this thread, if it has one.
    ///
    /// # Safety
    /// As [`Lane::write`].
    #[inline(always)]
    pub(crate) unsafe fn spawn_alone<F: FnOnce() + Send>(&self, f: F, parent: *const Slot) -> Result<(), F> {
        // SAFETY: passed on to the caller.
        let slot = unsafe { self.write(f, parent) }?;
        slot.state.queue_alone();
        if parent.is_null() {
            self.push_for_others(slot);
        } else {
            self.push(slot);
        }
        Ok(())
    }

    /// As [`Lane::spawn_alone`]; when there is no slot it runs queued tasks first, and if there are none, gives the task
    /// back.
    ///
    /// # Safety
    /// As [`Lane::write`].
    #[inline(always)]
    pub(crate) unsafe fn spawn_alone_or_work<F: FnOnce() + Send>(&self, f: F, parent: *const Slot) -> Result<(), F> {
        // SAFETY: passed on to the caller.
        unsafe { self.spawn_alone(f, parent) }.or_else(|f| {
            if !self.make_room() {
                return Err(f);
            }
            // SAFETY: as above.
            unsafe { self.spawn_alone(f, parent) }
        })
    }

    /// As [`Lane::spawn_alone`], but the caller pushes the entry.
    ///
    /// # Safety
    /// As [`Lane::write`].
    pub(crate) unsafe fn write_alone<F: FnOnce() + Send>(&self, f: F, parent: *const Slot) -> Result<SlotRef, F> {
        // SAFETY: passed on to the caller.
        let slot = unsafe { self.write(f, parent) }?;
        slot.state.queue_alone();
        Ok(SlotRef::of(slot))
    }

    /// Queues a task, and answers its handle.
    #[inline(always)]
    pub(crate) fn spawn<F, T>(&self, f: F) -> Result<Task<T>, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the closure borrows nothing.
        let slot = unsafe { self.write(f, std::ptr::null()) }?;
        slot.set_alone_in_its_group();
        slot.state.queue_held();
        let task = Task::in_slot(SlotRef::of(slot), self.hold());
        self.push_for_others(slot);
        Ok(task)
    }

    /// Writes a task that is not queued yet.
    pub(crate) fn write_prepared<F, T>(&self, f: F, priority: crate::Priority) -> Result<SlotRef, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the closure borrows nothing.
        let slot = unsafe { self.write(f, std::ptr::null()) }?;
        slot.set_alone_in_its_group();
        slot.state.prepare(true, priority);
        Ok(SlotRef::of(slot))
    }

    /// Runs some of the tasks this thread has queued, so that slots become free. `false` if there are none.
    ///
    /// Such tasks may spawn more than they end, and be run inside each other: [`ROOM_DEPTH_MAX`] deep, and then a slot
    /// beyond the maximum is taken, for memory is less dear than the stack.
    #[cold]
    pub(crate) fn make_room(&self) -> bool {
        if self.room_depth.get() >= ROOM_DEPTH_MAX {
            self.fetch_slot_beyond();
            return true;
        }
        let was_at_work = self.set_at_work(true);
        let run = || (0..BATCH_LEN).take_while(|_| self.run_one_own()).count();
        let count = self.for_want_of_a_slot(run);
        self.set_at_work(was_at_work);
        self.tell_tally();
        count > 0
    }

    /// Runs what is run here and now because there is no slot.
    pub(crate) fn for_want_of_a_slot<R>(&self, run: impl FnOnce() -> R) -> R {
        let depth = self.room_depth.get();
        self.room_depth.set(depth + 1);
        let value = run();
        self.room_depth.set(depth);
        value
    }

    fn run_one_own(&self) -> bool {
        let ring = &self.desk().ring;
        let slot = match &self.shared.deterministic {
            Some(queue) => queue.pop(),
            // Inside `isolate` what was spawned outside stays where it is.
            None if self.is_isolated.get() && ring.tail() == self.floor.get() => None,
            None => ring.pop().map(SlotRef::from_entry),
        };
        self.restore_floor(self.floor.get());
        slot.map(|slot| self.run_entry(slot)).is_some()
    }

    /// Runs a task here if it has not begun; otherwise waits until it has ended. The caller has its handle, and lends it
    /// to nobody meanwhile.
    fn run_or_wait(&self, slot: &Slot, help: Help) {
        // In a pool with a seed the order is drawn, but for a wait that runs nothing else: it would never end.
        let may_run = match self.shared.deterministic {
            None => help == Help::Usual || self.is_in_task(),
            Some(_) => help == Help::Nothing,
        };
        if may_run && self.run_own(slot) {
            return;
        }
        #[cfg(debug_assertions)]
        let _edge = crate::waits_for::enter(self, slot.id());
        let register = || {
            if slot.state.is_waiting() {
                // A `wait_timeout` has registered before. SAFETY: the waiter's place is not written any more.
                if unsafe { (*slot.head.get()).waiter } == self.index {
                    return slot.state.add_waiter();
                }
                // On another thread, and the place cannot be changed: this one looks by itself from time to time.
                park_timeout(LOOK_AGAIN);
                return false;
            }
            // SAFETY: the waiter's place is the handle's until the flag is set (slot.rs), and we set it once.
            unsafe { (*slot.head.get()).waiter = self.index };
            slot.state.add_waiter()
        };
        self.wait(help, || slot.state.is_done(), register);
    }

    /// Runs a task that is scheduled but in no queue, and waits for its end. The caller has its only handle.
    fn run_unqueued(&self, slot: &Slot) {
        let was_at_work = self.set_at_work(true);
        let is_mine = slot.state.claim_alone();
        debug_assert!(is_mine, "nobody but the builder has known the task so far");
        let is_there = self.run_for_outcome(slot);
        self.set_at_work(was_at_work);
        if !is_there {
            self.run_or_wait(slot, Help::Usual);
        }
    }

    /// Runs a task that has not begun on the thread of its waiter. Answers whether its outcome is there.
    #[inline]
    fn run_own(&self, slot: &Slot) -> bool {
        let was_at_work = self.set_at_work(true);
        let is_there = if self.desk().ring.pop_if(SlotRef::of(slot).to_entry()) {
            if self.spent_entries.get() > 0 {
                self.drop_spent_entries();
            }
            if slot.state.claim_alone() {
                self.run_for_outcome(slot)
            } else {
                // It was cancelled, and nothing but its entry was left.
                let entered = slot.state.enter();
                debug_assert_eq!(entered, Entered::Spent, "the handle keeps the slot");
                slot.state.is_done()
            }
        } else if slot.state.claim() {
            // Its entry stays where it is, below others; if there are many such, they fill the ring.
            self.spent_entries.set(self.spent_entries.get() + 1);
            self.run_claimed(slot);
            slot.state.is_done()
        } else {
            false
        };
        self.set_at_work(was_at_work);
        is_there
    }

    /// Takes the entries of tasks that were run without them off the own ring's end.
    #[cold]
    fn drop_spent_entries(&self) {
        let ring = &self.desk().ring;
        while let Some(entry) = ring.last() {
            let slot = SlotRef::from_entry(entry);
            // SAFETY: the pool outlives its lanes. If a thief takes the entry now, the answer means nothing, and `pop_if`
            // says so.
            let is_spent = slot.as_segment().is_none() && !unsafe { slot.get() }.state.is_queued();
            if !is_spent || !ring.pop_if(entry) {
                // Those further down are found when what lies above them is gone.
                return;
            }
            self.spent_entries.set(self.spent_entries.get().saturating_sub(1));
            self.run_entry(slot);
        }
        // Others have taken those that were not found here.
        self.spent_entries.set(0);
    }
}

impl Slot {
    /// What its group and its neighbours are counted by: nobody yet but itself.
    #[inline]
    pub(crate) fn set_alone_in_its_group(&self) {
        // ORDER: Relaxed; nobody else knows the slot.
        self.open.store(1, Ordering::Relaxed);
        self.after.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// A task that was spawned: wait for its result, await it, or drop the handle and let it run by itself.
///
/// May be sent to other threads. Dropping it does not stop the task: it runs all the same, and its result is dropped.
#[must_use = "a task runs without its handle; drop it in so many words"]
pub struct Task<T> {
    kind: Kind<T>,
}

enum Kind<T> {
    /// In a slot; counted at a home.
    Slot { slot: SlotRef, home: *const Home, is_awaited: bool },
    /// Run already, on the caller's thread, because there was no slot; counted at a home.
    Run { outcome: Outcome<T>, home: *const Home },
    /// Its outcome has been taken.
    Spent,
}

// SAFETY: the handle is an address of a slot and of a home, both made to be used by any thread; the result it gives out
// is `Send`.
unsafe impl<T: Send> Send for Task<T> {}
// SAFETY: through a shared reference nothing of the result can be reached.
unsafe impl<T: Send> Sync for Task<T> {}
// The outcome that a handle may hold is moved out, never pinned.
impl<T> Unpin for Task<T> {}

impl<T> Task<T> {
    pub(crate) fn in_slot(slot: SlotRef, home: *const Home) -> Task<T> {
        Task { kind: Kind::Slot { slot, home, is_awaited: false } }
    }

    pub(crate) fn run_already(outcome: Outcome<T>, home: *const Home) -> Task<T> {
        Task { kind: Kind::Run { outcome, home } }
    }

    /// The slot, if it has one, and the pool it belongs to.
    pub(crate) fn slot(&self) -> Option<(&Slot, &crate::shared::SharedRef)> {
        match &self.kind {
            Kind::Run { .. } | Kind::Spent => None,
            // SAFETY: this handle is counted at the home, which keeps the pool and so the slot.
            Kind::Slot { slot, home, .. } => Some(unsafe { (slot.get(), home::shared_of(*home)) }),
        }
    }

    /// Whether it has ended. Costs one load.
    pub fn is_done(&self) -> bool {
        self.slot().is_none_or(|(slot, _)| slot.state.is_done())
    }

    /// Waits until the task has ended, and answers its value.
    ///
    /// A task that has not begun is run right here. Otherwise the thread makes itself useful: it runs tasks that the
    /// task in hand has spawned; a worker also runs others, to a bounded depth; then it sleeps.
    ///
    /// # Panics
    /// With the panic of the task, or with [`Cancelled`]. In debug builds also when a task waits for itself, or for one
    /// that waits for it, which would never end.
    ///
    /// # Blocking
    /// Until the task has ended.
    pub fn wait(mut self) -> T {
        unwrap(self.outcome(Help::Usual))
    }

    /// As [`wait`](Task::wait), but a panic or a cancellation is an answer.
    ///
    /// # Errors
    /// What kept the task from giving its value.
    pub fn wait_result(mut self) -> Result<T, TaskError> {
        self.outcome(Help::Usual).map_err(TaskError::from)
    }

    /// As [`wait`](Task::wait), but runs nothing else meanwhile: it cannot come to a lock that this thread holds. Inside
    /// a task the awaited one is run here if it has not begun; elsewhere it is left to the pool.
    ///
    /// # Panics
    /// As [`wait`](Task::wait).
    pub fn wait_blocking(mut self) -> T {
        unwrap(self.outcome(Help::Nothing))
    }

    /// Waits for at most `timeout`, and runs nothing meanwhile: what is run might take longer.
    ///
    /// # Errors
    /// The handle, if the task has not ended by then.
    ///
    /// # Panics
    /// As [`wait`](Task::wait).
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<T, Task<T>> {
        let Some(deadline) = Instant::now().checked_add(timeout) else {
            return Ok(self.wait_blocking());
        };
        if !self.sleep_until(deadline) {
            return Err(self);
        }
        Ok(unwrap(self.outcome(Help::Nothing)))
    }

    /// Answers whether the task has ended by the deadline.
    fn sleep_until(&mut self, deadline: Instant) -> bool {
        let Some((slot, shared)) = self.slot() else {
            return true;
        };
        let is_registered = with_lane(shared, |lane| {
            lane.tell_tally();
            lane.need_others();
            slot.state.is_waiting() || {
                // SAFETY: the waiter's place is the handle's until the flag is set (slot.rs), and `&mut self` says that
                // nobody else registers.
                unsafe { (*slot.head.get()).waiter = lane.index };
                slot.state.add_waiter()
            }
        });
        if shared.deterministic.is_some() {
            // Nobody else will run it.
            with_lane(
                shared,
                |lane| while !slot.state.is_done() && Instant::now() < deadline && lane.run_one_left() {},
            );
        }
        // The waiter of an earlier call may be another desk: then this thread looks by itself from time to time.
        while is_registered && !slot.state.is_done() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            park_timeout(left.min(LOOK_AGAIN));
        }
        slot.state.is_done()
    }

    /// Keeps the task from running, if it has not begun. `false` if somebody runs or ran it, or it was cancelled before.
    ///
    /// The closure is dropped here. What waits for the task, or was to continue with it, goes on.
    pub fn cancel(&self) -> bool {
        let Some((slot, shared)) = self.slot() else {
            return false;
        };
        let is_mine = slot.state.claim_to_cancel();
        if is_mine {
            with_lane(shared, |lane| {
                lane.cancel_claimed(slot);
                lane.tell_tally();
            });
        }
        is_mine
    }

    /// Runs the task, which is scheduled but in no queue, and answers its value.
    pub(crate) fn run_unqueued(mut self) -> T {
        unwrap(self.outcome_after(Lane::run_unqueued))
    }

    /// Waits and takes the outcome. The handle is spent then.
    #[inline]
    fn outcome(&mut self, help: Help) -> Outcome<T> {
        self.outcome_after(|lane, slot| lane.run_or_wait(slot, help))
    }

    /// Takes the outcome, after what makes sure that it is there. The handle is spent then.
    #[inline]
    fn outcome_after(&mut self, end: impl FnOnce(&Lane, &Slot)) -> Outcome<T> {
        let Kind::Slot { slot, home, is_awaited } = self.kind else {
            return self.outcome_without_slot();
        };
        // SAFETY: this handle is counted at the home, which keeps the pool and so the slot.
        let (slot, shared) = unsafe { (slot.get(), home::shared_of(home)) };
        let outcome = with_lane(shared, |lane| {
            end(lane, slot);
            // What was run here may be what others wait for, and nobody knows when this thread comes back.
            lane.tell_tally();
            if is_awaited {
                // Its end need not have found it: this thread may have run the task itself.
                drop(shared.wakers.remove(slot.id()));
            }
            self.kind = Kind::Spent;
            // SAFETY: the word says done, and we hold the only handle (slot.rs, table): the outcome is ours.
            unsafe { lane.take_outcome(slot) }
        });
        // SAFETY: the handle was counted, and is not used again: its kind has been replaced.
        unsafe { lane::let_go(home) };
        outcome
    }

    #[cold]
    fn outcome_without_slot(&mut self) -> Outcome<T> {
        let Kind::Run { outcome, home } = std::mem::replace(&mut self.kind, Kind::Spent) else {
            panic!("a handle is waited for once");
        };
        // SAFETY: the handle was counted, and is not used again: its kind has been replaced.
        unsafe { lane::let_go(home) };
        outcome
    }

    /// Drops an outcome that lies in the handle, and tells the hook of its panic, as the pool does for those in slots.
    #[cold]
    fn drop_without_slot(&mut self) {
        let Kind::Run { outcome, home } = std::mem::replace(&mut self.kind, Kind::Spent) else {
            return;
        };
        let panic = match outcome {
            Err(panic) => Some(panic),
            Ok(value) => catch(move || drop(value)).err(),
        };
        if let Some(panic) = panic {
            // SAFETY: this handle is counted at the home, which keeps the pool.
            with_lane(unsafe { home::shared_of(home) }, |lane| lane.tell_panic(panic));
        }
        // SAFETY: the handle was counted, and is not used again.
        unsafe { lane::let_go(home) };
    }
}

impl Lane {
    /// Takes the outcome of a task that has ended, and gives up the handle's hold.
    ///
    /// # Safety
    /// The task is done, its value is a `T`, and the caller has the handle.
    #[inline]
    unsafe fn take_outcome<T>(&self, slot: &Slot) -> Outcome<T> {
        // SAFETY: passed on to the caller.
        let outcome = unsafe { take::<Outcome<T>>(slot.storage()) };
        if slot.state.leave() {
            self.free_slot(slot);
        }
        outcome
    }
}

/// Awaiting a task gives its value. It is run by the pool, never by the thread that polls.
///
/// # Panics
/// As [`Task::wait`]; also when it is polled again after it was ready.
impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if !self.is_done() && self.register(context.waker()) {
            return Poll::Pending;
        }
        Poll::Ready(unwrap(self.outcome(Help::Nothing)))
    }
}

impl<T> Task<T> {
    /// Asks to be woken. `false` if the task has ended.
    fn register(&mut self, waker: &Waker) -> bool {
        let Kind::Slot { slot, home, is_awaited } = &mut self.kind else {
            return false;
        };
        // SAFETY: as in `slot`.
        let (slot, shared) = unsafe { (slot.get(), home::shared_of(*home)) };
        let id = slot.id();
        shared.wakers.keep(id, waker);
        if !std::mem::replace(is_awaited, true) {
            with_lane(shared, Lane::need_others);
        }
        // Before it says done: the end finds the waker. After: we see it here.
        let is_registered = slot.state.add_waker();
        if !is_registered {
            shared.wakers.remove(id);
        }
        is_registered
    }
}

impl<T> Drop for Task<T> {
    #[inline]
    fn drop(&mut self) {
        match self.kind {
            Kind::Spent => {}
            Kind::Slot { .. } => self.drop_slot(),
            Kind::Run { .. } => self.drop_without_slot(),
        }
    }
}

impl<T> Task<T> {
    /// Nobody will wait for it.
    fn drop_slot(&mut self) {
        let Kind::Slot { slot, home, is_awaited } = &self.kind else {
            return;
        };
        // SAFETY: this handle is counted at the home, which keeps the pool and so the slot.
        let (slot, shared) = unsafe { (slot.get(), home::shared_of(*home)) };
        if *is_awaited {
            shared.wakers.remove(slot.id());
        }
        if slot.state.detach() == Detach::Mine {
            with_lane(shared, |lane| lane.discard(slot));
        }
        // SAFETY: the handle was counted, and is not used again.
        unsafe { lane::let_go(*home) };
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", if self.is_done() { "done" } else { "under way" })
    }
}
