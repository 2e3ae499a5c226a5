//! A thread's own place in a pool.
//!
//! Every thread that uses a pool has a [`Lane`]: its forks, its free slots, its counts, in memory that only it touches.
//! What others look at is on its desk (`shared.rs`). Workers have one from the start; any other thread is given one when
//! it first uses the pool, keeps it in thread-local storage, and gives it back when it ends. So two threads never act as
//! the owner of one ring, and a worker of one pool is an outside thread to another. Handles count on the lane that made
//! them, and on its home (`home.rs`), which outlives it.

use std::cell::{Cell, RefCell};
use std::ptr;

use crate::config::PoolConfig;
use crate::forks::{ForkStack, SHOWN_MAX};
use crate::home::Home;
use crate::shared::{Desk, SharedRef};
use crate::slot::{BATCH_LEN, Slot, SlotRef};
#[cfg(shuttle)]
use crate::sync::LocalPointer as _;
use crate::sync::{Arc, Ordering, thread, thread_local};

/// Free slots a thread keeps for itself, at most.
const FREE_MAX: usize = 4 * BATCH_LEN;
/// Fewer than these are not worth keeping.
const FREE_WORTH: usize = 8;

/// Free slots that each thread of a pool may keep for itself. Those that one thread keeps, another lacks: all workers
/// together keep less than half, and in a pool of few slots nobody keeps any.
fn free_max(config: &PoolConfig) -> usize {
    let share = config.slot_count_max / (2 * (config.threads + 8));
    if share < FREE_WORTH { 0 } else { share.min(FREE_MAX) }
}

/// Gives one handle back to its home.
///
/// # Safety
/// The handle was made by [`Lane::hold`], and is not used again.
#[inline]
pub(crate) unsafe fn let_go(home: *const Home) {
    let current = CURRENT.get();
    // SAFETY: the current lane lives as long as the pointer is set.
    if let Some(lane) = unsafe { current.as_ref() }
        && ptr::eq(lane.home, home)
    {
        lane.held.set(lane.held.get() - 1);
        return;
    }
    // SAFETY: this handle was counted, and is not used again.
    unsafe { Home::drop_elsewhere(home) };
}

/// Free slots of one thread.
struct FreeSlots {
    slots: Box<[Cell<SlotRef>; FREE_MAX]>,
    len: Cell<usize>,
    /// How many are kept, at most; no more than [`FREE_MAX`].
    max: usize,
}

/// How many tasks of one group have ended here and were not yet counted there.
#[derive(Debug)]
struct Tally {
    parent: Cell<*const Slot>,
    count: Cell<u32>,
}

/// Where a lane's tasks come from, when it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A thread of the pool.
    Worker,
    /// Any other thread.
    Guest,
}

/// A thread's own place in a pool. Lent by [`Pool::attach`](crate::Pool::attach): what is done through it needs not ask
/// which thread it is on.
pub struct Lane {
    pub(crate) shared: SharedRef,
    /// On which desk; the pool keeps it.
    desk: *const Desk,
    pub(crate) index: u32,
    pub(crate) role: Role,
    pub(crate) forks: ForkStack,
    free: FreeSlots,
    tally: Tally,
    home: *const Home,
    /// Handles made here, less those dropped here.
    held: Cell<i64>,
    /// Tasks of others run inside each other's waits.
    pub(crate) help_depth: Cell<u32>,
    /// Tasks run inside each other because there was no slot.
    pub(crate) room_depth: Cell<u32>,
    /// Entries of the own ring from this count on were put there by the task in hand, or for it.
    pub(crate) floor: Cell<u64>,
    /// Inside `isolate`: what lies below the floor, or elsewhere, is not touched.
    pub(crate) is_isolated: Cell<bool>,
    /// User code that is on the stack and was called through this lane.
    pub(crate) calls: Cell<u32>,
    /// References to the lane that are on the stack: it is not given back meanwhile. Any user code, be it a destructor,
    /// may drop the pool.
    pins: Cell<u32>,
    pub(crate) turn: Cell<u32>,
    /// Entries in the own ring whose tasks were run without them; at least as many as there are.
    pub(crate) spent_entries: Cell<u32>,
    /// Counted as a searcher (`sleep.rs`).
    pub(crate) is_searching: Cell<bool>,
    random: Cell<u64>,
    /// Tasks this thread is in the middle of, the innermost last.
    #[cfg(debug_assertions)]
    pub(crate) under_way: RefCell<Vec<crate::slot::TaskId>>,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lane").field("index", &self.index).field("role", &self.role).finish_non_exhaustive()
    }
}

