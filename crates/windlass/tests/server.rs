//! The whole engine in one process: a real server on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use windlass::config::{QueueConfig, QueueOrder};
use windlass::job::{JobId, JobRecord, Payload};
use windlass::outcome::{Json, Outcome};
use windlass::retry::RetryPolicy;
use windlass::server::{RunningServer, Server};
use windlass::state::State as JobState;
use windlass::store::memory::MemoryStore;
use windlass::store::{MemberId, ProcessOrder, ProcessTarget, SeriesQuery, Store};
use windlass::{Client, Context, HandlerError, Handlers, Inspector, Job, JobOptions, ServerConfig, State};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "add", keep_done = "1h")]
struct Add {
    a: u32,
    b: u32,
}

struct Engine {
    server: RunningServer,
    client: Client,
    inspector: Inspector,
}

impl Engine {
    async fn start(handlers: Handlers, config: ServerConfig) -> Engine {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        Engine::start_on(store, handlers, config).await
    }

    async fn start_on(store: Arc<dyn Store>, handlers: Handlers, config: ServerConfig) -> Engine {
        let server = Server::new(Arc::clone(&store), handlers, config).unwrap().start().await.unwrap();
        Engine { server, client: Client::new(Arc::clone(&store)), inspector: Inspector::new(store) }
    }

