//! Exit codes: what the program tells the program that called it.

use std::fmt;
use std::process::ExitCode;

use windlass::{Error, StoreError};
use windlass_web::serve::ServeError;

/// The documented codes, shown below `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage or configuration
  3  there is no such job, or no such process
  4  the job's state does not allow it
  5  the store cannot be reached or must not be used";

/// An error that has a code of its own.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints the error and answers its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // A reader that went away (`windlass jobs ls | head`) is no failure of ours, and nobody reads a message about it.
    let is_broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    crate::output::error(&format!("windlass: {error:#}"));
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if cause.is::<Usage>()
            || cause.is::<windlass::config::ConfigError>()
            || cause.is::<windlass::error::InvalidJob>()
        {
            return 2;
        }
        if matches!(cause.downcast_ref(), Some(ServeError::Unprotected { .. })) {
            return 2;
        }
        if cause.is::<StoreError>() {
            return 5;
        }
        match cause.downcast_ref::<Error>() {
            Some(Error::NotFound { .. } | Error::NoSuchProcess { .. }) => return 3,
            Some(Error::WrongState { .. }) => return 4,
            Some(Error::InvalidJob(_) | Error::Config(_)) => return 2,
            Some(Error::Store(_) | Error::Partly { .. }) => return 5,
            _ => {}
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_code_has_an_error() {
        let not_found = Error::NotFound { id: "x".to_owned() };
        let closed = StoreError::Closed { tried: "get" };
        let unprotected = ServeError::Unprotected { address: ([0, 0, 0, 0], 7420).into() };

        assert_eq!(code(&anyhow::anyhow!("something")), 1);
        assert_eq!(code(&anyhow::Error::new(Usage("no".to_owned()))), 2);
        assert_eq!(code(&anyhow::Error::new(unprotected)), 2);
        assert_eq!(code(&anyhow::Error::new(not_found).context("while showing a job")), 3);
        assert_eq!(code(&anyhow::Error::new(Error::Store(closed.clone()))), 5);
        assert_eq!(code(&anyhow::Error::new(closed)), 5);
    }
}
