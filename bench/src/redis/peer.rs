//! What every peer's program does, whatever it is written in.
//!
//! It is told: enqueue or drain, the store's URL, how many jobs, and how many at once. When it has enqueued, or run, all
//! of them, it prints one line of JSON: how many it counted, the sum of their numbers, the seconds that it took and the
//! processor time. After enqueueing it ends; after draining it goes on until it is sent TERM, and then ends in order.
//!
//! Jobs are counted by acks, and a program may run its jobs well before it acknowledges them. So the store is looked at
//! when it says that all were run, and what is still missing there is waited for, on its clock.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use windlass_testbed::program::Program;
use windlass_testbed::wait;

use crate::suite::host::cpu_time_of;

/// How long a program may take for all of its jobs.
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// How long it may take to end.
const END_LIMIT: Duration = Duration::from_secs(40);

/// Between two looks at what it printed: seldom enough to cost nothing, and not part of any figure.
const PAUSE: Duration = Duration::from_millis(20);

/// What a competitor is to do.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub url: &'a str,
    pub count: u64,
    pub concurrency: usize,
}

/// What it took, for all of the jobs.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// The most memory that its process had; where that is asked for.
    pub rss_bytes: Option<u64>,
    /// Processor time of the server meanwhile; where there is one of its own for the phase.
    pub server_cpu_seconds: Option<f64>,
}

/// A program's line.
#[derive(Debug, Deserialize)]
struct Said {
    count: u64,
    sum: u64,
    seconds: f64,
    cpu_seconds: f64,
}

/// Runs a program that enqueues.
pub fn enqueue(command: &mut Command, order: Order<'_>) -> Result<Sample> {
    let folder = tempfile::tempdir()?;
    let mut program = Program::start(command, &folder.path().join("log"))?;
    let said = until_said(&mut program, order)?;
    let status = program.wait(END_LIMIT)?;
    ensure!(status.success(), "it ended with {status}: {}", program.tail());
    said.sample(order, None)
}

/// Runs a program that drains. `is_acked` says whether the store has every outcome.
pub fn drain(command: &mut Command, order: Order<'_>, is_acked: &dyn Fn() -> Result<bool>) -> Result<Sample> {
    let folder = tempfile::tempdir()?;
    let mut program = Program::start(command, &folder.path().join("log"))?;
    let said = until_said(&mut program, order)?;
    let late = until_acked(&program, is_acked)?;
    let rss_bytes = most_memory(program.id())?;
    program.signal(rustix::process::Signal::TERM)?;
    program.wait(END_LIMIT)?;
    let sample = said.sample(order, Some(rss_bytes))?;
    Ok(Sample { seconds: sample.seconds + late.0, cpu_seconds: sample.cpu_seconds + late.1, ..sample })
}

/// The wall and processor time, in seconds, that the acks took beyond the end of the jobs: none if they are there.
fn until_acked(program: &Program, is_acked: &dyn Fn() -> Result<bool>) -> Result<(f64, f64)> {
    if is_acked()? {
        return Ok((0.0, 0.0));
    }
    let (since, cpu) = (Instant::now(), cpu_time_of(program.id()));
    wait::until_every(PAUSE, "the last outcome in the store", RUN_LIMIT, || Ok(is_acked()?.then_some(())))?;
    Ok((since.elapsed().as_secs_f64(), cpu_time_of(program.id()).saturating_sub(cpu).as_secs_f64()))
}

fn until_said(program: &mut Program, order: Order<'_>) -> Result<Said> {
    let what = format!("the end of {} jobs", order.count);
    let line = wait::until_every(PAUSE, &what, RUN_LIMIT, || {
        let has_ended = program.ended()?;
        let printed = program.printed()?;
        let line = printed.lines().find(|line| line.starts_with("{\"count\"") && line.ends_with('}'));
        match (line, has_ended) {
            (Some(line), _) => Ok(Some(line.to_owned())),
            (None, Some(status)) => bail!("it ended with {status} before its jobs did"),
            (None, None) => Ok(None),
        }
    });
    let line = line.with_context(|| format!("it printed:\n{}", program.tail()))?;
    serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))
}

impl Said {
    fn sample(&self, order: Order<'_>, rss_bytes: Option<u64>) -> Result<Sample> {
        let sum = order.count * (order.count - 1) / 2;
        ensure!(
            (self.count, self.sum) == (order.count, sum),
            "jobs were lost, or run twice: {} with the sum {} were counted, {} with the sum {sum} were asked for",
            self.count,
            self.sum,
            order.count
        );
        Ok(Sample { seconds: self.seconds, cpu_seconds: self.cpu_seconds, rss_bytes, server_cpu_seconds: None })
    }
}

/// The high-water mark of a process, which is asked before it ends.
fn most_memory(id: u32) -> Result<u64> {
    let path = format!("/proc/{id}/status");
    let status = fs::read_to_string(Path::new(&path)).with_context(|| format!("cannot read {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kib.with_context(|| format!("{path} does not say the most memory"))? * 1_024)
}
