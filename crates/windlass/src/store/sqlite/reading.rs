//! The thread that looks: records, pages, counts, on a connection of its own that cannot write.
//!
//! In WAL mode a reader never stops the writer, and sees the last commit before it began. Each question is answered
//! in one short read; a page reads at most [`SCAN_MAX`] rows, however few of them match. The same thread notices what
//! other processes write: while somebody waits for jobs, it asks SQLite whether the file has changed, often after a
//! change ([`GLANCE_MIN`]) and seldom when nothing has happened for a while ([`GLANCE_MAX`]).

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord};
use crate::state::State;
use crate::store::sqlite::failure::Failure;
use crate::store::sqlite::rows::{RECORD_COLUMNS, id_from, record_from, state_from};
use crate::store::sqlite::tally::{DAY_MS, day_of};
use crate::store::{
    Counts, Cursor, DayTotals, Finding, JobPage, JobQuery, MemberInfo, ProcessInfo, QueueInfo, RunningJob, Severity,
    Totals, Vitals,
};

/// The pause between two looks for what others write, right after something was found.
const GLANCE_MIN: Duration = Duration::from_millis(10);

/// The longest such pause: how late a job of another process may be noticed by an idle one.
const GLANCE_MAX: Duration = Duration::from_millis(100);

/// Rows that one page reads at the most.
const SCAN_MAX: usize = 5_000;

/// Running jobs shown for each process.
const JOBS_SHOWN: i64 = 100;

/// A question, with its answer's way back inside.
pub(super) type Question = Box<dyn FnOnce(&Reader) + Send>;

pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
}

impl Reader {
    /// Answers questions until nobody can ask any more.
    pub(super) fn run(self, questions: &Receiver<Question>, bell: &watch::Sender<u64>) {
        let (mut seen, mut glance) = (self.data_version(), GLANCE_MIN);
        loop {
            let next = if bell.receiver_count() > 0 {
                questions.recv_timeout(glance)
            } else {
                questions.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match next {
                Ok(question) => question(&self),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let version = self.data_version();
                    glance = (glance * 2).min(GLANCE_MAX);
                    if version != seen {
                        (seen, glance) = (version, GLANCE_MIN);
                        bell.send_modify(|rings| *rings += 1);
                    }
                }
            }
        }
    }

