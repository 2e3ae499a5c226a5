//! The one loop: find work, do it, or sleep. Waiting is the same loop with an end.
//!
//! A worker looks for work in this order: high tasks; its own ring, the youngest first; the injector; the forks and the
//! rings of the others, the oldest first, beginning at a random one; low tasks. Every [`FAIRNESS`]th time it begins at
//! the other end, so that neither old nor low tasks wait for ever behind a worker that feeds itself. From a long ring it
//! takes half, up to [`STEAL_MAX`]: flat work spreads in few steps; short rings are the sign of recursive work, where
//! the oldest task is the largest and one is enough.
//!
//! # Waiting
//! Who waits for something (a task, a fork, a scope) does not stand still:
//! 1. It runs what the task in hand has put into its own ring: its descendants.
//! 2. A worker, and any thread inside a join, a scope or a loop, runs anything else, but only [`HELP_DEPTH_MAX`] deep:
//!    each level costs the stack of one task. Another thread that waits for a task takes forks only, which belong to
//!    joins somebody waits for; a task of somebody else might keep it for hours.
//! 3. It sleeps. Beyond that depth, and inside `isolate`, a worker does not announce itself as a sleeper, because it
//!    could not run what it was woken for. Beyond that depth it runs one foreign task each millisecond: all the others
//!    may be as deep, and what they wait for lie in their rings.

use std::time::Duration;

use crate::continuation::{Ending, end_closure, end_everything};
use crate::forks::ForkHead;
use crate::graph::Segment;
use crate::lane::{self, Lane, Pin, Role};
use crate::ring::Steal;
use crate::shared::{SharedRef, flag};
use crate::sleep::{NAP_MAX, NAP_MIN, WAKE_WORTH};
use crate::slot::{Entered, Finish, Priority, Slot, SlotRef};
use crate::stop::Look;
use crate::sync::{Instant, Ordering, compiler_fence, park_timeout, spin_loop, thread};

/// Tasks of others run inside each other's waits, at most. Each level costs the stack of one task.
pub(crate) const HELP_DEPTH_MAX: u32 = 16;

/// Of so many looks for a task, one begins at the other end.
const FAIRNESS: u32 = 61;

/// Tasks taken from another ring at a time, at most.
const STEAL_MAX: usize = 64;
/// A ring shorter than this gives one task at a time.
const FLAT_LEN: usize = 8;

/// Steals that are judged together, and what each, and each task of it, should bring at least: less, and both sides lose
/// by the lines that travel between their cores.
const STEALS_JUDGED: u32 = 16;
const STEAL_WORTH: Duration = Duration::from_micros(2);
const TASK_WORTH: Duration = Duration::from_nanos(60);

/// How long one who waits looks again at least, before it sleeps: a third of what it costs to be woken.
const WAIT_SPIN: Duration = Duration::from_micros(2);

/// Descendants that are run in a row inside a scope or a join.
const DESCENDANTS_MAX: usize = 32;

/// Rests that are proper sleeps after somebody has waited who runs nothing himself.
const SLEEPS_WHEN_NEEDED: u32 = 256;
/// A queue that stays the same for so long is one whose owner is away.
const STILL_TIME: Duration = Duration::from_micros(2);

/// How long after it went to sleep a worker looks for the last time (`sleep.rs`, pushes without a bell).
const LAST_LOOK: Duration = Duration::from_millis(2);

/// How long a thread sleeps that might not be woken for what it waits for, before it looks by itself.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long a thread that waits too deep to help sleeps before it helps all the same.
const STALL: Duration = Duration::from_millis(1);

/// Looks between two readings of the clock, while searching.
const LOOKS_PER_READING: u32 = 8;

/// Something to do.
pub(crate) enum Work {
    /// The entry of a task, or of a segment of a plan.
    Task(SlotRef),
    /// The second half of a join, and the desk of the thread that waits for it.
    Fork { fork: *const ForkHead, owner: u32 },
}

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

