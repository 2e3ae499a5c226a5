//! A thread's own queue of tasks: its owner pushes and pops at the tail, thieves take from the head.
//!
//! Entries are slots, as addresses. `head` and `tail` count up; the entry of count `c` lies in the cell `c mod len`.
//! Every transfer of a task is an exchange *of its cell*, so no task can be taken twice, whatever the counts say:
//!
//! | who | does | to the cell |
//! |---|---|---|
//! | owner, push | store | empty or taken → task |
//! | owner, pop | exchange | task → empty |
//! | thief | compare and exchange | task → *taken* |
//! | owner, growing | exchange | anything → *moved* |
//!
//! The counts only say where to look. The owner's two ends never touch `head`, which thieves write; a pop costs one
//! exchange on a cell nobody else looks at unless it is the last.
//!
//! # Why no task is overlooked
//! - A count whose cell was *taken* is never filled again: the owner, finding `taken` below its tail, pushes above it.
//!   So a thief may help another past a taken cell: `head` moves from `c` to `c + 1` by a compare and exchange, and
//!   only after the cell of `c` was seen `taken`, or was taken by oneself.
//! - A count that the owner popped is filled again by its next push. Its cell is `empty` meanwhile, which moves nobody.
//! - A thief that slept between its look at a cell and its exchange may find the same task there again, a whole ring
//!   later: it takes it, which is right, only out of order. The owner may then meet `taken` while older tasks wait
//!   below; so, meeting it, the owner takes from the head like a thief before it says "empty".
//!
//! # Growing
//! A full ring moves into one of twice the size. Every old cell is exchanged for `moved`; a thief that meets it looks
//! for the new cells. Old cells are kept until the ring goes, so that a late thief reads memory that exists: together
//! they are smaller than the new ones.
//!
//! The loom model is `loom_tests/ring.rs`. Its control lets the owner pop by a load and a store instead of an exchange,
//! and must fail.

use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, Padded, lock, spin_loop};

/// Cells of a new ring.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const RING_LEN: usize = 256;
#[cfg(any(loom, shuttle))]
pub(crate) const RING_LEN: usize = 2;

const _: () = assert!(RING_LEN.is_power_of_two());

/// What a cell holds besides tasks, whose addresses are larger.
const EMPTY: usize = 0;
const TAKEN: usize = 1;
const MOVED: usize = 2;

fn is_task(cell: usize) -> bool {
    cell > MOVED
}

/// What a thief gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steal {
    /// A task.
    Got(usize),
    /// There was nothing.
    Empty,
    /// Somebody else was faster; there may be more.
    Lost,
}

type Cells = Box<[AtomicUsize]>;

fn new_cells(len: usize) -> *mut Cells {
    let cells: Cells = (0..len).map(|_| AtomicUsize::new(EMPTY)).collect();
    Box::into_raw(Box::new(cells))
}

/// A queue with one owner and any number of thieves.
#[derive(Debug)]
pub(crate) struct Ring {
    owner: Padded<OwnerSide>,
    /// The count of the oldest entry, or of a taken one that nobody has moved past yet.
    head: Padded<AtomicU64>,
}

#[derive(Debug)]
struct OwnerSide {
    /// One past the youngest entry. Written by the owner, read by all.
    tail: AtomicU64,
    /// What the owner last knew of `head`: never more than it. Owner only.
    head_seen: AtomicU64,
    /// Replaced by the owner when it is full; read by all.
    cells: AtomicPtr<Cells>,
    /// Cells that were outgrown.
    outgrown: Mutex<Vec<SendCells>>,
}

#[derive(Debug)]
struct SendCells(*mut Cells);

