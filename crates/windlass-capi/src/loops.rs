//! Two functions at once, loops over ranges, and waiting for the pool.

use std::ffi::{c_int, c_void};

use crate::here;
use crate::life::Opaque;
use crate::pools::{User, enter};
use crate::record::Destroy;
use crate::status::{Status, fail, guard, invalid};

/// Items of a piece when the caller does not say, at most: short pieces balance, and a call for each costs little.
const GRAIN_MAX: usize = 1024;
/// Pieces for each thread when the caller does not say.
const PIECES_PER_THREAD: usize = 64;

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_join(
    pool: Opaque,
    a: Option<Destroy>,
    a_arg: *mut c_void,
    b: Option<Destroy>,
    b_arg: *mut c_void,
) -> Status {
    guard("windlass_join", || {
        let (Some(a), Some(b)) = (a, b) else { return Err(invalid("a function is NULL")) };
        let access = enter(pool)?;
        let (a_arg, b_arg) = (User(a_arg), User(b_arg));
        // SAFETY: the caller's functions, each called once with the caller's argument, as windlass.h says.
        access.wait(|pool| pool.join(move || unsafe { a(a_arg.get()) }, move || unsafe { b(b_arg.get()) }));
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_for(
    pool: Opaque,
    begin: usize,
    end: usize,
    grain: usize,
    body: Option<unsafe extern "C-unwind" fn(*mut c_void, usize, usize)>,
    user: *mut c_void,
) -> Status {
    guard("windlass_for", || {
        let body = body.ok_or_else(|| invalid("the body is NULL"))?;
        if begin > end || end - begin > isize::MAX as usize {
            return Err(invalid(format!("the range {begin}..{end} is none")));
        }
        let access = enter(pool)?;
        let len = end - begin;
        let pieces = access.pool().thread_count() * PIECES_PER_THREAD;
        let grain = if grain == 0 { (len / pieces).clamp(1, GRAIN_MAX) } else { grain };
        let user = User(user);
        access.wait(|pool| {
            pool.for_each(0..len.div_ceil(grain), |piece| {
                let first = begin + piece * grain;
                let last = first.saturating_add(grain).min(end);
                // SAFETY: the caller's function, called with pieces of the caller's range, as windlass.h says.
                unsafe { body(user.get(), first, last) };
            });
        });
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_isolate(pool: Opaque, function: Option<Destroy>, arg: *mut c_void) -> Status {
    guard("windlass_isolate", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        // SAFETY: the caller's function, called once here with the caller's argument, as windlass.h says.
        enter(pool)?.wait(|pool| pool.isolate(|| unsafe { function(arg) }));
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_blocking(function: Option<Destroy>, arg: *mut c_void) -> Status {
    guard("windlass_blocking", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        // SAFETY: as above.
        windlass_pool::blocking(|| unsafe { function(arg) });
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_wait_idle(pool: Opaque) -> Status {
    guard("windlass_wait_idle", || {
        let access = enter(pool)?;
        if here::is_inside(access.number) {
            let text = "a task waits for its own pool to be idle, which would never end";
            return Err(fail(Status::Deadlock, text));
        }
        access.wait(windlass_pool::Pool::wait_idle);
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_wait_until(
    pool: Opaque,
    predicate: Option<unsafe extern "C-unwind" fn(*mut c_void) -> c_int>,
    user: *mut c_void,
) -> Status {
    guard("windlass_wait_until", || {
        let predicate = predicate.ok_or_else(|| invalid("the predicate is NULL"))?;
        let access = enter(pool)?;
        // SAFETY: the caller's function, called on the caller's thread, as windlass.h says.
        access.wait(|pool| pool.wait_until(|| unsafe { predicate(user) } != 0));
        Ok(())
    })
}
