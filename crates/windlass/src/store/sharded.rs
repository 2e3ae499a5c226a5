//! Several stores as one: each queue lives in one of them.
//!
//! One Redis server works on one processor. When that is not enough, queues are spread over several servers, or over
//! several hash slots of a cluster: `shards:URL|URL|…`. Every process must name the same stores in the same order.
//!
//! # What is where
//! A queue's name decides its shard ([`shard_of`]), so all jobs of a queue, in whatever state, are in one store, and all that
//! the contract says of one queue holds unchanged. A process is a member of every shard. What is asked of jobs by id is
//! asked of all shards.
//!
//! # What is weaker than in one store
//! - A batch that spans shards is stored shard by shard: an error may leave a part of it stored. The ids are known by then,
//!   so repeating the call stores the rest and answers "duplicate" for what is there.
//! - One id in two queues of two shards is two jobs.
//! - A listing over all queues goes shard by shard; within each it is in the contract's order.
//! - A member may hold one suspect in each shard, and each shard keeps its own number of dead jobs, and tells apart its
//!   own number of kinds and queues.
//! - A member that has lost its lease in one shard has lost it: every verb answers [`StoreError::Fenced`], and the other
//!   shards hand its jobs on when its lease runs out there.
//!
//! # Adding a shard
//! moves the home of most queues. Stop the servers and migrate (`crate::migrate`) from the old list to a new one.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, LeaseToken, LeasedJob, NewJob};
use crate::state::State;
use crate::store::{
    Changed, ClearFilter, Counts, Cursor, DayTotals, Finding, Finished, Inserted, JobPage, JobQuery, Keep, LeasePlan,
    MemberId, MemberInfo, Orders, ProcessInfo, ProcessOrder, ProcessTarget, Promoted, QueueInfo, Reaped, Reply, Ring,
    Sample, Series, SeriesQuery, Store, StoreInfo, Totals, Verdict, Vitals, limits,
};

/// The most stores that can be one.
pub const SHARDS_MAX: usize = 256;

/// Several stores as one.
#[derive(Debug)]
pub struct ShardedStore {
    shards: Vec<Arc<dyn Store>>,
}

impl ShardedStore {
    /// One store out of 1 to [`SHARDS_MAX`], whose order is part of where things are.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for none and for too many.
    pub fn new(shards: Vec<Arc<dyn Store>>) -> Result<ShardedStore, StoreError> {
        if (1..=SHARDS_MAX).contains(&shards.len()) {
            return Ok(ShardedStore { shards });
        }
        Err(StoreError::Refused {
            tried: "open",
            store: "shards:".to_owned(),
            found: format!("{} stores", shards.len()),
            hint: format!("name 1 to {SHARDS_MAX}, as shards:URL|URL"),
        })
    }

    fn at(&self, queue: &str) -> (usize, &Arc<dyn Store>) {
        let index = shard_of(queue, self.shards.len());
        (index, &self.shards[index])
    }

    /// Asks every shard at the same time; the first error in the order of the shards, if there is one.
    async fn all<'a, T>(&'a self, ask: impl Fn(&'a Arc<dyn Store>) -> Reply<'a, T>) -> Result<Vec<T>, StoreError> {
        together(self.shards.iter().map(ask).collect()).await.into_iter().collect()
    }

