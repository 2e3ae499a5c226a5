//! Fixed places for tasks, used again and again.
//!
//! A slot is two cache lines: what every task needs and a small closure lie in the first. Its life is one word: its
//! generation, its phase, who still holds it, and what its end has to see to. Every change of the word is one of the
//! transitions below, and whoever makes a transition knows from its answer what it may touch next.
//!
//! | from | to | by | may then |
//! |---|---|---|---|
//! | free | prepared | whoever took it off a free list | write the closure |
//! | prepared | blocked | the builder, if predecessors are to come | nothing more |
//! | prepared, blocked | queued | the builder; the last predecessor | put its entry into a queue |
//! | queued | running | whoever has the entry, or the handle | run the closure, or drop it; write the outcome |
//! | blocked | running | the handle, to cancel | drop the closure; write the outcome |
//! | running | done | whoever counts `open` to zero | touch nothing in the slot any more |
//! | any | free, next generation | whoever gives up the last hold | put it on a free list |
//!
//! # Holds
//! Two parties may know a slot: the holder of the *handle*, and whoever has, or will get, its *entry* in a queue. Each
//! is a bit. There is exactly one entry for a task, from the moment it is scheduled, also when the waiter runs the task
//! without going through the queue: so an entry never goes stale, and the slot is not used again before the entry has
//! been taken out. A slot is free when it is done, and both bits are gone. The bits are never set again, which gives the
//! fast path: whoever has the entry and sees no handle has the slot for itself, and needs no exchange at all.
//!
//! # What its end has to see to
//! *waiting*: a thread is registered. *awaited*: a waker is. *children*: others were attached with `finish_with`, so `open` counts.
//! *edges*: successors were attached with `continue_with`. Each flag is set by an exchange that fails once the word
//! says done, and the exchange to done fails when a flag has been set meanwhile. So either the end sees to it, or the
//! one who came too late knows it, and sees to it itself.
//!
//! # Why a stale id is harmless
//! A [`TaskId`] is the address of a slot and the generation of one use. Nothing is done to a task by id: ids name tasks
//! in traces and in the debug builds' search for cyclic waits, and there a use that is over is found out by its
//! generation, which has 48 bits. What acts on a slot is a hold, and a held slot is not used again.
//!
//! # Why completion is the last touch
//! As soon as the word says done, the waiter may take the result and free the slot, and another thread may fill it
//! again. So the worker reads the waiter, the parent and the edges *before* it says done. The loom models are in
//! `loom_tests/slot.rs`; their control says done with an ordering that does not publish the result, and must fail.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::graph::Segment;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::task::VTable;

/// Bytes of a closure, or of a result, that fit into a slot. Larger ones are boxed.
pub(crate) const STORAGE_LEN: usize = 80;

const PHASE: u64 = 0b111;
const FREE: u64 = 0;
const PREPARED: u64 = 1;
const BLOCKED: u64 = 2;
const QUEUED: u64 = 3;
const RUNNING: u64 = 4;
const DONE: u64 = 5;
/// Somebody has, or will get, the entry in a queue.
const ENTRY: u64 = 1 << 3;
/// Somebody has the handle.
const HANDLE: u64 = 1 << 4;
const WAITING: u64 = 1 << 5;
const CHILDREN: u64 = 1 << 6;
const EDGES: u64 = 1 << 7;
/// Which queue it goes to; none of the two is the normal one.
const LOW: u64 = 1 << 8;
const HIGH: u64 = 1 << 9;
const AWAITED: u64 = 1 << 10;
const GENERATION_SHIFT: u32 = 16;
const GENERATION: u64 = u64::MAX << GENERATION_SHIFT;

/// Which tasks are run first.
///
/// A worker that looks for a task takes a high one before a normal one before a low one; but every 61st look begins
/// with the others, so that none waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Before all others.
    High,
    /// What tasks have that say nothing.
    #[default]
    Normal,
    /// When there is nothing else.
    Low,
}

