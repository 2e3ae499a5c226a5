//! Prepared tasks, and the order between tasks: `continue_with` and `finish_with`.
//!
//! A prepared task has its slot and its closure, but no place in a queue yet: before it is scheduled it can be tied to
//! others. Both ties are counts.
//!
//! - *Continue with*: the successor counts what it waits for in `blocked`: its predecessors, and one for its builder.
//!   Each predecessor has an *edge* to it, on a list in its slot. The end of the predecessor takes the list and counts
//!   down every successor on it; `schedule` counts down the builder's. Whoever brings it to zero queues the successor.
//! - *Finish with*: the parent counts its children in `open`, and one for itself. The end of a child, and the end of the
//!   parent's own closure, count it down; whoever brings it to zero completes the parent.
//!
//! Edges are slots themselves, taken from where all slots come from: nothing is allocated.
//!
//! # Nothing comes too late
//! The list ends in [`CLOSED`] once its task has ended. Who attaches an edge to a task that others run already pushes
//! it, and then sets the *edges* flag by an exchange that fails if the word says done:
//!
//! | attacher | | end | |
//! |---|---|---|---|
//! | A1 | push the edge; if the list is closed, release the successor | E1 | read the word; if *edges*: close the list, and keep it |
//! | A2 | set *edges*, unless done | E2 | exchange the word for done, if it has not changed |
//! | A3 | if it was done: close the list, and release what was on it | E3 | release what was on the list |
//!
//! If A2 comes before E2 in the order of the word, then E2 fails or E1 has seen the flag: the end closes the list after
//! A1. If E2 comes first, A2 fails, and A3 closes the list. The exchange that closes the list gives every edge to one of
//! them.
//!
//! Children are tied to a parent that runs already by a flag, too, and a count:
//!
//! | attacher | | end | |
//! |---|---|---|---|
//! | C1 | `open += 1`, unless it is zero | D1 | neither *children* nor *edges*: exchange the word for done |
//! | C2 | set *children*, unless done | D2 | else `open -= 1`: if that makes zero, E1 to E3 |
//! | C3 | if it was done: `open -= 1` | | |
//!
//! Either the word decides, or the count. If D1 makes it done, C2 fails or has failed: there is no child. If C2 comes
//! before, D1 does not say done, and the count, raised by C1, keeps the parent open; once it is zero it stays so, and C1
//! fails. With *edges* the count decides as well, because E1 cannot be taken back: a child that came between E1 and E2
//! would keep a parent open whose successors run. Where nobody has the handle, nobody can attach, and D1 needs no count.
//!
//! While a builder has the only handle of a parent, it counts children in plain memory: `open` begins with
//! [`BUILDING`] and is lowered to what is right when the parent is scheduled, so that children which end meanwhile cannot
//! bring it to zero.
//!
//! The loom models are `loom_tests/continuation.rs`, whose control skips A3, and `loom_tests/children.rs`, whose control
//! does C2 before C1.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::time::Duration;

use crate::cancel::CancelToken;
use crate::error::AlreadyDone;
use crate::home::{self, Home};
use crate::lane::{self, Lane, with_lane};
use crate::shared::SharedRef;
use crate::slot::{Ended, Finish, Priority, Slot, SlotRef, TaskId, Waiter};
use crate::sync::{Arc, AtomicPtr, AtomicU32, Instant, Ordering, thread};
use crate::task::{Task, put, take};

/// What a list holds when its task has ended.
const CLOSED: *mut Slot = ptr::without_provenance_mut(1);

/// What `open` begins with while children are counted beside it.
pub(crate) const BUILDING: u32 = 1 << 31;

