//! Measurements: how many jobs ran, how long they took and waited, and how many were ready, over the last 30 days.
//!
//! A server sums up what its runs took in [`Sample`]s, one for each kind and queue, and hands them to its store every
//! few seconds ([`Store::record`](super::Store::record)). The store adds them to the minute, the ten minutes and the
//! hour of its clock at once, so that nothing has to be rolled up later, and forgets what has left its [`Span`].
//! [`Store::series`](super::Store::series) answers a dense row of [`Point`]s for a chart, and
//! [`Store::meters`](super::Store::meters) sums that only grow, for those who collect metrics themselves.
//!
//! # What bounds the space
//! A store keeps at most [`METERS_MAX`] pairs of kind and queue; the rest is summed up under [`OTHER`]. Each has at
//! most 60 minutes, 144 spells of ten minutes and 720 hours. Queue depth is kept likewise, for the [`METERS_MAX`]
//! longest queues of each minute. A pair that has not been seen for longer than a month makes room for others.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The most pairs of kind and queue that are told apart.
pub const METERS_MAX: usize = 500;
/// The most samples in one call.
pub const SAMPLES_MAX: usize = 1_000;
/// The kind and the queue of what is not told apart. No real name looks so.
pub const OTHER: &str = "(other)";

/// The buckets of a histogram end here, in milliseconds, the last one nowhere. They are those of Sidekiq's metrics.
pub const BOUNDS_MS: [u64; BUCKETS - 1] = [
    20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1_100, 1_700, 2_500, 3_800, 5_750, 8_500, 13_000, 20_000, 30_000,
    45_000, 65_000, 100_000, 150_000, 225_000, 335_000,
];
/// How many buckets there are.
pub const BUCKETS: usize = 26;

/// How often something took how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram([u64; BUCKETS]);

impl Histogram {
    /// A histogram of known counts, one for each bucket.
    pub const fn from_counts(counts: [u64; BUCKETS]) -> Histogram {
        Histogram(counts)
    }

    /// The counts: `counts()[i]` took longer than `BOUNDS_MS[i - 1]` and at most `BOUNDS_MS[i]`.
    pub const fn counts(&self) -> &[u64; BUCKETS] {
        &self.0
    }

    /// Counts something that took so long.
    pub fn note(&mut self, ms: u64) {
        self.0[BOUNDS_MS.partition_point(|bound| *bound < ms)] += 1;
    }

    /// Counts everything that `other` counted.
    pub fn add(&mut self, other: &Histogram) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(others);
        }
    }

    /// How many were counted.
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// About how long it took at most in `share` of the cases, 0.0 to 1.0; `None` when nothing was counted. Within a
    /// bucket all lengths are taken to be as likely; what lies beyond the last bound is told as the last bound.
    pub fn quantile_ms(&self, share: f64) -> Option<u64> {
        let total: f64 = self.0.iter().map(|count| *count as f64).sum();
        let wanted = share.clamp(0.0, 1.0) * total;
        let mut below = 0.0;
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let Some(&high) = BOUNDS_MS.get(bucket) else { break };
                let low = if bucket == 0 { 0 } else { BOUNDS_MS[bucket - 1] };
                return Some(low + ((high - low) as f64 * ((wanted - below) / count)) as u64);
            }
            below += count;
        }
        (total > 0.0).then_some(BOUNDS_MS[BUCKETS - 2])
    }

    /// The three lengths people ask for; `None` when nothing was counted.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles {
            p50_ms: self.quantile_ms(0.5)?,
            p95_ms: self.quantile_ms(0.95)?,
            p99_ms: self.quantile_ms(0.99)?,
        })
    }
}

/// How long something took in half of the cases, and in nearly all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// In half of the cases it took no longer.
    pub p50_ms: u64,
    /// In 95 % it took no longer.
    pub p95_ms: u64,
    /// In 99 % it took no longer.
    pub p99_ms: u64,
}

/// What some runs came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Measure {
    /// Runs that succeeded or failed.
    pub processed: u64,
    /// Of these, runs that failed, however that went on.
    pub failed: u64,
    /// How long the runs that succeeded took together, in milliseconds.
    pub run_ms: u64,
    /// How long after their time the runs began that have ended, together, in milliseconds.
    pub start_ms: u64,
    /// How long each run took that succeeded.
    pub run: Histogram,
    /// How long after its time each run began that has ended, whatever it ended with.
    pub start: Histogram,
}

