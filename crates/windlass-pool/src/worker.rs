//! The one loop: find a task, run it, or sleep. Waiting is the same loop with an end.
//!
//! A worker looks for tasks in this order: its own ring, the youngest first; its overflow; the injector; the rings of
//! the others, the oldest first, beginning at a random one. Every [`FAIRNESS`]th time the injector comes first, so that
//! a worker that feeds itself does not keep strangers waiting for ever.
//!
//! A worker that waits for something (a task, a scope) does not stand still: it runs other tasks, [`HELP_DEPTH_MAX`]
//! deep, and sleeps when there are none. Beyond that depth it only sleeps, so that waiting inside waiting cannot eat
//! the stack; it does not announce itself as a sleeper then, because it could not run what it was woken for.
//!
//! A worker that was woken for work, but goes back to its caller because what it waited for is there, passes the wake
//! on: the work is still lying there, and the others may all be asleep.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::config::PoolConfig;
use crate::injector::Injector;
use crate::metrics::Counters;
use crate::ring::{Ring, Steal};
use crate::sleep::Sleep;
use crate::slot::{BATCH_LEN, Finish, Slots, TaskId};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, Thread, lock, thread};
use crate::task::{Task, put_closure};

/// Tasks run inside each other's waits, at most. Each level costs the stack of one task.
const HELP_DEPTH_MAX: u32 = 64;

/// Of so many looks for a task, one begins at the injector.
const FAIRNESS: u32 = 61;

/// Free slots a worker keeps for itself, at most.
const CACHE_LEN_MAX: usize = 4 * BATCH_LEN;

/// What all threads of a pool share.
pub(crate) struct Shared {
    pub(crate) config: PoolConfig,
    pub(crate) slots: Slots,
    injector: Injector,
    pub(crate) sleep: Sleep,
    desks: Box<[Desk]>,
    is_stopping: AtomicBool,
    /// Workers that have not ended.
    alive: Mutex<usize>,
    ended: Condvar,
}

/// What others need of one worker.
struct Desk {
    ring: Ring,
    counters: Counters,
    /// Set when the worker starts, before it announces any sleep.
    thread: OnceLock<Thread>,
}

impl Shared {
    pub(crate) fn new(config: PoolConfig) -> Shared {
        let desk = |_| Desk { ring: Ring::new(), counters: Counters::default(), thread: OnceLock::new() };
        Shared {
            slots: Slots::new(config.slot_count_max),
            injector: Injector::new(),
            sleep: Sleep::new(),
            desks: (0..config.threads).map(desk).collect(),
            is_stopping: AtomicBool::new(false),
            alive: Mutex::new(0),
            ended: Condvar::new(),
            config,
        }
    }

    pub(crate) fn metrics(&self) -> Vec<crate::WorkerMetrics> {
        self.desks.iter().map(|desk| desk.counters.snapshot()).collect()
    }

    /// Lets no more strangers' tasks in, and has the workers end when they find nothing.
    pub(crate) fn stop(&self) {
        self.injector.close();
        // ORDER: Release; pairs with the load in `is_stopping`. The word of `sleep` orders it before the last looks.
        self.is_stopping.store(true, Ordering::Release);
        for sleeper in self.sleep.take_all() {
            self.unpark(sleeper);
        }
    }

