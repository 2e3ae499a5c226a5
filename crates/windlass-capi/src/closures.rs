//! Closures that nobody asks for again: put into the pool's own slots, run there, and forgotten.
//!
//! This is the short way, for C++ above all: no record, no handle, no copy but the one into the slot. The closure is put
//! together in the slot by its own code (`windlass_spawn_closure`) or word by word (`windlass_spawn_bytes`): to read back
//! in large pieces what the caller has just written in small ones costs more than all the rest.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use windlass_pool::Built;

use crate::life::Opaque;
use crate::pools::{Entry, enter};
use crate::record::Destroy;
use crate::status::{Failure, Status, guard, invalid};
use crate::tasks::function_of;

/// Bytes of a closure that have room: `WINDLASS_INLINE_SIZE`.
pub(crate) const INLINE_LEN: usize = 64;

/// `windlass_closure`: what a kind of closures has in common.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct ClosureKind {
    pub size: usize,
    pub build: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void)>,
    pub run: Option<Destroy>,
    pub destroy: Option<Destroy>,
}

/// How closures of one kind are run, and destroyed unrun.
trait Kind: Copy + 'static {
    fn run(self) -> Destroy;
    fn destroy(self) -> Option<Destroy>;
}

/// The caller's table, which stays. Checked: it has a function to run.
#[derive(Clone, Copy)]
struct Table(&'static ClosureKind);

impl Kind for Table {
    #[inline]
    fn run(self) -> Destroy {
        self.0.run.expect("a table without a function was refused")
    }

    #[inline]
    fn destroy(self) -> Option<Destroy> {
        self.0.destroy
    }
}

/// Nothing but a function, for bytes that need no destructor.
#[derive(Clone, Copy)]
struct Plain(Destroy);

impl Kind for Plain {
    fn run(self) -> Destroy {
        self.0
    }

    fn destroy(self) -> Option<Destroy> {
        None
    }
}

/// A closure in a slot.
#[repr(C, align(16))]
struct Closure<K: Kind> {
    kind: K,
    /// Nothing, once it has run.
    entry: Option<&'static Entry>,
    /// Last: whoever runs a closure that captures nothing does not look at this line of memory.
    storage: [MaybeUninit<u64>; INLINE_LEN / 8],
}

/// Closures are aligned to so much, as windlass.h says.
const ALIGNMENT: usize = 16;

const _: () = assert!(std::mem::offset_of!(Closure<Table>, storage) % ALIGNMENT == 0);

// SAFETY: whoever hands over a closure says that it may be run on any thread (windlass.h, Threads).
unsafe impl<K: Kind> Send for Closure<K> {}

impl<K: Kind> Closure<K> {
    fn storage(&mut self) -> *mut c_void {
        (&raw mut self.storage).cast()
    }
}

impl<K: Kind> Built for Closure<K> {
    #[inline]
    fn run(&mut self) {
        if self.entry.is_some_and(Entry::refuses_task) {
            // Destroyed in `drop`.
            return;
        }
        self.entry = None;
        let run = self.kind.run();
        // SAFETY: the caller's function, called once with what the caller's own code has put there, as windlass.h says.
        unsafe { run(self.storage()) };
    }
}

/// Destroys what has not run.
impl<K: Kind> Drop for Closure<K> {
    #[inline]
    fn drop(&mut self) {
        if let (Some(_), Some(destroy)) = (self.entry, self.kind.destroy()) {
            // SAFETY: the caller's function, called once instead of the other one.
            unsafe { destroy(self.storage()) };
        }
    }
}

/// Spawns a closure that `fill` puts into its place.
///
/// # Safety
/// `fill` builds what the kind can run, in up to [`INLINE_LEN`] bytes aligned to 16, and returns.
#[inline(always)]
unsafe fn spawn<K: Kind>(pool: Opaque, kind: K, fill: impl FnOnce(*mut c_void)) -> Result<(), Failure> {
    let access = enter(pool)?;
    let entry = Some(access.entry);
    let build = |place: *mut Closure<K>| {
        // SAFETY: the place is free, and large enough.
        unsafe { (&raw mut (*place).kind).write(kind) };
        // SAFETY: as above.
        unsafe { (&raw mut (*place).entry).write(entry) };
        // SAFETY: as above.
        fill(unsafe { &raw mut (*place).storage }.cast());
    };
    // SAFETY: all three fields are written.
    access.spawn(|pool| unsafe { pool.spawn_built(build) });
    Ok(())
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_spawn_closure(pool: Opaque, kind: *const ClosureKind, from: *mut c_void) -> Status {
    guard("windlass_spawn_closure", || {
        // SAFETY: the caller's pointer, null or to a constant.
        let kind = unsafe { kind.as_ref() }.ok_or_else(|| invalid("the kind is NULL"))?;
        let (Some(build), Some(_)) = (kind.build, kind.run) else {
            return Err(invalid("a function of the kind is NULL"));
        };
        check_len(kind.size, false)?;
        // SAFETY: the caller's function builds what the caller's kind runs, as windlass.h says.
        unsafe { spawn(pool, Table(kind), |place| build(place, from)) }
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_spawn_bytes(
    pool: Opaque,
    bytes: *const c_void,
    len: usize,
    run: Option<Destroy>,
) -> Status {
    guard("windlass_spawn_bytes", || {
        let run = function_of(run)?;
        check_len(len, bytes.is_null() && len > 0)?;
        // SAFETY: passed on to the caller; they fit.
        unsafe { spawn(pool, Plain(run), |place| copy(bytes, place, len)) }
    })
}

fn check_len(len: usize, is_absent: bool) -> Result<(), Failure> {
    if len <= INLINE_LEN && !is_absent {
        return Ok(());
    }
    Err(invalid(format!("{len} bytes: must be at most {INLINE_LEN}, and there")))
}

/// Copies word by word, and then what is left: each word is likely to have just been written as one. Bytes that do not
/// begin where a word may were not, and are copied as they come.
///
/// # Safety
/// So many bytes can be read, and written, the latter aligned to words.
unsafe fn copy(from: *const c_void, to: *mut c_void, len: usize) {
    let words = if from.cast::<MaybeUninit<u64>>().is_aligned() { len / 8 } else { 0 };
    for word in 0..words {
        // SAFETY: passed on to the caller. Volatile, lest the loop become one of those copies in large pieces.
        let value = unsafe { from.cast::<MaybeUninit<u64>>().add(word).read_volatile() };
        // SAFETY: as above.
        unsafe { to.cast::<MaybeUninit<u64>>().add(word).write(value) };
    }
    let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(from.add(words * 8), to.add(words * 8), len - words * 8) };
}
