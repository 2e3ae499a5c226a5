//! What is kept of measurements: for each step of time one hash of counters, which goes by itself.
//!
//! A counter's field is kind, queue and name, apart by NUL bytes; adding to it is one command, so that every process adds
//! to the same hashes at once. How many jobs are ready is looked at by whoever comes first in a minute.

use std::collections::BTreeMap;

use redis::{cmd, pipe};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::failpoint;
use crate::store::measure::{BUCKETS, Histogram, METERS_MAX, Measure, OTHER, SeriesBuilder};
use crate::store::redis::engine::Engine;
use crate::store::redis::life::fenced;
use crate::store::redis::script::{Call, RECORD};
use crate::store::redis::values;
use crate::store::{MemberId, Sample, Series, SeriesQuery, Span};

/// Steps read at a time.
const STEPS_LEN_MAX: usize = 120;

impl Engine {
    pub(super) async fn record(&self, member: &MemberId, samples: Vec<Sample>) -> Result<(), StoreError> {
        failpoint::hit("redis.record")?;
        let now = self.now();
        let depths = self.depths_to_tell(now).await?;
        let mut call = Call::new(&RECORD);
        call.key(self.keys.members()).key(self.keys.meters());
        call.key(self.keys.meters_order()).key(self.keys.meters_sum());
        for span in Span::ALL {
            let step = step_name(span, span.step_of(now));
            call.key(self.keys.measures_of(&step)).key(self.keys.depths_of(&step));
        }
        call.arg(member.as_str()).number(now.as_millis()).number(Span::Month.oldest(now)).number(METERS_MAX);
        call.arg(meter_of(OTHER, OTHER)).number(Span::ALL.len());
        for span in Span::ALL {
            call.number((span.points() as i64 + 1) * span.step_ms() / 1_000);
        }
        call.number(depths.len());
        for (queue, ready) in depths {
            call.arg(queue).number(ready);
        }
        for Sample { kind, queue, measure } in &samples {
            let counters = counters_of(measure);
            call.arg(meter_of(kind, queue)).number(counters.len());
            for (name, count) in counters {
                call.arg(name).number(count);
            }
        }
        match values::number("record", &self.work.call("record", &call).await?)? {
            1 => {
                self.add_metrics(&samples).await;
                Ok(())
            }
            _ => Err(fenced("record", member)),
        }
    }

    /// The longest queues, and all together under the empty name; nothing when somebody has told them in this minute.
    async fn depths_to_tell(&self, now: Timestamp) -> Result<Vec<(String, u64)>, StoreError> {
        let step = step_name(Span::Hour, Span::Hour.step_of(now));
        let told = self.work.query("record", cmd("HEXISTS").arg(self.keys.depths_of(&step)).arg("")).await?;
        if values::number("record", &told)? == 1 {
            return Ok(Vec::new());
        }
        let names = self.queue_names("record").await?;
        let mut lengths = pipe();
        for name in &names {
            lengths.cmd("LLEN").arg(self.keys.queue(name)).cmd("LLEN").arg(self.keys.suspects(name));
        }
        let mut depths: Vec<(String, u64)> = Vec::with_capacity(names.len() + 1);
        if !names.is_empty() {
            let lengths = values::numbers("record", redis::Value::Array(self.work.pipe("record", &lengths).await?))?;
            let ready = lengths.chunks_exact(2).map(|pair| pair.iter().sum::<i64>() as u64);
            depths = names.into_iter().zip(ready).filter(|(_, ready)| *ready > 0).collect();
        }
        let total = depths.iter().map(|(_, ready)| ready).sum();
        depths.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        depths.truncate(METERS_MAX);
        depths.push((String::new(), total));
        Ok(depths)
    }

    pub(super) async fn meters(&self) -> Result<Vec<Sample>, StoreError> {
        let mut questions = pipe();
        questions.atomic().cmd("ZRANGE").arg(self.keys.meters_order()).arg(0).arg(-1);
        questions.cmd("HGETALL").arg(self.keys.meters_sum());
        let mut answers = self.work.pipe("meters", &questions).await?.into_iter();
        let order = values::texts("meters", answers.next().unwrap_or_default())?;
        let fields = values::texts("meters", answers.next().unwrap_or_default())?;
        let mut sums = measures_of(&SeriesQuery::default(), fields);
        let sample = |meter: String| {
            let (kind, queue) = meter.split_once('\0')?;
            let (kind, queue) = (kind.to_owned(), queue.to_owned());
            let measure = sums.remove(&(kind.clone(), queue.clone())).unwrap_or_default();
            Some(Sample { kind, queue, measure })
        };
        Ok(order.into_iter().filter_map(sample).collect())
    }