/// What a worker knows of its own usefulness (`sleep.rs`, naps).
struct Rest {
    /// Since when it is judged.
    since: Instant,
    /// Steals since then.
    steals: u32,
    /// Tasks stolen in all, then.
    stolen: u64,
    /// The work in hand was stolen.
    has_stolen: bool,
    /// The nap before; nothing after a proper sleep.
    nap: Duration,
    /// What had been offered when it last rested.
    offered: u64,
    /// So many rests are to be proper sleeps: somebody who runs nothing himself has waited.
    sleeps: u32,
}

impl Rest {
    fn new(offered: u64) -> Rest {
        Rest { since: Instant::now(), steals: 0, stolen: 0, has_stolen: false, nap: Duration::ZERO, offered, sleeps: 0 }
    }

    /// A new judgement begins.
    fn begin(&mut self, now: Instant, stolen: u64) {
        (self.since, self.steals, self.stolen) = (now, 0, stolen);
    }

    /// Whether the time since the judgement began was worth a price, and what its steals cost.
    fn was_worth(&self, price: Duration, now: Instant, stolen: u64) -> bool {
        let tasks = stolen.wrapping_sub(self.stolen) as u32;
        now.duration_since(self.since) >= price + STEAL_WORTH * self.steals + TASK_WORTH * tasks
    }

    /// Another steal, with so many tasks stolen in all. Answers whether the last ones brought so little that those stolen
    /// from were better left alone.
    fn is_stealing_in_vain(&mut self, stolen: u64) -> bool {
        self.steals += 1;
        if self.steals < STEALS_JUDGED {
            return false;
        }
        let now = Instant::now();
        let was_worth = self.was_worth(Duration::ZERO, now, stolen);
        self.begin(now, stolen);
        if was_worth {
            self.nap = Duration::ZERO;
        }
        !was_worth
    }

    /// A nap twice as long as the one before.
    fn longer_nap(&mut self) -> Duration {
        self.nap = (self.nap * 2).clamp(NAP_MIN, NAP_MAX);
        self.nap
    }
}

/// The life of a worker thread.
pub(crate) fn main(shared: &SharedRef, number: u32, is_spare: bool) {
    let Some(lane) = lane::attach(shared, number, Role::Worker) else {
        return;
    };
    // SAFETY: the lane is given back below, by this thread.
    let lane = unsafe { &*lane };
    let pin = Pin::on(lane);
    let mut rest = Rest::new(shared.offered_count());
    while let Some(work) = lane.next_work(&mut rest, is_spare) {
        lane.run(work);
    }
    drop(pin);
    lane::detach(shared);
}

impl Lane {
    /// The next work, sleeping until there is some. `None` when this thread is to end.
    fn next_work(&self, rest: &mut Rest, is_spare: bool) -> Option<Work> {
        let mut is_in_vain =
            std::mem::take(&mut rest.has_stolen) && rest.is_stealing_in_vain(self.desk().counters.stolen.get());
        loop {
            if is_spare && self.shared.blocking.retire_spare() {
                self.stop_searching();
                self.shared.wake_one();
                return None;
            }
            match self.shared.stop_sign.look(|| self.find(rest, std::mem::take(&mut is_in_vain))) {
                Look::Found(work) => {
                    self.found();
                    return Some(work);
                }
                Look::Nothing => {
                    self.stop_searching();
                    self.rest(rest);
                }
                Look::End => {
                    self.stop_searching();
                    return None;
                }
            }
        }
    }

    /// What is at hand, or else with others; between the two a nap, if stealing has been in vain.
    fn find(&self, rest: &mut Rest, is_in_vain: bool) -> Option<Work> {
        let near = self.find_near();
        if near.is_some() {
            return near;
        }
        if is_in_vain {
            self.stop_searching();
            self.nap(rest);
        }
        let stolen = self.search(rest);
        rest.has_stolen = stolen.is_some();
        stolen
    }

