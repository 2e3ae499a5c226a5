//! How a server is set up, and what is said when that cannot work.

use std::time::Duration;

use crate::store::{Keep, LEASE_MAX, LEASE_MIN};

#[cfg(feature = "server")]
pub mod load;

/// A setting that cannot be used, with where it stands and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("config: {field} = {found}{}: {allowed}", origin.as_ref().map(|o| format!(" ({o})")).unwrap_or_default())]
pub struct ConfigError {
    /// The name of the setting.
    pub field: String,
    /// Its value.
    pub found: String,
    /// Where it was set: a file with line and column, a variable, a flag.
    pub origin: Option<String>,
    /// What is allowed.
    pub allowed: String,
}

/// How a server works its queues. Plain fields: start from [`ServerConfig::default`] and change what differs.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// The queues it serves, in order. At least one. Default: `default`.
    pub queues: Vec<QueueConfig>,
    /// How it chooses between queues. Default: by weight.
    pub order: QueueOrder,
    /// Handlers at a time, 1 to 10,000. Default: 100 (async handlers mostly wait).
    pub concurrency: u32,
    /// Threads of the CPU pool, up to 1,024; 0 means as many as the machine has. Default: 0.
    pub cpu_threads: u32,
    /// How long the process stays a member without a beat, 1 s to 24 h. Default: 15 s. Shorter recovers crashes
    /// sooner, and loses the membership of a process that stands still for as long.
    pub lease: Duration,
    /// The longest time between two looks for due or ready jobs, 10 ms to 60 s. Default: 1 s.
    pub poll_interval: Duration,
    /// How long a stop waits for running jobs, up to 24 h. Default: 25 s (less than what service managers wait).
    pub stop_timeout: Duration,
    /// How long a handler that was told to give way may take, up to 1 h. Default: 2 s.
    pub cancel_grace: Duration,
    /// The longest a run may take when its job says nothing, 1 ms or more. Default: no limit.
    pub job_timeout: Option<Duration>,
    /// A handler that blocks the I/O runtime for longer is warned about, 1 ms or more. Default: 50 ms.
    pub block_warning: Duration,
    /// The most jobs leased ahead while jobs are short, up to 5,000. Default: 1,000.
    pub prefetch_max: u32,
    /// How long ended jobs are kept.
    pub keep: Keep,
}

/// One queue a server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its name.
    pub name: String,
    /// Its share under [`QueueOrder::Weighted`], 1 to 1,000. Default: 1.
    pub weight: u32,
    /// Whether its jobs must never run twice. Default: false.
    pub at_most_once: bool,
}

/// How a server chooses between queues that all hold jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// The first queue first, as long as it holds jobs. The others may starve.
    Strict,
    /// By weight.
    #[default]
    Weighted,
    /// All alike.
    Fair,
}

/// What jobs of the program's own kinds may do. Nothing, by default: whoever may enqueue could run or reach it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allow {
    /// Programs that `exec` jobs may run: absolute paths, or names that are looked up once at the start.
    pub exec: Vec<String>,
    /// Whether `exec` jobs may run any program, anywhere, with any environment. Default: false.
    pub exec_any: bool,
    /// Folders in or below which `exec` jobs may choose to run.
    pub exec_cwd: Vec<String>,
    /// Variables that `exec` jobs may set for their program.
    pub exec_env: Vec<String>,
    /// Hosts, or beginnings of URLs, that `http` jobs may post to.
    pub http: Vec<String>,
}

#[cfg(feature = "server")]
impl QueueOrder {
    /// The share of a queue as others are told it: 0 where the first queue goes before the others.
    pub(crate) fn share_of(self, queue: &QueueConfig) -> u32 {
        match self {
            QueueOrder::Strict => 0,
            QueueOrder::Weighted => queue.weight,
            QueueOrder::Fair => 1,
        }
    }
}

impl QueueConfig {
    /// A queue of weight 1.
    pub fn new(name: impl Into<String>) -> QueueConfig {
        QueueConfig { name: name.into(), weight: 1, at_most_once: false }
    }
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            queues: vec![QueueConfig::new(crate::job::QUEUE_DEFAULT)],
            order: QueueOrder::Weighted,
            concurrency: 100,
            cpu_threads: 0,
            lease: Duration::from_secs(15),
            poll_interval: Duration::from_secs(1),
            stop_timeout: Duration::from_secs(25),
            cancel_grace: Duration::from_secs(2),
            job_timeout: None,
            block_warning: Duration::from_millis(50),
            prefetch_max: 1_000,
            keep: Keep::default(),
        }
    }
}