/// Names one use of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TaskId {
    address: usize,
    generation: u64,
}

/// What an entry that came out of a queue gives.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Entered {
    /// The task, and the slot to oneself: nobody has the handle.
    Alone,
    /// The task. Somebody has the handle, or had it.
    Shared,
    /// Nothing: the holder of the handle was faster.
    Spent,
    /// Nothing, and the slot is the caller's to free.
    SpentLast,
}

/// What the end of a task leaves to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Finish {
    /// Somebody has, or will ask for, the result. The slot must not be touched again.
    Handed,
    /// Nobody will ask: the caller drops the result, and then calls [`SlotState::leave`].
    Orphaned,
    /// Nothing was changed: others may keep the task open, and `open` decides. The caller counts the closure out of it;
    /// whoever brings it to zero ends the task. Never the answer when it is zero already.
    Open,
}

/// How much of a task has ended when it is to be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its closure. Others may have been attached, or be attached just now.
    Closure,
    /// Its closure and all its children: `open` is zero, and stays so.
    Everything,
}

/// What giving up a handle leaves to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Detach {
    /// The task has not ended: whoever runs it will tidy up.
    Left,
    /// It has ended: the caller drops the result, and then calls [`SlotState::leave`].
    Mine,
}

/// What a task's end has to see to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Duties {
    pub(crate) has_waiter: bool,
    pub(crate) has_waker: bool,
    pub(crate) has_edges: bool,
}

/// The word of a slot.
#[derive(Debug)]
pub(crate) struct SlotState {
    word: AtomicU64,
}

impl SlotState {
    pub(crate) fn new() -> SlotState {
        SlotState { word: AtomicU64::new(FREE) }
    }

    /// Free to prepared. The caller took the slot off a free list. With or without a handle.
    pub(crate) fn prepare(&self, with_handle: bool, priority: Priority) {
        // ORDER: Relaxed; the free list has ordered this after the slot was freed, and nobody else knows it.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, FREE, "a slot in use was taken off a free list");
        let hold = if with_handle { HANDLE } else { 0 };
        self.word.store((word & GENERATION) | PREPARED | hold, Ordering::Relaxed);
        if priority != Priority::Normal {
            self.set_priority(priority);
        }
    }

    /// Another queue, by the builder, who alone knows the task so far.
    pub(crate) fn set_priority(&self, priority: Priority) {
        let level = match priority {
            Priority::High => HIGH,
            Priority::Normal => 0,
            Priority::Low => LOW,
        };
        // ORDER: Relaxed; only the builder writes a prepared word.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store((word & !(HIGH | LOW)) | level, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn priority(&self) -> Priority {
        // ORDER: Relaxed; these bits do not change while the slot is held.
        match self.word.load(Ordering::Relaxed) & (HIGH | LOW) {
            HIGH => Priority::High,
            LOW => Priority::Low,
            _ => Priority::Normal,
        }
    }

    /// Free to queued at once, without a handle: the way of most tasks. The body was written before.
    #[inline]
    pub(crate) fn queue_alone(&self) {
        // ORDER: Relaxed; as `prepare`. The queue publishes it, with the body.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, FREE, "a slot in use was taken off a free list");
        self.word.store((word & GENERATION) | QUEUED | ENTRY, Ordering::Relaxed);
    }

