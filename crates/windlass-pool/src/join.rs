//! `join(a, b)`: two closures that may borrow from the caller, possibly at the same time.
//!
//! 1. Put `b` on this thread's stack of forks, where others may take it once it is shown (`forks.rs`).
//! 2. Run `a` here.
//! 3. Take `b` back and run it here; if somebody has taken it, wait, making oneself useful.
//!
//! Nothing is allocated and nothing shared is touched unless `b` is shown: `b` and its outcome lie on the caller's
//! stack. `join` does not return, nor unwind, before `b` has ended or been taken back: that is why it may borrow, and
//! why a thief may write its outcome there.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;

use crate::forks::{ForkHead, ForkState};
use crate::lane::{Lane, with_lane};
use crate::panic::{Outcome, catch, forget, unwrap};
use crate::shared::{SharedRef, flag};
use crate::wait::Help;

/// The second half of a join, on the stack of its owner.
#[repr(C)]
struct Fork<B, R> {
    head: ForkHead,
    body: UnsafeCell<ForkBody<B, R>>,
}

/// First the closure, then its outcome.
union ForkBody<B, R> {
    closure: ManuallyDrop<B>,
    outcome: ManuallyDrop<Outcome<R>>,
}

impl<B: FnOnce(&Lane) -> R, R> Fork<B, R> {
    fn new(b: B) -> Fork<B, R> {
        let head = ForkHead { run: run_stolen::<B, R>, state: ForkState::new() };
        Fork { head, body: UnsafeCell::new(ForkBody { closure: ManuallyDrop::new(b) }) }
    }

    /// # Safety
    /// Nobody else has taken the closure, and nobody will.
    #[inline(always)]
    unsafe fn take_closure(&self) -> B {
        // SAFETY: passed on to the caller.
        unsafe { ManuallyDrop::take(&mut (*self.body.get()).closure) }
    }
}

/// # Safety
/// See [`ForkHead::run`]; `fork` is the head of a `Fork<B, R>`.
unsafe fn run_stolen<B: FnOnce(&Lane) -> R, R>(fork: *const ForkHead, lane: &Lane) {
    // SAFETY: the head is the first field of the fork, which its owner keeps until it has ended.
    let fork = unsafe { &*fork.cast::<Fork<B, R>>() };
    // SAFETY: the thief took the fork off its cell.
    let b = unsafe { fork.take_closure() };
    let outcome = catch(|| b(lane));
    // SAFETY: the closure has been taken out, and the owner reads nothing before the state says ended.
    unsafe { (*fork.body.get()).outcome = ManuallyDrop::new(outcome) };
}

impl Lane {
    /// Runs both closures, at the same time if somebody is free, and answers both values. As
    /// [`Pool::join`](crate::Pool::join), for closures that pass the lane on: the fastest way to recurse.
    ///
    /// ```
    /// # use windlass_pool::{Lane, Pool};
    /// fn fib(lane: &Lane, n: u64) -> u64 {
    ///     if n < 2 {
    ///         return n;
    ///     }
    ///     let (a, b) = lane.join(|lane| fib(lane, n - 1), |lane| fib(lane, n - 2));
    ///     a + b
    /// }
    /// let pool = Pool::new().unwrap();
    /// assert_eq!(pool.attach(|lane| fib(lane, 20)), 6_765);
    /// ```
    ///
    /// # Panics
    /// As [`Pool::join`](crate::Pool::join).
    #[inline(always)]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&Lane) -> RA + Send,
        B: FnOnce(&Lane) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let fork = Fork::<B, RB>::new(b);
        let Some(place) = self.forks.push(&raw const fork.head) else {
            // SAFETY: the fork was shown to nobody.
            return self.one_after_the_other(a, unsafe { fork.take_closure() });
        };
        if !self.forks.is_quiet() || self.shared.sleep.is_anybody_searching() {
            self.consider_showing();
        }
        let unwinding = Unwinding { lane: self, fork: &fork, place };
        let value = a(self);
        std::mem::forget(unwinding);
        self.forks.len.set(place);
        if !self.forks.is_shown(place) {
            // SAFETY: it was never shown, so it is ours.
            let b = unsafe { fork.take_closure() };
            return (value, b(self));
        }
        (value, unwrap(self.finish_shown(&fork, place)))
    }

    /// Deeper than there is room for forks.
    #[cold]
    fn one_after_the_other<RA, RB>(&self, a: impl FnOnce(&Lane) -> RA, b: impl FnOnce(&Lane) -> RB) -> (RA, RB) {
        let value = a(self);
        (value, b(self))
    }

    /// The fork was shown: takes it back, or waits for its thief.
    #[cold]
    #[inline(never)]
    fn finish_shown<B: FnOnce(&Lane) -> R, R>(&self, fork: &Fork<B, R>, place: usize) -> Outcome<R> {
        if self.take_back(place) {
            // SAFETY: the cell gave it to us.
            let b = unsafe { fork.take_closure() };
            return catch(|| b(self));
        }
        self.wait_for_thief(&fork.head.state);
        // SAFETY: the thief has ended, and left the outcome.
        unsafe { ManuallyDrop::take(&mut (*fork.body.get()).outcome) }
    }

    fn take_back(&self, place: usize) -> bool {
        self.forks.unshow(place);
        self.desk().forks.take_back(place)
    }

    fn wait_for_thief(&self, state: &ForkState) {
        self.wait(Help::Anything, || state.has_ended(), || state.add_waiter());
    }
}

/// What happens to the fork when `a` panics: `b` is not begun any more; if it has been, it is waited for.
struct Unwinding<'a, B, R> {
    lane: &'a Lane,
    fork: &'a Fork<B, R>,
    place: usize,
}

impl<B, R> Drop for Unwinding<'_, B, R> {
    #[cold]
    fn drop(&mut self) {
        let lane = self.lane;
        lane.forks.len.set(self.place);
        let is_mine = !lane.forks.is_shown(self.place) || lane.take_back(self.place);
        if !is_mine {
            lane.wait_for_thief(&self.fork.head.state);
        }
        let body = self.fork.body.get();
        // The panic of `a` wins: neither a panic of `b` nor one of its destructor is told.
        let outcome = catch(|| {
            if is_mine {
                // SAFETY: never begun.
                unsafe { ManuallyDrop::drop(&mut (*body).closure) }
            } else {
                // SAFETY: ended, and nobody else reads it.
                unsafe { ManuallyDrop::drop(&mut (*body).outcome) }
            }
        });
        outcome.err().into_iter().for_each(forget);
    }
}

/// Runs both, and answers both values.
pub(crate) fn join<A, B, RA, RB>(shared: &SharedRef, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if shared.flags() & flag::DETERMINISTIC != 0 {
        return in_drawn_order(shared, a, b);
    }
    with_lane(shared, |lane| lane.join(|_| a(), |_| b()))
}

/// Which half goes first is drawn.
#[cold]
fn in_drawn_order<RA, RB>(shared: &SharedRef, a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let is_second_first = shared.deterministic.as_ref().is_some_and(crate::deterministic::Queue::is_second_first);
    if is_second_first {
        let value = b();
        return (a(), value);
    }
    let value = a();
    (value, b())
}
