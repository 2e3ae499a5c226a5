//! Durations and instants, as a person writes and reads them.

use std::time::Duration;

use windlass::Timestamp;

/// How long ago, or how far ahead, in the largest fitting unit: `3 s ago`, `in 5 min`.
pub(crate) fn relative(instant: Timestamp, now: Timestamp) -> String {
    if instant > now { format!("in {}", span(instant.since(now))) } else { format!("{} ago", span(now.since(instant))) }
}

/// A span in one unit, rounded down: `250 ms`, `3 s`, `5 min`, `2 h`, `12 d`.
pub(crate) fn span(span: Duration) -> String {
    let ms = span.as_millis();
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{} s", ms / 1_000),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        3_600_000..86_400_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} d", ms / 86_400_000),
    }
}

/// Reads an instant: RFC 3339, such as `2026-11-21T12:00:00Z`.
pub(crate) fn parse_instant(text: &str) -> Result<Timestamp, String> {
    let instant: jiff::Timestamp =
        text.parse().map_err(|error| format!("{error}; expected an instant such as 2026-11-21T12:00:00Z"))?;
    Ok(Timestamp::from_millis(instant.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_told_in_its_largest_unit() {
        let now = Timestamp::from_millis(10_000_000);

        assert_eq!(relative(now - Duration::from_secs(3), now), "3 s ago");
        assert_eq!(relative(now + Duration::from_secs(7_300), now), "in 2 h");
    }

    #[test]
    fn an_instant_without_a_zone_is_refused_with_an_example() {
        assert!(parse_instant("2026-11-21 12:00").unwrap_err().contains("2026-11-21T12:00:00Z"));
    }
}