    /// Splits what belongs to different shards, asks each for its part in turn, and puts the answers in the order of the
    /// question.
    async fn parts<'a, Q, A>(
        &'a self,
        questions: Vec<(usize, Q)>,
        ask: impl Fn(&'a Arc<dyn Store>, Vec<Q>) -> Reply<'a, Vec<A>>,
    ) -> Result<Vec<A>, StoreError> {
        let mut answers: Vec<Option<A>> = questions.iter().map(|_| None).collect();
        let mut by_shard: BTreeMap<usize, (Vec<usize>, Vec<Q>)> = BTreeMap::new();
        for (place, (shard, question)) in questions.into_iter().enumerate() {
            let (places, part) = by_shard.entry(shard).or_default();
            places.push(place);
            part.push(question);
        }
        for (shard, (places, part)) in by_shard {
            for (place, answer) in places.into_iter().zip(ask(&self.shards[shard], part).await?) {
                answers[place] = Some(answer);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Asks every shard for all ids; each job is in one of them at most.
    async fn by_id<'a>(
        &'a self,
        ids: Vec<JobId>,
        ask: impl Fn(&'a Arc<dyn Store>, Vec<JobId>) -> Reply<'a, Vec<Changed>>,
    ) -> Result<Vec<Changed>, StoreError> {
        let answers = self.all(|shard| ask(shard, ids.clone())).await?;
        let found =
            |place: usize| answers.iter().map(|shard| shard[place]).find(|changed| *changed != Changed::NotFound);
        Ok((0..ids.len()).map(|place| found(place).unwrap_or(Changed::NotFound)).collect())
    }

    /// A token that says which shard it is of.
    fn outward(&self, shard: usize, token: LeaseToken) -> LeaseToken {
        LeaseToken { row: token.row * self.shards.len() as i64 + shard as i64, ..token }
    }

    fn inward(&self, token: LeaseToken) -> (usize, LeaseToken) {
        let count = self.shards.len() as i64;
        (token.row.rem_euclid(count) as usize, LeaseToken { row: token.row.div_euclid(count), ..token })
    }

    /// Takes from the shards what `takes`, in their order, allow, shard after shard.
    async fn lease_in_order(&self, member: &MemberId, plan: LeasePlan) -> Result<Vec<LeasedJob>, StoreError> {
        let mut leased = Vec::new();
        let mut takes = plan.takes.into_iter().peekable();
        while let Some(first) = takes.next() {
            let (shard, store) = self.at(&first.queue);
            let mut part = vec![first];
            while let Some(next) = takes.next_if(|take| self.at(&take.queue).0 == shard) {
                part.push(next);
            }
            let max = plan.max - leased.len();
            let jobs = match store.lease(member, LeasePlan { takes: part, max }).await {
                Ok(jobs) => jobs,
                // What was taken is in our ledgers, and the caller must hear of it: the error comes with the next call.
                Err(_) if !leased.is_empty() => break,
                Err(error) => return Err(error),
            };
            let outward = |job: LeasedJob| LeasedJob { token: self.outward(shard, job.token), ..job };
            leased.extend(jobs.into_iter().map(outward));
        }
        Ok(leased)
    }

    /// One shard after the other; the place in the cursor says in which.
    async fn page(&self, query: JobQuery) -> Result<JobPage, StoreError> {
        let count = self.shards.len() as i64;
        let (shard, after) = match query.after {
            Some(Cursor { at_ms, arrival }) => {
                // A cursor of `at_ms` and arrival `i64::MAX` cannot come from a shard: it is the beginning of the next one.
                let inner = Cursor { at_ms, arrival: arrival.div_euclid(count) };
                (arrival.rem_euclid(count) as usize, (inner != BEGINNING).then_some(inner))
            }
            None => (0, None),
        };
        let wrap = |shard: usize, cursor: Cursor| Cursor {
            at_ms: cursor.at_ms,
            arrival: cursor.arrival * count + shard as i64,
        };
        let page = self.shards[shard].list(JobQuery { after, ..query }).await?;
        let next = match page.next {
            Some(cursor) => Some(wrap(shard, cursor)),
            None if shard + 1 < self.shards.len() => Some(wrap(shard + 1, BEGINNING)),
            None => None,
        };
        Ok(JobPage { next, ..page })
    }
}

/// Stands for the beginning of a shard's listing, in a cursor that points to the next shard.
const BEGINNING: Cursor = Cursor { at_ms: i64::MIN, arrival: -1 };

/// Which of `count` stores a queue lives in: its name by FNV-1a, modulo the count. Stable for ever.
pub fn shard_of(queue: &str, count: usize) -> usize {
    let hash = queue
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash % count as u64) as usize
}

/// Waits for all answers at the same time.
async fn together<T>(replies: Vec<Reply<'_, T>>) -> Vec<Result<T, StoreError>> {
    let mut pending: Vec<Result<Result<T, StoreError>, Reply<'_, T>>> = replies.into_iter().map(Err).collect();
    poll_fn(|context| {
        let mut is_done = true;
        for entry in &mut pending {
            if let Err(reply) = entry {
                match reply.as_mut().poll(context) {
                    Poll::Ready(answer) => *entry = Ok(answer),
                    Poll::Pending => is_done = false,
                }
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(Result::ok).collect()
}

/// Waits for the first answer; the others are dropped.
async fn first<T>(mut replies: Vec<Reply<'_, T>>) -> Result<T, StoreError> {
    poll_fn(|context| {
        let ready = |reply: &mut Reply<'_, T>| match reply.as_mut().poll(context) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        };
        replies.iter_mut().find_map(ready).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

impl Store for ShardedStore {
    fn describe(&self) -> StoreInfo {
        let each: Vec<StoreInfo> = self.shards.iter().map(|shard| shard.describe()).collect();
        let urls: Vec<&str> = each.iter().map(|info| info.url.as_str()).collect();
        StoreInfo { engine: "shards", url: format!("shards:{}", urls.join("|")), durability: each[0].durability }
    }

    fn now(&self) -> Timestamp {
        self.shards[0].now()
    }

    fn insert(&self, batch: Vec<NewJob>) -> Reply<'_, Vec<Inserted>> {
        Box::pin(async move {
            // Refused as a whole before anything is stored.
            limits::check_batch(&batch)?;
            let placed = batch.into_iter().map(|job| (self.at(&job.queue).0, job)).collect();
            self.parts(placed, |shard, part| shard.insert(part)).await
        })
    }

    fn restore(&self, batch: Vec<JobRecord>) -> Reply<'_, Vec<Inserted>> {
        Box::pin(async move {
            limits::check_restorable(&batch)?;
            let placed = batch.into_iter().map(|job| (self.at(&job.queue).0, job)).collect();
            self.parts(placed, |shard, part| shard.restore(part)).await
        })
    }

    fn lease(&self, member: &MemberId, plan: LeasePlan) -> Reply<'_, Vec<LeasedJob>> {
        let member = member.clone();
        Box::pin(async move {
            limits::check_len("lease", plan.max)?;
            self.lease_in_order(&member, plan).await
        })
    }

    fn finish(&self, member: &MemberId, verdicts: Vec<(LeaseToken, Verdict)>) -> Reply<'_, Vec<Finished>> {
        let member = member.clone();
        Box::pin(async move {
            limits::check_len("finish", verdicts.len())?;
            let place = |(token, verdict)| {
                let (shard, token) = self.inward(token);
                (shard, (token, verdict))
            };
            self.parts(verdicts.into_iter().map(place).collect(), |shard, part| shard.finish(&member, part)).await
        })
    }

    fn join(&self, member: MemberInfo, lease: Duration) -> Reply<'_, ()> {
        Box::pin(async move {
            let mut joined = Vec::new();
            for shard in &self.shards {
                if let Err(error) = shard.join(member.clone(), lease).await {
                    for shard in joined {
                        // The lease would run out by itself; leaving only spares others the wait.
                        let _: Result<usize, StoreError> = Store::leave(Arc::as_ref(shard), &member.id).await;
                    }
                    return Err(error);
                }
                joined.push(shard);
            }
            Ok(())
        })
    }

    fn beat(&self, member: &MemberId, vitals: Vitals) -> Reply<'_, Orders> {
        let member = member.clone();
        Box::pin(async move {
            let mut told = Orders::default();
            for (index, orders) in self.all(|shard| shard.beat(&member, vitals)).await?.into_iter().enumerate() {
                told.cancel.extend(orders.cancel.into_iter().map(|token| self.outward(index, token)));
                told.process.extend(
                    orders.process.into_iter().filter(|order| !told.process.contains(order)).collect::<Vec<_>>(),
                );
            }
            Ok(told)
        })
    }

    fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Reply<'_, usize> {
        // A process is a member of every shard: one of them tells it.
        self.shards[0].order(to, order)
    }

    fn leave(&self, member: &MemberId) -> Reply<'_, usize> {
        let member = member.clone();
        Box::pin(async move { Ok(self.all(|shard| shard.leave(&member)).await?.into_iter().sum()) })
    }

    fn reap(&self, max: usize) -> Reply<'_, Reaped> {
        Box::pin(async move {
            let mut all = Reaped::default();
            for reaped in self.all(|shard| shard.reap(max)).await? {
                all.members
                    .extend(reaped.members.into_iter().filter(|id| !all.members.contains(id)).collect::<Vec<_>>());
                all.recovered += reaped.recovered;
                all.dead += reaped.dead;
                all.cancelled += reaped.cancelled;
                all.more |= reaped.more;
            }
            Ok(all)
        })
    }

