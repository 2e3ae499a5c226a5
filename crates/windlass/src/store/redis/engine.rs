//! What the verbs share: connections, names, the time; and how jobs come in.
//!
//! Nothing here belongs to a caller's thread or runtime: every verb runs on the store's own, and the caller only waits.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redis::{Value, cmd};
use tokio::sync::watch;

use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::failpoint;
use crate::job::{JobId, JobRecord, NewJob};
use crate::state::State;
use crate::store::redis::address::{Address, Durability};
use crate::store::redis::bell::{Bell, Heard};
use crate::store::redis::edges::Cards;
use crate::store::redis::envelope::{self, Dialect};
use crate::store::redis::keys::{Keys, day_of};
use crate::store::redis::link::{Link, server_time};
use crate::store::redis::moves::{IDS_KEPT_S, PLACES_KEPT_S, Score, Set, keep_member, place};
use crate::store::redis::script::{Call, INSERT};
use crate::store::redis::values;
use crate::store::{Inserted, LeasePlan, MemberId, RECOVERIES_SUSPECT};

/// Jobs in one group of an insert: their ids and places must fit into one call of `unpack`.
const GROUP_LEN_MAX: usize = 250;

/// How long an answer may take before the connection is given up.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a beat may take: it must be tried again well within a lease.
const BEAT_TIME_MAX: Duration = Duration::from_secs(2);

/// How long an accepted job may take to reach the disk or the replicas.
const DURABLE_TIME_MAX: Duration = Duration::from_secs(4);

/// What the verbs share.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) address: Arc<Address>,
    pub(super) keys: Keys,
    pub(super) dialect: Dialect,
    /// For everything but beats.
    pub(super) work: Link,
    /// Beats go their own way: nothing else may hold them up.
    pub(super) beats: Link,
    pub(super) time: Time,
    pub(super) bell: Arc<Bell>,
    /// What Sidekiq's programs are shown of the processes that joined here.
    pub(super) cards: Cards,
    arrivals: AtomicU64,
    blocks: AtomicI64,
    /// The last look for ready jobs that found none, and the last one for due jobs.
    pub(super) found_none: Mutex<Option<(LeasePlan, Heard)>>,
    pub(super) found_due: Mutex<Option<(Option<Timestamp>, Heard)>>,
    /// The blocks of leases whose answers never came, by member.
    pub(super) unheard: Mutex<HashMap<String, HashSet<i64>>>,
}

/// The store's clock: the server's, or one that a test moves.
#[derive(Debug)]
pub(super) struct Time {
    given: Option<Arc<dyn Clock>>,
    own: SystemClock,
    offset_ms: AtomicI64,
}

impl Time {
    pub(super) fn new(given: Option<Arc<dyn Clock>>) -> Time {
        Time { given, own: SystemClock::new(), offset_ms: AtomicI64::new(0) }
    }

    pub(super) fn now(&self) -> Timestamp {
        match &self.given {
            Some(clock) => clock.now(),
            // ORDER: Relaxed; a single number, and any recent one will do.
            None => server_time(&self.own, self.offset_ms.load(Ordering::Relaxed)),
        }
    }

    /// What a script is told: 0 for the server's own time.
    pub(super) fn told(&self) -> i64 {
        self.given.as_ref().map_or(0, |clock| clock.now().as_millis())
    }

    /// Learns the server's time.
    pub(super) fn note(&self, server_now_ms: i64) {
        self.note_offset(server_now_ms - self.own.now().as_millis());
    }

    pub(super) fn note_offset(&self, offset_ms: i64) {
        // ORDER: Relaxed; as above.
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }
}

/// The field of a ledger, packed into a token's `row`: the block of its lease, its number there, and whether the job
/// must never run twice. A block begins with the millisecond of the lease and is never used again by a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row(pub(super) i64);

