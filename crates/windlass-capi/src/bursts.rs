//! Bursts: threads with a handler each, woken as few as the work needs.

use std::ffi::{c_char, c_uint, c_void};

use windlass_pool::{Burst, BurstConfig as RustConfig, PoolError};

use crate::here;
use crate::life::{self, Kind, Opaque, check_fork};
use crate::object::{Held, Table};
use crate::pools::{User, array, read_sized, text};
use crate::record::Destroy;
use crate::status::{Failure, Status, fail, guard, invalid};

/// `windlass_burst_config`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct BurstConfig {
    pub size: usize,
    pub stack_size: usize,
    pub name: *const c_char,
}

/// `windlass_handler`: what a worker does with an item.
pub type Handler = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

struct Workers {
    burst: Burst<User>,
    fork_mark: u32,
}

static BURSTS: Table<Workers> = Table::new(Kind::Burst);

fn get(burst: Opaque) -> Result<Held<Workers>, Failure> {
    let held = BURSTS.get(burst)?;
    check_fork(held.fork_mark)?;
    Ok(held)
}

fn nobody() -> Failure {
    fail(Status::Refused, "no worker could take it: the item stays the caller's")
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_burst_create(config: *const BurstConfig, burst: *mut Opaque) -> Status {
    guard("windlass_burst_create", || {
        if burst.is_null() {
            return Err(invalid("there is no place for the burst: NULL"));
        }
        // SAFETY: the caller's pointer, checked.
        unsafe { *burst = std::ptr::null_mut() };
        let mut to = RustConfig::default();
        // SAFETY: passed on to the caller.
        if let Some(config) = unsafe { read_sized(config, size_of::<usize>()) }? {
            if config.stack_size != 0 {
                to.stack_size = config.stack_size;
            }
            // SAFETY: passed on to the caller.
            if let Some(name) = unsafe { text("name", config.name) }? {
                to.name = name;
            }
        }
        let made = Workers { burst: Burst::with(to), fork_mark: life::fork_count() };
        // SAFETY: as above.
        unsafe { *burst = BURSTS.add(made) };
        Ok(())
    })
}

/// A worker's state; given to its destructor when the worker ends.
struct State {
    user: User,
    destroy: Option<Destroy>,
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the caller's function, called once with the caller's state, after the last item.
            unsafe { destroy(self.user.get()) };
        }
    }
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_burst_add_worker(
    burst: Opaque,
    handler: Option<Handler>,
    user: *mut c_void,
    destroy_user: Option<Destroy>,
    worker: *mut c_uint,
) -> Status {
    guard("windlass_burst_add_worker", || {
        let handler = handler.ok_or_else(|| invalid("the handler is NULL"))?;
        let held = get(burst)?;
        let number = held.number;
        let state = State { user: User(user), destroy: destroy_user };
        let handle = move |item: User| {
            let state = &state;
            // SAFETY: the caller's function, called with what the caller has sent, as windlass.h says.
            here::within(number, || unsafe { handler(state.user.get(), item.get()) });
        };
        let number = held.burst.add_worker(handle).map_err(|error| {
            let is_thread = matches!(error, PoolError::Thread { .. });
            fail(if is_thread { Status::NoThread } else { Status::Invalid }, error.to_string())
        })?;
        if !worker.is_null() {
            // SAFETY: passed on to the caller.
            unsafe { *worker = number as c_uint };
        }
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_burst_send(burst: Opaque, item: *mut c_void) -> Status {
    guard("windlass_burst_send", || get(burst)?.burst.send(User(item)).map_err(|_| nobody()))
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_burst_send_all(burst: Opaque, items: *const *mut c_void, count: usize) -> Status {
    guard("windlass_burst_send_all", || {
        let held = get(burst)?;
        // SAFETY: passed on to the caller.
        let items = unsafe { array("items", items, count) }?;
        if items.is_empty() {
            return Ok(());
        }
        held.burst.send_all(items.iter().map(|item| User(*item))).map_err(|_| nobody())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_burst_offer(burst: Opaque, item: *mut c_void) -> Status {
    guard("windlass_burst_offer", || get(burst)?.burst.offer(User(item)).map_err(|_| nobody()))
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_burst_dispatch_to(burst: Opaque, worker: c_uint, item: *mut c_void) -> Status {
    guard("windlass_burst_dispatch_to", || {
        get(burst)?.burst.dispatch_to(worker as usize, User(item)).map_err(|_| nobody())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_burst_broadcast(burst: Opaque, item: *mut c_void) -> Status {
    guard("windlass_burst_broadcast", || get(burst)?.burst.broadcast(User(item)).map_err(|_| nobody()))
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_burst_while_hot(
    burst: Opaque,
    function: Option<Destroy>,
    arg: *mut c_void,
) -> Status {
    guard("windlass_burst_while_hot", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        let held = get(burst)?;
        let _hot = held.burst.hot();
        // SAFETY: the caller's function, called once here with the caller's argument, as windlass.h says.
        unsafe { function(arg) };
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_burst_wait_idle(burst: Opaque) -> Status {
    guard("windlass_burst_wait_idle", || {
        let held = get(burst)?;
        if here::is_inside(held.number) {
            return Err(fail(Status::Deadlock, "a handler waits for its own burst to be idle, which would never end"));
        }
        held.burst.wait_idle();
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_burst_destroy(burst: Opaque) -> Status {
    guard("windlass_burst_destroy", || BURSTS.remove(get(burst)?))
}
