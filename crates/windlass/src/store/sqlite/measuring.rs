//! What the file keeps of measurements: written as part of the writer's transaction, read by the reader.
//!
//! `meter` names the pairs of kind and queue; 0 is all of them together. `sample` has a row for each meter and step in
//! which something ran, `depth` one for each queue and step, that of all queues together under the empty name. A step
//! is named by its length and its beginning, both in milliseconds; the one that never ends is 0 long and began at 0. Histograms are written as the counts of their
//! buckets, seven bits a byte, up to the last that is not 0.

use rusqlite::{CachedStatement, OptionalExtension, Row, params};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::store::MemberId;
use crate::store::measure::{
    BUCKETS, Histogram, METERS_MAX, Measure, OTHER, Sample, Series, SeriesBuilder, SeriesQuery, Span,
};
use crate::store::sqlite::ledger::{Answer, Ledger};
use crate::store::sqlite::reading::Reader;

/// The meter of everything.
const EVERYTHING: i64 = 0;

/// The step that never ends, for what a meter has come to in all.
const EVER: (i64, i64) = (0, 0);

/// How old the note of when a meter was seen may be: it is not worth a write each time.
const SEEN_PACE_MS: i64 = 3_600_000;

impl Ledger<'_> {
    pub(super) fn record(&mut self, member: &MemberId, samples: &[Sample]) -> Answer<()> {
        let is_member = self.sql("SELECT 1 FROM member WHERE id = ?1 AND is_lost = 0")?.exists([member.as_str()])?;
        if !is_member {
            return Err(StoreError::Fenced { tried: "record", member: member.to_string() }.into());
        }
        self.begin_minute()?;
        let mut everything = Measure::default();
        for Sample { kind, queue, measure } in samples {
            let meter = self.meter(kind, queue)?;
            self.add(meter, measure)?;
            everything.add(measure);
        }
        if !samples.is_empty() {
            self.add(EVERYTHING, &everything)?;
        }
        Ok(())
    }

    /// Counts ready jobs and forgets what is too old, unless somebody has in this minute.
    fn begin_minute(&self) -> Answer<()> {
        let minute = Span::Hour.step_of(self.now);
        let mut known = self.sql("SELECT 1 FROM depth WHERE step = ?1 AND at = ?2 AND queue = ''")?;
        if known.exists(params![Span::Hour.step_ms(), minute])? {
            return Ok(());
        }
        for span in Span::ALL {
            self.sample_depths(span)?;
            let oldest = params![span.step_ms(), span.oldest(self.now)];
            self.sql("DELETE FROM depth WHERE step = ?1 AND at < ?2")?.execute(oldest)?;
            self.sql("DELETE FROM sample WHERE meter IN (SELECT key FROM meter) AND step = ?1 AND at < ?2")?
                .execute(oldest)?;
        }
        let unseen = "key <> 0 AND seen_at < ?1";
        let month_ago = [Span::Month.oldest(self.now) - SEEN_PACE_MS];
        self.sql(&format!("DELETE FROM sample WHERE meter IN (SELECT key FROM meter WHERE {unseen})"))?
            .execute(month_ago)?;
        self.sql(&format!("DELETE FROM meter WHERE {unseen}"))?.execute(month_ago)?;
        Ok(())
    }

    fn sample_depths(&self, span: Span) -> Answer<()> {
        let mut statement = self.sql(
            "INSERT INTO depth (step, at, queue, ready)
             SELECT ?1, ?2, queue, jobs FROM (
                SELECT queue, jobs FROM tally WHERE state = 1 AND jobs > 0 ORDER BY jobs DESC, queue LIMIT ?3)
             UNION ALL SELECT ?1, ?2, '', coalesce(sum(jobs), 0) FROM tally WHERE state = 1
             ON CONFLICT (step, at, queue) DO UPDATE SET ready = max(ready, excluded.ready)",
        )?;
        statement.execute(params![span.step_ms(), span.step_of(self.now), METERS_MAX as i64])?;
        Ok(())
    }

    /// The meter to count under: its own while there is room, else the one of all others.
    fn meter(&self, kind: &str, queue: &str) -> Answer<i64> {
        let find = |kind: &str, queue: &str| -> Answer<Option<(i64, i64)>> {
            let mut statement = self.sql("SELECT key, seen_at FROM meter WHERE kind = ?1 AND queue = ?2")?;
            Ok(statement.query_row([kind, queue], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
        };
        if let Some((key, seen_at)) = find(kind, queue)? {
            if self.now_ms() - seen_at > SEEN_PACE_MS {
                self.sql("UPDATE meter SET seen_at = ?2 WHERE key = ?1")?.execute(params![key, self.now_ms()])?;
            }
            return Ok(key);
        }
        let count: i64 = self.sql("SELECT count(*) FROM meter WHERE key <> 0")?.query_row([], |row| row.get(0))?;
        if count >= METERS_MAX as i64 && (kind, queue) != (OTHER, OTHER) {
            return self.meter(OTHER, OTHER);
        }
        let mut statement = self.sql("INSERT INTO meter (kind, queue, seen_at) VALUES (?1, ?2, ?3) RETURNING key")?;
        Ok(statement.query_row(params![kind, queue, self.now_ms()], |row| row.get(0))?)
    }

    /// Adds a measure to the present step of each span, and to what never ends.
    fn add(&self, meter: i64, measure: &Measure) -> Answer<()> {
        let mut known = self.sql(
            "SELECT processed, failed, run_ms, start_ms, run, start FROM sample WHERE meter = ?1 AND step = ?2 AND at = ?3",
        )?;
        let mut write = self.sql(
            "INSERT OR REPLACE INTO sample (meter, step, at, processed, failed, run_ms, start_ms, run, start)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        let steps = Span::ALL.map(|span| (span.step_ms(), span.step_of(self.now)));
        for (len, at) in steps.into_iter().chain([EVER]) {
            let step = (meter, len, at);
            let mut sum = known.query_row(step, |row| measure_from(row, 0)).optional()?.unwrap_or_default();
            sum.add(measure);
            let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            write.execute(params![
                step.0,
                step.1,
                step.2,
                count(sum.processed),
                count(sum.failed),
                count(sum.run_ms),
                count(sum.start_ms),
                bytes_of(&sum.run),
                bytes_of(&sum.start)
            ])?;
        }
        Ok(())
    }
}

impl Reader {
    /// What each meter has come to in all.
    pub(super) fn sums(&self) -> rusqlite::Result<Vec<Sample>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT processed, failed, run_ms, start_ms, run, start, kind, queue
             FROM meter JOIN sample ON meter = key AND step = ?1 AND at = ?2 WHERE key <> 0 ORDER BY key",
        )?;
        let sample =
            |row: &Row<'_>| Ok(Sample { measure: measure_from(row, 0)?, kind: row.get(6)?, queue: row.get(7)? });
        statement.query_map(EVER, sample)?.collect()
    }

    pub(super) fn series(&self, query: &SeriesQuery, now: Timestamp) -> rusqlite::Result<Series> {
        let mut series = SeriesBuilder::new(query.span, now);
        let is_of_everything = query.kind.is_none() && query.queue.is_none();
        if is_of_everything {
            self.add_steps(query, EVERYTHING, now, |at, measure| series.add(at, measure))?;
        }
        if !is_of_everything || query.by_kind {
            for (meter, kind) in self.meters(query)? {
                self.add_steps(query, meter, now, |at, measure| {
                    if !is_of_everything {
                        series.add(at, measure);
                    }
                    if query.by_kind {
                        series.add_kind(&kind, measure);
                    }
                })?;
            }
        }
        if query.kind.is_none() {
            self.add_depths(query, now, &mut series)?;
        }
        Ok(series.finish())
    }

    /// The meters that are asked for, those of one kind one after the other.
    fn meters(&self, query: &SeriesQuery) -> rusqlite::Result<Vec<(i64, String)>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT key, kind FROM meter
             WHERE key <> 0 AND (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR queue = ?2) ORDER BY kind, queue",
        )?;
        statement.query_map(params![query.kind, query.queue], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    fn add_steps(
        &self,
        query: &SeriesQuery,
        meter: i64,
        now: Timestamp,
        mut add: impl FnMut(i64, &Measure),
    ) -> rusqlite::Result<()> {
        let mut statement: CachedStatement<'_> = self.connection.prepare_cached(
            "SELECT processed, failed, run_ms, start_ms, run, start, at FROM sample WHERE meter = ?1 AND step = ?2 AND at >= ?3
             ORDER BY at",
        )?;
        let mut rows = statement.query(params![meter, query.span.step_ms(), query.span.oldest(now)])?;
        while let Some(row) = rows.next()? {
            add(row.get(6)?, &measure_from(row, 0)?);
        }
        Ok(())
    }

    fn add_depths(&self, query: &SeriesQuery, now: Timestamp, series: &mut SeriesBuilder) -> rusqlite::Result<()> {
        let queue = query.queue.as_deref().unwrap_or_default();
        // A queue that is not named in a minute somebody looked at was empty.
        let mut statement = self.connection.prepare_cached(
            "SELECT at, CASE queue WHEN ?3 THEN ready ELSE 0 END FROM depth
             WHERE step = ?1 AND at >= ?2 AND queue IN ('', ?3)",
        )?;
        let mut rows = statement.query(params![query.span.step_ms(), query.span.oldest(now), queue])?;
        while let Some(row) = rows.next()? {
            series.note_ready(row.get(0)?, row.get::<_, i64>(1)?.max(0) as u64);
        }
        Ok(())
    }
}

