//! Where a job is.
//!
//! Sidekiq's lists and sets have no index, so there is one beside them: the ids made within one hour are a set, and
//! where a job waits in a sorted set, its place is remembered in a hash. With these, a job of ours that waits, has ended,
//! or is not there is found, or known to be missing, at once. A ready or running job is looked for in the ledgers, which
//! are small, and then in the queues, from the front. A job that Ruby has pushed or moved is looked for in the sets as
//! well. Such a search ends after [`SCAN_LEN_MAX`] elements of one list or set: what lies deeper is not found by its id.

use std::collections::{HashMap, HashSet};

use redis::{cmd, pipe};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord};
use crate::state::State;
use crate::store::redis::engine::{Engine, Row};
use crate::store::redis::envelope::{Envelope, derived_id, unreadable};
use crate::store::redis::keys::made_at_ms;
use crate::store::redis::moves::{Set, Source, instant_of};
use crate::store::redis::values;

/// Elements of one list or set that a search looks at.
pub(super) const SCAN_LEN_MAX: usize = 100_000;

/// Elements read at a time.
pub(super) const SCAN_STEP: usize = 500;

/// An id younger than this and not remembered is the id of no job of ours.
const REMEMBERED_MS: u64 = 24 * 60 * 60 * 1_000;

/// A job, and where it lies.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) id: JobId,
    pub(super) lair: Lair,
    pub(super) element: Vec<u8>,
}

/// Where a job lies.
#[derive(Debug, Clone)]
pub(super) enum Lair {
    /// In a sorted set, for that instant.
    Set(Set, Timestamp),
    /// In the list of a queue: its key, and the queue's name.
    Queue(String, String),
    /// In the ledger of a member, which may have lost its rights.
    Ledger { member: String, row: Row, is_lost: bool, is_asked: bool },
}

impl Found {
    pub(super) fn new(element: Vec<u8>, lair: Lair) -> Found {
        Found { id: id_in(&element), lair, element }
    }

    pub(super) fn state(&self) -> State {
        match &self.lair {
            Lair::Set(set, _) => set.state(),
            Lair::Queue(..) => State::Ready,
            Lair::Ledger { .. } => State::Running,
        }
    }

    /// The instant of the sorted set it lies in.
    pub(super) fn at(&self) -> Option<Timestamp> {
        if let Lair::Set(_, at) = self.lair { Some(at) } else { None }
    }

    /// Where a move takes it from. `None` while it runs: it belongs to its member.
    pub(super) fn source(&self) -> Option<Source> {
        match &self.lair {
            Lair::Set(set, _) => Some(Source::Member(*set, self.element.clone())),
            Lair::Queue(key, _) => Some(Source::Element(key.clone(), self.element.clone())),
            Lair::Ledger { .. } => None,
        }
    }

    /// Everything known of it.
    pub(super) fn record(&self) -> JobRecord {
        let Some(mut envelope) = Envelope::open(&self.element) else {
            let queue = if let Lair::Queue(_, queue) = &self.lair { queue } else { "" };
            return unreadable(&self.element, self.state(), queue, self.at());
        };
        let Lair::Ledger { member, row, is_asked, .. } = &self.lair else {
            return envelope.record(self.state(), self.at());
        };
        envelope.begin_run(row.is_at_most_once());
        JobRecord {
            member: Some(member.clone()),
            leased_at: Some(row.leased_at()),
            cancel_asked: *is_asked,
            ..envelope.record(State::Running, None)
        }
    }
}

/// The id in a job's text, without reading all of it.
fn id_in(element: &[u8]) -> JobId {
    const NAME: &[u8] = b"\"jid\":\"";
    // Only a text that names its id once, plainly, is read the short way.
    let mut places = element.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    if let (Some((at, _)), None) = (places.next(), places.next()) {
        let rest = &element[at + NAME.len()..];
        let plain = rest.get(..24).filter(|_| rest.get(24) == Some(&b'"'));
        if let Some(Ok(id)) = plain.and_then(|digits| std::str::from_utf8(digits).ok()).map(str::parse) {
            return id;
        }
    }
    Envelope::open(element).map_or_else(|| derived_id(element), |envelope| envelope.id)
}

/// What is left to look for.
struct Search {
    wanted: HashSet<JobId>,
    found: HashMap<JobId, Found>,
}

impl Search {
    fn offer(&mut self, found: Found) {
        if self.wanted.remove(&found.id) {
            self.found.insert(found.id, found);
        }
    }

