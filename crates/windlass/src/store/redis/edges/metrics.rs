//! How often and how long jobs of each class ran, as Sidekiq's metrics page reads it.
//!
//! Sidekiq 7 keeps a hash for each minute and a histogram for each class and minute; Sidekiq 8 has other names for
//! them, and a hash for each ten minutes besides. Histograms are 26 counters of 16 bits that stop at their end instead of
//! beginning anew. Failed runs count among the runs and the failed ones, and nowhere else. The numbers of ours are those
//! of [`measure`](crate::store::measure), whose buckets are Sidekiq's.

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::store::measure::{Measure, Sample};
use crate::store::redis::envelope::Dialect;
use crate::store::redis::keys::Keys;
use crate::store::redis::script::{Call, MEASURE};

const HOUR_SECONDS: u32 = 60 * 60;
/// How long a minute is kept, and a histogram.
const MINUTE_KEPT: u32 = 8 * HOUR_SECONDS;
/// How long ten minutes are kept.
const TEN_MINUTES_KEPT: u32 = 3 * 24 * HOUR_SECONDS;
/// What a counter of a histogram can hold.
const COUNT_MAX: u64 = u16::MAX as u64;

/// The call that adds the samples to the metrics of the minute of `now`. `None` where there is nothing to add, or
/// nobody who would read it.
pub(crate) fn add(keys: &Keys, dialect: Dialect, samples: &[Sample], now: Timestamp) -> Option<Call> {
    let form = Form::of(dialect, now)?;
    let kinds = by_kind(samples);
    if kinds.is_empty() {
        return None;
    }
    let mut call = Call::new(&MEASURE);
    call.key(keys.key(&form.minute)).key(keys.key(form.ten_minutes.as_ref().unwrap_or(&form.minute)));
    call.number(MINUTE_KEPT).number(TEN_MINUTES_KEPT).number(MINUTE_KEPT);
    for (kind, measure) in &kinds {
        call.key(keys.key(&form.histogram(kind)));
        call.arg(kind).number(measure.processed).number(measure.failed).number(measure.run_ms);
        let buckets = measure.run.counts().iter().enumerate().filter(|(_, count)| **count > 0);
        call.number(buckets.clone().count());
        for (bucket, count) in buckets {
            call.number(bucket).number((*count).min(COUNT_MAX));
        }
    }
    Some(call)
}

/// Sidekiq tells classes apart, and no queues.
fn by_kind(samples: &[Sample]) -> BTreeMap<&str, Measure> {
    let mut kinds: BTreeMap<&str, Measure> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.measure.processed > 0) {
        kinds.entry(&sample.kind).or_default().add(&sample.measure);
    }
    kinds
}

/// The names of the keys of one minute.
struct Form {
    minute: String,
    ten_minutes: Option<String>,
    before_kind: &'static str,
    after_kind: String,
}

impl Form {
    /// `None` for a version that has no metrics.
    fn of(dialect: Dialect, now: Timestamp) -> Option<Form> {
        let text = now.to_string();
        // As in 2026-11-21T09:05: an instant beyond what four digits of a year can say has no metrics.
        let part =
            |range: std::ops::Range<usize>| text.get(range).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
        let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
        let (hour, minute) = (part(11..13)?, part(14..16)?);
        let plain = |digits: &str| digits.strip_prefix('0').unwrap_or(digits).to_owned();
        match dialect {
            Dialect::Six => None,
            Dialect::Seven => Some(Form {
                minute: format!("j|{year}{month}{day}|{}:{}", plain(hour), plain(minute)),
                ten_minutes: None,
                before_kind: "",
                after_kind: format!("-{day}-{hour}:{}", plain(minute)),
            }),
            Dialect::Eight => Some(Form {
                minute: format!("j|{}{month}{day}|{}:{minute}", &year[2..], plain(hour)),
                ten_minutes: Some(format!("j|{}{month}{day}|{}:{}", &year[2..], plain(hour), &minute[..1])),
                before_kind: "h|",
                after_kind: format!("-{}-{}:{}", plain(day), plain(hour), plain(minute)),
            }),
        }
    }

    fn histogram(&self, kind: &str) -> String {
        format!("{}{kind}{}", self.before_kind, self.after_kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-01T09:05:30Z.
    const NOW: Timestamp = Timestamp::from_millis(1_793_523_930_000);

    #[test]
    fn each_version_has_its_own_names_of_keys() {
        let seven = Form::of(Dialect::Seven, NOW).unwrap();
        let eight = Form::of(Dialect::Eight, NOW).unwrap();

        assert_eq!((&*seven.minute, seven.ten_minutes.as_deref()), ("j|20261101|9:5", None));
        assert_eq!(seven.histogram("Mail"), "Mail-01-09:5");
        assert_eq!((&*eight.minute, eight.ten_minutes.as_deref()), ("j|261101|9:05", Some("j|261101|9:0")));
        assert_eq!(eight.histogram("Mail"), "h|Mail-1-9:5");
        assert!(Form::of(Dialect::Six, NOW).is_none());
    }

    #[test]
    fn queues_of_one_kind_are_summed_up_and_idle_ones_left_out() {
        let sample = |kind: &str, queue: &str, processed| Sample {
            kind: kind.to_owned(),
            queue: queue.to_owned(),
            measure: Measure { processed, ..Measure::default() },
        };
        let samples = [sample("A", "x", 1), sample("A", "y", 2), sample("B", "x", 0)];

        let kinds = by_kind(&samples);

        assert_eq!(kinds.len(), 1);
        assert_eq!(kinds["A"].processed, 3);
    }
}
