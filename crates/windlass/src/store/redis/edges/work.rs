//! What a process is running, as Sidekiq's busy page reads it.
//!
//! Sidekiq has as many entries as threads. An async process may run ten thousand jobs at a time, and every look at the
//! page would read them all; so the oldest [`SHOWN_MAX`] are shown, while `busy` in the process's record is the true
//! number.

use serde_json::json;

use crate::clock::Timestamp;

/// The most entries of one process.
pub(crate) const SHOWN_MAX: usize = 500;

/// One job that is running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// What runs it: any short name that nothing else in the process has.
    pub(crate) unit: String,
    pub(crate) queue: String,
    /// The job as it lay in its queue.
    pub(crate) element: Vec<u8>,
    pub(crate) since: Timestamp,
}

impl Work {
    /// The entry: the job is a text inside it, and the time is in whole seconds.
    pub(crate) fn to_json(&self) -> String {
        let payload = String::from_utf8_lossy(&self.element);
        json!({ "queue": self.queue, "payload": payload, "run_at": self.since.as_millis().div_euclid(1_000) })
            .to_string()
    }
}