    /// Free to queued at once, with a handle.
    #[inline]
    pub(crate) fn queue_held(&self) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, FREE, "a slot in use was taken off a free list");
        // ORDER: Release; pairs with `claim`, for a handle that reaches another thread by itself.
        self.word.store((word & GENERATION) | QUEUED | ENTRY | HANDLE, Ordering::Release);
    }

    /// Prepared to queued or blocked. Only the builder knows the task so far; predecessors touch other words.
    pub(crate) fn schedule(&self, is_blocked: bool, keep_handle: bool) {
        // ORDER: Relaxed; only the builder writes a prepared word.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, PREPARED, "a task is scheduled once");
        let hold = if keep_handle { HANDLE } else { 0 };
        let phase = if is_blocked { BLOCKED } else { QUEUED };
        // ORDER: Release; pairs with `claim` and `unblock`. Publishes the body.
        self.word.store((word & !(PHASE | HANDLE)) | phase | ENTRY | hold, Ordering::Release);
    }

    /// Blocked to queued, by the last predecessor. If it was cancelled it stays so; its entry is to be queued all the
    /// same, for whoever takes it out to give it up.
    pub(crate) fn unblock(&self) {
        let _ = self.change(|word| (word & PHASE == BLOCKED).then_some((word & !PHASE) | QUEUED));
    }

    /// Changes the word as `next` says, until it stays the same meanwhile or `next` says no.
    fn change(&self, next: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        // ORDER: Acquire; what the caller learns from the word, it may act on.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let Some(new) = next(word) else {
                return Err(word);
            };
            // ORDER: AcqRel; every transition of a shared word passes on all that was done under the one before it.
            match self.word.compare_exchange_weak(word, new, FINISH_ORDER, Ordering::Acquire) {
                Ok(_) => return Ok(word),
                Err(now) => word = now,
            }
        }
    }

    /// The entry came out of a queue.
    #[inline]
    pub(crate) fn enter(&self) -> Entered {
        // ORDER: Acquire; pairs with `detach`: whoever had the handle may have tied others to the task, or registered a
        // waiter, and the queue has ordered this only after the scheduling. If there is a handle the exchange below
        // decides.
        let word = self.word.load(Ordering::Acquire);
        if word & (HANDLE | PHASE) == QUEUED { Entered::Alone } else { self.enter_shared() }
    }

    #[inline]
    fn enter_shared(&self) -> Entered {
        let entered = self.change(|word| {
            let phase = if word & PHASE == QUEUED { RUNNING } else { word & PHASE };
            Some((word & !(PHASE | ENTRY)) | phase)
        });
        let before = entered.unwrap_or_else(|word| word);
        match before & PHASE {
            QUEUED => Entered::Shared,
            DONE if before & HANDLE == 0 => Entered::SpentLast,
            _ => Entered::Spent,
        }
    }

    /// Queued to running, by the holder of the handle; the entry stays where it is.
    #[must_use]
    pub(crate) fn claim(&self) -> bool {
        self.change(|word| (word & PHASE == QUEUED).then_some((word & !PHASE) | RUNNING)).is_ok()
    }

    /// Whether nobody has begun it yet. A hint, unless the caller has its entry.
    pub(crate) fn is_queued(&self) -> bool {
        // ORDER: Relaxed; a task that has begun does not go back.
        self.word.load(Ordering::Relaxed) & PHASE == QUEUED
    }

    /// Queued or blocked to running, by the holder of the handle, who will not run it; the entry stays.
    #[must_use]
    pub(crate) fn claim_to_cancel(&self) -> bool {
        self.change(|word| matches!(word & PHASE, QUEUED | BLOCKED).then_some((word & !PHASE) | RUNNING)).is_ok()
    }

    /// Prepared to running: the builder gives the task up. With an entry still to come if predecessors know the slot.
    pub(crate) fn abandon(&self, is_blocked: bool) {
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, PREPARED, "a task is given up before it is scheduled");
        let entry = if is_blocked { ENTRY } else { 0 };
        // ORDER: Release; as `schedule`.
        self.word.store((word & !(PHASE | HANDLE)) | RUNNING | entry, Ordering::Release);
    }

    /// Queued to running, by one who has both the entry and the handle, and so the slot to itself. `false` if the task was
    /// cancelled before: then its entry is still to be given up by [`enter`](SlotState::enter).
    #[must_use]
    pub(crate) fn claim_alone(&self) -> bool {
        // ORDER: Relaxed; nobody else knows the slot: a handle that is being used up is lent to nobody.
        let word = self.word.load(Ordering::Relaxed);
        if word & PHASE != QUEUED {
            return false;
        }
        self.word.store((word & !(PHASE | ENTRY)) | RUNNING, Ordering::Relaxed);
        true
    }

    /// Whether the closure's end is the task's end, nobody else being attached: for one that has the slot to itself.
    pub(crate) fn is_plain(&self) -> bool {
        // ORDER: Relaxed; as `claim_alone`.
        self.word.load(Ordering::Relaxed) & (CHILDREN | EDGES) == 0
    }

    /// Free to running, with a handle: what keeps a scope open, and runs nothing.
    pub(crate) fn open_root(&self) {
        // ORDER: Relaxed; nobody else knows it yet.
        self.word.store(RUNNING | HANDLE | CHILDREN, Ordering::Relaxed);
    }

    /// Children were attached by the builder, who alone knows the task so far.
    pub(crate) fn set_children(&self) {
        self.word.store(self.word.load(Ordering::Relaxed) | CHILDREN, Ordering::Relaxed);
    }

    /// Successors were attached by the builder, who alone knows the task so far.
    pub(crate) fn set_edges(&self) {
        self.word.store(self.word.load(Ordering::Relaxed) | EDGES, Ordering::Relaxed);
    }

    /// Running to done, unless nobody has the handle, or others may keep the task open. `before_done` is told what is to
    /// be seen to, each time before the word is about to say done; afterwards the slot may be gone.
    pub(crate) fn finish(&self, ended: Ended, mut before_done: impl FnMut(Duties)) -> Finish {
        // ORDER: Acquire; pairs with `add_flag` and `add_waiter`: what they registered is there to be read.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            debug_assert_eq!(word & PHASE, RUNNING, "a task ended that was not running");
            if ended == Ended::Closure && Self::may_be_kept_open(word) {
                return Finish::Open;
            }
            let duties = Duties {
                has_waiter: word & WAITING != 0,
                has_waker: word & AWAITED != 0,
                has_edges: word & EDGES != 0,
            };
            before_done(duties);
            if word & HANDLE == 0 {
                return Finish::Orphaned;
            }
            let done = (word & !(PHASE | WAITING | AWAITED)) | DONE;
            match self.word.compare_exchange(word, done, FINISH_ORDER, Ordering::Acquire) {
                Ok(_) => return Finish::Handed,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the word leaves the end to `open`: children were attached, or they still may be between the closing of
    /// the list of successors, which cannot be taken back, and done.
    fn may_be_kept_open(word: u64) -> bool {
        word & CHILDREN != 0 || word & (EDGES | HANDLE) == EDGES | HANDLE
    }

    /// Whether the task has ended. After `true` its result may be taken by the holder of the handle.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // ORDER: Acquire; pairs with `finish`. The result is there.
        self.word.load(Ordering::Acquire) & PHASE == DONE
    }

    /// Sets a flag, unless the task has ended: `false` then.
    #[must_use]
    fn add_flag(&self, flag: u64) -> bool {
        self.change(|word| (word & PHASE != DONE).then_some(word | flag)).is_ok()
    }

    /// A thread waits, and its desk was written before. Once it is set, another desk must not be written any more: the
    /// end may have read the first one, and the word would not tell it.
    #[must_use]
    pub(crate) fn add_waiter(&self) -> bool {
        self.add_flag(WAITING)
    }

    /// A waker waits, and was kept beside the slots before.
    #[must_use]
    pub(crate) fn add_waker(&self) -> bool {
        self.add_flag(AWAITED)
    }

    /// Whether a thread has registered to be woken. For the holder of the handle.
    pub(crate) fn is_waiting(&self) -> bool {
        // ORDER: Relaxed; only the holder of the handle sets it.
        self.word.load(Ordering::Relaxed) & WAITING != 0
    }

    /// A child was counted into `open` before.
    #[must_use]
    pub(crate) fn add_children(&self) -> bool {
        self.add_flag(CHILDREN)
    }

    /// A successor was put on the list before.
    #[must_use]
    pub(crate) fn add_edges(&self) -> bool {
        self.add_flag(EDGES)
    }

    /// Nobody will ask for the result.
    pub(crate) fn detach(&self) -> Detach {
        match self.change(|word| (word & PHASE != DONE).then_some(word & !HANDLE)) {
            Ok(_) => Detach::Left,
            Err(_) => Detach::Mine,
        }
    }

    /// The outcome has been taken or dropped, and the caller gives up its hold: the handle's, or that of an orphan's
    /// end. Answers whether the slot is the caller's to free; if not, whoever takes the entry out will.
    #[must_use]
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        // ORDER: Acquire; pairs with the exchange in `enter`, if that cleared the entry.
        let word = self.word.load(Ordering::Acquire);
        if word & ENTRY == 0 {
            return true;
        }
        let left = self.change(|word| (word & ENTRY != 0).then_some((word & !(PHASE | HANDLE)) | DONE));
        left.is_err()
    }

    /// To free, under the next generation. The caller has emptied the body, and nobody else holds the slot.
    #[inline]
    pub(crate) fn free(&self) {
        // ORDER: Relaxed; nobody else may change the word, and the free list orders its next use after this.
        let word = self.word.load(Ordering::Relaxed);
        self.word.store((word & GENERATION).wrapping_add(1 << GENERATION_SHIFT) | FREE, Ordering::Relaxed);
    }

    fn generation(&self) -> u64 {
        // ORDER: Relaxed; a name.
        self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT
    }
}

