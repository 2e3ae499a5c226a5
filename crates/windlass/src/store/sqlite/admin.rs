//! What clients do to jobs, as statements inside the writer's transaction: cancel, kill, requeue, delete, clear, prune,
//! pause, resume.

use rusqlite::{OptionalExtension, params, params_from_iter, types::Value};

use crate::job::JobId;
use crate::state::{Event, State};
use crate::store::sqlite::ledger::{Answer, Ledger};
use crate::store::sqlite::rows::state_from;
use crate::store::{Changed, ClearFilter, Keep};

/// A job that a client's verb found.
struct Found {
    seq: i64,
    queue: String,
    state: State,
}

impl Ledger<'_> {
    /// One answer for each id, in order.
    fn for_each(
        &mut self,
        ids: &[JobId],
        event: Event,
        mut change: impl FnMut(&mut Self, &Found) -> Answer<()>,
    ) -> Answer<Vec<Changed>> {
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            answers.push(match self.find(*id)? {
                None => Changed::NotFound,
                Some(found) if event == Event::Cancel && found.state == State::Running => {
                    self.sql("UPDATE job SET cancel_asked = 1 WHERE seq = ?1")?.execute([found.seq])?;
                    Changed::Asked
                }
                Some(found) if !found.state.allows(event) => Changed::Refused(found.state),
                Some(found) => {
                    change(self, &found)?;
                    Changed::From(found.state)
                }
            });
        }
        Ok(answers)
    }

    fn find(&self, id: JobId) -> Answer<Option<Found>> {
        let mut statement = self.sql("SELECT seq, queue, state FROM job WHERE id = ?1")?;
        let found = statement.query_row([id.as_bytes()], |row| {
            Ok(Found { seq: row.get(0)?, queue: row.get(1)?, state: state_from(row, 2)? })
        });
        Ok(found.optional()?)
    }

    pub(super) fn cancel(&mut self, ids: &[JobId]) -> Answer<Vec<Changed>> {
        self.for_each(ids, Event::Cancel, |ledger, found| {
            ledger.end(found.seq, &found.queue, found.state, State::Cancelled, "asked to cancel")
        })
    }

    pub(super) fn kill(&mut self, ids: &[JobId]) -> Answer<Vec<Changed>> {
        self.for_each(ids, Event::Kill, |ledger, found| {
            ledger.end(found.seq, &found.queue, found.state, State::Dead, "killed")
        })
    }

    pub(super) fn requeue(&mut self, ids: &[JobId]) -> Answer<Vec<Changed>> {
        self.for_each(ids, Event::Requeue, |ledger, found| {
            if found.state.is_final() {
                ledger
                    .sql(
                        "UPDATE job SET attempt = 0, recoveries = 0, window_at = NULL, failed_at = NULL, reason = NULL
                         WHERE seq = ?1",
                    )?
                    .execute([found.seq])?;
            }
            // Whoever asks for it now wants it run, also when it had expired.
            ledger
                .sql("UPDATE job SET state = 1, run_at = ?2, state_at = ?2, expires_at = NULL WHERE seq = ?1")?
                .execute(params![found.seq, ledger.now_ms()])?;
            ledger.tally.note(&found.queue, Some(found.state), Some(State::Ready));
            Ok(())
        })
    }

    pub(super) fn delete(&mut self, ids: &[JobId]) -> Answer<Vec<Changed>> {
        self.for_each(ids, Event::Delete, |ledger, found| {
            ledger.sql("DELETE FROM job WHERE seq = ?1")?.execute([found.seq])?;
            ledger.tally.note(&found.queue, Some(found.state), None);
            Ok(())
        })
    }

    pub(super) fn clear(&mut self, filter: &ClearFilter, max: usize) -> Answer<usize> {
        let mut conditions = vec!["state <> 2"];
        let mut values: Vec<Value> = Vec::new();
        if let Some(state) = filter.state {
            conditions.push("state = ?");
            values.push(Value::Integer(state.code().into()));
        }
        if let Some(queue) = &filter.queue {
            conditions.push("queue = ?");
            values.push(Value::Text(queue.clone()));
        }
        values.push(Value::Integer(max as i64));
        let found = format!("SELECT seq FROM job WHERE {} LIMIT ?", conditions.join(" AND "));
        self.remove_where(&found, values)
    }

    /// Removes the jobs whose `seq` a query finds, and counts them.
    fn remove_where(&mut self, found: &str, values: Vec<Value>) -> Answer<usize> {
        let text = format!("DELETE FROM job WHERE seq IN ({found}) RETURNING queue, state");
        let removed: Vec<(String, State)> = {
            let mut statement = self.sql(&text)?;
            let rows = statement.query_map(params_from_iter(values), |row| Ok((row.get(0)?, state_from(row, 1)?)))?;
            rows.collect::<rusqlite::Result<_>>()?
        };
        for (queue, state) in &removed {
            self.tally.note(queue, Some(*state), None);
        }
        Ok(removed.len())
    }

    pub(super) fn prune(&mut self, keep: Keep, max: usize) -> Answer<usize> {
        let ended_before = |kept: std::time::Duration| Value::Integer((self.now - kept).as_millis());
        let (now, dead, cancelled) =
            (Value::Integer(self.now_ms()), ended_before(keep.dead), ended_before(keep.cancelled));
        let steps = [
            ("SELECT seq FROM job INDEXED BY job_keep WHERE state = 4 AND keep_until <= ? LIMIT ?", now),
            ("SELECT seq FROM job INDEXED BY job_ended WHERE state >= 4 AND state = 5 AND state_at <= ? LIMIT ?", dead),
            (
                "SELECT seq FROM job INDEXED BY job_ended WHERE state >= 4 AND state = 6 AND state_at <= ? LIMIT ?",
                cancelled,
            ),
        ];
        let mut removed = 0;
        for (found, value) in steps {
            removed += self.remove_where(found, vec![value, Value::Integer((max - removed) as i64)])?;
        }
        let excess = self.dead_count()?.saturating_sub(keep.dead_count_max).min((max - removed) as u64);
        let oldest =
            "SELECT seq FROM job INDEXED BY job_ended WHERE state >= 4 AND state = 5 ORDER BY state_at, seq LIMIT ?";
        removed += self.remove_where(oldest, vec![Value::Integer(excess as i64)])?;
        Ok(removed)
    }

    /// How many jobs are dead, with what this transaction has changed.
    fn dead_count(&mut self) -> Answer<u64> {
        self.tally.flush(self.connection, self.now)?;
        let mut statement = self.sql("SELECT coalesce(sum(jobs), 0) FROM tally WHERE state = 5")?;
        let count: i64 = statement.query_row([], |row| row.get(0))?;
        Ok(count.max(0) as u64)
    }

    pub(super) fn pause(&mut self, queue: &str) -> Answer<bool> {
        Ok(self.sql("INSERT INTO paused (queue) VALUES (?1) ON CONFLICT DO NOTHING")?.execute([queue])? == 1)
    }

    pub(super) fn resume(&mut self, queue: &str) -> Answer<bool> {
        Ok(self.sql("DELETE FROM paused WHERE queue = ?1")?.execute([queue])? == 1)
    }
}