    /// What is at hand, in order.
    fn find_near(&self) -> Option<Work> {
        let injector = &self.shared.injector;
        let turn = self.turn.get().wrapping_add(1);
        self.turn.set(turn);
        if turn.is_multiple_of(FAIRNESS)
            && let Some(slot) = self.find_from_behind()
        {
            return Some(Work::Task(slot));
        }
        let ring = &self.desk().ring;
        let found = injector
            .pop(Priority::High)
            .or_else(|| ring.pop().map(SlotRef::from_entry))
            .or_else(|| injector.pop(Priority::Normal));
        if found.is_none() {
            // Nothing of one's own is left: what was counted here may be what others wait for.
            self.tell_tally();
            return ring.pop().map(|entry| Work::Task(SlotRef::from_entry(entry)));
        }
        found.map(Work::Task)
    }

    /// What is at hand, or with others, or low.
    fn find_anything(&self) -> Option<Work> {
        self.find_near().or_else(|| self.find_elsewhere())
    }

    /// What others have, or what is low: one look.
    fn find_elsewhere(&self) -> Option<Work> {
        self.steal().or_else(|| self.shared.injector.pop(Priority::Low).map(Work::Task))
    }

    fn find_from_behind(&self) -> Option<SlotRef> {
        let injector = &self.shared.injector;
        let oldest = || match self.desk().ring.steal() {
            Steal::Got(entry) => Some(SlotRef::from_entry(entry)),
            Steal::Empty | Steal::Lost => None,
        };
        injector.pop(Priority::Low).or_else(|| injector.pop(Priority::Normal)).or_else(oldest)
    }

    /// Looks at the others: once, or for as long as the pool lets workers look, if something is likely to come. That time
    /// is not judged.
    fn search(&self, rest: &mut Rest) -> Option<Work> {
        self.begin_searching();
        let was_needed = self.shared.sleep.take_was_needed();
        if was_needed {
            rest.sleeps = SLEEPS_WHEN_NEEDED;
        }
        let is_promising = was_needed || self.shared.is_anybody_joining();
        let limit = if is_promising { self.shared.spin } else { Duration::ZERO };
        let (mut began, mut looked) = (None, None);
        loop {
            for look in 0..LOOKS_PER_READING {
                let found = self.find_elsewhere();
                if found.is_some() {
                    return found;
                }
                if limit.is_zero() {
                    return None;
                }
                // Seldomer and seldomer: every look takes a line away from the one who is looked at.
                (0..1 << look.min(5)).for_each(|_| spin_loop());
            }
            let now = Instant::now();
            let began = *began.get_or_insert(now);
            rest.since += now.duration_since(*looked.get_or_insert(began));
            looked = Some(now);
            if self.shared.is_stopping() || now.duration_since(began) >= limit {
                return None;
            }
        }
    }

    fn begin_searching(&self) {
        if !self.is_searching.replace(true) {
            self.shared.sleep.begin_search();
        }
    }

    /// Something was found: if this was the last searcher, somebody else looks for what else there may be. A pusher that
    /// saw a searcher woke nobody, and relies on this.
    fn found(&self) {
        if self.is_searching.replace(false) && self.shared.sleep.end_search() {
            self.shared.pass_bells();
            if self.shared.has_work() {
                self.shared.wake_one();
            }
        }
    }

    fn stop_searching(&self) {
        if self.is_searching.replace(false) {
            self.shared.sleep.end_search();
        }
    }

    /// Takes from others.
    fn steal(&self) -> Option<Work> {
        let count = self.shared.desk_count();
        let first = (self.next_random() % u64::from(count)) as u32;
        (first..count).chain(0..first).filter(|index| *index != self.index).find_map(|index| self.steal_from(index))
    }

