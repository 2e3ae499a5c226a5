//! Waiting: the worker's loop with an end.
//!
//! Who waits for something (a task, a fork, a scope) does not stand still:
//! 1. It runs what the task in hand has put into its own ring: its descendants.
//! 2. A worker, and any thread inside a join, a scope or a loop, runs anything else, but only [`HELP_DEPTH_MAX`] deep:
//!    each level costs the stack of one task. Another thread that waits for a task takes forks only, which belong to
//!    joins somebody waits for; a task of somebody else might keep it for hours.
//! 3. It sleeps. Beyond that depth, and inside `isolate`, a worker does not announce itself as a sleeper, because it
//!    could not run what it was woken for. Beyond that depth it runs one foreign task each millisecond: all the others
//!    may be as deep, and what they wait for lie in their rings.

use std::time::Duration;

use crate::lane::{Lane, Role};
use crate::sleep::{NAP_MAX, NAP_MIN};
use crate::slot::SlotRef;
use crate::sync::{Instant, Ordering, park_timeout, spin_loop, thread};
use crate::worker::{LOOKS_PER_READING, Work};

/// Tasks of others run inside each other's waits, at most. Each level costs the stack of one task.
pub(crate) const HELP_DEPTH_MAX: u32 = 16;

/// How long one who waits looks again at least, before it sleeps: a third of what it costs to be woken.
const WAIT_SPIN: Duration = Duration::from_micros(2);

/// Descendants that are run in a row inside a scope or a join.
const DESCENDANTS_MAX: usize = 32;

/// How long a thread sleeps that might not be woken for what it waits for, before it looks by itself.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long a thread that waits too deep to help sleeps before it helps all the same.
const STALL: Duration = Duration::from_millis(1);

/// What one who waits may run meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Help {
    /// As the role of the thread says: a worker anything, others what they have queued, and forks.
    Usual,
    /// Anything: the thread is inside a join, a scope or a loop, and counts as one of the pool's.
    Anything,
    /// Nothing at all.
    Nothing,
}

impl Lane {
    /// Runs other work, or sleeps, until `is_done`. `register` asks to be unparked when that comes, and answers `false`
    /// if it has come already.
    pub(crate) fn wait(&self, help: Help, is_done: impl Fn() -> bool, register: impl Fn() -> bool) {
        if is_done() {
            return;
        }
        self.enter_call();
        let mut is_registered = false;
        let mut spin = self.spin();
        // Inside a scope or a join all descendants must end before it does: no need to look after each of them.
        let count = if help == Help::Anything { DESCENDANTS_MAX } else { 1 };
        while !is_done() {
            if self.help(help, count) {
                spin.begin_again();
                continue;
            }
            self.tell_tally();
            // Those who have forks may show one more.
            if self.may_take_anything(help) {
                self.begin_searching();
            }
            if spin.goes_on() {
                continue;
            }
            if !is_registered {
                is_registered = register();
                // Registered or done: look once more before sleeping.
                continue;
            }
            self.park_while_waiting(help, &is_done);
        }
        self.leave_call();
        self.stop_waiting();
    }

    /// Runs other work, or sleeps, until the predicate holds. What it asks may be changed by anybody, so nobody can
    /// promise to wake this thread: it is unparked when a task has ended, and looks by itself more and more seldom.
    pub(crate) fn wait_until(&self, predicate: &impl Fn() -> bool) {
        // A panic of the predicate ends the wait, and goes on when all that belongs to the wait has been tidied up. It is
        // not asked again: it might say no.
        let panic = std::cell::OnceCell::new();
        let is_over = || {
            panic.get().is_some()
                || crate::panic::catch(predicate).unwrap_or_else(|caught| {
                    let is_first = panic.set(caught).is_ok();
                    debug_assert!(is_first, "it is not asked again");
                    true
                })
        };
        self.run_until(&is_over);
        if let Some(panic) = panic.into_inner() {
            std::panic::resume_unwind(panic);
        }
    }

