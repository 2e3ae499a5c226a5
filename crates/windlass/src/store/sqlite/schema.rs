//! The tables, the ways to them from older versions, and how a connection is set up.
//!
//! A job is one row of `job` from its insertion to its end. The row keeps its size while it lives: what changes at a
//! lease or a finish are small integers that are there from the start, so an update stays on its page. Live states
//! have partial indexes, so that finished jobs that are kept cost nothing to those that run.
//!
//! | index | serves | order |
//! |---|---|---|
//! | `job_ready` | lease | queue, when due, arrival |
//! | `job_due` | promote | when due, arrival |
//! | `job_ledger` | leave, reap, beat | member |
//! | `job_ended` | listings, prune | state, when ended |
//! | `job_keep` | prune | until when kept |
//!
//! `state_at` is when the present state began: for a running job its lease, for an ended one its end. `member` is 0 or
//! the key of a row in `member`. `tally` holds the exact number of jobs by queue and state, and `day` what happened,
//! both written in the same transaction as what they count.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::clock::Stopwatch;
use crate::error::StoreError;
use crate::failpoint;
use crate::store::sqlite::Sync;
use crate::store::sqlite::failure::Failure;

/// "wndl": tells our files from those of other programs.
pub(super) const APPLICATION_ID: i32 = 0x776e_646c;

/// The version that [`MIGRATIONS`] leads to.
pub(super) const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// The oldest library without the race between two checkpoints that could damage a file: 3.51.3.
const LIBRARY_VERSION_MIN: i32 = 3_051_003;