/// ORDER: Release publishes the result to `is_done`; Acquire keeps the chain.
#[cfg(not(windlass_weaken = "slot"))]
const FINISH_ORDER: Ordering = Ordering::AcqRel;
/// The control of the model: done without publishing the result.
#[cfg(windlass_weaken = "slot")]
const FINISH_ORDER: Ordering = Ordering::Relaxed;

/// Room for a closure, then for its result.
#[repr(C, align(16))]
pub(crate) struct Storage(pub(crate) [MaybeUninit<u8>; STORAGE_LEN]);

/// Whom to wake: the number of a desk. Wakers are kept beside the slots (`task.rs`).
pub(crate) type Waiter = u32;

/// What belongs to the task in a slot, and is written before it is scheduled.
pub(crate) struct Head {
    /// How to run and drop what is in the storage.
    pub(crate) vtable: &'static VTable,
    /// Whom it keeps open; null for nobody.
    pub(crate) parent: *const Slot,
    /// Belongs to the holder of the handle until the waiting flag is set, then to the end of the task.
    pub(crate) waiter: Waiter,
}

/// Marks the address of a segment: those of slots are even.
const SEGMENT_TAG: usize = 1;

/// One place for a task.
#[repr(C, align(128))]
pub(crate) struct Slot {
    pub(crate) state: SlotState,
    /// Who may touch it is told by `state`; see the table of transitions.
    pub(crate) head: UnsafeCell<Head>,
    /// The task itself and its children, as far as they have not ended; `state` says whether it counts.
    pub(crate) open: AtomicU32,
    /// Predecessors that have not ended, and the builder while it builds.
    pub(crate) blocked: AtomicU32,
    /// Successors: a list of edges (`continuation.rs`), the latest first.
    pub(crate) after: AtomicPtr<Slot>,
    pub(crate) storage: UnsafeCell<Storage>,
}