impl Measure {
    /// Adds what other runs came to.
    pub fn add(&mut self, other: &Measure) {
        self.processed = self.processed.saturating_add(other.processed);
        self.failed = self.failed.saturating_add(other.failed);
        self.run_ms = self.run_ms.saturating_add(other.run_ms);
        self.start_ms = self.start_ms.saturating_add(other.start_ms);
        self.run.add(&other.run);
        self.start.add(&other.start);
    }
}

/// What the runs of one kind in one queue came to, since the last sample of the same process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The kind.
    pub kind: String,
    /// The queue the jobs came from.
    pub queue: String,
    /// The sum.
    pub measure: Measure,
}

/// How far back to look, and so how finely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Span {
    /// 60 points of a minute.
    #[default]
    Hour,
    /// 144 points of ten minutes.
    Day,
    /// 720 points of an hour: 30 days.
    Month,
}

impl Span {
    /// Every span, the shortest first.
    pub const ALL: [Span; 3] = [Span::Hour, Span::Day, Span::Month];

    /// What one point stands for, in milliseconds.
    pub const fn step_ms(self) -> i64 {
        match self {
            Span::Hour => 60_000,
            Span::Day => 600_000,
            Span::Month => 3_600_000,
        }
    }

    /// How many points there are.
    pub const fn points(self) -> usize {
        match self {
            Span::Hour => 60,
            Span::Day => 144,
            Span::Month => 720,
        }
    }

    /// When the step of `now` began, in Unix milliseconds.
    pub(crate) const fn step_of(self, now: Timestamp) -> i64 {
        now.as_millis().div_euclid(self.step_ms()) * self.step_ms()
    }

    /// When the oldest step began that is still looked at, in Unix milliseconds.
    pub(crate) const fn oldest(self, now: Timestamp) -> i64 {
        self.step_of(now) - (self.points() as i64 - 1) * self.step_ms()
    }
}

/// Which measurements to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeriesQuery {
    /// How far back.
    pub span: Span,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this queue.
    pub queue: Option<String>,
    /// Whether to sum up each kind as well.
    pub by_kind: bool,
}

/// Measurements over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Series {
    /// How far back.
    pub span: Span,
    /// What one point stands for, in milliseconds.
    pub step_ms: i64,
    /// One point for each step, the oldest first, the present one last, none left out.
    pub points: Vec<Point>,
    /// The sum over all points.
    pub total: Measure,
    /// The sum of each kind, the most processed first, if that was asked for.
    pub kinds: Vec<KindMeasure>,
}

/// One step of a series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Point {
    /// When the step began.
    pub at: Timestamp,
    /// Runs that succeeded or failed.
    pub processed: u64,
    /// Of these, runs that failed.
    pub failed: u64,
    /// How long runs took that succeeded.
    pub run: Option<Percentiles>,
    /// How long after their time runs began.
    pub start: Option<Percentiles>,
    /// The most jobs that were ready at a look within the step; a look is taken once a minute. `None` when nobody
    /// looked, or only one kind is asked for.
    pub ready: Option<u64>,
    /// What the rest was made of, histograms included, so that points can be put together.
    #[serde(skip)]
    pub measure: Measure,
}

impl Point {
    /// One step of a series, out of what was measured in it.
    fn new(at: Timestamp, measure: Measure, ready: Option<u64>) -> Point {
        Point {
            at,
            processed: measure.processed,
            failed: measure.failed,
            run: measure.run.percentiles(),
            start: measure.start.percentiles(),
            ready,
            measure,
        }
    }
}

impl Series {
    /// Adds what another store measured over the same span.
    pub(crate) fn add(&mut self, other: Series) {
        for (mine, other) in self.points.iter_mut().zip(other.points) {
            mine.measure.add(&other.measure);
            let ready = mine.ready.into_iter().chain(other.ready).reduce(|a, b| a + b);
            *mine = Point::new(mine.at, mine.measure, ready);
        }
        self.total.add(&other.total);
        for kind in other.kinds {
            match self.kinds.iter_mut().find(|known| known.kind == kind.kind) {
                Some(known) => known.measure.add(&kind.measure),
                None => self.kinds.push(kind),
            }
        }
        busiest_first(&mut self.kinds);
    }
}

fn busiest_first(kinds: &mut [KindMeasure]) {
    kinds.sort_by(|a, b| b.measure.processed.cmp(&a.measure.processed).then_with(|| a.kind.cmp(&b.kind)));
}

/// What the runs of one kind came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KindMeasure {
    /// The kind.
    pub kind: String,
    /// The sum.
    pub measure: Measure,
}

