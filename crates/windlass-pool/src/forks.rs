//! The second halves of the joins that a thread is in the middle of.
//!
//! They form a stack, for joins nest. The owner keeps it in plain memory: a fork is a store and a count, taking it back
//! is a count. Only forks that were *shown* can be taken by others. They are the oldest ones, so the largest; each lies
//! in a shared cell of its own, and whoever wants it, owner or thief, exchanges the cell for nothing: one of them gets
//! it. A cell holds a fork only while that is to be had, so a late thief finds either one or nothing, never an old one.
//!
//! # When a fork is shown
//! 1. When no other is: the oldest fork can always be had.
//! 2. When somebody looks for work, or sleeps, and the forks come slowly ([`Pace`]): all of them. A lone coarse join
//!    goes parallel at once.
//! 3. When somebody looks for work and none of those shown is left: the oldest.
//!
//! So a tree of tiny joins costs its forks, and shows a handful of them.
//!
//! The loom models are `loom_tests/forks.rs`, whose control looks into a cell first and empties it later, and
//! `loom_tests/fork.rs`, whose control ends a fork without publishing its outcome.

use std::cell::Cell;
use std::ptr;
use std::time::Duration;

use crate::lane::Lane;
use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Instant, Ordering, Padded};

/// Joins that can be nested on one thread before they run one half after the other.
pub(crate) const FORKS_MAX: usize = 256;
/// Of these, the oldest that can be shown at a time.
#[cfg(not(any(loom, shuttle)))]
pub(crate) const SHOWN_MAX: usize = 64;
#[cfg(any(loom, shuttle))]
pub(crate) const SHOWN_MAX: usize = 2;

const _: () = assert!(SHOWN_MAX <= FORKS_MAX);

/// What a thief must know of a fork. The first field of the whole (`join.rs`).
#[repr(C)]
pub(crate) struct ForkHead {
    /// Runs the closure on the thief's thread, and leaves the outcome.
    ///
    /// # Safety
    /// The caller took the fork off its cell, and has not run it before.
    pub(crate) run: unsafe fn(*const ForkHead, &Lane),
    pub(crate) state: ForkState,
}

/// Whether a fork that was taken has ended, and whether its owner sleeps.
#[derive(Debug)]
pub(crate) struct ForkState {
    word: AtomicU32,
}

const OUT: u32 = 0;
const OWNER_WAITS: u32 = 1;
const ENDED: u32 = 2;

impl ForkState {
    pub(crate) fn new() -> ForkState {
        ForkState { word: AtomicU32::new(OUT) }
    }

    /// The thief is through: its last touch of the fork. Answers whether the owner is to be woken.
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        // ORDER: Release; pairs with `has_ended`: the outcome is there. Acquire is not needed: nothing is read after.
        self.word.swap(ENDED, FORK_END_ORDER) == OWNER_WAITS
    }

    pub(crate) fn has_ended(&self) -> bool {
        // ORDER: Acquire; pairs with `end`.
        self.word.load(Ordering::Acquire) == ENDED
    }

    /// The owner is about to sleep. `false` if it need not.
    #[must_use]
    pub(crate) fn add_waiter(&self) -> bool {
        // ORDER: Acquire on failure; pairs with `end`. Success publishes nothing.
        self.word.compare_exchange(OUT, OWNER_WAITS, Ordering::Relaxed, Ordering::Acquire).is_ok()
            || self.word.load(Ordering::Acquire) == OWNER_WAITS
    }
}

#[cfg(not(windlass_weaken = "fork"))]
const FORK_END_ORDER: Ordering = Ordering::Release;
/// The control of the model: ended without publishing the outcome.
#[cfg(windlass_weaken = "fork")]
const FORK_END_ORDER: Ordering = Ordering::Relaxed;

/// The cells that others look into.
#[derive(Debug)]
pub(crate) struct ShownForks {
    cells: Box<[AtomicPtr<ForkHead>]>,
    /// One past the youngest shown one. Written by the owner; a hint for thieves.
    len: Padded<AtomicUsize>,
}

impl ShownForks {
    pub(crate) fn new() -> ShownForks {
        let cells = (0..SHOWN_MAX).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        ShownForks { cells, len: Padded(AtomicUsize::new(0)) }
    }

    /// Shows a fork in its place. Owner only.
    pub(crate) fn show(&self, place: usize, fork: *const ForkHead) {
        // ORDER: Release; pairs with the exchange in `steal`. Publishes the closure.
        self.cells[place].store(fork.cast_mut(), Ordering::Release);
        // ORDER: Release; a thief that sees the length finds the fork.
        self.len.store(place + 1, Ordering::Release);
    }

