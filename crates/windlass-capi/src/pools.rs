//! Pools behind handles, and how one is taken down while others may call.
//!
//! | from | to | by | calls |
//! |---|---|---|---|
//! | free | open | create | all may use it |
//! | open | closing | destroy, shutdown | only those from inside: tasks, and waits that began before |
//! | closing | free, next generation | the end, when nobody is inside | none |
//!
//! # Pins
//! A call from outside counts itself in at one of the pool's stripes, and then looks whether the pool is open; the end
//! says closing, and then looks at all stripes. Both in the one order of sequentially consistent accesses: either the
//! call sees that it comes too late, or the end sees the call and waits for it. Stripes, because all threads of a
//! program may submit to one pool at the same time. The first threads that call have a stripe each: an exchange counts
//! them in, and a store counts them out. All others share one.
//!
//! A call from inside needs no pin: the end waits until nothing is queued and nobody runs anything. Tasks are inside
//! wherever they run, also in a call from outside that found no room for another task and runs some first.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::{Duration, Instant};

use windlass_pool::{Pool, PoolConfig as RustConfig, PoolError};

use crate::here;
use crate::life::{self, Kind, Name, Opaque, Places, check_fork, lock, parse, stale, to_number};
use crate::status::{Failure, Status, fail, guard, invalid};

/// `windlass_pool_config`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct PoolConfig {
    pub size: usize,
    pub threads: c_uint,
    pub spin_ns: c_uint,
    pub stack_size: usize,
    pub task_count_max: usize,
    pub name: *const c_char,
    pub on_thread_start: Option<unsafe extern "C-unwind" fn(*mut c_void, c_uint)>,
    pub on_thread_end: Option<unsafe extern "C-unwind" fn(*mut c_void, c_uint)>,
    pub on_destroyed: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    pub user: *mut c_void,
    pub seed: u64,
    pub is_deterministic: c_int,
    pub reserved: c_int,
}

/// `windlass_counters`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct Counters {
    pub size: usize,
    pub run: u64,
    pub stolen: u64,
    pub offered: u64,
    pub parked: u64,
    pub woken: u64,
}

/// `windlass_shutdown_report`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct ShutdownReport {
    pub size: usize,
    pub cancelled: u64,
    pub is_finished: c_int,
    pub reserved: c_int,
}

/// A pointer of the caller's that goes to other threads, as the caller allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User(pub(crate) *mut c_void);

// SAFETY: the pool never follows it; the callbacks it is given to are said to run on any thread (windlass.h, Threads).
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    pub(crate) fn get(self) -> *mut c_void {
        self.0
    }
}

const SPIN_NONE: c_uint = c_uint::MAX;
const STRIPES: usize = 16;

const FREE: u64 = 0;
const OPEN: u64 = 1;
const CLOSING: u64 = 2;

/// Calls from outside that are under way, counted in a line of memory of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(AtomicUsize);

/// The stripe of those threads that have none of their own.
const SHARED: usize = 0;

impl Stripe {
    #[inline]
    fn count_in(&self, stripe: usize) {
        if stripe == SHARED {
            // ORDER: SeqCst; before the look at the word, see "Pins".
            self.0.fetch_add(1, Ordering::SeqCst);
        } else {
            // ORDER: Relaxed; only this thread writes it. A call may be inside another one, in a callback.
            let count = self.0.load(Ordering::Relaxed);
            // ORDER: SeqCst; as above. A store would do, and costs the same.
            self.0.swap(count + 1, Ordering::SeqCst);
        }
    }

    #[inline]
    fn count_out(&self, stripe: usize) {
        // ORDER: Release; pairs with `has_pins`: the end comes after the call.
        if stripe == SHARED {
            self.0.fetch_sub(1, Ordering::Release);
        } else {
            // ORDER: Relaxed; only this thread writes it.
            let count = self.0.load(Ordering::Relaxed);
            // ORDER: Release; as above.
            self.0.store(count - 1, Ordering::Release);
        }
    }
}