/// How long a statement waits for another process's transaction.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Each step leads from the version of its index to the next one. Steps are never changed once released.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE job (
        seq          INTEGER PRIMARY KEY,
        id           BLOB    NOT NULL,
        kind         TEXT    NOT NULL,
        queue        TEXT    NOT NULL,
        state        INTEGER NOT NULL,
        attempt      INTEGER NOT NULL DEFAULT 0,
        run          INTEGER NOT NULL DEFAULT 0,
        member       INTEGER NOT NULL DEFAULT 0,
        run_at       INTEGER NOT NULL,
        state_at     INTEGER NOT NULL,
        enqueued_at  INTEGER NOT NULL,
        at_most_once INTEGER NOT NULL DEFAULT 0,
        cancel_asked INTEGER NOT NULL DEFAULT 0,
        payload      BLOB    NOT NULL,
        settings     TEXT,
        expires_at   INTEGER,
        recoveries   INTEGER NOT NULL DEFAULT 0,
        window_at    INTEGER,
        failed_at    INTEGER,
        keep_until   INTEGER,
        reason       TEXT,
        error        TEXT,
        result       BLOB
    ) STRICT;
    CREATE UNIQUE INDEX job_id ON job (id);
    CREATE INDEX job_ready ON job (queue, run_at) WHERE state = 1;
    CREATE INDEX job_due ON job (run_at) WHERE state IN (0, 3);
    CREATE INDEX job_ledger ON job (member) WHERE state = 2;
    CREATE INDEX job_ended ON job (state, state_at) WHERE state >= 4;
    CREATE INDEX job_keep ON job (keep_until) WHERE state = 4;

    CREATE TABLE member (
        key         INTEGER PRIMARY KEY AUTOINCREMENT,
        id          TEXT    NOT NULL UNIQUE,
        info        TEXT    NOT NULL,
        lease_ms    INTEGER NOT NULL,
        lease_until INTEGER NOT NULL,
        joined_at   INTEGER NOT NULL,
        beat_at     INTEGER NOT NULL,
        vitals      TEXT    NOT NULL,
        is_lost     INTEGER NOT NULL DEFAULT 0
    ) STRICT;

    CREATE TABLE paused (queue TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

    CREATE TABLE tally (
        queue TEXT    NOT NULL,
        state INTEGER NOT NULL,
        jobs  INTEGER NOT NULL,
        PRIMARY KEY (queue, state)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE day (
        day       INTEGER PRIMARY KEY,
        enqueued  INTEGER NOT NULL DEFAULT 0,
        done      INTEGER NOT NULL DEFAULT 0,
        failed    INTEGER NOT NULL DEFAULT 0,
        dead      INTEGER NOT NULL DEFAULT 0,
        recovered INTEGER NOT NULL DEFAULT 0,
        cancelled INTEGER NOT NULL DEFAULT 0,
        expired   INTEGER NOT NULL DEFAULT 0,
        fenced    INTEGER NOT NULL DEFAULT 0
    ) STRICT;

    -- For people with a shell: what the numbers mean.
    CREATE VIEW jobs AS SELECT
        lower(hex(id)) AS id, kind, queue,
        CASE state WHEN 0 THEN 'scheduled' WHEN 1 THEN 'ready' WHEN 2 THEN 'running' WHEN 3 THEN 'retry'
                   WHEN 4 THEN 'done' WHEN 5 THEN 'dead' WHEN 6 THEN 'cancelled' END AS state,
        attempt, recoveries,
        strftime('%Y-%m-%dT%H:%M:%fZ', run_at / 1000.0, 'unixepoch') AS run_at,
        strftime('%Y-%m-%dT%H:%M:%fZ', state_at / 1000.0, 'unixepoch') AS state_at,
        CAST(payload AS TEXT) AS payload, reason, error, CAST(result AS TEXT) AS result, settings
        FROM job ORDER BY seq;
",
    "
    -- Bits, by the place in ProcessOrder::ALL: what the process is told at its next beat.
    ALTER TABLE member ADD COLUMN orders INTEGER NOT NULL DEFAULT 0;
",
    "
    -- Measurements: see measuring.rs.
    CREATE TABLE meter (
        key     INTEGER PRIMARY KEY,
        kind    TEXT    NOT NULL,
        queue   TEXT    NOT NULL,
        seen_at INTEGER NOT NULL,
        UNIQUE (kind, queue)
    ) STRICT;
    INSERT INTO meter (key, kind, queue, seen_at) VALUES (0, '', '', 0);

    CREATE TABLE sample (
        meter     INTEGER NOT NULL,
        step      INTEGER NOT NULL,
        at        INTEGER NOT NULL,
        processed INTEGER NOT NULL,
        failed    INTEGER NOT NULL,
        run_ms    INTEGER NOT NULL,
        run       BLOB    NOT NULL,
        start     BLOB    NOT NULL,
        PRIMARY KEY (meter, step, at)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE depth (
        step  INTEGER NOT NULL,
        at    INTEGER NOT NULL,
        queue TEXT    NOT NULL,
        ready INTEGER NOT NULL,
        PRIMARY KEY (step, at, queue)
    ) STRICT, WITHOUT ROWID;
",
    "
    ALTER TABLE sample ADD COLUMN start_ms INTEGER NOT NULL DEFAULT 0;
",
];

/// Opens the connection that writes, and brings the schema up to date.
pub(super) fn open_for_writing(path: &Path, sync: Sync) -> Result<Connection, StoreError> {
    let failure = Failure::new("open", path);
    failpoint::hit("sqlite.open")?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|e| failure.opening(e))?;
    refuse_old_library(path)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|e| failure.opening(e))?;
    migrate(&mut connection, path)?;
    let synchronous = match sync {
        Sync::Full => "FULL",
        Sync::Normal => "NORMAL",
    };
    switch_to_wal(&connection).map_err(|e| failure.opening(e))?;
    let pragmas = format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA wal_autocheckpoint = 4000;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA trusted_schema = OFF;"
    );
    connection.execute_batch(&pragmas).map_err(|e| failure.opening(e))?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Opens a connection that only looks.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let failure = Failure::new("open", path);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|e| failure.opening(e))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(|e| failure.opening(e))?;
    let pragmas =
        "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096; PRAGMA trusted_schema = OFF;";
    connection.execute_batch(pragmas).map_err(|e| failure.opening(e))?;
    Ok(connection)
}