    fn is_stopping(&self) -> bool {
        // ORDER: Acquire; pairs with the store in `stop`.
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Counts a worker in, before its thread starts.
    pub(crate) fn count_in(&self) {
        *lock(&self.alive) += 1;
    }

    /// Counts a worker out that has ended, or never started.
    pub(crate) fn count_out(&self) {
        *lock(&self.alive) -= 1;
        self.ended.notify_all();
    }

    /// Waits until every worker has ended, or for `timeout`. Answers how many have not.
    #[cfg(not(loom))]
    pub(crate) fn wait_for_end(&self, timeout: Option<std::time::Duration>) -> usize {
        let alive = lock(&self.alive);
        let some_alive = |alive: &mut usize| *alive > 0;
        match timeout {
            None => *self.ended.wait_while(alive, some_alive).unwrap_or_else(|poisoned| poisoned.into_inner()),
            Some(timeout) => {
                let waited = self.ended.wait_timeout_while(alive, timeout, some_alive);
                *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
            }
        }
    }

    /// Models have no pools.
    #[cfg(loom)]
    pub(crate) fn wait_for_end(&self, _timeout: Option<std::time::Duration>) -> usize {
        *lock(&self.alive)
    }

    fn unpark(&self, worker: usize) {
        self.desks[worker].thread.get().expect("a worker is known before it sleeps").unpark();
    }

    /// Wakes a worker for work that this thread will not run by itself.
    fn wake_one(&self) {
        if let Some(sleeper) = self.sleep.notify() {
            self.unpark(sleeper);
        }
    }

    fn has_work(&self) -> bool {
        !self.injector.is_empty() || self.desks.iter().any(|desk| !desk.ring.is_empty())
    }
}

/// A worker's own things, on its own stack.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    /// What did not fit into the ring. Only this worker takes it; the ring is full then, so thieves have enough.
    overflow: RefCell<VecDeque<u64>>,
    free_slots: RefCell<Vec<u32>>,
    help_depth: Cell<u32>,
    turn: Cell<u32>,
    random: Cell<u64>,
    /// Tasks this thread is in the middle of, the innermost last.
    #[cfg(debug_assertions)]
    under_way: RefCell<Vec<TaskId>>,
}

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// Calls `f` with the worker that this thread is, if it is one of `shared`'s. LZ-10: a worker of another pool is a
/// stranger here.
fn with_worker<R>(shared: &Arc<Shared>, f: impl FnOnce(Option<&Worker>) -> R) -> R {
    let current = CURRENT.with(Cell::get);
    // SAFETY: the pointer is set for exactly as long as the worker lives on this thread's stack (`main`).
    let worker = unsafe { current.as_ref() };
    f(worker.filter(|worker| Arc::ptr_eq(&worker.shared, shared)))
}

/// Whether this thread is a worker of the pool.
pub(crate) fn is_worker_of(shared: &Arc<Shared>) -> bool {
    with_worker(shared, |worker| worker.is_some())
}

/// The life of a worker thread.
pub(crate) fn main(shared: Arc<Shared>, index: usize) {
    /// Counts the worker out however its thread ends.
    struct CountOut(Arc<Shared>);
    impl Drop for CountOut {
        fn drop(&mut self) {
            self.0.count_out();
        }
    }
    let _count_out = CountOut(Arc::clone(&shared));
    let is_first = shared.desks[index].thread.set(thread::current()).is_ok();
    assert!(is_first, "two threads for one worker");
    let worker = Worker {
        index,
        overflow: RefCell::default(),
        free_slots: RefCell::default(),
        help_depth: Cell::new(0),
        turn: Cell::new(0),
        random: Cell::new(0x9E37_79B9_7F4A_7C15 ^ (index as u64 + 1)),
        #[cfg(debug_assertions)]
        under_way: RefCell::default(),
        shared,
    };
    CURRENT.with(|current| current.set(&worker));
    while let Some(id) = worker.next_task() {
        worker.run(id);
    }
    CURRENT.with(|current| current.set(std::ptr::null()));
    worker.shared.slots.give_back(worker.free_slots.borrow_mut().drain(..));
}

impl Worker {
    fn desk(&self) -> &Desk {
        &self.shared.desks[self.index]
    }

    /// The next task, sleeping until there is one. `None` when the pool stops and nothing is left.
    fn next_task(&self) -> Option<TaskId> {
        loop {
            // Read before the look: what was let in before the door was closed is found then.
            let is_stopping = self.shared.is_stopping();
            if let Some(id) = self.find() {
                return Some(id);
            }
            if is_stopping {
                return None;
            }
            self.sleep_unless(|| self.shared.has_work() || self.shared.is_stopping());
        }
    }

    /// Announce, look again, park. Answers whether somebody woke it for work.
    fn sleep_unless(&self, is_wanted: impl Fn() -> bool) -> bool {
        let sleep = &self.shared.sleep;
        sleep.announce(self.index);
        if !is_wanted() {
            self.desk().counters.parked.add_one();
            thread::park();
        }
        let was_woken = sleep.give_up(self.index);
        if was_woken {
            self.desk().counters.woken.add_one();
        }
        was_woken
    }

    fn find(&self) -> Option<TaskId> {
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        let injected_first = if turn.is_multiple_of(FAIRNESS) { self.find_injected() } else { None };
        let found = injected_first
            .or_else(|| self.desk().ring.pop())
            .or_else(|| self.overflow.borrow_mut().pop_front())
            .or_else(|| self.find_injected())
            .or_else(|| self.find_stolen());
        found.map(TaskId::from_bits)
    }

    fn find_injected(&self) -> Option<u64> {
        let (id, has_more) = self.shared.injector.take()?;
        if has_more {
            // One worker is woken for each notice; whoever finds more than it can run wakes the next.
            self.shared.wake_one();
        }
        Some(id)
    }