    fn steal_from(&self, index: u32) -> Option<Work> {
        let desk = self.shared.desk(index);
        if let Some(fork) = desk.forks.steal() {
            self.desk().counters.stolen.add(1);
            return Some(Work::Fork { fork, owner: index });
        }
        for _ in 0..LOOKS_PER_READING {
            match desk.ring.steal() {
                Steal::Got(entry) => {
                    self.steal_more(index);
                    return Some(Work::Task(SlotRef::from_entry(entry)));
                }
                Steal::Empty => return None,
                Steal::Lost => spin_loop(),
            }
        }
        None
    }

    /// Takes half of what is left in a long ring.
    fn steal_more(&self, index: u32) {
        let ring = &self.shared.desk(index).ring;
        let len = ring.len();
        let wanted = if len < FLAT_LEN { 0 } else { (len / 2).min(STEAL_MAX - 1) };
        let steal = || match ring.steal() {
            Steal::Got(entry) => Some(entry),
            Steal::Empty | Steal::Lost => None,
        };
        let prefetch = |entry: &usize| SlotRef::from_entry(*entry).prefetch();
        let taken = self.desk().ring.push_many(std::iter::from_fn(steal).take(wanted).inspect(prefetch));
        self.desk().counters.stolen.add(taken as u64 + 1);
    }

    // Rest.

    fn rest(&self, rest: &mut Rest) {
        let offered = self.shared.offered_count();
        let was_offered = std::mem::replace(&mut rest.offered, offered) != offered;
        let stolen = self.desk().counters.stolen.get();
        if was_offered && rest.sleeps == 0 && !rest.was_worth(WAKE_WORTH, Instant::now(), stolen) {
            self.nap(rest);
        } else {
            rest.nap = Duration::ZERO;
            rest.sleeps = rest.sleeps.saturating_sub(1);
            let _resting = self.shared.begin_rest();
            self.sleep_unless(|| self.shared.has_work() || self.shared.is_stopping(), None);
        }
        rest.begin(Instant::now(), stolen);
    }

    fn nap(&self, rest: &mut Rest) {
        let length = rest.longer_nap();
        if !self.shared.sleep.begin_nap(self.index) {
            return;
        }
        if !self.shared.is_stopping() {
            park_timeout(length);
        }
        self.shared.sleep.end_nap(self.index);
        if self.is_anything_lying() {
            rest.sleeps = SLEEPS_WHEN_NEEDED;
        }
    }

    /// Whether there is a queue in which nothing moves for a moment.
    fn is_anything_lying(&self) -> bool {
        let look = |index: u32| {
            let desk = self.shared.desk(index);
            (desk.ring.len(), desk.counters.run.get(), desk.counters.offered.get())
        };
        let is_still = |index: u32| {
            let before = look(index);
            let began = Instant::now();
            while before.0 > 0 && look(index) == before {
                if began.elapsed() >= STILL_TIME {
                    return true;
                }
                spin_loop();
            }
            false
        };
        self.shared.injector.len() > 0 || (0..self.shared.desk_count()).any(is_still)
    }

    /// Announce, pass the bells, look again, park (`sleep.rs`, S1 to S4): for at most `timeout`, or, without one, until
    /// somebody wakes it, with a last look after a while.
    fn sleep_unless(&self, is_wanted: impl Fn() -> bool, timeout: Option<Duration>) {
        let sleep = &self.shared.sleep;
        sleep.announce(self.index);
        self.shared.pass_bells();
        // The control of the schedules (`shuttle_tests`) looks no more, neither now nor later.
        if cfg!(windlass_weaken = "look") || !is_wanted() {
            // Only one who rests tells: one who waits may be a watcher itself, and would wake itself, or another one who
            // waits, and be woken by it, without end.
            let is_watched = self.shared.flags() & (flag::WATCHED | flag::WATCHED_FOR_QUIET) != 0;
            if is_watched && self.calls.get() == 0 {
                self.shared.tell_watchers();
            }
            self.desk().counters.parked.add(1);
            park_timeout(timeout.unwrap_or(LAST_LOOK));
            // The last look, still announced: what was pushed without a bell has long arrived.
            let looks_no_more = cfg!(windlass_weaken = "look");
            if timeout.is_none() && sleep.is_listed(self.index) && (looks_no_more || !is_wanted()) {
                thread::park();
            }
        }
        if sleep.give_up(self.index) {
            // Whoever woke it has counted it as a searcher.
            self.is_searching.set(true);
            self.desk().counters.woken.add(1);
        }
    }

