//! Runs jobs: leases them from a store, gives them to their handlers, and carries the outcomes back.
//!
//! A [`Server`] is built from a store, [`Handlers`] and a [`ServerConfig`], and started inside a tokio runtime. It
//! is a handful of services over one shared state ([`inflight`]): the *fetcher* leases, *runners* run, the *acker*
//! reports, the *poller* makes due jobs ready, the *reaper* takes over from lost processes, the *pruner* forgets,
//! the *recorder* measures, the *heartbeat* says that this one lives. None knows another; they meet in what is in flight.
//!
//! # Quiet and stop
//! *Quiet* means no new leases; what is leased and not started is handed back. *Stop* is quiet, then: wait for
//! running jobs up to the configured time; tell the rest to give way; hand back what still does not end; wait until
//! every verdict is in the store; leave. So a graceful stop loses nothing and runs nothing twice at the same time.
//! A server that is dropped without a stop behaves like a crash: its jobs go on elsewhere when its lease runs out.
//!
//! Both may be asked for from inside ([`RunningServer::quiet`], [`RunningServer::stop`]) or from anywhere through the
//! store ([`Client::order`]); it is the same path: a flag is raised, and the *conductor*, a task that every running
//! server has, brings the services to their end when it sees that a stop was asked for.

use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_pool::{Pool, PoolConfig};

use crate::cancel::CancelCause;
use crate::client::Client;
use crate::clock::Stopwatch;
use crate::config::{ConfigError, ServerConfig};
use crate::context::Services;
use crate::entropy::Entropy;
use crate::error::{Error, StoreError};
use crate::event::{Subscriber, Unwatched};
use crate::handler::Handlers;
use crate::server::acker::Acker;
use crate::server::complaints::Complaints;
use crate::server::fetcher::Fetcher;
use crate::server::heartbeat::Heartbeat;
use crate::server::inflight::InFlight;
use crate::server::poller::Poller;
use crate::server::pruner::Pruner;
use crate::server::reaper::Reaper;
use crate::server::recorder::{Meter, Recorder};
use crate::server::service::{Service, Supervision, drive, drive_on_thread};
use crate::store::{MemberId, MemberInfo, Store, Verdict};

pub(crate) mod acker;
pub(crate) mod complaints;
pub(crate) mod fetcher;
pub(crate) mod heartbeat;
pub(crate) mod inflight;
pub(crate) mod order;
pub(crate) mod poller;
pub(crate) mod process;
pub(crate) mod pruner;
pub(crate) mod reaper;
pub(crate) mod recorder;
pub(crate) mod runner;
pub(crate) mod service;
pub(crate) mod unwind;

/// How long a stopping server waits for the store to take the last verdicts, beyond its lease.
const FLUSH_TIME: Duration = Duration::from_secs(5);

