//! What the end of a program means for its job.
//!
//! | the program | the job |
//! |---|---|
//! | exit 0 | done, with the output as its result |
//! | exit 75 (`EX_TEMPFAIL`) | failed for now: runs again by its retry policy |
//! | exit 64, 65, 77, 78 (`EX_USAGE`, `EX_DATAERR`, `EX_NOPERM`, `EX_CONFIG`) | dead: running it again cannot help |
//! | any other exit code, a signal | failed: runs again by its retry policy |
//! | told to end at its deadline | failed, whatever its exit code |
//! | told to end by a cancel or a stop | cancelled, or given back |
//!
//! A program that was told to end is never done, whatever it says: many exit with 0 then, having done half.

use serde::Serialize;
use windlass::cancel::CancelCause;
use windlass::outcome::{IntoOutcome, Json};
use windlass::{HandlerError, Outcome};

use crate::exec::capture::Captured;
use crate::exec::request::{Ended, Report};

/// Exit codes of `sysexits.h` after which another attempt cannot help.
const HOPELESS: &[(i32, &str)] = &[(64, "EX_USAGE"), (65, "EX_DATAERR"), (77, "EX_NOPERM"), (78, "EX_CONFIG")];
/// The exit code for "not now".
const TEMPFAIL: i32 = 75;
/// Characters of output in an error.
const ERROR_OUTPUT_LEN: usize = 8_000;

/// The result of a finished program.
#[derive(Debug, Serialize)]
struct Finished<'a> {
    exit_code: i32,
    ran_ms: u64,
    stdout: &'a str,
    stdout_len: u64,
    stderr: &'a str,
    stderr_len: u64,
}

/// The outcome of a run that ended so; `cause` is why it was told to end, if it was.
pub(super) fn of(report: Report, cause: Option<CancelCause>) -> Outcome {
    match report {
        Report::Ended(ended) => {
            if ended.has_survivors {
                tracing::warn!("a process that an exec job started could not be killed: it may still run");
            }
            of_end(&ended, cause)
        }
        Report::NotStarted { error } => Outcome::Failed(HandlerError::with_class("ExecNotStarted", error)),
        Report::GuardLost | Report::Started { .. } => match cause {
            Some(cause) if cause != CancelCause::Timeout => Outcome::Cancelled,
            _ => {
                let message = "the program's guard was killed, and so the program: how far it came is not known";
                Outcome::Failed(HandlerError::with_class("ExecGuard", message))
            }
        },
    }
}

fn of_end(ended: &Ended, cause: Option<CancelCause>) -> Outcome {
    let failed = |class: &str, what: String| HandlerError::with_class(class, message(&what, ended));
    match (cause, ended.code) {
        (Some(CancelCause::Timeout), _) => {
            let what = format!("ended at its deadline, after {} ms ({})", ended.ran_ms, how(ended));
            Outcome::Failed(failed("Timeout", what))
        }
        (Some(_), _) => Outcome::Cancelled,
        (None, Some(0)) => finished(ended),
        (None, Some(TEMPFAIL)) => Outcome::Failed(failed("ExecTempFail", "exit code 75 (EX_TEMPFAIL)".to_owned())),
        (None, Some(code)) => match HOPELESS.iter().find(|(hopeless, _)| *hopeless == code) {
            Some((_, name)) => Outcome::Dead(failed("ExecExit", format!("exit code {code} ({name})"))),
            None => Outcome::Failed(failed("ExecExit", how(ended))),
        },
        (None, None) => Outcome::Failed(failed("ExecSignal", how(ended))),
    }
}

fn finished(ended: &Ended) -> Outcome {
    let (stdout, stderr) = (&ended.stdout, &ended.stderr);
    let finished = Finished {
        exit_code: 0,
        ran_ms: ended.ran_ms,
        stdout: &stdout.text,
        stdout_len: stdout.len,
        stderr: &stderr.text,
        stderr_len: stderr.len,
    };
    Json(finished).into_outcome()
}

/// The end in words.
fn how(ended: &Ended) -> String {
    match (ended.code, ended.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match signal_name(signal) {
            Some(name) => format!("killed by signal {signal} ({name})"),
            None => format!("killed by signal {signal}"),
        },
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// The names of signals that have the same number on every Unix.
fn signal_name(signal: i32) -> Option<&'static str> {
    let names = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
    ];
    names.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

/// What happened, and the end of what the program said about it: on its error output, or else on the other.
fn message(what: &str, ended: &Ended) -> String {
    let output = [&ended.stderr, &ended.stdout].into_iter().find(|output| !output.text.trim().is_empty());
    match output {
        Some(Captured { text, .. }) => format!("{what}\n{}", end_of(text.trim_end(), ERROR_OUTPUT_LEN)),
        None => format!("{what}, and no output"),
    }
}

/// The last `len` characters.
fn end_of(text: &str, len: usize) -> &str {
    match text.char_indices().rev().nth(len.saturating_sub(1)) {
        Some((start, _)) => &text[start..],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32) -> Report {
        let stderr = Captured { text: "no luck\n".to_owned(), len: 8 };
        Report::Ended(Ended { code: Some(code), stderr, ..Ended::default() })
    }

    fn error(outcome: Outcome) -> (bool, String, String) {
        match outcome {
            Outcome::Failed(error) => (false, error.class().to_owned(), error.message().to_owned()),
            Outcome::Dead(error) => (true, error.class().to_owned(), error.message().to_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exit_codes_mean_what_is_documented() {
        assert!(matches!(of(exit(0), None), Outcome::DoneWith(_)));
        for (code, is_dead, class) in [
            (1, false, "ExecExit"),
            (64, true, "ExecExit"),
            (65, true, "ExecExit"),
            (75, false, "ExecTempFail"),
            (77, true, "ExecExit"),
            (78, true, "ExecExit"),
            (127, false, "ExecExit"),
        ] {
            let (dead, found, message) = error(of(exit(code), None));
            assert_eq!((dead, found.as_str()), (is_dead, class), "{code}");
            assert!(message.starts_with(&format!("exit code {code}")) && message.ends_with("\nno luck"), "{message}");
        }
    }

    #[test]
    fn a_signal_is_named() {
        let killed = Report::Ended(Ended { signal: Some(9), ..Ended::default() });

        let (is_dead, class, message) = error(of(killed, None));

        assert!(!is_dead);
        assert_eq!((class.as_str(), message.as_str()), ("ExecSignal", "killed by signal 9 (SIGKILL), and no output"));
    }

    #[test]
    fn a_program_that_was_told_to_end_is_never_done() {
        assert_eq!(error(of(exit(0), Some(CancelCause::Timeout))).1, "Timeout");
        for cause in [CancelCause::Asked, CancelCause::Stop, CancelCause::LeaseLost] {
            assert!(matches!(of(exit(0), Some(cause)), Outcome::Cancelled));
        }
    }

    #[test]
    fn an_error_ends_with_the_end_of_the_output() {
        let text = format!("begin{}the end\n", "é".repeat(20_000));
        let stdout = Captured { len: text.len() as u64, text };
        let failed = Report::Ended(Ended { code: Some(1), stdout, ..Ended::default() });

        let (_, _, message) = error(of(failed, None));

        assert!(message.ends_with("éthe end") && !message.contains("begin"));
        assert!(message.chars().count() < windlass::job::ERROR_MESSAGE_LEN_MAX);
    }
}
