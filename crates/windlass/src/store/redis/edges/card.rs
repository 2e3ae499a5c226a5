//! A process's record, as Sidekiq's `ProcessSet` reads it.
//!
//! The superset of what its versions read: `concurrency` both in the record and inside `info`, `capsules` beside
//! `queues` and `weights`. `embedded` is false, because we obey the signals that Sidekiq's page leaves.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use crate::clock::Timestamp;
use crate::store::{MemberInfo, Vitals};

/// What is shown beside the name of each of our processes.
const TAG: &str = "windlass";
/// The name of the one group of queues that a server works.
const CAPSULE: &str = "default";

/// Name and value of one field.
pub(crate) type Field = (&'static str, String);

/// What does not change while a process lives.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    concurrency: u32,
    info: String,
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
    pub(crate) fn new(member: &MemberInfo, joined_at: Timestamp) -> Card {
        Card { concurrency: member.concurrency, info: info_json(member, joined_at) }
    }

    /// Names and values of the record's fields.
    pub(crate) fn fields(&self, vitals: &Vitals, now: Timestamp, round_trip: Duration) -> [Field; 7] {
        [
            ("info", self.info.clone()),
            ("concurrency", self.concurrency.to_string()),
            ("busy", vitals.busy.to_string()),
            ("beat", seconds(now)),
            ("rtt_us", round_trip.as_micros().to_string()),
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
        [_, ..] if weights.iter().all(|weight| *weight == 0) => Mode::Strict,
        _ if weights.iter().all(|weight| *weight == 1) => Mode::Random,
        _ => Mode::Weighted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::store::MemberId;

    fn info(weights: &[u32]) -> Value {
        let member = MemberInfo {
            id: MemberId::new("host", 7, 1),
            host: "host".to_owned(),
            pid: 7,
            queues: vec!["a".to_owned(), "b".to_owned()],
            weights: weights.to_vec(),
            concurrency: 5,
            version: "0.1.0".to_owned(),
        };
        let card = Card::new(&member, Timestamp::from_millis(1_700_000_000_250));
        let fields = card.fields(&Vitals { rss_bytes: 4_096, ..Vitals::default() }, Timestamp::EPOCH, Duration::ZERO);
        assert_eq!(fields[3], ("beat", "0.000".to_owned()));
        assert_eq!(fields[6], ("rss", "4".to_owned()));
        serde_json::from_str(&fields[0].1).unwrap()
    }

    #[test]
    fn a_record_tells_each_version_what_it_looks_for() {
        let info = info(&[3, 1]);

        assert_eq!(info["queues"], json!(["a", "b"]));
        assert_eq!(info["weights"], json!([{ "a": 3, "b": 1 }]));
        let capsule = json!({ "concurrency": 5, "mode": "weighted", "weights": { "a": 3, "b": 1 } });
        assert_eq!(info["capsules"], json!({ "default": capsule }));
        assert_eq!((&info["concurrency"], &info["embedded"]), (&json!(5), &json!(false)));
        assert_eq!(info["started_at"], json!(1_700_000_000.25));
        assert_eq!(info["identity"], json!("host:7:0000000000000001"));
    }

    #[test]
    fn the_order_of_queues_is_told_in_their_weights() {
        assert_eq!(info(&[0, 0])["capsules"]["default"]["mode"], "strict");
        assert_eq!(info(&[1, 1])["capsules"]["default"]["mode"], "random");
        assert_eq!(info(&[])["capsules"]["default"]["mode"], "random");
    }
}