    // Running.

    pub(crate) fn run(&self, work: Work) {
        match work {
            Work::Task(slot) => self.run_entry(slot),
            Work::Fork { fork, owner } => self.run_fork(fork, owner),
        }
    }

    fn run_fork(&self, fork: *const ForkHead, owner: u32) {
        // Nobody knows how long it takes.
        self.tell_tally();
        self.enter_call();
        // SAFETY: it was taken off its cell, so nobody else runs it, and its owner waits for its end.
        let head = unsafe { &*fork };
        // SAFETY: as above.
        unsafe { (head.run)(fork, self) };
        self.leave_call();
        self.desk().counters.run.add(1);
        if head.state.end() {
            self.shared.desk(owner).unpark();
        }
    }

    /// User code is about to run on this lane.
    #[inline]
    pub(crate) fn enter_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    #[inline]
    pub(crate) fn leave_call(&self) {
        let calls = self.calls.get() - 1;
        self.calls.set(calls);
        // What an outside thread pushed without ringing, because it was busy with the pool, it may now leave behind.
        if calls == 0 && self.role == Role::Guest && !self.desk().ring.is_empty() {
            self.ring_bell();
        }
    }

    /// The entry of a task came out of a queue.
    #[inline]
    pub(crate) fn run_entry(&self, slot: SlotRef) {
        if let Some(segment) = slot.as_segment() {
            return self.run_segment(segment);
        }
        // SAFETY: the pool outlives its lanes.
        let slot = unsafe { slot.get() };
        match slot.state.enter() {
            Entered::Alone if slot.state.is_plain() && self.shared.flags() & flag::CLOSELY == 0 => self.run_plain(slot),
            Entered::Alone => {
                let is_mine = slot.state.claim_alone();
                debug_assert!(is_mine, "the entry found the task queued, and nobody has the handle");
                self.run_claimed(slot);
            }
            Entered::Shared => self.run_claimed(slot),
            Entered::Spent => {}
            Entered::SpentLast => self.free_slot(slot),
        }
    }

    /// The entry of a segment came out of a queue.
    fn run_segment(&self, segment: *const Segment) {
        self.enter_call();
        let floor = self.floor.replace(self.desk().ring.tail());
        // SAFETY: it came out of a queue.
        unsafe { Segment::run(segment, self) };
        self.restore_floor(floor);
        self.leave_call();
        if self.shared.flags() & flag::WATCHED != 0 {
            self.shared.tell_watchers();
        }
    }

    /// Runs a task that nobody has the handle of, and nothing is attached to: nearly all are like this.
    #[inline]
    fn run_plain(&self, slot: &Slot) {
        // SAFETY: the entry gave us the slot, and nobody else knows it.
        let head = unsafe { &*slot.head.get() };
        let parent = head.parent;
        self.begin_of(parent);
        let floor = self.enter_task(slot);
        // SAFETY: the storage holds the closure of this table, and it is ours.
        let panic = unsafe { (head.vtable.run_alone)(slot.storage()) };
        self.leave_task(floor);
        self.free_slot(slot);
        if let Some(panic) = panic {
            self.tell_panic(panic);
        }
        self.count_end_of(parent);
    }