/// A server that is ready to start.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Puts a server together and checks everything that can be checked before a job arrives.
    ///
    /// # Errors
    /// [`ConfigError`] names the setting or the handler that cannot work.
    pub fn new(store: Arc<dyn Store>, handlers: Handlers, config: ServerConfig) -> Result<Server, ConfigError> {
        Server::with_entropy(store, handlers, config, Arc::new(Entropy::from_system()))
    }

    /// Like [`Server::new`], with the caller's source of chance: the same seed gives the same jitter and identities.
    ///
    /// # Errors
    /// [`ConfigError`] names the setting or the handler that cannot work.
    pub fn with_entropy(
        store: Arc<dyn Store>,
        handlers: Handlers,
        config: ServerConfig,
        entropy: Arc<Entropy>,
    ) -> Result<Server, ConfigError> {
        config.validate()?;
        handlers.validate()?;
        let pool = start_pool_for(&handlers, &config)?;
        Ok(Server { shared: Arc::new(Shared::new(store, handlers, config, entropy, pool)) })
    }

    /// Tells `subscriber` what happens, instead of nobody.
    #[must_use]
    pub fn watched_by(mut self, subscriber: Arc<dyn Subscriber>) -> Server {
        let shared = Arc::get_mut(&mut self.shared).expect("nothing shares a server that has not started");
        shared.subscriber = subscriber;
        self
    }

    /// Joins the store's members and starts the services on the current tokio runtime.
    ///
    /// # Errors
    /// [`Error::Store`] when the store does not take the new member.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(self) -> Result<RunningServer, Error> {
        let shared = self.shared;
        shared.join().await?;
        let (stop, stopped) = watch::channel(false);
        let services: [Box<dyn Service>; 6] = [
            Box::new(Fetcher::new(Arc::clone(&shared))),
            Box::new(Acker::new(Arc::clone(&shared))),
            Box::new(Poller::new(Arc::clone(&shared))),
            Box::new(Reaper::new(Arc::clone(&shared))),
            Box::new(Pruner::new(Arc::clone(&shared))),
            Box::new(Recorder::new(Arc::clone(&shared))),
        ];
        let driven =
            services.map(|service| tokio::spawn(drive(service, stopped.clone(), Arc::clone(&shared.supervision))));
        let heartbeat = HeartbeatThread::start(&shared)?;
        tracing::info!(member = %shared.membership.current(), store = shared.store.describe().url, "server started");
        let ensemble =
            Ensemble { shared: Arc::clone(&shared), stop: StopServices(stop), driven: driven.into(), heartbeat };
        Ok(RunningServer { shared, conductor: tokio::spawn(ensemble.conduct()) })
    }

    /// Starts, runs until `shutdown` answers or somebody orders the process to stop, and stops gracefully.
    ///
    /// # Errors
    /// [`Error::Store`] when the store does not take the new member.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<StopReport, Error> {
        let running = self.start().await?;
        tokio::select! {
            () = shutdown => {}
            () = running.stop_asked() => {}
        }
        Ok(running.stop().await)
    }
}

/// The CPU pool, if any handler wants one.
pub(crate) fn start_pool_for(handlers: &Handlers, config: &ServerConfig) -> Result<Option<Pool>, ConfigError> {
    if !handlers.want_pool() {
        return Ok(None);
    }
    let mut pool = PoolConfig { name: "windlass-cpu".to_owned(), ..PoolConfig::default() };
    if config.cpu_threads > 0 {
        pool.threads = config.cpu_threads as usize;
    }
    Pool::with(pool).map(Some).map_err(|error| ConfigError {
        field: "cpu_threads".to_owned(),
        found: config.cpu_threads.to_string(),
        origin: None,
        allowed: error.to_string(),
    })
}

/// The heartbeat's own thread. Ends when it is dropped.
#[derive(Debug)]
struct HeartbeatThread {
    stop: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl HeartbeatThread {
    fn start(shared: &Arc<Shared>) -> Result<HeartbeatThread, StoreError> {
        let (stop, stopped) = mpsc::channel();
        let (service, supervision) = (Box::new(Heartbeat::new(Arc::clone(shared))), Arc::clone(&shared.supervision));
        let thread = std::thread::Builder::new()
            .name("windlass-heartbeat".to_owned())
            .spawn(move || drive_on_thread(service, &stopped, &supervision))
            .map_err(|error| StoreError::Unavailable {
                tried: "start the heartbeat",
                store: shared.store.describe().url,
                detail: format!("no thread could be started: {error}"),
            })?;
        Ok(HeartbeatThread { stop, thread })
    }

    fn end(self) {
        drop(self.stop);
        // A beat may be under way: it ends with the store's answer.
        if self.thread.join().is_err() {
            tracing::error!("the heartbeat thread panicked outside a beat");
        }
    }
}

/// A server at work. Dropping it without [`RunningServer::stop`] is like a crash: its jobs go on elsewhere when its
/// lease has run out.
#[derive(Debug)]
pub struct RunningServer {
    shared: Arc<Shared>,
    conductor: JoinHandle<StopReport>,
}

impl RunningServer {
    /// Stops leasing, and hands back what has not started. Running jobs go on. Cannot be undone.
    pub fn quiet(&self) {
        self.shared.become_quiet();
    }

