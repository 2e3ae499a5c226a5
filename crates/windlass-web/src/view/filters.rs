//! How templates show values: `{{ job.run_at|ago(now) }}`. What they answer is text, and is escaped as any text.
#![allow(unreachable_pub, reason = "the attribute makes public items of these functions")]

use askama::{Result, Values, filter_fn};
use windlass::Timestamp;
use windlass::store::{Histogram, KindMeasure};

#[filter_fn]
pub(crate) fn number(count: &u64, _: &dyn Values) -> Result<String> {
    Ok(super::grouped(*count))
}

#[filter_fn]
pub(crate) fn length_of(ms: &u64, _: &dyn Values) -> Result<String> {
    Ok(super::span(*ms))
}

#[filter_fn]
pub(crate) fn bytes(count: &u64, _: &dyn Values) -> Result<String> {
    Ok(super::bytes(*count))
}

/// A text as a part of a path or of a query.
#[filter_fn]
pub(crate) fn path(text: &str, _: &dyn Values) -> Result<String> {
    Ok(super::encoded(text))
}

/// How far an instant is from the present.
#[filter_fn]
pub(crate) fn ago(at: &Timestamp, _: &dyn Values, now: &Timestamp) -> Result<String> {
    Ok(super::ago(*at, *now))
}

/// How long it is from one instant to a later one.
#[filter_fn]
pub(crate) fn until(from: &Timestamp, _: &dyn Values, to: &Timestamp) -> Result<String> {
    Ok(super::span(super::millis(*to, *from)))
}

/// The day of an instant, without its time.
#[filter_fn]
pub(crate) fn day(at: &Timestamp, _: &dyn Values) -> Result<String> {
    Ok(at.to_string().chars().take(10).collect())
}

/// The mean of the runs that succeeded.
#[filter_fn]
pub(crate) fn mean(kind: &KindMeasure, _: &dyn Values) -> Result<String> {
    Ok(kind.measure.run_ms.checked_div(kind.measure.run.total()).map_or("–".to_owned(), super::span))
}

/// How long it took at most in this share of the cases.
#[filter_fn]
pub(crate) fn quantile(histogram: &Histogram, _: &dyn Values, share: f64) -> Result<String> {
    Ok(histogram.quantile_ms(share).map_or("–".to_owned(), super::span))
}
