//! What Sidekiq's own programs look at: processes, their work, signals, metrics.
//!
//! Jobs and queues are Sidekiq's already, because the store keeps them so. A person in front of Sidekiq's page, or a
//! Ruby program with its API, wants more: which processes there are, what they run, how to quiet or stop one, how fast
//! the classes are. Here our processes tell that in the same words. Nothing of it carries the engine: when it cannot be
//! written, jobs run all the same, and whether a process lives is decided by its membership alone.
//!
//! Each beat is one call of `show.lua`: the process's record ([`card`]), what it runs ([`work`]), and back come the
//! signals that somebody left ([`signals`]). A process that leaves, or that others have found lost, is taken off by
//! `hide.lua`. [`metrics`] adds what a minute's runs came to.
//!
//! Sidekiq has changed these keys between versions. [`Dialect`] tells which are written.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::error::StoreError;
use crate::store::redis::edges::card::Card;
use crate::store::redis::edges::work::Work;
use crate::store::redis::engine::{Engine, Row};
use crate::store::redis::envelope::{Dialect, Envelope};
use crate::store::redis::keys::Keys;
use crate::store::redis::script::{Call, HIDE, SHOW};
use crate::store::redis::values;
use crate::store::{MemberId, MemberInfo, ProcessOrder, Sample, Vitals};

mod card;
mod metrics;
mod signals;
mod work;

/// How long a process is shown that does not beat any more, in seconds.
const SHOWN_SECONDS: u32 = 60;

/// The processes that this store has let join, as they are shown.
#[derive(Debug, Default)]
pub(super) struct Cards(Mutex<HashMap<MemberId, Card>>);

impl Cards {
    fn lock(&self) -> MutexGuard<'_, HashMap<MemberId, Card>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Forgets a process that is no longer a member.
    pub(super) fn forget(&self, member: &MemberId) {
        self.lock().remove(member);
    }
}

impl Engine {
    /// Shows a process that has just joined.
    pub(super) async fn show_first(&self, info: MemberInfo) {
        let (member, card) = (info.id.clone(), Card::new(&info, self.now()));
        self.cards.lock().insert(member.clone(), card);
        // Nobody can have left a signal for a process that was not shown.
        self.show(&member, &Vitals::default(), Duration::ZERO).await;
    }

    /// Shows how a process does and what it runs. Answers the orders that were left for it as signals.
    ///
    /// A process that joined through another store object has no card here, and shows itself there. What cannot be
    /// written now is written at the next beat.
    pub(super) async fn show(&self, member: &MemberId, vitals: &Vitals, round_trip: Duration) -> Vec<ProcessOrder> {
        let Some(card) = self.cards.lock().get(member).cloned() else { return Vec::new() };
        let shown = self.try_to_show(&card, member, vitals, round_trip).await;
        shown.unwrap_or_else(|error| {
            complain("show", &error);
            Vec::new()
        })
    }

    async fn try_to_show(
        &self,
        card: &Card,
        member: &MemberId,
        vitals: &Vitals,
        round_trip: Duration,
    ) -> Result<Vec<ProcessOrder>, StoreError> {
        let work = self.work_of(member, vitals.busy).await?;
        let fields = card.fields(vitals, self.now(), round_trip);
        let call = show_call(&self.keys, self.dialect, &fields, &work, member);
        let signals = values::all_bytes("beat", self.beats.call("beat", &call).await?)?;
        Ok(signals::orders(signals.iter().map(Vec::as_slice)))
    }

    /// The jobs that a process is running, as far as they are shown. What it leased first, it started first.
    async fn work_of(&self, member: &MemberId, busy: u32) -> Result<Vec<Work>, StoreError> {
        if busy == 0 {
            return Ok(Vec::new());
        }
        let ledger = self.keys.ledger(member.as_str());
        let mut rows = self.rows_of("beat", &ledger).await?;
        rows.truncate(work::SHOWN_MAX.min(busy as usize));
        let held = self.elements_of("beat", &ledger, &rows).await?;
        let work = |(row, element): (Row, Vec<u8>)| {
            let queue = Envelope::open(&element)?.queue();
            Some(Work { unit: row.field(), queue, element, since: row.leased_at() })
        };
        Ok(held.into_iter().filter_map(work).collect())
    }

    /// Shows processes no longer. Those that cannot be taken off now fade by themselves.
    pub(super) async fn hide(&self, members: &[MemberId]) {
        members.iter().for_each(|member| self.cards.forget(member));
        if members.is_empty() {
            return;
        }
        if let Err(error) = self.work.call("leave", &hide_call(&self.keys, members)).await {
            complain("hide", &error);
        }
    }

    /// Adds what runs came to, to what Sidekiq's metrics page shows.
    pub(super) async fn add_metrics(&self, samples: &[Sample]) {
        let Some(call) = metrics::add(&self.keys, self.dialect, samples, self.now()) else { return };
        if let Err(error) = self.work.call("record", &call).await {
            complain("record", &error);
        }
    }
}

/// Says that something could not be shown. No caller can do anything about it, and no job depends on it.
fn complain(tried: &'static str, error: &StoreError) {
    #[cfg(feature = "server")]
    tracing::warn!(tried, %error, "what Sidekiq's programs look at could not be written");
    #[cfg(not(feature = "server"))]
    let _ = (tried, error);
}

/// The key under which a process tells what it runs.
fn work_key(keys: &Keys, dialect: Dialect, member: &str) -> String {
    match dialect {
        Dialect::Six => keys.key(&format!("{member}:workers")),
        Dialect::Seven | Dialect::Eight => keys.key(&format!("{member}:work")),
    }
}

fn signals_key(keys: &Keys, member: &str) -> String {
    keys.key(&format!("{member}-signals"))
}

fn show_call(keys: &Keys, dialect: Dialect, fields: &[card::Field], work: &[Work], member: &MemberId) -> Call {
    let member = member.as_str();
    let mut call = Call::new(&SHOW);
    call.key(keys.key("processes")).key(keys.key(member));
    call.key(work_key(keys, dialect, member)).key(signals_key(keys, member));
    call.number(SHOWN_SECONDS).arg(member).number(2 * fields.len());
    for (name, value) in fields {
        call.arg(name).arg(value);
    }
    for piece in work {
        call.arg(&piece.unit).arg(piece.to_json());
    }
    call
}

fn hide_call(keys: &Keys, members: &[MemberId]) -> Call {
    let mut call = Call::new(&HIDE);
    call.key(keys.key("processes"));
    for member in members {
        let member = member.as_str();
        call.key(keys.key(member)).key(signals_key(keys, member));
        // Whatever dialect it spoke.
        call.key(work_key(keys, Dialect::Six, member)).key(work_key(keys, Dialect::Eight, member));
        call.arg(member);
    }
    call
}
