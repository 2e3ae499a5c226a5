//! What a process has used: processor time and memory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Memory and processor time. Where the system does not tell, a field is zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Vitals {
    /// Processor time so far, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Resident memory now.
    pub(super) rss_bytes: u64,
    /// Resident memory at its highest since [`forget_high_water`].
    pub(super) rss_max_bytes: u64,
}

impl Vitals {
    /// Of this process, now.
    pub(super) fn now() -> Vitals {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Vitals {
            cpu_ns: cpu_time().as_nanos() as u64,
            rss_bytes: bytes_in(&status, "VmRSS:"),
            rss_max_bytes: bytes_in(&status, "VmHWM:"),
        }
    }

    /// What was used between `earlier` and this: processor time as a difference, memory as it is now.
    pub(super) fn since(self, earlier: Vitals) -> Vitals {
        Vitals { cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns), ..self }
    }

    /// Both processes together.
    pub(super) fn plus(self, other: Vitals) -> Vitals {
        Vitals {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            rss_bytes: self.rss_bytes + other.rss_bytes,
            rss_max_bytes: self.rss_max_bytes + other.rss_max_bytes,
        }
    }
}

/// Begins a new high-water mark of resident memory, so that each phase of a test has its own.
pub(super) fn forget_high_water() {
    // Where the system cannot do that the mark of the whole process is reported, which is never too low.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn bytes_in(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

#[cfg(unix)]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
fn cpu_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes_and_what_is_missing_is_zero() {
        let status = "VmPeak:\t  9 kB\nVmHWM:\t    6000 kB\nVmRSS:\t    5128 kB\n";

        assert_eq!(bytes_in(status, "VmRSS:"), 5_128 * 1_024);
        assert_eq!(bytes_in(status, "VmSwap:"), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_takes_processor_time() {
        let before = Vitals::now();
        let mut sum = 0_u64;
        while Vitals::now().since(before).cpu_ns < 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }

        assert!(Vitals::now().rss_bytes > 0 && sum > 0);
    }
}
