//! Catching panics at the task boundary, and throwing them again at the waiter.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::sync::{Mutex, lock};

/// What a task leaves behind: its value, or what it panicked with.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `f` and catches its panic.
#[inline]
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Outcome<T> {
    // The closure is consumed, and whoever waits for its outcome gets the panic: nobody goes on with half of it.
    catch_unwind(AssertUnwindSafe(f))
}

/// Drops what somebody has panicked with. Its destructor may panic, too, and so may that: there the end is put.
pub(crate) fn forget(panic: Box<dyn Any + Send>) {
    if let Err(second) = catch(move || drop(panic)) {
        std::mem::forget(second);
    }
}

/// Tells a hook of a panic. A hook that panics itself is not given its own panic: there would be no end to it.
#[cold]
pub(crate) fn tell_hook(hook: &crate::PanicHook, panic: Box<dyn Any + Send>) {
    if let Err(second) = catch(|| hook(panic)) {
        forget(second);
    }
}

/// Keeps the first panic of several, and drops the others, not under the lock: what they hold may do anything.
pub(crate) fn keep_first(kept: &Mutex<Option<Box<dyn Any + Send>>>, panic: Box<dyn Any + Send>) {
    let mut first = lock(kept);
    if first.is_none() {
        *first = Some(panic);
        return;
    }
    drop(first);
    forget(panic);
}

/// The value, or the panic again, on this thread.
#[inline]
pub(crate) fn unwrap<T>(outcome: Outcome<T>) -> T {
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// What a panic says, if it says it in words.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message")
}

/// The hook of a pool that was given none: one line on standard error.
pub(crate) fn tell(panic: Box<dyn Any + Send>) {
    // Where even standard error is gone there is nobody left to tell.
    let _ = writeln!(
        std::io::stderr().lock(),
        "windlass-pool: a task that nobody waits for panicked: {}",
        text_of(&*panic)
    );
}
