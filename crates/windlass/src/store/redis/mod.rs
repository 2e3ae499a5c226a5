//! Redis and Valkey: many machines, one store, in Sidekiq's layout.
//!
//! Jobs lie where Sidekiq puts them, as it writes them ([`envelope`]), so that Ruby programs can push for windlass and
//! windlass for Ruby; what Sidekiq has no place for has keys of its own (`docs/redis-layout.md`). Every step that must
//! be whole is one script ([`script`]); a job changes its place only by a conditional move ([`moves`]); members, their
//! ledgers and how they are fenced are in [`members`]; how jobs come in, in [`engine`]; lease, finish and promote, in
//! [`life`].
//!
//! The store owns one thread with a small runtime, on which all its connections live ([`link`]), so that a caller needs
//! no runtime and a blocked one delays nothing. Beats have a connection of their own. A connection that fails is made
//! anew; a call whose answer was lost is never sent again by itself: pushes and outcomes may be repeated by their caller,
//! and what a lost lease took is handed back.
//!
//! # What differs from the other stores
//! A queue is a list: jobs are taken in the order in which they became ready, whatever they were due; what is released,
//! or recovered from a lost member, goes to the front. All states together are listed one state after the other. An id
//! is known for 25 h after its push; ready jobs are found by their ids among the first 100,000 of each queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{RwLock, oneshot, watch};
use tokio::task::AbortHandle;

use crate::clock::{Clock, Timestamp};
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, LeaseToken, LeasedJob, NewJob};
use crate::state::Event;
use crate::store::redis::address::{Address, Durability};
use crate::store::redis::engine::{Engine, Row};
use crate::store::{
    Changed, ClearFilter, Counts, DayTotals, Finding, Finished, Inserted, JobPage, JobQuery, Keep, LeasePlan, MemberId,
    MemberInfo, Orders, ProcessInfo, ProcessOrder, ProcessTarget, Promoted, QueueInfo, Reaped, Reply, Ring, Sample,
    Series, SeriesQuery, Store, StoreInfo, Verdict, Vitals, limits,
};

mod address;
mod admin;
mod bell;
mod check;
mod edges;
mod engine;
mod envelope;
mod figures;
mod find;
mod keys;
mod life;
mod link;
mod listing;
mod measuring;
mod members;
mod moves;
mod object;
mod script;
mod values;

/// How a server is opened, beyond what its URL says.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    /// By which clock leases and schedules are judged. Default: the server's. A test gives one that it moves.
    pub clock: Option<Arc<dyn Clock>>,
}

/// Keeps jobs in a Redis or Valkey server. Share it as `Arc<dyn Store>`. Dropping it ends its connections.
#[derive(Debug)]
pub struct RedisStore {
    engine: Arc<Engine>,
    handle: Handle,
    /// Whether it is closed. Held for reading by every call under way.
    is_closed: Arc<RwLock<bool>>,
    rings: watch::Sender<u64>,
    thread: Mutex<Option<Thread>>,
    /// The process that opened it: a connection must not be used after a fork.
    process: u32,
}

/// The thread that the connections live on. It ends when the sender is dropped.
#[derive(Debug)]
struct Thread {
    stop: oneshot::Sender<()>,
    joining: JoinHandle<()>,
}

