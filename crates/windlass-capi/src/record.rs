//! Tasks behind handles: what C may know of a task, beside its slot in the pool.
//!
//! A record holds what is to be run, its argument, and after it the result. It is used again and again: a thread keeps
//! some free ones, so that nothing is allocated once there are enough.
//!
//! | state | meaning | to |
//! |---|---|---|
//! | reserved | being made | ready |
//! | ready | prepared or queued | running, by the worker; cancelled, by whoever gives it up |
//! | running | | ended |
//! | ended, cancelled | | |
//!
//! A record is held by its handle, by the [`Job`] that is in the pool, and by every call that uses the handle.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use windlass_pool::{CancelToken, Prepared, Task};

use crate::here;
use crate::life::{Kind, Left, Life, Name, Opaque, Places, lock, parse, stale, to_number};
use crate::pools::{Entry, User};
use crate::status::Failure;

/// Free records a thread keeps, at most.
const KEPT_MAX: usize = 128;

const RESERVED: u8 = 0;
const READY: u8 = 1;
const RUNNING: u8 = 2;
const ENDED: u8 = 3;
const CANCELLED: u8 = 4;

pub(crate) type Run = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
pub(crate) type Destroy = unsafe extern "C-unwind" fn(*mut c_void);

/// What a task does.
#[derive(Clone, Copy)]
pub(crate) enum Body {
    Nothing,
    /// A function and its argument.
    Call {
        run: Run,
        arg: User,
        destroy_arg: Option<Destroy>,
    },
}

/// How far the pool's own handle is.
pub(crate) enum Stage {
    Nothing,
    Prepared(Prepared<()>),
    Scheduled(Task<()>),
    /// A thread waits for it.
    Awaited,
    /// The wait was broken off; only the state tells how far the task is.
    Lost,
    Over,
}

#[repr(C, align(64))]
pub(crate) struct Record {
    state: AtomicU8,
    /// Somebody was given the result.
    pub(crate) is_taken: AtomicBool,
    /// The stage is [`Stage::Over`], for those who look without the lock.
    pub(crate) is_over: AtomicBool,
    index: AtomicU32,
    pub(crate) life: Life,
    pool: AtomicU64,
    result: AtomicPtr<c_void>,
    body: UnsafeCell<Body>,
    destroy_result: UnsafeCell<Option<Destroy>>,
    entry: UnsafeCell<Option<&'static Entry>>,
    token: UnsafeCell<Option<CancelToken>>,
    pub(crate) stage: Mutex<Stage>,
}

// SAFETY: the cells are written by whoever has the record alone, before it is ready, and read by the one thread that
// moves it from ready to running or cancelled, the token by the one that has the job; `destroy_result` by whoever gives
// up the last hold.
unsafe impl Sync for Record {}

static RECORDS: Places<Record> = Places::new();

/// Free records of this thread; given back when it ends.
struct Kept(Vec<u32>);

impl Drop for Kept {
    fn drop(&mut self) {
        RECORDS.give_back(self.0.drain(..));
    }
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::new(Kept(Vec::with_capacity(KEPT_MAX)));
}

fn take_index() -> u32 {
    let kept = KEPT.try_with(|kept| {
        let kept = &mut kept.borrow_mut().0;
        if kept.is_empty() {
            RECORDS.take(KEPT_MAX / 2, Record::new, |index| kept.push(index));
        }
        kept.pop().expect("at least one was taken")
    });
    // A thread that is ending keeps nothing.
    kept.unwrap_or_else(|_| RECORDS.take_one(Record::new))
}

fn give_index_back(index: u32) {
    let is_kept = KEPT.try_with(|kept| {
        let kept = &mut kept.borrow_mut().0;
        if kept.len() == KEPT_MAX {
            RECORDS.give_back(kept.drain(..KEPT_MAX / 2));
        }
        kept.push(index);
    });
    if is_kept.is_err() {
        RECORDS.give_back(std::iter::once(index));
    }
}