    fn run_until(&self, predicate: &impl Fn() -> bool) {
        if predicate() {
            return;
        }
        self.enter_call();
        let (mut spin, mut nap) = (self.spin(), NAP_MIN);
        while !predicate() {
            if self.help(Help::Anything, 1) {
                spin.begin_again();
                nap = NAP_MIN;
                continue;
            }
            self.tell_tally();
            if self.may_take_anything(Help::Anything) {
                self.begin_searching();
            }
            if spin.goes_on() {
                continue;
            }
            self.rouse();
            self.shared.add_watcher(thread::current());
            if self.may_take_anything(Help::Anything) {
                self.stop_searching();
                self.sleep_unless(|| predicate() || self.shared.has_work(), Some(nap));
            } else if self.is_at_depth_max(Help::Anything) {
                self.park_at_depth_max(predicate);
            } else if !predicate() {
                park_timeout(nap);
            }
            nap = (nap * 2).min(NAP_MAX);
        }
        self.leave_call();
        self.stop_waiting();
    }

    /// Waits until nothing is queued and nobody runs anything.
    pub(crate) fn wait_idle(&self) {
        loop {
            while self.shared.alive_count() == 0 && self.run_one_left() {}
            self.need_others();
            let mut spin = self.spin();
            while spin.goes_on() && !self.shared.is_idle() {}
            self.shared.add_quiet_watcher(thread::current());
            if self.shared.is_idle() {
                return;
            }
            park_timeout(LOOK_AGAIN);
        }
    }

    /// Runs one task of those left in a pool without threads. `false` if there is none.
    pub(crate) fn run_one_left(&self) -> bool {
        if let Some(queue) = &self.shared.deterministic {
            return self.run_drawn(queue);
        }
        // Before anything is taken out of a queue: as in `help`.
        let was_at_work = self.set_at_work(true);
        let has_run = self.find_anything().map(|work| self.run(work)).is_some();
        self.set_at_work(was_at_work);
        has_run
    }

    fn park_while_waiting(&self, help: Help, is_done: &impl Fn() -> bool) {
        if help == Help::Nothing {
            self.need_others();
        } else {
            self.rouse();
        }
        if self.may_take_anything(help) {
            self.stop_searching();
            self.sleep_unless(|| is_done() || self.shared.has_work(), None);
        } else if !is_done() {
            if self.is_at_depth_max(help) { self.park_at_depth_max(is_done) } else { thread::park() }
        }
    }

    /// Whether nothing but the depth keeps this thread from running foreign tasks.
    fn is_at_depth_max(&self, help: Help) -> bool {
        self.is_free(help) && self.help_depth.get() >= HELP_DEPTH_MAX
    }

    /// If every thread came here, what one waits for could lie in the ring of another, who stole it and has gone deeper
    /// since: none of them would run it, ever. So, after a while, one foreign task is run all the same.
    #[cold]
    fn park_at_depth_max(&self, is_done: &impl Fn() -> bool) {
        park_timeout(STALL);
        if !is_done() {
            let was_at_work = self.set_at_work(true);
            if let Some(work) = self.find_anything() {
                self.run_foreign(work);
            }
            self.set_at_work(was_at_work);
        }
    }

    /// A worker that was woken for work, but goes back to its caller because what it waited for is there, passes the
    /// wake on: the work is still lying there, and the others may all be asleep.
    ///
    /// What it has run meanwhile may be what others wait for, and nobody knows when its caller comes back to the pool.
    fn stop_waiting(&self) {
        self.tell_tally();
        self.found();
    }

    /// This thread waits for what others run: they are not to nap.
    pub(crate) fn need_others(&self) {
        if let Some(napper) = self.shared.sleep.need() {
            self.shared.desk(napper).unpark();
        }
    }

    /// Wakes a napper, if nobody else looks for work.
    fn rouse(&self) {
        if let Some(napper) = self.shared.sleep.rouse() {
            self.shared.desk(napper).unpark();
        }
    }

    /// Whether foreign tasks may be run inside the wait.
    fn may_take_anything(&self, help: Help) -> bool {
        self.is_free(help) && self.help_depth.get() < HELP_DEPTH_MAX
    }

    /// Whether foreign tasks may be run inside the wait, whatever the depth.
    fn is_free(&self, help: Help) -> bool {
        let is_free = match help {
            Help::Nothing => false,
            Help::Usual => self.role == Role::Worker,
            Help::Anything => true,
        };
        is_free && !self.is_isolated.get()
    }

