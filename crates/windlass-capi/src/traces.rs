//! What is told in text of any length: traces and drawings. The caller is shown it, and keeps what it wants.

use std::ffi::{c_char, c_void};

use crate::graphs;
use crate::life::Opaque;
use crate::pools::enter;
use crate::status::{Failure, Status, guard, invalid};

/// `windlass_write`: is shown a text.
pub type Write = unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize);

fn show(text: &str, write: Option<Write>, user: *mut c_void) -> Result<(), Failure> {
    let write = write.ok_or_else(|| invalid("the function that is shown the text is NULL"))?;
    // SAFETY: the caller's function, called once with a text that is there until it returns.
    unsafe { write(user, text.as_ptr().cast(), text.len()) };
    Ok(())
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_trace_start(pool: Opaque) -> Status {
    guard("windlass_trace_start", || {
        enter(pool)?.pool().start_trace();
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_trace_take(pool: Opaque, write: Option<Write>, user: *mut c_void) -> Status {
    guard("windlass_trace_take", || {
        if write.is_none() {
            return show("", write, user);
        }
        let trace = enter(pool)?.pool().take_trace();
        // With nothing held: the caller's function may also destroy the pool.
        show(&trace, write, user)
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_dot(graph: Opaque, write: Option<Write>, user: *mut c_void) -> Status {
    guard("windlass_graph_dot", || show(&graphs::dot(graph)?, write, user))
}