const _: () = assert!(cfg!(any(loom, shuttle)) || size_of::<Slot>() == 128);

// SAFETY: the body holds only what is `Send` (closures and results of tasks are, by the bounds of `spawn`), and the
// transitions of `state` give it to one thread at a time.
unsafe impl Send for Slot {}
// SAFETY: as above; shared access to the body happens only between two Acquire/Release transitions.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn new() -> Slot {
        let head = Head { vtable: &crate::task::NOTHING, parent: std::ptr::null(), waiter: 0 };
        Slot {
            state: SlotState::new(),
            head: UnsafeCell::new(head),
            open: AtomicU32::new(0),
            blocked: AtomicU32::new(0),
            after: AtomicPtr::new(std::ptr::null_mut()),
            storage: UnsafeCell::new(Storage([MaybeUninit::uninit(); STORAGE_LEN])),
        }
    }

    pub(crate) fn id(&self) -> TaskId {
        TaskId { address: std::ptr::from_ref(self).addr(), generation: self.state.generation() }
    }

    pub(crate) fn storage(&self) -> *mut Storage {
        self.storage.get()
    }

    /// So many of those that keep the task open have ended. Answers whether they were the last.
    #[must_use]
    #[inline]
    pub(crate) fn count_ends(&self, count: u32) -> bool {
        // ORDER: AcqRel; whoever brings it to zero, and whoever it tells, sees all that the tasks have done.
        self.open.fetch_sub(count, Ordering::AcqRel) == count
    }
}