thread_local! {
    /// The lane used last on this thread, or null.
    static CURRENT: Cell<*const Lane> = const { Cell::new(ptr::null()) };
    /// All lanes of this thread; given back when it ends.
    static LANES: RefCell<Lanes> = const { RefCell::new(Lanes(Vec::new())) };
}

struct Lanes(Vec<*const Lane>);

impl Drop for Lanes {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
        for lane in self.0.drain(..) {
            // SAFETY: made by `Box::into_raw` in `attach`, and nothing on this thread uses it any more.
            drop(unsafe { Box::from_raw(lane.cast_mut()) });
        }
    }
}

/// Calls `f` with this thread's lane in the pool.
#[inline(always)]
pub(crate) fn with_lane<R>(shared: &SharedRef, f: impl FnOnce(&Lane) -> R) -> R {
    let current = CURRENT.get();
    // SAFETY: the pointer is set only while the lane lives.
    if let Some(lane) = unsafe { current.as_ref() }
        && ptr::eq(Arc::as_ptr(&lane.shared), Arc::as_ptr(shared))
    {
        let _pin = Pin::on(lane);
        return f(lane);
    }
    with_other_lane(shared, f)
}

/// Keeps a lane from being given back.
pub(crate) struct Pin<'a>(&'a Lane);

impl Pin<'_> {
    #[inline(always)]
    pub(crate) fn on(lane: &Lane) -> Pin<'_> {
        lane.pins.set(lane.pins.get() + 1);
        Pin(lane)
    }
}

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.pins.set(self.0.pins.get() - 1);
    }
}

#[cold]
fn with_other_lane<R>(shared: &SharedRef, f: impl FnOnce(&Lane) -> R) -> R {
    // Before the switch, which may give back lanes of pools that have gone: not this one, if it is under way.
    let _back = GoBack::to(CURRENT.get());
    match switch_to(shared) {
        Some(lane) => {
            // SAFETY: as above; lanes are given back when the thread ends, or when nothing on the stack uses them.
            let lane = unsafe { &*lane };
            let _pin = Pin::on(lane);
            f(lane)
        }
        // The thread is ending, and its storage has gone: a lane for this one call.
        None => f(&Lane::new(Arc::clone(shared), shared.take_desk(), Role::Guest)),
    }
}

/// Makes a lane the current one again, if it is in the middle of something: a task of one pool that uses another one is
/// still a task of the first.
struct GoBack(*const Lane);

impl GoBack {
    fn to(before: *const Lane) -> GoBack {
        // SAFETY: a current lane lives; one that is pinned is not given back meanwhile.
        let is_under_way = unsafe { before.as_ref() }.is_some_and(|lane| lane.pins.get() > 0);
        GoBack(if is_under_way { before } else { ptr::null() })
    }
}

impl Drop for GoBack {
    fn drop(&mut self) {
        if !self.0.is_null() {
            CURRENT.set(self.0);
        }
    }
}

/// This thread's lane in the pool becomes the current one; it is made if need be. `None` if the thread is ending.
fn switch_to(shared: &SharedRef) -> Option<*const Lane> {
    let found = find_lane(shared)?;
    let lane = match found {
        Some(lane) => lane,
        None => attach(shared, shared.take_desk(), Role::Guest)?,
    };
    CURRENT.set(lane);
    Some(lane)
}

fn find_lane(shared: &SharedRef) -> Option<Option<*const Lane>> {
    let is_here = |lane: &&*const Lane| {
        // SAFETY: a listed lane lives.
        ptr::eq(Arc::as_ptr(&unsafe { &***lane }.shared), Arc::as_ptr(shared))
    };
    LANES.try_with(|lanes| lanes.borrow().0.iter().find(is_here).copied()).ok()
}

