//! Members: who may lease, what they hold, and what becomes of it without them.
//!
//! A ledger belongs to its member until somebody fences it: one script takes the membership away and gives the ledger
//! another name, so that from this instant every write of the member finds nothing, however much it held. What is in
//! the renamed ledger is then handed on in slices, by whoever comes first, each job by a move of its own.
//!
//! A lease whose answer was lost has put jobs into the ledger that nobody here knows of. The blocks of such leases are
//! remembered, and every beat looks for them and hands the jobs back.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use redis::{cmd, pipe};

use crate::clock::{Stopwatch, Timestamp};
use crate::error::StoreError;
use crate::failpoint;
use crate::job::LeaseToken;
use crate::store::redis::engine::{Engine, Row};
use crate::store::redis::envelope::Envelope;
use crate::store::redis::life::fenced;
use crate::store::redis::moves::{Move, Refusal, Set, Source, Target};
use crate::store::redis::script::{ASK, BEAT, Call, FENCE, JOIN};
use crate::store::redis::values;
use crate::store::{
    MemberId, MemberInfo, Orders, ProcessOrder, ProcessTarget, RECOVERIES_MAX, RECOVERY_WINDOW, Reaped, Vitals,
};

/// Members fenced in one script.
const FENCED_LEN_MAX: usize = 50;

/// How long a process that leaves has for handing back its jobs before others do it.
const LEAVING_TIME: Duration = Duration::from_secs(60);

/// Why jobs are handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Their member has left, and gives them back.
    Left,
    /// Their member was lost.
    Lost,
}

/// What became of a job that was handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ready,
    Dead,
    Cancelled,
}

impl Engine {
    pub(super) async fn join(&self, info: MemberInfo, lease: Duration) -> Result<(), StoreError> {
        failpoint::hit("redis.join")?;
        let name = info.id.as_str();
        let said = serde_json::to_string(&info).expect("what a member says is always JSON");
        let mut call = Call::new(&JOIN);
        call.key(self.keys.members()).key(self.keys.member(name)).key(self.keys.lost());
        call.number(self.time.told()).arg(name).number(lease.as_millis() as u64).arg(said);
        if values::number("join", &self.beats.call("join", &call).await?)? == 1 {
            self.show_first(info).await;
            return Ok(());
        }
        let detail = format!("member {} is there already: each start needs a new identity", info.id);
        Err(StoreError::Invalid { tried: "join", detail })
    }

    pub(super) async fn beat(&self, member: &MemberId, vitals: Vitals) -> Result<Orders, StoreError> {
        failpoint::hit("redis.beat")?;
        let (keys, name) = (&self.keys, member.as_str());
        let said = serde_json::to_string(&vitals).expect("vitals are always JSON");
        let mut call = Call::new(&BEAT);
        call.key(keys.members()).key(keys.member(name)).key(keys.ledger(name)).key(keys.asked(name));
        call.key(keys.orders(name));
        call.number(self.time.told()).arg(name).arg(said);
        let sent = Stopwatch::start();
        let mut answer = match self.beats.call("beat", &call).await? {
            redis::Value::Int(_) => {
                self.forget_unheard(member);
                self.cards.forget(member);
                return Err(fenced("beat", member));
            }
            answer => values::list("beat", answer)?.into_iter(),
        };
        let round_trip = sent.elapsed();
        self.time.note(values::number("beat", &answer.next().unwrap_or_default())?);
        let asked = values::all_bytes("beat", answer.next().unwrap_or_default())?;
        let words = values::texts("beat", answer.next().unwrap_or_default())?;
        self.reconcile(member).await?;
        let mut told: BTreeSet<ProcessOrder> = words.iter().filter_map(|word| order_of(word)).collect();
        told.extend(self.show(member, &vitals, round_trip).await);
        Ok(Orders { cancel: asked.chunks_exact(2).filter_map(token_of).collect(), process: told.into_iter().collect() })
    }

    /// Hands back what leases took whose answers never came.
    async fn reconcile(&self, member: &MemberId) -> Result<(), StoreError> {
        let unheard = self.unheard_of(member);
        if unheard.is_empty() {
            return Ok(());
        }
        let ledger = self.keys.ledger(member.as_str());
        let mut rows = self.rows_of("beat", &ledger).await?;
        rows.retain(|row| unheard.contains(&row.block()));
        let mut moves = Vec::new();
        for (row, element) in self.elements_of("beat", &ledger, &rows).await? {
            let source = Source::Field(ledger.clone(), row.field().into_bytes());
            let handed_back =
                Envelope::open(&element).map(|envelope| (envelope.id, envelope.queue(), envelope.own.recoveries));
            moves.push(match handed_back {
                // The run never began: nothing of it is counted.
                Some((id, queue, recoveries)) => {
                    Move { id, source, target: Target::Front { queue, recoveries }, element, counts: "" }
                }
                None => self.to_the_dead_unchanged(source, element, self.now()),
            });
        }
        self.move_in_reverse("beat", &moves, Refusal::IsFine).await?;
        Ok(())
    }