    /// Waits until the job is in `state`. The time-out only guards against a hang.
    async fn until(&self, id: JobId, state: JobState) -> JobRecord {
        let reached = async {
            loop {
                let job = self.inspector.job(id).await.unwrap();
                if job.state == state {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(job) => job,
            Err(_) => panic!("never became {state}: {:?}", self.inspector.job(id).await),
        }
    }
}

fn quick() -> ServerConfig {
    ServerConfig {
        poll_interval: Duration::from_millis(20),
        cancel_grace: Duration::from_millis(50),
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn an_async_handler_runs_and_its_result_is_kept() {
    async fn add(job: Add, ctx: Context) -> Result<Json<u32>, HandlerError> {
        assert_eq!((ctx.attempt(), ctx.kind(), ctx.queue()), (1, "add", "default"));
        Ok(Json(job.a + job.b))
    }
    let engine = Engine::start(Handlers::new().on(add), quick()).await;

    let id = engine.client.enqueue(&Add { a: 2, b: 3 }).await.unwrap();

    let job = engine.until(id, JobState::Done).await;
    assert_eq!(job.result, Some(Payload::from_bytes("5")));
    assert!(engine.server.stop().await.is_clean);
}

#[tokio::test]
async fn a_cpu_handler_runs_on_a_thread_of_the_pool() {
    fn add(_: Add) -> Json<String> {
        Json(std::thread::current().name().unwrap_or_default().to_owned())
    }
    let engine = Engine::start(Handlers::new().cpu(add), quick()).await;

    let id = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    let thread = engine.until(id, JobState::Done).await.result.unwrap().to_text();
    assert!(thread.contains("windlass-cpu"), "{thread}");
    assert!(engine.server.stop().await.is_clean);
}

#[tokio::test]
async fn a_failure_is_retried_until_it_succeeds_and_counts_attempts() {
    async fn add(_: Add, ctx: Context) -> Result<(), HandlerError> {
        if ctx.attempt() < 3 { Err(HandlerError::msg("not yet")) } else { Ok(()) }
    }
    let engine = Engine::start(Handlers::new().on(add), quick()).await;
    let soon = JobOptions::new().retry(RetryPolicy::Fixed { delay_ms: 1 });

    let id = engine.client.with(soon).enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    let job = engine.until(id, JobState::Done).await;
    assert_eq!(job.attempt, 3);
    let stats = engine.server.stop().await.stats;
    assert_eq!((stats.done, stats.failed), (1, 2));
}

#[tokio::test]
async fn a_panic_of_a_handler_is_a_failure_with_its_message_and_the_server_goes_on() {
    async fn add(job: Add) {
        assert!(job.a > 0, "nothing to add to {}", job.b);
    }
    let engine = Engine::start(Handlers::new().on(add), quick()).await;
    let once = JobOptions::new().attempts(1);

    let bad = engine.client.with(once).enqueue(&Add { a: 0, b: 7 }).await.unwrap();
    let good = engine.client.enqueue(&Add { a: 1, b: 0 }).await.unwrap();

    let error = engine.until(bad, JobState::Dead).await.error.unwrap();
    assert_eq!((error.class.as_str(), error.message.as_str()), ("Panic", "nothing to add to 7"));
    engine.until(good, JobState::Done).await;
}

#[tokio::test]
async fn a_panic_of_a_cpu_handler_is_a_failure_too() {
    fn add(_: Add) {
        panic!("out of numbers");
    }
    let engine = Engine::start(Handlers::new().cpu(add), quick()).await;

    let id = engine.client.with(JobOptions::new().attempts(1)).enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    assert_eq!(engine.until(id, JobState::Dead).await.error.unwrap().message, "out of numbers");
}

#[tokio::test]
async fn an_unknown_kind_waits_for_a_server_that_knows_it() {
    let engine = Engine::start(Handlers::new(), quick()).await;

    let id = engine.client.raw("nobody.knows", "[1]").await.unwrap();

    let job = engine.until(id, JobState::Retry).await;
    assert_eq!(job.error.unwrap().class, "UnknownKind");
}

#[tokio::test]
async fn arguments_that_cannot_be_decoded_are_dead_unchanged() {
    async fn add(_: Add) {}
    let engine = Engine::start(Handlers::new().on(add), quick()).await;

    let id = engine.client.raw("add", r#"[{"a": "two"}]"#).await.unwrap();

    let job = engine.until(id, JobState::Dead).await;
    assert_eq!(job.payload.to_text(), r#"[{"a": "two"}]"#);
    assert_eq!(job.reason.as_deref(), Some("undecodable"));
}

#[tokio::test]
async fn a_newer_payload_version_waits_for_a_newer_server() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "add", version = 2)]
    struct NewAdd {}
    async fn add(_: Add) {}
    let engine = Engine::start(Handlers::new().on(add), quick()).await;

    let id = engine.client.enqueue(&NewAdd {}).await.unwrap();

    assert_eq!(engine.until(id, JobState::Retry).await.error.unwrap().class, "UnknownVersion");
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_told_then_dropped_and_the_attempt_failed() {
    async fn add(_: Add, told: State<AtomicU32>, ctx: Context) {
        ctx.cancelled().await;
        told.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }
    let told = Arc::new(AtomicU32::new(0));
    let engine = Engine::start(Handlers::new().on(add).shared_state(Arc::clone(&told)), quick()).await;
    let short = JobOptions::new().timeout(Duration::from_millis(20)).attempts(1);

    let id = engine.client.with(short).enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    assert_eq!(engine.until(id, JobState::Dead).await.error.unwrap().class, "Timeout");
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cpu_handler_that_does_not_give_way_is_counted_as_stuck_until_it_ends() {
    fn add(_: Add, gate: State<std::sync::Barrier>) {
        gate.wait();
    }
    let gate = Arc::new(std::sync::Barrier::new(2));
    let engine = Engine::start(Handlers::new().cpu(add).shared_state(Arc::clone(&gate)), quick()).await;
    let short = JobOptions::new().timeout(Duration::from_millis(20)).attempts(1);

    let id = engine.client.with(short).enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    engine.until(id, JobState::Dead).await;
    assert_eq!(engine.server.stats().stuck, 1);
    tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
    let unstuck = async {
        while engine.server.stats().stuck > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, unstuck).await.unwrap();
}

#[tokio::test]
async fn a_running_job_that_is_cancelled_hears_of_it_and_is_cancelled() {
    async fn add(_: Add, ctx: Context) -> Outcome {
        ctx.cancelled().await;
        Outcome::Cancelled
    }
    // The heartbeat brings the news: a short lease makes it beat often.
    let config = ServerConfig { lease: Duration::from_secs(1), ..quick() };
    let engine = Engine::start(Handlers::new().on(add), config).await;
    let id = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();
    engine.until(id, JobState::Running).await;

    engine.client.cancel(id).await.unwrap();

    assert_eq!(engine.until(id, JobState::Cancelled).await.reason.as_deref(), Some("asked to cancel"));
}

#[tokio::test]
async fn a_snoozed_job_runs_again_and_keeps_its_attempt() {
    async fn add(_: Add, turns: State<AtomicU32>, ctx: Context) -> Outcome {
        assert_eq!(ctx.attempt(), 1);
        if turns.fetch_add(1, Ordering::SeqCst) < 2 { Outcome::Snooze { until: ctx.now() } } else { Outcome::Done }
    }
    let engine = Engine::start(Handlers::new().on(add).state(AtomicU32::new(0)), quick()).await;

    let id = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    let job = engine.until(id, JobState::Done).await;
    assert_eq!((job.attempt, job.run), (1, 3));
}

#[tokio::test]
async fn a_handler_may_enqueue_child_jobs() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(kind = "parent", keep_done = "1h")]
    struct Parent;
    async fn parent(_: Parent, ctx: Context) -> Result<Json<String>, windlass::Error> {
        Ok(Json(ctx.client().enqueue(&Add { a: 1, b: 1 }).await?.to_string()))
    }
    async fn add(_: Add) {}
    let engine = Engine::start(Handlers::new().on(parent).on(add), quick()).await;

    let id = engine.client.enqueue(&Parent).await.unwrap();

    let child: String =
        serde_json::from_slice(engine.until(id, JobState::Done).await.result.unwrap().as_bytes()).unwrap();
    engine.until(child.parse().unwrap(), JobState::Done).await;
}

#[tokio::test]
async fn stop_waits_for_running_jobs_and_hands_back_what_has_not_started() {
    async fn add(_: Add, gate: State<Semaphore>) {
        gate.acquire().await.unwrap().forget();
    }
    let gate = Arc::new(Semaphore::new(0));
    let config = ServerConfig { concurrency: 2, ..quick() };
    let engine = Engine::start(Handlers::new().on(add).shared_state(Arc::clone(&gate)), config).await;
    let ids = engine.client.enqueue_many((0..5).map(|a| Add { a, b: 0 })).await.unwrap();
    engine.until(ids[0], JobState::Running).await;
    engine.until(ids[1], JobState::Running).await;

    let Engine { server, inspector, .. } = engine;
    let stopping = tokio::spawn(server.stop());
    gate.add_permits(2);
    let report = stopping.await.unwrap();

    assert!(report.is_clean, "{report:?}");
    let counts = inspector.counts().await.unwrap();
    assert_eq!((counts.done, counts.ready, counts.running), (2, 3, 0));
    let waiting = inspector.job(ids[4]).await.unwrap();
    assert_eq!(waiting.attempt, 0);
    assert!(inspector.processes().await.unwrap().is_empty());
}

#[tokio::test]
async fn stop_hands_back_a_job_that_outlives_the_deadline_and_gives_its_attempt_back() {
    async fn add(_: Add) {
        std::future::pending::<()>().await;
    }
    let config = ServerConfig { stop_timeout: Duration::from_millis(20), ..quick() };
    let engine = Engine::start(Handlers::new().on(add), config).await;
    let id = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();
    engine.until(id, JobState::Running).await;

    let Engine { server, inspector, .. } = engine;
    let report = server.stop().await;

    assert!(report.is_clean, "{report:?}");
    let job = inspector.job(id).await.unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Ready, 0));
}

#[tokio::test]
async fn an_at_most_once_job_that_outlives_the_deadline_is_dead_and_not_handed_back() {
    async fn add(_: Add) {
        std::future::pending::<()>().await;
    }
    let config = ServerConfig { stop_timeout: Duration::from_millis(20), ..quick() };
    let engine = Engine::start(Handlers::new().on(add), config).await;
    let once = JobOptions::new().at_most_once(true);
    let id = engine.client.with(once).enqueue(&Add { a: 0, b: 0 }).await.unwrap();
    engine.until(id, JobState::Running).await;

    let Engine { server, inspector, .. } = engine;
    server.stop().await;

    let job = inspector.job(id).await.unwrap();
    assert_eq!((job.state, job.reason.as_deref()), (JobState::Dead, Some("interrupted")));
}

#[tokio::test]
async fn a_quiet_server_leases_nothing_more() {
    async fn add(_: Add) {}
    let engine = Engine::start(Handlers::new().on(add), quick()).await;
    let before = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();
    engine.until(before, JobState::Done).await;

    engine.server.quiet();
    let after = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();

    assert!(engine.server.stop().await.is_clean);
    assert_eq!(engine.inspector.job(after).await.unwrap().state, JobState::Ready);
}

#[tokio::test]
async fn at_most_the_configured_number_of_handlers_run_at_a_time() {
    struct Gauge {
        running: AtomicU32,
        peak: AtomicU32,
    }
    async fn add(_: Add, gauge: State<Gauge>) {
        let running = gauge.running.fetch_add(1, Ordering::SeqCst) + 1;
        gauge.peak.fetch_max(running, Ordering::SeqCst);
        tokio::task::yield_now().await;
        gauge.running.fetch_sub(1, Ordering::SeqCst);
    }
    let gauge = Arc::new(Gauge { running: AtomicU32::new(0), peak: AtomicU32::new(0) });
    let config = ServerConfig { concurrency: 3, ..quick() };
    let engine = Engine::start(Handlers::new().on(add).shared_state(Arc::clone(&gauge)), config).await;

    let ids = engine.client.enqueue_many((0..200).map(|a| Add { a, b: 0 })).await.unwrap();
    for id in ids {
        engine.until(id, JobState::Done).await;
    }

    assert_eq!(gauge.peak.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_handler_that_blocks_the_runtime_is_counted() {
    async fn add(job: Add) {
        // Blocks on purpose: this is what the watchdog is for.
        std::thread::sleep(Duration::from_millis(u64::from(job.a)));
    }
    let config = ServerConfig { block_warning: Duration::from_millis(20), ..quick() };
    let engine = Engine::start(Handlers::new().on(add), config).await;

    for a in [0, 60] {
        let id = engine.client.enqueue(&Add { a, b: 0 }).await.unwrap();
        engine.until(id, JobState::Done).await;
    }

    assert_eq!(engine.server.stats().blocked, 1);
}

#[tokio::test]
async fn strict_order_serves_the_first_queue_first() {
    async fn add(_: Add, seen: State<std::sync::Mutex<Vec<String>>>, ctx: Context) {
        seen.lock().unwrap().push(ctx.queue().to_owned());
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let client = Client::new(Arc::clone(&store));
    for queue in ["low", "high", "low", "high"] {
        client.with(JobOptions::new().queue(queue)).enqueue(&Add { a: 0, b: 0 }).await.unwrap();
    }
    let queue = |name: &str| QueueConfig { name: name.to_owned(), weight: 1, at_most_once: false };
    let config = ServerConfig {
        queues: vec![queue("high"), queue("low")],
        order: QueueOrder::Strict,
        concurrency: 1,
        ..quick()
    };
    let seen = Arc::new(std::sync::Mutex::new(Vec::<String>::new()));

    let engine = Engine::start_on(store, Handlers::new().on(add).shared_state(Arc::clone(&seen)), config).await;
    let all_done = async {
        while engine.server.stats().done < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_done).await.unwrap();

    assert_eq!(*seen.lock().unwrap(), ["high", "high", "low", "low"]);
}

#[tokio::test]
async fn a_process_shows_itself_with_its_memory_and_what_it_runs() {
    async fn add(_: Add) {
        std::future::pending::<()>().await;
    }
    let engine =
        Engine::start(Handlers::new().on(add), ServerConfig { lease: Duration::from_secs(1), ..quick() }).await;
    let id = engine.client.enqueue(&Add { a: 0, b: 0 }).await.unwrap();
    engine.until(id, JobState::Running).await;

    let shown = async {
        loop {
            let processes = engine.inspector.processes().await.unwrap();
            if processes.len() == 1 && processes[0].vitals.busy == 1 {
                return processes;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let processes = tokio::time::timeout(PATIENCE, shown).await.unwrap();

    assert_eq!(processes[0].jobs[0].id, id);
    assert_eq!(processes[0].info.pid, std::process::id());
    assert!(processes[0].vitals.rss_bytes > 1_000_000);
}

#[tokio::test]
async fn an_order_to_be_quiet_is_obeyed_and_shown() {
    let config = ServerConfig { lease: Duration::from_secs(1), ..quick() };
    let engine = Engine::start(Handlers::new().on(add_up), config).await;

    let reached = engine.client.order(ProcessTarget::One(engine.server.member()), ProcessOrder::Quiet).await.unwrap();

    assert_eq!(reached, 1);
    let shown = async {
        while !engine.inspector.processes().await.unwrap()[0].vitals.quiet {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, shown).await.expect("the process shows itself as quiet");
    let id = engine.client.enqueue(&Add { a: 1, b: 2 }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.inspector.job(id).await.unwrap().state, JobState::Ready);
    assert!(engine.server.stop().await.is_clean);
}

#[tokio::test]
async fn an_order_to_stop_stops_a_server_that_nobody_else_stops() {
    let config = ServerConfig { lease: Duration::from_secs(1), ..quick() };
    let engine = Engine::start(Handlers::new().on(add_up), config).await;
    let id = engine.client.enqueue(&Add { a: 1, b: 2 }).await.unwrap();
    engine.until(id, JobState::Done).await;

    engine.client.order(ProcessTarget::All, ProcessOrder::Stop).await.unwrap();

    tokio::time::timeout(PATIENCE, engine.server.stop_asked()).await.expect("the order is heard");
    let gone = async {
        while !engine.inspector.processes().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("the process has left");
    let report = engine.server.stop().await;
    assert!(report.is_clean);
    assert_eq!(report.stats.done, 1);
}

#[tokio::test]
async fn a_server_that_runs_until_its_shutdown_ends_also_when_it_is_ordered_to() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let config = ServerConfig { lease: Duration::from_secs(1), ..quick() };
    let server = Server::new(Arc::clone(&store), Handlers::new().on(add_up), config).unwrap();
    let client = Client::new(store);

    let run = tokio::spawn(server.run(std::future::pending()));
    let ordered = async {
        while client.order(ProcessTarget::All, ProcessOrder::Stop).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        run.await.unwrap().unwrap()
    };

    assert!(tokio::time::timeout(PATIENCE, ordered).await.expect("the server ends").is_clean);
}

#[tokio::test]
async fn an_order_to_a_process_that_is_not_there_is_an_error() {
    let client = Client::new(Arc::new(MemoryStore::default()));

    let error = client.order(ProcessTarget::One(MemberId::new("nobody", 1, 1)), ProcessOrder::Dump).await.unwrap_err();

    assert!(error.to_string().contains("nobody"), "{error}");
}

async fn add_up(job: Add) -> Json<u32> {
    Json(job.a + job.b)
}

#[tokio::test]
async fn what_ran_is_measured_and_told_by_the_store_when_the_server_has_stopped() {
    async fn add(job: Add) -> Result<Json<u32>, HandlerError> {
        tokio::time::sleep(Duration::from_millis(30)).await;
        if job.a == 0 { Err(HandlerError::msg("nothing")) } else { Ok(Json(job.a + job.b)) }
    }
    let engine = Engine::start(Handlers::new().on(add), quick()).await;
    let good = engine.client.enqueue(&Add { a: 1, b: 2 }).await.unwrap();
    let bad = engine.client.with(JobOptions::new().attempts(1)).enqueue(&Add { a: 0, b: 2 }).await.unwrap();
    engine.until(good, JobState::Done).await;
    engine.until(bad, JobState::Dead).await;

    assert!(engine.server.stop().await.is_clean);

    let query = SeriesQuery { by_kind: true, ..SeriesQuery::default() };
    let series = engine.inspector.series(query).await.unwrap();
    assert_eq!(series.kinds.len(), 1);
    let measure = series.kinds[0].measure;
    assert_eq!((series.kinds[0].kind.as_str(), measure.processed, measure.failed), ("add", 2, 1));
    assert_eq!((measure.run.total(), measure.start.total()), (1, 2));
    assert!(measure.run_ms >= 29 && measure.run.counts()[0] == 0, "{measure:?}");
    assert_eq!(series.points.iter().filter_map(|point| point.ready).max(), Some(0));
}