    /// Takes back the fork in a place, the youngest shown one. `false` if a thief has it. Owner only.
    #[must_use]
    pub(crate) fn take_back(&self, place: usize) -> bool {
        let is_mine = !self.take(place).is_null();
        // ORDER: Relaxed; a thief that reads more finds empty cells.
        self.len.store(place, Ordering::Relaxed);
        is_mine
    }

    #[cfg(not(windlass_weaken = "forks"))]
    fn take(&self, place: usize) -> *mut ForkHead {
        // ORDER: Acquire; pairs with `show`.
        self.cells[place].swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// The control of the model: look first, empty later.
    #[cfg(windlass_weaken = "forks")]
    fn take(&self, place: usize) -> *mut ForkHead {
        let fork = self.cells[place].load(Ordering::Acquire);
        self.cells[place].store(ptr::null_mut(), Ordering::Relaxed);
        fork
    }

    /// Whether there are joins whose forks were shown, and maybe taken. A hint.
    pub(crate) fn is_in_use(&self) -> bool {
        // ORDER: Relaxed; a hint.
        self.len.load(Ordering::Relaxed) > 0
    }

    /// Whether one that was shown is still to be had. A hint.
    pub(crate) fn is_any_left(&self) -> bool {
        // ORDER: Relaxed; a hint.
        let len = self.len.load(Ordering::Relaxed);
        self.cells[..len].iter().rev().any(|cell| !cell.load(Ordering::Relaxed).is_null())
    }

    /// Takes the oldest shown fork. Anybody.
    pub(crate) fn steal(&self) -> Option<*const ForkHead> {
        // ORDER: Acquire; pairs with `show`.
        let len = self.len.load(Ordering::Acquire);
        (0..len).find_map(|place| {
            // ORDER: Relaxed; a guess that saves the exchange.
            if self.cells[place].load(Ordering::Relaxed).is_null() {
                return None;
            }
            let fork = self.take(place);
            (!fork.is_null()).then_some(fork.cast_const())
        })
    }
}

/// Whether forks come fast or slowly: see rule 2.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Cell<Instant>,
    count: Cell<u32>,
    is_fast: Cell<bool>,
}

/// Forks that are looked at together.
const PACE_WINDOW: u32 = 32;
/// What a fork may take for them to come fast.
const PACE_FAST: Duration = Duration::from_nanos(300);

impl Pace {
    fn new() -> Pace {
        Pace { since: Cell::new(Instant::now()), count: Cell::new(0), is_fast: Cell::new(false) }
    }

    /// Another fork; answers whether they come fast.
    pub(crate) fn step(&self) -> bool {
        let count = self.count.get() + 1;
        self.count.set(count);
        if count >= PACE_WINDOW {
            self.look(PACE_WINDOW);
        }
        self.is_fast.get()
    }

    /// An outermost fork: what came before may have been long ago.
    pub(crate) fn look_again(&self) {
        if self.is_fast.get() {
            self.look(self.count.get() + 1);
        }
    }

    fn look(&self, count: u32) {
        let now = Instant::now();
        let is_fast = now.duration_since(self.since.get()) < PACE_FAST * PACE_WINDOW;
        if !is_fast || count >= PACE_WINDOW {
            self.is_fast.set(is_fast);
            self.since.set(now);
            self.count.set(0);
        }
    }
}

/// The forks of the joins this thread is in the middle of: the owner's plain memory.
pub(crate) struct ForkStack {
    stack: Box<[Cell<*const ForkHead>; FORKS_MAX]>,
    /// How many there are.
    pub(crate) len: Cell<usize>,
    /// Of these, how many were shown; the oldest ones.
    pub(crate) shown: Cell<usize>,
    /// The next fork need not be considered unless somebody searches: one is shown, and they come fast.
    pub(crate) is_quiet: Cell<bool>,
    pub(crate) pace: Pace,
}

impl ForkStack {
    pub(crate) fn new() -> ForkStack {
        let stack = Box::new([const { Cell::new(ptr::null()) }; FORKS_MAX]);
        ForkStack { stack, len: Cell::new(0), shown: Cell::new(0), is_quiet: Cell::new(false), pace: Pace::new() }
    }

    /// Adds a fork, or says that there is no room. Answers its place.
    #[inline(always)]
    pub(crate) fn push(&self, fork: *const ForkHead) -> Option<usize> {
        let place = self.len.get();
        self.stack.get(place)?.set(fork);
        self.len.set(place + 1);
        Some(place)
    }

    pub(crate) fn at(&self, place: usize) -> *const ForkHead {
        self.stack[place].get()
    }

    #[inline(always)]
    pub(crate) fn is_shown(&self, place: usize) -> bool {
        place < self.shown.get()
    }

    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.get()
    }

    /// The fork in this place, the youngest that was shown, is so no more.
    pub(crate) fn unshow(&self, place: usize) {
        self.shown.set(place);
        if place == 0 {
            self.is_quiet.set(false);
        }
    }
}