/// The address of a slot, as free lists and queues hold it; in queues also that of a segment, with a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct SlotRef(*const Slot);

// SAFETY: an address; slots may be shared between threads (above).
unsafe impl Send for SlotRef {}

impl SlotRef {
    pub(crate) const NONE: SlotRef = SlotRef(std::ptr::null());

    pub(crate) fn of(slot: &Slot) -> SlotRef {
        SlotRef(slot)
    }

    pub(crate) fn from_entry(entry: usize) -> SlotRef {
        SlotRef(std::ptr::with_exposed_provenance(entry))
    }

    /// The entry of a segment of a plan: an odd address, so that it is told from a task's.
    pub(crate) fn of_segment(segment: *const Segment) -> SlotRef {
        SlotRef(segment.map_addr(|address| address | SEGMENT_TAG).cast())
    }

    /// The segment, if it is the entry of one.
    #[inline(always)]
    pub(crate) fn as_segment(self) -> Option<*const Segment> {
        let is_segment = self.0.addr() & SEGMENT_TAG != 0;
        is_segment.then(|| self.0.map_addr(|address| address & !SEGMENT_TAG).cast())
    }

    /// The number that rings hold.
    pub(crate) fn to_entry(self) -> usize {
        self.0.expose_provenance()
    }

    /// Has the processor fetch the slot, to be written: it comes from another core, and not alone.
    #[inline]
    pub(crate) fn prefetch(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: fetches, and does nothing else, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(self.0.cast());
        }
    }

    pub(crate) fn as_ptr(self) -> *const Slot {
        self.0
    }

    /// The slot.
    ///
    /// # Safety
    /// The pool the slot belongs to outlives `'a`.
    pub(crate) unsafe fn get<'a>(self) -> &'a Slot {
        // SAFETY: slots live as long as their pool, and are only changed through cells.
        unsafe { &*self.0 }
    }
}

/// Slots that are taken or given back at a time.
pub(crate) const BATCH_LEN: usize = 64;
/// Slots of the first chunk; each further chunk doubles their number.
const FIRST_CHUNK_LEN: usize = 64;

/// All slots of a pool. Their addresses never change; their number grows up to a maximum.
pub(crate) struct Slots {
    store: Mutex<Store>,
    count_max: usize,
}

struct Store {
    free: Vec<SlotRef>,
    /// As they were leaked; given back when the pool goes.
    chunks: Vec<*mut [Slot]>,
    count: usize,
}

// SAFETY: the chunks hold slots, which may be shared and sent.
unsafe impl Send for Store {}

impl Slots {
    pub(crate) fn new(count_max: usize) -> Slots {
        Slots { store: Mutex::new(Store { free: Vec::new(), chunks: Vec::new(), count: 0 }), count_max }
    }

