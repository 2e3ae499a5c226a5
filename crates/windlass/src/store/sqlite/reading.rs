//! The thread that looks: records, pages, counts, on a connection of its own that cannot write.
//!
//! In WAL mode a reader never stops the writer, and sees the last commit before it began. Each question is answered
//! in one short read; a page reads at most [`SCAN_MAX`] rows and about [`SCAN_BYTES_MAX`] bytes, however few match. The same thread notices what
//! other processes write: while somebody waits for jobs, it asks SQLite whether the file has changed, often after a
//! change ([`GLANCE_MIN`]) and seldom when nothing has happened for a while ([`GLANCE_MAX`]).

use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::watch;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Payload};
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

/// Bytes of arguments and results after which a page reads no further row.
const SCAN_BYTES_MAX: usize = 16 << 20;

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
        let mut picker = Picker { query, page: JobPage::default(), rows_left: SCAN_MAX, bytes: 0, is_cut: false };
        match (query.state, &query.queue) {
            (Some(State::Ready), Some(queue)) => self.visit_ready(queue, &mut picker)?,
            (Some(State::Ready), None) => self.visit_ready_of_all(&mut picker)?,
            _ => self.visit(&mut picker)?,
        }
        Ok(picker.page())
    }

    /// Shows the picker rows in the order of the listing.
    fn visit(&self, picker: &mut Picker<'_>) -> rusqlite::Result<()> {
        let query = picker.query;
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
        self.show(&text, params![after.0, after.1, rows_max(query) as i64], picker)
    }

    fn visit_ready(&self, queue: &str, picker: &mut Picker<'_>) -> rusqlite::Result<()> {
        let text = format!(
            "SELECT {RECORD_COLUMNS}, run_at FROM job INDEXED BY job_ready
             WHERE state = 1 AND queue = ?4 AND run_at >= ?1 AND (run_at, seq) > (?1, ?2)
             ORDER BY run_at, seq LIMIT ?3"
        );
        let after = ready_after(picker.query);
        let rows_max = if picker.query.has_fine_filter() { SCAN_MAX + 1 } else { picker.query.limit + 1 };
        self.show(&text, params![after.0, after.1, rows_max as i64, queue], picker)
    }

    /// The ready jobs of all queues: their places are merged out of the index, then as many are read as are wanted.
    fn visit_ready_of_all(&self, picker: &mut Picker<'_>) -> rusqlite::Result<()> {
        // One snapshot for both steps: what was found is still there when it is read.
        let _snapshot = self.connection.unchecked_transaction()?;
        let text = format!("SELECT {RECORD_COLUMNS}, run_at FROM job WHERE seq = ?1");
        let mut statement = self.connection.prepare_cached(&text)?;
        for (at_ms, arrival) in self.first_ready(picker.query)? {
            let mut rows = statement.query([arrival])?;
            if let Some(row) = rows.next()?
                && !picker.offer(Cursor { at_ms, arrival }, row)?
            {
                break;
            }
        }
        Ok(())
    }

    /// The first places of ready jobs in all queues together. Each queue is read until it can add nothing more.
    fn first_ready(&self, query: &JobQuery) -> rusqlite::Result<Vec<(i64, i64)>> {
        let (after, rows_max) = (ready_after(query), rows_max(query));
        let mut statement = self.connection.prepare_cached(
            "SELECT run_at, seq FROM job INDEXED BY job_ready
             WHERE state = 1 AND queue = ?3 AND run_at >= ?1 AND (run_at, seq) > (?1, ?2) ORDER BY run_at, seq",
        )?;
        let mut first = BinaryHeap::with_capacity(rows_max + 1);
        for queue in self.ready_queues()? {
            let mut rows = statement.query(params![after.0, after.1, queue])?;
            while let Some(row) = rows.next()? {
                let place = (row.get(0)?, row.get(1)?);
                if first.len() == rows_max {
                    if first.peek().is_some_and(|last| *last < place) {
                        break;
                    }
                    first.pop();
                }
                first.push(place);
            }
        }
        Ok(first.into_sorted_vec())
    }

    fn ready_queues(&self) -> rusqlite::Result<Vec<String>> {
        let mut statement =
            self.connection.prepare_cached("SELECT queue FROM tally WHERE state = 1 AND jobs > 0 ORDER BY queue")?;
        statement.query_map([], |row| row.get(0))?.collect()
    }

    /// Shows the picker the rows of a query whose last column is the instant they are sorted by, until it has enough.
    fn show(&self, text: &str, parameters: impl rusqlite::Params, picker: &mut Picker<'_>) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(text)?;
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            let cursor = Cursor { at_ms: row.get(22)?, arrival: row.get(0)? };
            if !picker.offer(cursor, row)? {
                break;
            }
        }
        Ok(())
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

/// Fills one page out of the rows it is shown, and says when it has seen enough.
struct Picker<'a> {
    query: &'a JobQuery,
    page: JobPage,
    rows_left: usize,
    bytes: usize,
    /// Whether a row was shown that has no place here any more.
    is_cut: bool,
}

impl Picker<'_> {
    /// Takes the row in if it matches. Answers whether it wants to see more.
    fn offer(&mut self, cursor: Cursor, row: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
        if self.page.jobs.len() == self.query.limit || self.rows_left == 0 || self.bytes >= SCAN_BYTES_MAX {
            self.is_cut = true;
            return Ok(false);
        }
        let (_, record) = record_from(row)?;
        self.rows_left -= 1;
        self.bytes += record.payload.len() + record.result.as_ref().map_or(0, Payload::len);
        self.page.next = Some(cursor);
        if self.query.matches(&record) {
            self.page.jobs.push(record);
        }
        Ok(true)
    }

    fn page(mut self) -> JobPage {
        if !self.is_cut {
            self.page.next = None;
        }
        self.page
    }
}

impl JobQuery {
    /// Whether it asks for something that no index serves, also within one state and queue.
    fn has_fine_filter(&self) -> bool {
        self.kind.is_some() || self.search.is_some()
    }
}

/// The rows to ask for: one more than a page can take, and with a filter that no index serves, many for few.
fn rows_max(query: &JobQuery) -> usize {
    let is_filtered = query.has_fine_filter()
        || query.queue.is_some()
        || matches!(query.state, Some(State::Scheduled | State::Retry));
    if is_filtered { SCAN_MAX + 1 } else { query.limit + 1 }
}

/// Where a listing of ready jobs begins.
fn ready_after(query: &JobQuery) -> (i64, i64) {
    query.after.map_or((i64::MIN, i64::MIN), |cursor| (cursor.at_ms, cursor.arrival))
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