    fn promote(&self, max: usize) -> Reply<'_, Promoted> {
        Box::pin(async move {
            let mut all = Promoted::default();
            for promoted in self.all(|shard| shard.promote(max)).await? {
                all.ready += promoted.ready;
                all.expired += promoted.expired;
                all.next_due = all.next_due.into_iter().chain(promoted.next_due).min();
            }
            Ok(all)
        })
    }

    fn ring(&self) -> Ring {
        Ring(self.shards.iter().fold(0, |sum, shard| sum.wrapping_add(shard.ring().0)))
    }

    fn wait(&self, since: Ring, timeout: Duration) -> Reply<'_, ()> {
        let rings: Vec<Ring> = self.shards.iter().map(|shard| shard.ring()).collect();
        // Read one by one: a sum that is the same means that none has rung.
        if rings.iter().fold(0, |sum: u64, ring| sum.wrapping_add(ring.0)) != since.0 {
            return Box::pin(std::future::ready(Ok(())));
        }
        let waits = self.shards.iter().zip(rings).map(|(shard, ring)| shard.wait(ring, timeout)).collect();
        Box::pin(first(waits))
    }

    fn cancel(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        Box::pin(self.by_id(ids, |shard, ids| shard.cancel(ids)))
    }

    fn kill(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        Box::pin(self.by_id(ids, |shard, ids| shard.kill(ids)))
    }

    fn requeue(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        Box::pin(self.by_id(ids, |shard, ids| shard.requeue(ids)))
    }

    fn delete(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        Box::pin(self.by_id(ids, |shard, ids| shard.delete(ids)))
    }

    fn clear(&self, filter: ClearFilter, max: usize) -> Reply<'_, usize> {
        Box::pin(async move {
            let mut cleared = 0;
            for shard in &self.shards {
                cleared += shard.clear(filter.clone(), max - cleared).await?;
            }
            Ok(cleared)
        })
    }

    fn prune(&self, keep: Keep, max: usize) -> Reply<'_, usize> {
        Box::pin(async move {
            let mut pruned = 0;
            for shard in &self.shards {
                pruned += shard.prune(keep, max - pruned).await?;
            }
            Ok(pruned)
        })
    }

    fn pause(&self, queue: &str) -> Reply<'_, bool> {
        self.at(queue).1.pause(queue)
    }

    fn resume(&self, queue: &str) -> Reply<'_, bool> {
        self.at(queue).1.resume(queue)
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<JobRecord>> {
        Box::pin(async move { Ok(self.all(|shard| shard.get(id)).await?.into_iter().flatten().next()) })
    }

    fn list(&self, query: JobQuery) -> Reply<'_, JobPage> {
        match &query.queue {
            Some(queue) => self.at(queue).1.list(query),
            None => Box::pin(self.page(query)),
        }
    }

    fn counts(&self) -> Reply<'_, Counts> {
        Box::pin(async move {
            let mut all = Counts::default();
            for counts in self.all(|shard| shard.counts()).await? {
                State::ALL.into_iter().for_each(|state| *all.of_mut(state) += counts.of(state));
                all.totals = all.totals.plus(&counts.totals);
            }
            Ok(all)
        })
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        Box::pin(async move {
            let mut queues: Vec<QueueInfo> = self.all(|shard| shard.queues()).await?.into_iter().flatten().collect();
            queues.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(queues)
        })
    }

    fn processes(&self) -> Reply<'_, Vec<ProcessInfo>> {
        Box::pin(async move {
            let mut all: Vec<ProcessInfo> = Vec::new();
            for process in self.all(|shard| shard.processes()).await?.into_iter().flatten() {
                match all.iter_mut().find(|known| known.info.id == process.info.id) {
                    Some(known) => {
                        known.running += process.running;
                        known.jobs.extend(process.jobs);
                        known.jobs.sort_by_key(|job| job.leased_at);
                        known.jobs.truncate(100);
                    }
                    None => all.push(process),
                }
            }
            all.sort_by_key(|process| process.joined_at);
            Ok(all)
        })
    }

    fn history(&self, days: u32) -> Reply<'_, Vec<DayTotals>> {
        Box::pin(async move {
            let mut all: BTreeMap<Timestamp, Totals> = BTreeMap::new();
            for day in self.all(|shard| shard.history(days)).await?.into_iter().flatten() {
                let totals = all.entry(day.day).or_default();
                *totals = totals.plus(&day.totals);
            }
            Ok(all.into_iter().rev().map(|(day, totals)| DayTotals { day, totals }).collect())
        })
    }

    fn record(&self, member: &MemberId, samples: Vec<Sample>) -> Reply<'_, ()> {
        let member = member.clone();
        Box::pin(async move {
            limits::check_samples(&samples)?;
            let mut parts: Vec<Vec<Sample>> = self.shards.iter().map(|_| Vec::new()).collect();
            for sample in samples {
                parts[self.at(&sample.queue).0].push(sample);
            }
            // Also where there is nothing to add: each shard counts its own ready jobs.
            let replies = self.shards.iter().zip(parts).map(|(shard, part)| shard.record(&member, part)).collect();
            together(replies).await.into_iter().collect()
        })
    }

    fn series(&self, query: SeriesQuery) -> Reply<'_, Series> {
        Box::pin(async move {
            let mut all = self.all(|shard| shard.series(query.clone())).await?.into_iter();
            let mut sum = all.next().expect("there is a shard at least");
            all.for_each(|series| sum.add(series));
            Ok(sum)
        })
    }

    fn meters(&self) -> Reply<'_, Vec<Sample>> {
        Box::pin(async move { Ok(self.all(|shard| shard.meters()).await?.into_iter().flatten().collect()) })
    }

    fn check(&self) -> Reply<'_, Vec<Finding>> {
        Box::pin(async move { Ok(self.all(|shard| shard.check()).await?.into_iter().flatten().collect()) })
    }

    fn close(&self) -> Reply<'_, ()> {
        Box::pin(async move { self.all(|shard| shard.close()).await.map(|_| ()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a queue lives is part of the stored format: it must not change with a release.
    #[test]
    fn the_shard_of_a_queue_never_changes() {
        let shards: Vec<usize> = ["default", "mail", "a", "b", "low"].iter().map(|queue| shard_of(queue, 3)).collect();

        assert_eq!(shards, [0, 1, 1, 1, 0]);
    }

    #[test]
    fn none_and_too_many_stores_are_refused() {
        let store = || Arc::new(crate::store::memory::MemoryStore::default()) as Arc<dyn Store>;

        assert!(ShardedStore::new(Vec::new()).is_err());
        assert!(ShardedStore::new((0..=SHARDS_MAX).map(|_| store()).collect()).is_err());
    }
}