    pub(super) async fn series(&self, query: &SeriesQuery) -> Result<Series, StoreError> {
        let (now, span) = (self.now(), query.span);
        let mut series = SeriesBuilder::new(span, now);
        let mut kinds: BTreeMap<String, Measure> = BTreeMap::new();
        let steps: Vec<i64> = (0..span.points() as i64).map(|step| span.oldest(now) + step * span.step_ms()).collect();
        for steps in steps.chunks(STEPS_LEN_MAX) {
            let mut questions = pipe();
            for step in steps {
                let step = step_name(span, *step);
                questions.cmd("HGETALL").arg(self.keys.measures_of(&step));
                questions.cmd("HGETALL").arg(self.keys.depths_of(&step));
            }
            let answers = self.work.pipe("series", &questions).await?;
            for (at, answers) in steps.iter().zip(answers.chunks_exact(2)) {
                for ((kind, _), measure) in measures_of(query, values::texts("series", answers[0].clone())?) {
                    series.add(*at, &measure);
                    if query.by_kind {
                        kinds.entry(kind).or_default().add(&measure);
                    }
                }
                if query.kind.is_none() {
                    note_depth(&mut series, *at, query, &values::texts("series", answers[1].clone())?);
                }
            }
        }
        kinds.iter().for_each(|(kind, measure)| series.add_kind(kind, measure));
        Ok(series.finish())
    }
}

fn step_name(span: Span, step: i64) -> String {
    let letter = match span {
        Span::Hour => 'h',
        Span::Day => 'd',
        Span::Month => 'm',
    };
    format!("{letter}:{}", step / 1_000)
}

fn meter_of(kind: &str, queue: &str) -> String {
    format!("{kind}\0{queue}")
}

/// The counters of a measure that are not zero, by name.
fn counters_of(measure: &Measure) -> Vec<(String, u64)> {
    let buckets = |letter: char, histogram: &Histogram| {
        let named =
            histogram.counts().iter().enumerate().map(move |(bucket, count)| (format!("{letter}{bucket}"), *count));
        named.collect::<Vec<_>>()
    };
    let sums = [("p", measure.processed), ("f", measure.failed), ("ms", measure.run_ms), ("sm", measure.start_ms)];
    let mut counters: Vec<(String, u64)> = sums.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    counters.extend(buckets('r', &measure.run));
    counters.extend(buckets('s', &measure.start));
    counters.retain(|(_, count)| *count > 0);
    counters
}

/// The measures of one step, by kind and queue, that are asked for.
fn measures_of(query: &SeriesQuery, fields: Vec<String>) -> BTreeMap<(String, String), Measure> {
    let mut counted: BTreeMap<(String, String), Vec<(&str, u64)>> = BTreeMap::new();
    for pair in fields.chunks_exact(2) {
        let mut parts = pair[0].split('\0');
        let (Some(kind), Some(queue), Some(name)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let is_wanted = query.kind.as_ref().is_none_or(|wanted| wanted == kind)
            && query.queue.as_ref().is_none_or(|wanted| wanted == queue);
        if is_wanted {
            let count = pair[1].parse().unwrap_or_default();
            counted.entry((kind.to_owned(), queue.to_owned())).or_default().push((name, count));
        }
    }
    counted.into_iter().map(|(meter, counters)| (meter, measure_of(&counters))).collect()
}

fn measure_of(counters: &[(&str, u64)]) -> Measure {
    let of = |name: &str| counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
    let histogram = |letter: char| {
        Histogram::from_counts(std::array::from_fn::<u64, BUCKETS, _>(|bucket| of(&format!("{letter}{bucket}"))))
    };
    let (processed, failed, run_ms, start_ms) = (of("p"), of("f"), of("ms"), of("sm"));
    Measure { processed, failed, run_ms, start_ms, run: histogram('r'), start: histogram('s') }
}

/// A queue that is not named in a step that somebody looked at was empty.
fn note_depth(series: &mut SeriesBuilder, at: i64, query: &SeriesQuery, depths: &[String]) {
    let wanted = query.queue.as_deref().unwrap_or_default();
    let of = |name: &str| depths.chunks_exact(2).find(|pair| pair[0] == name).and_then(|pair| pair[1].parse().ok());
    if of("").is_some() {
        series.note_ready(at, of(wanted).unwrap_or(0));
    }
}
