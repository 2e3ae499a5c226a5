//! Measurements: recorded, summed up, told, forgotten.

use std::time::Duration;

use windlass::Timestamp;
use windlass::blocking::block_on;
use windlass::entropy::Entropy;
use windlass::job::{JobOptions, NAME_LEN_MAX};
use windlass::store::measure::{METERS_MAX, OTHER, SAMPLES_MAX};
use windlass::store::{Histogram, Measure, MemberId, Sample, Series, SeriesQuery, Span, Vitals};

use crate::fixture::{Fixture, HOUR, MORNING, SECOND, for_every_store};

for_every_store!(
    what_is_recorded_is_told_in_the_step_of_its_time,
    several_members_and_calls_are_summed_up,
    one_kind_or_one_queue_can_be_looked_at_alone,
    each_kind_is_summed_up_the_busiest_first,
    what_is_older_than_its_span_is_not_told,
    ready_jobs_are_counted_once_a_minute_and_the_most_is_told,
    what_is_too_much_to_be_told_apart_is_summed_up_as_other,
    a_meter_that_was_not_seen_for_a_month_makes_room,
    what_a_meter_has_come_to_in_all_is_told_in_the_order_of_their_arrival,
    a_stranger_may_not_record,
    a_call_outside_its_limits_is_refused,
    every_series_agrees_with_a_list_of_all_that_was_recorded,
);

const MINUTE: Duration = Duration::from_secs(60);

fn measure(processed: u64, failed: u64, run_ms: u64) -> Measure {
    let (mut run, mut start) = (Histogram::default(), Histogram::default());
    for _ in 0..processed - failed {
        run.note(run_ms);
    }
    for _ in 0..processed {
        start.note(2 * run_ms);
    }
    Measure { processed, failed, run_ms: (processed - failed) * run_ms, start_ms: processed * 2 * run_ms, run, start }
}

fn sample(kind: &str, queue: &str, measure: Measure) -> Sample {
    Sample { kind: kind.to_owned(), queue: queue.to_owned(), measure }
}

fn record(f: &Fixture, member: &MemberId, samples: Vec<Sample>) {
    block_on(f.store.beat(member, Vitals::default())).unwrap();
    block_on(f.store.record(member, samples)).unwrap();
}

fn series(f: &Fixture, span: Span) -> Series {
    block_on(f.store.series(SeriesQuery { span, ..SeriesQuery::default() })).unwrap()
}

fn series_of(f: &Fixture, kind: Option<&str>, queue: Option<&str>) -> Series {
    let (kind, queue) = (kind.map(str::to_owned), queue.map(str::to_owned));
    block_on(f.store.series(SeriesQuery { kind, queue, ..SeriesQuery::default() })).unwrap()
}

/// The points at which something ran: how long before the last one, in steps, and how many.
fn busy(series: &Series) -> Vec<(usize, u64)> {
    let last = series.points.len() - 1;
    let ran = series.points.iter().enumerate().filter(|(_, point)| point.measure.processed > 0);
    ran.map(|(index, point)| (last - index, point.measure.processed)).collect()
}

fn what_is_recorded_is_told_in_the_step_of_its_time(f: &Fixture) {
    let member = f.join("a");
    record(f, &member, vec![sample("mail", "default", measure(4, 1, 100))]);
    f.clock.advance(25 * MINUTE);
    record(f, &member, vec![sample("mail", "default", measure(2, 0, 10))]);

    let (hour, day, month) = (series(f, Span::Hour), series(f, Span::Day), series(f, Span::Month));

    assert_eq!((hour.points.len(), day.points.len(), month.points.len()), (60, 144, 720));
    assert_eq!((hour.step_ms, day.step_ms, month.step_ms), (60_000, 600_000, 3_600_000));
    assert_eq!(busy(&hour), [(25, 4), (0, 2)]);
    // MORNING is 53 minutes and 20 seconds after an hour: 25 minutes later are three spells and one hour on.
    assert_eq!(busy(&day), [(2, 4), (0, 2)]);
    assert_eq!(busy(&month), [(1, 4), (0, 2)]);
    let first = &hour.points[34];
    assert!(first.at <= MORNING && MORNING.since(first.at) < MINUTE);
    assert_eq!(first.measure.failed, 1);
    let (run, start) = (first.run.unwrap(), first.start.unwrap());
    assert!((65..=100).contains(&run.p50_ms) && (150..=225).contains(&start.p99_ms), "{run:?} {start:?}");
    let mut sum = measure(4, 1, 100);
    sum.add(&measure(2, 0, 10));
    assert_eq!((hour.total, day.total, month.total), (sum, sum, sum));
    let json = serde_json::to_value(first).unwrap();
    assert_eq!((&json["processed"], &json["run"]["p50_ms"]), (&4.into(), &run.p50_ms.into()));
    assert_eq!(hour.points[0].run, None);
}

