//! What the program prints: tables for people, JSON for programs, logs on standard error.
//!
//! Job data is untrusted text. Whatever of it reaches a terminal goes through [`printable`], so that an escape
//! sequence in an argument is shown and not obeyed.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tracing_subscriber::EnvFilter;
use windlass::Timestamp;

/// How the log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line: `timestamp`, `level`, `message`, `target`, the event's fields, and `span` with those of
    /// the run it belongs to.
    Json,
}

/// Whether standard error is for programs. Set once, before anything is printed.
static LOGS_JSON: AtomicBool = AtomicBool::new(false);

/// Starts logging to standard error: warnings by default, more with `-v`, or as `RUST_LOG` says.
pub(crate) fn start_logging(verbose: u8, format: LogFormat) {
    let default = match verbose {
        0 => "warn",
        1 => "windlass=info,warn",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        // Without colours: the library would need another feature for them, and complains on terminals.
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => {
            LOGS_JSON.store(true, Ordering::Relaxed);
            log.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
        }
    }
}

/// Prints one JSON document, indented for a person who looks.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    line(&text)
}

/// Prints a line on standard output. Unlike `println!` it answers an error when nobody reads.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

/// Prints a line on standard error, as an object of the log where that is JSON.
pub(crate) fn error(text: &str) {
    let line = if LOGS_JSON.load(Ordering::Relaxed) {
        log_line(text, Timestamp::from(SystemTime::now()))
    } else {
        text.to_owned()
    };
    // Where even standard error is gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

fn log_line(text: &str, now: Timestamp) -> String {
    serde_json::json!({ "timestamp": now.to_string(), "level": "INFO", "message": text, "target": "windlass" })
        .to_string()
}

/// Prints a table, or `nothing` when it has no rows. The table is as wide as the terminal at most.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>, nothing: &str) -> anyhow::Result<()> {
    if rows.is_empty() {
        return line(nothing);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.iter().map(|title| title.to_uppercase()));
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    line(&table.trim_fmt())
}

/// The text with every control character, and every character that cannot be seen or changes the direction of writing,
/// shown by its code.
pub(crate) fn printable(text: &str) -> String {
    let is_hostile = |c: char| c.is_control() || is_invisible(c);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Marks of direction, separators of lines, joiners of words, tags. The joiner of emoji is not among them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// At most `len` characters of the text, with an ellipsis for the rest.
pub(crate) fn shortened(text: &str, len: usize) -> String {
    match text.char_indices().nth(len) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A count with thin groups of three digits: `1 234 567`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A size in bytes, in binary units: `4.0 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64;
    let mut unit = 0;
    while size >= 1_024.0 && unit + 1 < UNITS.len() {
        size /= 1_024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{size:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_sequence_in_job_data_is_shown_and_not_obeyed() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\\n");
        assert_eq!(printable("\u{200b}\u{2028}\u{feff}\u{e0041}"), "\\u{200b}\\u{2028}\\u{feff}\\u{e0041}");
        assert_eq!(printable("žluťoučký 🐎 👩‍🚀"), "žluťoučký 🐎 👩‍🚀");
    }

    #[test]
    fn counts_and_sizes_are_easy_to_read() {
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(7), "7");
        assert_eq!(bytes(4 << 20), "4.0 MiB");
        assert_eq!(bytes(1_023), "1023 B");
    }

    #[test]
    fn a_text_is_shortened_at_a_character() {
        assert_eq!(shortened("ěščř", 2), "ěš…");
        assert_eq!(shortened("ěš", 2), "ěš");
    }
}