/// A pool, or the room for one.
pub(crate) struct Entry {
    /// The generation, and how far it is.
    word: AtomicU64,
    stripes: [Stripe; STRIPES],
    fork_mark: AtomicU32,
    /// Tasks that have not begun are not to run.
    is_cancelling: AtomicBool,
    /// Tasks that did not run because of that.
    cancelled: AtomicU64,
    inner: UnsafeCell<Option<Inner>>,
}

// SAFETY: `inner` is written by whoever has the place alone, before it is open and after nobody is inside.
unsafe impl Sync for Entry {}

struct Inner {
    pool: Pool,
    on_destroyed: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    user: User,
}

static POOLS: Places<Entry> = Places::new();

impl Entry {
    fn new() -> Entry {
        Entry {
            word: AtomicU64::new(1 << 32),
            stripes: [const { Stripe(AtomicUsize::new(0)) }; STRIPES],
            fork_mark: AtomicU32::new(0),
            is_cancelling: AtomicBool::new(false),
            cancelled: AtomicU64::new(0),
            inner: UnsafeCell::new(None),
        }
    }

    fn inner(&self) -> &Inner {
        // SAFETY: called while the pool is open or closing, when nobody writes it.
        unsafe { &*self.inner.get() }.as_ref().expect("a pool that is used is there")
    }