    fn is_over(&self) -> bool {
        self.wanted.is_empty()
    }
}

impl Engine {
    /// Looks for jobs by their ids.
    pub(super) async fn find(&self, tried: &'static str, ids: &[JobId]) -> Result<HashMap<JobId, Found>, StoreError> {
        let mut search = Search { wanted: ids.iter().copied().collect(), found: HashMap::new() };
        self.find_by_index(tried, &mut search).await?;
        if !search.is_over() {
            self.find_in_ledgers(tried, &mut search).await?;
        }
        if !search.is_over() {
            self.find_in_queues(tried, &mut search).await?;
        }
        for set in Set::ALL {
            if !search.is_over() {
                self.find_in_set(tried, set, &mut search).await?;
            }
        }
        Ok(search.found)
    }

    /// Finds what has a remembered place, and strikes out what is known to be nowhere.
    async fn find_by_index(&self, tried: &'static str, search: &mut Search) -> Result<(), StoreError> {
        let mut hours: HashMap<(String, String), Vec<JobId>> = HashMap::new();
        for id in &search.wanted {
            if let (Some(ids), Some(places)) = (self.keys.ids(id), self.keys.places(id)) {
                hours.entry((ids, places)).or_default().push(*id);
            }
        }
        let now_ms = self.now().as_millis().max(0) as u64;
        for ((ids, places), wanted) in hours {
            let bytes: Vec<&[u8]> = wanted.iter().map(|id| &id.as_bytes()[..]).collect();
            let mut questions = pipe();
            questions.cmd("SMISMEMBER").arg(ids).arg(&bytes).cmd("HMGET").arg(places).arg(&bytes);
            let mut answers = self.work.pipe(tried, &questions).await?.into_iter();
            let is_known = values::numbers(tried, answers.next().unwrap_or_default())?;
            let places = values::maybe_bytes(tried, answers.next().unwrap_or_default())?;
            let mut waiting = Vec::new();
            for ((id, is_known), place) in wanted.into_iter().zip(is_known).zip(places) {
                let is_young = now_ms.abs_diff(made_at_ms(&id)) < REMEMBERED_MS;
                if let Some(place) = place {
                    waiting.push(String::from_utf8_lossy(&place).into_owned());
                } else if is_known == 0 && is_young {
                    search.wanted.remove(&id);
                }
            }
            self.find_at_places(tried, &waiting, search).await?;
        }
        Ok(())
    }

    async fn find_at_places(
        &self,
        tried: &'static str,
        places: &[String],
        search: &mut Search,
    ) -> Result<(), StoreError> {
        let places: Vec<(Set, &str)> = places.iter().filter_map(|place| Set::of_place(place)).collect();
        for slice in places.chunks(SCAN_STEP) {
            let mut questions = pipe();
            for (set, score) in slice {
                let key = set.key(&self.keys);
                questions.cmd("ZRANGEBYSCORE").arg(key).arg(*score).arg(*score).arg("LIMIT").arg(0).arg(SCAN_STEP);
            }
            for ((set, score), members) in slice.iter().zip(self.work.pipe(tried, &questions).await?) {
                let at = instant_of(score.parse().unwrap_or_default());
                for member in values::all_bytes(tried, members)? {
                    search.offer(Found::new(member, Lair::Set(*set, at)));
                }
            }
        }
        Ok(())
    }

    async fn find_in_ledgers(&self, tried: &'static str, search: &mut Search) -> Result<(), StoreError> {
        for found in self.all_running(tried).await? {
            search.offer(found);
        }
        Ok(())
    }

    /// Every member by name, and whether it has lost its rights.
    pub(super) async fn holders(&self, tried: &'static str) -> Result<Vec<(String, bool)>, StoreError> {
        let mut questions = pipe();
        questions.cmd("ZRANGE").arg(self.keys.members()).arg(0).arg(-1);
        questions.cmd("ZRANGE").arg(self.keys.lost()).arg(0).arg(-1);
        let mut answers = self.work.pipe(tried, &questions).await?.into_iter();
        let mut holders = Vec::new();
        for is_lost in [false, true] {
            let names = values::texts(tried, answers.next().unwrap_or_default())?;
            holders.extend(names.into_iter().map(|name| (name, is_lost)));
        }
        Ok(holders)
    }

    pub(super) fn ledger_of(&self, member: &str, is_lost: bool) -> (String, String) {
        match is_lost {
            false => (self.keys.ledger(member), self.keys.asked(member)),
            true => (self.keys.lost_ledger(member), self.keys.lost_asked(member)),
        }
    }

