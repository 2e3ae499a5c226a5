//! The one thread of this process that writes: group commit.
//!
//! Callers put operations into a queue and wait for their answers. The writer takes what is there, up to
//! [`GROUP_WEIGHT_MAX`], runs it in one `BEGIN IMMEDIATE … COMMIT`, and answers when the commit is durable. While it
//! waits for the disk the queue fills again, so groups grow with the load and one sync serves hundreds of calls; an
//! idle store pays one commit for one call.
//!
//! 1. Take a group: control operations (join, beat, leave) first, so that a heartbeat never waits behind a bulk
//!    insert.
//! 2. Run it. An operation that the contract refuses has changed nothing and only fails itself.
//! 3. Write the tally, commit.
//! 4. Answer.
//!
//! When the transaction fails as a whole (a full disk), it is rolled back and its operations are tried one by one, so
//! that an ack, which needs next to no room, is not refused because of an insert that does not fit. An error that
//! makes the file doubtful (a failed sync) is final: a sync that failed once is never trusted to succeed later.
//!
//! The queue is bounded by [`QUEUE_LEN_MAX`] operations; beyond that callers wait for their turn to enter.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::clock::Clock;
use crate::error::StoreError;
use crate::failpoint;
use crate::store::sqlite::failure::Failure;
use crate::store::sqlite::ledger::{Answer, Ledger, Refusal};
use crate::store::sqlite::tally::Tally;

/// Operations in the queue at most.
pub(super) const QUEUE_LEN_MAX: usize = 4_096;

/// Jobs in one transaction, about: the first operation that reaches it is the last of its group. Larger groups would
/// only make everybody wait longer; a sync is paid off long before.
const GROUP_WEIGHT_MAX: usize = 4_096;

/// Which operations go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Membership.
    Control,
    /// Everything else.
    Work,
}

/// One call, waiting for its transaction. It can be run again when its group was rolled back.
struct Operation {
    tried: &'static str,
    weight: usize,
    call: Box<dyn Call>,
    /// Its place in the queue, given back when it is dropped.
    _place: OwnedSemaphorePermit,
}

/// A verb with a place for its answer, its type forgotten.
trait Call: Send {
    /// Runs the verb and keeps its answer. Fails when SQLite does.
    fn run(&mut self, ledger: &mut Ledger<'_>) -> rusqlite::Result<()>;

    /// Sends the kept answer, or the error that undid it.
    fn answer(self: Box<Self>, undone: Option<StoreError>);
}

struct Verb<T, F> {
    verb: F,
    kept: Option<Result<T, StoreError>>,
    caller: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Call for Verb<T, F>
where
    T: Send,
    F: FnMut(&mut Ledger<'_>) -> Answer<T> + Send,
{
    fn run(&mut self, ledger: &mut Ledger<'_>) -> rusqlite::Result<()> {
        self.kept = match (self.verb)(ledger) {
            Ok(answer) => Some(Ok(answer)),
            Err(Refusal::Contract(error)) => Some(Err(error)),
            Err(Refusal::Sqlite(error)) => return Err(error),
        };
        Ok(())
    }

    fn answer(self: Box<Self>, undone: Option<StoreError>) {
        let answer = match (undone, self.kept) {
            (Some(error), _) => Err(error),
            (None, Some(answer)) => answer,
            (None, None) => Err(StoreError::Closed { tried: "write" }),
        };
        // A caller that no longer waits has dropped its future; what was done stays done.
        let _ = self.caller.send(answer);
    }
}

/// The callers' end.
#[derive(Debug)]
pub(super) struct Queue {
    lanes: Mutex<Lanes>,
    arrived: Condvar,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Lanes {
    control: VecDeque<Operation>,
    work: VecDeque<Operation>,
    is_closed: bool,
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lanes({} control, {} work)", self.control.len(), self.work.len())
    }
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue { lanes: Mutex::default(), arrived: Condvar::new(), places: Arc::new(Semaphore::new(QUEUE_LEN_MAX)) }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // No code that can panic runs under the lock.
        self.lanes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has a verb run in the next transaction, and answers when that is durable. `weight` is about the number of jobs
    /// it touches.
    pub(super) async fn call<T, F>(
        &self,
        tried: &'static str,
        lane: Lane,
        weight: usize,
        verb: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Ledger<'_>) -> Answer<T> + Send + 'static,
    {
        let closed = StoreError::Closed { tried };
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Err(closed);
        };
        let (caller, answer) = oneshot::channel();
        let call = Box::new(Verb { verb, kept: None, caller });
        {
            let mut lanes = self.lanes();
            if lanes.is_closed {
                return Err(closed);
            }
            let operation = Operation { tried, weight: weight.max(1), call, _place: place };
            match lane {
                Lane::Control => lanes.control.push_back(operation),
                Lane::Work => lanes.work.push_back(operation),
            }
        }
        self.arrived.notify_one();
        answer.await.unwrap_or(Err(closed))
    }

    /// Takes no more calls; those in the queue are still answered.
    pub(super) fn close(&self) {
        self.lanes().is_closed = true;
        self.places.close();
        self.arrived.notify_one();
    }

    /// The next group; `None` when the queue is closed and empty.
    fn next_group(&self) -> Option<Vec<Operation>> {
        let mut lanes = self.lanes();
        while lanes.control.is_empty() && lanes.work.is_empty() {
            if lanes.is_closed {
                return None;
            }
            lanes = self.arrived.wait(lanes).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let mut group: Vec<Operation> = lanes.control.drain(..).collect();
        let mut weight = 0;
        while weight < GROUP_WEIGHT_MAX
            && let Some(operation) = lanes.work.pop_front()
        {
            weight += operation.weight;
            group.push(operation);
        }
        Some(group)
    }
}

/// The thread's own state.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) bell: watch::Sender<u64>,
    pub(super) path: PathBuf,
    tally: Tally,
    /// What made the file doubtful, if anything has.
    broken: Option<StoreError>,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        queue: Arc<Queue>,
        clock: Arc<dyn Clock>,
        bell: watch::Sender<u64>,
        path: PathBuf,
    ) -> Writer {
        Writer { connection, queue, clock, bell, path, tally: Tally::default(), broken: None }
    }

    /// Serves the queue until it is closed and empty.
    pub(super) fn run(mut self) {
        let queue = Arc::clone(&self.queue);
        while let Some(group) = queue.next_group() {
            self.serve(group);
        }
        // Nothing is lost without it: the log is read again at the next start.
        let _ = self.connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE); PRAGMA optimize;");
    }