impl Record {
    fn new() -> Record {
        Record {
            state: AtomicU8::new(RESERVED),
            is_taken: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            index: AtomicU32::new(0),
            life: Life::new(),
            pool: AtomicU64::new(0),
            result: AtomicPtr::new(std::ptr::null_mut()),
            body: UnsafeCell::new(Body::Nothing),
            destroy_result: UnsafeCell::new(None),
            entry: UnsafeCell::new(None),
            token: UnsafeCell::new(None),
            stage: Mutex::new(Stage::Nothing),
        }
    }

    pub(crate) fn pool(&self) -> u64 {
        // ORDER: Relaxed; written before the handle was given out.
        self.pool.load(Ordering::Relaxed)
    }

    pub(crate) fn was_cancelled(&self) -> bool {
        // ORDER: Acquire; pairs with `give_up`.
        self.state.load(Ordering::Acquire) == CANCELLED
    }

    pub(crate) fn has_ended(&self) -> bool {
        // ORDER: Acquire; pairs with `run` and `give_up`: the result is there.
        self.state.load(Ordering::Acquire) >= ENDED
    }

    pub(crate) fn result(&self) -> *mut c_void {
        // ORDER: Relaxed; ordered by the state.
        self.result.load(Ordering::Relaxed)
    }

    /// Reserved to ready. The caller has the record alone.
    pub(crate) fn make_ready(&self) {
        // ORDER: Release; pairs with `begin`. Publishes the body.
        self.state.store(READY, Ordering::Release);
    }

    /// What is to be run.
    ///
    /// # Safety
    /// The record is reserved, and the caller's alone.
    pub(crate) unsafe fn set_body(&self, body: Body, destroy_result: Option<Destroy>, token: Option<CancelToken>) {
        // SAFETY: passed on to the caller.
        unsafe { *self.token.get() = token };
        // SAFETY: passed on to the caller.
        unsafe { *self.body.get() = body };
        // SAFETY: as above.
        unsafe { *self.destroy_result.get() = destroy_result };
    }