impl ServerConfig {
    /// Checks every range.
    ///
    /// # Errors
    /// [`ConfigError`] names the field, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_queues()?;
        let second = Duration::from_secs(1);
        let day = 24 * 60 * 60 * second;
        within("concurrency", self.concurrency, 1, 10_000)?;
        within("cpu_threads", self.cpu_threads, 0, 1_024)?;
        within("prefetch_max", self.prefetch_max, 0, 5_000)?;
        span_within("lease", self.lease, LEASE_MIN, LEASE_MAX)?;
        span_within("poll_interval", self.poll_interval, Duration::from_millis(10), 60 * second)?;
        span_within("stop_timeout", self.stop_timeout, Duration::ZERO, day)?;
        span_within("cancel_grace", self.cancel_grace, Duration::ZERO, 3_600 * second)?;
        span_within("block_warning", self.block_warning, Duration::from_millis(1), day)?;
        if let Some(timeout) = self.job_timeout {
            span_within("job_timeout", timeout, Duration::from_millis(1), Duration::MAX)?;
        }
        Ok(())
    }

    fn validate_queues(&self) -> Result<(), ConfigError> {
        if self.queues.is_empty() {
            return Err(error("queues", "none".to_owned(), "must name at least one queue".to_owned()));
        }
        for (index, queue) in self.queues.iter().enumerate() {
            crate::job::check_name("queue", &queue.name)
                .map_err(|invalid| error("queues", format!("{:?}", queue.name), invalid.to_string()))?;
            within("queues.weight", queue.weight, 1, 1_000)?;
            if self.queues[..index].iter().any(|other| other.name == queue.name) {
                let allowed = "must name each queue once".to_owned();
                return Err(error("queues", format!("{:?} twice", queue.name), allowed));
            }
        }
        Ok(())
    }
}

fn error(field: &str, found: String, allowed: String) -> ConfigError {
    ConfigError { field: field.to_owned(), found, origin: None, allowed }
}

fn within(field: &str, found: u32, min: u32, max: u32) -> Result<(), ConfigError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(error(field, found.to_string(), format!("must be between {min} and {max}")))
}

fn span_within(field: &str, found: Duration, min: Duration, max: Duration) -> Result<(), ConfigError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(error(field, format!("{found:?}"), format!("must be between {min:?} and {max:?}")))
}

/// Reads a span of time: numbers with the units `ms`, `s`, `m`, `h`, `d`, such as `250ms`, `90s` or `1h30m`.
///
/// # Errors
/// What was found and what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let unreadable =
        || format!("{text:?} is no span of time: expected a number with ms, s, m, h or d, such as 90s or 1h30m");
    if text.is_empty() {
        return Err(unreadable());
    }
    let (mut rest, mut total_ms) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(unreadable)?;
        let number: u64 = rest[..digits].parse().map_err(|_| unreadable())?;
        rest = &rest[digits..];
        let unit_len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit_ms: u64 = match &rest[..unit_len] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(unreadable()),
        };
        rest = &rest[unit_len..];
        total_ms = number.checked_mul(unit_ms).and_then(|ms| total_ms.checked_add(ms)).ok_or_else(unreadable)?;
    }
    Ok(Duration::from_millis(total_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(ServerConfig::default().validate(), Ok(()));
    }

    #[test]
    fn each_range_is_checked_and_named() {
        let default = ServerConfig::default;
        for (config, field) in [
            (ServerConfig { concurrency: 0, ..default() }, "concurrency"),
            (ServerConfig { lease: Duration::from_millis(999), ..default() }, "lease"),
            (ServerConfig { poll_interval: Duration::ZERO, ..default() }, "poll_interval"),
            (ServerConfig { prefetch_max: 5_001, ..default() }, "prefetch_max"),
            (ServerConfig { job_timeout: Some(Duration::ZERO), ..default() }, "job_timeout"),
            (ServerConfig { queues: Vec::new(), ..default() }, "queues"),
            (ServerConfig { queues: vec![QueueConfig::new("no space")], ..default() }, "queues"),
        ] {
            assert_eq!(config.validate().unwrap_err().field, field);
        }
    }

    #[test]
    fn spans_are_numbers_with_units() {
        let spans = [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("3d", 259_200_000), ("0s", 0)];
        for (text, ms) in spans {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "s", "5 s", "-5s", "1.5h", "5x", "5s3", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
