//! `join(a, b)`: two closures that may borrow from the caller, possibly at the same time.
//!
//! 1. Offer `b` to the others: in a slot, on this worker's ring.
//! 2. Run `a` here.
//! 3. Take `b` back if nobody has begun it, and run it here; else wait for it, running other tasks meanwhile.
//!
//! Nothing is allocated: `b` lies in a slot if it is small, and joins are for small closures. `join` does not return,
//! nor unwind, before `b` has ended or been taken back, which is why `b` may borrow.

use crate::panic::{catch, unwrap};
use crate::sync::Arc;
use crate::task::Task;
use crate::worker::{self, Shared};

/// Runs both, and answers both values.
pub(crate) fn join<A, B, RA, RB>(shared: &Arc<Shared>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    // SAFETY: every way out of this function goes through `outcome` or `revoke`: `a` is run inside `catch`, and nothing
    // else can unwind. So what `b` borrows outlives it. `RB` is `Send`.
    match unsafe { worker::spawn::<B, RB>(shared, b) } {
        // There was no slot: one after the other is right, too.
        Err(b) => (a(), b()),
        Ok(mut offered) => {
            let a = catch(a);
            finish(a, &mut offered)
        }
    }
}

fn finish<RA, RB>(a: crate::panic::Outcome<RA>, offered: &mut Task<RB>) -> (RA, RB) {
    if let Err(panic) = a {
        // The panic of `a` wins. `b` is not begun any more; if it has been, it is waited for.
        if !offered.revoke() {
            drop(catch(|| offered.outcome()));
        }
        std::panic::resume_unwind(panic);
    }
    let b = offered.outcome();
    (unwrap(a), unwrap(b))
}