    /// Takes up to `wanted` free slots, at least one unless the maximum is reached. Answers how many.
    pub(crate) fn take(&self, wanted: usize, mut into: impl FnMut(SlotRef)) -> usize {
        let mut store = lock(&self.store);
        if store.free.is_empty() {
            let len = FIRST_CHUNK_LEN << store.chunks.len().min(16);
            let room = self.count_max.saturating_sub(store.count);
            Slots::make_chunk(&mut store, len.min(room));
        }
        let count = wanted.min(store.free.len());
        let first = store.free.len() - count;
        for slot in store.free.drain(first..) {
            into(slot);
        }
        count
    }

    /// Gives slots back.
    pub(crate) fn give_back(&self, slots: impl Iterator<Item = SlotRef>) {
        lock(&self.store).free.extend(slots);
    }

    /// Takes a slot although the maximum is reached.
    pub(crate) fn take_beyond(&self) -> SlotRef {
        let mut store = lock(&self.store);
        if store.free.is_empty() {
            Slots::make_chunk(&mut store, FIRST_CHUNK_LEN);
        }
        store.free.pop().expect("a chunk holds some")
    }

    fn make_chunk(store: &mut Store, len: usize) {
        if len == 0 {
            return;
        }
        let chunk: *mut [Slot] = Box::into_raw((0..len).map(|_| Slot::new()).collect::<Box<[Slot]>>());
        store.count += len;
        // Room for all of them, so that giving back never allocates.
        let room = store.count - store.free.len();
        store.free.reserve(room);
        // The first one is taken first.
        let first = chunk.cast::<Slot>().cast_const();
        // SAFETY: `place` is less than the length of the chunk.
        store.free.extend((0..len).rev().map(|place| SlotRef(unsafe { first.add(place) })));
        store.chunks.push(chunk);
    }

    /// How many slots there are.
    #[cfg(all(test, not(any(loom, shuttle))))]
    fn count(&self) -> usize {
        lock(&self.store).count
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for chunk in lock(&self.store).chunks.drain(..) {
            // SAFETY: made by `Box::into_raw` in `make_chunk`, and freed only here, when nobody has the pool any more.
            drop(unsafe { Box::from_raw(chunk) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// LZ-2: the slot is not used again while its entry is in a queue, whoever ran the task.
    #[test]
    fn a_slot_is_free_only_when_the_entry_has_come_out() {
        let state = SlotState::new();
        state.queue_held();
        assert!(state.claim());
        assert_eq!(state.finish(Ended::Closure, |_| ()), Finish::Handed);

        assert!(!state.leave());

        assert_eq!(state.enter(), Entered::SpentLast);
    }

    #[test]
    fn an_entry_without_a_handle_is_alone() {
        let state = SlotState::new();
        state.queue_alone();

        assert_eq!(state.enter(), Entered::Alone);
    }

    #[test]
    fn the_handle_frees_what_the_entry_left() {
        let state = SlotState::new();
        state.queue_held();
        assert_eq!(state.enter(), Entered::Shared);
        assert_eq!(state.finish(Ended::Closure, |_| ()), Finish::Handed);

        assert_eq!(state.detach(), Detach::Mine);
        assert!(state.leave());
    }

    /// LZ-3: another use of the slot has another name.
    #[test]
    fn every_use_has_its_own_id() {
        let slot = Slot::new();
        slot.state.queue_alone();
        let first = slot.id();
        slot.state.free();
        slot.state.queue_alone();

        assert_ne!(slot.id(), first);
    }

    #[test]
    fn at_the_maximum_there_are_no_more_slots_until_one_comes_back() {
        let slots = Slots::new(70);
        let mut taken = Vec::new();

        assert_eq!(slots.take(64, |slot| taken.push(slot)), 64);
        assert_eq!(slots.take(64, |slot| taken.push(slot)), 6);
        assert_eq!(slots.take(64, |slot| taken.push(slot)), 0);

        slots.give_back(taken.drain(..3));
        assert_eq!(slots.take(64, |slot| taken.push(slot)), 3);
        assert_eq!(slots.count(), 70);
    }
}
