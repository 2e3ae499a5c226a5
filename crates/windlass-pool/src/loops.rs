//! Loops over ranges and slices, split as long as somebody takes what is offered.
//!
//! A loop runs in pieces on the thread that began it. Before each piece, if nothing of it is on offer, it offers the
//! oldest half that it has not offered yet; if there is none, the second half of what is left, as the fork of a join, and
//! goes on with the first. Whoever takes a half does the same. So
//! a loop that nobody helps is halved some twenty times in all, and costs what a plain loop costs; one that all can help
//! is split as often as somebody is out of work; and an item that takes long keeps at most half of the others waiting.
//!
//! A piece begins with one item and doubles until it takes some microseconds: the loop finds out by itself how dear an
//! item is.

use std::ops::Range;
use std::time::Duration;

use crate::lane::Lane;
use crate::sync::Instant;

/// How long a piece should take: long against two readings of the clock, short against a wake.
const PIECE_TIME: Duration = Duration::from_micros(3);
/// Items of a piece, at most: so that the end of the fast items is noticed.
const PIECE_LEN_MAX: usize = 1 << 14;

/// How many items come next.
#[derive(Clone, Copy)]
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
    /// Whether a half of so many items should be offered: nothing is on offer, and they are more than a piece, or somebody
    /// is idle.
    fn should_offer(&self, len: usize, piece: Piece) -> bool {
        len > 1 && (len > piece.len || self.shared.sleep.is_anybody_idle()) && !self.has_offer()
    }
}

/// Cuts a range into halves.
fn halves(range: Range<usize>) -> (Range<usize>, Range<usize>) {
    let middle = range.start + range.len() / 2;
    (range.start..middle, middle..range.end)
}

/// Calls `run` with pieces that together are the range.
pub(crate) fn for_pieces(lane: &Lane, range: Range<usize>, run: &(impl Fn(Range<usize>) + Sync)) {
    for_more_pieces(lane, Piece::new(), range, run);
}

fn for_more_pieces(lane: &Lane, mut piece: Piece, mut range: Range<usize>, run: &(impl Fn(Range<usize>) + Sync)) {
    while !range.is_empty() {
        if lane.should_offer(range.len(), piece) {
            let (left, right) = halves(range);
            lane.join(|lane| for_more_pieces(lane, piece, left, run), |lane| for_more_pieces(lane, piece, right, run));
            return;
        }
        piece.run(&mut range, run);
    }
}

/// Folds the pieces of a range, each from `identity`, and joins their values in order.
pub(crate) fn fold_pieces<T: Send>(
    lane: &Lane,
    range: Range<usize>,
    identity: &(impl Fn() -> T + Sync),
    fold: &(impl Fn(T, Range<usize>) -> T + Sync),
    reduce: &(impl Fn(T, T) -> T + Sync),
) -> T {
    fold_more_pieces(lane, Piece::new(), range, identity, fold, reduce)
}

fn fold_more_pieces<T: Send>(
    lane: &Lane,
    mut piece: Piece,
    mut range: Range<usize>,
    identity: &(impl Fn() -> T + Sync),
    fold: &(impl Fn(T, Range<usize>) -> T + Sync),
    reduce: &(impl Fn(T, T) -> T + Sync),
) -> T {
    let mut value = identity();
    while !range.is_empty() {
        if lane.should_offer(range.len(), piece) {
            let (left, right) = halves(range);
            let (left, right) = lane.join(
                |lane| fold_more_pieces(lane, piece, left, identity, fold, reduce),
                |lane| fold_more_pieces(lane, piece, right, identity, fold, reduce),
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