/// Adds an edge to a list. `false` if the list is closed.
pub(crate) fn push_edge(list: &AtomicPtr<Slot>, edge: &Slot) -> bool {
    // ORDER: Relaxed; a guess for the exchange, and `CLOSED` publishes nothing here: see `release`.
    let mut first = list.load(Ordering::Relaxed);
    loop {
        if first == CLOSED {
            // ORDER: Acquire; pairs with `close`: what the task has done is there for the successor.
            list.load(Ordering::Acquire);
            return false;
        }
        // ORDER: Relaxed; published by the exchange.
        edge.after.store(first, Ordering::Relaxed);
        let edge = ptr::from_ref(edge).cast_mut();
        // ORDER: Release; pairs with `close`. Publishes the edge.
        match list.compare_exchange_weak(first, edge, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => first = now,
        }
    }
}

/// Closes the list of a task that has ended, and answers what was on it.
pub(crate) fn close(slot: &Slot) -> *mut Slot {
    // ORDER: AcqRel; takes the edges, and shows those who come later that the task has ended.
    let list = slot.after.swap(CLOSED, Ordering::AcqRel);
    if list == CLOSED { ptr::null_mut() } else { list }
}

/// What attaching an edge to a scheduled task has come to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Attached {
    /// The edge is on the list, and somebody will release it.
    Kept,
    /// The edge is on no list: the task has ended.
    Refused,
    /// The task has ended meanwhile: the caller releases what was on its list, which may be nothing.
    Late(*mut Slot),
}

/// Attaches an edge to a task that may run, or have ended, already. The caller has its handle.
pub(crate) fn attach(before: &Slot, edge: &Slot) -> Attached {
    // A1.
    if !push_edge(&before.after, edge) {
        return Attached::Refused;
    }
    // A2.
    if before.state.add_edges() {
        return Attached::Kept;
    }
    // A3.
    Attached::Late(close_late(before))
}

#[cfg(not(windlass_weaken = "continuation"))]
fn close_late(slot: &Slot) -> *mut Slot {
    close(slot)
}

/// The control of the model: the edge that came too late lies there for ever.
#[cfg(windlass_weaken = "continuation")]
fn close_late(_slot: &Slot) -> *mut Slot {
    ptr::null_mut()
}

/// What the end of a task leaves to see to.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ending {
    pub(crate) id: TaskId,
    pub(crate) finish: Finish,
    /// Whom to unpark, if the task was handed to a waiter.
    pub(crate) waiter: Option<Waiter>,
    /// The task is awaited: its waker is to be called.
    pub(crate) has_waker: bool,
    /// E3: to be released.
    pub(crate) edges: *mut Slot,
    /// Whom it kept open, or null.
    pub(crate) parent: *const Slot,
}

/// The closure of a task has ended. `None` if children keep the task open: the last of them will end it.
#[inline]
pub(crate) fn end_closure(slot: &Slot) -> Option<Ending> {
    let ending = end(slot, Ended::Closure);
    if ending.finish != Finish::Open {
        return Some(ending);
    }
    slot.count_ends(1).then(|| end_everything(slot))
}

/// The closure of a task and all its children have ended: the caller brought `open` to zero.
pub(crate) fn end_everything(slot: &Slot) -> Ending {
    end(slot, Ended::Everything)
}

/// E1 and E2, unless the task may be kept open.
#[inline]
fn end(slot: &Slot, ended: Ended) -> Ending {
    // SAFETY: the end is the caller's, and the head was written before the task was scheduled.
    let parent = unsafe { &*slot.head.get() }.parent;
    let id = slot.id();
    let (mut waiter, mut has_waker, mut edges): (_, _, *mut Slot) = (None, false, ptr::null_mut());
    let finish = slot.state.finish(ended, |duties| {
        if duties.has_edges && edges.is_null() {
            edges = close(slot);
        }
        // SAFETY: the waiting flag is set and the word does not say done: the waiter was written before, and is not
        // changed before the word says done.
        waiter = duties.has_waiter.then(|| unsafe { (*slot.head.get()).waiter });
        has_waker = duties.has_waker;
    });
    Ending { id, finish, waiter, has_waker, edges, parent }
}

