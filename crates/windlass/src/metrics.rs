//! What a store knows, as text for those who collect metrics: OpenMetrics.
//!
//! [`render`] reads the store at that moment and keeps nothing, so that every process of one store tells the same, and
//! one of them is enough to ask. Serve its answer as [`CONTENT_TYPE`]. A scrape costs the store five short reads.
//!
//! # Names
//! Counters and histograms only grow as long as their kind runs at least once a month. Spans of time are in seconds.
//!
//! | metric | labels | |
//! |---|---|---|
//! | `windlass_jobs_enqueued_total` `…_processed_total` `…_failed_total` `…_dead_total` `…_recovered_total` `…_cancelled_total` `…_expired_total` `…_fenced_total` | | what has happened to jobs |
//! | `windlass_jobs` | `state` | jobs in each state |
//! | `windlass_queue_jobs` | `queue`, `state` | ready, running, waiting |
//! | `windlass_queue_latency_seconds` | `queue` | how long the oldest ready job has been ready |
//! | `windlass_queue_paused` | `queue` | 1 when leases are stopped |
//! | `windlass_processes` | `state` | active, quiet, late |
//! | `windlass_process_slots` `windlass_process_stuck` | | jobs they could run at a time; handlers that do not give way |
//! | `windlass_runs_total` `windlass_run_failures_total` | `kind`, `queue` | runs that ended |
//! | `windlass_run_duration_seconds` | `kind`, `queue`, `le` | how long runs took that succeeded |
//! | `windlass_start_latency_seconds` | `kind`, `queue`, `le` | from the time due to the start |
//!
//! # What bounds the text
//! At most [`LABELS_MAX`] queues and [`LABELS_MAX`] pairs of kind and queue are named; the rest is summed up as
//! [`OTHER`]. Of pairs those that were seen first are named, so that a sum stays where it is; of queues those with the
//! most ready jobs.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::Timestamp;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::state::State;
use crate::store::measure::{BOUNDS_MS, BUCKETS, Histogram, OTHER, Sample};
use crate::store::{Counts, ProcessInfo, QueueInfo};

/// What the answer of [`render`] is to be served as.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The most queues, and the most pairs of kind and queue, that are named.
pub const LABELS_MAX: usize = 100;

/// Everything the store knows, as the text of one scrape.
///
/// # Errors
/// [`Error::Store`] when the store cannot be read.
pub async fn render(inspector: &Inspector) -> Result<String, Error> {
    let snapshot = Snapshot {
        counts: inspector.counts().await?,
        queues: longest_named(inspector.queues().await?),
        processes: inspector.processes().await?,
        meters: first_named(inspector.meters().await?),
        now: inspector.now(),
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing into memory cannot fail");
    Ok(text)
}

/// The queues to name, and one for the rest.
fn longest_named(mut queues: Vec<QueueInfo>) -> Vec<QueueInfo> {
    if queues.len() <= LABELS_MAX {
        return queues;
    }
    queues.sort_by(|a, b| b.ready.cmp(&a.ready).then_with(|| a.name.cmp(&b.name)));
    let rest = queues.split_off(LABELS_MAX);
    let mut other =
        QueueInfo { name: OTHER.to_owned(), ready: 0, running: 0, waiting: 0, latency_ms: 0, paused: false };
    for queue in rest {
        other.ready += queue.ready;
        other.running += queue.running;
        other.waiting += queue.waiting;
        other.latency_ms = other.latency_ms.max(queue.latency_ms);
        other.paused |= queue.paused;
    }
    queues.push(other);
    queues
}

/// The pairs of kind and queue to name, and one for the rest.
fn first_named(meters: Vec<Sample>) -> Vec<Sample> {
    let (mut named, mut other) = (Vec::new(), None);
    for meter in meters {
        if meter.kind != OTHER && named.len() < LABELS_MAX {
            named.push(meter);
            continue;
        }
        let empty = || Sample { kind: OTHER.to_owned(), queue: OTHER.to_owned(), ..Sample::default() };
        other.get_or_insert_with(empty).measure.add(&meter.measure);
    }
    named.extend(other);
    named
}

/// What one scrape tells.
#[derive(Debug)]
struct Snapshot {
    counts: Counts,
    queues: Vec<QueueInfo>,
    processes: Vec<ProcessInfo>,
    meters: Vec<Sample>,
    now: Timestamp,
}

type Labels<'a, const N: usize> = [(&'a str, &'a str); N];

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.happenings(&mut encoder)?;
        self.states(&mut encoder)?;
        self.queues(&mut encoder)?;
        self.processes(&mut encoder)?;
        self.runs(&mut encoder)
    }
}