fn refuse_old_library(path: &Path) -> Result<(), StoreError> {
    let version = rusqlite::version_number();
    if version >= LIBRARY_VERSION_MIN {
        return Ok(());
    }
    Err(StoreError::Refused {
        tried: "open",
        store: format!("sqlite:{}", path.display()),
        found: format!("this program was built with SQLite {}, which can damage files", rusqlite::version()),
        hint: "build it with SQLite 3.51.3 or later".to_owned(),
    })
}

/// Brings the schema to [`SCHEMA_VERSION`] in one transaction, or leaves it as it was.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failure = Failure::new("migrate", path);
    let version = user_version(connection).map_err(|e| failure.opening(e))?;
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|e| failure.opening(e))?;
    // Another process may have done it while this one waited for the lock.
    let version = user_version(&transaction).map_err(|e| failure.opening(e))?;
    for step in MIGRATIONS.iter().skip(version.max(0) as usize) {
        failpoint::hit("sqlite.migrate.step")?;
        transaction.execute_batch(step).map_err(|e| failure.opening(e))?;
    }
    let stamp = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION};");
    transaction.execute_batch(&stamp).map_err(|e| failure.opening(e))?;
    transaction.commit().map_err(|e| failure.opening(e))
}

fn user_version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The switch needs the file for itself for a moment, and does not wait for it by itself.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let since = Stopwatch::start();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(_) => return Ok(()),
            Err(error) if Failure::is_busy(&error) && since.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::blocking::block_on;
    use crate::clock::{ManualClock, Timestamp};
    use crate::job::JobId;
    use crate::store::sqlite::{SqliteOptions, SqliteStore};
    use crate::store::{MemberId, ProcessOrder, ProcessTarget, SeriesQuery, Store, Vitals};

    /// A file as a program of that version left it: with one ready job, and one member.
    fn file_of_version(version: usize, path: &Path) {
        let connection = Connection::open(path).unwrap();
        MIGRATIONS[..version].iter().for_each(|step| connection.execute_batch(step).unwrap());
        let rows = "
            INSERT INTO job (id, kind, queue, state, run_at, state_at, enqueued_at, payload)
            VALUES (x'0102030405060708090a0b0c', 'kind', 'default', 1, 5, 5, 5, x'5b315d');
            INSERT INTO tally (queue, state, jobs) VALUES ('default', 1, 1);
            INSERT INTO member (id, info, lease_ms, lease_until, joined_at, beat_at, vitals) VALUES ('old:1:1',
                '{\"id\":\"old:1:1\",\"host\":\"old\",\"pid\":1,\"queues\":[],\"concurrency\":1,\"version\":\"0\"}',
                15000, 15000, 0, 0, '{\"rss_bytes\":0,\"busy\":0,\"quiet\":false,\"fenced\":0,\"stuck\":0}');";
        connection.execute_batch(rows).unwrap();
        let stamp = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};");
        connection.execute_batch(&stamp).unwrap();
    }

    #[test]
    fn a_file_of_any_earlier_version_is_brought_up_to_date_with_what_is_in_it() {
        for version in 1..MIGRATIONS.len() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("jobs.db");
            file_of_version(version, &path);

            let clock = Arc::new(ManualClock::new(Timestamp::from_millis(10)));
            let store = SqliteStore::open(&path, SqliteOptions { clock, ..SqliteOptions::default() }).unwrap();

            let id: JobId = "0102030405060708090a0b0c".parse().unwrap();
            assert_eq!(block_on(store.get(id)).unwrap().unwrap().kind, "kind");
            assert_eq!(block_on(store.counts()).unwrap().ready, 1);
            let member = MemberId::from("old:1:1".to_owned());
            assert_eq!(block_on(store.order(ProcessTarget::All, ProcessOrder::Quiet)).unwrap(), 1);
            let orders = block_on(store.beat(&member, Vitals::default())).unwrap();
            assert_eq!(orders.process, [ProcessOrder::Quiet], "version {version}");
            block_on(store.record(&member, Vec::new())).unwrap();
            let series = block_on(store.series(SeriesQuery::default())).unwrap();
            assert_eq!(series.points.last().unwrap().ready, Some(1));
            assert_eq!(user_version(&open_for_reading(&path).unwrap()).unwrap(), SCHEMA_VERSION);
        }
    }
}