/// Ties a child to a parent that may run already. `false` if it has ended. See the module's second table.
#[cfg(not(windlass_weaken = "children"))]
pub(crate) fn open_for_child(parent: &Slot) -> bool {
    // C1.
    if !count_child(parent) {
        return false;
    }
    // C2.
    if parent.state.add_children() {
        return true;
    }
    // ORDER: Relaxed; the parent has ended without looking at its count.
    parent.open.fetch_sub(1, Ordering::Relaxed);
    false
}

/// The control of the model: the flag first, so that the parent may count itself out before the child is counted in.
#[cfg(windlass_weaken = "children")]
pub(crate) fn open_for_child(parent: &Slot) -> bool {
    parent.state.add_children() && {
        parent.open.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Counts a child in, unless the count has come to zero: the parent has ended then, though its word may not say so yet.
#[cfg(not(windlass_weaken = "children"))]
fn count_child(parent: &Slot) -> bool {
    let count = |open: u32| (open != 0).then(|| open + 1);
    // ORDER: Relaxed; the flag publishes it.
    parent.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_ok()
}

/// A builder attaches the first child, and counts it and those that come in plain memory.
pub(crate) fn begin_building(parent: &Slot) {
    // ORDER: Relaxed; published with the child, or the parent.
    parent.open.store(BUILDING, Ordering::Relaxed);
    parent.state.set_children();
}

/// The builder is about to schedule the parent of so many children: from now on `open` says what is true.
pub(crate) fn end_building(parent: &Slot, children: u32) {
    let is_last = parent.count_ends(BUILDING - (children + 1));
    debug_assert!(!is_last, "the parent itself counts");
}

/// One predecessor, or the builder, less. Answers whether it was the last.
pub(crate) fn unblock_once(blocked: &AtomicU32) -> bool {
    // ORDER: AcqRel; the successor sees what every predecessor has done.
    blocked.fetch_sub(1, Ordering::AcqRel) == 1
}

/// What an edge leads to.
#[derive(Clone, Copy)]
enum Edge {
    /// A successor, counted in its `blocked`.
    Successor(*const Slot),
    /// A further parent, counted in its `open`.
    Parent(*const Slot),
}

impl Lane {
    /// Releases everything on a list that was closed. The first attached comes first: it is pushed last, and a ring gives
    /// the youngest.
    pub(crate) fn release(&self, mut list: *mut Slot) {
        while !list.is_null() {
            // SAFETY: `close` gave us the list, and edges are slots of this pool.
            let edge = unsafe { &*list };
            // ORDER: Relaxed; acquired by `close`.
            list = edge.after.load(Ordering::Relaxed);
            // SAFETY: `take_edge` put it there, and nobody else reads it.
            let target = unsafe { take::<Edge>(edge.storage()) };
            self.free_slot(edge);
            self.follow(target);
        }
    }

    fn follow(&self, target: Edge) {
        match target {
            // SAFETY: a slot with predecessors is held by them (its entry's hold).
            Edge::Successor(slot) => self.unblock(unsafe { &*slot }),
            Edge::Parent(parent) => self.count_end_of(parent),
        }
    }

    /// One predecessor, or the builder, less: the last one queues the task.
    fn unblock(&self, slot: &Slot) {
        if unblock_once(&slot.blocked) {
            slot.state.unblock();
            self.push(slot);
        }
    }

    /// A slot, running queued tasks while there is none, and waiting a while for those that others run.
    pub(crate) fn take_slot_or_work(&self) -> SlotRef {
        let mut patience = Patience::default();
        loop {
            if let Some(slot) = self.take_slot() {
                return slot;
            }
            if self.make_room() {
                patience = Patience::default();
                continue;
            }
            assert!(
                self.shared.deterministic.is_none() && patience.is_left(),
                "all {} slots of the pool are taken, each task one and most ties one, none of their tasks can be run \
                 here, and none has ended elsewhere for {ROOM_PATIENCE:?}: raise slot_count_max, or wait for tasks \
                 before preparing more",
                self.shared.config.slot_count_max
            );
            thread::yield_now();
        }
    }

    /// A slot that is to be an edge.
    fn take_edge(&self) -> &Slot {
        // SAFETY: the pool outlives its lanes, and so does the reference.
        unsafe { self.take_slot_or_work().get() }
    }
}

/// How long a thread waits for the slots of tasks that others are running, before it says that there are too few: long
/// against any time for which a thread with a task in hand may be kept from a processor.
const ROOM_PATIENCE: Duration = Duration::from_secs(if cfg!(any(loom, shuttle)) { 0 } else { 1 });

/// When waiting for a slot began.
#[derive(Default)]
struct Patience(Option<Instant>);

impl Patience {
    fn is_left(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.0.get_or_insert(now)) < ROOM_PATIENCE
    }
}

/// What other tasks can be tied to: a [`Prepared`] task or a [`Task`].
pub trait Tie: sealed::Tie {}

impl<T> Tie for Prepared<T> {}
impl<T> Tie for Task<T> {}

mod sealed {
    use crate::shared::SharedRef;
    use crate::slot::Slot;

    pub trait Tie {
        /// Its slot and its pool, if it has any.
        #[expect(private_interfaces, reason = "as below")]
        fn place(&self) -> Option<(&Slot, &SharedRef)>;
        /// Adds an edge to a successor or a further parent. `false` if the task has ended.
        #[expect(private_interfaces, reason = "the trait is sealed: nobody outside can name the method")]
        fn add_edge(&self, edge: &Slot) -> bool;
        /// Counts a child in. `None` if the task has ended, or has none of the slots.
        #[expect(private_interfaces, reason = "as above")]
        fn open_for_child(&self) -> Option<*const Slot>;
    }
}

impl<T> sealed::Tie for Prepared<T> {
    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn place(&self) -> Option<(&Slot, &SharedRef)> {
        // SAFETY: this handle is counted at the home, which keeps the pool.
        Some((self.slot(), unsafe { home::shared_of(self.home) }))
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn add_edge(&self, edge: &Slot) -> bool {
        self.slot().state.set_edges();
        push_edge(&self.slot().after, edge)
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn open_for_child(&self) -> Option<*const Slot> {
        Some(self.open_for_children(1))
    }
}

impl<T> sealed::Tie for Task<T> {
    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn place(&self) -> Option<(&Slot, &SharedRef)> {
        self.slot()
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn add_edge(&self, edge: &Slot) -> bool {
        let Some((slot, shared)) = self.slot() else {
            return false;
        };
        match attach(slot, edge) {
            Attached::Refused => false,
            Attached::Kept => true,
            Attached::Late(list) => {
                with_lane(shared, |lane| lane.release(list));
                true
            }
        }
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn open_for_child(&self) -> Option<*const Slot> {
        let (slot, _) = self.slot()?;
        open_for_child(slot).then_some(ptr::from_ref(slot))
    }
}

/// A task that is not scheduled yet: it has its place and its closure, and can be tied to others.
///
/// Made by [`Pool::prepare`](crate::Pool::prepare). Dropping it drops the closure unrun; what was tied to it goes on, as
/// if it had been cancelled.
#[must_use = "a prepared task runs only when it is scheduled"]
pub struct Prepared<T> {
    slot: SlotRef,
    home: *const Home,
    /// Children counted beside `open`, which says [`BUILDING`] if there are any.
    children: Cell<u32>,
    /// It has predecessors.
    is_blocked: Cell<bool>,
    /// It has a parent.
    has_parent: Cell<bool>,
    of: PhantomData<fn() -> T>,
}

// SAFETY: as for `Task`; what is counted in cells goes with the handle.
unsafe impl<T: Send> Send for Prepared<T> {}

impl<T> fmt::Debug for Prepared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prepared")
    }
}

impl<T> Prepared<T> {
    pub(crate) fn new(slot: SlotRef, home: *const Home) -> Prepared<T> {
        Prepared {
            slot,
            home,
            children: Cell::new(0),
            is_blocked: Cell::new(false),
            has_parent: Cell::new(false),
            of: PhantomData,
        }
    }

    fn slot(&self) -> &Slot {
        // SAFETY: this handle is counted at the home, which keeps the pool and so the slot.
        unsafe { self.slot.get() }
    }

    fn with_lane<R>(&self, f: impl FnOnce(&Lane) -> R) -> R {
        // SAFETY: as above.
        with_lane(unsafe { home::shared_of(self.home) }, f)
    }

    /// Counts so many children in, and answers whom they are children of.
    pub(crate) fn open_for_children(&self, more: u32) -> *const Slot {
        let count = self.children.get();
        if count == 0 && more > 0 {
            begin_building(self.slot());
        }
        assert!(more < BUILDING - count, "a task can be kept open by 2³¹ − 1 others at most");
        self.children.set(count + more);
        self.slot.as_ptr()
    }

    /// Has `next` run after this task has ended, however it ended. Any number of tasks may follow one, and one may
    /// follow any number: it runs after the last of them. Those that follow one task are begun in the order in which
    /// they were tied, on the thread where it ended; other threads may take them in any order.
    ///
    /// # Panics
    /// When the tasks belong to different pools, or are the same; and as [`Pool::prepare`](crate::Pool::prepare), for a
    /// tie takes a slot until the first task has ended. Nothing is tied then.
    pub fn continue_with<U>(&self, next: &Prepared<U>) {
        next.follow(self);
    }

    /// Keeps `parent` open: it has ended only when this task has ended, too. A parent may have any number of children, a
    /// child any number of parents, and children children of their own; each may run before, while or after the closure
    /// of its parent runs.
    ///
    /// # Errors
    /// [`AlreadyDone`] when the parent has ended: nothing is tied.
    ///
    /// # Panics
    /// As [`continue_with`](Prepared::continue_with); only the second parent and further ones take a slot.
    pub fn finish_with(&self, parent: &impl Tie) -> Result<(), AlreadyDone> {
        self.check_tie(parent);
        if self.has_parent.get() {
            return self.finish_with_further(parent);
        }
        let parent = parent.open_for_child().ok_or(AlreadyDone)?;
        self.has_parent.set(true);
        // SAFETY: the task is not scheduled: its head is its builder's.
        unsafe { (*self.slot().head.get()).parent = parent };
        Ok(())
    }

    fn finish_with_further(&self, parent: &impl Tie) -> Result<(), AlreadyDone> {
        self.with_lane(|lane| {
            // Before anything is counted: there may be none.
            let edge = lane.take_edge();
            let Some(parent) = parent.open_for_child() else {
                lane.free_slot(edge);
                return Err(AlreadyDone);
            };
            // SAFETY: the slot was free: nobody else knows it.
            unsafe { put(edge.storage(), Edge::Parent(parent)) };
            let is_added = sealed::Tie::add_edge(self, edge);
            debug_assert!(is_added, "the list of a task that is not scheduled is open");
            Ok(())
        })
    }

    /// Whether it keeps another task open: to keep a further one open takes a slot.
    pub fn has_parent(&self) -> bool {
        self.has_parent.get()
    }

    /// LZ-10, SC-2: counts and slots of one pool must not come into another's hands.
    fn check_tie(&self, other: &impl Tie) {
        let Some((slot, shared)) = other.place() else { return };
        // SAFETY: this handle is counted at the home, which keeps the pool.
        assert!(Arc::ptr_eq(unsafe { home::shared_of(self.home) }, shared), "tasks of two pools cannot be tied");
        assert!(!ptr::eq(slot, self.slot()), "a task cannot be tied to itself: it would never end");
    }

    /// Has this task run after `before` has ended.
    pub(crate) fn follow(&self, before: &impl Tie) {
        self.check_tie(before);
        self.with_lane(|lane| {
            // Before anything is counted: there may be none.
            let edge = lane.take_edge();
            // SAFETY: the slot was free: nobody else knows it.
            unsafe { put(edge.storage(), Edge::Successor(self.slot.as_ptr())) };
            // ORDER: Relaxed; published with the edge.
            if self.is_blocked.replace(true) {
                self.slot().blocked.fetch_add(1, Ordering::Relaxed);
            } else {
                self.slot().blocked.store(2, Ordering::Relaxed);
            }
            if !before.add_edge(edge) {
                lane.free_slot(edge);
                let was_last = unblock_once(&self.slot().blocked);
                debug_assert!(!was_last, "the builder counts, too");
            }
        });
    }

    /// Queues the task, to run as soon as what it follows has ended, and answers its handle.
    pub fn schedule(self) -> Task<T> {
        self.enqueue(true);
        let task = Task::in_slot(self.slot, self.home);
        // The handle goes on as the task's.
        std::mem::forget(self);
        task
    }

    /// Queues the task, to run as soon as what it follows has ended; nobody will ask for its result. Costs less than
    /// scheduling it and dropping the handle.
    pub fn schedule_detached(self) {
        self.enqueue(false);
        // SAFETY: the handle was counted, and is not used again.
        unsafe { lane::let_go(self.home) };
        std::mem::forget(self);
    }

    /// Schedules the task and waits for it: this thread runs it, and nobody is woken for it. What it follows is waited
    /// for first.
    ///
    /// # Panics
    /// As [`Task::wait`].
    ///
    /// # Blocking
    /// As [`Task::wait`].
    pub fn run(self) -> T {
        if self.is_blocked.get() {
            return self.schedule().wait();
        }
        self.close_open_count(self.slot());
        self.slot().state.schedule(false, true);
        let task = Task::in_slot(self.slot, self.home);
        std::mem::forget(self);
        task.run_unqueued()
    }

    #[inline]
    fn enqueue(&self, keep_handle: bool) {
        // SAFETY: the home is counted: it keeps the pool while this runs, also when the task ends at once.
        let shared = unsafe { home::shared_of(self.home) };
        let slot = self.slot();
        self.close_open_count(slot);
        let is_blocked = self.is_blocked.get();
        slot.state.schedule(is_blocked, keep_handle);
        with_lane(shared, |lane| if is_blocked { lane.unblock(slot) } else { lane.push_for_others(slot) });
    }

    /// From now on `open` says what is true: the children, and the task itself.
    fn close_open_count(&self, slot: &Slot) {
        let children = self.children.get();
        if children > 0 {
            end_building(slot, children);
        }
    }

    /// Has a worker's look at it come sooner or later than at others.
    pub fn set_priority(&self, priority: Priority) {
        self.slot().state.set_priority(priority);
    }
}

impl<T> Drop for Prepared<T> {
    fn drop(&mut self) {
        let slot = self.slot();
        self.close_open_count(slot);
        let is_blocked = self.is_blocked.get();
        slot.state.abandon(is_blocked);
        self.with_lane(|lane| {
            lane.cancel_claimed(slot);
            // Predecessors that have not ended know the slot: the last of them, or we, queue the entry that frees it.
            if is_blocked {
                lane.unblock(slot);
            }
            lane.tell_tally();
        });
        // SAFETY: the handle was counted, and is not used again.
        unsafe { lane::let_go(self.home) };
    }
}

impl<T> Task<T> {
    /// Has `next` run after this task has ended, however it ended; at once if it has ended already. See
    /// [`Prepared::continue_with`].
    ///
    /// # Panics
    /// As [`Prepared::continue_with`].
    pub fn continue_with<U>(&self, next: &Prepared<U>) {
        next.follow(self);
    }
}

/// How a task is to be treated: for [`Pool::prepare_with`](crate::Pool::prepare_with).
#[derive(Debug, Clone, Default)]
pub struct TaskOptions {
    /// When a worker looks at it. Default: normal. Tasks of the other two go through one queue for each, which costs
    /// some ten nanoseconds more.
    pub priority: Priority,
    /// The task does not run if this is cancelled before it begins.
    pub cancel: Option<CancelToken>,
}