impl RedisStore {
    /// Opens the server that `url` names, and speaks to it once.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a URL that is none, a server that is too old, or one that does not let us in;
    /// [`StoreError::Unavailable`] when it does not answer.
    ///
    /// # Blocking
    /// Waits for the server, for some seconds at the most.
    pub fn open(url: &str, options: RedisOptions) -> Result<RedisStore, StoreError> {
        let address = Address::parse(url).map_err(|found| StoreError::Refused {
            tried: "open",
            store: without_login(url),
            found,
            hint: "use redis://host:port/db, rediss://, unix:///path or redis+sentinel://host:port/master".to_owned(),
        })?;
        if address.is_encrypted && cfg!(not(feature = "redis-tls")) {
            return Err(StoreError::Refused {
                tried: "open",
                store: address.to_url(),
                found: "this build speaks no TLS".to_owned(),
                hint: "build it with the feature redis-tls".to_owned(),
            });
        }
        let rings = watch::Sender::new(0);
        let engine = Arc::new(Engine::new(address, options.clock, rings.clone()));
        let (handle, thread) = start_thread(&engine)?;
        let store = RedisStore {
            engine,
            handle,
            is_closed: Arc::default(),
            rings,
            thread: Mutex::new(Some(thread)),
            process: std::process::id(),
        };
        store.greet()?;
        Ok(store)
    }

    /// Speaks to the server for the first time, and learns its clock.
    fn greet(&self) -> Result<(), StoreError> {
        let (engine, (tell, told)) = (Arc::clone(&self.engine), mpsc::channel());
        self.handle.spawn(async move {
            let answer = engine.work.server("open").await;
            // Who opens the store waits for it.
            let _ = tell.send(answer);
        });
        let server = told.recv().unwrap_or(Err(StoreError::Closed { tried: "open" }))?;
        self.engine.time.note_offset(server.clock_offset_ms);
        Ok(())
    }

    /// Has a verb done on the store's own thread.
    fn call<T, F>(&self, tried: &'static str, verb: impl FnOnce(Arc<Engine>) -> F + Send + 'static) -> Reply<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(async move {
            self.refuse_after_fork(tried)?;
            let (engine, is_closed) = (Arc::clone(&self.engine), Arc::clone(&self.is_closed));
            let task = self.handle.spawn(async move {
                let is_closed = is_closed.read_owned().await;
                if *is_closed { Err(StoreError::Closed { tried }) } else { verb(engine).await }
            });
            // A task that is gone without an answer went with its runtime.
            task.await.unwrap_or(Err(StoreError::Closed { tried }))
        })
    }

    fn refuse_after_fork(&self, tried: &'static str) -> Result<(), StoreError> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let detail = "the store was opened before a fork: open it again in the child".to_owned();
        Err(StoreError::Invalid { tried, detail })
    }

    /// Ends the thread. Does nothing the second time.
    fn shut(&self) {
        let thread = self.thread.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(Thread { stop, joining }) = thread {
            drop(stop);
            // A thread that panicked has dropped its answers: every caller has heard of it.
            let _ = joining.join();
        }
    }
}

/// A URL to show although it could not be read: whatever may be a secret is left out.
fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://***@{place}"),
        _ => url.to_owned(),
    }
}

fn start_thread(engine: &Arc<Engine>) -> Result<(Handle, Thread), StoreError> {
    let failed = |error: std::io::Error| StoreError::Unavailable {
        tried: "open",
        store: engine.address.to_url(),
        detail: format!("no thread could be started: {error}"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let work = move || {
        // It ends when the sender is dropped: that is the message.
        let _ = runtime.block_on(stopped);
    };
    let joining = std::thread::Builder::new().name("windlass-redis".to_owned()).spawn(work).map_err(failed)?;
    Ok((handle, Thread { stop, joining }))
}

/// Leased jobs on their way to the caller. When the caller has gone, they are handed back at the next beat.
struct Parcel {
    engine: Arc<Engine>,
    member: MemberId,
    jobs: Vec<LeasedJob>,
}

impl Drop for Parcel {
    fn drop(&mut self) {
        for job in &self.jobs {
            self.engine.note_unheard(&self.member, Row(job.token.row).block());
        }
    }
}

/// Ends a task when whoever waits for it has gone.
struct EndsWithUs<T>(tokio::task::JoinHandle<T>, AbortHandle);

impl<T> Future for EndsWithUs<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(task)
    }
}

impl<T> Drop for EndsWithUs<T> {
    fn drop(&mut self) {
        self.1.abort();
    }
}

