//! Time under shuttle: between two readings of the clock passes what chance says.
//!
//! The pool decides by the clock whether a wake was worth its price, and whether forks come fast. Real time would decide
//! the same way in nearly every schedule, and another way when a failure is replayed. This clock takes its chances from
//! the schedule: so both ways are taken, and the same ones again in a replay.

use std::cell::Cell;
use std::ops::AddAssign;
use std::time::Duration;

use shuttle::rand::{Rng as _, thread_rng};

/// Twice what a wake must be worth (`sleep.rs`), so that about half of them are.
const STEP_NS_MAX: u64 = 30_000;

std::thread_local! {
    /// Nanoseconds. A schedule runs on one thread, and only differences are asked for.
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

/// A moment on that clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Instant {
        let step = thread_rng().gen_range(0..STEP_NS_MAX);
        NOW_NS.set(NOW_NS.get() + step);
        Instant(Duration::from_nanos(NOW_NS.get()))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Instant::now().duration_since(self)
    }

    pub(crate) fn duration_since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn saturating_duration_since(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }

    pub(crate) fn checked_add(self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}
