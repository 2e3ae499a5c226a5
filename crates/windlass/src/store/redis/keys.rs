//! The names of the keys. Sidekiq's own are public; those that begin with `wl:` are ours (`docs/redis-layout.md`).

use crate::clock::Timestamp;
use crate::job::JobId;

/// How much time of ids one set remembers.
const HOUR_MS: u64 = 60 * 60 * 1_000;

/// Makes names of keys.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    prefix: String,
}

macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        $($(#[$doc])* pub(super) fn $name(&self) -> String { self.key($text) })*
    };
}

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        $($(#[$doc])* pub(super) fn $name(&self, of: &str) -> String { format!(concat!("{}", $text, ":{}"), self.prefix, of) })*
    };
}

impl Keys {
    pub(super) fn new(prefix: String) -> Keys {
        Keys { prefix }
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fixed! {
        /// Names of the queues.
        queues = "queues",
        schedule = "schedule",
        retry = "retry",
        dead = "dead",
        /// Names of the queues that give nothing.
        paused = "paused",
        processed = "stat:processed",
        failed = "stat:failed",
        /// Members and the ends of their leases.
        members = "wl:members",
        /// Members without rights whose jobs are to be handed on.
        lost = "wl:lost",
        done = "wl:done",
        cancelled = "wl:cancelled",
        /// Done jobs by the time until which they are kept.
        keep = "wl:keep",
        totals = "wl:st",
        /// Pairs of kind and queue that are measured, by when they were last seen.
        meters = "wl:meters",
        /// The same, by when they were first seen.
        meters_order = "wl:meters:order",
        /// What each of them has come to in all.
        meters_sum = "wl:meters:sum",
    }

    named! {
        queue = "queue",
        processed_on = "stat:processed",
        failed_on = "stat:failed",
        totals_on = "wl:st",
        /// Jobs of a queue that are given out one at a time.
        suspects = "wl:suspects",
        /// What a member said of itself.
        member = "wl:m",
        /// What a member holds.
        ledger = "wl:if",
        /// The runs of a member that are asked to give way.
        asked = "wl:ask",
        /// What the process of a member is to do.
        orders = "wl:orders",
        /// What a lost member held.
        lost_ledger = "wl:lost",
        lost_asked = "wl:lostask",
        /// What was measured in one step of time.
        measures_of = "wl:ms",
        /// How many jobs were ready in one step of time.
        depths_of = "wl:dp",
    }

    /// The set of ids that were made in the same hour. `None` for ids that no clock has made.
    pub(super) fn ids(&self, id: &JobId) -> Option<String> {
        self.of_hour("wl:ids", id)
    }

    /// Where the jobs of these ids are, if they wait in a sorted set.
    pub(super) fn places(&self, id: &JobId) -> Option<String> {
        self.of_hour("wl:at", id)
    }

    fn of_hour(&self, name: &str, id: &JobId) -> Option<String> {
        (id.as_bytes()[0] != 0xff).then(|| format!("{}{name}:{:x}", self.prefix, made_at_ms(id) / HOUR_MS))
    }
}

/// When an id was made, by itself.
pub(super) fn made_at_ms(id: &JobId) -> u64 {
    id.as_bytes()[..6].iter().fold(0, |ms, byte| ms << 8 | u64::from(*byte))
}

/// The UTC day of an instant, as in `2026-11-21`.
pub(super) fn day_of(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(..10).unwrap_or("1970-01-01").to_owned()
}
