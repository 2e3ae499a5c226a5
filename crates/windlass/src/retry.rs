//! How long to wait after a failure: pure functions of the attempt and a random fraction.
//!
//! The runner asks a [`RetryPolicy`] when an attempt has failed; the answer is a delay, never a decision to give
//! up. Giving up belongs to the limits beside it: [`ATTEMPTS_DEFAULT`] and the retry window of the job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Attempts a job has when nobody says otherwise: the first run and 24 retries, about 20 days under the default
/// policy.
pub const ATTEMPTS_DEFAULT: u32 = 25;

/// The most attempts a job may be given.
pub const ATTEMPTS_MAX: u32 = 1_000;

/// The longest delay any policy answers: 30 days.
pub const DELAY_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The most delays a [`RetryPolicy::List`] may hold.
pub const LIST_LEN_MAX: usize = 100;

/// How the delay grows from failure to failure.
///
/// Delays are in milliseconds when stored. Every policy is capped at [`DELAY_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RetryPolicy {
    /// Sidekiq's: `count⁴ + 15 s`, plus up to `10 s × (count + 1)` of jitter, where the first failure has count 0.
    /// From a quarter of a minute to three weeks in 25 attempts.
    #[default]
    Sidekiq,
    /// `base × 2^count`, at most `cap`, of which the upper half is jitter.
    Exponential {
        /// The delay after the first failure, in milliseconds.
        base_ms: u64,
        /// The longest delay, in milliseconds.
        cap_ms: u64,
    },
    /// Always the same delay, without jitter.
    Fixed {
        /// The delay, in milliseconds.
        delay_ms: u64,
    },
    /// One delay for each failure; the last one serves for all that follow. An empty list retries at once.
    List {
        /// The delays, in milliseconds.
        delays_ms: Vec<u64>,
    },
}

impl RetryPolicy {
    /// The delay after the `failures`-th failure (from 1), given a random `fraction` in `0.0..1.0` for jitter.
    pub fn delay(&self, failures: u32, fraction: f64) -> Duration {
        let count = failures.saturating_sub(1);
        let delay = match self {
            RetryPolicy::Sidekiq => sidekiq_delay(count, fraction),
            RetryPolicy::Exponential { base_ms, cap_ms } => exponential_delay(*base_ms, *cap_ms, count, fraction),
            RetryPolicy::Fixed { delay_ms } => Duration::from_millis(*delay_ms),
            RetryPolicy::List { delays_ms } => {
                let delay_ms = delays_ms.get(count as usize).or(delays_ms.last()).copied();
                Duration::from_millis(delay_ms.unwrap_or(0))
            }
        };
        delay.min(DELAY_MAX)
    }
}

fn sidekiq_delay(count: u32, fraction: f64) -> Duration {
    let base = u64::from(count).saturating_pow(4).saturating_add(15);
    let jitter_ms = (fraction * 10_000.0) as u64 * (u64::from(count) + 1);
    Duration::from_secs(base).saturating_add(Duration::from_millis(jitter_ms))
}

fn exponential_delay(base_ms: u64, cap_ms: u64, count: u32, fraction: f64) -> Duration {
    let factor = 1u64.checked_shl(count).unwrap_or(u64::MAX);
    let whole_ms = base_ms.saturating_mul(factor).min(cap_ms);
    let half_ms = whole_ms / 2;
    Duration::from_millis(half_ms + ((whole_ms - half_ms) as f64 * fraction) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_is_sidekiqs_formula() {
        let delays: Vec<u64> = (1..=4).map(|n| RetryPolicy::Sidekiq.delay(n, 0.0).as_secs()).collect();

        assert_eq!(delays, [15, 16, 31, 96]);
    }

    #[test]
    fn sidekiqs_jitter_grows_with_the_count() {
        assert_eq!(RetryPolicy::Sidekiq.delay(3, 0.5).as_millis(), 31_000 + 15_000);
    }

    #[test]
    fn exponential_doubles_up_to_its_cap_and_keeps_half_as_jitter() {
        let policy = RetryPolicy::Exponential { base_ms: 100, cap_ms: 1_000 };

        assert_eq!(policy.delay(1, 0.0).as_millis(), 50);
        assert_eq!(policy.delay(3, 0.0).as_millis(), 200);
        assert_eq!(policy.delay(500, 0.0).as_millis(), 500);
        assert!(policy.delay(500, 0.999).as_millis() <= 1_000);
    }

    #[test]
    fn a_list_repeats_its_last_delay() {
        let policy = RetryPolicy::List { delays_ms: vec![10, 20] };

        let delays: Vec<u128> = (1..=3).map(|n| policy.delay(n, 0.3).as_millis()).collect();

        assert_eq!(delays, [10, 20, 20]);
    }

    #[test]
    fn no_policy_waits_longer_than_the_limit() {
        for policy in [RetryPolicy::Sidekiq, RetryPolicy::Fixed { delay_ms: u64::MAX }] {
            assert_eq!(policy.delay(u32::MAX, 0.9), DELAY_MAX);
        }
    }
}
