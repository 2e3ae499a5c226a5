//! Puts the jobs into the store: as fast as they are taken, or at a rate that does not care how fast that is.

use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use windlass::{Client, JobOptions};

use super::bodies::new_job;
use super::latency::Spans;
use super::ledger::RunId;
use super::meter::{Meter, now_us};

/// How the jobs are put into the store before they are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fill {
    /// How many jobs go in one call: one, or as many as `enqueue_many` sends.
    is_bulk: bool,
    /// How many tasks push at the same time.
    tasks: u32,
}

impl FromStr for Fill {
    type Err = String;

    fn from_str(text: &str) -> Result<Fill, String> {
        let (way, tasks) = text.split_once(':').unwrap_or((text, "1"));
        match (way, tasks.parse()) {
            ("bulk", Ok(tasks @ 1..=1_000)) => Ok(Fill { is_bulk: true, tasks }),
            ("single", Ok(tasks @ 1..=100_000)) => Ok(Fill { is_bulk: false, tasks }),
            _ => Err(format!(
                "{text:?} is no way to fill: expected bulk or single, from one task or several, such as single:100"
            )),
        }
    }
}

impl std::fmt::Display for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = if self.is_bulk { "in bulk" } else { "one by one" };
        match self.tasks {
            1 => f.write_str(way),
            tasks => write!(f, "{way} from {tasks} tasks"),
        }
    }
}

/// Makes jobs and pushes them. Shared between tasks.
#[derive(Debug)]
pub(super) struct Pusher {
    pub(super) client: Client,
    pub(super) meter: Arc<Meter>,
    pub(super) run: RunId,
    pub(super) queue: String,
    pub(super) payload_len: u32,
    /// Jobs in one call of a bulk.
    pub(super) batch_len: u32,
    /// How long each call took.
    pub(super) calls: Spans,
    /// How late each push began; in an open loop only.
    pub(super) lateness: Spans,
    /// Turns true when the test is interrupted.
    pub(super) interrupt: watch::Receiver<bool>,
}

impl Pusher {
    /// Pushes `jobs` jobs as fast as the store takes them, or until the test is interrupted. Answers how many it took.
    pub(super) async fn fill(self: &Arc<Self>, jobs: u32, fill: Fill) -> anyhow::Result<u64> {
        let next = Arc::new(AtomicU32::new(0));
        let len = if fill.is_bulk { self.batch_len } else { 1 };
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..fill.tasks {
            tasks.spawn(Arc::clone(self).fill_in_turn(Arc::clone(&next), jobs, len));
        }
        let mut pushed = 0;
        while let Some(ended) = tasks.join_next().await {
            pushed += ended??;
        }
        Ok(pushed)
    }

    async fn fill_in_turn(self: Arc<Self>, next: Arc<AtomicU32>, jobs: u32, len: u32) -> anyhow::Result<u64> {
        let mut pushed = 0;
        while !self.is_interrupted() {
            // ORDER: Relaxed; only gives each number to one task.
            let first = next.fetch_add(len, Ordering::Relaxed).min(jobs);
            if first == jobs {
                break;
            }
            let numbers = first..first.saturating_add(len).min(jobs);
            self.push(numbers.clone(), now_us()).await?;
            pushed += numbers.len() as u64;
        }
        Ok(pushed)
    }

    /// Pushes `jobs` jobs, `rate` a second, whether or not the store keeps up. A thread of its own says when: the
    /// runtime's timers know milliseconds only.
    pub(super) async fn offer(self: &Arc<Self>, jobs: u32, rate: f64) -> anyhow::Result<()> {
        let (ended, mut ends) = mpsc::unbounded_channel();
        let (pusher, runtime) = (Arc::clone(self), tokio::runtime::Handle::current());
        let pacer = std::thread::Builder::new().name("windlass-pace".to_owned()).spawn(move || {
            let (since, began_us) = (Instant::now(), now_us());
            for number in 0..jobs {
                let due = Duration::from_secs_f64(f64::from(number) / rate);
                std::thread::sleep(due.saturating_sub(since.elapsed()));
                if pusher.is_interrupted() {
                    return;
                }
                let (pusher, ended) = (Arc::clone(&pusher), ended.clone());
                let due_us = began_us + due.as_micros() as u64;
                runtime.spawn(async move {
                    pusher.lateness.note(Duration::from_micros(now_us().saturating_sub(due_us)));
                    let answer = pusher.push(number..number + 1, due_us).await;
                    // Whoever listens has ended with the error of another push.
                    let _ = ended.send(answer);
                });
            }
        })?;
        // The channel closes when the pacer and every push have ended.
        while let Some(answer) = ends.recv().await {
            answer?;
        }
        pacer.join().map_err(|_| anyhow::anyhow!("the thread that says when to push has panicked"))
    }

    /// Pushes the jobs with these numbers in one call.
    async fn push(&self, numbers: Range<u32>, due_us: u64) -> anyhow::Result<()> {
        let (called_us, at) = (now_us(), self.client.store().now());
        let mut batch = Vec::with_capacity(numbers.len());
        for number in numbers.clone() {
            let id = self.run.job(number);
            let options = JobOptions::new().queue(&self.queue);
            let instants = (due_us, called_us);
            batch.push(new_job(self.meter.mix(), (number, id), instants, self.payload_len, (at, options))?);
            self.meter.note_sent(number, id)?;
        }
        let since = Instant::now();
        // Not repeated when the store cannot take it now: a figure with pauses in it would say nothing.
        self.client.insert(batch).await?;
        self.calls.note(since.elapsed());
        for number in numbers {
            self.meter.note_acknowledged(number, self.run.job(number))?;
        }
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        *self.interrupt.borrow()
    }
}
