//! Exact counts: for every job of a run, what happened to it.
//!
//! The ids of a run's jobs share their first eight bytes, and the last four are the job's number. So an id is enough to
//! find the job's mark, and a million jobs are judged with a megabyte. What two processes saw is added up mark by
//! mark.
//!
//! ```text
//! bit 0    the push was begun        bits 2, 3    starts, up to 3
//! bit 1    the push was answered     bits 4, 5    outcomes that the store has taken, up to 3
//!                                    bit 6        the outcome was a failure
//! ```

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use windlass::JobId;

const SENT: u8 = 1;
const ACKNOWLEDGED: u8 = 1 << 1;
const START: u8 = 1 << 2;
const LANDING: u8 = 1 << 4;
const FAILED: u8 = 1 << 6;
/// Starts and outcomes are counted up to this.
const COUNT_MAX: u8 = 3;

/// Names one run of the load test: the first eight bytes of its jobs' ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunId([u8; 8]);

impl RunId {
    /// The run whose first job was made under this id.
    pub(super) fn new(id: JobId) -> RunId {
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&id.as_bytes()[..8]);
        RunId(prefix)
    }

    /// The id of the job with this number.
    pub(super) fn job(self, number: u32) -> JobId {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.0);
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        JobId::from_bytes(bytes)
    }

    /// The number of a job of this run.
    fn number(self, id: JobId) -> Option<u32> {
        let (run, number) = id.as_bytes().split_at(8);
        (run == self.0).then(|| number.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }
}

/// What one process has seen of a run. Shared between threads by reference; loses nothing when dropped.
#[derive(Debug)]
pub(super) struct Ledger {
    run: RunId,
    marks: Vec<AtomicU8>,
    /// Outcomes that the store has taken.
    landed: AtomicU64,
    /// Jobs that this run did not make.
    strangers: AtomicU64,
}

/// What the marks add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Jobs whose push the store has answered.
    pub(super) pushed: u64,
    /// Of these, jobs that ended well, once.
    pub(super) done: u64,
    /// Jobs whose outcome was a failure.
    pub(super) failed: u64,
    /// Jobs that wait in the store still, for the test was interrupted or the queue is paused.
    pub(super) left: u64,
    /// Jobs pushed, not ended, and not in the store any more.
    pub(super) lost: u64,
    /// Jobs started more than once.
    pub(super) duplicated: u64,
    /// Jobs for which the store took more than one outcome.
    pub(super) double_finished: u64,
    /// Jobs that ran though their push had never begun, or that another run made.
    pub(super) ghosts: u64,
}

impl Verdict {
    /// Whether every job that was pushed ran exactly once and ended well.
    pub(super) fn is_clean(&self) -> bool {
        self.done == self.pushed
            && self.failed + self.left + self.lost + self.duplicated + self.double_finished + self.ghosts == 0
    }
}

impl Ledger {
    pub(super) fn new(run: RunId, jobs: u32) -> Ledger {
        let marks = std::iter::repeat_with(AtomicU8::default).take(jobs as usize).collect();
        Ledger { run, marks, landed: AtomicU64::new(0), strangers: AtomicU64::new(0) }
    }

    pub(super) fn note_sent(&self, number: u32) {
        self.change(number, |mark| mark | SENT);
    }

    pub(super) fn note_acknowledged(&self, number: u32) {
        self.change(number, |mark| mark | ACKNOWLEDGED);
    }

