//! Keeps the log readable when the same thing goes wrong a thousand times a second.
//!
//! Whatever can happen again and again for one reason is logged through here: about one subject at most once in
//! [`PACE`], and then with the number of times that were left out since. Nothing else is kept; counts for people are in
//! the server's statistics.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::clock::Stopwatch;

/// How long the log is silent about a subject after a line about it.
const PACE: Duration = Duration::from_secs(5);

/// What has been complained about lately.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    subjects: Mutex<HashMap<&'static str, Subject>>,
}

#[derive(Debug)]
struct Subject {
    since: Stopwatch,
    left_out: u64,
}

impl Complaints {
    /// Whether to log something about the subject now: then how many times were left out before.
    pub(crate) fn admit(&self, subject: &'static str) -> Option<u64> {
        self.admit_after(subject, PACE)
    }

    fn admit_after(&self, subject: &'static str, pace: Duration) -> Option<u64> {
        let mut subjects = self.subjects.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match subjects.get_mut(subject) {
            Some(known) if known.since.elapsed() < pace => {
                known.left_out += 1;
                None
            }
            known => {
                let left_out = known.map_or(0, |known| known.left_out);
                subjects.insert(subject, Subject { since: Stopwatch::start(), left_out: 0 });
                Some(left_out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_admitted_once_in_its_pace_and_tells_what_was_left_out() {
        let complaints = Complaints::default();

        assert_eq!(complaints.admit("store"), Some(0));
        for _ in 0..7 {
            assert_eq!(complaints.admit("store"), None);
        }

        assert_eq!(complaints.admit("handler"), Some(0));
        assert_eq!(complaints.admit_after("store", Duration::ZERO), Some(7));
        assert_eq!(complaints.admit_after("store", Duration::ZERO), Some(0));
    }
}
