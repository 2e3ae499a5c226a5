//! Catching panics at the task boundary, and throwing them again at the waiter.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What a task leaves behind: its value, or what it panicked with.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `f` and catches its panic.
#[inline]
pub(crate) fn catch<T>(f: impl FnOnce() -> T) -> Outcome<T> {
    // The closure is consumed, and whoever waits for its outcome gets the panic: nobody goes on with half of it.
    catch_unwind(AssertUnwindSafe(f))
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
