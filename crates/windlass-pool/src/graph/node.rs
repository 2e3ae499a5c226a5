//! The closure of a node, in 32 bytes.

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, align_of, size_of};

/// Bytes of a closure that fit into a node. Larger ones are boxed.
const STORAGE_LEN: usize = 24;

#[repr(C, align(8))]
struct Storage([MaybeUninit<u8>; STORAGE_LEN]);

/// How to treat what is in a node's storage.
struct Table {
    /// Calls the closure. Answers which successor is next, for a condition.
    ///
    /// # Safety
    /// The storage holds the closure this table was made for, and only the caller touches it.
    run: unsafe fn(*mut Storage) -> usize,
    /// Drops the closure.
    ///
    /// # Safety
    /// As `run`; the storage is not used again.
    drop: unsafe fn(*mut Storage),
    needs_drop: bool,
    /// What the user's closure is called.
    name: fn() -> &'static str,
}

/// A closure that is called again and again, by one thread at a time.
pub(super) struct Body {
    table: &'static Table,
    storage: UnsafeCell<Storage>,
}

const _: () = assert!(size_of::<Body>() == 32);

// SAFETY: the closure is `Send`, by the bound of `new`.
unsafe impl Send for Body {}
// SAFETY: a shared body gives access to its closure by `run` only, whose callers see to it that they are one at a time.
unsafe impl Sync for Body {}

struct TableOf<R>(R);

impl<R: FnMut() -> usize> TableOf<R> {
    const fn table(name: fn() -> &'static str) -> Table {
        Table {
            run: run::<R>,
            drop: drop_closure::<R>,
            needs_drop: !is_inline::<R>() || std::mem::needs_drop::<R>(),
            name,
        }
    }
}

/// The table of a closure, and of the user's closure inside it.
struct Named<R, F>(R, F);

impl<R: FnMut() -> usize, F> Named<R, F> {
    const TABLE: Table = TableOf::<R>::table(std::any::type_name::<F>);
}

const fn is_inline<R>() -> bool {
    size_of::<R>() <= STORAGE_LEN && align_of::<R>() <= align_of::<Storage>()
}

/// # Safety
/// See [`Table::run`].
unsafe fn run<R: FnMut() -> usize>(storage: *mut Storage) -> usize {
    if is_inline::<R>() {
        // SAFETY: `Body::new` wrote it inline, for the same reason; it is the caller's.
        unsafe { (*storage.cast::<R>())() }
    } else {
        // SAFETY: `Body::new` wrote a box, for the same reason; it is the caller's.
        unsafe { (*storage.cast::<Box<R>>())() }
    }
}

/// # Safety
/// See [`Table::drop`].
unsafe fn drop_closure<R>(storage: *mut Storage) {
    if is_inline::<R>() {
        // SAFETY: as in `run`, and it is not used again.
        unsafe { storage.cast::<R>().drop_in_place() };
    } else {
        // SAFETY: as above.
        unsafe { storage.cast::<Box<R>>().drop_in_place() };
    }
}

impl Body {
    /// A body that calls `run`, and is named after `F`. Who makes it sees to it that it does not outlive what `run`
    /// borrows: graphs and plans have a lifetime for that.
    #[inline]
    pub(super) fn new<R: FnMut() -> usize + Send, F>(run: R) -> Body {
        let mut storage = Storage([MaybeUninit::uninit(); STORAGE_LEN]);
        let place = &raw mut storage;
        if is_inline::<R>() {
            // SAFETY: it fits in size and alignment.
            unsafe { place.cast::<R>().write(run) };
        } else {
            // SAFETY: a thin pointer fits.
            unsafe { place.cast::<Box<R>>().write(Box::new(run)) };
        }
        Body { table: &Named::<R, F>::TABLE, storage: UnsafeCell::new(storage) }
    }

    /// Calls the closure. Answers which successor is next, for a condition.
    ///
    /// # Safety
    /// Nobody else calls it meanwhile, and what was done by the call before is visible to this thread.
    #[inline(always)]
    pub(super) unsafe fn run(&self) -> usize {
        // SAFETY: the table was made for what the storage holds; the rest is passed on to the caller.
        unsafe { (self.table.run)(self.storage.get()) }
    }

    /// What the user's closure is called.
    pub(super) fn type_name(&self) -> &'static str {
        (self.table.name)()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.table.needs_drop {
            // SAFETY: the table was made for what the storage holds, and this is the end of it.
            unsafe { (self.table.drop)(self.storage.get()) };
        }
    }
}