    pub(super) async fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Result<usize, StoreError> {
        let members = match to {
            ProcessTarget::One(member) => vec![member.to_string()],
            ProcessTarget::All => {
                let all = self.work.query("order", cmd("ZRANGE").arg(self.keys.members()).arg(0).arg(-1)).await?;
                values::texts("order", all)?
            }
        };
        let mut call = Call::new(&ASK);
        call.key(self.keys.members());
        for member in &members {
            call.key(self.keys.ledger(member)).key(self.keys.orders(member));
            call.arg(member).arg("").arg(order.name());
        }
        let reached = values::numbers("order", self.work.call("order", &call).await?)?;
        Ok(reached.into_iter().filter(|answer| *answer == 1).count())
    }

    /// Asks running jobs to give way. Answers for each whether it still runs.
    pub(super) async fn ask_to_cancel(&self, runs: &[(String, Row)]) -> Result<Vec<bool>, StoreError> {
        let mut call = Call::new(&ASK);
        call.key(self.keys.members());
        for (member, row) in runs {
            call.key(self.keys.ledger(member)).key(self.keys.asked(member));
            call.arg(member).arg(row.field()).arg(row.field());
        }
        let answers = values::numbers("cancel", self.work.call("cancel", &call).await?)?;
        Ok(answers.into_iter().map(|answer| answer == 1).collect())
    }

    pub(super) async fn leave(&self, member: &MemberId) -> Result<usize, StoreError> {
        failpoint::hit("redis.leave")?;
        let names = [member.to_string()];
        self.forget_unheard(member);
        if self.fence("leave", &names, Cause::Left).await?.is_empty() {
            return Ok(0);
        }
        let mut left = 0;
        loop {
            let fates = self.hand_on("leave", member.as_str(), crate::store::VERB_LEN_MAX, Cause::Left).await?;
            left += fates.len();
            if self.close_ledger("leave", member.as_str()).await? {
                self.hide(std::slice::from_ref(member)).await;
                return Ok(left);
            }
        }
    }

    pub(super) async fn reap(&self, max: usize) -> Result<Reaped, StoreError> {
        failpoint::hit("redis.reap")?;
        let mut reaped = Reaped::default();
        let late = self.up_to_now(self.keys.members()).await?;
        for names in late.chunks(FENCED_LEN_MAX) {
            reaped.members.extend(self.fence("reap", names, Cause::Lost).await?.into_iter().map(MemberId::from));
        }
        self.hide(&reaped.members).await;
        let mut lost = self.up_to_now(self.keys.lost()).await?;
        lost.sort();
        for member in lost {
            let room = max - (reaped.recovered + reaped.dead + reaped.cancelled);
            for fate in self.hand_on("reap", &member, room, Cause::Lost).await? {
                match fate {
                    Fate::Ready => reaped.recovered += 1,
                    Fate::Dead => reaped.dead += 1,
                    Fate::Cancelled => reaped.cancelled += 1,
                }
            }
            reaped.more |= !self.close_ledger("reap", &member).await?;
        }
        Ok(reaped)
    }

    /// Members of a sorted set of instants whose time has come.
    async fn up_to_now(&self, key: String) -> Result<Vec<String>, StoreError> {
        let now_ms = self.now().as_millis();
        let names = self.work.query("reap", cmd("ZRANGEBYSCORE").arg(key).arg("-inf").arg(now_ms)).await?;
        values::texts("reap", names)
    }

    /// Takes their rights from members; answers from whom.
    async fn fence(&self, tried: &'static str, names: &[String], cause: Cause) -> Result<Vec<String>, StoreError> {
        let keys = &self.keys;
        let mut call = Call::new(&FENCE);
        call.key(keys.members()).key(keys.lost());
        call.number(self.time.told());
        match cause {
            Cause::Lost => call.arg("1").number(0),
            Cause::Left => call.arg("").number(LEAVING_TIME.as_millis() as u64),
        };
        for name in names {
            call.key(keys.ledger(name)).key(keys.asked(name)).key(keys.lost_ledger(name)).key(keys.lost_asked(name));
            call.key(keys.orders(name));
            call.arg(name);
        }
        let answers = values::numbers(tried, self.work.call(tried, &call).await?)?;
        let fenced = names.iter().zip(answers.into_iter().skip(1)).filter(|(_, answer)| *answer == 1);
        Ok(fenced.map(|(name, _)| name.clone()).collect())
    }