/// Makes a lane for this thread and lists it. `None` if the thread is ending.
pub(crate) fn attach(shared: &SharedRef, desk: u32, role: Role) -> Option<*const Lane> {
    // What is left of pools that have gone is given back first: they need their memory for nothing.
    give_back_where(|lane| lane.shared.has_ended())?;
    let lane: *const Lane = Box::into_raw(Box::new(Lane::new(Arc::clone(shared), desk, role)));
    LANES.try_with(|lanes| lanes.borrow_mut().0.push(lane)).ok()?;
    CURRENT.set(lane);
    Some(lane)
}

/// Gives back this thread's lane in the pool, unless something on the stack still uses it.
pub(crate) fn detach(shared: &SharedRef) {
    // If the thread is ending, its lanes have gone already.
    let _ = give_back_where(|lane| ptr::eq(Arc::as_ptr(&lane.shared), Arc::as_ptr(shared)));
}

fn give_back_where(is_wanted: impl Fn(&Lane) -> bool) -> Option<()> {
    let is_over = |lane: &*const Lane| {
        // SAFETY: a listed lane lives.
        let lane = unsafe { &**lane };
        is_wanted(lane) && lane.pins.get() == 0
    };
    let over: Vec<_> =
        LANES.try_with(|lanes| lanes.borrow_mut().0.extract_if(.., |lane| is_over(lane)).collect()).ok()?;
    for lane in over {
        if ptr::eq(CURRENT.get(), lane) {
            CURRENT.set(ptr::null());
        }
        // SAFETY: made by `Box::into_raw` in `attach`, taken off the list, and not in use.
        drop(unsafe { Box::from_raw(lane.cast_mut()) });
    }
    Some(())
}

/// A worker has ended, and been counted out: see [`Lane::run_what_came_last`].
pub(crate) fn see_to_what_came_last(shared: &SharedRef) {
    if shared.has_ended() && shared.queued_count() > 0 {
        with_lane(shared, Lane::run_what_came_last);
    }
}

/// Whether this thread is a worker of the pool.
pub(crate) fn is_worker_of(shared: &SharedRef) -> bool {
    // SAFETY: a listed lane lives.
    let is_worker = |lane: *const Lane| unsafe { &*lane }.role == Role::Worker;
    find_lane(shared).flatten().is_some_and(is_worker)
}

/// Whether this thread is inside a task of the pool.
pub(crate) fn is_in_task_of(shared: &SharedRef) -> bool {
    // SAFETY: a listed lane lives.
    find_lane(shared).flatten().is_some_and(|lane| unsafe { &*lane }.is_in_task())
}

/// Calls `f` with the lane in which this thread runs a task just now, if it does.
pub(crate) fn with_current<R>(f: impl FnOnce(Option<&Lane>) -> R) -> R {
    let current = CURRENT.get();
    // SAFETY: the pointer is set only while the lane lives.
    f(unsafe { current.as_ref() })
}

