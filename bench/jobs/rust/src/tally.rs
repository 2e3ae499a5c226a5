//! Counts the jobs that were run, with the sum of their numbers, and says so when all were.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub struct Tally {
    wanted: u64,
    count: AtomicU64,
    sum: AtomicU64,
    /// Wall and processor time at the first job.
    start: OnceLock<(Instant, Duration)>,
}

impl Tally {
    pub fn new(wanted: u64) -> Tally {
        Tally { wanted, count: AtomicU64::new(0), sum: AtomicU64::new(0), start: OnceLock::new() }
    }

    /// Starts the clock, unless it runs.
    pub fn begin(&self) {
        self.start.get_or_init(|| (Instant::now(), cpu_time()));
    }

    /// A job was run.
    pub fn add(&self, number: u64) {
        self.begin();
        // ORDER: AcqRel; who counts the last sees all the sums that others added before they counted.
        let sum = self.sum.fetch_add(number, Ordering::AcqRel) + number;
        let count = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        if count == self.wanted {
            self.end(count, self.sum.load(Ordering::Acquire).max(sum));
        }
    }

    /// Stops the clock and says what was counted.
    pub fn end(&self, count: u64, sum: u64) {
        let (since, cpu) = self.start.get().copied().unwrap_or((Instant::now(), Duration::ZERO));
        let (seconds, cpu) = (since.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
        println!(r#"{{"count":{count},"sum":{sum},"seconds":{seconds},"cpu_seconds":{cpu}}}"#);
    }
}

/// Processor time of all threads of this process so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.try_into().unwrap_or_default()
}
