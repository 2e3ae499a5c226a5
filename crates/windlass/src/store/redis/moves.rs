//! Moves of jobs: each from where it was, if it is still there, to where it belongs now.
//!
//! Every change of a job's state but insert, lease and plain success is such a move, done by `move.lua`: many in one
//! call, each for itself whole or not at all. The new text of the job is made here, before; the script only carries it.

use redis::Value;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::JobId;
use crate::state::State;
use crate::store::RECOVERIES_SUSPECT;
use crate::store::redis::engine::Engine;
use crate::store::redis::keys::{Keys, day_of};
use crate::store::redis::link::Link;
use crate::store::redis::script::{Call, MOVE};
use crate::store::redis::values;

/// Seconds for which an id is remembered after its last push: 25 h. Jobs that Ruby takes leave their ids behind.
pub(super) const IDS_KEPT_S: u32 = 25 * 60 * 60;
/// Seconds for which the place of a waiting or ended job is remembered after the last change: 35 days.
pub(super) const PLACES_KEPT_S: u32 = 35 * 24 * 60 * 60;
/// Seconds for which the counts of a day are kept: five years, as Sidekiq has it.
pub(super) const DAYS_KEPT_S: u32 = 5 * 365 * 24 * 60 * 60;

/// Moves in one script: so many take about a millisecond.
const MOVES_LEN_MAX: usize = 200;

/// A sorted set of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    Schedule,
    Retry,
    Dead,
    Done,
    Cancelled,
}

impl Set {
    pub(super) const ALL: [Set; 5] = [Set::Dead, Set::Cancelled, Set::Done, Set::Retry, Set::Schedule];

    pub(super) fn key(self, keys: &Keys) -> String {
        match self {
            Set::Schedule => keys.schedule(),
            Set::Retry => keys.retry(),
            Set::Dead => keys.dead(),
            Set::Done => keys.done(),
            Set::Cancelled => keys.cancelled(),
        }
    }

    pub(super) fn state(self) -> State {
        match self {
            Set::Schedule => State::Scheduled,
            Set::Retry => State::Retry,
            Set::Dead => State::Dead,
            Set::Done => State::Done,
            Set::Cancelled => State::Cancelled,
        }
    }

    /// The set of the jobs in a state, if one holds them.
    pub(super) fn of(state: State) -> Option<Set> {
        Set::ALL.into_iter().find(|set| set.state() == state)
    }

    fn letter(self) -> char {
        match self {
            Set::Schedule => 's',
            Set::Retry => 'r',
            Set::Dead => 'd',
            Set::Done => 'k',
            Set::Cancelled => 'c',
        }
    }

    /// The set and the score of a remembered place.
    pub(super) fn of_place(place: &str) -> Option<(Set, &str)> {
        let set = Set::ALL.into_iter().find(|set| place.starts_with(set.letter()))?;
        Some((set, &place[1..]))
    }
}

/// A score: seconds, down to the microsecond. The last three digits tell apart, and in order, what falls on the same
/// millisecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Score(pub(super) String);

impl Score {
    pub(super) fn new(at: Timestamp, arrival: u64) -> Score {
        let (seconds, ms) = (at.as_millis().div_euclid(1_000), at.as_millis().rem_euclid(1_000));
        Score(format!("{seconds}.{ms:03}{:03}", arrival % 1_000))
    }
}

/// The instant of a score.
pub(super) fn instant_of(score: f64) -> Timestamp {
    // Beyond the year 2255 a score has no room for microseconds, and its milliseconds are near enough.
    const FINE_MAX: f64 = 9.0e9;
    let ms = if score.abs() < FINE_MAX { ((score * 1e6).round() / 1e3).floor() } else { score * 1e3 };
    Timestamp::from_millis(ms as i64)
}

/// Where a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// In a ledger: its key, and the field.
    Field(String, Vec<u8>),
    /// In a sorted set, as this member.
    Member(Set, Vec<u8>),
    /// In a list: its key, and the element.
    Element(String, Vec<u8>),
}

/// Where a job goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// It is forgotten.
    Nowhere,
    /// To the front of a queue, next to be taken.
    Front { queue: String, recoveries: u32 },
    /// To the back of a queue.
    Back { queue: String, recoveries: u32 },
    /// Into a sorted set.
    Set { set: Set, score: Score },
    /// Among the done jobs that are kept.
    Kept { score: Score, until: Timestamp },
}

/// One move.
#[derive(Debug, Clone)]
pub(super) struct Move {
    pub(super) id: JobId,
    pub(super) source: Source,
    pub(super) target: Target,
    /// The new text.
    pub(super) element: Vec<u8>,
    /// What to count, in the letters of `move.lua`.
    pub(super) counts: &'static str,
}

/// Whether a move that finds nothing is a late write of a stale process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Counts,
    IsFine,
}

