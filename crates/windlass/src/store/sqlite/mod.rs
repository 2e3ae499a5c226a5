//! The embedded store: one SQLite file, several processes at once.
//!
//! Each process has one thread that writes ([`writer`]: group commit), one that looks ([`reading`]), and any number
//! of callers that wait for answers without needing an async runtime. The verbs are in [`ledger`] and [`admin`], as
//! statements inside the writer's transaction; the tables are in [`schema`]; [`file`] decides whether a file may be
//! used at all.
//!
//! Every write of a process goes through its writer, and SQLite's own lock lets one process write at a time, so a
//! verb is atomic because it is part of one transaction. With [`Sync::Full`] an answered call is on the disk.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::clock::{Clock, SystemClock, Timestamp};
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, LeaseToken, LeasedJob, NewJob};
use crate::store::limits;
use crate::store::sqlite::ledger::{Answer, Ledger};
use crate::store::sqlite::reading::{Question, Reader};
use crate::store::sqlite::writer::{Lane, Queue, Writer};
use crate::store::{
    Changed, ClearFilter, Counts, DayTotals, Finding, Finished, Inserted, JobPage, JobQuery, Keep, LeasePlan, MemberId,
    MemberInfo, Orders, ProcessInfo, ProcessOrder, ProcessTarget, Promoted, QueueInfo, Reaped, Reply, Ring, Sample,
    Series, SeriesQuery, Store, StoreInfo, Verdict, Vitals,
};

mod admin;
mod failure;
mod file;
mod ledger;
mod measuring;
mod reading;
mod rows;
mod schema;
mod tally;
mod writer;

/// What an answered call has survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sync {
    /// It is on the disk: survives a power cut. One sync for each group of calls.
    #[default]
    Full,
    /// It is in the log, which the system writes when it likes: survives the end of the process, and a power cut
    /// without the last moments. The fast mode.
    Normal,
}

/// How a file is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// What an answered call has survived. Default: [`Sync::Full`].
    pub sync: Sync,
    /// By which clock leases and schedules are judged. Default: the machine's, kept from running backwards.
    pub clock: Arc<dyn Clock>,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { sync: Sync::Full, clock: Arc::new(SystemClock::new()) }
    }
}

/// Keeps jobs in one file. Share it as `Arc<dyn Store>`. Dropping it finishes what was begun and closes the file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    sync: Sync,
    clock: Arc<dyn Clock>,
    queue: Arc<Queue>,
    questions: Mutex<Option<mpsc::Sender<Question>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    bell: watch::Sender<u64>,
    /// The process that opened it: a connection must not be used after a fork.
    process: u32,
}

impl SqliteStore {
    /// Opens the file at `path`, or makes it, readable by its owner only.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a file that is not ours, damaged, too new, or on a network file system; it is not
    /// touched. [`StoreError::Full`] or [`StoreError::Unavailable`] when the file cannot be set up now.
    ///
    /// # Blocking
    /// Reads and writes the file.
    pub fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let path = path.as_ref().to_owned();
        let SqliteOptions { sync, clock } = options;
        file::prepare(&path)?;
        let connection = schema::open_for_writing(&path, sync)?;
        let reader = Reader { connection: schema::open_for_reading(&path)?, path: path.clone() };
        let (queue, bell) = (Arc::new(Queue::new()), watch::Sender::new(0));
        let writer = Writer::new(connection, Arc::clone(&queue), Arc::clone(&clock), bell.clone(), path.clone());
        let (questions, asked) = mpsc::channel();
        let bell_of_reader = bell.clone();
        let threads = vec![
            start_thread("windlass-writer", &path, move || writer.run())?,
            start_thread("windlass-reader", &path, move || reader.run(&asked, &bell_of_reader))?,
        ];
        Ok(SqliteStore {
            path,
            sync,
            clock,
            queue,
            questions: Mutex::new(Some(questions)),
            threads: Mutex::new(threads),
            bell,
            process: std::process::id(),
        })
    }

    /// Has a verb run by the writer.
    fn write<T: Send + 'static>(
        &self,
        tried: &'static str,
        lane: Lane,
        weight: usize,
        verb: impl FnMut(&mut Ledger<'_>) -> Answer<T> + Send + 'static,
    ) -> Reply<'_, T> {
        Box::pin(async move {
            self.refuse_after_fork(tried)?;
            self.queue.call(tried, lane, weight, verb).await
        })
    }

    /// Has a question answered by the reader.
    fn read<T: Send + 'static>(
        &self,
        tried: &'static str,
        question: impl FnOnce(&Reader) -> rusqlite::Result<T> + Send + 'static,
    ) -> Reply<'_, T> {
        let (send, answer) = oneshot::channel();
        let question: Question = Box::new(move |reader| {
            // A caller that no longer waits has dropped its future.
            let _ = send.send(question(reader).map_err(|error| reader.failed(tried, error)));
        });
        let asked = match &*self.questions.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(questions) => questions.send(question).is_ok(),
            None => false,
        };
        Box::pin(async move {
            self.refuse_after_fork(tried)?;
            match asked {
                true => answer.await.unwrap_or(Err(StoreError::Closed { tried })),
                false => Err(StoreError::Closed { tried }),
            }
        })
    }

    fn refuse_after_fork(&self, tried: &'static str) -> Result<(), StoreError> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let detail = "the store was opened before a fork: open it again in the child".to_owned();
        Err(StoreError::Invalid { tried, detail })
    }

    fn durability(&self) -> &'static str {
        match self.sync {
            Sync::Full => "on the disk when answered (synchronous = FULL)",
            Sync::Normal => "in the log when answered: a power cut may undo the last moments (synchronous = NORMAL)",
        }
    }

    /// Closes both ends and waits for the threads. Does nothing the second time.
    fn shut(&self) {
        self.queue.close();
        drop(self.questions.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        for thread in threads {
            // A thread that panicked has dropped its answers: every caller has heard of it.
            let _ = thread.join();
        }
    }
}

