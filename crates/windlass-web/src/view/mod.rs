//! How values look: numbers, lengths of time, texts cut short, buttons, charts.

pub(crate) mod chart;
pub(crate) mod filters;
pub(crate) mod text;
pub(crate) mod theme;

pub(crate) use theme::Theme;
use windlass::Timestamp;
use windlass::state::State;

/// A number with its thousands apart, by a narrow space that does not break.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A length of time, in two units at most.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// How far an instant is from the present, to either side.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", span(millis(at, now))) } else { format!("{} ago", span(millis(now, at))) }
}

/// From `from` to `to`, in milliseconds; 0 when that is backwards.
pub(crate) fn millis(to: Timestamp, from: Timestamp) -> u64 {
    u64::try_from(to.as_millis() - from.as_millis()).unwrap_or(0)
}

/// Bytes, in the unit that fits.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0 => "–".to_owned(),
        1..=1_048_575 => format!("{} KiB", count >> 10),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

/// A text as a part of a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A long text cut short, for a cell.
pub(crate) fn short(text: &str, len_max: usize) -> String {
    let mut cut: String = text.chars().take(len_max).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// What can be done to a job in this state: the verb of the route, and the word on the button.
pub(crate) fn actions(state: State) -> &'static [(&'static str, &'static str)] {
    match state {
        State::Scheduled => &[("requeue", "Run now"), ("cancel", "Cancel"), ("kill", "Kill"), ("delete", "Delete")],
        State::Ready => &[("cancel", "Cancel"), ("kill", "Kill"), ("delete", "Delete")],
        State::Running => &[("cancel", "Cancel")],
        State::Retry => &[("requeue", "Retry now"), ("cancel", "Cancel"), ("kill", "Kill"), ("delete", "Delete")],
        State::Done => &[("delete", "Delete")],
        State::Dead => &[("requeue", "Retry"), ("delete", "Delete")],
        State::Cancelled => &[("requeue", "Run again"), ("kill", "Kill"), ("delete", "Delete")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lengths_are_told_as_people_read_them() {
        assert_eq!(grouped(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((span(12), span(1_250), span(75_000)), ("12 ms".into(), "1.2 s".into(), "1 min 15 s".into()));
        assert_eq!(encoded("a/b é"), "a%2Fb%20%C3%A9");
        assert_eq!(short("über", 2), "üb…");
    }

    /// A button that would be refused is not offered.
    #[test]
    fn every_button_is_an_event_that_the_table_allows() {
        use windlass::state::Event;
        for state in State::ALL {
            for (verb, _) in actions(state) {
                let event = match *verb {
                    "requeue" => Event::Requeue,
                    "cancel" => Event::Cancel,
                    "kill" => Event::Kill,
                    _ => Event::Delete,
                };
                assert!(state.allows(event), "{verb} in state {state}");
            }
        }
    }
}