    fn find_stolen(&self) -> Option<u64> {
        let desks = &self.shared.desks;
        let first = self.next_random() as usize % desks.len();
        for index in (first..desks.len()).chain(0..first).filter(|index| *index != self.index) {
            let ring = &desks[index].ring;
            loop {
                match ring.steal() {
                    Steal::Got(id) => {
                        self.desk().counters.stolen.add_one();
                        if !ring.is_empty() {
                            self.shared.wake_one();
                        }
                        return Some(id);
                    }
                    Steal::Empty => break,
                    Steal::Lost => std::hint::spin_loop(),
                }
            }
        }
        None
    }

    /// xorshift (Marsaglia 2003): fit for choosing a victim.
    fn next_random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }

    /// Runs a task if the id still names one that has not begun.
    fn run(&self, id: TaskId) {
        if self.shared.slots.get(id.index()).state.claim(id) {
            self.run_claimed(id);
        }
    }

    fn run_claimed(&self, id: TaskId) {
        #[cfg(debug_assertions)]
        self.under_way.borrow_mut().push(id);
        run_claimed(&self.shared, id);
        #[cfg(debug_assertions)]
        self.under_way.borrow_mut().pop();
        self.desk().counters.run.add_one();
    }

    fn push(&self, id: TaskId) {
        if let Err(id) = self.desk().ring.push(id.to_bits()) {
            self.overflow.borrow_mut().push_back(id);
        }
        if let Some(sleeper) = self.shared.sleep.notify_own() {
            self.shared.unpark(sleeper);
        }
    }

    /// Runs tasks, or sleeps, until `is_done`. `register` asks to be unparked when that comes, and answers `false` if it
    /// has come already.
    fn wait(&self, is_done: impl Fn() -> bool, register: impl Fn() -> bool) {
        let (mut is_registered, mut was_woken) = (false, false);
        while !is_done() {
            let may_help = self.help_depth.get() < HELP_DEPTH_MAX;
            if may_help && let Some(id) = self.find() {
                was_woken = false;
                self.help_depth.set(self.help_depth.get() + 1);
                self.run(id);
                self.help_depth.set(self.help_depth.get() - 1);
                continue;
            }
            if !is_registered {
                is_registered = register();
                // Registered or done: look once more before sleeping.
                continue;
            }
            if may_help {
                was_woken = self.sleep_unless(|| is_done() || self.shared.has_work());
            } else {
                thread::park();
            }
        }
        if was_woken {
            self.shared.wake_one();
        }
    }

    #[cfg(debug_assertions)]
    fn assert_not_under_way(&self, id: TaskId) {
        let is_own = self.under_way.borrow().contains(&id);
        assert!(!is_own, "a task waits for itself, which would never end");
    }
}

/// Runs a claimed task on this thread, whoever it is, and hands its outcome on.
fn run_claimed(shared: &Arc<Shared>, id: TaskId) {
    let slot = shared.slots.get(id.index());
    let body = slot.body.get();
    // SAFETY: the claim made the body ours (slot.rs, table), but for `waiter`, which is not touched here. The table was
    // written with the closure, before the task was queued.
    let vtable = unsafe { (*body).vtable }.expect("a queued slot has a table");
    // SAFETY: as above; the storage holds the closure of this table.
    unsafe { (vtable.run)(&raw mut (*body).storage) };
    let mut waiter = None;
    let finish = slot.state.finish(|is_waiting| {
        if is_waiting {
            // SAFETY: the waiting flag is set and the word does not say done: the waiter has written its thread, and
            // does not touch it before the word says done.
            waiter = unsafe { (*body).waiter.clone() };
        }
    });
    match finish {
        // The slot may be gone from here on.
        Finish::Handed => {
            if let Some(waiter) = waiter {
                waiter.unpark();
            }
        }
        Finish::Orphaned => discard_outcome(shared, id.index()),
    }
}

/// Drops the outcome of a task nobody waits for, tells the hook of its panic, and frees the slot.
pub(crate) fn discard_outcome(shared: &Arc<Shared>, index: u32) {
    let body = shared.slots.get(index).body.get();
    // SAFETY: the task has ended, and the caller is the last who knows the slot (slot.rs, table).
    let body = unsafe { &mut *body };
    body.waiter = None;
    let vtable = body.vtable.expect("a used slot has a table");
    // SAFETY: the task has run: the storage holds the outcome of this table's closure.
    let panic = unsafe { (vtable.drop_outcome)(&raw mut body.storage) };
    free_slot(shared, index);
    if let Some(panic) = panic {
        // A hook that panics itself is not given its own panic: there would be no end to it.
        let _ = crate::panic::catch(|| (shared.config.panic_hook)(panic));
    }
}