    /// Whether a task that is about to begin is to be dropped instead; counts it then.
    #[inline]
    pub(crate) fn refuses_task(&self) -> bool {
        // ORDER: Relaxed; a switch, and a number for people.
        let is_cancelling = self.is_cancelling.load(Ordering::Relaxed);
        if is_cancelling {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        is_cancelling
    }

    fn is_open(&self, generation: u32) -> bool {
        self.word.load(Ordering::SeqCst) == (u64::from(generation) << 32) | OPEN
    }

    /// Open to closing. `false` if somebody else did it, or it is another pool's place by now.
    fn begin_close(&self, generation: u32) -> bool {
        let word = u64::from(generation) << 32;
        // ORDER: SeqCst; with the count of `enter`: see "Pins".
        self.word.compare_exchange(word | OPEN, word | CLOSING, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    fn has_pins(&self) -> bool {
        self.stripes.iter().any(|stripe| stripe.0.load(Ordering::SeqCst) > 0)
    }
}

/// A pool that is not taken down while this is held.
pub(crate) struct Access {
    pub(crate) entry: &'static Entry,
    pub(crate) number: u64,
    stripe: Option<usize>,
    /// It goes where it came from: a stripe is written by its own thread alone.
    on_this_thread: PhantomData<*const ()>,
}

impl Access {
    fn new(entry: &'static Entry, number: u64, stripe: Option<usize>) -> Access {
        Access { entry, number, stripe, on_this_thread: PhantomData }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.entry.inner().pool
    }

    /// Runs `f`, which waits in this pool.
    #[inline]
    pub(crate) fn wait<R>(&self, f: impl FnOnce(&Pool) -> R) -> R {
        here::within_pool(self.number, self.entry, || f(self.pool()))
    }

    /// Runs `f`, which spawns, and so may run tasks here for want of a slot: they are inside, as on any other thread.
    #[inline]
    pub(crate) fn spawn<R>(&self, f: impl FnOnce(&Pool) -> R) -> R {
        here::within(self.number, || f(self.pool()))
    }
}

impl Drop for Access {
    #[inline]
    fn drop(&mut self) {
        if let Some(stripe) = self.stripe {
            self.entry.stripes[stripe].count_out(stripe);
        }
    }
}

/// The pool behind a handle, kept for as long as the answer lives.
#[inline]
pub(crate) fn enter(handle: Opaque) -> Result<Access, Failure> {
    let number = handle as u64;
    match here::entry_of(number) {
        Some(entry) => Ok(Access::new(entry, number, None)),
        None => enter_from_outside(handle),
    }
}

fn enter_from_outside(handle: Opaque) -> Result<Access, Failure> {
    let name = parse(Kind::Pool, handle)?;
    let entry = POOLS.get(name.index).ok_or_else(|| stale(Kind::Pool))?;
    let thread = here::thread();
    let stripe = if thread < STRIPES { thread } else { SHARED };
    entry.stripes[stripe].count_in(stripe);
    let access = Access::new(entry, handle as u64, Some(stripe));
    if !entry.is_open(name.generation) {
        drop(access);
        return enter_from_below(entry, name, handle as u64);
    }
    check_fork(entry.fork_mark.load(Ordering::Relaxed))?;
    Ok(access)
}

/// The pool is not open. A thread that is in the middle of it, below a task of another pool, may use it all the same.
#[cold]
fn enter_from_below(entry: &'static Entry, name: Name, number: u64) -> Result<Access, Failure> {
    let word = entry.word.load(Ordering::SeqCst);
    if word != (u64::from(name.generation) << 32) | CLOSING {
        return Err(stale(Kind::Pool));
    }
    if here::is_inside(number) {
        return Ok(Access::new(entry, number, None));
    }
    Err(fail(Status::Closed, "the pool is being shut down, and takes tasks from its own tasks only"))
}

/// The pool behind a handle, unless it is being shut down.
pub(crate) fn enter_open(handle: Opaque) -> Result<Access, Failure> {
    let access = enter(handle)?;
    if access.entry.is_open((access.number >> 32) as u32) {
        return Ok(access);
    }
    Err(fail(Status::Closed, "the pool is being shut down"))
}

/// Two pools are one.
pub(crate) fn check_same(one: u64, other: u64) -> Result<(), Failure> {
    if one == other {
        return Ok(());
    }
    Err(invalid("they belong to different pools"))
}

// Creating.

/// Reads a struct whose first field is its size: fields the caller does not know are zero, and fields this library does
/// not know must be.
///
/// # Safety
/// `from` is null, or begins with a `size_t` that says how many bytes may be read.
pub(crate) unsafe fn read_sized<T: Copy>(from: *const T, size_min: usize) -> Result<Option<T>, Failure> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size < size_min || size > 4096 {
        return Err(invalid(format!("size = {size}: set it to sizeof of the struct")));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller's struct has so many bytes.
    let rest = unsafe { std::slice::from_raw_parts(from.cast::<u8>().add(known), size - known) };
    if rest.iter().any(|byte| *byte != 0) {
        return Err(invalid("the struct sets a field that this version of the library does not know"));
    }
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `known` bytes are there on both sides, which do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: the structs hold numbers, pointers and optional functions: zeros and the caller's bytes are such.
    Ok(Some(unsafe { value.assume_init() }))
}

/// Writes a report whose first field is the size of the caller's struct: no more than fits, and the size stays.
///
/// # Safety
/// `to` is null, or begins with a `size_t` that says how many bytes may be written.
pub(crate) unsafe fn write_sized<T: Copy>(to: *mut T, value: &T) -> Result<(), Failure> {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: passed on to the caller.
    let size = unsafe { to.cast::<usize>().read_unaligned() };
    if !(size_of::<usize>()..=4096).contains(&size) {
        return Err(invalid(format!("size = {size}: set it to sizeof of the report")));
    }
    let word = size_of::<usize>();
    let len = size.min(size_of::<T>()) - word;
    let (from, to) = (std::ptr::from_ref(value).cast::<u8>(), to.cast::<u8>());
    // SAFETY: so many bytes are there on both sides, behind the size.
    unsafe { std::ptr::copy_nonoverlapping(from.add(word), to.add(word), len) };
    Ok(())
}

/// So many things of the caller's; none may be at NULL.
///
/// # Safety
/// `first` is null, or so many can be read from it on.
pub(crate) unsafe fn array<'a, T>(name: &str, first: *const T, count: usize) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return Err(invalid(format!("{count} {name} are not there")));
    }
    // SAFETY: passed on to the caller.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// # Safety
/// The name is null, or ends with a zero.
pub(crate) unsafe fn text(name: &str, from: *const c_char) -> Result<Option<String>, Failure> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: passed on to the caller.
    let text = unsafe { CStr::from_ptr(from) };
    text.to_str().map(|text| Some(text.to_owned())).map_err(|_| invalid(format!("{name} is not UTF-8")))
}

fn of_pool_error(error: &PoolError) -> Failure {
    let status = if matches!(error, PoolError::Thread { .. }) { Status::NoThread } else { Status::Invalid };
    fail(status, error.to_string())
}

fn watch_forks() {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn pthread_atfork(
                prepare: Option<extern "C" fn()>,
                parent: Option<extern "C" fn()>,
                child: Option<extern "C" fn()>,
            ) -> c_int;
        }
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // Without memory for the handler forks go unnoticed: there is nothing better to be done.
            // SAFETY: a function of the C library; the handler touches an atomic and this thread's own storage.
            let _ = unsafe { pthread_atfork(None, None, Some(life::note_fork)) };
        });
    }
}