    pub(super) fn note_started(&self, id: JobId) {
        match self.run.number(id).filter(|number| (*number as usize) < self.marks.len()) {
            Some(number) => self.change(number, |mark| counted_up(mark, START)),
            None => _ = self.strangers.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Notes that the store has taken an outcome. Answers how many it has taken of this process by now.
    pub(super) fn note_landed(&self, id: JobId, has_failed: bool) -> u64 {
        let failed = if has_failed { FAILED } else { 0 };
        if let Some(number) = self.run.number(id).filter(|number| (*number as usize) < self.marks.len()) {
            self.change(number, |mark| counted_up(mark, LANDING) | failed);
        }
        // ORDER: SeqCst; see `Meter::until_landed`, which waits for this count.
        self.landed.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn landed(&self) -> u64 {
        self.landed.load(Ordering::SeqCst)
    }

    /// Marks and strangers, to be given to another process.
    pub(super) fn export(&self) -> (Vec<u8>, u64) {
        let marks = self.marks.iter().map(|mark| mark.load(Ordering::Relaxed)).collect();
        (marks, self.strangers.load(Ordering::Relaxed))
    }

    /// Adds what another process saw.
    pub(super) fn add(&self, marks: &[u8], strangers: u64) {
        for (number, other) in marks.iter().enumerate() {
            self.change(number as u32, |mark| sum(mark, *other));
        }
        self.strangers.fetch_add(strangers, Ordering::Relaxed);
    }

    /// The jobs that may still be in the store: their push was begun, and no good outcome has been taken.
    pub(super) fn unfinished(&self) -> Vec<JobId> {
        let is_unfinished = |mark: u8| mark & SENT != 0 && (landings(mark) == 0 || mark & FAILED != 0);
        let marks = self.marks.iter().map(|mark| mark.load(Ordering::Relaxed)).enumerate();
        marks.filter(|(_, mark)| is_unfinished(*mark)).map(|(number, _)| self.run.job(number as u32)).collect()
    }

    /// One of the jobs whose outcome was a failure, if there is one.
    pub(super) fn first_failed(&self) -> Option<JobId> {
        let number = self.marks.iter().position(|mark| mark.load(Ordering::Relaxed) & FAILED != 0)?;
        Some(self.run.job(number as u32))
    }

    /// The verdict, given how many jobs that have no outcome are in the store.
    pub(super) fn judge(&self, left: u64) -> Verdict {
        let mut verdict = Verdict { ghosts: self.strangers.load(Ordering::Relaxed), left, ..Verdict::default() };
        let mut silent = 0;
        for mark in self.marks.iter().map(|mark| mark.load(Ordering::Relaxed)) {
            let is_pushed = mark & ACKNOWLEDGED != 0;
            verdict.pushed += u64::from(is_pushed);
            verdict.failed += u64::from(mark & FAILED != 0);
            verdict.duplicated += u64::from(starts(mark) > 1);
            verdict.double_finished += u64::from(landings(mark) > 1);
            verdict.ghosts += u64::from(mark & SENT == 0 && starts(mark) > 0);
            verdict.done += u64::from(is_pushed && landings(mark) == 1 && mark & FAILED == 0);
            silent += u64::from(is_pushed && landings(mark) == 0);
        }
        verdict.lost = silent.saturating_sub(left);
        verdict
    }

    fn change(&self, number: u32, change: impl Fn(u8) -> u8) {
        // ORDER: Relaxed; every mark is its own truth, and all are read after the threads that write have ended.
        let Ok(_) =
            self.marks[number as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mark| Some(change(mark)))
        else {
            unreachable!("a change always answers a mark")
        };
    }
}

fn starts(mark: u8) -> u8 {
    (mark / START) & COUNT_MAX
}

fn landings(mark: u8) -> u8 {
    (mark / LANDING) & COUNT_MAX
}

/// The mark with one of its two counts a step higher, unless it is at its highest.
fn counted_up(mark: u8, unit: u8) -> u8 {
    if (mark / unit) & COUNT_MAX == COUNT_MAX { mark } else { mark + unit }
}

fn sum(one: u8, other: u8) -> u8 {
    let flags = (one | other) & (SENT | ACKNOWLEDGED | FAILED);
    let starts = (starts(one) + starts(other)).min(COUNT_MAX);
    let landings = (landings(one) + landings(other)).min(COUNT_MAX);
    flags | (starts * START) | (landings * LANDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(jobs: u32) -> Ledger {
        Ledger::new(RunId([7; 8]), jobs)
    }

    fn push(ledger: &Ledger, number: u32) {
        ledger.note_sent(number);
        ledger.note_acknowledged(number);
    }

    fn run(ledger: &Ledger, number: u32) {
        ledger.note_started(ledger.run.job(number));
        let _ = ledger.note_landed(ledger.run.job(number), false);
    }

    #[test]
    fn a_run_in_which_everything_went_well_is_clean() {
        let ledger = ledger(3);
        for number in 0..3 {
            push(&ledger, number);
            run(&ledger, number);
        }

        let verdict = ledger.judge(0);

        assert_eq!(verdict, Verdict { pushed: 3, done: 3, ..Verdict::default() });
        assert!(verdict.is_clean());
        assert!(ledger.unfinished().is_empty());
    }

    #[test]
    fn a_job_that_vanished_is_lost_and_one_that_waits_is_left() {
        let ledger = ledger(2);
        push(&ledger, 0);
        push(&ledger, 1);

        assert_eq!((ledger.judge(1).lost, ledger.judge(1).left), (1, 1));
        assert_eq!(ledger.unfinished().len(), 2);
        assert!(!ledger.judge(2).is_clean());
    }

    #[test]
    fn second_starts_and_second_outcomes_are_found_also_when_two_processes_saw_them() {
        let (here, there) = (ledger(1), ledger(1));
        push(&here, 0);
        run(&here, 0);
        run(&there, 0);

        let (marks, strangers) = there.export();
        here.add(&marks, strangers);

        let verdict = here.judge(0);
        assert_eq!((verdict.duplicated, verdict.double_finished, verdict.done), (1, 1, 0));
    }

    #[test]
    fn a_job_that_nobody_pushed_is_a_ghost() {
        let ledger = ledger(2);
        run(&ledger, 1);
        ledger.note_started(RunId([8; 8]).job(0));
        ledger.note_started(ledger.run.job(2));

        assert_eq!(ledger.judge(0).ghosts, 3);
    }

    #[test]
    fn a_failed_job_is_not_done_and_may_be_among_the_dead() {
        let ledger = ledger(1);
        push(&ledger, 0);
        ledger.note_started(ledger.run.job(0));
        assert_eq!(ledger.note_landed(ledger.run.job(0), true), 1);

        let verdict = ledger.judge(0);

        assert_eq!((verdict.failed, verdict.done, verdict.lost), (1, 0, 0));
        assert_eq!(ledger.unfinished(), [ledger.run.job(0)]);
    }

    #[test]
    fn counts_stop_at_their_highest_and_leave_the_other_marks_alone() {
        let mark = (0..9).fold(SENT, |mark, _| counted_up(counted_up(mark, START), LANDING));

        assert_eq!((starts(mark), landings(mark), mark & (SENT | ACKNOWLEDGED | FAILED)), (3, 3, SENT));
        assert_eq!(sum(mark, mark), mark);
    }
}
