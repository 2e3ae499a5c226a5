//! What people see of the memory store: records, pages, counts.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::job::{JobId, JobRecord};
use crate::state::State;
use crate::store::memory::ledger::{Entry, Ledger, day_of};
use crate::store::{Counts, Cursor, DayTotals, JobPage, JobQuery, ProcessInfo, QueueInfo, RunningJob, Totals};

/// Running jobs shown for each process.
const JOBS_SHOWN: usize = 100;

impl Ledger {
    pub(super) fn get(&self, id: JobId) -> Option<JobRecord> {
        self.jobs.get(&id).map(|entry| entry.record.clone())
    }

    pub(super) fn list(&self, query: &JobQuery) -> JobPage {
        let mut found: Vec<(Cursor, &JobRecord)> = self
            .jobs
            .values()
            .filter(|entry| query.matches(&entry.record))
            .map(|entry| (place_of(entry, query.state), &entry.record))
            .collect();
        let is_newest_first = query.state.is_none_or(State::is_final);
        found.sort_unstable_by_key(|(cursor, _)| (cursor.at_ms, cursor.arrival));
        if is_newest_first {
            found.reverse();
        }
        let after = |cursor: &Cursor| match query.after {
            None => true,
            Some(after) if is_newest_first => (cursor.at_ms, cursor.arrival) < (after.at_ms, after.arrival),
            Some(after) => (cursor.at_ms, cursor.arrival) > (after.at_ms, after.arrival),
        };
        let mut rest = found.into_iter().filter(|(cursor, _)| after(cursor));
        let page: Vec<(Cursor, &JobRecord)> = rest.by_ref().take(query.limit).collect();
        let next = if rest.next().is_some() { page.last().map(|(cursor, _)| *cursor) } else { None };
        JobPage { jobs: page.into_iter().map(|(_, record)| record.clone()).collect(), next }
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.jobs.values() {
            *counts.of_mut(entry.record.state) += 1;
        }
        counts.totals = self.days.values().fold(Totals::default(), |sum, day| sum.plus(day));
        counts
    }

    pub(super) fn queues(&self, now: Timestamp) -> Vec<QueueInfo> {
        let mut queues: BTreeMap<&str, QueueInfo> = BTreeMap::new();
        for name in &self.paused {
            queues.entry(name).or_insert_with(|| empty_queue(name)).paused = true;
        }
        for Entry { record, .. } in self.jobs.values() {
            let queue = queues.entry(&record.queue).or_insert_with(|| empty_queue(&record.queue));
            match record.state {
                State::Ready => {
                    queue.ready += 1;
                    let waited_ms = now.since(record.run_at).as_millis() as u64;
                    queue.latency_ms = queue.latency_ms.max(waited_ms);
                }
                State::Running => queue.running += 1,
                State::Scheduled | State::Retry => queue.waiting += 1,
                State::Done | State::Dead | State::Cancelled => {}
            }
        }
        queues.into_values().collect()
    }

    pub(super) fn processes(&self) -> Vec<ProcessInfo> {
        let mut members: Vec<_> = self.members.iter().filter(|(_, member)| !member.is_lost).collect();
        members.sort_by_key(|(id, member)| (member.joined_at, *id));
        let process = |(id, member): (&_, &crate::store::memory::ledger::Member)| {
            let mut jobs: Vec<RunningJob> = self.held_by(id).filter_map(running_job).collect();
            jobs.sort_by_key(|job| (job.leased_at, job.id));
            let running = jobs.len() as u64;
            jobs.truncate(JOBS_SHOWN);
            ProcessInfo {
                info: member.info.clone(),
                joined_at: member.joined_at,
                beat_at: member.beat_at,
                lease_until: member.lease_until,
                vitals: member.vitals,
                running,
                jobs,
            }
        };
        members.into_iter().map(process).collect()
    }

    pub(super) fn history(&self, days: u32, now: Timestamp) -> Vec<DayTotals> {
        let first = day_of(now) - i64::from(days - 1) * 24 * 60 * 60 * 1_000;
        let day = |(&day, &totals): (&i64, &Totals)| DayTotals { day: Timestamp::from_millis(day), totals };
        self.days.range(first..).rev().map(day).collect()
    }
}

fn empty_queue(name: &str) -> QueueInfo {
    QueueInfo { name: name.to_owned(), ready: 0, running: 0, waiting: 0, latency_ms: 0, paused: false }
}

fn running_job(entry: &Entry) -> Option<RunningJob> {
    let record = &entry.record;
    Some(RunningJob {
        id: record.id,
        kind: record.kind.clone(),
        queue: record.queue.clone(),
        leased_at: record.leased_at?,
        attempt: record.attempt,
    })
}

/// Where a record stands in a listing of `state`.
fn place_of(entry: &Entry, state: Option<State>) -> Cursor {
    let record = &entry.record;
    let at = match state {
        None => Timestamp::EPOCH,
        Some(state) if state.is_final() => record.finished_at.unwrap_or(record.run_at),
        Some(_) => record.run_at,
    };
    Cursor { at_ms: at.as_millis(), arrival: entry.arrival as i64 }
}