/// Blocks in one millisecond, and jobs in one block, as bits.
const BLOCK_BITS: u32 = 8;
const INDEX_BITS: u32 = 13;
const _: () = assert!(crate::store::VERB_LEN_MAX < 1 << INDEX_BITS);
/// What blocks count their milliseconds from: 2020. Years beyond 2080 would need more bits.
const BLOCK_EPOCH_MS: i64 = 1_577_836_800_000;

impl Row {
    pub(super) fn new(block: i64, index: usize, at_most_once: bool) -> Row {
        Row(((block << INDEX_BITS | index as i64) << 1) | i64::from(at_most_once))
    }

    pub(super) fn block(self) -> i64 {
        self.0 >> (INDEX_BITS + 1)
    }

    pub(super) fn is_at_most_once(self) -> bool {
        self.0 & 1 == 1
    }

    /// When the lease was.
    pub(super) fn leased_at(self) -> Timestamp {
        Timestamp::from_millis((self.block() >> BLOCK_BITS) + BLOCK_EPOCH_MS)
    }

    pub(super) fn field(self) -> String {
        let index = self.0 >> 1 & ((1 << INDEX_BITS) - 1);
        format!("{}{}{index}", self.block(), mark(self.is_at_most_once()))
    }

    pub(super) fn of_field(field: &[u8]) -> Option<Row> {
        let text = std::str::from_utf8(field).ok()?;
        let (block, index) = text.split_once(['.', '!'])?;
        Some(Row::new(block.parse().ok()?, index.parse().ok()?, text.contains('!')))
    }
}

/// What stands between block and number in the field of a ledger.
pub(super) fn mark(at_most_once: bool) -> &'static str {
    if at_most_once { "!" } else { "." }
}