impl Lane {
    fn new(shared: SharedRef, index: u32, role: Role) -> Lane {
        let desk = shared.desk(index);
        desk.give_to(Some(thread::current()));
        Lane {
            desk,
            index,
            role,
            forks: ForkStack::new(),
            free: FreeSlots {
                slots: Box::new([const { Cell::new(SlotRef::NONE) }; FREE_MAX]),
                len: Cell::new(0),
                max: free_max(&shared.config),
            },
            tally: Tally { parent: Cell::new(ptr::null()), count: Cell::new(0) },
            home: Home::of(&shared),
            held: Cell::new(0),
            help_depth: Cell::new(0),
            room_depth: Cell::new(0),
            floor: Cell::new(desk.ring.tail()),
            is_isolated: Cell::new(false),
            calls: Cell::new(0),
            pins: Cell::new(0),
            turn: Cell::new(0),
            spent_entries: Cell::new(0),
            is_searching: Cell::new(false),
            random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ (u64::from(index) + 1)),
            #[cfg(debug_assertions)]
            under_way: RefCell::default(),
            shared,
        }
    }

    #[inline(always)]
    pub(crate) fn desk(&self) -> &Desk {
        // SAFETY: desks live as long as the pool, which `shared` keeps.
        unsafe { &*self.desk }
    }

    /// Whether this thread is inside a task of the pool.
    pub(crate) fn is_in_task(&self) -> bool {
        match self.role {
            Role::Worker => self.calls.get() > 0,
            Role::Guest => self.desk().is_guest_at_work.load(Ordering::Relaxed),
        }
    }

    // Handles.

    /// Counts a handle in, and answers where it is counted.
    #[inline]
    pub(crate) fn hold(&self) -> *const Home {
        self.held.set(self.held.get() + 1);
        self.home
    }

    // Slots.

    #[inline]
    pub(crate) fn take_slot(&self) -> Option<SlotRef> {
        let len = self.free.len.get();
        if len == 0 {
            return self.fetch_slots();
        }
        self.free.len.set(len - 1);
        // SAFETY: `len` was at least one, and at most `FREE_MAX`.
        Some(unsafe { self.free.slots.get_unchecked(len - 1) }.get())
    }

    #[cold]
    fn fetch_slots(&self) -> Option<SlotRef> {
        let mut len = 0;
        self.shared.slots.take(BATCH_LEN.min(self.free.max.max(1)), |slot| {
            slot.prefetch();
            self.free.slots[len].set(slot);
            len += 1;
        });
        self.free.len.set(len.checked_sub(1)?);
        Some(self.free.slots[len - 1].get())
    }

    /// Takes a slot although the pool has as many as it may have.
    pub(crate) fn fetch_slot_beyond(&self) {
        let len = self.free.len.get();
        if len < FREE_MAX {
            self.free.slots[len].set(self.shared.slots.take_beyond());
            self.free.len.set(len + 1);
        }
    }

    /// Frees a slot whose body has been emptied, and which nobody else holds.
    #[inline]
    pub(crate) fn free_slot(&self, slot: &Slot) {
        slot.state.free();
        let len = self.free.len.get();
        if len >= self.free.max {
            return self.return_slots(slot);
        }
        // SAFETY: `len` is less than `max`, which is `FREE_MAX` at most.
        unsafe { self.free.slots.get_unchecked(len) }.set(SlotRef::of(slot));
        self.free.len.set(len + 1);
    }

    /// Sees to it that the next slot can be had, running queued tasks if need be.
    ///
    /// # Panics
    /// When there is none and nothing is queued here.
    pub(crate) fn ensure_slot(&self) {
        self.put_back(self.take_slot_or_work());
    }

    /// Sees to it that the next slot can be had, if the pool has one.
    pub(crate) fn try_ensure_slot(&self) -> bool {
        self.take_slot().map(|slot| self.put_back(slot)).is_some()
    }

    /// Puts a slot that was just taken where the next one comes from.
    fn put_back(&self, slot: SlotRef) {
        let len = self.free.len.get();
        self.free.slots[len].set(slot);
        self.free.len.set(len + 1);
    }

    #[cold]
    fn return_slots(&self, slot: &Slot) {
        if self.free.max == 0 {
            return self.shared.slots.give_back(std::iter::once(SlotRef::of(slot)));
        }
        // The oldest half goes: the youngest are in the cache.
        let len = self.free.len.get();
        let half = len / 2;
        self.shared.slots.give_back(self.free.slots[..half].iter().map(Cell::get));
        for place in half..len {
            self.free.slots[place - half].set(self.free.slots[place].get());
        }
        self.free.slots[len - half].set(SlotRef::of(slot));
        self.free.len.set(len - half + 1);
    }

    // Groups.

    /// A task of this group begins: what is counted for another is told now, for nobody knows how long it takes.
    #[inline]
    pub(crate) fn begin_of(&self, parent: *const Slot) {
        if self.tally.count.get() != 0 && !ptr::eq(self.tally.parent.get(), parent) {
            self.tell_tally();
        }
    }

    /// A task of this group has ended here.
    #[inline]
    pub(crate) fn count_end_of(&self, parent: *const Slot) {
        if parent.is_null() {
            return;
        }
        if self.tally.count.get() != 0 && !ptr::eq(self.tally.parent.get(), parent) {
            self.tell_tally();
        }
        self.tally.parent.set(parent);
        self.tally.count.set(self.tally.count.get() + 1);
    }

    /// Counts the ends at their group, which may be its end, and so an end of the group's own group, and so on: nothing
    /// is counted here afterwards.
    #[inline]
    pub(crate) fn tell_tally(&self) {
        loop {
            let count = self.tally.count.replace(0);
            if count == 0 {
                return;
            }
            let parent = self.tally.parent.replace(ptr::null());
            // SAFETY: the group is held open by those that were counted here and not yet there.
            let parent = unsafe { &*parent };
            if parent.count_ends(count) {
                self.complete(parent);
            }
        }
    }

    // Forks.

    /// A fork was added while none is shown, or they come slowly, or somebody searches (`forks.rs`, the rules).
    #[cold]
    #[inline(never)]
    pub(crate) fn consider_showing(&self) {
        let forks = &self.forks;
        let is_outermost = forks.shown.get() == 0;
        if is_outermost {
            forks.pace.look_again();
            self.show_oldest();
        }
        let is_fast = forks.pace.step();
        forks.is_quiet.set(is_fast);
        if is_fast {
            if !is_outermost && self.can_show_more() && !self.desk().forks.is_any_left() {
                self.show_oldest();
            }
            return;
        }
        if self.shared.sleep.is_anybody_idle() {
            while self.can_show_more() {
                self.show_oldest();
            }
        }
        if self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }

    /// Whether others can take something from this thread; if not, but there is a fork that was not shown, it is.
    pub(crate) fn has_offer(&self) -> bool {
        if self.desk().forks.is_any_left() {
            return true;
        }
        let can_show = self.can_show_more();
        if can_show {
            self.show_oldest();
            if self.shared.sleep.would_wake() {
                self.shared.wake_one();
            }
        }
        can_show
    }

    fn can_show_more(&self) -> bool {
        self.forks.shown.get() < self.forks.len.get().min(SHOWN_MAX)
    }

    /// Shows the oldest fork that is not shown.
    fn show_oldest(&self) {
        let place = self.forks.shown.get();
        self.desk().counters.offered.add(1);
        self.desk().forks.show(place, self.forks.at(place));
        self.forks.shown.set(place + 1);
    }

    /// xorshift (Marsaglia 2003): fit for choosing a victim.
    pub(crate) fn next_random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }
}

