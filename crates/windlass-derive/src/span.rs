//! Spans of time as text: `250ms`, `30s`, `1h30m`, `3d`.
//!
//! The grammar is that of `windlass::config::parse_duration`; both are tested with the same examples.

/// Reads a span, in milliseconds.
pub(crate) fn parse_span_ms(text: &str) -> Result<u64, String> {
    let unreadable =
        || format!("{text:?} is no span of time: expected a number with ms, s, m, h or d, such as 90s or 1h30m");
    let mut rest = text;
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return Err(unreadable());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(unreadable)?;
        let number: u64 = rest[..digits].parse().map_err(|_| unreadable())?;
        rest = &rest[digits..];
        let unit_len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit_ms: u64 = match &rest[..unit_len] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(unreadable()),
        };
        rest = &rest[unit_len..];
        total_ms = number.checked_mul(unit_ms).and_then(|ms| total_ms.checked_add(ms)).ok_or_else(unreadable)?;
    }
    Ok(total_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_units() {
        let spans = [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("3d", 259_200_000), ("0s", 0)];
        for (text, ms) in spans {
            assert_eq!(parse_span_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "5", "s", "5 s", "-5s", "1.5h", "5x", "5s3", "99999999999999999999d"] {
            assert!(parse_span_ms(text).is_err(), "{text}");
        }
    }
}