/// Workers leave signals to the threads of the program, but those that the thread itself causes.
fn leave_signals() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[repr(C, align(8))]
        struct Signals([u8; 128]);
        unsafe extern "C" {
            fn sigfillset(set: *mut Signals) -> c_int;
            fn sigdelset(set: *mut Signals, signal: c_int) -> c_int;
            fn pthread_sigmask(how: c_int, set: *const Signals, before: *mut Signals) -> c_int;
        }
        const SIG_BLOCK: c_int = 0;
        // SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPROF.
        const OWN: [c_int; 8] = [4, 5, 6, 7, 8, 11, 31, 27];
        let mut signals = Signals([0; 128]);
        // SAFETY: the set has the size of the C library's.
        unsafe { sigfillset(&raw mut signals) };
        for signal in OWN {
            // SAFETY: as above.
            unsafe { sigdelset(&raw mut signals, signal) };
        }
        // SAFETY: as above; the set before may be null.
        unsafe { pthread_sigmask(SIG_BLOCK, &raw const signals, std::ptr::null_mut()) };
    }
}

fn to_rust(config: &PoolConfig, name: Option<String>, number: u64, entry: &'static Entry) -> RustConfig {
    let user = User(config.user);
    let mut to = RustConfig::default();
    if config.threads != 0 {
        to.threads = config.threads as usize;
    }
    if let Some(name) = name {
        to.name = name;
    }
    if config.stack_size != 0 {
        to.stack_size = config.stack_size;
    }
    if config.task_count_max != 0 {
        to.slot_count_max = config.task_count_max;
    }
    to.spin = match config.spin_ns {
        0 => None,
        SPIN_NONE => Some(Duration::ZERO),
        spin => Some(Duration::from_nanos(u64::from(spin))),
    };
    to.deterministic_seed = (config.is_deterministic != 0).then_some(config.seed);
    let on_start = config.on_thread_start;
    to.on_thread_start = Some(Arc::new(move |index| {
        here::become_worker(number, entry, index);
        leave_signals();
        if let Some(hook) = on_start {
            // SAFETY: the caller's function, called as windlass.h says.
            unsafe { hook(user.get(), index as c_uint) };
        }
    }));
    if let Some(hook) = config.on_thread_end {
        // SAFETY: as above.
        to.on_thread_end = Some(Arc::new(move |index| unsafe { hook(user.get(), index as c_uint) }));
    }
    to
}

