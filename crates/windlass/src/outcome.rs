//! What a handler may answer.
//!
//! A handler returns anything that is [`IntoOutcome`]: nothing, an [`Outcome`], a result to keep ([`Json`]), or a
//! `Result` of those, whose error retries by the job's policy. Any standard error turns into a [`HandlerError`]
//! with its type, its message and its causes.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::job::Payload;

/// How one run of a handler ended, in the handler's own words.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Finished.
    Done,
    /// Finished, with a result to keep as long as the job is kept.
    DoneWith(Payload),
    /// Failed: run again by the job's retry policy, or dead when its attempts are used up.
    Failed(HandlerError),
    /// Failed: run again after this delay, if attempts are left.
    Retry {
        /// From now.
        after: Duration,
        /// What went wrong.
        error: HandlerError,
    },
    /// Failed, and not worth keeping: removed.
    Discard,
    /// Failed for good: kept among the dead.
    Dead(HandlerError),
    /// Not yet: run again at this time. Does not count as an attempt.
    Snooze {
        /// When.
        until: Timestamp,
    },
    /// Gave way to a request to cancel.
    Cancelled,
}

/// What went wrong in a handler: made from any standard error by `?`, or from a text by [`HandlerError::msg`].
///
/// Like `anyhow::Error` it does not implement `std::error::Error` itself, which is what allows the conversion.
pub struct HandlerError {
    class: String,
    message: String,
}

impl HandlerError {
    /// An error that is only a message.
    pub fn msg(message: impl fmt::Display) -> HandlerError {
        HandlerError::with_class("Error", message)
    }

    /// An error with a class of the caller's naming, by which errors are grouped.
    pub fn with_class(class: impl Into<String>, message: impl fmt::Display) -> HandlerError {
        HandlerError { class: class.into(), message: message.to_string() }
    }

    /// The type of the error, or the name it was given.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// The message, with the causes after it.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: StdError + 'static> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            cause = inner.source();
        }
        HandlerError { class: std::any::type_name::<E>().to_owned(), message }
    }
}

/// A result to keep with the job, written as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// What a handler may return.
pub trait IntoOutcome {
    /// Turns the returned value into an outcome.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: Serialize> IntoOutcome for Json<T> {
    /// A value that cannot be written as JSON fails the attempt: the handler promised a result.
    fn into_outcome(self) -> Outcome {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => Outcome::DoneWith(Payload::from_bytes(bytes)),
            Err(error) => Outcome::Failed(HandlerError::with_class("ResultNotJson", error)),
        }
    }
}

impl<T: IntoOutcome, E: Into<HandlerError>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot send to {to}")]
    struct SendFailed {
        to: &'static str,
        source: std::num::ParseIntError,
    }

    #[test]
    fn an_error_keeps_its_class_its_message_and_its_causes() {
        let source = "x".parse::<i32>().unwrap_err();

        let error = HandlerError::from(SendFailed { to: "ann", source });

        assert!(error.class().ends_with("SendFailed"));
        assert_eq!(error.message(), "cannot send to ann: invalid digit found in string");
    }

    #[test]
    fn a_kept_result_is_written_as_json() {
        let outcome = Ok::<_, HandlerError>(Json((1, "two"))).into_outcome();

        assert!(matches!(outcome, Outcome::DoneWith(payload) if payload.as_bytes() == br#"[1,"two"]"#));
    }
}
