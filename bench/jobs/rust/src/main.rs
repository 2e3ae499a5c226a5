//! The Rust peers of `cargo xtask bench jobs`, one program: rusty-sidekiq, apalis on Redis and apalis on SQLite.
//!
//! `bench-jobs PEER enqueue|drain URL COUNT CONCURRENCY`. What it prints, and when it ends, is said in
//! `bench/src/redis/peer.rs`; every peer does the same.

#![forbid(unsafe_code)]

mod apalis_redis;
mod apalis_sqlite;
mod sidekiq;
mod tally;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use tally::Tally;

/// What is asked for on the command line.
struct Task {
    is_drain: bool,
    url: String,
    count: u64,
    concurrency: usize,
}

/// A job of 200 bytes, or so: what it carries is the same for every peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noop {
    number: u64,
    filling: String,
}

/// How many jobs go into one call that enqueues, where there is such a call.
const BATCH_LEN: u64 = 1_000;

/// How many tasks enqueue at the same time, where there is none.
const PRODUCER_COUNT: u64 = 100;

fn noop(number: u64) -> Noop {
    Noop { number, filling: "x".repeat(180) }
}

/// The numbers below `count`, in pieces of a batch.
fn batches(count: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..count).step_by(BATCH_LEN as usize).map(move |first| first..(first + BATCH_LEN).min(count))
}

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [peer, work, url, count, concurrency] = &words[..] else {
        bail!("usage: bench-jobs PEER enqueue|drain URL COUNT CONCURRENCY");
    };
    let task = Task {
        is_drain: work == "drain",
        url: url.clone(),
        count: count.parse().context("COUNT is no number")?,
        concurrency: concurrency.parse().context("CONCURRENCY is no number")?,
    };
    match peer.as_str() {
        "rusty-sidekiq" => sidekiq::run(task).await,
        "apalis-redis" => apalis_redis::run(task).await,
        "apalis-sqlite" => apalis_sqlite::run(task).await,
        _ => bail!("no peer {peer:?}"),
    }
}

/// The driver has read what we said and wants us to end.
async fn told_to_end() -> std::io::Result<()> {
    let mut signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    signal.recv().await;
    Ok(())
}

/// Times what enqueues `count` jobs, and says so.
async fn timed(count: u64, enqueue: impl Future<Output = Result<()>>) -> Result<()> {
    let tally = Tally::new(count);
    tally.begin();
    enqueue.await?;
    tally.end(count, count * (count - 1) / 2);
    Ok(())
}
