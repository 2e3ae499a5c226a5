//! Where a job comes from: the W3C trace context that travels with it.
//!
//! A trace goes on through a job when the one who enqueues writes its context into the job and the one who runs it
//! reads it there: [`Trace`] is the two headers of the W3C recommendation *Trace Context*, checked. A client writes
//! what its options name ([`JobOptions::trace`](crate::JobOptions::trace)), or else what its [`TraceContext`] answers,
//! which is where a tracing library is plugged in. A handler reads it as
//! [`Context::trace`](crate::Context::trace); the span of its run shows it as `traceparent`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest `tracestate` that is kept, in bytes: what the recommendation asks everybody to carry.
pub const TRACESTATE_LEN_MAX: usize = 512;

/// The context of a trace: the headers `traceparent` and `tracestate`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Headers", into = "Headers")]
pub struct Trace {
    traceparent: String,
    tracestate: String,
}

/// A text that is no trace context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no traceparent: expected 00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hexadecimal digits, the ids not 0"
)]
pub struct InvalidTrace(pub String);

impl Trace {
    /// Reads the two headers. A `tracestate` that is too long or holds anything but printable ASCII is left out, as
    /// the recommendation says.
    ///
    /// # Errors
    /// [`InvalidTrace`] when `traceparent` is none of version 00.
    pub fn new(traceparent: &str, tracestate: &str) -> Result<Trace, InvalidTrace> {
        if !is_traceparent(traceparent) {
            return Err(InvalidTrace(traceparent.chars().take(64).collect()));
        }
        let is_fit = tracestate.len() <= TRACESTATE_LEN_MAX && tracestate.bytes().all(|b| (0x20..0x7f).contains(&b));
        let tracestate = if is_fit { tracestate } else { "" };
        Ok(Trace { traceparent: traceparent.to_owned(), tracestate: tracestate.to_owned() })
    }

    /// The header `traceparent`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// The header `tracestate`; empty when there is none.
    pub fn tracestate(&self) -> &str {
        &self.tracestate
    }

    /// The id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[3..35]
    }

    /// The id of the span that enqueued the job: 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        &self.traceparent[36..52]
    }

    /// Whether somebody upstream records this trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.traceparent[53..], 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str, len: usize| {
        part.len() == len && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, len: usize| is_hex(part, len) && part.bytes().any(|byte| byte != b'0');
    matches!(parts[..], ["00", trace, span, flags] if is_id(trace, 32) && is_id(span, 16) && is_hex(flags, 2))
}

/// How a trace is written.
#[derive(Serialize, Deserialize)]
struct Headers {
    traceparent: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    tracestate: String,
}

impl TryFrom<Headers> for Trace {
    type Error = InvalidTrace;

    fn try_from(headers: Headers) -> Result<Trace, InvalidTrace> {
        Trace::new(&headers.traceparent, &headers.tracestate)
    }
}

impl From<Trace> for Headers {
    fn from(Trace { traceparent, tracestate }: Trace) -> Headers {
        Headers { traceparent, tracestate }
    }
}

/// Knows the trace that the calling code is part of: the place to plug a tracing library in.
pub trait TraceContext: Send + Sync + 'static {
    /// The context at this moment on this thread, if there is one. Called once for every call that enqueues.
    fn current(&self) -> Option<Trace>;
}

impl fmt::Debug for dyn TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceContext")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_parts_of_a_traceparent_are_read() {
        let trace = Trace::new(PARENT, "a=1,b=2").unwrap();

        assert_eq!(trace.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((trace.span_id(), trace.is_sampled()), ("b7ad6b7169203331", true));
        assert_eq!((trace.traceparent(), trace.tracestate()), (PARENT, "a=1,b=2"));
        assert!(!Trace::new(&PARENT.replace("-01", "-00"), "").unwrap().is_sampled());
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        for text in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT.replace("00-", "01-"),
            &PARENT[..54],
            &format!("{PARENT}-00"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-žaf7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert!(Trace::new(text, "").is_err(), "{text}");
        }
    }

    #[test]
    fn a_tracestate_that_is_unfit_is_left_out_and_the_parent_stays() {
        for state in ["x".repeat(TRACESTATE_LEN_MAX + 1), "a=\n".to_owned(), "a=ž".to_owned()] {
            let trace = Trace::new(PARENT, &state).unwrap();
            assert_eq!((trace.traceparent(), trace.tracestate()), (PARENT, ""));
        }
    }

    #[test]
    fn a_trace_is_read_back_from_json_and_a_wrong_one_is_not() {
        let trace = Trace::new(PARENT, "a=1").unwrap();

        let json = serde_json::to_string(&trace).unwrap();

        assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace);
        assert!(serde_json::from_str::<Trace>("{\"traceparent\":\"x\"}").is_err());
    }
}
