//! What must be known of the machine, the day and the versions to read a figure.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::measure::{child_time, cpu_time};

/// The peers whose versions are written down, as the lock file names them.
const PEERS: &[&str] = &[
    "burst-pool",
    "chili",
    "crossbeam-channel",
    "dag_exec",
    "forte",
    "rayon",
    "rayon-core",
    "scoped_threadpool",
    "threadpool",
    "tokio",
];

const LOCK: &str = include_str!("../../Cargo.lock");

#[derive(Debug, Serialize)]
pub struct Host {
    pub cores: usize,
    pub cpu: String,
    /// The control group's limit of processor time, if there is one.
    pub quota: Option<String>,
    pub kernel: String,
    pub rustc: String,
    pub date: String,
    pub commit: String,
    /// Before the run: 1, 5 and 15 minutes.
    pub load: String,
    pub peers: Vec<Peer>,
}

#[derive(Debug, Serialize)]
pub struct Peer {
    name: &'static str,
    version: String,
}

impl Host {
    pub fn read() -> Host {
        Host {
            cores: *CORES,
            cpu: cpu_model(),
            quota: quota(),
            kernel: text_of("/proc/sys/kernel/osrelease").unwrap_or_default(),
            rustc: said_by("rustc", &["--version"]),
            date: said_by("date", &["-u", "+%FT%TZ"]),
            commit: said_by("git", &["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty"]),
            load: text_of("/proc/loadavg").unwrap_or_default(),
            peers: PEERS.iter().map(|name| Peer { name, version: locked_version(LOCK, name) }).collect(),
        }
    }

    /// For the head of the output.
    pub fn words(&self) -> String {
        let peers: Vec<String> = self.peers.iter().map(|peer| format!("{} {}", peer.name, peer.version)).collect();
        format!(
            "{} · {} cores · {} · quota {} · Linux {} · {}\ncommit {} · load before {}\n{}",
            self.date,
            self.cores,
            self.cpu,
            self.quota.as_deref().unwrap_or("none"),
            self.kernel,
            self.rustc,
            self.commit,
            self.load,
            peers.join(" · ")
        )
    }
}

/// Cores this process may use, before anything is tied to one of them.
static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, Into::into));

/// Watches what other processes take of the machine while something is measured.
pub struct Noise {
    since: Instant,
    /// Processor time of all processes but this one.
    others: Duration,
}

impl Noise {
    pub fn start() -> Noise {
        Noise { since: Instant::now(), others: others_time() }
    }

    /// Percent of all cores. A crowd's neighbours are others, too.
    pub fn percent(&self) -> f64 {
        self.percent_without(Duration::ZERO)
    }

    /// As [`Noise::percent`], without the processor time of other processes that are part of what is measured.
    pub fn percent_without(&self, known: Duration) -> f64 {
        let used = others_time().saturating_sub(self.others).saturating_sub(known);
        used.as_secs_f64() / self.since.elapsed().as_secs_f64() / *CORES as f64 * 100.0
    }
}

fn others_time() -> Duration {
    busy_time().saturating_sub(cpu_time() + child_time())
}

/// Processor time of the children of this process that have ended, and of theirs.
pub fn children_time() -> Duration {
    stat_time("/proc/self/stat", 13)
}

/// Processor time of another process so far.
pub fn cpu_time_of(id: u32) -> Duration {
    stat_time(&format!("/proc/{id}/stat"), 11)
}

/// The sum of a time in the program and a time in the system, which stand side by side at `place` after the name.
fn stat_time(path: &str, place: usize) -> Duration {
    let stat = text_of(path).unwrap_or_default();
    // The name, in brackets, may hold spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(place).take(2).map(|ticks| TICK * ticks.parse().unwrap_or(0)).sum()
}

/// In which the system counts processor time.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of everybody since the machine started, what its host took from it included.
fn busy_time() -> Duration {
    let stat = text_of("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u32> = first.split_whitespace().skip(1).map(|ticks| ticks.parse().unwrap_or(0)).collect();
    match ticks[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] => {
            TICK * (user + nice + system + irq + softirq + steal)
        }
        _ => Duration::ZERO,
    }
}

fn cpu_model() -> String {
    let info = text_of("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split(':').nth(1)).map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

fn quota() -> Option<String> {
    let limit = text_of("/sys/fs/cgroup/cpu.max").or_else(|| text_of("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))?;
    (!limit.starts_with("max") && !limit.starts_with("-1")).then_some(limit)
}

fn text_of(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    said.map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The version of a crate in a lock file.
pub fn locked_version(lock: &str, name: &str) -> String {
    let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("name = \"{name}\"\n")));
    let line = entry.and_then(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")));
    line.map_or_else(|| "unknown".to_owned(), |version| version.trim_matches('"').to_owned())
}
