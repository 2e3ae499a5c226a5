//! What a call answers, and what it leaves to be asked for.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `windlass_status`, number by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub enum Status {
    Ok = 0,
    Invalid = 1,
    Stale = 2,
    Closed = 3,
    Timeout = 4,
    Cancelled = 5,
    Busy = 6,
    Deadlock = 7,
    Ended = 8,
    NoThread = 9,
    Refused = 10,
    Graph = 11,
    Forked = 12,
    Internal = 13,
}

const NAMES: [&CStr; 14] = [
    c"WINDLASS_OK",
    c"WINDLASS_INVALID",
    c"WINDLASS_STALE",
    c"WINDLASS_CLOSED",
    c"WINDLASS_TIMEOUT",
    c"WINDLASS_CANCELLED",
    c"WINDLASS_BUSY",
    c"WINDLASS_DEADLOCK",
    c"WINDLASS_ENDED",
    c"WINDLASS_NO_THREAD",
    c"WINDLASS_REFUSED",
    c"WINDLASS_GRAPH",
    c"WINDLASS_FORKED",
    c"WINDLASS_INTERNAL",
];

/// Why a call did nothing.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

pub(crate) fn fail(status: Status, text: impl Into<String>) -> Failure {
    Failure { status, text: text.into() }
}

/// An argument that cannot be used.
pub(crate) fn invalid(text: impl Into<String>) -> Failure {
    fail(Status::Invalid, text)
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn remember(function: &str, text: &str) {
    let text = CString::new(format!("{function}: {text}").replace('\0', "\\0")).unwrap_or_default();
    // A thread that is ending has nobody left to ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// Runs the body of a function: what it answers becomes a status and a text, and a panic does, too.
#[inline]
pub(crate) fn guard(function: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(failure)) => tell(function, failure),
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().copied();
            let text = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            tell(function, of_panic(text.unwrap_or("a panic without a message")))
        }
    }
}

/// The pool says by a panic what a caller must not do.
pub(crate) fn of_panic(text: &str) -> Failure {
    let status = if text.contains("never end") { Status::Deadlock } else { Status::Internal };
    fail(status, text)
}

#[cold]
fn tell(function: &str, failure: Failure) -> Status {
    remember(function, &failure.text);
    failure.status
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_status_name(status: i32) -> *const c_char {
    usize::try_from(status).ok().and_then(|status| NAMES.get(status)).unwrap_or(&c"unknown").as_ptr()
}