    fn serve(&mut self, mut group: Vec<Operation>) {
        match self.commit(&mut group) {
            Ok(()) => answer_all(group, None),
            Err((_, error)) if group.len() > 1 && self.broken.is_none() && Self::is_worth_splitting(&error) => {
                for operation in group {
                    self.serve(vec![operation]);
                }
            }
            Err((tried, error)) => {
                let error = self.note_failure(tried, error);
                answer_all(group, Some(error));
            }
        }
    }

    /// A busy file is as busy for each of them; anything else may be the fault of one.
    fn is_worth_splitting(error: &CommitError) -> bool {
        !matches!(error, CommitError::Sqlite(error) if Failure::is_busy(error))
    }

    fn note_failure(&mut self, tried: &'static str, error: CommitError) -> StoreError {
        let error = match error {
            CommitError::Store(error) => error,
            CommitError::Sqlite(error) => Failure::new(tried, &self.path).verb(error),
        };
        if matches!(error, StoreError::Broken { .. }) && self.broken.is_none() {
            self.broken = Some(error.clone());
        }
        error
    }

    /// Runs a group in one transaction. Names the verb during which it failed.
    fn commit(&mut self, group: &mut [Operation]) -> Result<(), (&'static str, CommitError)> {
        if let Some(broken) = &self.broken {
            return Err((group[0].tried, CommitError::Store(broken.clone())));
        }
        let in_all = group[0].tried;
        failpoint::hit("sqlite.group.begin").map_err(|error| (in_all, error.into()))?;
        self.tally = Tally::default();
        let now = self.clock.now();
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| (in_all, error.into()))?;
        let mut ledger = Ledger { connection: &transaction, tally: &mut self.tally, now };
        for operation in group.iter_mut() {
            operation.call.run(&mut ledger).map_err(|error| (operation.tried, error.into()))?;
        }
        let has_new_ready = self.tally.has_new_ready();
        self.tally.flush(&transaction, now).map_err(|error| (in_all, error.into()))?;
        failpoint::hit("sqlite.commit.before").map_err(|error| (in_all, error.into()))?;
        transaction.commit().map_err(|error| (in_all, error.into()))?;
        failpoint::hit("sqlite.commit.after").map_err(|error| (in_all, error.into()))?;
        if has_new_ready {
            self.bell.send_modify(|rings| *rings += 1);
        }
        Ok(())
    }
}

/// Why a transaction did not happen.
#[derive(Debug)]
enum CommitError {
    Store(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> CommitError {
        CommitError::Store(error)
    }
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> CommitError {
        CommitError::Sqlite(error)
    }
}

fn answer_all(group: Vec<Operation>, undone: Option<StoreError>) {
    for operation in group {
        operation.call.answer(undone.clone());
    }
}
