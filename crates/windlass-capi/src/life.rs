//! Whether a place is in use, by whom, and for the how-manieth time: one word.
//!
//! Handles are numbers: the generation of one use of a place, the kind of the table, the index in it. Places are never
//! freed, only used again under the next generation: so looking at the place of any number is harmless, and a stale one
//! is told apart until its place was used 2³² times.
//!
//! | bits | meaning |
//! |---|---|
//! | 32..64 | the generation, never zero |
//! | 31 | somebody has the handle |
//! | 0..31 | holds: the handle's, those of calls under way, those of tasks that will touch the place |
//!
//! Whoever gives up the last hold frees the place.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::status::{Failure, Status, fail};

/// A handle as C sees it: an address that is never followed.
pub(crate) type Opaque = *mut c_void;

const _: () = assert!(size_of::<usize>() == 8, "handles need 64 bits");

const HANDLE: u64 = 1 << 31;
const HOLDS: u64 = HANDLE - 1;
const INDEX_BITS: u32 = 28;
const INDEX_MAX: u64 = (1 << INDEX_BITS) - 1;

/// Which table a handle belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Pool = 1,
    Task,
    Group,
    Graph,
    Burst,
    Token,
}

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Kind::Pool => "pool",
            Kind::Task => "task",
            Kind::Group => "group",
            Kind::Graph => "graph",
            Kind::Burst => "burst",
            Kind::Token => "token",
        }
    }
}

/// A handle, taken apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    pub(crate) generation: u32,
    pub(crate) index: u32,
}

pub(crate) fn to_number(kind: Kind, name: Name) -> u64 {
    (u64::from(name.generation) << 32) | ((kind as u64) << INDEX_BITS) | u64::from(name.index)
}

/// A handle of this kind, or why it cannot be one.
pub(crate) fn parse(kind: Kind, handle: Opaque) -> Result<Name, Failure> {
    let number = handle as u64;
    if number == 0 {
        return Err(fail(Status::Invalid, format!("the {} is NULL", kind.noun())));
    }
    if (number >> INDEX_BITS) & 0xF != kind as u64 || number >> 32 == 0 {
        return Err(fail(Status::Invalid, format!("{number:#x} is no handle of a {}", kind.noun())));
    }
    Ok(Name { generation: (number >> 32) as u32, index: (number & INDEX_MAX) as u32 })
}

pub(crate) fn stale(kind: Kind) -> Failure {
    fail(Status::Stale, format!("the {} is gone: its handle was given back or destroyed before", kind.noun()))
}

/// How often this process is a fork of the one before.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in the child of a fork, by its only thread.
pub(crate) extern "C" fn note_fork() {
    // ORDER: Relaxed; there is one thread.
    FORKS.fetch_add(1, Ordering::Relaxed);
    crate::here::forget();
}

pub(crate) fn fork_count() -> u32 {
    // ORDER: Relaxed; written when there is one thread.
    FORKS.load(Ordering::Relaxed)
}

pub(crate) fn check_fork(mark: u32) -> Result<(), Failure> {
    if mark == fork_count() {
        return Ok(());
    }
    Err(fail(Status::Forked, "it belongs to the process that this one was forked from, and its threads are there"))
}

/// The word of a place, and the process it belongs to.
#[derive(Debug)]
pub(crate) struct Life {
    word: AtomicU64,
    fork_mark: AtomicU32,
}

/// What giving up a hold leaves to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Left {
    /// Others hold the place.
    Others,
    /// The caller empties the place, and calls [`Life::end`].
    Nobody,
}

impl Life {
    pub(crate) fn new() -> Life {
        Life { word: AtomicU64::new(1 << 32), fork_mark: AtomicU32::new(0) }
    }

    /// A free place comes into use, with so many holds. Answers the generation.
    pub(crate) fn begin(&self, with_handle: bool, holds: u64) -> u32 {
        // ORDER: Relaxed; the free list gave the place to this thread alone, and who gets the handle gets it later.
        let generation = self.word.load(Ordering::Relaxed) >> 32;
        self.fork_mark.store(fork_count(), Ordering::Relaxed);
        let handle = if with_handle { HANDLE } else { 0 };
        // ORDER: Release; pairs with `pin`: whoever has the number sees the place as it is now.
        self.word.store((generation << 32) | handle | holds, Ordering::Release);
        generation as u32
    }

