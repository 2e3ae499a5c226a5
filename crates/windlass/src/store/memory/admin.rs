//! What clients do to jobs in the memory store: cancel, kill, requeue, delete, clear, prune.

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::JobId;
use crate::state::{Event, State};
use crate::store::memory::ledger::{Entry, Ledger};
use crate::store::{Changed, ClearFilter, Keep, limits};

impl Ledger {
    /// One answer for each id, in order.
    pub(super) fn for_each(
        &mut self,
        tried: &'static str,
        ids: &[JobId],
        mut verb: impl FnMut(&mut Ledger, JobId) -> Changed,
    ) -> Result<Vec<Changed>, StoreError> {
        limits::check_len(tried, ids.len())?;
        Ok(ids.iter().map(|id| verb(self, *id)).collect())
    }

    /// Takes a job out if `event` may happen to it, else says why not.
    fn take_for(&mut self, id: JobId, event: Event) -> Result<(Entry, State), Changed> {
        let state = self.jobs.get(&id).ok_or(Changed::NotFound)?.record.state;
        if !state.allows(event) {
            return Err(Changed::Refused(state));
        }
        self.take(id).map(|entry| (entry, state)).ok_or(Changed::NotFound)
    }

    pub(super) fn cancel(&mut self, id: JobId, now: Timestamp) -> Changed {
        if let Some(entry) = self.jobs.get_mut(&id)
            && entry.record.state == State::Running
        {
            entry.record.cancel_asked = true;
            return Changed::Asked;
        }
        match self.take_for(id, Event::Cancel) {
            Err(refusal) => refusal,
            Ok((entry, from)) => {
                self.end(entry, Event::Cancel, State::Cancelled, Some("asked to cancel"), now);
                Changed::From(from)
            }
        }
    }

    pub(super) fn kill(&mut self, id: JobId, now: Timestamp) -> Changed {
        match self.take_for(id, Event::Kill) {
            Err(refusal) => refusal,
            Ok((mut entry, from)) => {
                entry.record.keep_until = None;
                self.end(entry, Event::Kill, State::Dead, Some("killed"), now);
                Changed::From(from)
            }
        }
    }

    pub(super) fn requeue(&mut self, id: JobId, now: Timestamp) -> Changed {
        match self.take_for(id, Event::Requeue) {
            Err(refusal) => refusal,
            Ok((mut entry, from)) => {
                if from.is_final() {
                    entry.start_again();
                }
                entry.record.run_at = now;
                // Whoever asks for it now wants it run, also when it had expired.
                entry.record.expires_at = None;
                self.move_to(entry, Event::Requeue, State::Ready);
                Changed::From(from)
            }
        }
    }

    pub(super) fn delete(&mut self, id: JobId) -> Changed {
        match self.take_for(id, Event::Delete) {
            Err(refusal) => refusal,
            Ok((_, from)) => Changed::From(from),
        }
    }

    pub(super) fn clear(&mut self, filter: &ClearFilter, max: usize) -> usize {
        let matches = |entry: &&Entry| {
            let record = &entry.record;
            record.state != State::Running
                && filter.state.is_none_or(|state| state == record.state)
                && filter.queue.as_ref().is_none_or(|queue| *queue == record.queue)
        };
        let ids: Vec<JobId> = self.jobs.values().filter(matches).map(|entry| entry.record.id).take(max).collect();
        for id in &ids {
            self.take(*id);
        }
        ids.len()
    }

    pub(super) fn prune(&mut self, keep: Keep, max: usize, now: Timestamp) -> usize {
        let mut over: Vec<JobId> = self.jobs.values().filter(|entry| is_over(entry, keep, now)).map(id_of).collect();
        over.truncate(max);
        for id in &over {
            self.take(*id);
        }
        let mut dead: Vec<(Option<Timestamp>, JobId)> = self
            .jobs
            .values()
            .filter(|entry| entry.record.state == State::Dead)
            .map(|entry| (entry.record.finished_at, entry.record.id))
            .collect();
        dead.sort_unstable();
        let excess = dead.len().saturating_sub(keep.dead_count_max as usize).min(max - over.len());
        for (_, id) in &dead[..excess] {
            self.take(*id);
        }
        over.len() + excess
    }
}

fn id_of(entry: &Entry) -> JobId {
    entry.record.id
}

/// Whether the job has been kept long enough.
fn is_over(entry: &Entry, keep: Keep, now: Timestamp) -> bool {
    let record = &entry.record;
    let ended = |kept| record.finished_at.is_some_and(|at| at + kept <= now);
    match record.state {
        State::Done => record.keep_until.is_some_and(|until| until <= now),
        State::Dead => ended(keep.dead),
        State::Cancelled => ended(keep.cancelled),
        State::Scheduled | State::Ready | State::Running | State::Retry => false,
    }
}
