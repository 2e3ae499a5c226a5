//! Pages of jobs.
//!
//! Sets are listed by their scores, queues one after the other by name and each in the order in which it is served, and
//! all states together one after the other. A page looks at [`SEEN_MAX`] jobs or [`SEEN_BYTES_MAX`] bytes at the most.
//!
//! A [`Cursor`] has room for two numbers, and lists and sets change while they are walked. In a set it holds the score of
//! the last job and a hash of its text; in a queue, how far the last job is from the end that grows, so that jobs taken
//! meanwhile shift nothing, and what that end looked like: when it has grown, the walk goes back as far as it must to
//! leave nothing out, and may show a job again.

use redis::cmd;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::JobRecord;
use crate::state::State;
use crate::store::redis::engine::{Engine, Row};
use crate::store::redis::envelope::{Envelope, SAME_MOMENT};
use crate::store::redis::find::{Found, Lair, SCAN_STEP};
use crate::store::redis::moves::{Set, instant_of};
use crate::store::redis::values;
use crate::store::{Cursor, JobPage, JobQuery};

/// Jobs that one page looks at.
const SEEN_MAX: usize = 5_000;

/// Bytes of jobs after which a page looks at no further one.
const SEEN_BYTES_MAX: usize = 16 << 20;

/// A page of jobs with their places.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) found: Vec<Found>,
    pub(super) next: Option<Cursor>,
}

/// A part of a listing, walked from one end to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Set(Set, Direction),
    Running,
    Queues(Direction),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    OldestFirst,
    NewestFirst,
}

use Direction::{NewestFirst, OldestFirst};

/// What a listing of one state, or of all, consists of. A job that is changed while all are walked goes to a section
/// that is behind the walk.
fn sections(state: Option<State>) -> Vec<Section> {
    match state {
        Some(State::Ready) => vec![Section::Queues(OldestFirst)],
        Some(State::Running) => vec![Section::Running],
        Some(State::Scheduled) => vec![Section::Set(Set::Schedule, OldestFirst)],
        Some(State::Retry) => vec![Section::Set(Set::Retry, OldestFirst)],
        Some(state) => Set::of(state).map(|set| Section::Set(set, NewestFirst)).into_iter().collect(),
        None => {
            let sets = Set::ALL.into_iter().map(|set| Section::Set(set, NewestFirst));
            sets.chain([Section::Running, Section::Queues(NewestFirst)]).collect()
        }
    }
}

/// A cursor's first number: the section, and a number within it.
const VALUE_BITS: u32 = 59;
const VALUE_MAX: i64 = (1 << VALUE_BITS) - 1;

fn cursor(section: usize, value: i64, arrival: i64) -> Cursor {
    Cursor { at_ms: (section as i64) << VALUE_BITS | value.clamp(0, VALUE_MAX), arrival }
}

/// In a queue the number is the list, and the distance from an end.
const DISTANCE_BITS: u32 = 43;
const DISTANCE_MAX: i64 = (1 << DISTANCE_BITS) - 1;

/// Fills one page out of the jobs it is shown, and says when it has seen enough.
struct Picker<'a> {
    query: &'a JobQuery,
    page: Page,
    left: usize,
    bytes: usize,
    /// Whether a job was shown that has no place here any more.
    is_cut: bool,
}

impl Picker<'_> {
    /// Takes the job in if it matches. Answers whether it wants to see more.
    fn offer(&mut self, place: Cursor, found: Found) -> bool {
        if self.page.found.len() == self.query.limit || self.left == 0 || self.bytes >= SEEN_BYTES_MAX {
            self.is_cut = true;
            return false;
        }
        self.left -= 1;
        self.bytes += found.element.len();
        self.page.next = Some(place);
        if is_plain(self.query) || self.query.matches(&found.record()) {
            self.page.found.push(found);
        }
        true
    }

    /// How many to read at a time.
    fn step(&self) -> usize {
        if is_plain(self.query) { (self.query.limit - self.page.found.len() + 1).min(SCAN_STEP) } else { SCAN_STEP }
    }
}

/// Whether every job of the sections matches.
fn is_plain(query: &JobQuery) -> bool {
    query.kind.is_none() && query.search.is_none() && query.queue.is_none()
}

impl Engine {
    pub(super) async fn list(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        let page = self.page("list", query).await?;
        let jobs: Vec<JobRecord> = page.found.iter().map(Found::record).collect();
        Ok(JobPage { jobs, next: page.next })
    }

    pub(super) async fn page(&self, tried: &'static str, query: &JobQuery) -> Result<Page, StoreError> {
        let mut picker = Picker { query, page: Page::default(), left: SEEN_MAX, bytes: 0, is_cut: false };
        let first = query.after.map_or(0, |after| (after.at_ms >> VALUE_BITS) as usize);
        for (number, section) in sections(query.state).into_iter().enumerate().skip(first) {
            let after = query.after.filter(|_| number == first);
            match section {
                Section::Set(set, direction) => {
                    self.walk_set(tried, number, set, direction, after, &mut picker).await?
                }
                Section::Running => self.walk_running(tried, number, after, &mut picker).await?,
                Section::Queues(direction) => self.walk_queues(tried, number, direction, after, &mut picker).await?,
            }
            if picker.is_cut {
                return Ok(picker.page);
            }
        }
        picker.page.next = None;
        Ok(picker.page)
    }

