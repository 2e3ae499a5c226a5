//! How long things take: histograms that many threads write, and their percentiles.

use std::sync::Mutex;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest span that is told apart: an hour. Longer ones count as an hour.
const SPAN_MAX: Duration = Duration::from_secs(3_600);
/// Two digits: percentiles are right to one part in a hundred.
const DIGITS: u8 = 2;

/// Spans of time, by how often they were seen. Shared between threads by reference.
#[derive(Debug)]
pub(super) struct Spans {
    histogram: Mutex<Histogram<u64>>,
}

/// What people ask of a distribution. In microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) p50_us: f64,
    pub(super) p90_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
}

/// A distribution on its way to another process: nanoseconds and how often.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Exported(Vec<(u64, u64)>);

impl Spans {
    pub(super) fn new() -> Spans {
        let histogram = Histogram::new_with_bounds(1, SPAN_MAX.as_nanos() as u64, DIGITS);
        Spans { histogram: Mutex::new(histogram.expect("bounds and digits that the library allows")) }
    }

    pub(super) fn note(&self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        self.lock().saturating_record(nanos);
    }

    /// Answers nothing when nothing was noted.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let histogram = self.lock();
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        let at = |quantile: f64| micros(histogram.value_at_quantile(quantile));
        (!histogram.is_empty()).then(|| Percentiles {
            count: histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: micros(histogram.max()),
        })
    }

    pub(super) fn export(&self) -> Exported {
        let histogram = self.lock();
        Exported(histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
    }

    /// Adds what another process noted.
    pub(super) fn add(&self, exported: &Exported) {
        let mut histogram = self.lock();
        for (nanos, count) in &exported.0 {
            histogram.saturating_record_n(*nanos, *count);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Histogram<u64>> {
        // A histogram is counts: one that a panicking thread left is still right.
        self.histogram.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_one_part_in_a_hundred_also_after_a_journey() {
        let (here, there) = (Spans::new(), Spans::new());
        for micros in 1..=1_000 {
            let spans = if micros % 2 == 0 { &here } else { &there };
            spans.note(Duration::from_micros(micros));
        }

        here.add(&there.export());

        let all = here.percentiles().unwrap();
        let is_near = |found: f64, expected: f64| (found - expected).abs() <= expected / 100.0;
        assert_eq!(all.count, 1_000);
        assert!(is_near(all.p50_us, 500.0) && is_near(all.p99_us, 990.0) && is_near(all.max_us, 1_000.0), "{all:?}");
    }

    #[test]
    fn nothing_noted_is_nothing_told_and_an_age_counts_as_an_hour() {
        let spans = Spans::new();
        assert_eq!(spans.percentiles(), None);

        spans.note(Duration::from_secs(7 * 24 * 3_600));

        assert!(spans.percentiles().unwrap().max_us >= 3_600e6 * 0.99);
    }
}