impl Lane {
    /// Runs what is queued if the pool has gone, and its last thread, too. Three may be the last to come by: the pool, a
    /// worker that ends, and a thread that leaves tasks behind. Each says so by an exchange, or under a lock, and then looks
    /// at what the other two have said: so the one who is really the last finds the tasks.
    pub(crate) fn run_what_came_last(&self) {
        if self.shared.has_ended_by_now() && self.shared.alive_count() == 0 {
            while self.run_one_left() {}
        }
    }

    /// Leaves what is queued here to the workers.
    fn leave_tasks(&self) {
        let ring = &self.desk().ring;
        if ring.is_empty() {
            return;
        }
        // ORDER: Release; as in `set_at_work`, before anything leaves the ring: `is_idle` sees it there, or sees this.
        self.desk().is_guest_at_work.store(true, Ordering::Release);
        let left: Vec<SlotRef> = std::iter::from_fn(|| ring.pop()).map(SlotRef::from_entry).collect();
        self.shared.injector.push(crate::Priority::Normal, left.into_iter());
        if self.shared.injector.bell.ring() {
            self.shared.wake_one();
        }
        self.run_what_came_last();
        // ORDER: Release; publishes the end of what was run.
        self.desk().is_guest_at_work.store(false, Ordering::Release);
    }
}

impl Drop for Lane {
    /// Gives everything back: the ends counted, the tasks, the slots, the desk, the home.
    fn drop(&mut self) {
        self.tell_tally();
        self.leave_tasks();
        let len = self.free.len.replace(0);
        self.shared.slots.give_back(self.free.slots[..len].iter().map(Cell::get));
        self.desk().give_to(None);
        // The first desks belong to the workers of these numbers.
        if self.index as usize >= self.shared.config.threads {
            self.shared.give_desk_back(self.index);
        }
        // SAFETY: this is the lane's own home, and the lane goes.
        unsafe { Home::detach(self.home, self.held.get()) };
    }
}