    /// A client of the same store.
    pub fn client(&self) -> &Client {
        &self.shared.services.client
    }

    /// What this server is called in the store now. It changes when a membership is lost.
    pub fn member(&self) -> MemberId {
        (*self.shared.membership.current()).clone()
    }

    /// What this server has done so far.
    pub fn stats(&self) -> ServerStats {
        self.shared.stats()
    }

    /// What is running now, one line for each job: id, kind, attempt, and for how long.
    pub fn dump(&self) -> Vec<String> {
        self.shared.dump()
    }

    /// Answers when somebody has ordered this process to stop ([`Client::order`]). It is stopping by itself then: call
    /// [`RunningServer::stop`] to wait for the end.
    pub async fn stop_asked(&self) {
        raised(&self.shared.stop).await;
    }

    /// Stops gracefully: quiet, wait for running jobs up to the configured time, tell the rest to give way, hand
    /// back what does not end, wait until the store has every verdict, leave.
    ///
    /// Takes up to `stop_timeout` + `cancel_grace`, and up to the lease and 5 s more when the store cannot be reached.
    ///
    /// # Panics
    /// When the runtime it was started on has ended.
    pub async fn stop(mut self) -> StopReport {
        self.shared.begin_stop();
        (&mut self.conductor)
            .await
            .unwrap_or_else(|error| panic!("the server's conductor did not come to its end: {error}"))
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // Drops the ensemble where it waits, and with it the services. After a stop there is nothing left to abort.
        self.conductor.abort();
    }
}

/// What plays while a server runs, in the hands of the one task that ends it.
struct Ensemble {
    shared: Arc<Shared>,
    stop: StopServices,
    driven: Vec<JoinHandle<()>>,
    /// Its thread ends when it is dropped.
    heartbeat: HeartbeatThread,
}

impl Ensemble {
    /// Waits until a stop is asked for, and carries it out.
    async fn conduct(self) -> StopReport {
        let shared = Arc::clone(&self.shared);
        raised(&shared.stop).await;
        shared.become_quiet();
        let config = &shared.config;
        if tokio::time::timeout(config.stop_timeout, shared.in_flight.until(|load| load.is_calm())).await.is_err() {
            shared.in_flight.cancel_all(CancelCause::Stop);
            // The runners apply the grace period; a second more for the last of them to be scheduled.
            let grace = config.cancel_grace + Duration::from_secs(1);
            let _all_gave_way = tokio::time::timeout(grace, shared.in_flight.until(|load| load.is_calm())).await;
        }
        let flushed = shared.in_flight.until(|load| load.is_calm() && load.unacked == 0);
        let is_flushed = tokio::time::timeout(config.lease + FLUSH_TIME, flushed).await.is_ok();
        // A store that does not answer has kept the flush waiting already.
        if is_flushed {
            recorder::record(&shared).await;
        }
        let left_behind = shared.leave().await;
        self.end().await;
        let report = StopReport { is_clean: is_flushed && left_behind == 0, left_behind, stats: shared.stats() };
        tracing::info!(is_clean = report.is_clean, left_behind, "server stopped");
        report
    }

