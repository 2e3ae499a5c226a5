//! Between rows and the engine's types.
//!
//! Rows can be changed by people with a shell. What a column should not hold is read as the nearest sensible thing
//! where that is harmless (settings, errors), and is an error where it is not (ids, states).

use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type, ValueRef};
use serde::Serialize;

use crate::clock::Timestamp;
use crate::job::{ErrorInfo, JobId, JobRecord, Payload, Settings};
use crate::state::State;

/// The columns that [`record_from`] reads, in its order.
pub(super) const RECORD_COLUMNS: &str = "seq, id, kind, queue, state, payload, attempt, run, recoveries, enqueued_at, \
     run_at, expires_at, failed_at, state_at, keep_until, at_most_once, cancel_asked, reason, error, result, settings, \
     (SELECT member.id FROM member WHERE member.key = job.member) AS member_id";

/// A whole record, with its order of arrival.
pub(super) fn record_from(row: &Row<'_>) -> rusqlite::Result<(i64, JobRecord)> {
    let instant = |column: usize| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis));
    let state = state_from(row, 4)?;
    let state_at = instant(13)?;
    let record = JobRecord {
        id: id_from(row, 1)?,
        kind: row.get(2)?,
        queue: row.get(3)?,
        state,
        payload: payload_from(row, 5)?,
        attempt: row.get(6)?,
        run: row.get::<_, i64>(7)? as u64,
        recoveries: row.get(8)?,
        enqueued_at: Timestamp::from_millis(row.get(9)?),
        run_at: Timestamp::from_millis(row.get(10)?),
        expires_at: instant(11)?,
        failed_at: instant(12)?,
        leased_at: state_at.filter(|_| state == State::Running),
        member: row.get(21)?,
        finished_at: state_at.filter(|_| state.is_final()),
        keep_until: instant(14)?,
        at_most_once: row.get(15)?,
        cancel_asked: row.get(16)?,
        reason: row.get(17)?,
        error: error_from(row, 18)?,
        result: match row.get_ref(19)? {
            ValueRef::Null => None,
            _ => Some(payload_from(row, 19)?),
        },
        settings: settings_from(row, 20)?,
    };
    Ok((row.get(0)?, record))
}

pub(super) fn id_from(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    let bytes: [u8; 12] = row.get(column)?;
    Ok(JobId::from_bytes(bytes))
}

pub(super) fn state_from(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    let code: i64 = row.get(column)?;
    let state = u8::try_from(code).ok().and_then(State::from_code);
    state.ok_or(rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, FromSqlError::OutOfRange(code).into()))
}

/// Bytes as they are, also where somebody stored a text.
pub(super) fn payload_from(row: &Row<'_>, column: usize) -> rusqlite::Result<Payload> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Payload::from_bytes(bytes)),
        _ => Ok(Payload::default()),
    }
}

pub(super) fn settings_from(row: &Row<'_>, column: usize) -> rusqlite::Result<Settings> {
    match row.get_ref(column)? {
        // A text that is no settings any more falls back to the defaults: the job still runs.
        ValueRef::Text(text) => Ok(serde_json::from_slice(text).unwrap_or_default()),
        _ => Ok(Settings::default()),
    }
}

pub(super) fn settings_text(settings: &Settings) -> Option<String> {
    if settings.is_default() { None } else { Some(json_text(settings)) }
}

pub(super) fn error_text(error: Option<&ErrorInfo>) -> Option<String> {
    error.map(json_text)
}

fn error_from(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ErrorInfo>> {
    match row.get_ref(column)? {
        // An unreadable error is no reason to hide the job.
        ValueRef::Text(text) => Ok(serde_json::from_slice(text).ok()),
        _ => Ok(None),
    }
}

/// Our own types, of text, numbers and lists: writing them as JSON cannot fail.
pub(super) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("types without maps of odd keys are written as JSON")
}
