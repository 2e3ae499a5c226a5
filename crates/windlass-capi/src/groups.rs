//! Groups: any number of tasks that are waited for together.
//!
//! A group counts the tasks that were spawned into it and have not ended. Unlike the pool's own scopes it has no place
//! on a stack, so its count is shared: some ten nanoseconds more for each task.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::here;
use crate::life::{Kind, Opaque};
use crate::object::{Held, Table};
use crate::pools::{Access, User, enter};
use crate::record::Destroy;
use crate::status::{Failure, Status, fail, guard, invalid};

struct Group {
    pool: u64,
    /// Tasks that have not ended.
    open: AtomicU64,
    is_cancelled: AtomicBool,
}

static GROUPS: Table<Group> = Table::new(Kind::Group);

/// A task of a group; counted until it is dropped.
struct Member {
    group: Held<Group>,
    entry: &'static crate::pools::Entry,
}

impl Member {
    fn run(&self, function: Destroy, arg: User) {
        // ORDER: Relaxed; a switch.
        if self.entry.refuses_task() || self.group.is_cancelled.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the caller's function, called once with the caller's argument, as windlass.h says.
        here::within(self.group.number, || unsafe { function(arg.get()) });
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // ORDER: Release; pairs with `wait_for_all`: what the task did is there.
        self.group.open.fetch_sub(1, Ordering::Release);
    }
}

fn wait_for_all(group: &Held<Group>, access: &Access) -> Result<(), Failure> {
    if here::is_inside(group.number) {
        return Err(fail(Status::Deadlock, "a task waits for its own group, which would never end"));
    }
    // ORDER: Acquire; pairs with the end of each task.
    access.wait(|pool| pool.wait_until(|| group.open.load(Ordering::Acquire) == 0));
    Ok(())
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_group_create(pool: Opaque, group: *mut Opaque) -> Status {
    guard("windlass_group_create", || {
        if group.is_null() {
            return Err(invalid("there is no place for the group: NULL"));
        }
        // SAFETY: the caller's pointer, checked.
        unsafe { *group = std::ptr::null_mut() };
        let access = enter(pool)?;
        let made = Group { pool: access.number, open: AtomicU64::new(0), is_cancelled: AtomicBool::new(false) };
        // SAFETY: as above.
        unsafe { *group = GROUPS.add(made) };
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_group_spawn(group: Opaque, function: Option<Destroy>, arg: *mut c_void) -> Status {
    guard("windlass_group_spawn", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        let group = GROUPS.get(group)?;
        let access = enter(group.pool as Opaque)?;
        // ORDER: Relaxed; who waits for the group waits after this, or is answered by the task that spawns.
        group.open.fetch_add(1, Ordering::Relaxed);
        let member = Member { group, entry: access.entry };
        let arg = User(arg);
        access.spawn(|pool| pool.spawn_detached(move || member.run(function, arg)));
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_group_wait(group: Opaque) -> Status {
    guard("windlass_group_wait", || {
        let group = GROUPS.get(group)?;
        let access = enter(group.pool as Opaque)?;
        wait_for_all(&group, &access)
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_group_cancel(group: Opaque) -> Status {
    guard("windlass_group_cancel", || {
        // ORDER: Relaxed; a switch.
        GROUPS.get(group)?.is_cancelled.store(true, Ordering::Relaxed);
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_group_destroy(group: Opaque) -> Status {
    guard("windlass_group_destroy", || {
        let group = GROUPS.get(group)?;
        // A pool that has gone has run everything.
        if let Ok(access) = enter(group.pool as Opaque) {
            wait_for_all(&group, &access)?;
        }
        GROUPS.remove(group)
    })
}