impl Engine {
    /// Does the moves. Answers for each whether the job was there.
    pub(super) async fn move_all(
        &self,
        tried: &'static str,
        link: &Link,
        moves: &[Move],
        refusal: Refusal,
    ) -> Result<Vec<bool>, StoreError> {
        let mut answers = Vec::with_capacity(moves.len());
        for slice in moves.chunks(MOVES_LEN_MAX) {
            let value = link.call(tried, &self.move_call(slice, refusal)).await?;
            answers.extend(values::numbers(tried, value)?.into_iter().map(|number| number == 1));
        }
        let is_ready = |(moved, answer): (&Move, &bool)| {
            *answer && matches!(moved.target, Target::Front { .. } | Target::Back { .. })
        };
        if moves.iter().zip(&answers).any(is_ready) {
            self.ring();
        }
        Ok(answers)
    }

    fn move_call(&self, moves: &[Move], refusal: Refusal) -> Call {
        let (keys, day) = (&self.keys, day_of(self.now()));
        let bytes = moves.iter().map(|moved| 3 * moved.element.len() + 128).sum();
        let mut call = Call::with_capacity(&MOVE, bytes, 15 * moves.len() + 4);
        call.key(keys.queues()).key(keys.totals()).key(keys.totals_on(&day));
        call.key(keys.processed()).key(keys.processed_on(&day)).key(keys.failed()).key(keys.failed_on(&day));
        call.key(keys.keep());
        call.number(IDS_KEPT_S).number(PLACES_KEPT_S).number(DAYS_KEPT_S);
        call.arg(if refusal == Refusal::Counts { "1" } else { "" });
        for moved in moves {
            self.add_source(&mut call, &moved.source);
            self.add_target(&mut call, moved);
            call.arg(moved.counts);
            match &moved.target {
                Target::Front { queue, .. } | Target::Back { queue, .. } => call.arg(queue),
                _ => call.arg(""),
            };
        }
        call
    }

    fn add_source(&self, call: &mut Call, source: &Source) {
        let (kind, key, what) = match source {
            Source::Field(key, field) => ("h", key.clone(), field),
            Source::Member(set, member) => ("z", set.key(&self.keys), member),
            Source::Element(key, element) => ("l", key.clone(), element),
        };
        let number = call.number_of(key, FIXED_KEYS);
        call.arg(kind).number(number).arg(what);
    }

    /// The arguments from the target to the place.
    fn add_target(&self, call: &mut Call, moved: &Move) {
        let (kind, key, score) = match &moved.target {
            Target::Nowhere => ("-", None, None),
            Target::Front { queue, recoveries } => ("f", Some(self.ready_key(queue, *recoveries)), None),
            Target::Back { queue, recoveries } => ("b", Some(self.ready_key(queue, *recoveries)), None),
            Target::Set { set, score } => ("z", Some(set.key(&self.keys)), Some(score)),
            Target::Kept { score, .. } => ("z", Some(self.keys.done()), Some(score)),
        };
        let number = key.map_or(0, |key| call.number_of(key, FIXED_KEYS));
        call.arg(kind).number(number).arg(score.map_or("", |score| &score.0));
        call.arg(if kind == "-" { &[][..] } else { &moved.element });
        match &moved.target {
            Target::Kept { score, until } => {
                call.number(until.as_millis()).arg(keep_member(&moved.id, score));
            }
            _ => {
                call.arg("").arg("");
            }
        }
        let ids = self.keys.ids(&moved.id).map_or(0, |key| call.number_of(key, FIXED_KEYS));
        let places = self.keys.places(&moved.id).map_or(0, |key| call.number_of(key, FIXED_KEYS));
        call.arg(moved.id.as_bytes()).number(ids).number(places);
        call.arg(place_of(&moved.target));
    }

    /// The list that a ready job waits in.
    pub(super) fn ready_key(&self, queue: &str, recoveries: u32) -> String {
        if recoveries >= RECOVERIES_SUSPECT { self.keys.suspects(queue) } else { self.keys.queue(queue) }
    }
}

/// Keys of `move.lua` that every call names.
const FIXED_KEYS: usize = 8;

fn place_of(target: &Target) -> String {
    match target {
        Target::Nowhere => "-".to_owned(),
        Target::Front { .. } | Target::Back { .. } => String::new(),
        Target::Set { set, score } => place(*set, score),
        Target::Kept { score, .. } => place(Set::Done, score),
    }
}

/// A place as it is remembered.
pub(super) fn place(set: Set, score: &Score) -> String {
    format!("{}{}", set.letter(), score.0)
}

/// What `wl:keep` remembers of a done job: its id and where it lies.
pub(super) fn keep_member(id: &JobId, score: &Score) -> String {
    format!("{id} {}", score.0)
}

/// The id and the score of such a member.
pub(super) fn kept_member(member: &Value) -> Option<(JobId, String)> {
    let Value::BulkString(bytes) = member else { return None };
    let (id, score) = std::str::from_utf8(bytes).ok()?.split_once(' ')?;
    Some((id.parse().ok()?, score.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_gives_its_instant_back_to_the_millisecond() {
        for ms in [0, 1, 999, 1_760_000_000_000, 1_760_000_000_999, 8_999_999_999_999] {
            for arrival in [0, 1, 500, 999] {
                let score: f64 = Score::new(Timestamp::from_millis(ms), arrival).0.parse().unwrap();
                assert_eq!(instant_of(score).as_millis(), ms, "{score}");
            }
        }
    }
}
