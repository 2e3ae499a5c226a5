//! Changes many jobs at once: "retry all", "kill all", "delete all" of what a person has in view.
//!
//! A [`Sweep`] walks the listing of its filter by cursor, a page at a time, and gives each page to the store's own
//! verb. So it adds no power of its own: each job is changed, or refused, by the table of states, and jobs are let in
//! between the steps. It changes no more jobs than there were in the chosen state when it began, and none that was
//! enqueued later, so that it ends even where jobs come back as fast as it walks (a job that fails again at once).
//! Jobs whose state changes while it walks may be missed, as with a listing that a person reads.

use std::sync::Arc;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::error::Error;
use crate::job::JobId;
use crate::state::State;
use crate::store::{Changed, Cursor, JobQuery, PAGE_LEN_MAX, Store, VERB_LEN_MAX};

/// Jobs changed in one step.
const STEP_LEN: usize = 1_000;
const _: () = assert!(STEP_LEN <= PAGE_LEN_MAX);
const _: () = assert!(STEP_LEN <= VERB_LEN_MAX);

/// What to do to each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Make it ready now: scheduled, retry, dead and cancelled jobs.
    Requeue,
    /// Put it among the dead: any but running jobs.
    Kill,
    /// Call it off; a running job is asked.
    Cancel,
    /// Remove it: any but running jobs.
    Delete,
}

/// Which jobs; each field that is set makes them fewer. See [`JobQuery`] for what each means.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Only in this state.
    pub state: Option<State>,
    /// Only in this queue.
    pub queue: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only with this text in them.
    pub search: Option<String>,
}

/// What a sweep has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Swept {
    /// Jobs changed.
    pub changed: u64,
    /// Running jobs that were asked to give way.
    pub asked: u64,
    /// Jobs whose state did not allow it, or that were gone; nothing was done to them.
    pub refused: u64,
}

/// A change of many jobs, under way. Dropping it leaves done what is done. Made by
/// [`Client::sweep`](crate::Client::sweep).
#[derive(Debug)]
pub struct Sweep {
    store: Arc<dyn Store>,
    edit: Edit,
    query: JobQuery,
    began_at: Timestamp,
    /// Jobs that may still be changed: as many as there were when it began, less those seen.
    left: u64,
    swept: Swept,
    is_over: bool,
}

impl Sweep {
    pub(crate) async fn begin(store: Arc<dyn Store>, edit: Edit, filter: JobFilter) -> Result<Sweep, Error> {
        let counts = store.counts().await?;
        let left = match filter.state {
            Some(state) => counts.of(state),
            None => State::ALL.into_iter().map(|state| counts.of(state)).sum(),
        };
        let JobFilter { state, queue, kind, search } = filter;
        let query = JobQuery { state, queue, kind, search, after: None, limit: STEP_LEN };
        let began_at = store.now();
        Ok(Sweep { store, edit, query, began_at, left, swept: Swept::default(), is_over: false })
    }

    /// What has been done so far.
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// Changes the next page of jobs, at most a thousand. Answers whether there may be more to do.
    ///
    /// # Errors
    /// [`Error::Store`]; what was done until then stays done, and the step may be repeated.
    pub async fn step(&mut self) -> Result<bool, Error> {
        if self.is_over {
            return Ok(false);
        }
        let page = self.store.list(self.query.clone()).await?;
        let is_older = |enqueued_at: Timestamp| enqueued_at <= self.began_at;
        let ids: Vec<JobId> = page.jobs.iter().filter(|job| is_older(job.enqueued_at)).map(|job| job.id).collect();
        self.change(ids).await?;
        self.go_on_after(page.next);
        Ok(!self.is_over)
    }

    /// Takes every step. Answers what was done in all.
    ///
    /// # Errors
    /// As [`Sweep::step`].
    pub async fn finish(mut self) -> Result<Swept, Error> {
        while self.step().await? {}
        Ok(self.swept)
    }

    async fn change(&mut self, mut ids: Vec<JobId>) -> Result<(), Error> {
        ids.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        if ids.is_empty() {
            return Ok(());
        }
        let len = ids.len() as u64;
        let answers = match self.edit {
            Edit::Requeue => self.store.requeue(ids).await?,
            Edit::Kill => self.store.kill(ids).await?,
            Edit::Cancel => self.store.cancel(ids).await?,
            Edit::Delete => self.store.delete(ids).await?,
        };
        self.left -= len;
        for answer in answers {
            match answer {
                Changed::From(_) => self.swept.changed += 1,
                Changed::Asked => self.swept.asked += 1,
                Changed::Refused(_) | Changed::NotFound => self.swept.refused += 1,
            }
        }
        Ok(())
    }

    fn go_on_after(&mut self, next: Option<Cursor>) {
        self.is_over = next.is_none() || self.left == 0;
        self.query.after = next;
    }
}
