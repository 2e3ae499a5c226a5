//! From SQLite's error codes to what a caller can act on.

use std::path::{Path, PathBuf};

use rusqlite::ffi::{self, ErrorCode};

use crate::error::StoreError;

/// What was being tried, on which file.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    tried: &'static str,
    path: PathBuf,
}

impl Failure {
    pub(super) fn new(tried: &'static str, path: &Path) -> Failure {
        Failure { tried, path: path.to_owned() }
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    /// Whether another process's lock was in the way.
    pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// An error while the file is opened: what cannot be read as ours is refused.
    pub(super) fn opening(&self, error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => self.verb(error),
            _ => StoreError::Refused {
                tried: self.tried,
                store: self.store(),
                found: error.to_string(),
                hint: "check the file with `sqlite3 FILE 'PRAGMA integrity_check'` on a copy, and who may write to its folder"
                    .to_owned(),
            },
        }
    }

    /// An error in the middle of a verb.
    pub(super) fn verb(&self, error: rusqlite::Error) -> StoreError {
        let (tried, store, detail) = (self.tried, self.store(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { tried, store, detail },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Unavailable { tried, store, detail: format!("another process holds the file ({detail})") }
            }
            Some(ErrorCode::SystemIoFailure) if is_out_of_room(&error) => StoreError::Full { tried, store, detail },
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly,
            ) => StoreError::Broken { tried, store, detail },
            _ => {
                StoreError::Refused { tried, store, found: detail, hint: "see what `windlass doctor` finds".to_owned() }
            }
        }
    }
}

/// SQLite tells of a full disk as a failed write of its shared memory or its log, too.
fn is_out_of_room(error: &rusqlite::Error) -> bool {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return false;
    };
    matches!(
        code.extended_code,
        ffi::SQLITE_IOERR_SHMSIZE | ffi::SQLITE_IOERR_SHMMAP | ffi::SQLITE_IOERR_SHMOPEN | ffi::SQLITE_IOERR_WRITE
    )
}
