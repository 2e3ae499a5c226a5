//! The worker process: a real server on the scenario's store, whose handlers keep a journal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::checker::{Event as Line, Journal, Phase, Run};
use windlass::clock::{Clock, SystemClock};
use windlass::config::{QueueConfig, ServerConfig};
use windlass::event::{Event, Subscriber};
use windlass::job::LeaseToken;
use windlass::server::Server;
use windlass::store::Verdict;
use windlass::{Context, HandlerError, Handlers, Job, State};

use crate::arena::LEASE;

pub(crate) const WORK_QUEUE: &str = "crash";

/// A job that takes a while, and may fail or worse.
#[derive(Debug, Clone, Serialize, Deserialize, Job)]
#[job(kind = "crash.work", queue = "crash", retry = "fixed(20ms)")]
pub(crate) struct Work {
    pub(crate) run_ms: u64,
    pub(crate) fails_first: bool,
    pub(crate) aborts: bool,
}

struct Diary {
    journal: Journal,
    name: String,
    clock: SystemClock,
}

impl Diary {
    fn note(&self, phase: Phase, id: String, attempt: u32, run: u64) {
        let (process, at) = (self.name.clone(), self.clock.now().as_millis());
        let line = Line::Run(Run { phase, id, attempt, run, process, at });
        self.journal.record(&line).expect("the worker's journal");
    }
}

impl Subscriber for Diary {
    fn event(&self, event: &Event<'_>) {
        let Event::Landed { token, verdict, .. } = event else {
            return;
        };
        let phase = match verdict {
            Verdict::Retry { .. } => Phase::Failed,
            Verdict::Release | Verdict::Snooze { .. } => Phase::Released,
            Verdict::Done { .. } | Verdict::Dead { .. } | Verdict::Discard | Verdict::Cancelled { .. } => {
                Phase::Accepted
            }
        };
        let token: &LeaseToken = token;
        self.note(phase, token.job().to_string(), 0, token.run());
    }
}

async fn work(work: Work, diary: State<Diary>, ctx: Context) -> Result<(), HandlerError> {
    let id = ctx.id().to_string();
    diary.note(Phase::Started, id.clone(), ctx.attempt(), ctx.fencing_token());
    tokio::time::sleep(Duration::from_millis(work.run_ms)).await;
    if work.aborts {
        std::process::abort();
    }
    if work.fails_first && ctx.attempt() == 1 {
        return Err(HandlerError::msg("fails at its first attempt"));
    }
    diary.note(Phase::Finished, id, ctx.attempt(), ctx.fencing_token());
    Ok(())
}

/// `worker NAME DIR [concurrency=N]`
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let [name, dir, options @ ..] = arguments else { panic!("worker: NAME and DIR are missing") };
    let concurrency = options.iter().find_map(|word| word.strip_prefix("concurrency=")?.parse().ok()).unwrap_or(8);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(serve(name, &PathBuf::from(dir), concurrency))
}

async fn serve(name: &str, dir: &Path, concurrency: u32) -> ExitCode {
    windlass::config::load::failpoints_from_environment().expect("failpoints that can be read");
    let diary = || Diary {
        journal: Journal::open(dir.join(format!("{name}.journal"))).expect("the worker's journal"),
        name: name.to_owned(),
        clock: SystemClock::new(),
    };
    let store = windlass::open(&format!("sqlite:{}", dir.join("jobs.db").display())).expect("the scenario's store");
    let config = ServerConfig {
        queues: vec![QueueConfig { name: WORK_QUEUE.to_owned(), weight: 1, at_most_once: false }],
        concurrency,
        lease: LEASE,
        poll_interval: Duration::from_millis(50),
        stop_timeout: Duration::from_millis(300),
        cancel_grace: Duration::from_millis(100),
        ..ServerConfig::default()
    };
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).expect("a signal");
    let report = loop {
        let server = Server::new(Arc::clone(&store), Handlers::new().on(work).state(diary()), config.clone());
        let server = server.expect("a server").watched_by(Arc::new(diary()));
        match server.run(async { terminate.recv().await.unwrap_or(()) }).await {
            Ok(report) => break report,
            // A neighbour was stopped in the middle of a transaction: whoever supervises a server starts it again.
            Err(windlass::Error::Store(error)) if error.is_transient() => {}
            Err(error) => panic!("the server starts: {error}"),
        }
    };
    store.close().await.expect("the store closes");
    if report.is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
