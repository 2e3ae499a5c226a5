//! The whole engine on a real server, and how processes hear of each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::retry::RetryPolicy;
use windlass::server::Server;
use windlass::store::Store;
use windlass::{Client, Context, HandlerError, Handlers, Job, JobOptions, ServerConfig};
use windlass_testbed::RedisServer;

use crate::{PATIENCE, insert, new_job, open};

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "count")]
struct Count {
    number: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_the_work_and_each_job_is_done_once() {
    const JOBS: u32 = 3_000;
    let server = RedisServer::start().unwrap();
    let counts: Arc<Mutex<HashMap<u32, u32>>> = Arc::default();
    let start = async |counts: Arc<Mutex<HashMap<u32, u32>>>| {
        let count = move |job: Count, ctx: Context| {
            let counts = Arc::clone(&counts);
            async move {
                // Every seventh fails once, and comes back.
                if job.number.is_multiple_of(7) && ctx.attempt() == 1 {
                    return Err(HandlerError::msg("not yet"));
                }
                *counts.lock().unwrap().entry(job.number).or_default() += 1;
                Ok(())
            }
        };
        let store: Arc<dyn Store> = Arc::new(open(&server.url()));
        let config = ServerConfig { poll_interval: Duration::from_millis(50), ..ServerConfig::default() };
        Server::new(store, Handlers::new().on(count), config).unwrap().start().await.unwrap()
    };
    let (one, two) = (start(Arc::clone(&counts)).await, start(Arc::clone(&counts)).await);
    let client = Client::new(Arc::new(open(&server.url())));
    let soon = JobOptions::new().retry(RetryPolicy::Fixed { delay_ms: 10 });

    let jobs: Vec<Count> = (0..JOBS).map(|number| Count { number }).collect();
    client.with(soon).enqueue_many(jobs).await.unwrap();
    let all_done = async {
        while counts.lock().unwrap().len() < JOBS as usize {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all_done).await.unwrap();

    let (first, second) = (one.stop().await, two.stop().await);
    assert!(first.is_clean && second.is_clean, "{first:?} {second:?}");
    assert!(counts.lock().unwrap().values().all(|times| *times == 1));
    assert_eq!(first.stats.done + second.stats.done, u64::from(JOBS));
    assert!(first.stats.done > 0 && second.stats.done > 0, "{first:?} {second:?}");
    let left = open(&server.url()).counts().await.unwrap();
    assert_eq!((left.ready, left.running, left.retry, left.totals.done), (0, 0, 0, u64::from(JOBS)));
}

#[tokio::test]
async fn a_job_that_another_process_enqueued_is_noticed_at_once() {
    let server = RedisServer::start().unwrap();
    let (here, there) = (open(&server.url()), open(&server.url()));
    // The first wait only opens the ear.
    here.wait(here.ring(), Duration::from_secs(3_600)).await.unwrap();

    let since = here.ring();
    let waiting = async {
        tokio::join!(here.wait(since, Duration::from_secs(3_600)), async {
            there.insert(vec![new_job(&there)]).await.unwrap();
        })
    };

    // Without the notice this would take an hour.
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok());
}

#[tokio::test]
async fn a_process_without_work_asks_the_server_next_to_nothing() {
    let server = RedisServer::start().unwrap();
    let store: Arc<dyn Store> = Arc::new(open(&server.url()));
    let handlers = Handlers::new().on(|_: Count| async {});
    let running = Server::new(store, handlers, ServerConfig::default()).unwrap().start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let commands = || server.info("total_commands_processed").unwrap().unwrap();

    let before = commands();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let per_second = (commands() - before) / 5.0;

    // Half of it are the commands within the scripts of beats and measurements.
    assert!(per_second < 8.0, "{per_second} commands a second");
    running.stop().await;
}

#[test]
fn the_store_may_be_used_from_threads_that_have_no_runtime() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.unix_url()));

    let threads: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || std::array::from_fn::<_, 50, _>(|_| insert(&*store)))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }

    assert_eq!(windlass::blocking::block_on(store.counts()).unwrap().ready, 400);
}