impl Engine {
    pub(super) fn new(address: Address, given: Option<Arc<dyn Clock>>, ring: watch::Sender<u64>) -> Engine {
        let address = Arc::new(address);
        let keys = Keys::new(address.prefix());
        Engine {
            dialect: address.dialect,
            work: Link::new(Arc::clone(&address), ANSWER_TIME_MAX),
            beats: Link::new(Arc::clone(&address), BEAT_TIME_MAX),
            time: Time::new(given),
            bell: Arc::new(Bell::new(Arc::clone(&address), &keys, ring)),
            cards: Cards::default(),
            arrivals: AtomicU64::new(0),
            blocks: AtomicI64::new(0),
            found_none: Mutex::default(),
            found_due: Mutex::default(),
            unheard: Mutex::default(),
            keys,
            address,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.time.now()
    }

    /// Tells who waits here that jobs have become ready.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// A score for now, behind those given before for the same instant.
    pub(super) fn score(&self, at: Timestamp) -> Score {
        // ORDER: Relaxed; only the numbers must differ.
        Score::new(at, self.arrivals.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn next_block(&self) -> i64 {
        let earliest = (self.now().as_millis() - BLOCK_EPOCH_MS).max(0) << BLOCK_BITS;
        let next = |last: i64| (last + 1).max(earliest);
        // ORDER: Relaxed; only the numbers must differ.
        let last = self.blocks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        next(last.unwrap_or_else(|last| last))
    }

    fn unheard(&self) -> MutexGuard<'_, HashMap<String, HashSet<i64>>> {
        // No code that can panic runs under the lock.
        self.unheard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes that what a lease took never reached the caller.
    pub(super) fn note_unheard(&self, member: &MemberId, block: i64) {
        self.unheard().entry(member.to_string()).or_default().insert(block);
    }

    pub(super) fn unheard_of(&self, member: &MemberId) -> HashSet<i64> {
        self.unheard().get(member.as_str()).cloned().unwrap_or_default()
    }

    pub(super) fn forget_unheard(&self, member: &MemberId) {
        self.unheard().remove(member.as_str());
    }
}

/// A job on its way into the store.
struct Incoming {
    id: JobId,
    queue: String,
    place: Place,
    element: Vec<u8>,
    index: usize,
}

#[derive(PartialEq, Eq)]
enum Place {
    Ready { is_suspect: bool },
    Set(Set, Score, Option<Timestamp>),
}

impl Engine {
    pub(super) async fn insert(&self, batch: Vec<NewJob>) -> Result<Vec<Inserted>, StoreError> {
        failpoint::hit("redis.insert")?;
        let now = self.now();
        let incoming = |(index, job): (usize, NewJob)| {
            let is_ready = job.run_at <= now;
            let element = envelope::new_job(&job, is_ready, now, self.dialect);
            let place = match is_ready {
                true => Place::Ready { is_suspect: false },
                false => Place::Set(Set::Schedule, self.score(job.run_at), None),
            };
            Incoming { id: job.id, queue: job.queue, place, element, index }
        };
        let incoming = batch.into_iter().enumerate().map(incoming).collect();
        self.take_in("insert", incoming, "enqueued", now).await
    }

    pub(super) async fn restore(&self, batch: Vec<JobRecord>) -> Result<Vec<Inserted>, StoreError> {
        failpoint::hit("redis.restore")?;
        let now = self.now();
        let incoming = |(index, job): (usize, JobRecord)| {
            let (id, queue) = (job.id, job.queue.clone());
            let place = match Set::of(job.state) {
                None => Place::Ready { is_suspect: job.recoveries >= RECOVERIES_SUSPECT },
                Some(set) => {
                    let at = if job.state.is_final() { job.finished_at.unwrap_or(now) } else { job.run_at };
                    Place::Set(set, self.score(at), job.keep_until.filter(|_| job.state == State::Done))
                }
            };
            let element = envelope::restored_job(job, now, self.dialect);
            Incoming { id, queue, place, element, index }
        };
        let incoming = batch.into_iter().enumerate().map(incoming).collect();
        self.take_in("restore", incoming, "", now).await
    }

    /// Stores what is not known yet, in one step.
    async fn take_in(
        &self,
        tried: &'static str,
        incoming: Vec<Incoming>,
        total: &str,
        now: Timestamp,
    ) -> Result<Vec<Inserted>, StoreError> {
        let mut answers: Vec<Inserted> = incoming.iter().map(|job| Inserted::Accepted(job.id)).collect();
        if incoming.is_empty() {
            return Ok(answers);
        }
        let has_ready = incoming.iter().any(|job| matches!(job.place, Place::Ready { .. }));
        let mut seen = HashSet::with_capacity(incoming.len());
        let (first, again): (Vec<Incoming>, Vec<Incoming>) = incoming.into_iter().partition(|job| seen.insert(job.id));
        again.iter().for_each(|job| answers[job.index] = Inserted::Duplicate(job.id));
        let bytes = first.iter().map(|job| job.element.len() + 96).sum();
        let mut call = Call::with_capacity(&INSERT, bytes, 6 * first.len() + 64);
        call.key(self.keys.queues()).key(self.keys.totals()).key(self.keys.totals_on(&day_of(now)));
        call.number(IDS_KEPT_S).number(PLACES_KEPT_S).arg(total);
        let mut order = Vec::with_capacity(first.len());
        for group in self.groups(first) {
            order.extend(group.iter().map(|job| job.index));
            self.add_group(&mut call, &group);
        }
        let value = match self.address.durability {
            Durability::Accepted => self.work.call(tried, &call).await?,
            durable => self.call_durably(tried, &call, durable).await?,
        };
        for number in values::numbers(tried, value)? {
            if let Some(index) = order.get(number as usize) {
                answers[*index] = Inserted::Duplicate(answers[*index].id());
            }
        }
        failpoint::hit("redis.insert.reply.lost")?;
        if has_ready {
            self.ring();
        }
        Ok(answers)
    }

    /// Jobs that go to the same place and whose ids are remembered together, in their order.
    fn groups(&self, incoming: Vec<Incoming>) -> Vec<Vec<Incoming>> {
        let mut groups: Vec<Vec<Incoming>> = Vec::new();
        let mut open: HashMap<(Option<String>, String, bool), usize> = HashMap::new();
        for job in incoming {
            let target = match &job.place {
                Place::Ready { .. } => job.queue.clone(),
                Place::Set(set, _, keep) => format!(" {set:?}{}", keep.is_some()),
            };
            let is_suspect = job.place == Place::Ready { is_suspect: true };
            let group = open.entry((self.keys.ids(&job.id), target, is_suspect)).or_insert(usize::MAX);
            if groups.get(*group).is_none_or(|group| group.len() == GROUP_LEN_MAX) {
                *group = groups.len();
                groups.push(Vec::new());
            }
            groups[*group].push(job);
        }
        groups
    }

    /// A group of `insert.lua`.
    fn add_group(&self, call: &mut Call, group: &[Incoming]) {
        const FIXED_KEYS: usize = 3;
        let Some(first) = group.first() else { return };
        let ids = self.keys.ids(&first.id).unwrap_or_else(|| self.keys.key("wl:ids:other"));
        let ids = call.number_of(ids, FIXED_KEYS);
        let (set, is_kept) = match &first.place {
            Place::Ready { .. } => (None, false),
            Place::Set(set, _, keep) => (Some(*set), keep.is_some()),
        };
        let places = set.and_then(|_| self.keys.places(&first.id)).map_or(0, |key| call.number_of(key, FIXED_KEYS));
        let target = match (set, &first.place) {
            (Some(set), _) => set.key(&self.keys),
            (None, Place::Ready { is_suspect: true }) => self.keys.suspects(&first.queue),
            (None, _) => self.keys.queue(&first.queue),
        };
        let target = call.number_of(target, FIXED_KEYS);
        let keep = if is_kept { call.number_of(self.keys.keep(), FIXED_KEYS) } else { 0 };
        let queue = if set.is_none() { first.queue.as_str() } else { "" };
        call.number(ids).number(places).number(target).number(if set.is_some() { 2 } else { 1 });
        call.number(keep).arg(queue).number(group.len());
        for job in group {
            call.arg(job.id.as_bytes());
        }
        for job in group {
            if let Place::Set(_, score, _) = &job.place {
                call.arg(&score.0);
            }
            call.arg(&job.element);
        }
        if places > 0 {
            for job in group {
                if let Place::Set(set, score, _) = &job.place {
                    call.arg(job.id.as_bytes()).arg(place(*set, score));
                }
            }
        }
        if is_kept {
            for job in group {
                if let Place::Set(_, score, Some(until)) = &job.place {
                    call.number(until.as_millis()).arg(keep_member(&job.id, score));
                }
            }
        }
    }

    /// Stores, and waits until the disk or the replicas have it.
    async fn call_durably(&self, tried: &'static str, call: &Call, durable: Durability) -> Result<Value, StoreError> {
        let time_ms = DURABLE_TIME_MAX.as_millis() as u64;
        let (wait, wanted) = match durable {
            Durability::Replicated(count) => (cmd("WAIT").arg(count).arg(time_ms).clone(), i64::from(count)),
            _ => (cmd("WAITAOF").arg(1).arg(0).arg(time_ms).clone(), 1),
        };
        let (value, reached) = self.work.call_then(tried, call, &wait).await?;
        let reached = match reached {
            Value::Array(counts) => values::number(tried, counts.first().unwrap_or(&Value::Nil))?,
            count => values::number(tried, &count)?,
        };
        if reached >= wanted {
            return Ok(value);
        }
        let detail = format!("stored, but not yet as durable as asked for ({reached} of {wanted}) after {time_ms} ms");
        Err(StoreError::Unavailable { tried, store: self.address.to_url(), detail })
    }
}