    async fn walk_set(
        &self,
        tried: &'static str,
        number: usize,
        set: Set,
        direction: Direction,
        after: Option<Cursor>,
        picker: &mut Picker<'_>,
    ) -> Result<(), StoreError> {
        let mut last = after.map(|after| (after.at_ms & VALUE_MAX, after.arrival));
        loop {
            // Two more than are wanted: the last one shown before, and a neighbour within the same microsecond.
            let step = picker.step() + 2;
            let members = self.members_after(tried, set, direction, last.map(|(micros, _)| micros), step).await?;
            let skipped = shown_already(&members, direction, last);
            let is_end = members.len() < step;
            // A crowd on one score that is larger than a step is passed in steps that grow.
            let is_stuck = skipped == members.len() && !is_end;
            if is_stuck {
                return self.walk_crowd(tried, number, set, direction, last, picker).await;
            }
            for (member, score) in members.into_iter().skip(skipped) {
                let place = (micros_of(score), short_hash(&member));
                last = Some(place);
                let found = Found::new(member, Lair::Set(set, instant_of(score)));
                if !picker.offer(cursor(number, place.0, place.1), found) {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Shows the rest of a crowd that shares one instant, read as a whole, and ends the page behind it.
    async fn walk_crowd(
        &self,
        tried: &'static str,
        number: usize,
        set: Set,
        direction: Direction,
        last: Option<(i64, i64)>,
        picker: &mut Picker<'_>,
    ) -> Result<(), StoreError> {
        let Some((micros, _)) = last else { return Ok(()) };
        let (command, from, to) = match direction {
            OldestFirst => ("ZRANGEBYSCORE", micros - 1, micros + 1),
            NewestFirst => ("ZREVRANGEBYSCORE", micros + 1, micros - 1),
        };
        let mut range = cmd(command);
        range.arg(set.key(&self.keys)).arg(score_text(from)).arg(score_text(to)).arg("WITHSCORES");
        let members = values::scored(tried, self.work.query(tried, &range).await?)?;
        let skipped = shown_already(&members, direction, last);
        for (member, score) in members.into_iter().skip(skipped) {
            let place = cursor(number, micros, short_hash(&member));
            if !picker.offer(place, Found::new(member, Lair::Set(set, instant_of(score)))) {
                return Ok(());
            }
        }
        picker.is_cut = true;
        Ok(())
    }

    /// The members from a score on, those of that score included.
    async fn members_after(
        &self,
        tried: &'static str,
        set: Set,
        direction: Direction,
        micros: Option<i64>,
        len: usize,
    ) -> Result<Vec<(Vec<u8>, f64)>, StoreError> {
        let (command, from, to, step) = match direction {
            OldestFirst => ("ZRANGEBYSCORE", "-inf", "+inf", -1),
            NewestFirst => ("ZREVRANGEBYSCORE", "+inf", "-inf", 1),
        };
        let from = micros.map_or_else(|| from.to_owned(), |micros| score_text(micros + step));
        let mut range = cmd(command);
        range.arg(set.key(&self.keys)).arg(from).arg(to).arg("WITHSCORES").arg("LIMIT").arg(0).arg(len);
        values::scored(tried, self.work.query(tried, &range).await?)
    }

    async fn walk_running(
        &self,
        tried: &'static str,
        number: usize,
        after: Option<Cursor>,
        picker: &mut Picker<'_>,
    ) -> Result<(), StoreError> {
        let mut running: Vec<(i64, Row, Found)> = Vec::new();
        for found in self.all_running(tried).await? {
            let Lair::Ledger { row, .. } = found.lair else { continue };
            let run_at = Envelope::open(&found.element).map_or_else(Timestamp::default, |envelope| envelope.run_at());
            running.push((run_at.as_millis().clamp(0, VALUE_MAX), row, found));
        }
        running.sort_unstable_by_key(|(run_at_ms, row, _)| (*run_at_ms, *row));
        let after = after.map(|after| (after.at_ms & VALUE_MAX, Row(after.arrival)));
        for (run_at_ms, row, found) in running {
            if after.is_some_and(|after| (run_at_ms, row) <= after) {
                continue;
            }
            if !picker.offer(cursor(number, run_at_ms, row.0), found) {
                break;
            }
        }
        Ok(())
    }

    async fn walk_queues(
        &self,
        tried: &'static str,
        number: usize,
        direction: Direction,
        after: Option<Cursor>,
        picker: &mut Picker<'_>,
    ) -> Result<(), StoreError> {
        let mut lists: Vec<(String, String)> = Vec::new();
        let names = match &picker.query.queue {
            Some(queue) => vec![queue.clone()],
            None => self.queue_names(tried).await?,
        };
        for queue in names {
            lists.extend([self.keys.suspects(&queue), self.keys.queue(&queue)].map(|key| (key, queue.clone())));
        }
        if direction == NewestFirst {
            lists.reverse();
        }
        let first = after.map_or(0, |after| ((after.at_ms & VALUE_MAX) >> DISTANCE_BITS) as usize);
        for (index, (key, queue)) in lists.into_iter().enumerate().skip(first) {
            let after = after.filter(|_| index == first);
            let walk = ListWalk { tried, key, queue, number, index, direction };
            self.walk_list(walk, after, picker).await?;
            if picker.is_cut {
                break;
            }
        }
        Ok(())
    }

    async fn walk_list(
        &self,
        walk: ListWalk,
        after: Option<Cursor>,
        picker: &mut Picker<'_>,
    ) -> Result<(), StoreError> {
        let len = self.work.query(walk.tried, cmd("LLEN").arg(&walk.key)).await?;
        let len = values::number(walk.tried, &len)?;
        let head = short_hash(&self.elements(&walk, 0, 0).await?.pop().unwrap_or_default()) & HEAD_MASK;
        let mut left = match after {
            None => len,
            Some(after) => self.left_of(&walk, after, head, len).await?,
        };
        while left > 0 {
            let step = (picker.step() as i64).min(left);
            // The head is the end that grows. What is left lies at the head when the oldest come first, else at the tail.
            let (from, to) = match walk.direction {
                OldestFirst => (left - step, left - 1),
                NewestFirst => (len - left, len - left + step - 1),
            };
            let mut elements = self.elements(&walk, from, to).await?;
            if elements.is_empty() {
                break;
            }
            if walk.direction == OldestFirst {
                elements.reverse();
            }
            for element in elements {
                left -= 1;
                let since = Envelope::open(&element).map_or_else(Timestamp::default, |envelope| envelope.ready_since());
                let place = walk.cursor(left, since, head);
                let found = Found::new(element, Lair::Queue(walk.key.clone(), walk.queue.clone()));
                if !picker.offer(place, found) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn elements(&self, walk: &ListWalk, from: i64, to: i64) -> Result<Vec<Vec<u8>>, StoreError> {
        let range = self.work.query(walk.tried, cmd("LRANGE").arg(&walk.key).arg(from).arg(to)).await?;
        values::all_bytes(walk.tried, range)
    }

    /// How many elements are left behind a cursor.
    async fn left_of(&self, walk: &ListWalk, after: Cursor, head: i64, len: i64) -> Result<i64, StoreError> {
        let mut left = (after.at_ms & DISTANCE_MAX).min(len);
        if walk.direction == NewestFirst || after.arrival & HEAD_MASK == head {
            return Ok(left);
        }
        // The list has grown at the head: go back over everything that is not older than the last job shown.
        let since = Timestamp::from_millis(after.arrival >> HEAD_BITS) - SAME_MOMENT;
        loop {
            let older = self.elements(walk, left, left + SCAN_STEP as i64 - 1).await?;
            let is_not_older =
                |element: &&Vec<u8>| Envelope::open(element).is_none_or(|job| job.ready_since() >= since);
            let passed = older.iter().take_while(is_not_older).count();
            left += passed as i64;
            if passed < SCAN_STEP {
                return Ok(left.min(len));
            }
        }
    }
}

/// Which list is walked, and how.
struct ListWalk {
    tried: &'static str,
    key: String,
    queue: String,
    number: usize,
    index: usize,
    direction: Direction,
}

/// Bits of the head's hash in a cursor.
const HEAD_BITS: u32 = 20;
const HEAD_MASK: i64 = (1 << HEAD_BITS) - 1;

impl ListWalk {
    fn cursor(&self, left: i64, since: Timestamp, head: i64) -> Cursor {
        let since_ms = since.as_millis().clamp(0, i64::MAX >> HEAD_BITS);
        cursor(self.number, (self.index as i64) << DISTANCE_BITS | left.min(DISTANCE_MAX), since_ms << HEAD_BITS | head)
    }
}

/// How many members at the front were shown before: up to the last one shown, if it is still there, and whatever is
/// before its microsecond.
fn shown_already(members: &[(Vec<u8>, f64)], direction: Direction, last: Option<(i64, i64)>) -> usize {
    let Some((micros, hash)) = last else { return 0 };
    let is_before = |score: f64| match direction {
        OldestFirst => micros_of(score) < micros,
        NewestFirst => micros_of(score) > micros,
    };
    let before = members.iter().take_while(|(_, score)| is_before(*score)).count();
    let crowd = members[before..].iter().take_while(|(_, score)| micros_of(*score) == micros);
    before + crowd.enumerate().filter(|(_, (member, _))| short_hash(member) == hash).last().map_or(0, |(at, _)| at + 1)
}

/// A score in whole microseconds.
fn micros_of(score: f64) -> i64 {
    ((score * 1e6).round() as i64).clamp(0, VALUE_MAX)
}

fn score_text(micros: i64) -> String {
    format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
}

/// FNV-1a, without the sign.
fn short_hash(bytes: &[u8]) -> i64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    (bytes.iter().fold(0xcbf2_9ce4_8422_2325, step) >> 1) as i64
}
