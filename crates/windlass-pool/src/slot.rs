//! Fixed places for tasks, used again and again.
//!
//! A slot's life is one word: its generation, where it stands, and two flags. Every change of the word is one of the
//! transitions below, and whoever makes a transition knows from its answer what it may touch next.
//!
//! | from | to | by | may then |
//! |---|---|---|---|
//! | free | queued | whoever took it off the free list | nothing more: it wrote the closure before |
//! | queued | running | one worker, or the waiter itself | run the closure, write the result |
//! | running | done | the same, unless detached | touch nothing in the slot any more |
//! | running, detached | – | the same | drop the result, free the slot |
//! | done | – | the holder of the task's handle | take the result, free the slot |
//! | – | free, next generation | whoever may free it | put it on the free list |
//!
//! Flags: *detached*, nobody will ask for the result; *waiting*, a thread is registered to be woken.
//!
//! # Why a stale id is harmless
//! An id names a slot and a generation. Queues may hold ids of tasks that have run already: a waiter may have taken
//! its task without going through the queue. [`SlotState::claim`] compares the generation in the same exchange that
//! takes the task, so an old id claims nothing. Generations have 40 bits: one slot would have to be used 10¹² times
//! while an id lies in a queue.
//!
//! # Why completion is the last touch
//! As soon as the word says done, the waiter may take the result and free the slot, and another thread may fill it
//! again. So the worker reads the waiter's thread *before* it says done: the waiter registered before it set its flag,
//! and does not go away until the word says done. The loom model is `loom_tests/slot.rs`; its control says done with
//! an ordering that does not publish the result, and must fail.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, Thread, lock};
use crate::task::VTable;

/// Bytes of a closure, or of a result, that fit into a slot. Larger ones are boxed.
pub(crate) const STORAGE_LEN: usize = 96;

const PHASE: u64 = 0b0011;
const FREE: u64 = 0b0000;
const QUEUED: u64 = 0b0001;
const RUNNING: u64 = 0b0010;
const DONE: u64 = 0b0011;
const DETACHED: u64 = 0b0100;
const WAITING: u64 = 0b1000;
const GENERATION_SHIFT: u32 = 8;
const GENERATION_BITS: u32 = 40;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
const INDEX_BITS: u32 = 24;

const _: () = assert!(GENERATION_BITS + INDEX_BITS == u64::BITS);

/// Names one use of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId(u64);

impl TaskId {
    fn new(index: u32, generation: u64) -> TaskId {
        TaskId(((generation & GENERATION_MASK) << INDEX_BITS) | u64::from(index))
    }

    /// The number that queues hold.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> TaskId {
        TaskId(bits)
    }

    pub(crate) fn index(self) -> u32 {
        (self.0 & ((1 << INDEX_BITS) - 1)) as u32
    }

    fn generation(self) -> u64 {
        self.0 >> INDEX_BITS
    }
}

/// What the end of a run leaves to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Finish {
    /// Somebody has, or will ask for, the result. The slot must not be touched again.
    Handed,
    /// Nobody will ask: the caller drops the result and frees the slot.
    Orphaned,
}