fn start_thread(name: &str, path: &Path, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| StoreError::Unavailable {
        tried: "open",
        store: format!("sqlite:{}", path.display()),
        detail: format!("no thread could be started: {error}"),
    })
}

/// An answer that needs neither thread.
fn refuse<'a, T: Send + 'a>(error: StoreError) -> Reply<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Store for SqliteStore {
    fn describe(&self) -> StoreInfo {
        StoreInfo { engine: "sqlite", url: format!("sqlite:{}", self.path.display()), durability: self.durability() }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn insert(&self, batch: Vec<NewJob>) -> Reply<'_, Vec<Inserted>> {
        if let Err(error) = limits::check_batch(&batch) {
            return refuse(error);
        }
        self.write("insert", Lane::Work, batch.len(), move |ledger| ledger.insert(&batch))
    }

    fn restore(&self, batch: Vec<JobRecord>) -> Reply<'_, Vec<Inserted>> {
        if let Err(error) = limits::check_restorable(&batch) {
            return refuse(error);
        }
        self.write("restore", Lane::Work, batch.len(), move |ledger| ledger.restore(&batch))
    }

    fn lease(&self, member: &MemberId, plan: LeasePlan) -> Reply<'_, Vec<LeasedJob>> {
        if let Err(error) = limits::check_len("lease", plan.max) {
            return refuse(error);
        }
        let member = member.clone();
        self.write("lease", Lane::Work, plan.max, move |ledger| ledger.lease(&member, &plan))
    }

    fn finish(&self, member: &MemberId, verdicts: Vec<(LeaseToken, Verdict)>) -> Reply<'_, Vec<Finished>> {
        if let Err(error) = limits::check_len("finish", verdicts.len()) {
            return refuse(error);
        }
        let member = member.clone();
        self.write("finish", Lane::Work, verdicts.len(), move |ledger| ledger.finish(&member, &verdicts))
    }

    fn join(&self, member: MemberInfo, lease: Duration) -> Reply<'_, ()> {
        if let Err(error) = limits::check_lease(lease) {
            return refuse(error);
        }
        let lease_ms = lease.as_millis() as i64;
        self.write("join", Lane::Control, 1, move |ledger| ledger.join(&member, lease_ms))
    }

    fn beat(&self, member: &MemberId, vitals: Vitals) -> Reply<'_, Orders> {
        let member = member.clone();
        self.write("beat", Lane::Control, 1, move |ledger| ledger.beat(&member, vitals))
    }

    fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Reply<'_, usize> {
        self.write("order", Lane::Work, 1, move |ledger| ledger.order(&to, order))
    }

    fn leave(&self, member: &MemberId) -> Reply<'_, usize> {
        let member = member.clone();
        // Not a control operation: it must come after the finishes that were sent before it.
        self.write("leave", Lane::Work, 1, move |ledger| ledger.leave(&member))
    }

    fn reap(&self, max: usize) -> Reply<'_, Reaped> {
        if let Err(error) = limits::check_len("reap", max) {
            return refuse(error);
        }
        self.write("reap", Lane::Work, 1, move |ledger| ledger.reap(max))
    }

    fn promote(&self, max: usize) -> Reply<'_, Promoted> {
        if let Err(error) = limits::check_len("promote", max) {
            return refuse(error);
        }
        self.write("promote", Lane::Work, 1, move |ledger| ledger.promote(max))
    }

    fn ring(&self) -> Ring {
        Ring(*self.bell.borrow())
    }

    fn wait(&self, since: Ring, timeout: Duration) -> Reply<'_, ()> {
        let mut bell = self.bell.subscribe();
        // The reader may be asleep until the next question: a question wakes it, and it starts to glance.
        let woken = self.read("wait", |_| Ok(()));
        Box::pin(async move {
            woken.await?;
            let rung = bell.wait_for(|rings| *rings > since.0);
            // Neither the time-out nor the end of the store is an error: this is a hint.
            let _ = tokio::time::timeout(timeout, rung).await;
            Ok(())
        })
    }

    fn cancel(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        if let Err(error) = limits::check_len("cancel", ids.len()) {
            return refuse(error);
        }
        self.write("cancel", Lane::Work, ids.len(), move |ledger| ledger.cancel(&ids))
    }

    fn kill(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        if let Err(error) = limits::check_len("kill", ids.len()) {
            return refuse(error);
        }
        self.write("kill", Lane::Work, ids.len(), move |ledger| ledger.kill(&ids))
    }

    fn requeue(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        if let Err(error) = limits::check_len("requeue", ids.len()) {
            return refuse(error);
        }
        self.write("requeue", Lane::Work, ids.len(), move |ledger| ledger.requeue(&ids))
    }

    fn delete(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        if let Err(error) = limits::check_len("delete", ids.len()) {
            return refuse(error);
        }
        self.write("delete", Lane::Work, ids.len(), move |ledger| ledger.delete(&ids))
    }

    fn clear(&self, filter: ClearFilter, max: usize) -> Reply<'_, usize> {
        if let Err(error) = limits::check_len("clear", max).and_then(|()| limits::check_clearable(&filter)) {
            return refuse(error);
        }
        self.write("clear", Lane::Work, max, move |ledger| ledger.clear(&filter, max))
    }

    fn prune(&self, keep: Keep, max: usize) -> Reply<'_, usize> {
        if let Err(error) = limits::check_len("prune", max) {
            return refuse(error);
        }
        self.write("prune", Lane::Work, 1, move |ledger| ledger.prune(keep, max))
    }

    fn pause(&self, queue: &str) -> Reply<'_, bool> {
        let queue = queue.to_owned();
        self.write("pause", Lane::Work, 1, move |ledger| ledger.pause(&queue))
    }

    fn resume(&self, queue: &str) -> Reply<'_, bool> {
        let (queue, bell) = (queue.to_owned(), self.bell.clone());
        Box::pin(async move {
            let changed = self.write("resume", Lane::Work, 1, move |ledger| ledger.resume(&queue)).await?;
            if changed {
                bell.send_modify(|rings| *rings += 1);
            }
            Ok(changed)
        })
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<JobRecord>> {
        self.read("get", move |reader| reader.get(id))
    }

    fn list(&self, query: JobQuery) -> Reply<'_, JobPage> {
        match limits::check_page(&query) {
            Err(error) => refuse(error),
            Ok(()) => self.read("list", move |reader| reader.list(&query)),
        }
    }

    fn counts(&self) -> Reply<'_, Counts> {
        self.read("counts", Reader::counts)
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        let now = self.clock.now();
        self.read("queues", move |reader| reader.queues(now))
    }

    fn processes(&self) -> Reply<'_, Vec<ProcessInfo>> {
        self.read("processes", Reader::processes)
    }

    fn history(&self, days: u32) -> Reply<'_, Vec<DayTotals>> {
        let now = self.clock.now();
        match limits::check_days(days) {
            Err(error) => refuse(error),
            Ok(()) => self.read("history", move |reader| reader.history(days, now)),
        }
    }

    fn record(&self, member: &MemberId, samples: Vec<Sample>) -> Reply<'_, ()> {
        if let Err(error) = limits::check_samples(&samples) {
            return refuse(error);
        }
        let member = member.clone();
        self.write("record", Lane::Work, samples.len(), move |ledger| ledger.record(&member, &samples))
    }

    fn series(&self, query: SeriesQuery) -> Reply<'_, Series> {
        let now = self.clock.now();
        self.read("series", move |reader| reader.series(&query, now))
    }

    fn meters(&self) -> Reply<'_, Vec<Sample>> {
        self.read("meters", Reader::sums)
    }

    fn check(&self) -> Reply<'_, Vec<Finding>> {
        let durability = self.durability();
        self.read("check", move |reader| reader.check(durability))
    }

    fn close(&self) -> Reply<'_, ()> {
        self.shut();
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shut();
    }
}
