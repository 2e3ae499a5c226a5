//! The life of a job, as data.
//!
//! [`TRANSITIONS`] says everything that may happen to a job: which event, from which states, to which, and who
//! causes it. Nothing else in the engine decides what may follow what. Stores ask [`State::allows`] before they
//! change a record, the lifecycle tests walk every row and refuse every pair that is not a row, the table in
//! `docs/job_lifecycle.md` is printed from it, and views take their colours from [`State`].
//!
//! A job that does not exist is `None` on either side: `insert` starts from nothing, `delete` and `prune` end in
//! nothing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job stands. Exactly one at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum State {
    /// Waits for its time; the poller makes it ready.
    Scheduled = 0,
    /// May be leased now.
    Ready = 1,
    /// Leased by a member and in its ledger.
    Running = 2,
    /// Failed, and waits for its next attempt.
    Retry = 3,
    /// Succeeded; kept for its retention only.
    Done = 4,
    /// Given up, or put aside by hand; kept for people to look at.
    Dead = 5,
    /// Called off before it ran to its end.
    Cancelled = 6,
}

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [State; 7] =
        [State::Scheduled, State::Ready, State::Running, State::Retry, State::Done, State::Dead, State::Cancelled];

    /// The word used everywhere a person reads: lower case, one word.
    pub const fn name(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Ready => "ready",
            State::Running => "running",
            State::Retry => "retry",
            State::Done => "done",
            State::Dead => "dead",
            State::Cancelled => "cancelled",
        }
    }

    /// The number that stores keep; stable for ever.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The state of a stored number, or `None` for a number no version has written.
    pub fn from_code(code: u8) -> Option<State> {
        State::ALL.into_iter().find(|state| state.code() == code)
    }

    /// Whether the job has ended: nothing but a person (or the pruner) moves it on.
    pub const fn is_final(self) -> bool {
        matches!(self, State::Done | State::Dead | State::Cancelled)
    }

    /// Whether `event` may happen to a job in this state.
    pub fn allows(self, event: Event) -> bool {
        TRANSITIONS.iter().any(|row| row.event == event && row.from.contains(&Some(self)))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown job state {0:?}: use scheduled, ready, running, retry, done, dead or cancelled")]
pub struct UnknownState(pub String);

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(name: &str) -> Result<State, UnknownState> {
        State::ALL.into_iter().find(|state| state.name() == name).ok_or_else(|| UnknownState(name.to_owned()))
    }
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client hands the job to the store.
    Insert,
    /// The job comes from another store, as it stood there.
    Restore,
    /// Its time has come.
    Due,
    /// A member takes it into its ledger; the attempt is counted.
    Lease,
    /// The handler succeeded.
    Done,
    /// The handler failed, timed out, panicked, or could not be found or fed.
    Fail,
    /// The handler asked to be run again later; the attempt is given back.
    Snooze,
    /// The member hands the job back unfinished; the attempt is given back.
    Release,
    /// The member lost its lease; the job goes on without it. The attempt is given back, a recovery is counted.
    Recover,
    /// Somebody called the job off; a running job is asked, and acknowledges.
    Cancel,
    /// Somebody put the job among the dead.
    Kill,
    /// Somebody wants it run again, now.
    Requeue,
    /// Somebody removed it.
    Delete,
    /// Its time to start ran out.
    Expire,
    /// Its time to be kept ran out, or the set it is kept in is full.
    Prune,
}

impl Event {
    /// Every event, in the order of [`TRANSITIONS`].
    pub const ALL: [Event; 15] = [
        Event::Insert,
        Event::Restore,
        Event::Due,
        Event::Lease,
        Event::Done,
        Event::Fail,
        Event::Snooze,
        Event::Release,
        Event::Recover,
        Event::Cancel,
        Event::Kill,
        Event::Requeue,
        Event::Delete,
        Event::Expire,
        Event::Prune,
    ];