    /// Every running job, by member and lease.
    pub(super) async fn all_running(&self, tried: &'static str) -> Result<Vec<Found>, StoreError> {
        let mut running = Vec::new();
        for (member, is_lost) in self.holders(tried).await? {
            let (ledger, asked) = self.ledger_of(&member, is_lost);
            let mut questions = pipe();
            questions.cmd("HGETALL").arg(ledger).cmd("SMEMBERS").arg(asked);
            let mut answers = self.work.pipe(tried, &questions).await?.into_iter();
            let held = values::all_bytes(tried, answers.next().unwrap_or_default())?;
            let asked: HashSet<Vec<u8>> =
                values::all_bytes(tried, answers.next().unwrap_or_default())?.into_iter().collect();
            let mut rows: Vec<(Row, &[Vec<u8>])> =
                held.chunks_exact(2).filter_map(|pair| Some((Row::of_field(&pair[0])?, pair))).collect();
            rows.sort_unstable_by_key(|(row, _)| *row);
            for (row, pair) in rows {
                let is_asked = asked.contains(&pair[0]);
                let lair = Lair::Ledger { member: member.clone(), row, is_lost, is_asked };
                running.push(Found::new(pair[1].clone(), lair));
            }
        }
        Ok(running)
    }

    /// The names of all queues.
    pub(super) async fn queue_names(&self, tried: &'static str) -> Result<Vec<String>, StoreError> {
        let mut names = values::texts(tried, self.work.query(tried, cmd("SMEMBERS").arg(self.keys.queues())).await?)?;
        names.sort();
        Ok(names)
    }

    async fn find_in_queues(&self, tried: &'static str, search: &mut Search) -> Result<(), StoreError> {
        for queue in self.queue_names(tried).await? {
            for key in [self.keys.suspects(&queue), self.keys.queue(&queue)] {
                self.find_in_list(tried, &key, &queue, search).await?;
            }
        }
        Ok(())
    }

    async fn find_in_list(
        &self,
        tried: &'static str,
        key: &str,
        queue: &str,
        search: &mut Search,
    ) -> Result<(), StoreError> {
        let mut seen = 0;
        while !search.is_over() && seen < SCAN_LEN_MAX {
            let (from, to) = (-((seen + SCAN_STEP) as i64), -(seen as i64) - 1);
            let range = self.work.query(tried, cmd("LRANGE").arg(key).arg(from).arg(to)).await?;
            let elements = values::all_bytes(tried, range)?;
            seen += SCAN_STEP;
            let is_end = elements.len() < SCAN_STEP;
            for element in elements {
                search.offer(Found::new(element, Lair::Queue(key.to_owned(), queue.to_owned())));
            }
            if is_end {
                break;
            }
        }
        Ok(())
    }

    async fn find_in_set(&self, tried: &'static str, set: Set, search: &mut Search) -> Result<(), StoreError> {
        let mut seen = 0;
        while !search.is_over() && seen < SCAN_LEN_MAX {
            let range =
                cmd("ZRANGE").arg(set.key(&self.keys)).arg(seen).arg(seen + SCAN_STEP - 1).arg("WITHSCORES").clone();
            let members = values::scored(tried, self.work.query(tried, &range).await?)?;
            seen += SCAN_STEP;
            let is_end = members.len() < SCAN_STEP;
            for (member, score) in members {
                search.offer(Found::new(member, Lair::Set(set, instant_of(score))));
            }
            if is_end {
                break;
            }
        }
        Ok(())
    }

    pub(super) async fn get(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.find("get", &[id]).await?.remove(&id).map(|found| found.record()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redis::envelope::id_of;

    #[test]
    fn an_id_is_read_out_of_a_text_the_short_way_and_the_long_way_alike() {
        let id = "0199aabbccdd00112233445f";
        for text in [
            format!(r#"{{"class":"A","args":[],"jid":"{id}"}}"#),
            format!(r#"{{"class":"A","args":["\"jid\":\"x\""],"jid" : "{id}"}}"#),
            format!(r#"{{"class":"A","args":[{{"jid":"0199aabbccdd0011223344ff"}}],"jid":"{id}"}}"#),
        ] {
            assert_eq!(id_in(text.as_bytes()), id_of(id), "{text}");
        }
        assert_eq!(id_in(b"no job"), derived_id(b"no job"));
        assert_ne!(id_of("short"), id_of("shorter"));
    }
}
