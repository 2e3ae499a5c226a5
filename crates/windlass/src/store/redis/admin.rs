//! What clients do to jobs: cancel, kill, requeue, delete, clear, prune, pause.

use redis::{cmd, pipe};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::JobId;
use crate::state::{Event, State};
use crate::store::redis::engine::Engine;
use crate::store::redis::envelope::Envelope;
use crate::store::redis::find::{Found, Lair};
use crate::store::redis::moves::{Move, Refusal, Set, Source, Target, instant_of, kept_member};
use crate::store::redis::values;
use crate::store::{Changed, ClearFilter, JobQuery, Keep, PAGE_LEN_MAX};

/// How often a job is looked for again that has moved between the look and the change.
const LOOKS_MAX: u32 = 4;

impl Engine {
    pub(super) async fn change(&self, event: Event, ids: Vec<JobId>) -> Result<Vec<Changed>, StoreError> {
        let tried = event.name();
        let mut answers = vec![Changed::NotFound; ids.len()];
        let mut left: Vec<usize> = (0..ids.len()).collect();
        for _ in 0..LOOKS_MAX {
            if left.is_empty() {
                break;
            }
            left = self.change_what_is_there(tried, event, &ids, left, &mut answers).await?;
        }
        Ok(answers)
    }

    /// Changes the jobs as they are found. Answers the indexes of those that were not there any more.
    async fn change_what_is_there(
        &self,
        tried: &'static str,
        event: Event,
        ids: &[JobId],
        left: Vec<usize>,
        answers: &mut [Changed],
    ) -> Result<Vec<usize>, StoreError> {
        let wanted: Vec<JobId> = left.iter().map(|index| ids[*index]).collect();
        let found = self.find(tried, &wanted).await?;
        let now = self.now();
        let (mut moves, mut moving, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for index in left {
            let Some(found) = found.get(&ids[index]) else {
                answers[index] = Changed::NotFound;
                continue;
            };
            let state = found.state();
            if state == State::Running && event == Event::Cancel {
                asked.push((index, found));
            } else if let Some(source) = found.source().filter(|_| state.allows(event)) {
                moves.push(self.change_of(event, found, source, now));
                moving.push((index, state));
            } else {
                answers[index] = Changed::Refused(state);
            }
        }
        let mut again = self.ask(&asked, answers).await?;
        let moved = self.move_all(tried, &self.work, &moves, Refusal::IsFine).await?;
        for ((index, state), moved) in moving.into_iter().zip(moved) {
            if moved { answers[index] = Changed::From(state) } else { again.push(index) }
        }
        Ok(again)
    }

    fn change_of(&self, event: Event, found: &Found, source: Source, now: Timestamp) -> Move {
        let nowhere = |source| Move { id: found.id, source, target: Target::Nowhere, element: Vec::new(), counts: "" };
        if event == Event::Delete {
            return nowhere(source);
        }
        let Some(mut envelope) = Envelope::open(&found.element) else {
            return self.to_the_dead_unchanged(source, found.element.clone(), now);
        };
        if let (Some(at), Some(Set::Schedule | Set::Retry)) = (found.at(), Set::of(found.state())) {
            envelope.note_run_at(at);
        }
        match event {
            Event::Kill => self.to_the_dead(source, envelope, "killed", "d", now),
            Event::Cancel => {
                envelope.own.reason = Some("asked to cancel".to_owned());
                let target = Target::Set { set: Set::Cancelled, score: self.score(now) };
                Move { id: found.id, source, target, element: envelope.seal(), counts: "c" }
            }
            _ => {
                if found.state().is_final() {
                    envelope.start_again();
                }
                // Whoever asks for it now wants it run, also when it had expired.
                envelope.own.expires_at = None;
                envelope.make_ready(now, now, self.dialect);
                let target = Target::Back { queue: envelope.queue(), recoveries: envelope.own.recoveries };
                Move { id: found.id, source, target, element: envelope.seal(), counts: "" }
            }
        }
    }

    /// Asks running jobs to give way.
    async fn ask(&self, asked: &[(usize, &Found)], answers: &mut [Changed]) -> Result<Vec<usize>, StoreError> {
        let (mut again, mut runs, mut indexes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, found) in asked {
            let Lair::Ledger { member, row, is_lost, .. } = &found.lair else { continue };
            if *is_lost {
                // Nobody will tell its member: who hands it on reads this.
                let mut note = cmd("SADD");
                self.work.query("cancel", note.arg(self.keys.lost_asked(member)).arg(row.field())).await?;
                answers[*index] = Changed::Asked;
            } else {
                runs.push((member.clone(), *row));
                indexes.push(*index);
            }
        }
        if runs.is_empty() {
            return Ok(again);
        }
        for (index, is_asked) in indexes.into_iter().zip(self.ask_to_cancel(&runs).await?) {
            if is_asked { answers[index] = Changed::Asked } else { again.push(index) }
        }
        Ok(again)
    }

    pub(super) async fn clear(&self, filter: ClearFilter, max: usize) -> Result<usize, StoreError> {
        let (mut removed, mut after) = (0, None);
        while removed < max {
            let limit = (max - removed).min(PAGE_LEN_MAX);
            let (state, queue) = (filter.state, filter.queue.clone());
            let query = JobQuery { state, queue, after, limit, ..JobQuery::default() };
            let page = self.page("clear", &query).await?;
            let moves: Vec<Move> = page.found.iter().filter_map(removal).collect();
            removed += self.remove("clear", &moves).await?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(removed)
    }

    async fn remove(&self, tried: &'static str, moves: &[Move]) -> Result<usize, StoreError> {
        let moved = self.move_all(tried, &self.work, moves, Refusal::IsFine).await?;
        Ok(moved.into_iter().filter(|moved| *moved).count())
    }

    pub(super) async fn prune(&self, keep: Keep, max: usize) -> Result<usize, StoreError> {
        let now = self.now();
        let mut removed = self.prune_done(now, max).await?;
        removed += self.prune_until(Set::Dead, now - keep.dead, max - removed).await?;
        removed += self.prune_until(Set::Cancelled, now - keep.cancelled, max - removed).await?;
        let dead = self.work.query("prune", cmd("ZCARD").arg(self.keys.dead())).await?;
        let excess = (values::number("prune", &dead)? as u64).saturating_sub(keep.dead_count_max);
        let excess = (max - removed).min(usize::try_from(excess).unwrap_or(usize::MAX));
        if excess > 0 {
            let oldest = cmd("ZRANGE").arg(self.keys.dead()).arg(0).arg(excess - 1).arg("WITHSCORES").clone();
            removed += self.remove_members("prune", Set::Dead, &oldest).await?;
        }
        Ok(removed)
    }

    /// Removes what lies in a set for instants up to `until`.
    async fn prune_until(&self, set: Set, until: Timestamp, max: usize) -> Result<usize, StoreError> {
        if max == 0 {
            return Ok(0);
        }
        let until = format!("{}.{:03}9995", until.as_millis().div_euclid(1_000), until.as_millis().rem_euclid(1_000));
        let mut over = cmd("ZRANGEBYSCORE");
        over.arg(set.key(&self.keys)).arg("-inf").arg(until).arg("WITHSCORES").arg("LIMIT").arg(0).arg(max);
        self.remove_members("prune", set, &over).await
    }

    async fn remove_members(&self, tried: &'static str, set: Set, range: &redis::Cmd) -> Result<usize, StoreError> {
        let members = values::scored(tried, self.work.query(tried, range).await?)?;
        let found = members.into_iter().map(|(member, score)| Found::new(member, Lair::Set(set, instant_of(score))));
        let moves: Vec<Move> = found.filter_map(|found| removal(&found)).collect();
        self.remove(tried, &moves).await
    }

    /// Removes done jobs whose time to be kept is over.
    async fn prune_done(&self, now: Timestamp, max: usize) -> Result<usize, StoreError> {
        let mut over = cmd("ZRANGEBYSCORE");
        over.arg(self.keys.keep()).arg("-inf").arg(now.as_millis()).arg("LIMIT").arg(0).arg(max);
        let over = values::list("prune", self.work.query("prune", &over).await?)?;
        if over.is_empty() {
            return Ok(0);
        }
        let mut questions = pipe();
        let kept: Vec<(JobId, String)> = over.iter().filter_map(kept_member).collect();
        for (_, score) in &kept {
            questions.cmd("ZRANGEBYSCORE").arg(self.keys.done()).arg(score).arg(score);
        }
        let mut moves = Vec::new();
        for ((id, score), members) in kept.iter().zip(self.work.pipe("prune", &questions).await?) {
            let at = instant_of(score.parse().unwrap_or_default());
            let found = values::all_bytes("prune", members)?;
            let found = found.into_iter().map(|member| Found::new(member, Lair::Set(Set::Done, at)));
            moves.extend(found.filter(|found| found.id == *id).filter_map(|found| removal(&found)));
        }
        let removed = self.remove("prune", &moves).await?;
        let members: Vec<Vec<u8>> = values::all_bytes("prune", redis::Value::Array(over))?;
        self.work.query("prune", cmd("ZREM").arg(self.keys.keep()).arg(&members)).await?;
        Ok(removed)
    }

    pub(super) async fn pause(&self, queue: &str) -> Result<bool, StoreError> {
        let added = self.work.query("pause", cmd("SADD").arg(self.keys.paused()).arg(queue)).await?;
        Ok(values::number("pause", &added)? == 1)
    }

    pub(super) async fn resume(&self, queue: &str) -> Result<bool, StoreError> {
        let removed = self.work.query("resume", cmd("SREM").arg(self.keys.paused()).arg(queue)).await?;
        let has_changed = values::number("resume", &removed)? == 1;
        if has_changed {
            self.ring();
        }
        Ok(has_changed)
    }
}

/// The move that forgets a job. `None` while it runs.
fn removal(found: &Found) -> Option<Move> {
    let source = found.source()?;
    Some(Move { id: found.id, source, target: Target::Nowhere, element: Vec::new(), counts: "" })
}
