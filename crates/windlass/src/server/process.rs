//! What a process can say of itself: its memory and its host.

/// Resident memory in bytes, or 0 where the system does not tell it in `/proc`.
pub(crate) fn rss_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/status").ok().and_then(|status| rss_in(&status)).unwrap_or(0)
}

fn rss_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

/// The name of this machine, or `localhost` where the system does not tell it in `/proc`.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(rss_in("VmPeak:\t  9 kB\nVmRSS:\t    5128 kB\nThreads:\t3\n"), Some(5_128 * 1_024));
        assert_eq!(rss_in("Threads:\t3\n"), None);
    }
}