/// What giving up a handle leaves to do.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Detach {
    /// The task has not ended: whoever runs it will tidy up.
    Left,
    /// It has ended: the caller drops the result and frees the slot.
    Mine,
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

    fn is_of(word: u64, id: TaskId) -> bool {
        (word >> GENERATION_SHIFT) & GENERATION_MASK == id.generation()
    }

    /// Free to queued. The caller took the slot off the free list and has written its body.
    pub(crate) fn queue(&self, index: u32) -> TaskId {
        // ORDER: Relaxed; the free list's lock, or the cache's thread, has ordered this after the slot was freed.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert_eq!(word & PHASE, FREE, "a slot in use was taken off the free list");
        // ORDER: Release; pairs with the exchange in `claim`. Publishes the body.
        self.word.store((word & !0xff) | QUEUED, Ordering::Release);
        TaskId::new(index, word >> GENERATION_SHIFT)
    }

    /// Queued to running, if `id` is this use of the slot. Then the closure is the caller's.
    #[must_use]
    pub(crate) fn claim(&self, id: TaskId) -> bool {
        // ORDER: Relaxed; only a guess for the exchange.
        let mut word = self.word.load(Ordering::Relaxed);
        while Self::is_of(word, id) && word & PHASE == QUEUED {
            let running = (word & !PHASE) | RUNNING;
            // ORDER: Acquire; pairs with `queue`: the body is there. Release keeps the chain for later readers.
            match self.word.compare_exchange_weak(word, running, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Running to done, unless the task was detached. `before_done` is called with whether a thread is waiting, each
    /// time before the word is about to say done; afterwards the slot may be gone.
    pub(crate) fn finish(&self, mut before_done: impl FnMut(bool)) -> Finish {
        // ORDER: Acquire; pairs with `add_waiter`: the waiter's thread is there to be read.
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            debug_assert_eq!(word & PHASE, RUNNING, "a task ended that was not running");
            if word & DETACHED != 0 {
                return Finish::Orphaned;
            }
            before_done(word & WAITING != 0);
            let done = (word & !(PHASE | WAITING)) | DONE;
            match self.word.compare_exchange(word, done, FINISH_ORDER, Ordering::Acquire) {
                Ok(_) => return Finish::Handed,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the task has ended. After `true` its result may be taken by the holder of the handle.
    pub(crate) fn is_done(&self) -> bool {
        // ORDER: Acquire; pairs with `finish`. The result is there.
        self.word.load(Ordering::Acquire) & PHASE == DONE
    }

    /// Sets the waiting flag. `false` if the task has ended already. The waiter's thread was written before.
    #[must_use]
    pub(crate) fn add_waiter(&self) -> bool {
        // ORDER: Relaxed; only a guess for the exchange.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & PHASE == DONE {
                // ORDER: Acquire for the caller, who takes the result now.
                let _ = self.word.load(Ordering::Acquire);
                return false;
            }
            // ORDER: AcqRel; pairs with the load in `finish`. Publishes the waiter's thread.
            match self.word.compare_exchange_weak(word, word | WAITING, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Nobody will ask for the result.
    pub(crate) fn detach(&self) -> Detach {
        // ORDER: AcqRel; Acquire pairs with `finish` in case the result is ours to drop, Release with the load there.
        let word = self.word.fetch_or(DETACHED, Ordering::AcqRel);
        if word & PHASE == DONE { Detach::Mine } else { Detach::Left }
    }

    /// To free, under the next generation. The caller has emptied the body and is the last who knows the slot.
    pub(crate) fn free(&self) {
        // ORDER: Relaxed; nobody else may change the word now.
        let generation = (self.word.load(Ordering::Relaxed) >> GENERATION_SHIFT).wrapping_add(1) & GENERATION_MASK;
        // ORDER: Release; a stale id that is claimed from now on sees the new generation, or an old word and loses the
        // exchange.
        self.word.store((generation << GENERATION_SHIFT) | FREE, Ordering::Release);
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

/// What belongs to the task in a slot.
pub(crate) struct Body {
    /// How to run and drop what is in the storage.
    pub(crate) vtable: Option<&'static VTable>,
    /// Whom to wake when it is done.
    pub(crate) waiter: Option<Thread>,
    pub(crate) storage: Storage,
}

/// One place for a task.
pub(crate) struct Slot {
    pub(crate) state: SlotState,
    /// Who may touch it is told by `state`; see the table of transitions. `waiter` belongs to the holder of the handle
    /// until the waiting flag is set, then to whoever runs the task, until it is done.
    pub(crate) body: UnsafeCell<Body>,
}

// SAFETY: the body holds only what is `Send` (closures and results of tasks are, by the bounds of `spawn`), and the
// transitions of `state` give it to one thread at a time.
unsafe impl Send for Slot {}
// SAFETY: as above; shared access to the body happens only between two Acquire/Release transitions.
unsafe impl Sync for Slot {}

impl Slot {
    fn new() -> Slot {
        let storage = Storage([MaybeUninit::uninit(); STORAGE_LEN]);
        Slot { state: SlotState::new(), body: UnsafeCell::new(Body { vtable: None, waiter: None, storage }) }
    }
}

/// Slots of the first chunk; each further chunk doubles their number.
const FIRST_CHUNK_LEN: u32 = 64;
const CHUNKS: usize = (INDEX_BITS - FIRST_CHUNK_LEN.trailing_zeros() + 1) as usize;

/// All slots of a pool. Their addresses never change; their number grows up to a maximum.
pub(crate) struct Slots {
    chunks: [AtomicPtr<Slot>; CHUNKS],
    free: Mutex<FreeList>,
    count_max: u32,
}

struct FreeList {
    indices: Vec<u32>,
    /// Slots that have ever been handed out; the next one is this.
    count: u32,
}

/// Slots that a worker takes or gives back at a time.
pub(crate) const BATCH_LEN: usize = 32;

impl Slots {
    pub(crate) fn new(count_max: usize) -> Slots {
        Slots {
            chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            free: Mutex::new(FreeList { indices: Vec::new(), count: 0 }),
            count_max: count_max as u32,
        }
    }

    /// Takes up to `wanted` free slots, at least one unless the maximum is reached.
    pub(crate) fn take(&self, wanted: usize, into: &mut Vec<u32>) {
        let mut free = lock(&self.free);
        for _ in 0..wanted {
            let Some(index) = free.indices.pop().or_else(|| self.fresh(&mut free.count)) else {
                return;
            };
            into.push(index);
        }
    }

    /// Takes one free slot.
    pub(crate) fn take_one(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        free.indices.pop().or_else(|| self.fresh(&mut free.count))
    }

    /// Gives slots back.
    pub(crate) fn give_back(&self, indices: impl Iterator<Item = u32>) {
        lock(&self.free).indices.extend(indices);
    }

    /// A slot that was never used, in a chunk that may have to be made. Called under the free list's lock.
    fn fresh(&self, count: &mut u32) -> Option<u32> {
        if *count >= self.count_max {
            return None;
        }
        let index = *count;
        let (chunk, place) = place_of(index);
        if place == 0 {
            let slots: Box<[Slot]> = (0..FIRST_CHUNK_LEN << chunk).map(|_| Slot::new()).collect();
            // ORDER: Release; pairs with the load in `get`. Publishes the empty slots.
            self.chunks[chunk].store(Box::into_raw(slots).cast::<Slot>(), Ordering::Release);
        }
        *count += 1;
        Some(index)
    }

    /// The slot of an index that was handed out.
    pub(crate) fn get(&self, index: u32) -> &Slot {
        let (chunk, place) = place_of(index);
        // ORDER: Acquire; pairs with the store in `fresh`.
        let first = self.chunks[chunk].load(Ordering::Acquire);
        assert!(!first.is_null(), "the id of a slot that was never made");
        // SAFETY: the chunk was made with `FIRST_CHUNK_LEN << chunk` slots, `place` is below that by `place_of`, and
        // chunks live as long as `self`.
        unsafe { &*first.add(place) }
    }
}

/// The chunk of an index, and its place in it.
fn place_of(index: u32) -> (usize, usize) {
    let shifted = index + FIRST_CHUNK_LEN;
    let chunk = shifted.ilog2() - FIRST_CHUNK_LEN.ilog2();
    (chunk as usize, (shifted - (FIRST_CHUNK_LEN << chunk)) as usize)
}

impl Drop for Slots {
    fn drop(&mut self) {
        for (chunk, first) in self.chunks.iter().enumerate() {
            // ORDER: Relaxed; `&mut self` means that every other thread has gone.
            let first = first.load(Ordering::Relaxed);
            if !first.is_null() {
                let slots = std::ptr::slice_from_raw_parts_mut(first, (FIRST_CHUNK_LEN << chunk) as usize);
                // SAFETY: made in `fresh` by `Box::into_raw` from a slice of this length, and freed only here.
                drop(unsafe { Box::from_raw(slots) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_own_place() {
        assert_eq!(place_of(0), (0, 0));
        assert_eq!(place_of(63), (0, 63));
        assert_eq!(place_of(64), (1, 0));
        assert_eq!(place_of(191), (1, 127));
        assert_eq!(place_of(192), (2, 0));
        let (chunk, place) = place_of((1 << INDEX_BITS) - 1);
        assert!(chunk < CHUNKS && place < (FIRST_CHUNK_LEN as usize) << chunk);
    }

    /// LZ-1, LZ-2: a slot in use is never given out, and a stale id claims nothing.
    #[test]
    fn an_id_of_an_earlier_use_claims_nothing() {
        let state = SlotState::new();
        let old = state.queue(5);
        assert!(state.claim(old));
        assert_eq!(state.detach(), Detach::Left);
        assert_eq!(state.finish(|_| ()), Finish::Orphaned);
        state.free();

        let new = state.queue(5);

        assert!(!state.claim(old));
        assert!(state.claim(new));
        assert!(!state.claim(new));
        assert_eq!(new.index(), 5);
    }

    #[test]
    fn at_the_maximum_there_are_no_more_slots_until_one_comes_back() {
        let slots = Slots::new(2);
        let (a, b) = (slots.take_one().unwrap(), slots.take_one().unwrap());

        assert_ne!(a, b);
        assert_eq!(slots.take_one(), None);
        slots.give_back([a].into_iter());
        assert_eq!(slots.take_one(), Some(a));
    }
}