    fn begin(&self, next: u8) -> bool {
        // ORDER: AcqRel; one of those who want it gets the body, and sees it.
        self.state.compare_exchange(READY, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn run(&self) {
        // SAFETY: the caller has moved the record to running: the body is its own.
        let body = unsafe { *self.body.get() };
        let result = match body {
            Body::Nothing => std::ptr::null_mut(),
            Body::Call { run, arg, destroy_arg } => {
                // SAFETY: the caller's function, called once with the caller's argument, as windlass.h says.
                let result = unsafe { run(arg.get()) };
                if let Some(destroy) = destroy_arg {
                    // SAFETY: as above, once, after the function.
                    unsafe { destroy(arg.get()) };
                }
                result
            }
        };
        self.result.store(result, Ordering::Relaxed);
        // ORDER: Release; pairs with `has_ended`.
        self.state.store(ENDED, Ordering::Release);
    }

    /// Keeps the task from running, if it has not begun. Answers whether this call did.
    pub(crate) fn give_up(&self) -> bool {
        if !self.begin(CANCELLED) {
            return false;
        }
        // SAFETY: this thread has moved the record to cancelled: the body is its own.
        match unsafe { *self.body.get() } {
            Body::Nothing => {}
            Body::Call { arg, destroy_arg, .. } => {
                if let Some(destroy) = destroy_arg {
                    // SAFETY: the caller's function, called once with the caller's argument, as windlass.h says.
                    unsafe { destroy(arg.get()) };
                }
            }
        }
        true
    }

    /// Gives up a hold.
    pub(crate) fn let_go(&self) {
        if self.life.let_go() == Left::Others {
            return;
        }
        // SAFETY: nobody else holds the record.
        let destroy_result = unsafe { &mut *self.destroy_result.get() }.take();
        // SAFETY: as above.
        unsafe { *self.body.get() = Body::Nothing };
        // SAFETY: as above.
        unsafe { *self.token.get() = None };
        let has_result = self.state.load(Ordering::Acquire) == ENDED && !self.is_taken.load(Ordering::Acquire);
        let result = self.result();
        let stage = std::mem::replace(&mut *lock(&self.stage), Stage::Nothing);
        let index = self.index.load(Ordering::Relaxed);
        self.life.end();
        give_index_back(index);
        drop(stage);
        if let (Some(destroy), true) = (destroy_result, has_result) {
            // SAFETY: the caller's function; nobody was given the result, and nobody can ask for it any more.
            unsafe { destroy(result) };
        }
    }
}

/// A hold on a record.
pub(crate) struct RecordRef {
    record: &'static Record,
    pub(crate) number: u64,
}

impl std::ops::Deref for RecordRef {
    type Target = Record;

    fn deref(&self) -> &Record {
        self.record
    }
}

impl Drop for RecordRef {
    #[inline]
    fn drop(&mut self) {
        self.record.let_go();
    }
}

impl RecordRef {
    /// A free record for a task of this pool; with a handle, whose hold comes beside this one.
    pub(crate) fn new(entry: &'static Entry, pool: u64, with_handle: bool) -> RecordRef {
        let index = take_index();
        let record = RECORDS.get(index).expect("an index that was given out");
        // ORDER: Relaxed; all of it published with the handle, or with the job.
        record.index.store(index, Ordering::Relaxed);
        record.pool.store(pool, Ordering::Relaxed);
        record.state.store(RESERVED, Ordering::Relaxed);
        record.is_taken.store(false, Ordering::Relaxed);
        record.is_over.store(false, Ordering::Relaxed);
        record.result.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the record is free, and the caller's.
        unsafe { *record.entry.get() = Some(entry) };
        let generation = record.life.begin(with_handle, if with_handle { 2 } else { 1 });
        RecordRef { record, number: to_number(Kind::Task, Name { generation, index }) }
    }

    /// The record behind a handle.
    pub(crate) fn of(handle: Opaque) -> Result<RecordRef, Failure> {
        let name = parse(Kind::Task, handle)?;
        let record = RECORDS.get(name.index).ok_or_else(|| stale(Kind::Task))?;
        record.life.pin(Kind::Task, name.generation)?;
        Ok(RecordRef { record, number: handle as u64 })
    }

    /// Gives up the handle and its hold. What the pool's handle is given up with is dropped.
    pub(crate) fn give_handle_back(&self) -> Result<(), Failure> {
        self.life.take_handle(Kind::Task, (self.number >> 32) as u32)?;
        let stage = {
            let mut stage = lock(&self.stage);
            // Whoever waits puts nothing back when it sees that the handle has gone.
            if matches!(*stage, Stage::Awaited) { None } else { Some(std::mem::replace(&mut *stage, Stage::Nothing)) }
        };
        drop(stage);
        self.record.let_go();
        Ok(())
    }

    /// What is put into the pool.
    pub(crate) fn job(&self) -> Job {
        self.life.hold();
        Job(RecordRef { record: self.record, number: self.number })
    }
}

/// A task as the pool knows it: run once, or dropped.
pub(crate) struct Job(RecordRef);

impl Job {
    #[inline]
    pub(crate) fn run(self) {
        // SAFETY: written before the record was made ready.
        let entry = unsafe { *self.0.entry.get() };
        // SAFETY: as above.
        let is_cancelled = unsafe { &*self.0.token.get() }.as_ref().is_some_and(CancelToken::is_cancelled);
        if is_cancelled || entry.is_some_and(Entry::refuses_task) || !self.0.begin(RUNNING) {
            // Given up in `drop`, unless it was before.
            return;
        }
        here::within(self.0.number, || self.0.run());
    }
}

impl Drop for Job {
    #[inline]
    fn drop(&mut self) {
        self.0.give_up();
    }
}