    async fn end(self) {
        drop(self.stop);
        for service in self.driven {
            if let Err(error) = service.await {
                tracing::error!(%error, "a service did not end well");
            }
        }
        let heartbeat = self.heartbeat;
        let _joined = tokio::task::spawn_blocking(|| heartbeat.end()).await;
    }
}

/// Ends the services when it is dropped.
struct StopServices(watch::Sender<bool>);

impl Drop for StopServices {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// Answers when a flag is up.
async fn raised(flag: &watch::Sender<bool>) {
    // The sender is borrowed, so it is there: waiting for it cannot fail.
    let _ = flag.subscribe().wait_for(|is_up| *is_up).await;
}

/// How a stop went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StopReport {
    /// Whether every verdict is in the store and no job was left in the ledger.
    pub is_clean: bool,
    /// Jobs that were still in the ledger, and that the store gave back to their queues.
    pub left_behind: usize,
    /// What the server did in all.
    pub stats: ServerStats,
}

/// What a server has done since it started. Jobs are counted when the store has taken their verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ServerStats {
    /// Runs that succeeded.
    pub done: u64,
    /// Runs that failed, however that went on.
    pub failed: u64,
    /// Of these, jobs that are dead now.
    pub dead: u64,
    /// Jobs cancelled.
    pub cancelled: u64,
    /// Runs that asked to be run again later.
    pub snoozed: u64,
    /// Jobs handed back.
    pub released: u64,
    /// Outcomes refused because the membership was gone.
    pub fenced: u64,
    /// Polls of async handlers that blocked the I/O runtime for longer than the configured limit.
    pub blocked: u64,
    /// CPU handlers that do not give way, now.
    pub stuck: u32,
    /// Handlers running, now.
    pub running: usize,
    /// Jobs leased and not started, now.
    pub buffered: usize,
    /// Verdicts the store has not answered, now.
    pub unacked: usize,
    /// Services restarted after a panic.
    pub restarts: u64,
}