    #[inline(always)]
    fn spin(&self) -> Spin {
        Spin::new(if self.shared.has_processors { self.shared.spin.max(WAIT_SPIN) } else { Duration::ZERO })
    }

    /// Runs a piece of work inside a wait, or so many of the descendants, if there is anything that may be run.
    fn help(&self, help: Help, count: usize) -> bool {
        if let Some(queue) = &self.shared.deterministic {
            return self.run_drawn(queue);
        }
        if help == Help::Nothing {
            return false;
        }
        // Before anything is taken out of a queue: `wait_idle` sees it in the queue, or sees this.
        let was_at_work = self.set_at_work(true);
        let has_helped = self.run_descendants(count) || self.help_others(help);
        self.set_at_work(was_at_work);
        has_helped
    }

    /// Says whether this thread, which is no worker, runs tasks. Answers what it said before.
    pub(crate) fn set_at_work(&self, is_at_work: bool) -> bool {
        if self.role == Role::Worker {
            return false;
        }
        let before = self.desk().is_guest_at_work.load(Ordering::Relaxed);
        // ORDER: Release; published by the pop that follows, and publishes the end of a task.
        self.desk().is_guest_at_work.store(is_at_work, Ordering::Release);
        before
    }

    /// Runs a task of a pool with a seed: whatever the wait, for nobody else will.
    fn run_drawn(&self, queue: &crate::deterministic::Queue) -> bool {
        let was_at_work = self.set_at_work(true);
        let has_run = queue.pop().map(|slot| self.run_entry(slot)).is_some();
        self.set_at_work(was_at_work);
        has_run
    }

    /// The floor of an outer task again; not above the tail, which may have been lowered meanwhile: what is pushed next
    /// would not be taken for a descendant.
    pub(crate) fn restore_floor(&self, floor: u64) {
        let tail = self.desk().ring.tail();
        let is_above = (tail.wrapping_sub(floor) as i64) < 0;
        self.floor.set(if is_above { tail } else { floor });
    }

    fn run_descendants(&self, count: usize) -> bool {
        let ring = &self.desk().ring;
        for done in 0..count {
            let has_some = (ring.tail().wrapping_sub(self.floor.get()) as i64) > 0;
            let Some(entry) = has_some.then(|| ring.pop()).flatten() else {
                return done > 0;
            };
            // It may block: nobody is to count on this thread's looking.
            self.found();
            self.run_entry(SlotRef::from_entry(entry));
        }
        true
    }

    fn help_others(&self, help: Help) -> bool {
        if self.is_isolated.get() || self.help_depth.get() >= HELP_DEPTH_MAX {
            return false;
        }
        let found = if self.may_take_anything(help) { self.find_anything() } else { self.steal_fork() };
        found.map(|work| self.run_foreign(work)).is_some()
    }

    /// Runs work of others inside a wait.
    fn run_foreign(&self, work: Work) {
        self.found();
        self.restore_floor(self.floor.get());
        self.help_depth.set(self.help_depth.get() + 1);
        self.run(work);
        self.help_depth.set(self.help_depth.get() - 1);
    }

    fn steal_fork(&self) -> Option<Work> {
        let count = self.shared.desk_count();
        (0..count).filter(|index| *index != self.index).find_map(|index| {
            let fork = self.shared.desk(index).forks.steal()?;
            Some(Work::Fork { fork, owner: index })
        })
    }
}

/// Looking a little longer before sleeping: for as long as the pool says, by the clock.
pub(crate) struct Spin {
    limit: Duration,
    looks: u32,
    /// When the clock was read first, which was after some looks.
    began: Option<Instant>,
}

impl Spin {
    #[inline(always)]
    pub(crate) fn new(limit: Duration) -> Spin {
        Spin { limit, looks: 0, began: None }
    }

    /// Something has happened: all the time is there again. Cheap, for it comes after every task.
    #[inline(always)]
    fn begin_again(&mut self) {
        self.looks = 0;
    }

    /// Whether to look once more; lets a moment pass.
    pub(crate) fn goes_on(&mut self) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        self.looks += 1;
        spin_loop();
        if !self.looks.is_multiple_of(LOOKS_PER_READING) {
            return true;
        }
        if self.looks == LOOKS_PER_READING {
            self.began = None;
        }
        self.began.get_or_insert_with(Instant::now).elapsed() < self.limit
    }
}