impl Snapshot {
    fn happenings(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let totals = &self.counts.totals;
        let processed = totals.done + totals.failed;
        for (name, help, count) in [
            ("windlass_jobs_enqueued", "Jobs accepted from clients", totals.enqueued),
            ("windlass_jobs_processed", "Runs that succeeded or failed", processed),
            ("windlass_jobs_failed", "Runs that failed, however that went on", totals.failed),
            ("windlass_jobs_dead", "Jobs that went to the dead, for any reason", totals.dead),
            ("windlass_jobs_recovered", "Jobs handed on after their process was lost", totals.recovered),
            ("windlass_jobs_cancelled", "Jobs cancelled", totals.cancelled),
            ("windlass_jobs_expired", "Jobs that expired before they started", totals.expired),
            ("windlass_jobs_fenced", "Outcomes refused because the job was somebody else's by then", totals.fenced),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }

    fn states(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let values = State::ALL.map(|state| ([("state", state.name())], self.counts.of(state)));
        gauges(encoder, "windlass_jobs", "Jobs in each state", None, values)
    }

    fn queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let of = |queue: &QueueInfo| [("ready", queue.ready), ("running", queue.running), ("waiting", queue.waiting)];
        let jobs = self.queues.iter().flat_map(|queue| {
            of(queue).map(|(state, count)| ([("queue", queue.name.as_str()), ("state", state)], count))
        });
        gauges(
            encoder,
            "windlass_queue_jobs",
            "Jobs of a queue: ready, running, or waiting for their time",
            None,
            jobs,
        )?;
        let latency = self.queues.iter().map(|q| ([("queue", q.name.as_str())], q.latency_ms as f64 / 1_000.0));
        let help = "How long the oldest ready job has been ready";
        gauges(encoder, "windlass_queue_latency", help, Some(&Unit::Seconds), latency)?;
        let paused = self.queues.iter().map(|q| ([("queue", q.name.as_str())], u64::from(q.paused)));
        gauges(encoder, "windlass_queue_paused", "Whether leases from the queue are stopped", None, paused)
    }

    fn processes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let state_of = |process: &ProcessInfo| match process {
            late if late.lease_until <= self.now => "late",
            quiet if quiet.vitals.quiet => "quiet",
            _ => "active",
        };
        let count = |state| self.processes.iter().filter(|process| state_of(process) == state).count() as u64;
        let states = ["active", "quiet", "late"].map(|state| ([("state", state)], count(state)));
        gauges(encoder, "windlass_processes", "Processes that work the queues", None, states)?;
        let slots: u64 = self.processes.iter().map(|process| u64::from(process.info.concurrency)).sum();
        let stuck: u64 = self.processes.iter().map(|process| u64::from(process.vitals.stuck)).sum();
        for (name, help, value) in [
            ("windlass_process_slots", "Jobs that all processes together can run at a time", slots),
            ("windlass_process_stuck", "Handlers that do not give way", stuck),
        ] {
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn runs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.run_counts(encoder, "windlass_runs", "Runs that succeeded or failed", |sample| sample.measure.processed)?;
        self.run_counts(encoder, "windlass_run_failures", "Runs that failed", |sample| sample.measure.failed)?;
        let help = "How long runs took that succeeded";
        self.run_times(encoder, "windlass_run_duration", help, |sample| {
            (&sample.measure.run, sample.measure.run_ms as f64 / 1_000.0)
        })?;
        let help = "From the time a job was due to its start";
        self.run_times(encoder, "windlass_start_latency", help, |sample| {
            (&sample.measure.start, sample.measure.start_ms as f64 / 1_000.0)
        })
    }

    fn run_counts(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        count: impl Fn(&Sample) -> u64,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for sample in &self.meters {
            metric.encode_family(&labels_of(sample))?.encode_counter::<NoLabelSet, _, u64>(&count(sample), None)?;
        }
        Ok(())
    }

    fn run_times<'a>(
        &'a self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        times: impl Fn(&'a Sample) -> (&'a Histogram, f64),
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for sample in &self.meters {
            let (histogram, sum) = times(sample);
            let labels = labels_of(sample);
            histogram_of(&mut metric.encode_family(&labels)?, histogram, sum)?;
        }
        Ok(())
    }
}

fn labels_of(sample: &Sample) -> Labels<'_, 2> {
    [("kind", &sample.kind), ("queue", &sample.queue)]
}

fn gauges<'a, V, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    values: impl IntoIterator<Item = (Labels<'a, N>, V)>,
) -> fmt::Result
where
    V: prometheus_client::encoding::EncodeGaugeValue,
{
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn histogram_of(metric: &mut MetricEncoder<'_>, histogram: &Histogram, sum: f64) -> fmt::Result {
    let bound = |bucket: usize| BOUNDS_MS.get(bucket).map_or(f64::INFINITY, |ms| *ms as f64 / 1_000.0);
    let buckets: [(f64, u64); BUCKETS] = std::array::from_fn(|bucket| (bound(bucket), histogram.counts()[bucket]));
    metric.encode_histogram::<NoLabelSet>(sum, histogram.total(), &buckets, None)
}