/// Makes a pool, and answers its handle.
pub(crate) fn create(config: &PoolConfig, name: Option<String>) -> Result<Opaque, Failure> {
    watch_forks();
    let index = POOLS.take_one(Entry::new);
    let entry = POOLS.get(index).expect("an index that was given out");
    let generation = (entry.word.load(Ordering::Relaxed) >> 32) as u32;
    let number = to_number(Kind::Pool, Name { generation, index });
    let pool = Pool::with(to_rust(config, name, number, entry)).map_err(|error| {
        POOLS.give_back(std::iter::once(index));
        of_pool_error(&error)
    })?;
    let inner = Inner { pool, on_destroyed: config.on_destroyed, user: User(config.user) };
    // SAFETY: the place is free, and the caller's.
    unsafe { *entry.inner.get() = Some(inner) };
    entry.fork_mark.store(life::fork_count(), Ordering::Relaxed);
    entry.is_cancelling.store(false, Ordering::Relaxed);
    entry.cancelled.store(0, Ordering::Relaxed);
    // ORDER: SeqCst; publishes all of it.
    entry.word.store((u64::from(generation) << 32) | OPEN, Ordering::SeqCst);
    Ok(number as Opaque)
}

impl Default for PoolConfig {
    /// All zeros: everything as usual.
    fn default() -> PoolConfig {
        PoolConfig {
            size: size_of::<PoolConfig>(),
            threads: 0,
            spin_ns: 0,
            stack_size: 0,
            task_count_max: 0,
            name: std::ptr::null(),
            on_thread_start: None,
            on_thread_end: None,
            on_destroyed: None,
            user: std::ptr::null_mut(),
            seed: 0,
            is_deterministic: 0,
            reserved: 0,
        }
    }
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_pool_create(config: *const PoolConfig, pool: *mut Opaque) -> Status {
    guard("windlass_pool_create", || {
        if pool.is_null() {
            return Err(invalid("there is no place for the pool: NULL"));
        }
        // SAFETY: the caller's pointer, checked.
        unsafe { *pool = std::ptr::null_mut() };
        // SAFETY: passed on to the caller.
        let config = unsafe { read_sized(config, size_of::<usize>()) }?.unwrap_or_default();
        // SAFETY: passed on to the caller.
        let name = unsafe { text("name", config.name) }?;
        let handle = create(&config, name)?;
        // SAFETY: as above.
        unsafe { *pool = handle };
        Ok(())
    })
}

// Ending.

/// The place of a pool that this call closes. `Err` if another call did before, or it is not there.
fn begin_end(handle: Opaque) -> Result<(&'static Entry, u32), Failure> {
    let name = parse(Kind::Pool, handle)?;
    let entry = POOLS.get(name.index).ok_or_else(|| stale(Kind::Pool))?;
    if entry.word.load(Ordering::SeqCst) >> 32 == u64::from(name.generation) {
        check_fork(entry.fork_mark.load(Ordering::Relaxed))?;
    }
    if entry.begin_close(name.generation) { Ok((entry, name.index)) } else { Err(stale(Kind::Pool)) }
}

/// Waits until nobody is inside, and takes the pool down. Not to be called from inside.
fn finish_end(entry: &'static Entry, index: u32, number: u64) {
    let mut nap = Duration::from_micros(1);
    while entry.has_pins() {
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(1));
    }
    // Tasks that run here, in a pool without threads, are inside.
    here::within_pool(number, entry, || entry.inner().pool.wait_idle());
    // SAFETY: no call from outside is under way, and none begins: the word says closing. No task is queued or runs, so none
    // is from inside.
    let inner = unsafe { &mut *entry.inner.get() }.take();
    let Some(Inner { pool, on_destroyed, user }) = inner else { return };
    drop(pool);
    let generation = (entry.word.load(Ordering::Relaxed) >> 32) as u32;
    let next = u64::from(generation.wrapping_add(1).max(1)) << 32;
    // ORDER: SeqCst; handles of it are stale from now on.
    entry.word.store(next | FREE, Ordering::SeqCst);
    POOLS.give_back(std::iter::once(index));
    if let Some(hook) = on_destroyed {
        // SAFETY: the caller's function, called as windlass.h says.
        unsafe { hook(user.get()) };
    }
}