/// An answer that needs nobody.
fn refuse<'a, T: Send + 'a>(error: StoreError) -> Reply<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}

impl Store for RedisStore {
    fn describe(&self) -> StoreInfo {
        let durability = match self.engine.address.durability {
            Durability::Accepted => "the server has it when answered; what of it outlives the server, its settings say",
            Durability::Logged => "on the server's disk when answered (WAITAOF)",
            Durability::Replicated(_) => "on as many replicas as asked for when answered (WAIT)",
        };
        StoreInfo { engine: "redis", url: self.engine.address.to_url(), durability }
    }

    fn now(&self) -> Timestamp {
        self.engine.now()
    }

    fn insert(&self, batch: Vec<NewJob>) -> Reply<'_, Vec<Inserted>> {
        match limits::check_batch(&batch) {
            Err(error) => refuse(error),
            Ok(()) => self.call("insert", async move |engine| engine.insert(batch).await),
        }
    }

    fn restore(&self, batch: Vec<JobRecord>) -> Reply<'_, Vec<Inserted>> {
        match limits::check_restorable(&batch) {
            Err(error) => refuse(error),
            Ok(()) => self.call("restore", async move |engine| engine.restore(batch).await),
        }
    }

    fn lease(&self, member: &MemberId, plan: LeasePlan) -> Reply<'_, Vec<LeasedJob>> {
        if let Err(error) = limits::check_len("lease", plan.max) {
            return refuse(error);
        }
        let member = member.clone();
        Box::pin(async move {
            let mut parcel = self
                .call("lease", async move |engine| {
                    let jobs = engine.lease(&member, plan).await?;
                    Ok(Parcel { engine, member, jobs })
                })
                .await?;
            Ok(std::mem::take(&mut parcel.jobs))
        })
    }

    fn finish(&self, member: &MemberId, verdicts: Vec<(LeaseToken, Verdict)>) -> Reply<'_, Vec<Finished>> {
        if let Err(error) = limits::check_len("finish", verdicts.len()) {
            return refuse(error);
        }
        let member = member.clone();
        self.call("finish", async move |engine| engine.finish(&member, verdicts).await)
    }

    fn join(&self, member: MemberInfo, lease: Duration) -> Reply<'_, ()> {
        match limits::check_lease(lease) {
            Err(error) => refuse(error),
            Ok(()) => self.call("join", async move |engine| engine.join(member, lease).await),
        }
    }

    fn beat(&self, member: &MemberId, vitals: Vitals) -> Reply<'_, Orders> {
        let member = member.clone();
        self.call("beat", async move |engine| engine.beat(&member, vitals).await)
    }

    fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Reply<'_, usize> {
        self.call("order", async move |engine| engine.order(to, order).await)
    }

    fn leave(&self, member: &MemberId) -> Reply<'_, usize> {
        let member = member.clone();
        self.call("leave", async move |engine| engine.leave(&member).await)
    }

    fn reap(&self, max: usize) -> Reply<'_, Reaped> {
        match limits::check_len("reap", max) {
            Err(error) => refuse(error),
            Ok(()) => self.call("reap", async move |engine| engine.reap(max).await),
        }
    }

    fn promote(&self, max: usize) -> Reply<'_, Promoted> {
        match limits::check_len("promote", max) {
            Err(error) => refuse(error),
            Ok(()) => self.call("promote", async move |engine| engine.promote(max).await),
        }
    }

    fn ring(&self) -> Ring {
        Ring(*self.rings.borrow())
    }

    fn wait(&self, since: Ring, timeout: Duration) -> Reply<'_, ()> {
        let (engine, mut rings) = (Arc::clone(&self.engine), self.rings.subscribe());
        Box::pin(async move {
            self.refuse_after_fork("wait")?;
            let waiting = async move {
                if *rings.borrow() > since.0 {
                    return;
                }
                let _waiting = engine.bell.listen(&engine.work).await;
                // The end of the store is no error: this is a hint.
                let _ = rings.wait_for(|rings| *rings > since.0).await;
            };
            let task = self.handle.spawn(async move { tokio::time::timeout(timeout, waiting).await.is_ok() });
            let abort = task.abort_handle();
            // Neither the time-out nor the end of the store is an error: this is a hint.
            let _ = EndsWithUs(task, abort).await;
            Ok(())
        })
    }

    fn cancel(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        self.change(Event::Cancel, ids)
    }

    fn kill(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        self.change(Event::Kill, ids)
    }

    fn requeue(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        self.change(Event::Requeue, ids)
    }

    fn delete(&self, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        self.change(Event::Delete, ids)
    }

    fn clear(&self, filter: ClearFilter, max: usize) -> Reply<'_, usize> {
        match limits::check_len("clear", max).and_then(|()| limits::check_clearable(&filter)) {
            Err(error) => refuse(error),
            Ok(()) => self.call("clear", async move |engine| engine.clear(filter, max).await),
        }
    }

    fn prune(&self, keep: Keep, max: usize) -> Reply<'_, usize> {
        match limits::check_len("prune", max) {
            Err(error) => refuse(error),
            Ok(()) => self.call("prune", async move |engine| engine.prune(keep, max).await),
        }
    }

    fn pause(&self, queue: &str) -> Reply<'_, bool> {
        let queue = queue.to_owned();
        self.call("pause", async move |engine| engine.pause(&queue).await)
    }

    fn resume(&self, queue: &str) -> Reply<'_, bool> {
        let queue = queue.to_owned();
        self.call("resume", async move |engine| engine.resume(&queue).await)
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<JobRecord>> {
        self.call("get", async move |engine| engine.get(id).await)
    }

    fn list(&self, query: JobQuery) -> Reply<'_, JobPage> {
        match limits::check_page(&query) {
            Err(error) => refuse(error),
            Ok(()) => self.call("list", async move |engine| engine.list(&query).await),
        }
    }

    fn counts(&self) -> Reply<'_, Counts> {
        self.call("counts", async move |engine| engine.counts().await)
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        self.call("queues", async move |engine| engine.queues().await)
    }

    fn processes(&self) -> Reply<'_, Vec<ProcessInfo>> {
        self.call("processes", async move |engine| engine.processes().await)
    }

    fn history(&self, days: u32) -> Reply<'_, Vec<DayTotals>> {
        match limits::check_days(days) {
            Err(error) => refuse(error),
            Ok(()) => self.call("history", async move |engine| engine.history(days).await),
        }
    }

    fn record(&self, member: &MemberId, samples: Vec<Sample>) -> Reply<'_, ()> {
        if let Err(error) = limits::check_samples(&samples) {
            return refuse(error);
        }
        let member = member.clone();
        self.call("record", async move |engine| engine.record(&member, samples).await)
    }

    fn series(&self, query: SeriesQuery) -> Reply<'_, Series> {
        self.call("series", async move |engine| engine.series(&query).await)
    }

    fn meters(&self) -> Reply<'_, Vec<Sample>> {
        self.call("meters", async move |engine| engine.meters().await)
    }

    fn check(&self) -> Reply<'_, Vec<Finding>> {
        self.call("check", async move |engine| engine.check().await)
    }

    fn close(&self) -> Reply<'_, ()> {
        Box::pin(async move {
            // Waits for the calls under way.
            *self.is_closed.write().await = true;
            Ok(())
        })
    }
}

impl RedisStore {
    fn change(&self, event: Event, ids: Vec<JobId>) -> Reply<'_, Vec<Changed>> {
        match limits::check_len(event.name(), ids.len()) {
            Err(error) => refuse(error),
            Ok(()) => self.call(event.name(), async move |engine| engine.change(event, ids).await),
        }
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.shut();
    }
}
