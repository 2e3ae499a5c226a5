//! Tasks: spawned, prepared and tied, waited for, cancelled.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use windlass_pool::{Pool, Priority, Task, TaskOptions as RustOptions};

use crate::here;
use crate::life::{Opaque, lock};
use crate::pools::{Access, User, check_same, enter, read_sized};
use crate::record::{Body, Destroy, RecordRef, Run, Stage};
use crate::status::{Failure, Status, fail, guard, invalid, of_panic};
use crate::tokens;

/// `windlass_task_options`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct TaskOptions {
    pub size: usize,
    pub destroy_arg: Option<Destroy>,
    pub destroy_result: Option<Destroy>,
    pub priority: c_int,
    pub reserved: c_int,
    pub cancel: Opaque,
}

fn priority_of(number: c_int) -> Result<Priority, Failure> {
    match number {
        0 => Ok(Priority::Normal),
        1 => Ok(Priority::High),
        2 => Ok(Priority::Low),
        _ => Err(invalid(format!("priority = {number}: must be one of windlass_priority"))),
    }
}

/// The options, with all that they do not say.
///
/// # Safety
/// As `read_sized`.
unsafe fn options_of(options: *const TaskOptions) -> Result<(TaskOptions, Priority), Failure> {
    let usual = TaskOptions {
        size: 0,
        destroy_arg: None,
        destroy_result: None,
        priority: 0,
        reserved: 0,
        cancel: std::ptr::null_mut(),
    };
    // SAFETY: passed on to the caller.
    let options = unsafe { read_sized(options, size_of::<usize>()) }?.unwrap_or(usual);
    Ok((options, priority_of(options.priority)?))
}

pub(crate) fn function_of<F>(function: Option<F>) -> Result<F, Failure> {
    function.ok_or_else(|| invalid("the function is NULL"))
}

// Spawning.

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_spawn(
    pool: Opaque,
    function: Option<Run>,
    arg: *mut c_void,
    options: *const TaskOptions,
    task: *mut Opaque,
) -> Status {
    guard("windlass_spawn", || {
        if !task.is_null() {
            // SAFETY: the caller's pointer.
            unsafe { *task = std::ptr::null_mut() };
        }
        let function = function_of(function)?;
        // SAFETY: passed on to the caller.
        let (options, priority) = unsafe { options_of(options) }?;
        let access = enter(pool)?;
        let record = new_record(&access, function, arg, &options, !task.is_null())?;
        let job = record.job();
        record.make_ready();
        if task.is_null() {
            if priority == Priority::Normal {
                access.spawn(|pool| pool.spawn_detached(move || job.run()));
            } else {
                prepare(&access, priority, move || job.run()).schedule_detached();
            }
            return Ok(());
        }
        let spawned = if priority == Priority::Normal {
            access.spawn(|pool| pool.spawn(move || job.run()))
        } else {
            prepare(&access, priority, move || job.run()).schedule()
        };
        *lock(&record.stage) = Stage::Scheduled(spawned);
        // SAFETY: as above.
        unsafe { *task = record.number as Opaque };
        Ok(())
    })
}

fn new_record(
    access: &Access,
    run: Run,
    arg: *mut c_void,
    options: &TaskOptions,
    with_handle: bool,
) -> Result<RecordRef, Failure> {
    let token = tokens::of(options.cancel)?;
    let record = RecordRef::new(access.entry, access.number, with_handle);
    let body = Body::Call { run, arg: User(arg), destroy_arg: options.destroy_arg };
    // SAFETY: the record is new.
    unsafe { record.set_body(body, options.destroy_result, token) };
    Ok(record)
}