fn several_members_and_calls_are_summed_up(f: &Fixture) {
    let (one, two) = (f.join("one"), f.join("two"));

    for member in [&one, &two, &one] {
        record(f, member, vec![sample("a", "q", measure(3, 1, 50)), sample("b", "q", measure(1, 0, 700))]);
    }

    let total = series(f, Span::Hour).total;
    assert_eq!((total.processed, total.failed, total.run_ms), (12, 3, 3 * 800));
    assert_eq!((total.run.total(), total.start.total()), (9, 12));
}

fn one_kind_or_one_queue_can_be_looked_at_alone(f: &Fixture) {
    let member = f.join("a");
    let samples = [("a", "x", 1), ("a", "y", 10), ("b", "x", 100)];
    record(f, &member, samples.map(|(kind, queue, count)| sample(kind, queue, measure(count, 0, 1))).to_vec());

    let processed = |kind, queue| series_of(f, kind, queue).total.processed;

    assert_eq!((processed(None, None), processed(Some("a"), None), processed(None, Some("x"))), (111, 11, 101));
    assert_eq!(
        (processed(Some("a"), Some("y")), processed(Some("b"), Some("y")), processed(Some("c"), None)),
        (10, 0, 0)
    );
}

fn each_kind_is_summed_up_the_busiest_first(f: &Fixture) {
    let member = f.join("a");
    let samples = [("few", "x", 1), ("many", "x", 10), ("many", "y", 100)];
    record(f, &member, samples.map(|(kind, queue, count)| sample(kind, queue, measure(count, 0, 1))).to_vec());
    f.clock.advance(3 * MINUTE);
    record(f, &member, vec![sample("few", "x", measure(2, 2, 1))]);

    let kinds = |queue: Option<&str>| {
        let query = SeriesQuery { by_kind: true, queue: queue.map(str::to_owned), ..SeriesQuery::default() };
        let kinds = block_on(f.store.series(query)).unwrap().kinds;
        kinds.into_iter().map(|k| (k.kind, k.measure.processed, k.measure.failed)).collect::<Vec<_>>()
    };

    assert_eq!(kinds(None), [("many".to_owned(), 110, 0), ("few".to_owned(), 3, 2)]);
    assert_eq!(kinds(Some("x")), [("many".to_owned(), 10, 0), ("few".to_owned(), 3, 2)]);
    assert_eq!(series(f, Span::Hour).kinds, []);
}