// SAFETY: the cells are atomics; the pointer is only used to free them.
unsafe impl Send for SendCells {}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring::starting_at(0)
    }

    /// A ring whose counts begin at `start`; tests begin near their end.
    pub(crate) fn starting_at(start: u64) -> Ring {
        let owner = OwnerSide {
            tail: AtomicU64::new(start),
            head_seen: AtomicU64::new(start),
            cells: AtomicPtr::new(new_cells(RING_LEN)),
            outgrown: Mutex::new(Vec::new()),
        };
        Ring { owner: Padded(owner), head: Padded(AtomicU64::new(start)) }
    }

    fn cells(&self, order: Ordering) -> &Cells {
        // SAFETY: made by `new_cells`, and freed only when the ring is dropped.
        unsafe { &*self.owner.cells.load(order) }
    }

    fn cell(cells: &Cells, count: u64) -> &AtomicUsize {
        // SAFETY: the length is a power of two, and the mask is less than it.
        unsafe { cells.get_unchecked(count as usize & (cells.len() - 1)) }
    }

    /// How many counts lie between two, `to` being the later one; less than none if it is not.
    fn between(from: u64, to: u64) -> i64 {
        to.wrapping_sub(from) as i64
    }

    /// The count that the next push gets. Owner only.
    pub(crate) fn tail(&self) -> u64 {
        // ORDER: Relaxed; only this thread writes it.
        self.owner.tail.load(Ordering::Relaxed)
    }

    /// Adds a task without showing it. Owner only; `publish` must follow with the count after the last one.
    #[inline]
    fn place(&self, tail: u64, task: usize) {
        debug_assert!(is_task(task));
        // ORDER: Relaxed; only this thread writes these.
        let mut cells = self.cells(Ordering::Relaxed);
        let seen = self.owner.head_seen.load(Ordering::Relaxed);
        if Self::between(seen, tail) >= cells.len() as i64 {
            cells = self.make_room(tail);
        }
        // ORDER: Release; pairs with the exchange in `steal`. The store of `tail` is not enough: a thief that read the
        // tail before the owner popped this count finds the task that the count has now.
        Self::cell(cells, tail).store(task, Ordering::Release);
    }

    fn publish(&self, tail: u64) {
        // ORDER: Release; pairs with the load of `tail` in `steal`. Publishes the entries, and what the tasks need.
        self.owner.tail.store(tail, Ordering::Release);
    }

    /// Adds a task. Owner only.
    #[inline]
    pub(crate) fn push(&self, task: usize) {
        let tail = self.tail();
        self.place(tail, task);
        self.publish(tail.wrapping_add(1));
    }

    /// Adds several tasks, and shows them at once. Answers how many. Owner only.
    pub(crate) fn push_many(&self, tasks: impl Iterator<Item = usize>) -> usize {
        let start = self.tail();
        let mut tail = start;
        for task in tasks {
            self.place(tail, task);
            tail = tail.wrapping_add(1);
        }
        self.publish(tail);
        tail.wrapping_sub(start) as usize
    }

    /// The cells, with room for one more.
    #[cold]
    fn make_room(&self, tail: u64) -> &Cells {
        // ORDER: Acquire; pairs with the exchange of `head` in `pass`: a count below it is done with.
        let head = self.head.load(Ordering::Acquire);
        // ORDER: Relaxed; owner only.
        self.owner.head_seen.store(head, Ordering::Relaxed);
        let old = self.cells(Ordering::Relaxed);
        if Self::between(head, tail) < old.len() as i64 {
            return old;
        }
        self.grow(head, tail)
    }

    fn grow(&self, head: u64, tail: u64) -> &Cells {
        let old = self.cells(Ordering::Relaxed);
        let grown = new_cells(old.len() * 2);
        // SAFETY: just made, and nobody else knows it yet.
        let new = unsafe { &*grown };
        for step in 0..old.len() as u64 {
            let count = head.wrapping_add(step);
            // ORDER: AcqRel; takes the entry from the thieves, who find `moved` from now on.
            let entry = Self::cell(old, count).swap(MOVED, Ordering::AcqRel);
            let is_within = Self::between(count, tail) > 0;
            // ORDER: Relaxed; published by the store of `cells`.
            Self::cell(new, count).store(if is_within { entry } else { EMPTY }, Ordering::Relaxed);
        }
        // ORDER: Release; pairs with the load in `steal`.
        let outgrown = self.owner.cells.load(Ordering::Relaxed);
        self.owner.cells.store(grown, Ordering::Release);
        lock(&self.owner.outgrown).push(SendCells(outgrown));
        new
    }

    /// Takes the youngest task. Owner only.
    #[inline]
    pub(crate) fn pop(&self) -> Option<usize> {
        let last = self.tail().wrapping_sub(1);
        let cell = Self::cell(self.cells(Ordering::Relaxed), last);
        // ORDER: Relaxed; a guess for the exchange, which saves it when there is nothing.
        if !is_task(cell.load(Ordering::Relaxed)) {
            return self.pop_among_thieves();
        }
        let entry = Self::take_own(cell);
        if !is_task(entry) {
            Self::give_back_mark(cell);
            return self.pop_among_thieves();
        }
        // ORDER: Release; who sees that the task has left (`wait_idle`) sees that its thread is at work. A thief that reads
        // the old tail finds the cell empty.
        self.owner.tail.store(last, Ordering::Release);
        Some(entry)
    }

    #[cfg(not(windlass_weaken = "ring"))]
    fn take_own(cell: &AtomicUsize) -> usize {
        // ORDER: Acquire; the task may have been put here by nobody but this thread, but its slot may have been changed
        // by others since.
        cell.swap(EMPTY, Ordering::Acquire)
    }

    /// The control of the model: without the exchange, owner and thief take the same task.
    #[cfg(windlass_weaken = "ring")]
    fn take_own(cell: &AtomicUsize) -> usize {
        let entry = cell.load(Ordering::Acquire);
        cell.store(EMPTY, Ordering::Relaxed);
        entry
    }

    /// The owner met no task at its end: nearly always there is none at all.
    fn pop_among_thieves(&self) -> Option<usize> {
        loop {
            match self.steal() {
                Steal::Got(task) => return Some(task),
                Steal::Empty => return None,
                Steal::Lost => spin_loop(),
            }
        }
    }

    /// The youngest task, if it has not been taken yet. A hint. Owner only.
    pub(crate) fn last(&self) -> Option<usize> {
        // ORDER: Relaxed; only this thread puts tasks into cells.
        let entry = Self::cell(self.cells(Ordering::Relaxed), self.tail().wrapping_sub(1)).load(Ordering::Relaxed);
        is_task(entry).then_some(entry)
    }

    /// Takes the youngest task if it is this one. Owner only.
    #[inline]
    pub(crate) fn pop_if(&self, task: usize) -> bool {
        let last = self.tail().wrapping_sub(1);
        // ORDER: Relaxed; only this thread puts tasks into cells, so a task seen here is below the tail, or was until a
        // thief took it, which the exchange finds out.
        let is_last = Self::cell(self.cells(Ordering::Relaxed), last).load(Ordering::Relaxed) == task;
        is_last && self.pop_last_if(last, task)
    }

    fn pop_last_if(&self, last: u64, task: usize) -> bool {
        let cell = Self::cell(self.cells(Ordering::Relaxed), last);
        if Self::take_own(cell) == task {
            // ORDER: Release; as in `pop`.
            self.owner.tail.store(last, Ordering::Release);
            return true;
        }
        Self::give_back_mark(cell);
        false
    }

    /// A thief took the task between the owner's look and its exchange, and may not have moved past it yet: the cell
    /// must say so again to the others.
    #[cold]
    fn give_back_mark(cell: &AtomicUsize) {
        // ORDER: Relaxed; the mark publishes nothing, and thieves change only cells that hold a task.
        cell.store(TAKEN, Ordering::Relaxed);
    }

    /// Moves the head past a count whose cell was taken.
    fn pass(&self, count: u64) {
        // ORDER: AcqRel; Release pairs with the load in `make_room`: the cell may be filled again. A failure means that
        // somebody else has done it.
        let _ = self.head.compare_exchange(count, count.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Takes the oldest task. Anybody.
    pub(crate) fn steal(&self) -> Steal {
        // ORDER: Acquire; pairs with `pass`.
        let head = self.head.load(Ordering::Acquire);
        // ORDER: Acquire; pairs with `publish`: the entries below are there, and what their tasks need. After growth it
        // also shows that the old cells are marked.
        let tail = self.owner.tail.load(Ordering::Acquire);
        if Self::between(head, tail) <= 0 {
            return Steal::Empty;
        }
        // ORDER: Acquire; pairs with the store in `grow`.
        let cell = Self::cell(self.cells(Ordering::Acquire), head);
        // ORDER: Relaxed; a guess for the exchange.
        let entry = cell.load(Ordering::Relaxed);
        match entry {
            // The owner popped it, and has not yet said so.
            EMPTY => return Steal::Lost,
            TAKEN => {
                self.pass(head);
                return Steal::Lost;
            }
            MOVED => return Steal::Lost,
            _ => {}
        }
        // ORDER: AcqRel; makes the task ours. Release keeps the order for whoever finds `taken`.
        if cell.compare_exchange(entry, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Steal::Lost;
        }
        self.pass(head);
        Steal::Got(entry)
    }

    /// How many tasks there seem to be. A hint.
    pub(crate) fn len(&self) -> usize {
        // ORDER: Acquire; a worker about to sleep looks here after it has said so (sleep.rs), and must see what was
        // pushed before it said so.
        let head = self.head.load(Ordering::Acquire);
        Self::between(head, self.owner.tail.load(Ordering::Acquire)).max(0) as usize
    }

    /// Whether there seems to be nothing. A hint.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let outgrown = std::mem::take(&mut *lock(&self.owner.outgrown));
        let current = SendCells(self.owner.cells.load(Ordering::Relaxed));
        for cells in outgrown.into_iter().chain([current]) {
            // SAFETY: made by `Box::into_raw` in `new_cells`, listed once, and nobody else has the ring any more.
            drop(unsafe { Box::from_raw(cells.0) });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Numbers that stand for tasks.
    fn task(number: usize) -> usize {
        number + 16
    }

    #[test]
    fn the_owner_takes_the_youngest_and_a_thief_the_oldest() {
        let ring = Ring::new();
        for number in 1..=3 {
            ring.push(task(number));
        }

        assert_eq!(ring.pop(), Some(task(3)));
        assert_eq!(ring.steal(), Steal::Got(task(1)));
        assert_eq!(ring.pop(), Some(task(2)));
        assert_eq!((ring.pop(), ring.steal()), (None, Steal::Empty));
    }

    /// LZ-7: a full ring neither overwrites nor refuses.
    #[test]
    fn a_full_ring_grows_and_keeps_the_order() {
        let ring = Ring::new();
        let count = RING_LEN * 5;
        for number in 0..count {
            ring.push(task(number));
        }

        assert_eq!(ring.len(), count);
        for number in 0..count / 2 {
            assert_eq!(ring.steal(), Steal::Got(task(number)));
        }
        for number in (count / 2..count).rev() {
            assert_eq!(ring.pop(), Some(task(number)));
        }
        assert_eq!(ring.pop(), None);
    }

    #[test]
    fn many_are_shown_at_once() {
        let ring = Ring::new();

        assert_eq!(ring.push_many((0..1_000).map(task)), 1_000);

        assert_eq!(ring.len(), 1_000);
        assert_eq!((ring.steal(), ring.pop()), (Steal::Got(task(0)), Some(task(999))));
    }

    /// LZ-8, SC-12, C-4: counts that wrap must not lose or repeat an entry.
    #[test]
    fn counts_that_wrap_lose_nothing() {
        let ring = Ring::starting_at(u64::MAX - 3);
        for round in 0..1_000 {
            ring.push(task(round));
            ring.push(task(round + 1_000_000));
            assert_eq!(ring.steal(), Steal::Got(task(round)));
            assert_eq!(ring.pop(), Some(task(round + 1_000_000)));
            assert!(ring.is_empty());
        }
        ring.push_many((0..3 * RING_LEN).map(task));
        assert_eq!(ring.len(), 3 * RING_LEN);
    }

    #[test]
    fn only_the_expected_task_is_popped() {
        let ring = Ring::new();
        ring.push(task(1));
        ring.push(task(2));

        assert!(!ring.pop_if(task(1)));
        assert!(ring.pop_if(task(2)));
        assert!(ring.pop_if(task(1)));
        assert!(!ring.pop_if(task(1)));
    }

    /// The owner may meet a taken cell at its end while nothing below is left, over and over.
    #[test]
    fn a_ring_emptied_by_thieves_is_filled_again() {
        let ring = Ring::new();
        for round in 0..10 * RING_LEN {
            ring.push(task(round));
            assert_eq!(ring.steal(), Steal::Got(task(round)));
            assert_eq!(ring.pop(), None);
        }
    }
}
