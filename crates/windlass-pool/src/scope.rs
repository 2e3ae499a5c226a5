//! `scope(|s| s.spawn(..))`: any number of tasks that may borrow what outlives the scope.
//!
//! Every task counts up the scope's latch when it is spawned and down when it has ended, its captures dropped. The
//! scope does not return, nor unwind, before the count is zero: that is why its tasks may borrow.

use std::fmt;
use std::marker::PhantomData;

use crate::latch::CountLatch;
use crate::panic::{catch, unwrap};
use crate::sync::{Arc, thread};
use crate::worker::{self, Shared};

/// Where tasks are spawned that may borrow for `'scope`. Made by [`Pool::scope`](crate::Pool::scope).
pub struct Scope<'scope> {
    shared: Arc<Shared>,
    latch: Arc<CountLatch>,
    /// Invariant: a longer or shorter scope is another one.
    of: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope")
    }
}

impl<'scope> Scope<'scope> {
    /// Spawns a task that may borrow for `'scope`, and may spawn further ones. It has ended when the scope returns.
    ///
    /// # Panics
    /// A panic of the task is thrown again by the scope, when all tasks have ended; the first one, if there are several.
    pub fn spawn(&self, f: impl FnOnce(&Scope<'scope>) + Send + 'scope) {
        self.latch.count_up();
        // The task has a scope of its own: it may not borrow this one, which may have been moved.
        let scope = Scope { shared: Arc::clone(&self.shared), latch: Arc::clone(&self.latch), of: PhantomData };
        let task = move || {
            // The captures of `f` are dropped inside, before the count goes down.
            if let Err(panic) = catch(|| f(&scope)) {
                scope.latch.keep_panic(panic);
            }
            let latch = Arc::clone(&scope.latch);
            drop(scope);
            latch.count_down();
        };
        // SAFETY: what `f` borrows lives for `'scope`, and the scope ends only after this task has counted down, which
        // is after the last use of `f`. The task is never revoked. Its value is `()`.
        match unsafe { worker::spawn(&self.shared, task) } {
            Ok(task) => drop(task),
            // There was no slot: the task runs here and now.
            Err(task) => task(),
        }
    }
}

/// Runs `f` with a scope, and waits for every task spawned in it.
pub(crate) fn scope<'scope, R>(shared: &Arc<Shared>, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
    let latch = Arc::new(CountLatch::new());
    let scope = Scope { shared: Arc::clone(shared), latch: Arc::clone(&latch), of: PhantomData };
    let outcome = catch(|| f(&scope));
    let register = || {
        latch.set_waiter(thread::current());
        true
    };
    worker::wait_for(shared, || latch.probe(), register);
    let value = unwrap(outcome);
    if let Some(panic) = latch.take_panic() {
        std::panic::resume_unwind(panic);
    }
    value
}