/// Takes a pool down on a thread of its own; what is answered says when it is done.
fn finish_end_elsewhere(entry: &'static Entry, index: u32, number: u64) -> Result<Arc<Done>, Failure> {
    let done = Arc::new(Done::default());
    let tell = Arc::clone(&done);
    let body = move || {
        finish_end(entry, index, number);
        *lock(&tell.is_done) = true;
        tell.changed.notify_all();
    };
    let thread = std::thread::Builder::new().name("windlass-end".to_owned()).spawn(body);
    thread.map(|_| done).map_err(|error| {
        // Open again: nothing has happened.
        entry.word.store((number >> 32 << 32) | OPEN, Ordering::SeqCst);
        fail(Status::NoThread, format!("the system gave no thread to take the pool down: {error}"))
    })
}

#[derive(Default)]
struct Done {
    is_done: Mutex<bool>,
    changed: Condvar,
}

pub(crate) fn destroy(handle: Opaque) -> Result<(), Failure> {
    let number = handle as u64;
    let (entry, index) = begin_end(handle)?;
    if here::is_inside(number) {
        // C-7: a task cannot wait for its own end.
        return finish_end_elsewhere(entry, index, number).map(drop);
    }
    finish_end(entry, index, number);
    Ok(())
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_pool_destroy(pool: Opaque) -> Status {
    guard("windlass_pool_destroy", || destroy(pool))
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_pool_shutdown(
    pool: Opaque,
    mode: c_int,
    timeout_ms: u64,
    report: *mut ShutdownReport,
) -> Status {
    guard("windlass_pool_shutdown", || {
        if !(0..=2).contains(&mode) {
            return Err(invalid(format!("mode = {mode}: must be one of windlass_shutdown_mode")));
        }
        // SAFETY: passed on to the caller: nothing is written but what was there, if the size is good.
        unsafe { write_sized(report, &ShutdownReport::default()) }?;
        if here::is_inside(pool as u64) {
            return Err(fail(Status::Deadlock, "a task shuts its own pool down, which would never end"));
        }
        let (entry, index) = begin_end(pool)?;
        if mode != 0 {
            entry.is_cancelling.store(true, Ordering::Relaxed);
        }
        let done = finish_end_elsewhere(entry, index, pool as u64)?;
        let timeout = if mode == 2 { Duration::ZERO } else { Duration::from_millis(timeout_ms) };
        let is_finished = done.wait(timeout);
        let cancelled = entry.cancelled.load(Ordering::Relaxed);
        let found = ShutdownReport { size: 0, cancelled, is_finished: c_int::from(is_finished), reserved: 0 };
        // SAFETY: as above.
        unsafe { write_sized(report, &found) }?;
        if is_finished || mode == 2 {
            return Ok(());
        }
        Err(fail(Status::Timeout, format!("tasks still ran after {timeout_ms} ms: the pool ends by itself after them")))
    })
}

impl Done {
    fn wait(&self, timeout: Duration) -> bool {
        let deadline = Instant::now().checked_add(timeout);
        let mut is_done = lock(&self.is_done);
        while !*is_done {
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(is_done, left.min(Duration::from_secs(3600)));
            is_done = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        *is_done
    }
}

// Seeing.

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_pool_thread_count(pool: Opaque, count: *mut c_uint) -> Status {
    guard("windlass_pool_thread_count", || {
        if count.is_null() {
            return Err(invalid("there is no place for the count: NULL"));
        }
        let access = enter(pool)?;
        // SAFETY: the caller's pointer, checked.
        unsafe { *count = access.pool().thread_count() as c_uint };
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_pool_counters(pool: Opaque, worker: c_uint, counters: *mut Counters) -> Status {
    guard("windlass_pool_counters", || {
        if counters.is_null() {
            return Err(invalid("there is no place for the counters: NULL"));
        }
        let access = enter(pool)?;
        let metrics = access.pool().metrics();
        let Some(of) = metrics.get(worker as usize) else {
            return Err(invalid(format!("there is no worker {worker}: the pool has {}", metrics.len())));
        };
        let (run, stolen, offered) = (of.run, of.stolen, of.offered);
        let found = Counters { size: 0, run, stolen, offered, parked: of.parked, woken: of.woken };
        // SAFETY: passed on to the caller.
        unsafe { write_sized(counters, &found) }
    })
}
