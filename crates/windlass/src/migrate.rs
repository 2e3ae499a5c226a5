//! Moves every job of one store into another.
//!
//! Page by page: read from the source, restore in the destination, and, once that has answered, delete in the source.
//! A job is in at least one of the two at every instant, so nothing is lost wherever it stops; a restore of a job that is
//! there already changes nothing, so it may be begun again and goes on where it was.
//!
//! Nothing may work on either store meanwhile: a job that was restored, run and forgotten in the destination before
//! it was deleted in the source would be restored, and run, a second time. So a migration refuses to begin, and stops,
//! when it sees a process on either side. Clients may go on enqueueing into the destination; what they put into the
//! source while it is being emptied is moved as well, until a look finds nothing left.
//!
//! Pauses come along, before the first job does. Totals, history and finished jobs that are not kept stay behind.

use std::sync::Arc;

use crate::error::{Error, StoreError};
use crate::failpoint;
use crate::job::{JobId, JobRecord};
use crate::state::State;
use crate::store::{Changed, Counts, Inserted, JobQuery, PAGE_LEN_MAX, Store, VERB_LEN_MAX};

/// Jobs moved in one step.
const PAGE_LEN: usize = 500;
const _: () = assert!(PAGE_LEN <= PAGE_LEN_MAX);

/// The order in which states are emptied: what is waited for first comes first.
const ORDER: [State; 6] = [State::Ready, State::Retry, State::Scheduled, State::Dead, State::Cancelled, State::Done];

/// What a migration has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migrated {
    /// Jobs moved, by the state they were in; `totals` is not used.
    pub jobs: Counts,
    /// Of these, jobs that the destination had already, from a run that was interrupted.
    pub already_there: u64,
    /// Queues whose pause was carried over.
    pub pauses: u64,
}

impl Migrated {
    /// How many jobs in all.
    pub fn total(&self) -> u64 {
        ORDER.iter().map(|state| self.jobs.of(*state)).sum()
    }
}

/// Moves every job from one store to the other, tells `progress` after each step, and verifies the counts.
///
/// # Errors
/// [`StoreError::Refused`] when both are the same store, when a process works on either, or when the counts do not agree
/// at the end; and what the stores answer. Whatever it was: nothing is lost, and a second call goes on.
pub async fn migrate(
    from: &Arc<dyn Store>,
    to: &Arc<dyn Store>,
    mut progress: impl FnMut(&Migrated),
) -> Result<Migrated, Error> {
    refuse_same(from, to)?;
    hand_on_lost_jobs(from).await?;
    let mut migrated = Migrated { pauses: carry_pauses(from, to).await?, ..Migrated::default() };
    let before = to.counts().await?;
    loop {
        let moved_before = migrated.total();
        for state in ORDER {
            empty(from, to, state, &mut migrated, &mut progress).await?;
        }
        if migrated.total() == moved_before {
            break;
        }
    }
    verify(from, to, before, &migrated).await?;
    Ok(migrated)
}

fn refused(store: &Arc<dyn Store>, found: String, hint: &str) -> Error {
    let store = store.describe().url;
    Error::Store(StoreError::Refused { tried: "migrate", store, found, hint: hint.to_owned() })
}

fn refuse_same(from: &Arc<dyn Store>, to: &Arc<dyn Store>) -> Result<(), Error> {
    // Two stores in memory have one name, and are two.
    let is_same =
        Arc::ptr_eq(from, to) || from.describe().engine != "memory" && from.describe().url == to.describe().url;
    if is_same {
        return Err(refused(from, "source and destination are the same store".to_owned(), "name two stores"));
    }
    Ok(())
}

/// Jobs of processes that were lost are nobody's: they go back to their queues first.
async fn hand_on_lost_jobs(from: &Arc<dyn Store>) -> Result<(), Error> {
    while from.reap(VERB_LEN_MAX).await?.more {}
    Ok(())
}

async fn refuse_processes(store: &Arc<dyn Store>) -> Result<(), Error> {
    let processes = store.processes().await?;
    let Some(process) = processes.first() else { return Ok(()) };
    let found = format!("{} processes work on it, such as {}", processes.len(), process.info.id);
    Err(refused(store, found, "stop them, wait until their lease has run out, and try again"))
}

async fn carry_pauses(from: &Arc<dyn Store>, to: &Arc<dyn Store>) -> Result<u64, Error> {
    let mut carried = 0;
    for queue in from.queues().await?.into_iter().filter(|queue| queue.paused) {
        carried += u64::from(to.pause(&queue.name).await?);
    }
    Ok(carried)
}

/// Moves all jobs of one state.
async fn empty(
    from: &Arc<dyn Store>,
    to: &Arc<dyn Store>,
    state: State,
    migrated: &mut Migrated,
    progress: &mut impl FnMut(&Migrated),
) -> Result<(), Error> {
    let mut after = None;
    loop {
        refuse_processes(from).await?;
        refuse_processes(to).await?;
        let query = JobQuery { state: Some(state), after, limit: PAGE_LEN, ..JobQuery::default() };
        let page = from.list(query).await?;
        if !page.jobs.is_empty() {
            let count = page.jobs.len() as u64;
            migrated.already_there += step(from, to, page.jobs).await?;
            *migrated.jobs.of_mut(state) += count;
            progress(migrated);
            // What was listed is gone: the next page is the first one.
            after = None;
        } else if page.next.is_some() {
            after = page.next;
        } else {
            return Ok(());
        }
    }
}

/// Restores the jobs there, and then deletes them here. Answers how many were there already.
async fn step(from: &Arc<dyn Store>, to: &Arc<dyn Store>, jobs: Vec<JobRecord>) -> Result<u64, Error> {
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let restored = to.restore(jobs).await?;
    failpoint::hit("migrate.delete.before")?;
    let deleted = from.delete(ids.clone()).await?;
    for (id, changed) in ids.iter().zip(&deleted) {
        if let Changed::Refused(state) = changed {
            return Err(refused(
                from,
                format!("job {id} became {state} while it was moved"),
                "stop whatever works on it",
            ));
        }
    }
    Ok(restored.iter().filter(|answer| matches!(answer, Inserted::Duplicate(_))).count() as u64)
}

/// The source is empty, and the destination has what it had and what was moved.
async fn verify(from: &Arc<dyn Store>, to: &Arc<dyn Store>, before: Counts, migrated: &Migrated) -> Result<(), Error> {
    let left = from.counts().await?;
    let left: u64 = State::ALL.iter().map(|state| left.of(*state)).sum();
    if left > 0 {
        return Err(refused(from, format!("{left} jobs are left in it"), "run the migration again"));
    }
    let after = to.counts().await?;
    let sum = |counts: &Counts| State::ALL.iter().map(|state| counts.of(*state)).sum::<u64>();
    let (expected, found) = (sum(&before) + migrated.total() - migrated.already_there, sum(&after));
    if found < expected {
        let found = format!("{found} jobs where {expected} were expected");
        return Err(refused(to, found, "nothing may be removed from it meanwhile: compare the job lists"));
    }
    Ok(())
}