/// Frees a slot whose body has been emptied by the caller, the last who knows it.
pub(crate) fn free_slot(shared: &Arc<Shared>, index: u32) {
    shared.slots.get(index).state.free();
    with_worker(shared, |worker| match worker {
        None => shared.slots.give_back(std::iter::once(index)),
        Some(worker) => {
            let mut cache = worker.free_slots.borrow_mut();
            cache.push(index);
            if cache.len() > CACHE_LEN_MAX {
                shared.slots.give_back(cache.drain(..BATCH_LEN));
            }
        }
    });
}

fn take_slot(shared: &Shared, worker: Option<&Worker>) -> Option<u32> {
    let Some(worker) = worker else {
        return shared.slots.take_one();
    };
    let mut cache = worker.free_slots.borrow_mut();
    if cache.is_empty() {
        shared.slots.take(BATCH_LEN, &mut cache);
    }
    cache.pop()
}

/// Puts a closure into a slot and queues it. Gives it back when there is no slot, or no way in.
///
/// # Safety
/// Whatever the closure borrows lives until it has run or been revoked. The value may be sent between threads.
pub(crate) unsafe fn spawn<F: FnOnce() -> T, T>(shared: &Arc<Shared>, f: F) -> Result<Task<T>, F> {
    with_worker(shared, |worker| {
        let Some(index) = take_slot(shared, worker) else {
            return Err(f);
        };
        let slot = shared.slots.get(index);
        // SAFETY: the slot came off the free list, so nobody else knows it, and its body is empty.
        let body = unsafe { &mut *slot.body.get() };
        // SAFETY: as above.
        body.vtable = Some(unsafe { put_closure::<F, T>(&raw mut body.storage, f) });
        let id = slot.state.queue(index);
        let task = Task::in_slot(Arc::clone(shared), id);
        match worker {
            Some(worker) => worker.push(id),
            None => {
                if shared.injector.inject(id.to_bits()).is_err() {
                    // The pool stops. The closure is run where it is, so that what was promised holds.
                    run_or_wait(shared, id);
                } else {
                    shared.wake_one();
                }
            }
        }
        Ok(task)
    })
}

/// Takes back a task that has not begun, drops its closure and frees its slot. `false` if it has.
pub(crate) fn revoke(shared: &Arc<Shared>, id: TaskId) -> bool {
    let slot = shared.slots.get(id.index());
    if !slot.state.claim(id) {
        return false;
    }
    forget_queued(shared, id);
    let body = slot.body.get();
    // SAFETY: the claim made the body ours, and we hold the only handle.
    let body = unsafe { &mut *body };
    let vtable = body.vtable.expect("a queued slot has a table");
    // SAFETY: the task was queued: the storage holds its closure.
    unsafe { (vtable.drop_closure)(&raw mut body.storage) };
    free_slot(shared, id.index());
    true
}

/// Takes the id off this worker's ring if it is the youngest there: then it does not go stale.
fn forget_queued(shared: &Arc<Shared>, id: TaskId) {
    with_worker(shared, |worker| {
        if let Some(worker) = worker {
            worker.desk().ring.pop_if(id.to_bits());
        }
    });
}

/// Runs a task here if it has not begun; otherwise waits until it has ended. The caller holds its handle.
pub(crate) fn run_or_wait(shared: &Arc<Shared>, id: TaskId) {
    let slot = shared.slots.get(id.index());
    with_worker(shared, |worker| {
        #[cfg(debug_assertions)]
        if let Some(worker) = worker {
            worker.assert_not_under_way(id);
        }
        if slot.state.claim(id) {
            forget_queued(shared, id);
            return match worker {
                Some(worker) => worker.run_claimed(id),
                None => run_claimed(shared, id),
            };
        }
        let register = || {
            // SAFETY: the waiter's place is the handle's until the flag is set (slot.rs), and we set it once.
            unsafe { (*slot.body.get()).waiter = Some(thread::current()) };
            slot.state.add_waiter()
        };
        wait_until(worker, || slot.state.is_done(), register);
    });
}

/// Waits until `is_done`, helping if this thread is a worker.
pub(crate) fn wait_for(shared: &Arc<Shared>, is_done: impl Fn() -> bool, register: impl Fn() -> bool) {
    with_worker(shared, |worker| wait_until(worker, is_done, register));
}

fn wait_until(worker: Option<&Worker>, is_done: impl Fn() -> bool, register: impl Fn() -> bool) {
    match worker {
        Some(worker) => worker.wait(is_done, register),
        None => {
            if !is_done() && register() {
                while !is_done() {
                    thread::park();
                }
            }
        }
    }
}