/// What the services of one server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: ServerConfig,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) handlers: Handlers,
    pub(crate) services: Arc<Services>,
    pub(crate) pool: Option<Pool>,
    pub(crate) in_flight: InFlight,
    pub(crate) membership: Membership,
    pub(crate) tally: Tally,
    pub(crate) meter: Meter,
    pub(crate) supervision: Arc<Supervision>,
    pub(crate) subscriber: Arc<dyn Subscriber>,
    quiet: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    pub(crate) complaints: Complaints,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        mut handlers: Handlers,
        config: ServerConfig,
        entropy: Arc<Entropy>,
        pool: Option<Pool>,
    ) -> Shared {
        let client = Client::with_entropy(Arc::clone(&store), Arc::clone(&entropy));
        let services = Arc::new(Services { states: std::mem::take(&mut handlers.states), client });
        Shared {
            in_flight: InFlight::new(config.concurrency as usize),
            membership: Membership::new(&entropy),
            tally: Tally::default(),
            meter: Meter::default(),
            supervision: Arc::default(),
            subscriber: Arc::new(Unwatched),
            quiet: watch::Sender::new(false),
            stop: watch::Sender::new(false),
            complaints: Complaints::default(),
            store,
            config,
            entropy,
            handlers,
            services,
            pool,
        }
    }

    /// Becomes a member under a new identity.
    pub(crate) async fn join(&self) -> Result<(), StoreError> {
        let member = self.membership.renew(&self.entropy);
        let info = MemberInfo {
            id: (*member).clone(),
            host: self.membership.host.clone(),
            pid: std::process::id(),
            queues: self.config.queues.iter().map(|queue| queue.name.clone()).collect(),
            weights: self.config.queues.iter().map(|queue| self.config.order.share_of(queue)).collect(),
            concurrency: self.config.concurrency,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        self.store.join(info, self.config.lease).await?;
        self.membership.note_beat();
        Ok(())
    }

    /// Ends the membership. Answers how many jobs were still in the ledger.
    async fn leave(&self) -> usize {
        match self.store.leave(&self.membership.current()).await {
            Ok(left_behind) => left_behind,
            Err(error) => {
                // The lease runs out by itself; whatever is in the ledger is handed on then.
                self.complain("leave", &error);
                let load = self.in_flight.load();
                load.unacked + load.running
            }
        }
    }

    /// Starts that many runners on the current runtime.
    pub(crate) fn start_runners(self: &Arc<Self>, count: usize) {
        for _ in 0..count {
            tokio::spawn(runner::work(Arc::clone(self)));
        }
    }

    /// Leases no more from now on.
    pub(crate) fn become_quiet(&self) {
        self.quiet.send_replace(true);
    }

    /// Has the conductor stop the server. Returns at once.
    pub(crate) fn begin_stop(&self) {
        self.stop.send_replace(true);
    }

    /// What is running now, one line for each job.
    pub(crate) fn dump(&self) -> Vec<String> {
        let now = self.store.now();
        let line = |ctx: crate::context::Context| {
            let ran_ms = now.since(ctx.started_at()).as_millis();
            format!("{} {} attempt {} running {ran_ms} ms", ctx.id(), ctx.kind(), ctx.attempt())
        };
        self.in_flight.running().into_iter().map(line).collect()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        *self.quiet.borrow()
    }

    /// Answers once, when quiet is asked for; never when it has been already.
    pub(crate) async fn quiet_asked(&self) {
        let mut quiet = self.quiet.subscribe();
        if *quiet.borrow_and_update() || quiet.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Logs that the store could not do something, the same thing at most every few seconds.
    pub(crate) fn complain(&self, tried: &'static str, error: &StoreError) {
        if let Some(left_out) = self.complaints.admit(tried) {
            let message = "the store could not do what the server asked; it will be asked again";
            tracing::error!(tried, %error, left_out, "{message}");
        }
    }

    fn stats(&self) -> ServerStats {
        let load = self.in_flight.load();
        ServerStats {
            running: load.running,
            buffered: load.buffered,
            unacked: load.unacked,
            restarts: self.supervision.restarts(),
            ..self.tally.stats()
        }
    }
}

/// Who this process is in the store at the moment.
#[derive(Debug)]
pub(crate) struct Membership {
    host: String,
    current: Mutex<Arc<MemberId>>,
    /// Since the last beat, or join, that the store has answered.
    last_beat: Mutex<Stopwatch>,
}

impl Membership {
    fn new(entropy: &Entropy) -> Membership {
        let host = process::host_name();
        let first = MemberId::new(&host, std::process::id(), entropy.next_u64());
        Membership { host, current: Mutex::new(Arc::new(first)), last_beat: Mutex::new(Stopwatch::start()) }
    }

    /// The identity under which to lease now.
    pub(crate) fn current(&self) -> Arc<MemberId> {
        Arc::clone(&self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Notes that the store has just extended the lease.
    pub(crate) fn note_beat(&self) {
        *self.last_beat.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Stopwatch::start();
    }

    /// Whether the lease is in no danger: it was extended within two thirds of its length.
    pub(crate) fn is_fresh(&self, lease: Duration) -> bool {
        let last_beat = *self.last_beat.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        last_beat.elapsed() < lease * 2 / 3
    }

    /// Takes a new identity: an old one is never used again.
    fn renew(&self, entropy: &Entropy) -> Arc<MemberId> {
        let next = Arc::new(MemberId::new(&self.host, std::process::id(), entropy.next_u64()));
        *self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::clone(&next);
        next
    }
}

/// Counters for people. All are Relaxed: none publishes anything.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    done: AtomicU64,
    failed: AtomicU64,
    dead: AtomicU64,
    cancelled: AtomicU64,
    snoozed: AtomicU64,
    released: AtomicU64,
    fenced: AtomicU64,
    blocked: AtomicU64,
    stuck: AtomicU32,
}

impl Tally {
    pub(crate) fn note_landed(&self, verdict: &Verdict) {
        let count = match verdict {
            Verdict::Done { .. } => &self.done,
            Verdict::Discard | Verdict::Retry { .. } => &self.failed,
            Verdict::Dead { .. } => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                &self.dead
            }
            Verdict::Snooze { .. } => &self.snoozed,
            Verdict::Release => &self.released,
            Verdict::Cancelled { .. } => &self.cancelled,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    pub(crate) fn note_blocked(&self) {
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_stuck(&self) {
        self.stuck.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_unstuck(&self) {
        self.stuck.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn stuck(&self) -> u32 {
        self.stuck.load(Ordering::Relaxed)
    }

    fn stats(&self) -> ServerStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ServerStats {
            done: read(&self.done),
            failed: read(&self.failed),
            dead: read(&self.dead),
            cancelled: read(&self.cancelled),
            snoozed: read(&self.snoozed),
            released: read(&self.released),
            fenced: self.fenced(),
            blocked: read(&self.blocked),
            stuck: self.stuck(),
            ..ServerStats::default()
        }
    }
}
