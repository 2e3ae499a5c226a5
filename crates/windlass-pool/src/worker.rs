//! The one loop: find work, do it (`run.rs`), or sleep. Waiting (`wait.rs`) is the same loop with an end.
//!
//! A worker looks for work in this order: high tasks; its own ring, the youngest first; the injector; the forks and the
//! rings of the others, the oldest first, beginning at a random one; low tasks. Every [`FAIRNESS`]th time it begins at
//! the other end, so that neither old nor low tasks wait for ever behind a worker that feeds itself. From a long ring it
//! takes half, up to [`STEAL_MAX`]: flat work spreads in few steps; short rings are the sign of recursive work, where
//! the oldest task is the largest and one is enough.

use std::time::Duration;

use crate::forks::ForkHead;
use crate::lane::{self, Lane, Pin, Role};
use crate::ring::Steal;
use crate::shared::{SharedRef, flag};
use crate::sleep::{NAP_MAX, NAP_MIN, WAKE_WORTH};
use crate::slot::{Priority, SlotRef};
use crate::stop::Look;
use crate::sync::{Instant, park_timeout, spin_loop, thread};

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

/// Rests that are proper sleeps after somebody has waited who runs nothing himself.
const SLEEPS_WHEN_NEEDED: u32 = 256;
/// A queue that stays the same for so long is one whose owner is away.
const STILL_TIME: Duration = Duration::from_micros(2);

/// How long after it went to sleep a worker looks for the last time (`sleep.rs`, pushes without a bell).
const LAST_LOOK: Duration = Duration::from_millis(2);

/// Looks between two readings of the clock, while searching.
pub(crate) const LOOKS_PER_READING: u32 = 8;

/// Something to do.
pub(crate) enum Work {
    /// The entry of a task, or of a segment of a plan.
    Task(SlotRef),
    /// The second half of a join, and the desk of the thread that waits for it.
    Fork { fork: *const ForkHead, owner: u32 },
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
    pub(crate) fn find_anything(&self) -> Option<Work> {
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

    pub(crate) fn begin_searching(&self) {
        if !self.is_searching.replace(true) {
            self.shared.sleep.begin_search();
        }
    }

    /// Something was found: if this was the last searcher, somebody else looks for what else there may be. A pusher that
    /// saw a searcher woke nobody, and relies on this.
    pub(crate) fn found(&self) {
        if self.is_searching.replace(false) && self.shared.sleep.end_search() {
            self.shared.pass_bells();
            if self.shared.has_work() {
                self.shared.wake_one();
            }
        }
    }

    pub(crate) fn stop_searching(&self) {
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
    pub(crate) fn sleep_unless(&self, is_wanted: impl Fn() -> bool, timeout: Option<Duration>) {
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
}