    fn change(&self, generation: u32, next: impl Fn(u64) -> u64) -> Option<u64> {
        // ORDER: Acquire; pairs with `begin`, and with every change before.
        let mut word = self.word.load(Ordering::Acquire);
        while word >> 32 == u64::from(generation) && word & HANDLE != 0 {
            // ORDER: AcqRel; whoever frees the place has seen what all holders did.
            match self.word.compare_exchange_weak(word, next(word), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(word),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Another hold, if this use of the place has a handle still.
    pub(crate) fn pin(&self, kind: Kind, generation: u32) -> Result<(), Failure> {
        self.change(generation, |word| word + 1).ok_or_else(|| stale(kind))?;
        check_fork(self.fork_mark.load(Ordering::Relaxed)).inspect_err(|_| {
            // In the child nothing is freed.
            self.word.fetch_sub(1, Ordering::AcqRel);
        })
    }

    /// Another hold, by one who has one.
    pub(crate) fn hold(&self) {
        // ORDER: Relaxed; the caller's own hold keeps the place.
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up the handle, but not its hold.
    pub(crate) fn take_handle(&self, kind: Kind, generation: u32) -> Result<(), Failure> {
        self.change(generation, |word| word & !HANDLE).map(|_| ()).ok_or_else(|| stale(kind))
    }

    /// Whether somebody has the handle.
    pub(crate) fn has_handle(&self) -> bool {
        // ORDER: Acquire; pairs with `take_handle`.
        self.word.load(Ordering::Acquire) & HANDLE != 0
    }

    /// Gives up a hold.
    pub(crate) fn let_go(&self) -> Left {
        // ORDER: AcqRel; as in `change`.
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before & HOLDS > 0, "a hold was given up twice");
        if before & HOLDS == 1 { Left::Nobody } else { Left::Others }
    }

    /// The place is empty: from now on all handles of it are stale.
    pub(crate) fn end(&self) {
        // ORDER: Relaxed; nobody holds it, and the free list orders the next use.
        let generation = (self.word.load(Ordering::Relaxed) >> 32) as u32;
        let next = generation.wrapping_add(1).max(1);
        self.word.store(u64::from(next) << 32, Ordering::Release);
    }
}

const FIRST_CHUNK_LEN: u32 = 64;
const CHUNKS: usize = 23;

/// Places that are made as they are needed, and never freed.
pub(crate) struct Places<P> {
    chunks: [AtomicPtr<P>; CHUNKS],
    count: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl<P> Places<P> {
    pub(crate) const fn new() -> Places<P> {
        Places {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            count: AtomicU32::new(0),
            free: Mutex::new(Vec::new()),
        }
    }

    fn place_of(index: u32) -> (usize, usize) {
        let shifted = index + FIRST_CHUNK_LEN;
        let chunk = shifted.ilog2() - FIRST_CHUNK_LEN.ilog2();
        (chunk as usize, (shifted - (FIRST_CHUNK_LEN << chunk)) as usize)
    }

    /// The place of an index, if there ever was one.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&P> {
        // ORDER: Acquire; pairs with the store in `grow`: the places below are there.
        if index >= self.count.load(Ordering::Acquire) {
            return None;
        }
        let (chunk, place) = Self::place_of(index);
        // ORDER: Relaxed; published by the count.
        let first = self.chunks[chunk].load(Ordering::Relaxed);
        // SAFETY: the count says that the chunk was made with `FIRST_CHUNK_LEN << chunk` places, `place` is below that by
        // `place_of`, and chunks are never freed.
        Some(unsafe { &*first.add(place) })
    }

    /// Free indexes, at least one and at most so many; they are the caller's.
    pub(crate) fn take(&self, count_max: usize, make: impl Fn() -> P, mut each: impl FnMut(u32)) {
        let mut free = lock(&self.free);
        if free.is_empty() {
            self.grow(&mut free, make);
        }
        let keep = free.len().saturating_sub(count_max);
        free.drain(keep..).for_each(&mut each);
    }

    /// One free index; it is the caller's.
    pub(crate) fn take_one(&self, make: impl Fn() -> P) -> u32 {
        let mut taken = 0;
        self.take(1, make, |index| taken = index);
        taken
    }

    pub(crate) fn give_back(&self, indexes: impl Iterator<Item = u32>) {
        lock(&self.free).extend(indexes);
    }

    #[cold]
    fn grow(&self, free: &mut Vec<u32>, make: impl Fn() -> P) {
        let count = self.count.load(Ordering::Relaxed);
        assert!(u64::from(count) < INDEX_MAX, "more than {INDEX_MAX} handles of one kind at a time");
        let (chunk, place) = Self::place_of(count);
        debug_assert_eq!(place, 0, "chunks are made as a whole");
        let len = FIRST_CHUNK_LEN << chunk;
        let places: Box<[P]> = (0..len).map(|_| make()).collect();
        // ORDER: Relaxed; published by the store of the count.
        self.chunks[chunk].store(Box::into_raw(places).cast::<P>(), Ordering::Relaxed);
        // ORDER: Release; pairs with the load in `get`.
        self.count.store(count + len, Ordering::Release);
        free.extend((count..count + len).rev());
    }
}

/// A lock, also after a panic inside it: what it guards is changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_never_a_handle_is_refused() {
        for nonsense in [0_usize, 1, 0xDEAD_BEEF, usize::MAX, 1 << 32] {
            assert!(parse(Kind::Task, nonsense as Opaque).is_err(), "{nonsense:#x}");
        }
        let pool = to_number(Kind::Pool, Name { generation: 7, index: 3 });
        assert!(parse(Kind::Task, pool as Opaque).is_err());
        assert!(parse(Kind::Pool, pool as Opaque).is_ok_and(|name| name.generation == 7 && name.index == 3));
    }

    #[test]
    fn a_place_is_freed_by_its_last_holder_and_its_handles_are_stale_then() {
        let life = Life::new();
        let generation = life.begin(true, 1);

        assert!(life.pin(Kind::Task, generation).is_ok());
        assert!(life.take_handle(Kind::Task, generation).is_ok());
        assert!(life.pin(Kind::Task, generation).is_err(), "the handle was given back");
        assert_eq!((life.let_go(), life.let_go()), (Left::Others, Left::Nobody));
        life.end();

        let next = life.begin(true, 1);
        assert!(next != generation && life.pin(Kind::Task, generation).is_err());
    }

    #[test]
    fn places_grow_and_keep_their_addresses() {
        let places: Places<u32> = Places::new();
        let mut indexes = Vec::new();
        (0..300).for_each(|_| indexes.push(places.take_one(|| 9)));
        let first = places.get(indexes[0]).map(std::ptr::from_ref);

        (0..300).for_each(|_| indexes.push(places.take_one(|| 9)));
        indexes.sort_unstable();
        indexes.dedup();

        assert_eq!((indexes.len(), places.get(indexes[0]).map(std::ptr::from_ref)), (600, first));
        assert!(places.get(1 << 20).is_none());
    }
}
