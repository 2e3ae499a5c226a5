//! Loops over ranges and slices, split as long as somebody is idle.
//!
//! A loop runs in pieces on the thread that began it. Between two pieces it looks whether somebody is idle; if so it
//! offers the second half of what is left, as the fork of a join, and goes on with the first. Whoever takes a half does
//! the same. So a loop that nobody helps costs what a plain loop costs, and one that all can help is split as often as
//! somebody is out of work, and no more.
//!
//! A piece begins with one item and doubles until it takes some microseconds: the loop finds out by itself how dear an
//! item is.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::lane::Lane;

/// How long a piece should take: long against two readings of the clock, short against a wake.
const PIECE_TIME: Duration = Duration::from_micros(3);
/// Items of a piece, at most: so that the end of the fast items is noticed.
const PIECE_LEN_MAX: usize = 1 << 14;

/// How many items come next.
struct Piece {
    len: usize,
}

impl Piece {
    fn new() -> Piece {
        Piece { len: 1 }
    }

    /// Runs one piece from the front of a range.
    fn run(&mut self, range: &mut Range<usize>, run: impl FnOnce(Range<usize>)) {
        let end = range.start + self.len.min(range.len());
        let piece = range.start..end;
        range.start = end;
        if self.len >= PIECE_LEN_MAX {
            return run(piece);
        }
        let began = Instant::now();
        run(piece);
        let elapsed = began.elapsed();
        if elapsed < PIECE_TIME {
            self.len *= 2;
        } else if elapsed > PIECE_TIME * 4 {
            self.len = (self.len / 2).max(1);
        }
    }
}

impl Lane {
    /// Whether a half should be offered: somebody is idle, and nothing is on offer.
    #[inline]
    fn has_takers(&self) -> bool {
        self.shared.sleep.is_anybody_idle() && !self.desk().forks.is_any_left()
    }
}

/// Cuts a range into halves.
fn halves(range: Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = range.start + range.len() / 2;
    (range.start..middle, middle..range.end)
}

/// Calls `run` with pieces that together are the range.
pub(crate) fn for_pieces(lane: &Lane, mut range: Range<usize>, run: &(impl Fn(Range<usize>) + Sync)) {
    let mut piece = Piece::new();
    while !range.is_empty() {
        if range.len() > 1 && lane.has_takers() {
            let (left, right) = halves(range);
            lane.join(|lane| for_pieces(lane, left, run), |lane| for_pieces(lane, right, run));
            return;
        }
        piece.run(&mut range, run);
    }
}

/// Folds the pieces of a range, each from `identity`, and joins their values in order.
pub(crate) fn fold_pieces<T: Send>(
    lane: &Lane,
    mut range: Range<usize>,
    identity: &(impl Fn() -> T + Sync),
    fold: &(impl Fn(T, Range<usize>) -> T + Sync),
    reduce: &(impl Fn(T, T) -> T + Sync),
) -> T {
    let mut piece = Piece::new();
    let mut value = identity();
    while !range.is_empty() {
        if range.len() > 1 && lane.has_takers() {
            let (left, right) = halves(range);
            let (left, right) = lane.join(
                |lane| fold_pieces(lane, left, identity, fold, reduce),
                |lane| fold_pieces(lane, right, identity, fold, reduce),
            );
            return reduce(value, reduce(left, right));
        }
        let mut next = None;
        piece.run(&mut range, |piece| next = Some(fold(value, piece)));
        value = next.expect("the piece has been folded");
    }
    value
}

/// A slice whose parts are given out to different threads, each part once.
pub(crate) struct Parts<'a, T> {
    first: *mut T,
    len: usize,
    of: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: the parts are given out as `&mut`, so what they hold must be `Send`, and is.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(crate) fn of(slice: &'a mut [T]) -> Parts<'a, T> {
        Parts { first: slice.as_mut_ptr(), len: slice.len(), of: std::marker::PhantomData }
    }

    /// One part.
    ///
    /// # Safety
    /// The range lies within the slice, and no two ranges that overlap are given out at the same time.
    pub(crate) unsafe fn get(&self, range: Range<usize>) -> &'a mut [T] {
        debug_assert!(range.end <= self.len);
        // SAFETY: within the slice, which is borrowed for `'a`.
        let first = unsafe { self.first.add(range.start) };
        // SAFETY: nobody else has these items.
        unsafe { std::slice::from_raw_parts_mut(first, range.len()) }
    }
}
