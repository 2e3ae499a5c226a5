//! Sums up what runs took, and hands the sums to the store.
//!
//! The acker notes every verdict that has landed; it is one task, and takes the [`Meter`]'s lock once for a batch, so a
//! job costs a comparison of two names and a few additions. The recorder empties the meter every few seconds into
//! [`Store::record`](crate::store::Store::record), and once a minute also when nothing ran, so that somebody counts the
//! ready jobs. What the store cannot take now is kept for the next time: sums do not grow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::server::Shared;
use crate::server::service::{Next, Service, Ticking};
use crate::store::Verdict;
use crate::store::measure::{METERS_MAX, Measure, OTHER, SAMPLES_MAX, Sample};

/// How often the sums are handed to the store.
const PACE: Duration = Duration::from_secs(5);

/// How often the store is told that nothing ran.
const PACE_IDLE: Duration = Duration::from_secs(60);

const _: () = assert!(METERS_MAX < SAMPLES_MAX);

/// What is measured of one run.
#[derive(Debug)]
pub(crate) struct RunFacts {
    pub(crate) kind: String,
    pub(crate) queue: String,
    /// From the time it was due to its start.
    pub(crate) waited: Duration,
    pub(crate) took: Duration,
}

/// The sums since the store was last told.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    sums: Mutex<Sums>,
}

/// One sum for each kind and queue, at most [`METERS_MAX`] and the one of all others.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    samples: Vec<Sample>,
    /// Where the sum of a kind and a queue is.
    places: HashMap<String, HashMap<String, usize>>,
    /// The place of the last one: most runs are like the one before.
    last: usize,
}

impl Meter {
    /// The sums, to be added to.
    pub(crate) fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the sums out, and begins anew.
    fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut *self.sums()).samples
    }

    /// Puts sums back that the store could not take.
    fn put_back(&self, samples: Vec<Sample>) {
        let mut sums = self.sums();
        for Sample { kind, queue, measure } in samples {
            sums.of(&kind, &queue).add(&measure);
        }
    }
}

impl Sums {
    /// Counts a run whose verdict has landed.
    pub(crate) fn note(&mut self, facts: &RunFacts, verdict: &Verdict) {
        let sum = self.of(&facts.kind, &facts.queue);
        let waited_ms = facts.waited.as_millis() as u64;
        sum.start_ms += waited_ms;
        sum.start.note(waited_ms);
        match verdict {
            Verdict::Done { .. } => {
                let took_ms = facts.took.as_millis() as u64;
                sum.processed += 1;
                sum.run_ms += took_ms;
                sum.run.note(took_ms);
            }
            Verdict::Discard | Verdict::Retry { .. } | Verdict::Dead { .. } => {
                sum.processed += 1;
                sum.failed += 1;
            }
            Verdict::Snooze { .. } | Verdict::Release | Verdict::Cancelled { .. } => {}
        }
    }

    fn of(&mut self, kind: &str, queue: &str) -> &mut Measure {
        let is_last = self.samples.get(self.last).is_some_and(|last| last.kind == kind && last.queue == queue);
        if !is_last {
            self.last = self.find(kind, queue);
        }
        &mut self.samples[self.last].measure
    }

    fn find(&mut self, kind: &str, queue: &str) -> usize {
        if let Some(place) = self.places.get(kind).and_then(|queues| queues.get(queue)) {
            return *place;
        }
        let is_full = self.samples.len() >= METERS_MAX;
        if is_full && (kind, queue) != (OTHER, OTHER) {
            return self.find(OTHER, OTHER);
        }
        let place = self.samples.len();
        self.samples.push(Sample { kind: kind.to_owned(), queue: queue.to_owned(), measure: Measure::default() });
        self.places.entry(kind.to_owned()).or_default().insert(queue.to_owned(), place);
        place
    }
}

#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    /// Since the store was last told; `None` before the first time.
    told: Option<Stopwatch>,
}

impl Recorder {
    pub(crate) fn new(shared: Arc<Shared>) -> Recorder {
        Recorder { shared, told: None }
    }

    async fn record(&mut self) -> Next {
        let is_idle = self.shared.meter.sums().samples.is_empty();
        if !is_idle || self.told.is_none_or(|told| told.elapsed() >= PACE_IDLE) {
            record(&self.shared).await;
            self.told = Some(Stopwatch::start());
        }
        Next::After(PACE)
    }
}

/// Hands what has been measured to the store.
pub(crate) async fn record(shared: &Shared) {
    let samples = shared.meter.take();
    let member = shared.membership.current();
    match shared.store.record(&member, samples.clone()).await {
        Ok(()) => {}
        // The heartbeat joins anew; the sums are told under the new identity.
        Err(error) if error.is_fenced() => shared.meter.put_back(samples),
        Err(error) => {
            shared.complain("record", &error);
            shared.meter.put_back(samples);
        }
    }
}

impl Service for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.record())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(kind: &str, queue: &str) -> RunFacts {
        let (waited, took) = (Duration::from_millis(1), Duration::from_millis(40));
        RunFacts { kind: kind.to_owned(), queue: queue.to_owned(), waited, took }
    }

    fn done() -> Verdict {
        Verdict::Done { result: None, keep: Duration::ZERO }
    }

    #[test]
    fn runs_are_summed_up_by_kind_and_queue() {
        let meter = Meter::default();

        for (kind, queue, verdict) in
            [("a", "x", done()), ("a", "y", Verdict::Discard), ("a", "x", done()), ("b", "x", Verdict::Release)]
        {
            meter.sums().note(&facts(kind, queue), &verdict);
        }

        let samples = meter.take();
        let told = |s: &Sample| (s.measure.processed, s.measure.failed, s.measure.run_ms, s.measure.start.total());
        assert_eq!(samples.iter().map(told).collect::<Vec<_>>(), [(2, 0, 80, 2), (1, 1, 0, 1), (0, 0, 0, 1)]);
        assert_eq!(meter.take(), []);
    }

    #[test]
    fn what_was_put_back_is_told_with_what_came_meanwhile() {
        let meter = Meter::default();
        meter.sums().note(&facts("a", "x"), &done());
        let taken = meter.take();
        meter.sums().note(&facts("a", "x"), &done());

        meter.put_back(taken);

        assert_eq!(meter.take()[0].measure.processed, 2);
    }

    #[test]
    fn a_meter_keeps_a_bounded_number_of_sums() {
        let meter = Meter::default();

        for number in 0..3 * METERS_MAX {
            meter.sums().note(&facts(&format!("k{number}"), "q"), &done());
        }

        let samples = meter.take();
        assert_eq!(samples.len(), METERS_MAX + 1);
        assert_eq!(samples[METERS_MAX].measure.processed, 2 * METERS_MAX as u64);
    }

    /// What a job costs that is noted in batches; the figure is in the test's output.
    #[test]
    fn noting_a_run_costs_less_than_a_microsecond() {
        const RUNS: u32 = 100_000;
        let meter = Meter::default();
        let kinds: Vec<RunFacts> = (0..16).map(|n| facts(&format!("kind.number.{n}"), "default")).collect();
        let verdict = done();

        let watch = Stopwatch::start();
        for batch in 0..RUNS / 100 {
            let mut sums = meter.sums();
            for run in 0..100 {
                sums.note(&kinds[((batch + run) % 16) as usize], &verdict);
            }
        }
        let cost = watch.elapsed() / RUNS;

        println!("{cost:?} a run");
        assert!(cost < Duration::from_micros(1), "{cost:?}");
    }
}