    /// Runs a claimed task on this thread, whoever it is, and sees to its end.
    pub(crate) fn run_claimed(&self, slot: &Slot) {
        let flags = self.shared.flags();
        if flags & flag::CANCEL != 0 {
            return self.cancel_claimed(slot);
        }
        // SAFETY: the claim made the closure ours. The table was written before the task was scheduled.
        let head = unsafe { &*slot.head.get() };
        self.begin_of(head.parent);
        let span = (flags & flag::TRACE != 0).then(|| self.desk().trace.begin((head.vtable.name)().into()));
        let floor = self.enter_task(slot);
        // SAFETY: as above.
        unsafe { (head.vtable.run)(slot.storage()) };
        self.leave_task(floor);
        if let Some(span) = span {
            self.desk().trace.end(span);
        }
        self.end_body(slot);
    }

    /// Runs a task that the caller has the entry and the only handle of, for its outcome. Answers whether that is there:
    /// children may keep the task open.
    #[inline]
    pub(crate) fn run_for_outcome(&self, slot: &Slot) -> bool {
        if !slot.state.is_plain() || self.shared.flags() & flag::CLOSELY != 0 {
            self.run_claimed(slot);
            return slot.state.is_done();
        }
        // SAFETY: nobody else knows the slot.
        let head = unsafe { &*slot.head.get() };
        let parent = head.parent;
        self.begin_of(parent);
        let floor = self.enter_task(slot);
        // SAFETY: the storage holds the closure of this table, and it is ours.
        unsafe { (head.vtable.run)(slot.storage()) };
        self.leave_task(floor);
        self.count_end_of(parent);
        true
    }

    /// Drops the closure of a claimed task unrun, and sees to its end.
    pub(crate) fn cancel_claimed(&self, slot: &Slot) {
        // SAFETY: the claim made the closure ours.
        let head = unsafe { &*slot.head.get() };
        // SAFETY: the storage holds the closure of this table.
        unsafe { (head.vtable.cancel)(slot.storage()) };
        self.end_body(slot);
    }

    #[inline]
    fn enter_task(&self, slot: &Slot) -> u64 {
        #[cfg(debug_assertions)]
        self.under_way.borrow_mut().push(slot.id());
        #[cfg(not(debug_assertions))]
        let _ = slot;
        self.enter_call();
        self.floor.replace(self.desk().ring.tail())
    }

    #[inline]
    fn leave_task(&self, floor: u64) {
        self.restore_floor(floor);
        self.leave_call();
        self.desk().counters.run.add(1);
        if self.shared.flags() & flag::WATCHED != 0 {
            self.shared.tell_watchers();
        }
        #[cfg(debug_assertions)]
        self.under_way.borrow_mut().pop();
    }

    /// The closure has ended; so has the task, unless children keep it open.
    fn end_body(&self, slot: &Slot) {
        if let Some(ending) = end_closure(slot) {
            self.see_to(slot, ending);
        }
    }

    /// The end of a task: its outcome is there, and the caller has counted the last of those out that kept it open.
    pub(crate) fn complete(&self, slot: &Slot) {
        self.see_to(slot, end_everything(slot));
    }

    /// A task has ended, and its slot may be gone, unless it is an orphan's.
    #[inline]
    fn see_to(&self, slot: &Slot, ending: Ending) {
        match ending.finish {
            Finish::Handed => {
                if ending.has_waker
                    && let Err(panic) = crate::panic::catch(|| self.shared.wakers.wake(ending.id))
                {
                    // Nobody who waits may be unwound through: the hook is told instead.
                    self.tell_panic(panic);
                }
                if let Some(desk) = ending.waiter {
                    self.shared.desk(desk).unpark();
                }
            }
            Finish::Orphaned => self.discard(slot),
            Finish::Open => unreachable!("a task was ended that others keep open"),
        }
        self.release(ending.edges);
        self.count_end_of(ending.parent);
    }

    /// Drops the outcome of a task nobody waits for, tells the hook of its panic, and gives up the slot.
    pub(crate) fn discard(&self, slot: &Slot) {
        // SAFETY: the task has ended, and the outcome is the caller's.
        let head = unsafe { &*slot.head.get() };
        // SAFETY: the task has run: the storage holds the outcome of this table's closure.
        let panic = unsafe { (head.vtable.drop_outcome)(slot.storage()) };
        if slot.state.leave() {
            self.free_slot(slot);
        }
        if let Some(panic) = panic {
            self.tell_panic(panic);
        }
    }

