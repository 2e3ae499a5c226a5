//! What `doctor` reports of a server.

use redis::cmd;

use crate::clock::Stopwatch;
use crate::error::StoreError;
use crate::store::redis::address::Durability;
use crate::store::redis::engine::Engine;
use crate::store::redis::values;
use crate::store::{Finding, Severity};

/// A clock that differs by more than this from ours is worth a word: leases and schedules go by the server's.
const OFFSET_MS_MAX: i64 = 1_000;

impl Engine {
    pub(super) async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        let watch = Stopwatch::start();
        self.work.query("check", &cmd("PING")).await?;
        let round_trip = watch.elapsed();
        let server = self.work.server("check").await?;
        let info = values::text("check", self.work.query("check", &cmd("INFO")).await?)?;
        let says = |name: &str| {
            let named = |line: &str| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).map(str::to_owned);
            info.lines().find_map(named).unwrap_or_default()
        };
        let offset_ms = server.clock_offset_ms;
        let offset = format!("{offset_ms} ms ahead of this machine's");
        let clock = if offset_ms.abs() > OFFSET_MS_MAX { warning("clock", offset) } else { good("clock", offset) };
        Ok(vec![
            good("server", format!("{} at {}", version(&says), self.address.to_url())),
            good("round trip", format!("{} µs", round_trip.as_micros())),
            clock,
            eviction(&says("maxmemory_policy"), &says("maxmemory")),
            persistence(&says("aof_enabled"), &says("rdb_changes_since_last_save"), &says("aof_last_write_status")),
            self.replication(&says("connected_slaves")),
            self.layout(&says("redis_mode")),
        ])
    }

    fn replication(&self, replicas: &str) -> Finding {
        let detail = format!("{replicas} replicas");
        match self.address.durability {
            Durability::Replicated(wanted) if replicas.parse().unwrap_or(0) < u32::from(wanted) => {
                let detail = format!("{detail}, and durability=replicated:{wanted} asks for more: no job is accepted");
                Finding { severity: Severity::Problem, subject: "replication", detail }
            }
            _ => good("replication", detail),
        }
    }

    fn layout(&self, mode: &str) -> Finding {
        if mode == "cluster" && !self.address.has_one_slot() {
            let detail = "a cluster needs a namespace with a tag, such as ?namespace={app}".to_owned();
            return Finding { severity: Severity::Problem, subject: "layout", detail };
        }
        let namespace = self.address.namespace.as_deref().unwrap_or("none");
        good("layout", format!("namespace {namespace}, {mode}"))
    }
}

fn version(says: &impl Fn(&str) -> String) -> String {
    match says("valkey_version").as_str() {
        "" => format!("Redis {}", says("redis_version")),
        valkey => format!("Valkey {valkey}"),
    }
}

fn eviction(policy: &str, max_bytes: &str) -> Finding {
    if policy == "noeviction" || policy.is_empty() {
        return good("memory", format!("maxmemory {max_bytes}, noeviction"));
    }
    // Without a limit nothing is evicted now, but the first limit that somebody sets would.
    let severity = if max_bytes == "0" { Severity::Warning } else { Severity::Problem };
    let detail =
        format!("the server throws jobs away when its memory is full ({policy}): set maxmemory-policy noeviction");
    Finding { severity, subject: "memory", detail }
}

fn persistence(aof: &str, unsaved: &str, last_write: &str) -> Finding {
    if aof == "1" && last_write == "err" {
        let detail = "the append-only file could not be written: check the server's disk".to_owned();
        return Finding { severity: Severity::Problem, subject: "persistence", detail };
    }
    if aof == "1" {
        return good("persistence", "append-only file".to_owned());
    }
    let detail = format!("no append-only file: a crash of the server loses what is not saved ({unsaved} changes now)");
    warning("persistence", detail)
}

fn good(subject: &'static str, detail: String) -> Finding {
    Finding { severity: Severity::Good, subject, detail }
}

fn warning(subject: &'static str, detail: String) -> Finding {
    Finding { severity: Severity::Warning, subject, detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_throws_jobs_away_is_a_problem() {
        assert_eq!(eviction("noeviction", "0").severity, Severity::Good);
        assert_eq!(eviction("allkeys-lru", "0").severity, Severity::Warning);
        assert_eq!(eviction("allkeys-lru", "1000").severity, Severity::Problem);
    }

    #[test]
    fn what_a_crash_would_lose_is_said() {
        assert_eq!(persistence("1", "", "ok").severity, Severity::Good);
        assert_eq!(persistence("0", "7", "ok").severity, Severity::Warning);
        assert_eq!(persistence("1", "", "err").severity, Severity::Problem);
    }
}