fn prepare(access: &Access, priority: Priority, run: impl FnOnce() + Send + 'static) -> windlass_pool::Prepared<()> {
    let options = RustOptions { priority, ..RustOptions::default() };
    access.spawn(|pool| pool.prepare_with(options, run))
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_prepare(
    pool: Opaque,
    function: Option<Run>,
    arg: *mut c_void,
    options: *const TaskOptions,
    task: *mut Opaque,
) -> Status {
    guard("windlass_prepare", || {
        if task.is_null() {
            return Err(invalid("there is no place for the task: NULL"));
        }
        // SAFETY: the caller's pointer, checked.
        unsafe { *task = std::ptr::null_mut() };
        let function = function_of(function)?;
        // SAFETY: passed on to the caller.
        let (options, priority) = unsafe { options_of(options) }?;
        let access = enter(pool)?;
        let record = new_record(&access, function, arg, &options, true)?;
        let job = record.job();
        // The pool may have no slot: then the job is dropped unready, and the argument stays the caller's.
        let prepared = catch_unwind(AssertUnwindSafe(|| prepare(&access, priority, move || job.run())));
        match prepared {
            Ok(prepared) => {
                record.make_ready();
                *lock(&record.stage) = Stage::Prepared(prepared);
                // SAFETY: as above.
                unsafe { *task = record.number as Opaque };
                Ok(())
            }
            Err(panic) => {
                record.give_handle_back()?;
                std::panic::resume_unwind(panic)
            }
        }
    })
}

// Ties.

/// Locks the stages of two tasks, in one order for all.
fn with_both<R>(one: &RecordRef, other: &RecordRef, f: impl FnOnce(&mut Stage, &mut Stage) -> R) -> R {
    if one.number < other.number {
        let mut first = lock(&one.stage);
        let mut second = lock(&other.stage);
        f(&mut first, &mut second)
    } else {
        let mut second = lock(&other.stage);
        let mut first = lock(&one.stage);
        f(&mut first, &mut second)
    }
}

fn pair(one: Opaque, other: Opaque) -> Result<(RecordRef, RecordRef), Failure> {
    let (one, other) = (RecordRef::of(one)?, RecordRef::of(other)?);
    if one.number == other.number {
        return Err(invalid("a task cannot be tied to itself: it would never end"));
    }
    check_same(one.pool(), other.pool())?;
    Ok((one, other))
}

fn awaited() -> Failure {
    fail(Status::Busy, "a thread waits for the task just now: tie before waiting")
}

fn not_prepared() -> Failure {
    invalid("the task that is tied must be prepared and not scheduled")
}

/// What a tie has come to, with both tasks locked.
enum Tied {
    Done,
    /// It takes a slot, and there is none at hand. Nothing is tied.
    WantsSlot,
}

/// Ties two tasks of a pool with both locked. No task may run here meanwhile, which might ask for one of them: when there
/// is no slot for the tie, they are unlocked until there is.
fn tie(
    one: Opaque,
    other: Opaque,
    f: impl Fn(&Pool, &mut Stage, &mut Stage) -> Result<Tied, Failure>,
) -> Result<(), Failure> {
    let (one, other) = pair(one, other)?;
    let access = enter(one.pool() as Opaque)?;
    while let Tied::WantsSlot = with_both(&one, &other, |first, second| f(access.pool(), first, second))? {
        access.spawn(Pool::ensure_slot);
    }
    Ok(())
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_task_continue_with(before: Opaque, next: Opaque) -> Status {
    guard("windlass_task_continue_with", || {
        tie(before, next, |pool, first, second| {
            let Stage::Prepared(next) = second else { return Err(not_prepared()) };
            match first {
                // It has ended: there is nothing to wait for.
                Stage::Over => {}
                Stage::Awaited | Stage::Lost => return Err(awaited()),
                Stage::Nothing => return Err(invalid("the first task was given back: only prepared ones can be tied")),
                _ if !pool.try_ensure_slot() => return Ok(Tied::WantsSlot),
                Stage::Prepared(before) => before.continue_with(next),
                Stage::Scheduled(before) => before.continue_with(next),
            }
            Ok(Tied::Done)
        })
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_task_finish_with(child: Opaque, parent: Opaque) -> Status {
    guard("windlass_task_finish_with", || {
        let ended = || fail(Status::Ended, "the parent has ended: attach its children before they can end it");
        tie(child, parent, |pool, first, second| {
            let Stage::Prepared(child) = first else { return Err(not_prepared()) };
            match second {
                Stage::Over => return Err(ended()),
                Stage::Awaited | Stage::Lost => return Err(awaited()),
                Stage::Nothing => return Err(invalid("the parent was given back: only prepared ones can be tied")),
                _ if child.has_parent() && !pool.try_ensure_slot() => return Ok(Tied::WantsSlot),
                Stage::Prepared(parent) => child.finish_with(parent).map_err(|_| ended())?,
                Stage::Scheduled(parent) => child.finish_with(parent).map_err(|_| ended())?,
            }
            Ok(Tied::Done)
        })
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_task_schedule(task: Opaque) -> Status {
    guard("windlass_task_schedule", || {
        let record = RecordRef::of(task)?;
        let _access = enter(record.pool() as Opaque)?;
        let mut stage = lock(&record.stage);
        match std::mem::replace(&mut *stage, Stage::Nothing) {
            Stage::Prepared(prepared) => {
                *stage = Stage::Scheduled(prepared.schedule());
                Ok(())
            }
            other => {
                *stage = other;
                Err(invalid("the task is not prepared, or was scheduled before"))
            }
        }
    })
}

// Waiting.

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_task_wait(task: Opaque, result: *mut *mut c_void) -> Status {
    // SAFETY: passed on to the caller.
    guard("windlass_task_wait", || unsafe { wait(task, None, result) })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_task_wait_timeout(task: Opaque, timeout_ms: u64, result: *mut *mut c_void) -> Status {
    let timeout = Some(Duration::from_millis(timeout_ms));
    // SAFETY: passed on to the caller.
    guard("windlass_task_wait_timeout", || unsafe { wait(task, timeout, result) })
}

/// # Safety
/// `result` is null or can be written.
unsafe fn wait(task: Opaque, timeout: Option<Duration>, result: *mut *mut c_void) -> Result<(), Failure> {
    let record = RecordRef::of(task)?;
    if here::is_inside(record.number) {
        return Err(fail(Status::Deadlock, "a task waits for itself, which would never end"));
    }
    // Keeps the pool; one that has gone has run the task.
    let access = enter(record.pool() as Opaque).ok();
    let within = |f: &mut dyn FnMut() -> Result<(), Failure>| match &access {
        Some(access) => here::within_pool(access.number, access.entry, f),
        None => f(),
    };
    within(&mut || wait_for_end(&record, access.as_ref(), timeout))?;
    if record.was_cancelled() {
        return Err(fail(Status::Cancelled, "the task was cancelled before it began"));
    }
    if !result.is_null() {
        // ORDER: AcqRel; whoever frees the record sees that the result has an owner.
        record.is_taken.swap(true, Ordering::AcqRel);
        // SAFETY: passed on to the caller.
        unsafe { *result = record.result() };
    }
    Ok(())
}

fn wait_for_end(record: &RecordRef, access: Option<&Access>, timeout: Option<Duration>) -> Result<(), Failure> {
    let task = {
        let mut stage = lock(&record.stage);
        match std::mem::replace(&mut *stage, Stage::Awaited) {
            Stage::Scheduled(task) => task,
            other @ (Stage::Nothing | Stage::Prepared(_)) => {
                *stage = other;
                return Err(invalid("the task was not scheduled: it would never end"));
            }
            other @ (Stage::Awaited | Stage::Lost | Stage::Over) => {
                let is_lost = matches!(other, Stage::Lost);
                *stage = other;
                drop(stage);
                return wait_beside(record, access, timeout, is_lost);
            }
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| wait_first(task, timeout)));
    let mut stage = lock(&record.stage);
    match outcome {
        Ok(Ok(())) => *stage = Stage::Over,
        // Somebody gave the handle back meanwhile: the task goes on by itself.
        Ok(Err(task)) if !record.life.has_handle() => {
            *stage = Stage::Nothing;
            drop(stage);
            drop(task);
            return Err(timed_out());
        }
        Ok(Err(task)) => {
            *stage = Stage::Scheduled(task);
            return Err(timed_out());
        }
        Err(panic) if panic.is::<windlass_pool::Cancelled>() => *stage = Stage::Over,
        Err(panic) => {
            *stage = Stage::Lost;
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            return Err(of_panic(text.unwrap_or("the wait was broken off")));
        }
    }
    // ORDER: Release; pairs with `wait_beside`.
    record.is_over.store(true, Ordering::Release);
    Ok(())
}

fn wait_first(task: Task<()>, timeout: Option<Duration>) -> Result<(), Task<()>> {
    match timeout {
        Some(timeout) => task.wait_timeout(timeout),
        None => {
            // A cancelled task has ended, too; the record says how.
            drop(task.wait_result());
            Ok(())
        }
    }
}

fn timed_out() -> Failure {
    fail(Status::Timeout, "the task has not ended by then")
}

/// Another thread waits already, and has the pool's handle: this one looks.
fn wait_beside(
    record: &RecordRef,
    access: Option<&Access>,
    timeout: Option<Duration>,
    is_lost: bool,
) -> Result<(), Failure> {
    // ORDER: Acquire; pairs with the store in `wait_for_end`.
    let is_over = || record.is_over.load(Ordering::Acquire) || (is_lost && record.has_ended());
    match (timeout, access) {
        (None, Some(access)) => access.pool().wait_until(is_over),
        _ => {
            let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            while !is_over() {
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    return Err(timed_out());
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }
    Ok(())
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_task_is_done(task: Opaque) -> c_int {
    let mut is_done = false;
    let status = guard("windlass_task_is_done", || {
        let record = RecordRef::of(task)?;
        is_done = match &*lock(&record.stage) {
            Stage::Nothing | Stage::Prepared(_) | Stage::Awaited => false,
            Stage::Scheduled(task) => task.is_done(),
            Stage::Lost => record.has_ended(),
            Stage::Over => true,
        };
        Ok(())
    });
    if status == Status::Ok { c_int::from(is_done) } else { -1 }
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_task_cancel(task: Opaque) -> Status {
    guard("windlass_task_cancel", || {
        let record = RecordRef::of(task)?;
        if !record.give_up() {
            return Err(fail(Status::Ended, "the task has begun, or was cancelled before, or was never ready to run"));
        }
        if let Stage::Scheduled(task) = &*lock(&record.stage) {
            // What waits for it goes on at once.
            task.cancel();
        }
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_task_release(task: Opaque) -> Status {
    guard("windlass_task_release", || RecordRef::of(task)?.give_handle_back())
}
