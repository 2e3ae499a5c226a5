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

use crate::clock::Timestamp;
use crate::store::redis::envelope::Dialect;
use crate::store::redis::keys::Keys;
use crate::store::redis::script::{Call, HIDE, SHOW};
use crate::store::{MemberId, Vitals};

pub(super) mod card;

pub(super) mod signals;
pub(super) mod work;

use card::Card;
use work::Work;

/// How long a process is shown that does not beat any more, in seconds.
const SHOWN_SECONDS: u32 = 60;

/// How long a beat took on its way, as far as is known.
pub(super) type RoundTrip = std::time::Duration;

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

/// The call that shows a process, how it does and what it runs. It answers the signals left for the process.
pub(super) fn show(
    keys: &Keys,
    dialect: Dialect,
    card: &Card,
    vitals: &Vitals,
    work: &[Work<'_>],
    now: Timestamp,
    round_trip: RoundTrip,
) -> Call {
    let member = card.member().as_str();
    let mut call = Call::new(&SHOW);
    call.key(keys.key("processes")).key(keys.key(member));
    call.key(work_key(keys, dialect, member)).key(signals_key(keys, member));
    call.number(SHOWN_SECONDS).arg(member);
    let fields = card.fields(vitals, now, round_trip);
    call.number(2 * fields.len());
    for (name, value) in &fields {
        call.arg(name).arg(value);
    }
    for piece in work.iter().take(work::SHOWN_MAX) {
        call.arg(&piece.unit).arg(piece.to_json());
    }
    call
}

/// The call that shows processes no longer.
pub(super) fn hide(keys: &Keys, members: &[MemberId]) -> Call {
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