    /// Hands on up to `max` jobs of a member without rights, and answers what became of each.
    async fn hand_on(
        &self,
        tried: &'static str,
        member: &str,
        max: usize,
        cause: Cause,
    ) -> Result<Vec<Fate>, StoreError> {
        let (ledger, now) = (self.keys.lost_ledger(member), self.now());
        let mut rows = self.rows_of(tried, &ledger).await?;
        rows.truncate(max);
        let asked = self.work.query(tried, cmd("SMEMBERS").arg(self.keys.lost_asked(member))).await?;
        let asked: HashSet<Vec<u8>> = values::all_bytes(tried, asked)?.into_iter().collect();
        let (mut moves, mut fates) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for (row, element) in self.elements_of(tried, &ledger, &rows).await? {
            let source = Source::Field(ledger.clone(), row.field().into_bytes());
            let is_asked = asked.contains(row.field().as_bytes());
            let (moved, fate) = match (Envelope::open(&element), cause) {
                (Some(envelope), Cause::Left) => self.give_back(source, envelope, row, now),
                (Some(envelope), Cause::Lost) => self.recover(source, envelope, row, is_asked, now),
                (None, _) => (self.to_the_dead_unchanged(source, element.clone(), now), Fate::Dead),
            };
            moves.push(moved);
            fates.push(fate);
        }
        let moved = self.move_in_reverse(tried, &moves, Refusal::IsFine).await?;
        Ok(fates.into_iter().zip(moved).filter(|(_, moved)| *moved).map(|(fate, _)| fate).collect())
    }

    /// The move of a job whose member has left.
    fn give_back(&self, source: Source, mut envelope: Envelope<'_>, row: Row, now: Timestamp) -> (Move, Fate) {
        envelope.begin_run(row.is_at_most_once());
        if envelope.own.at_most_once {
            return (self.to_the_dead(source, envelope, "interrupted", "d", now), Fate::Dead);
        }
        envelope.give_attempt_back();
        (to_the_front(source, envelope, ""), Fate::Ready)
    }

    /// The move of a job whose member was lost.
    fn recover(
        &self,
        source: Source,
        mut envelope: Envelope<'_>,
        row: Row,
        is_asked: bool,
        now: Timestamp,
    ) -> (Move, Fate) {
        envelope.begin_run(row.is_at_most_once());
        if is_asked {
            envelope.own.reason = Some("asked to cancel".to_owned());
            let target = Target::Set { set: Set::Cancelled, score: self.score(now) };
            let moved = Move { id: envelope.id, source, target, element: envelope.seal(), counts: "rc" };
            return (moved, Fate::Cancelled);
        }
        if envelope.own.window.is_none_or(|began| now.since(began) >= RECOVERY_WINDOW) {
            (envelope.own.window, envelope.own.recoveries) = (Some(now), 0);
        }
        envelope.own.recoveries += 1;
        if envelope.own.at_most_once {
            return (self.to_the_dead(source, envelope, "interrupted", "rd", now), Fate::Dead);
        }
        envelope.give_attempt_back();
        if envelope.own.recoveries >= RECOVERIES_MAX {
            return (self.to_the_dead(source, envelope, "poison", "rd", now), Fate::Dead);
        }
        (to_the_front(source, envelope, "r"), Fate::Ready)
    }

    /// Forgets a member without rights, if it holds nothing any more.
    async fn close_ledger(&self, tried: &'static str, member: &str) -> Result<bool, StoreError> {
        let held = self.work.query(tried, cmd("HLEN").arg(self.keys.lost_ledger(member))).await?;
        if values::number(tried, &held)? > 0 {
            return Ok(false);
        }
        let mut forget = pipe();
        forget.atomic().cmd("ZREM").arg(self.keys.lost()).arg(member);
        forget.cmd("DEL").arg(self.keys.member(member)).arg(self.keys.lost_asked(member));
        self.work.pipe(tried, &forget).await?;
        Ok(true)
    }

    /// The fields of a ledger, in the order of their leases.
    pub(super) async fn rows_of(&self, tried: &'static str, ledger: &str) -> Result<Vec<Row>, StoreError> {
        let fields = self.work.query(tried, cmd("HKEYS").arg(ledger)).await?;
        let mut rows: Vec<Row> =
            values::all_bytes(tried, fields)?.iter().filter_map(|field| Row::of_field(field)).collect();
        rows.sort_unstable();
        Ok(rows)
    }

    /// Those of the rows that are still there, with what they hold.
    pub(super) async fn elements_of(
        &self,
        tried: &'static str,
        ledger: &str,
        rows: &[Row],
    ) -> Result<Vec<(Row, Vec<u8>)>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Vec<String> = rows.iter().map(|row| row.field()).collect();
        let elements = self.work.query(tried, cmd("HMGET").arg(ledger).arg(&fields)).await?;
        let elements = values::maybe_bytes(tried, elements)?;
        Ok(rows.iter().zip(elements).filter_map(|(row, element)| Some((*row, element?))).collect())
    }
}

fn to_the_front(source: Source, envelope: Envelope<'_>, counts: &'static str) -> Move {
    let target = Target::Front { queue: envelope.queue(), recoveries: envelope.own.recoveries };
    Move { id: envelope.id, source, target, element: envelope.seal(), counts }
}

fn order_of(word: &str) -> Option<ProcessOrder> {
    ProcessOrder::ALL.into_iter().find(|order| order.name() == word)
}

/// The token of a run, out of its field and its element.
fn token_of(pair: &[Vec<u8>]) -> Option<LeaseToken> {
    let [field, element] = pair else { return None };
    let (row, envelope) = (Row::of_field(field)?, Envelope::open(element)?);
    Some(LeaseToken { job: envelope.id, run: envelope.own.run + 1, row: row.0 })
}
