//! What time it is, and who says so.
//!
//! Every instant of the durable engine is a [`Timestamp`]: milliseconds since the Unix epoch, UTC. Nothing in
//! this crate asks the operating system for the time except [`SystemClock`]; everything else is handed a
//! [`Clock`], or an instant. A store owns the clock by which leases, schedules and expiry are judged, so that
//! programs with different ideas of the time still agree about every job.
//!
//! [`SystemClock`] never runs backwards. It follows the wall clock when that moves ahead (a resumed laptop, a
//! correction) and goes on by the monotonic clock when the wall clock is set back, so that a step of a day
//! cannot stretch a lease by a day. [`ManualClock`] moves only when a test says so.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// An instant in UTC, in whole milliseconds since 1970-01-01T00:00:00Z.
///
/// Valid from year −9999 to 9999 for display; arithmetic saturates at the ends of `i64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch, 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp(0);
    /// The farthest instant; "never" where an instant is required.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// Makes an instant from milliseconds since the epoch.
    pub const fn from_millis(ms: i64) -> Timestamp {
        Timestamp(ms)
    }

    /// Milliseconds since the epoch; negative before it.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// How long ago `earlier` was, or zero if it lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, delay: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(delay)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, delay: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(delay)))
    }
}

/// RFC 3339 in UTC with milliseconds, as in `2026-11-21T12:00:30.000Z`; an instant outside the years that
/// RFC 3339 knows is shown as its number of milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(millis(after)),
            Err(before) => Timestamp(millis(before.duration()).saturating_neg()),
        }
    }
}

fn millis(delay: Duration) -> i64 {
    i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)
}

/// A source of the current time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The current instant. Never earlier than an instant this clock has answered before.
    fn now(&self) -> Timestamp;
}

/// The machine's wall clock, kept from running backwards.
#[derive(Debug)]
pub struct SystemClock {
    anchor: Mutex<Anchor>,
}

/// The last instant answered, and the monotonic reading that goes with it.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    answered: Timestamp,
    at: Instant,
}

impl SystemClock {
    /// Starts a clock at the machine's present time.
    pub fn new() -> SystemClock {
        let anchor = Anchor { answered: SystemTime::now().into(), at: Instant::now() };
        SystemClock { anchor: Mutex::new(anchor) }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A poisoned lock still guards a valid pair: it is replaced in one assignment.
        let mut anchor = self.anchor.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let elapsed = anchor.at.elapsed();
        let now = Timestamp::from(SystemTime::now());
        let answer = next_answer(anchor.answered, elapsed, now);
        // The anchor moves only by whole milliseconds, so that fractions are not lost at every call.
        if answer > anchor.answered {
            *anchor = Anchor { answered: answer, at: Instant::now() };
        }
        answer
    }
}

/// The wall clock where it leads, monotonic progress where the wall clock was set back.
fn next_answer(answered: Timestamp, elapsed: Duration, wall: Timestamp) -> Timestamp {
    // A wall clock that lags by no more than a tick of rounding is not a step back.
    const ROUNDING: Duration = Duration::from_millis(2);
    if wall + ROUNDING >= answered + elapsed { wall.max(answered) } else { answered + elapsed }
}

/// Measures how long something took, by the monotonic clock. For rates and warnings inside one process; what is
/// stored or compared between processes is a [`Timestamp`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

#[cfg_attr(not(any(feature = "server", feature = "redis")), allow(dead_code, reason = "not every build measures"))]
impl Stopwatch {
    /// Starts at zero.
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicI64,
}

impl ManualClock {
    /// Starts at `now`.
    pub fn new(now: Timestamp) -> ManualClock {
        ManualClock { now: AtomicI64::new(now.as_millis()) }
    }

    /// Moves ahead by `delay` and returns the new instant.
    pub fn advance(&self, delay: Duration) -> Timestamp {
        let before = self.now.fetch_add(millis(delay), Ordering::SeqCst);
        Timestamp(before.saturating_add(millis(delay)))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_shown_in_rfc_3339_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(1_500).to_string(), "1970-01-01T00:00:01.500Z");
    }

    #[test]
    fn an_instant_beyond_the_calendar_is_shown_as_its_number() {
        assert_eq!(Timestamp::MAX.to_string(), format!("{} ms", i64::MAX));
    }

    #[test]
    fn arithmetic_saturates_at_the_ends() {
        assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
    }

    #[test]
    fn a_wall_clock_set_back_does_not_set_the_clock_back() {
        let answered = Timestamp::from_millis(100_000_000);
        let wall = answered - Duration::from_secs(86_400);

        let answer = next_answer(answered, Duration::from_secs(7), wall);

        assert_eq!(answer, answered + Duration::from_secs(7));
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_is_followed() {
        let answered = Timestamp::from_millis(100_000_000);
        let wall = answered + Duration::from_secs(3_600);

        assert_eq!(next_answer(answered, Duration::from_secs(1), wall), wall);
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::EPOCH);

        clock.advance(Duration::from_millis(250));

        assert_eq!(clock.now(), Timestamp::from_millis(250));
    }
}
