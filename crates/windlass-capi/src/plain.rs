//! `pool.h`: create, submit, destroy.

use std::ffi::{c_int, c_uint, c_void};

use crate::life::Opaque;
use crate::pools::{self, PoolConfig, User};
use crate::status::{Status, guard, invalid};

/// See `pool.h`.
#[unsafe(no_mangle)]
pub extern "C" fn thread_pool_create(thread_count: c_int) -> Opaque {
    let mut pool = std::ptr::null_mut();
    let _ = guard("thread_pool_create", || {
        // C-5: neither cut off nor taken for something else.
        let threads = c_uint::try_from(thread_count).ok().filter(|count| *count > 0);
        let threads = threads.ok_or_else(|| invalid(format!("thread_count = {thread_count}: must be 1 or more")))?;
        // As many as memory has room for: to submit runs nothing itself, so it may be done with a lock held.
        pool = pools::create(&PoolConfig { threads, task_count_max: 1 << 28, ..PoolConfig::default() }, None)?;
        Ok(())
    });
    pool
}

/// See `pool.h`.
#[unsafe(no_mangle)]
pub extern "C" fn thread_pool_submit(
    pool: Opaque,
    function: Option<unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void>,
    arg: *mut c_void,
) -> c_int {
    let status = guard("thread_pool_submit", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        let access = pools::enter_open(pool)?;
        let arg = User(arg);
        let run = move || {
            // C-3: the argument is the caller's, before and after; C-8: nobody is there for the result.
            // SAFETY: the caller's function, called once with the caller's argument, as pool.h says.
            let _ = unsafe { function(arg.get()) };
        };
        access.spawn(|pool| pool.spawn_detached(run));
        Ok(())
    });
    c_int::from(status == Status::Ok)
}

/// See `pool.h`.
#[unsafe(no_mangle)]
pub extern "C" fn thread_pool_destroy(pool: Opaque) {
    let _ = guard("thread_pool_destroy", || pools::destroy(pool));
}