fn what_is_older_than_its_span_is_not_told(f: &Fixture) {
    let member = f.join("a");
    record(f, &member, vec![sample("a", "q", measure(1, 0, 1))]);

    let mut told = Vec::new();
    for delay in [59 * MINUTE, MINUTE, 23 * HOUR, HOUR, 29 * 24 * HOUR, 24 * HOUR] {
        f.clock.advance(delay);
        record(f, &member, Vec::new());
        told.push(Span::ALL.map(|span| series(f, span).total.processed));
    }

    assert_eq!(told, [[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]);
}

fn ready_jobs_are_counted_once_a_minute_and_the_most_is_told(f: &Fixture) {
    let member = f.join("a");
    let ready = |queue: Option<&str>, span| {
        let query = SeriesQuery { span, queue: queue.map(str::to_owned), ..SeriesQuery::default() };
        let points = block_on(f.store.series(query)).unwrap().points;
        points.iter().rev().take(3).map(|point| point.ready).collect::<Vec<_>>()
    };
    f.insert_many(3);
    f.insert(JobOptions::new().queue("other"));
    record(f, &member, Vec::new());
    f.insert(JobOptions::new());
    record(f, &member, Vec::new());
    assert_eq!(ready(None, Span::Hour), [Some(4), None, None]);

    f.clock.advance(2 * MINUTE);
    f.lease(&member, 10);
    record(f, &member, Vec::new());

    assert_eq!(ready(None, Span::Hour), [Some(1), None, Some(4)]);
    assert_eq!(ready(Some("default"), Span::Hour), [Some(0), None, Some(3)]);
    assert_eq!(ready(Some("other"), Span::Hour), [Some(1), None, Some(1)]);
    assert_eq!(ready(Some("nobody"), Span::Hour), [Some(0), None, Some(0)]);
    assert_eq!(ready(Some("default"), Span::Day), [Some(3), None, None]);
    assert!(series_of(f, Some("kind"), None).points.iter().all(|point| point.ready.is_none()));
}

fn what_is_too_much_to_be_told_apart_is_summed_up_as_other(f: &Fixture) {
    let member = f.join("a");
    let many =
        |from: usize| (from..from + METERS_MAX).map(|n| sample(&format!("k{n}"), "q", measure(1, 0, 1))).collect();

    record(f, &member, many(0));
    record(f, &member, many(METERS_MAX - 3));

    assert_eq!(series_of(f, Some("k0"), None).total.processed, 1);
    assert_eq!(series_of(f, Some(&format!("k{}", METERS_MAX - 1)), None).total.processed, 2);
    assert_eq!(series_of(f, Some(&format!("k{METERS_MAX}")), None).total.processed, 0);
    assert_eq!(series_of(f, Some(OTHER), Some(OTHER)).total.processed, METERS_MAX as u64 - 3);
    assert_eq!(series(f, Span::Hour).total.processed, 2 * METERS_MAX as u64);
}

fn a_meter_that_was_not_seen_for_a_month_makes_room(f: &Fixture) {
    let member = f.join("a");
    record(f, &member, (0..METERS_MAX).map(|n| sample(&format!("k{n}"), "q", measure(1, 0, 1))).collect());

    f.clock.advance(31 * 24 * HOUR);
    record(f, &member, Vec::new());
    f.clock.advance(MINUTE);
    record(f, &member, vec![sample("new", "q", measure(1, 0, 1))]);

    assert_eq!(series_of(f, Some("new"), None).total.processed, 1);
    assert_eq!(series(f, Span::Month).total.processed, 1);
}

fn what_a_meter_has_come_to_in_all_is_told_in_the_order_of_their_arrival(f: &Fixture) {
    let member = f.join("a");
    for (kind, count) in [("z", 1), ("a", 10), ("z", 100)] {
        record(f, &member, vec![sample(kind, "q", measure(count, 0, 1))]);
        f.clock.advance(10 * 24 * HOUR);
    }

    let meters = block_on(f.store.meters()).unwrap();

    let told: Vec<_> = meters.iter().map(|m| (m.kind.as_str(), m.queue.as_str(), m.measure.processed)).collect();
    assert_eq!(told, [("z", "q", 101), ("a", "q", 10)]);
    f.clock.advance(40 * 24 * HOUR);
    record(f, &member, Vec::new());
    assert_eq!(block_on(f.store.meters()).unwrap(), []);
}

fn a_stranger_may_not_record(f: &Fixture) {
    let stranger = MemberId::new("stranger", 1, 1);

    let error = block_on(f.store.record(&stranger, vec![sample("a", "q", measure(1, 0, 1))])).unwrap_err();

    assert!(error.is_fenced(), "{error}");
    assert_eq!(series(f, Span::Hour).total.processed, 0);
}

fn a_call_outside_its_limits_is_refused(f: &Fixture) {
    let member = f.join("a");
    let good = sample("a", "q", measure(1, 0, 1));
    let long = Sample { kind: "x".repeat(NAME_LEN_MAX + 1), ..good.clone() };

    assert!(block_on(f.store.record(&member, vec![good.clone(); SAMPLES_MAX + 1])).is_err());
    assert!(block_on(f.store.record(&member, vec![good, long])).is_err());

    assert_eq!(series(f, Span::Hour).total.processed, 0);
}

/// The model: a list of what was recorded and when, and sums over it.
fn every_series_agrees_with_a_list_of_all_that_was_recorded(f: &Fixture) {
    let (member, entropy) = (f.join("a"), Entropy::seeded(11));
    let pick = |below: u64| entropy.next_u64() % below;
    let mut recorded: Vec<(Timestamp, &str, &str, Measure)> = Vec::new();
    for _ in 0..150 {
        f.clock.advance(SECOND * [5, 40, 900, 20_000][pick(4) as usize]);
        let (kind, queue) = (["a", "b"][pick(2) as usize], ["x", "y"][pick(2) as usize]);
        let processed = 1 + pick(5);
        let measure = measure(processed, pick(processed + 1), pick(3_000));
        recorded.push((f.now(), kind, queue, measure));
        record(f, &member, vec![sample(kind, queue, measure)]);
    }

    for span in Span::ALL {
        for (kind, queue) in [(None, None), (Some("a"), None), (None, Some("y")), (Some("b"), Some("x"))] {
            let names = (kind.map(str::to_owned), queue.map(str::to_owned));
            let query = SeriesQuery { span, kind: names.0, queue: names.1, by_kind: false };
            for point in block_on(f.store.series(query)).unwrap().points {
                let mut sum = Measure::default();
                let end = point.at + Duration::from_millis(span.step_ms() as u64);
                recorded
                    .iter()
                    .filter(|(at, k, q, _)| {
                        *at >= point.at
                            && *at < end
                            && kind.is_none_or(|kind| kind == *k)
                            && queue.is_none_or(|queue| queue == *q)
                    })
                    .for_each(|(.., measure)| sum.add(measure));
                assert_eq!(point.measure, sum, "{span:?} {kind:?} {queue:?} at {}", point.at);
            }
        }
    }
}