    #[cold]
    pub(crate) fn tell_panic(&self, panic: Box<dyn std::any::Any + Send>) {
        if panic.is::<crate::cancel::Cancelled>() {
            return;
        }
        crate::panic::tell_hook(&self.shared.config.panic_hook, panic);
    }

    // Pushing.

    /// Puts the entry of a queued task where it will be found, by this thread if by nobody else: it comes back to its ring
    /// before it leaves the pool.
    #[inline]
    pub(crate) fn push(&self, slot: &Slot) {
        if self.place(slot) {
            self.announce_push();
        }
    }

    /// Puts the entry of a queued task where it will be found, even if this thread should block, or never come back.
    #[inline]
    pub(crate) fn push_for_others(&self, slot: &Slot) {
        if self.place(slot) {
            self.ring_bell();
        }
    }

    /// Puts an entry into the ring. `false` if it went elsewhere, and whoever is to know of it does.
    #[inline]
    fn place(&self, slot: &Slot) -> bool {
        if self.shared.flags() & flag::DETERMINISTIC != 0 || slot.state.priority() != Priority::Normal {
            self.push_elsewhere(slot);
            return false;
        }
        self.offer(SlotRef::of(slot));
        true
    }

    #[inline]
    fn offer(&self, entry: SlotRef) {
        self.desk().ring.push(entry.to_entry());
        self.desk().counters.offered.add(1);
    }

    /// Puts a segment where it will be found, by this thread if by nobody else.
    #[inline]
    pub(crate) fn push_entry(&self, entry: SlotRef) {
        if let Some(queue) = &self.shared.deterministic {
            return queue.push(entry);
        }
        self.offer(entry);
        self.announce_push();
    }

    /// Puts the entries of several queued tasks of normal priority into the ring, and shows them at once.
    pub(crate) fn push_many(&self, slots: impl Iterator<Item = SlotRef>) {
        if let Some(queue) = &self.shared.deterministic {
            return slots.for_each(|slot| queue.push(slot));
        }
        let count = self.desk().ring.push_many(slots.map(SlotRef::to_entry));
        self.desk().counters.offered.add(count as u64);
        self.ring_bell();
    }

    #[cold]
    fn push_elsewhere(&self, slot: &Slot) {
        if let Some(queue) = &self.shared.deterministic {
            return queue.push(SlotRef::of(slot));
        }
        self.shared.injector.push(slot.state.priority(), std::iter::once(SlotRef::of(slot)));
        self.desk().counters.offered.add(1);
        if self.shared.injector.bell.ring() || self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }

    #[inline]
    fn announce_push(&self) {
        // The compiler must not move the look before the push; that the processor may is accepted where the thread runs
        // its tasks itself, and ruled out by the bell where it may not.
        compiler_fence(Ordering::SeqCst);
        if self.role == Role::Guest && self.calls.get() == 0 {
            self.ring_bell();
        } else if self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }

    #[inline]
    fn ring_bell(&self) {
        // Not `||` in the other order: the bell must be rung.
        if self.desk().bell.ring() || self.shared.sleep.would_wake() {
            self.shared.wake_one();
        }
    }

    // Waiting.

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
                spin = self.spin();
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
                (spin, nap) = (self.spin(), NAP_MIN);
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
    began: Option<Instant>,
    looks: u32,
}

impl Spin {
    pub(crate) fn new(limit: Duration) -> Spin {
        Spin { limit, began: None, looks: 0 }
    }

    /// Whether to look once more; lets a moment pass.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.looks += 1;
        if self.limit.is_zero() {
            return false;
        }
        spin_loop();
        if !self.looks.is_multiple_of(LOOKS_PER_READING) {
            return true;
        }
        self.began.get_or_insert_with(Instant::now).elapsed() < self.limit
    }
}
