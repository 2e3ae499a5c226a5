//! A process's record, as Sidekiq's `ProcessSet` reads it.
//!
//! The superset of what its versions read: `concurrency` both in the record and inside `info`, `capsules` beside
//! `queues` and `weights`. `embedded` is false, because we obey the signals that Sidekiq's page leaves.

use serde::Serialize;
use serde_json::json;

use crate::clock::Timestamp;
use crate::store::redis::edges::RoundTrip;
use crate::store::{MemberId, MemberInfo, Vitals};

/// What is shown beside the name of each of our processes.
const TAG: &str = "windlass";
/// The name of the one group of queues that a server works.
const CAPSULE: &str = "default";

/// What does not change while a process lives.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    info: MemberInfo,
    json: String,
}

/// How a process chooses between its queues, in Sidekiq's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Strict,
    Weighted,
    Random,
}

impl Card {
    pub(crate) fn new(info: MemberInfo, joined_at: Timestamp) -> Card {
        let json = info_json(&info, joined_at);
        Card { info, json }
    }

    pub(crate) fn member(&self) -> &MemberId {
        &self.info.id
    }

    /// Names and values of the record's fields.
    pub(crate) fn fields(&self, vitals: &Vitals, now: Timestamp, rtt: RoundTrip) -> [(&'static str, String); 7] {
        [
            ("info", self.json.clone()),
            ("concurrency", self.info.concurrency.to_string()),
            ("busy", vitals.busy.to_string()),
            ("beat", seconds(now)),
            ("rtt_us", rtt.as_micros().to_string()),
            ("quiet", vitals.quiet.to_string()),
            // Sidekiq counts it in KiB.
            ("rss", (vitals.rss_bytes / 1_024).to_string()),
        ]
    }
}

/// An instant in seconds, with the point that tells a reader so.
fn seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.as_millis().div_euclid(1_000), at.as_millis().rem_euclid(1_000))
}

fn info_json(info: &MemberInfo, joined_at: Timestamp) -> String {
    let weight = |index: usize| info.weights.get(index).copied().unwrap_or(1);
    let weights: serde_json::Map<String, serde_json::Value> =
        info.queues.iter().enumerate().map(|(index, name)| (name.clone(), weight(index).into())).collect();
    let capsule = json!({ "concurrency": info.concurrency, "mode": mode_of(&info.weights), "weights": weights });
    json!({
        "hostname": info.host,
        "started_at": joined_at.as_millis() as f64 / 1_000.0,
        "pid": info.pid,
        "tag": TAG,
        "concurrency": info.concurrency,
        "capsules": { CAPSULE: capsule },
        "queues": info.queues,
        "weights": [weights],
        "labels": [],
        "identity": info.id,
        "version": info.version,
        "embedded": false,
    })
    .to_string()
}

fn mode_of(weights: &[u32]) -> Mode {
    match weights {
        [first, ..] if weights.iter().all(|weight| *weight == 0) && *first == 0 => Mode::Strict,
        _ if weights.iter().all(|weight| *weight == 1) => Mode::Random,
        _ => Mode::Weighted,
    }
}
