//! What the memory store keeps of measurements.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::state::State;
use crate::store::measure::{METERS_MAX, Measure, OTHER, Sample, Series, SeriesBuilder, SeriesQuery, Span};
use crate::store::memory::ledger::Ledger;

/// Kind and queue.
type Meter = (String, String);

/// Measurements of the last month.
#[derive(Debug, Default)]
pub(super) struct Measurements {
    meters: BTreeMap<Meter, Known>,
    /// How many meters there have been.
    arrivals: u64,
    steps: BTreeMap<(Meter, Span, i64), Measure>,
    /// The most jobs ready in a step, by queue; of all queues together under the empty name.
    depths: BTreeMap<(Span, i64, String), u64>,
}

/// What is known of a pair of kind and queue.
#[derive(Debug)]
struct Known {
    arrival: u64,
    seen_at: Timestamp,
    sum: Measure,
}

impl Ledger {
    pub(super) fn record(&mut self, samples: Vec<Sample>, now: Timestamp) {
        self.sample_depths(now);
        let measurements = &mut self.measurements;
        measurements.forget(now);
        for Sample { kind, queue, measure } in samples {
            let meter = measurements.meter((kind, queue), now, &measure);
            for span in Span::ALL {
                measurements.steps.entry((meter.clone(), span, span.step_of(now))).or_default().add(&measure);
            }
        }
    }

    /// Counts ready jobs, unless somebody has in this minute.
    fn sample_depths(&mut self, now: Timestamp) {
        if self.measurements.depths.contains_key(&(Span::Hour, Span::Hour.step_of(now), String::new())) {
            return;
        }
        let mut ready: BTreeMap<String, u64> = BTreeMap::new();
        for entry in self.jobs.values().filter(|entry| entry.record.state == State::Ready) {
            *ready.entry(entry.record.queue.clone()).or_default() += 1;
        }
        let total = ready.values().sum();
        let mut longest: Vec<(String, u64)> = ready.into_iter().collect();
        longest.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        longest.truncate(METERS_MAX);
        longest.push((String::new(), total));
        for (queue, ready) in longest {
            for span in Span::ALL {
                let most = self.measurements.depths.entry((span, span.step_of(now), queue.clone())).or_default();
                *most = ready.max(*most);
            }
        }
    }

    pub(super) fn meters(&self) -> Vec<Sample> {
        let mut known: Vec<(&Meter, &Known)> = self.measurements.meters.iter().collect();
        known.sort_by_key(|(_, known)| known.arrival);
        let sample = |((kind, queue), known): (&Meter, &Known)| Sample {
            kind: kind.clone(),
            queue: queue.clone(),
            measure: known.sum,
        };
        known.into_iter().map(sample).collect()
    }

    pub(super) fn series(&self, query: &SeriesQuery, now: Timestamp) -> Series {
        let SeriesQuery { span, kind, queue, by_kind } = query;
        let mut series = SeriesBuilder::new(*span, now);
        let is_wanted = |(its_kind, its_queue): &Meter| {
            kind.as_ref().is_none_or(|kind| kind == its_kind) && queue.as_ref().is_none_or(|queue| queue == its_queue)
        };
        let measurements = &self.measurements;
        for ((meter, _, at), measure) in measurements.steps.iter().filter(|((m, s, _), _)| s == span && is_wanted(m)) {
            if *at >= span.oldest(now) {
                series.add(*at, measure);
                if *by_kind {
                    series.add_kind(&meter.0, measure);
                }
            }
        }
        if kind.is_none() {
            let name = queue.as_deref().unwrap_or_default();
            for ((_, at, depth_of), ready) in measurements.depths.iter().filter(|((s, ..), _)| s == span) {
                // A queue that is not named in a minute somebody looked at was empty.
                if depth_of.is_empty() || depth_of == name {
                    series.note_ready(*at, if depth_of == name { *ready } else { 0 });
                }
            }
        }
        series.finish()
    }
}

impl Measurements {
    /// The pair to count under: itself while there is room, else the one of all others.
    fn meter(&mut self, meter: Meter, now: Timestamp, measure: &Measure) -> Meter {
        let has_place = self.meters.contains_key(&meter) || self.meters.len() < METERS_MAX;
        let meter = if has_place { meter } else { (OTHER.to_owned(), OTHER.to_owned()) };
        self.arrivals += 1;
        let unknown = Known { arrival: self.arrivals, seen_at: now, sum: Measure::default() };
        let known = self.meters.entry(meter.clone()).or_insert(unknown);
        known.seen_at = now;
        known.sum.add(measure);
        meter
    }

    fn forget(&mut self, now: Timestamp) {
        self.steps.retain(|(_, span, at), _| *at >= span.oldest(now));
        self.depths.retain(|(span, at, _), _| *at >= span.oldest(now));
        self.meters.retain(|_, known| known.seen_at.as_millis() >= Span::Month.oldest(now));
    }
}