/// Puts a series together out of what a store finds, in any order. What lies outside the span is left out.
#[derive(Debug)]
pub(crate) struct SeriesBuilder {
    span: Span,
    oldest: i64,
    steps: Vec<(Measure, Option<u64>)>,
    kinds: Vec<KindMeasure>,
}

impl SeriesBuilder {
    pub(crate) fn new(span: Span, now: Timestamp) -> SeriesBuilder {
        let steps = vec![(Measure::default(), None); span.points()];
        SeriesBuilder { span, oldest: span.oldest(now), steps, kinds: Vec::new() }
    }

    fn step(&mut self, at: i64) -> Option<&mut (Measure, Option<u64>)> {
        let index = usize::try_from((at - self.oldest).div_euclid(self.span.step_ms())).ok()?;
        self.steps.get_mut(index)
    }

    /// Adds what was measured in the step that began at `at`.
    pub(crate) fn add(&mut self, at: i64, measure: &Measure) {
        if let Some((sum, _)) = self.step(at) {
            sum.add(measure);
        }
    }

    /// Notes how many jobs were ready in the step that began at `at`; the most that is told counts.
    pub(crate) fn note_ready(&mut self, at: i64, ready: u64) {
        if let Some((_, most)) = self.step(at) {
            *most = Some(most.unwrap_or(0).max(ready));
        }
    }

    /// Adds to the sum of a kind. Those of one kind must come one after the other.
    pub(crate) fn add_kind(&mut self, kind: &str, measure: &Measure) {
        match self.kinds.last_mut().filter(|last| last.kind == kind) {
            Some(last) => last.measure.add(measure),
            None => self.kinds.push(KindMeasure { kind: kind.to_owned(), measure: *measure }),
        }
    }

    pub(crate) fn finish(mut self) -> Series {
        busiest_first(&mut self.kinds);
        let mut total = Measure::default();
        self.steps.iter().for_each(|(measure, _)| total.add(measure));
        let (oldest, step_ms) = (self.oldest, self.span.step_ms());
        let point = |(index, (measure, ready)): (usize, (Measure, Option<u64>))| {
            Point::new(Timestamp::from_millis(oldest + index as i64 * step_ms), measure, ready)
        };
        let points = self.steps.into_iter().enumerate().map(point).collect();
        Series { span: self.span, step_ms, points, total, kinds: self.kinds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_counted_in_the_bucket_that_ends_at_or_after_it() {
        let mut histogram = Histogram::default();
        for ms in [0, 20, 21, 335_000, 335_001, u64::MAX] {
            histogram.note(ms);
        }

        assert_eq!((histogram.counts()[0], histogram.counts()[1]), (2, 1));
        assert_eq!((histogram.counts()[24], histogram.counts()[25], histogram.total()), (1, 2, 6));
    }

    #[test]
    fn quantiles_lie_within_their_bucket_and_grow() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentiles(), None);
        for _ in 0..90 {
            histogram.note(10);
        }
        for _ in 0..10 {
            histogram.note(400);
        }

        let Percentiles { p50_ms, p95_ms, p99_ms } = histogram.percentiles().unwrap();

        assert_eq!(p50_ms, 11);
        assert!((335..=500).contains(&p95_ms) && p95_ms < p99_ms, "{p95_ms} {p99_ms}");
        histogram.add(&Histogram::from_counts([u64::MAX; BUCKETS]));
        assert_eq!(histogram.quantile_ms(1.0), Some(335_000));
    }

    #[test]
    fn a_series_is_dense_and_leaves_out_what_is_too_old() {
        let now = Timestamp::from_millis(10 * 3_600_000 + 59_999);
        for span in Span::ALL {
            let mut builder = SeriesBuilder::new(span, now);
            let one = Measure { processed: 1, ..Measure::default() };
            for at in [
                span.oldest(now) - span.step_ms(),
                span.oldest(now),
                span.step_of(now),
                span.step_of(now) + span.step_ms(),
            ] {
                builder.add(at, &one);
            }
            builder.note_ready(span.step_of(now), 3);
            builder.note_ready(span.step_of(now), 2);

            let series = builder.finish();

            assert_eq!(series.points.len(), span.points());
            assert_eq!((series.points[0].processed, series.total.processed), (1, 2));
            let last = series.points.last().unwrap();
            assert_eq!((last.at.as_millis(), last.processed, last.ready), (span.step_of(now), 1, Some(3)));
        }
    }
}