    /// The word for it, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Insert => "insert",
            Event::Restore => "restore",
            Event::Due => "due",
            Event::Lease => "lease",
            Event::Done => "done",
            Event::Fail => "fail",
            Event::Snooze => "snooze",
            Event::Release => "release",
            Event::Recover => "recover",
            Event::Cancel => "cancel",
            Event::Kill => "kill",
            Event::Requeue => "requeue",
            Event::Delete => "delete",
            Event::Expire => "expire",
            Event::Prune => "prune",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One row of the table: `event` takes a job from any of `from` to one of `to`.
#[derive(Debug, Clone, Copy)]
pub struct Transition {
    /// What happens.
    pub event: Event,
    /// The states it may happen in; `None` is "no such job".
    pub from: &'static [Option<State>],
    /// Where the job may be afterwards; `None` is "gone".
    pub to: &'static [Option<State>],
    /// Which part of the engine causes it.
    pub who: &'static str,
    /// What decides between several targets, and what else changes.
    pub note: &'static str,
}

const NOTHING: Option<State> = None;
const SCHEDULED: Option<State> = Some(State::Scheduled);
const READY: Option<State> = Some(State::Ready);
const RUNNING: Option<State> = Some(State::Running);
const RETRY: Option<State> = Some(State::Retry);
const DONE: Option<State> = Some(State::Done);
const DEAD: Option<State> = Some(State::Dead);
const CANCELLED: Option<State> = Some(State::Cancelled);

/// Everything that may happen to a job. One row for each [`Event`].
pub const TRANSITIONS: &[Transition] = &[
    Transition {
        event: Event::Insert,
        from: &[NOTHING],
        to: &[READY, SCHEDULED],
        who: "client",
        note: "scheduled when its time lies ahead; an id that is known already changes nothing",
    },
    Transition {
        event: Event::Restore,
        from: &[NOTHING],
        to: &[SCHEDULED, READY, RETRY, DONE, DEAD, CANCELLED],
        who: "migration",
        note: "as it stood in the other store, where it was not running; an id that is known already changes nothing",
    },
    Transition {
        event: Event::Due,
        from: &[SCHEDULED, RETRY],
        to: &[READY],
        who: "poller",
        note: "when `run_at` is reached",
    },
    Transition { event: Event::Lease, from: &[READY], to: &[RUNNING], who: "fetcher", note: "attempt + 1, run + 1" },
    Transition {
        event: Event::Done,
        from: &[RUNNING],
        to: &[DONE, NOTHING],
        who: "acker",
        note: "kept when the job has a retention, else removed",
    },
    Transition {
        event: Event::Fail,
        from: &[RUNNING],
        to: &[RETRY, DEAD, NOTHING],
        who: "acker",
        note: "dead when attempts or the retry window are used up, or the handler says so; removed when it discards",
    },
    Transition { event: Event::Snooze, from: &[RUNNING], to: &[SCHEDULED], who: "acker", note: "attempt given back" },
    Transition { event: Event::Release, from: &[RUNNING], to: &[READY], who: "acker", note: "attempt given back" },
    Transition {
        event: Event::Recover,
        from: &[RUNNING],
        to: &[READY, DEAD],
        who: "reaper",
        note: "recoveries + 1, attempt given back; dead at 3 recoveries in 72 h, or at once when at-most-once",
    },
    Transition {
        event: Event::Cancel,
        from: &[SCHEDULED, READY, RETRY, RUNNING],
        to: &[CANCELLED],
        who: "client, acker",
        note: "a running job is asked, and cancelled when its handler gives way",
    },
    Transition {
        event: Event::Kill,
        from: &[SCHEDULED, READY, RETRY, DONE, DEAD, CANCELLED],
        to: &[DEAD],
        who: "client",
        note: "any but running",
    },
    Transition {
        event: Event::Requeue,
        from: &[SCHEDULED, RETRY, DEAD, CANCELLED],
        to: &[READY],
        who: "client",
        note: "attempt, recoveries and error history start again when it was dead or cancelled",
    },
    Transition {
        event: Event::Delete,
        from: &[SCHEDULED, READY, RETRY, DONE, DEAD, CANCELLED],
        to: &[NOTHING],
        who: "client",
        note: "any but running",
    },
    Transition {
        event: Event::Expire,
        from: &[READY, SCHEDULED],
        to: &[DEAD],
        who: "fetcher, poller",
        note: "past `expires_at` before it started",
    },
    Transition {
        event: Event::Prune,
        from: &[DONE, DEAD, CANCELLED],
        to: &[NOTHING],
        who: "pruner",
        note: "past its keep time, or the oldest of a full set",
    },
];

/// Whether `event` may take a job from `from` to `to`.
pub fn is_allowed(event: Event, from: Option<State>, to: Option<State>) -> bool {
    TRANSITIONS.iter().any(|row| row.event == event && row.from.contains(&from) && row.to.contains(&to))
}

/// The table as Markdown: what `docs/job_lifecycle.md` shows.
pub fn transitions_markdown() -> String {
    let mut text =
        String::from("| event | from | to | who | what decides, what else changes |\n|---|---|---|---|---|\n");
    for row in TRANSITIONS {
        let line = [row.event.name(), &names(row.from), &names(row.to), row.who, row.note].join(" | ");
        text.push_str(&format!("| {line} |\n"));
    }
    text
}

fn names(states: &[Option<State>]) -> String {
    let names: Vec<&str> = states.iter().map(|state| state.map_or("–", State::name)).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_exactly_one_row() {
        for event in Event::ALL {
            assert_eq!(TRANSITIONS.iter().filter(|row| row.event == event).count(), 1, "{event}");
        }
        assert_eq!(TRANSITIONS.len(), Event::ALL.len());
    }

    #[test]
    fn a_running_job_is_changed_only_by_its_own_member_or_the_reaper() {
        for row in TRANSITIONS.iter().filter(|row| row.from.contains(&RUNNING)) {
            assert!(["acker", "reaper", "client, acker"].contains(&row.who), "{}", row.event);
        }
    }

    #[test]
    fn every_state_can_be_reached_and_every_final_state_can_be_left() {
        for state in State::ALL {
            assert!(TRANSITIONS.iter().any(|row| row.to.contains(&Some(state))), "{state} is never reached");
            assert!(TRANSITIONS.iter().any(|row| row.from.contains(&Some(state))), "{state} is never left");
        }
    }

    #[test]
    fn codes_and_names_are_read_back() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
            assert_eq!(state.name().parse(), Ok(state));
        }
        assert_eq!(State::from_code(7), None);
        assert!("gone".parse::<State>().is_err());
    }

    #[test]
    fn what_is_not_a_row_is_refused() {
        assert!(!is_allowed(Event::Done, READY, DONE));
        assert!(!is_allowed(Event::Kill, RUNNING, DEAD));
        assert!(!is_allowed(Event::Lease, SCHEDULED, RUNNING));
        assert!(!State::Running.allows(Event::Delete));
    }
}