    /// Changes when another connection has committed.
    fn data_version(&self) -> i64 {
        // The bell is a hint: a look that fails is made again at the next glance.
        let look = || self.connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0));
        look().unwrap_or_default()
    }

    pub(super) fn failed(&self, tried: &'static str, error: rusqlite::Error) -> StoreError {
        Failure::new(tried, &self.path).verb(error)
    }

    pub(super) fn get(&self, id: JobId) -> rusqlite::Result<Option<JobRecord>> {
        let text = format!("SELECT {RECORD_COLUMNS} FROM job WHERE id = ?1");
        let mut statement = self.connection.prepare_cached(&text)?;
        Ok(statement.query_row([id.as_bytes()], record_from).optional()?.map(|(_, record)| record))
    }

    pub(super) fn list(&self, query: &JobQuery) -> rusqlite::Result<JobPage> {
        let scanned = match (query.state, &query.queue) {
            (Some(State::Ready), Some(queue)) => self.scan_ready(queue, query)?,
            (Some(State::Ready), None) => self.scan_ready_of_all(query)?,
            _ => self.scan(query)?,
        };
        let is_full_scan = scanned.len() > SCAN_MAX;
        let matches = |record: &JobRecord| {
            query.state.is_none_or(|state| state == record.state)
                && query.queue.as_ref().is_none_or(|queue| *queue == record.queue)
                && query.kind.as_ref().is_none_or(|kind| *kind == record.kind)
        };
        let mut page = JobPage::default();
        for (index, (cursor, record)) in scanned.into_iter().enumerate() {
            if index == SCAN_MAX || page.jobs.len() == query.limit {
                return Ok(page);
            }
            if matches(&record) {
                page.jobs.push(record);
            }
            page.next = Some(cursor);
        }
        debug_assert!(!is_full_scan);
        page.next = None;
        Ok(page)
    }

    /// Rows in the order of the listing, one more than a page may read.
    fn scan(&self, query: &JobQuery) -> rusqlite::Result<Vec<(Cursor, JobRecord)>> {
        let newest_first = query.state.is_none_or(State::is_final);
        let (source, at) = match query.state {
            None => ("job", "0"),
            Some(State::Scheduled | State::Retry) => ("job INDEXED BY job_due WHERE state IN (0, 3)", "run_at"),
            Some(State::Running) => ("job INDEXED BY job_ledger WHERE state = 2", "run_at"),
            Some(State::Ready) => ("job INDEXED BY job_ready WHERE state = 1", "run_at"),
            Some(State::Done) => ("job INDEXED BY job_ended WHERE state >= 4 AND state = 4", "state_at"),
            Some(State::Dead) => ("job INDEXED BY job_ended WHERE state >= 4 AND state = 5", "state_at"),
            Some(State::Cancelled) => ("job INDEXED BY job_ended WHERE state >= 4 AND state = 6", "state_at"),
        };
        let joint = if source.contains("WHERE") { "AND" } else { "WHERE" };
        let (compare, direction, start) =
            if newest_first { ("<", "DESC", (i64::MAX, i64::MAX)) } else { (">", "ASC", (i64::MIN, i64::MIN)) };
        let after = query.after.map_or(start, |cursor| (cursor.at_ms, cursor.arrival));
        // Without an instant to sort by, the comparison is of the arrival alone, which the primary key serves.
        let (place, order) = if at == "0" {
            (format!("seq {compare} ?2 AND ?1 IS NOT NULL"), format!("seq {direction}"))
        } else {
            let place = format!("{at} {compare}= ?1 AND ({at}, seq) {compare} (?1, ?2)");
            (place, format!("{at} {direction}, seq {direction}"))
        };
        let text = format!("SELECT {RECORD_COLUMNS}, {at} FROM {source} {joint} {place} ORDER BY {order} LIMIT ?3");
        self.rows(&text, params![after.0, after.1, self.scan_len(query)])
    }

    /// With a filter that no index serves, many rows may be read for few.
    fn scan_len(&self, query: &JobQuery) -> i64 {
        let is_filtered = query.kind.is_some()
            || query.queue.is_some()
            || matches!(query.state, Some(State::Scheduled | State::Retry));
        let len = if is_filtered { SCAN_MAX + 1 } else { query.limit + 1 };
        len as i64
    }

    fn scan_ready(&self, queue: &str, query: &JobQuery) -> rusqlite::Result<Vec<(Cursor, JobRecord)>> {
        let after = query.after.map_or((i64::MIN, i64::MIN), |cursor| (cursor.at_ms, cursor.arrival));
        let len = if query.kind.is_some() { SCAN_MAX + 1 } else { query.limit + 1 };
        let text = format!(
            "SELECT {RECORD_COLUMNS}, run_at FROM job INDEXED BY job_ready
             WHERE state = 1 AND queue = ?4 AND run_at >= ?1 AND (run_at, seq) > (?1, ?2)
             ORDER BY run_at, seq LIMIT ?3"
        );
        self.rows(&text, params![after.0, after.1, len as i64, queue])
    }

    /// The ready jobs of all queues: the first of each, merged.
    fn scan_ready_of_all(&self, query: &JobQuery) -> rusqlite::Result<Vec<(Cursor, JobRecord)>> {
        let mut statement =
            self.connection.prepare_cached("SELECT queue FROM tally WHERE state = 1 AND jobs > 0 ORDER BY queue")?;
        let queues: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut merged = Vec::new();
        for queue in queues {
            merged.extend(self.scan_ready(&queue, query)?);
        }
        merged.sort_unstable_by_key(|(cursor, _)| (cursor.at_ms, cursor.arrival));
        merged.truncate(SCAN_MAX + 1);
        Ok(merged)
    }

    fn rows(&self, text: &str, parameters: impl rusqlite::Params) -> rusqlite::Result<Vec<(Cursor, JobRecord)>> {
        let mut statement = self.connection.prepare_cached(text)?;
        let rows = statement.query_map(parameters, |row| {
            let (arrival, record) = record_from(row)?;
            Ok((Cursor { at_ms: row.get(22)?, arrival }, record))
        })?;
        rows.collect()
    }

    pub(super) fn counts(&self) -> rusqlite::Result<Counts> {
        let mut counts = Counts::default();
        let mut statement = self.connection.prepare_cached("SELECT state, sum(jobs) FROM tally GROUP BY state")?;
        let rows = statement.query_map([], |row| Ok((state_from(row, 0)?, row.get::<_, i64>(1)?)))?;
        for row in rows {
            let (state, jobs) = row?;
            *counts.of_mut(state) = jobs.max(0) as u64;
        }
        counts.totals = self.history_since(i64::MIN)?.iter().fold(Totals::default(), |sum, day| sum.plus(&day.totals));
        Ok(counts)
    }

    pub(super) fn queues(&self, now: Timestamp) -> rusqlite::Result<Vec<QueueInfo>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT name,
                    coalesce((SELECT jobs FROM tally WHERE queue = name AND state = 1), 0),
                    coalesce((SELECT jobs FROM tally WHERE queue = name AND state = 2), 0),
                    coalesce((SELECT sum(jobs) FROM tally WHERE queue = name AND state IN (0, 3)), 0),
                    (SELECT run_at FROM job INDEXED BY job_ready WHERE state = 1 AND queue = name ORDER BY run_at LIMIT 1),
                    EXISTS (SELECT 1 FROM paused WHERE queue = name)
             FROM (SELECT queue AS name FROM tally GROUP BY queue HAVING sum(abs(jobs)) > 0
                   UNION SELECT queue FROM paused)
             ORDER BY name",
        )?;
        let rows = statement.query_map([], |row| {
            let oldest: Option<i64> = row.get(4)?;
            let latency = oldest.map_or(Duration::ZERO, |at| now.since(Timestamp::from_millis(at)));
            let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0) as u64);
            Ok(QueueInfo {
                name: row.get(0)?,
                ready: count(1)?,
                running: count(2)?,
                waiting: count(3)?,
                latency_ms: latency.as_millis() as u64,
                paused: row.get(5)?,
            })
        })?;
        rows.collect()
    }

    pub(super) fn processes(&self) -> rusqlite::Result<Vec<ProcessInfo>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT key, info, joined_at, beat_at, lease_until, vitals,
                    (SELECT count(*) FROM job INDEXED BY job_ledger WHERE state = 2 AND job.member = member.key)
             FROM member WHERE is_lost = 0 ORDER BY joined_at, id",
        )?;
        let rows = statement.query_map([], |row| {
            let info: MemberInfo = json_from(row, 1)?;
            let process = ProcessInfo {
                info,
                joined_at: Timestamp::from_millis(row.get(2)?),
                beat_at: Timestamp::from_millis(row.get(3)?),
                lease_until: Timestamp::from_millis(row.get(4)?),
                vitals: json_from::<Vitals>(row, 5)?,
                running: row.get::<_, i64>(6)?.max(0) as u64,
                jobs: Vec::new(),
            };
            Ok((row.get::<_, i64>(0)?, process))
        })?;
        let mut processes = Vec::new();
        for row in rows {
            let (key, process) = row?;
            processes.push(ProcessInfo { jobs: self.running_jobs(key)?, ..process });
        }
        Ok(processes)
    }

    fn running_jobs(&self, member: i64) -> rusqlite::Result<Vec<RunningJob>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, kind, queue, state_at, attempt FROM job INDEXED BY job_ledger
             WHERE state = 2 AND member = ?1 ORDER BY state_at, id LIMIT ?2",
        )?;
        let rows = statement.query_map(params![member, JOBS_SHOWN], |row| {
            Ok(RunningJob {
                id: id_from(row, 0)?,
                kind: row.get(1)?,
                queue: row.get(2)?,
                leased_at: Timestamp::from_millis(row.get(3)?),
                attempt: row.get(4)?,
            })
        })?;
        rows.collect()
    }

    pub(super) fn history(&self, days: u32, now: Timestamp) -> rusqlite::Result<Vec<DayTotals>> {
        self.history_since(day_of(now) - i64::from(days - 1) * DAY_MS)
    }

    fn history_since(&self, first_day: i64) -> rusqlite::Result<Vec<DayTotals>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT day, enqueued, done, failed, dead, recovered, cancelled, expired, fenced
             FROM day WHERE day >= ?1 ORDER BY day DESC",
        )?;
        let rows = statement.query_map([first_day], |row| {
            let count = |column: usize| row.get::<_, i64>(column).map(|count| count.max(0) as u64);
            let totals = Totals {
                enqueued: count(1)?,
                done: count(2)?,
                failed: count(3)?,
                dead: count(4)?,
                recovered: count(5)?,
                cancelled: count(6)?,
                expired: count(7)?,
                fenced: count(8)?,
            };
            Ok(DayTotals { day: Timestamp::from_millis(row.get(0)?), totals })
        })?;
        rows.collect()
    }

    pub(super) fn check(&self, durability: &str) -> rusqlite::Result<Vec<Finding>> {
        let good = |subject, detail: String| Finding { severity: Severity::Good, subject, detail };
        let integrity: String = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        let integrity = if integrity == "ok" {
            good("file", "sound (quick_check)".to_owned())
        } else {
            let detail = format!("damaged: {integrity}; stop every process and restore a copy");
            Finding { severity: Severity::Problem, subject: "file", detail }
        };
        let version: i64 = self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let log_bytes = std::fs::metadata(log_path(&self.path)).map_or(0, |file| file.len());
        let log = if log_bytes > 64 << 20 {
            let detail = format!("the log has {} MiB: a reader may be holding an old snapshot", log_bytes >> 20);
            Finding { severity: Severity::Warning, subject: "log", detail }
        } else {
            good("log", format!("{} KiB", log_bytes >> 10))
        };
        Ok(vec![
            good("library", format!("SQLite {}", rusqlite::version())),
            good("schema", format!("version {version}")),
            good("durability", durability.to_owned()),
            integrity,
            log,
            self.check_tally()?,
        ])
    }

    /// Counts every job and compares with the tally.
    fn check_tally(&self) -> rusqlite::Result<Finding> {
        let wrong: i64 = self.connection.query_row(
            "SELECT count(*) FROM (
                SELECT queue, state, sum(jobs) AS jobs FROM (
                    SELECT queue, state, jobs FROM tally
                    UNION ALL SELECT queue, state, -count(*) FROM job GROUP BY queue, state)
                GROUP BY queue, state HAVING sum(jobs) <> 0)",
            [],
            |row| row.get(0),
        )?;
        Ok(if wrong == 0 {
            Finding { severity: Severity::Good, subject: "counts", detail: "equal to a recount".to_owned() }
        } else {
            let detail = format!("{wrong} of the kept counts differ from a recount: rows were changed by hand");
            Finding { severity: Severity::Warning, subject: "counts", detail }
        })
    }
}

fn json_from<T: serde::de::DeserializeOwned>(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// SQLite's log lies beside the file.
fn log_path(path: &std::path::Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