/// Six columns, from `first` on.
fn measure_from(row: &Row<'_>, first: usize) -> rusqlite::Result<Measure> {
    let count = |column: usize| row.get::<_, i64>(first + column).map(|count| count.max(0) as u64);
    let histogram =
        |column: usize| row.get_ref(first + column).map(|bytes| histogram_of(bytes.as_blob().unwrap_or(&[])));
    Ok(Measure {
        processed: count(0)?,
        failed: count(1)?,
        run_ms: count(2)?,
        start_ms: count(3)?,
        run: histogram(4)?,
        start: histogram(5)?,
    })
}

fn bytes_of(histogram: &Histogram) -> Vec<u8> {
    let counts = histogram.counts();
    let len = BUCKETS - counts.iter().rev().take_while(|count| **count == 0).count();
    let mut bytes = Vec::with_capacity(len + 8);
    for mut count in counts[..len].iter().copied() {
        while count > 0x7f {
            bytes.push(count as u8 | 0x80);
            count >>= 7;
        }
        bytes.push(count as u8);
    }
    bytes
}

/// Reads what [`bytes_of`] wrote. Of bytes that somebody changed by hand it makes the best.
fn histogram_of(bytes: &[u8]) -> Histogram {
    let mut counts = [0_u64; BUCKETS];
    let (mut bucket, mut shift) = (0, 0);
    for byte in bytes {
        let Some(count) = counts.get_mut(bucket) else { break };
        *count |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        (bucket, shift) = if byte & 0x80 == 0 { (bucket + 1, 0) } else { (bucket, shift + 7) };
    }
    Histogram::from_counts(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_read_back_and_small_ones_are_small() {
        let mut counts = [0; BUCKETS];
        assert_eq!(bytes_of(&Histogram::from_counts(counts)).len(), 0);
        counts[0] = 100;
        assert_eq!(bytes_of(&Histogram::from_counts(counts)).len(), 1);
        (counts[3], counts[25]) = (u64::MAX, 300);

        let histogram = Histogram::from_counts(counts);

        assert_eq!(histogram_of(&bytes_of(&histogram)), histogram);
    }

    #[test]
    fn bytes_that_are_no_histogram_do_no_harm() {
        for bytes in [&[0xff; 400][..], &[0x80], &[1; 400]] {
            let _ = histogram_of(bytes).total();
        }
    }
}
