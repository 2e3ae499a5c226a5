//! What ran when, for a trace viewer.
//!
//! While tracing is on, each thread notes the begin and the end of the tasks it runs in a buffer of its own, up to
//! [`SPANS_MAX`] of them; while it is off, nothing is done but the look at the flags that every task costs anyway.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Instant;

use crate::sync::{Mutex, lock};

/// Spans kept for each thread; the first ones.
pub(crate) const SPANS_MAX: usize = 1 << 16;

/// A task that runs, or ran.
#[derive(Debug)]
pub(crate) struct Span {
    name: Cow<'static, str>,
    began: Instant,
    ended: Instant,
}

/// The spans of one thread.
#[derive(Debug, Default)]
pub(crate) struct TraceBuffer(Mutex<Vec<Span>>);

impl TraceBuffer {
    pub(crate) fn begin(&self, name: Cow<'static, str>) -> Span {
        let now = Instant::now();
        Span { name, began: now, ended: now }
    }

    pub(crate) fn end(&self, span: Span) {
        let mut spans = lock(&self.0);
        if spans.len() < SPANS_MAX {
            spans.push(Span { ended: Instant::now(), ..span });
        }
    }

    pub(crate) fn take(&self) -> Vec<Span> {
        std::mem::take(&mut lock(&self.0))
    }
}

/// The spans of all threads in the trace event format of Chromium ("JSON array format"), times in microseconds.
pub(crate) fn to_chrome_json(threads: &[(String, Vec<Span>)]) -> String {
    let first = threads.iter().flat_map(|(_, spans)| spans.iter().map(|span| span.began)).min();
    let mut json = String::from("[");
    for (number, (name, spans)) in threads.iter().enumerate() {
        separate(&mut json);
        let _ = write!(json, r#"{{"ph":"M","pid":1,"tid":{number},"name":"thread_name","args":{{"name":"#);
        write_string(&mut json, name);
        json.push_str("}}");
        for span in spans {
            separate(&mut json);
            write_span(&mut json, number, span, first.unwrap_or(span.began));
        }
    }
    json.push_str("\n]\n");
    json
}

fn separate(json: &mut String) {
    json.push_str(if json.len() == 1 { "\n" } else { ",\n" });
}

// Writing into a string cannot fail: the results below say nothing.
fn write_span(json: &mut String, thread: usize, span: &Span, first: Instant) {
    let begin = span.began.duration_since(first).as_nanos();
    let length = span.ended.duration_since(span.began).as_nanos();
    let _ = write!(
        json,
        r#"{{"ph":"X","pid":1,"tid":{thread},"ts":{}.{:03},"dur":{}.{:03},"cat":"task","name":"#,
        begin / 1_000,
        begin % 1_000,
        length / 1_000,
        length % 1_000
    );
    write_string(json, &span.name);
    json.push('}');
}

fn write_string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\0'..='\u{1f}' => {
                let _ = write!(json, "\\u{:04x}", u32::from(character));
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}
