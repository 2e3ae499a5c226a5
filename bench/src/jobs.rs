//! The embedded store and the server: one process, payloads of 200 bytes, everything durable unless it says otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use windlass::server::{RunningServer, Server};
use windlass::store::Store;
use windlass::{Client, Handlers, Job, ServerConfig, State};

use crate::report::Report;
use crate::{REPEATS, bare, rate};

#[derive(Clone, Serialize, Deserialize, Job)]
#[job(kind = "bench.noop")]
struct Noop {
    filling: String,
}

fn job() -> Noop {
    Noop { filling: "x".repeat(184) }
}

/// A store in a folder of its own, in the present one: a disk, not memory, where that is one.
struct Place {
    store: Arc<dyn Store>,
    client: Client,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new(sync: &str) -> Place {
        let dir = tempfile::tempdir_in(".").unwrap();
        let store = windlass::open(&format!("sqlite:{}?sync={sync}", dir.path().join("jobs.db").display())).unwrap();
        Place { client: Client::new(Arc::clone(&store)), store, _dir: dir }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

fn repeated(measure: impl Fn() -> f64) -> Vec<f64> {
    (0..REPEATS).map(|_| measure()).collect()
}

pub fn enqueue(report: &mut Report) {
    const BULK: usize = 200_000;
    const SINGLE: usize = 40_000;
    let bare: Vec<(f64, f64)> = (0..REPEATS)
        .map(|_| {
            let dir = tempfile::tempdir_in(".").unwrap();
            bare::insert_and_cycle(&dir.path().join("bare.db"), BULK, &[b'x'; 200])
        })
        .collect();
    report.add("bare library, inserts in groups of 500, FULL", "jobs/s", bare.iter().map(|both| both.0).collect());
    let bulk = |sync: &'static str| {
        repeated(move || {
            let place = Place::new(sync);
            let jobs = vec![job(); BULK];
            runtime().block_on(async {
                let since = Instant::now();
                place.client.enqueue_many(jobs).await.unwrap();
                rate(BULK, since.elapsed())
            })
        })
    };
    report.add("enqueue_many, FULL", "jobs/s", bulk("full"));
    report.add("enqueue_many, fast mode", "jobs/s", bulk("normal"));
    let single = repeated(|| {
        let place = Place::new("full");
        runtime().block_on(async {
            let since = Instant::now();
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let client = place.client.clone();
                    tokio::spawn(async move {
                        for _ in 0..SINGLE / 100 {
                            client.enqueue(&job()).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            rate(SINGLE, since.elapsed())
        })
    });
    report.add("enqueue, one by one from 100 tasks, FULL", "jobs/s", single);
}

async fn noop(_: Noop, count: State<AtomicU64>) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Starts a server and waits until it has done `count` jobs; answers the time, and the server.
async fn drain(place: &Place, count: u64, concurrency: u32) -> (Duration, RunningServer) {
    let ran = Arc::new(AtomicU64::new(0));
    let handlers = Handlers::new().on(noop).shared_state(Arc::clone(&ran));
    let config = ServerConfig { concurrency, ..ServerConfig::default() };
    let server = Server::new(Arc::clone(&place.store), handlers, config).unwrap();
    let since = Instant::now();
    let server = server.start().await.unwrap();
    while server.stats().done < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let elapsed = since.elapsed();
    let counts = place.store.counts().await.unwrap();
    assert_eq!((counts.totals.done, counts.ready, counts.running), (count, 0, 0), "a job was lost");
    assert_eq!(ran.load(Ordering::Relaxed), count, "a job ran twice");
    (elapsed, server)
}

pub fn cycle(report: &mut Report) {
    const JOBS: usize = 100_000;
    let bare: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let dir = tempfile::tempdir_in(".").unwrap();
            bare::insert_and_cycle(&dir.path().join("bare.db"), JOBS, &[b'x'; 200]).1
        })
        .collect();
    report.add("bare library, update then delete, groups of 500", "jobs/s", bare);
    for (sync, concurrency) in [("full", 10), ("full", 100), ("normal", 100)] {
        let rates = repeated(|| {
            let place = Place::new(sync);
            runtime().block_on(async {
                place.client.enqueue_many(vec![job(); JOBS]).await.unwrap();
                let (elapsed, server) = drain(&place, JOBS as u64, concurrency).await;
                server.stop().await;
                rate(JOBS, elapsed)
            })
        });
        report.add(&format!("lease, run, ack; concurrency {concurrency}, sync={sync}"), "jobs/s", rates);
    }
}

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "bench.stamp")]
struct Stamp;

pub fn latency(report: &mut Report) {
    const JOBS: usize = 500;
    for sync in ["full", "normal"] {
        let place = Place::new(sync);
        let runtime = runtime();
        let mut taken = runtime.block_on(async {
            let (send, mut started) = tokio::sync::mpsc::unbounded_channel::<Instant>();
            async fn stamp(_: Stamp, send: State<tokio::sync::mpsc::UnboundedSender<Instant>>) {
                send.send(Instant::now()).unwrap();
            }
            let handlers = Handlers::new().on(stamp).state(send);
            let server = Server::new(Arc::clone(&place.store), handlers, ServerConfig::default()).unwrap();
            let server = server.start().await.unwrap();
            let mut taken = Vec::with_capacity(JOBS);
            for _ in 0..JOBS {
                let since = Instant::now();
                place.client.enqueue(&Stamp).await.unwrap();
                taken.push(started.recv().await.unwrap().duration_since(since).as_secs_f64() * 1_000.0);
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            server.stop().await;
            taken
        });
        taken.sort_by(f64::total_cmp);
        let at = |part: f64| taken[(taken.len() as f64 * part) as usize];
        report.say(&format!("enqueue to start, sync={sync}"), format!("p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99)));
    }
}

/// A line of `/proc/self/status`, in KiB.
pub fn memory_kib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    value.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse().unwrap()
}

pub fn million(report: &mut Report) {
    const JOBS: usize = 1_000_000;
    let place = Place::new("full");
    runtime().block_on(async {
        for _ in 0..JOBS / 10_000 {
            place.client.enqueue_many(vec![job(); 10_000]).await.unwrap();
        }
        let (elapsed, server) = drain(&place, JOBS as u64, 100).await;
        report.say("a million jobs", format!("{:.0} jobs/s", rate(JOBS, elapsed)));
        report.say("resident memory at its highest", format!("{} MiB", memory_kib("VmHWM") / 1_024));
        server.stop().await;
    });
}

/// Processor time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

pub fn idle(report: &mut Report) {
    const SPAN: Duration = Duration::from_secs(20);
    let place = Place::new("full");
    runtime().block_on(async {
        let handlers = Handlers::new().on(noop).state(AtomicU64::new(0));
        let server = Server::new(Arc::clone(&place.store), handlers, ServerConfig::default()).unwrap();
        let server = server.start().await.unwrap();
        let before = cpu_time();
        tokio::time::sleep(SPAN).await;
        let used = (cpu_time() - before).as_secs_f64() / SPAN.as_secs_f64() * 100.0;
        report.say("processor time, concurrency 100", format!("{used:.2} % of one core"));
        report.say("resident memory", format!("{} MiB", memory_kib("VmRSS") / 1_024));
        server.stop().await;
    });
}
