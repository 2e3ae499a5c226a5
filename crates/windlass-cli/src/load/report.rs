//! What a load test found, for people and for programs.

use std::time::Duration;

use serde::Serialize;

use super::latency::Percentiles;
use super::ledger::Verdict;
use super::meter::Latencies;
use super::vitals::Vitals;
use crate::output;

/// Everything a test found.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    /// The store, without secrets.
    pub(super) store: String,
    pub(super) queue: String,
    pub(super) jobs: u32,
    pub(super) payload_bytes: u32,
    pub(super) concurrency: u32,
    /// Processes of their own that ran the jobs; 0 means that this one did.
    pub(super) processes: u32,
    pub(super) mode: &'static str,
    pub(super) phases: Vec<Phase>,
    /// How long the calls of the pushes took.
    pub(super) push: Option<Percentiles>,
    /// How late the pushes began; in an open loop only.
    pub(super) push_lateness: Option<Percentiles>,
    pub(super) latencies: Vec<Latencies>,
    pub(super) memberships_lost: u64,
    pub(super) outcomes_refused: u64,
    pub(super) was_interrupted: bool,
    pub(super) verdict: Verdict,
    /// Why the first job failed that did.
    pub(super) first_failure: Option<String>,
    /// The verdict of the checker, if a journal was kept.
    pub(super) checker: Option<windlass::checker::Report>,
}

/// A stretch of the test.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) jobs: u64,
    pub(super) seconds: f64,
    pub(super) jobs_per_second: f64,
    pub(super) cpu_seconds: f64,
    /// Of one core.
    pub(super) cpu_percent: f64,
    pub(super) cpu_us_per_job: f64,
    pub(super) rss_bytes: u64,
    pub(super) rss_max_bytes: u64,
}

impl Phase {
    pub(super) fn new(name: String, jobs: u64, elapsed: Duration, used: Vitals) -> Phase {
        let seconds = elapsed.as_secs_f64().max(1e-6);
        let cpu_seconds = used.cpu_ns as f64 / 1e9;
        Phase {
            name,
            jobs,
            seconds,
            jobs_per_second: jobs as f64 / seconds,
            cpu_seconds,
            cpu_percent: cpu_seconds / seconds * 100.0,
            cpu_us_per_job: if jobs == 0 { 0.0 } else { cpu_seconds * 1e6 / jobs as f64 },
            rss_bytes: used.rss_bytes,
            rss_max_bytes: used.rss_max_bytes,
        }
    }

    fn row(&self) -> Vec<String> {
        let per_job = |text: String| if self.jobs == 0 { "–".to_owned() } else { text };
        vec![
            self.name.clone(),
            output::grouped(self.jobs),
            format!("{:.3} s", self.seconds),
            per_job(output::grouped(self.jobs_per_second as u64)),
            format!("{:.2} %", self.cpu_percent),
            per_job(format!("{:.2} µs", self.cpu_us_per_job)),
            output::bytes(self.rss_bytes),
            output::bytes(self.rss_max_bytes),
        ]
    }
}

/// Prints the tables.
pub(super) fn print(findings: &Findings) -> anyhow::Result<()> {
    let header = ["phase", "jobs", "time", "jobs/s", "cpu", "cpu/job", "memory", "at most"];
    output::table(&header, findings.phases.iter().map(Phase::row).collect(), "")?;
    let rows = latency_rows(findings);
    if !rows.is_empty() {
        output::line("")?;
        output::table(&["span", "count", "p50", "p90", "p99", "p99.9", "at most"], rows, "")?;
    }
    output::line("")?;
    verdict_lines(findings).iter().try_for_each(|line| output::line(line))
}

fn latency_rows(findings: &Findings) -> Vec<Vec<String>> {
    let mut spans = vec![("push".to_owned(), findings.push), ("due to push".to_owned(), findings.push_lateness)];
    for Latencies { body, due_to_start, push_to_start, run } in &findings.latencies {
        // Outside an open loop a push is due when it begins.
        spans.push((format!("{body}: due to start"), due_to_start.filter(|_| findings.push_lateness.is_some())));
        spans.push((format!("{body}: push to start"), *push_to_start));
        spans.push((format!("{body}: run"), *run));
    }
    let row = |(name, of): (String, Option<Percentiles>)| of.map(|of| latency_row(name, &of));
    spans.into_iter().filter_map(row).collect()
}

fn latency_row(name: String, of: &Percentiles) -> Vec<String> {
    let spans = [of.p50_us, of.p90_us, of.p99_us, of.p999_us, of.max_us].map(span);
    [name, output::grouped(of.count)].into_iter().chain(spans).collect()
}

/// Three digits, in a fitting unit.
fn span(micros: f64) -> String {
    let (value, unit) = match micros {
        ..1.0 => (micros * 1_000.0, "ns"),
        ..1_000.0 => (micros, "µs"),
        ..1_000_000.0 => (micros / 1_000.0, "ms"),
        _ => (micros / 1_000_000.0, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

fn verdict_lines(findings: &Findings) -> Vec<String> {
    let Verdict { pushed, done, failed, left, lost, duplicated, double_finished, ghosts } = findings.verdict;
    let count = output::grouped;
    let mut lines = vec![format!(
        "{} pushed, {} done once; lost {}, run twice {}, finished twice {}, ghosts {}, failed {}, left {}",
        count(pushed),
        count(done),
        count(lost),
        count(duplicated),
        count(double_finished),
        count(ghosts),
        count(failed),
        count(left)
    )];
    lines.extend(findings.first_failure.iter().map(|why| format!("the first failure: {}", output::printable(why))));
    if findings.memberships_lost + findings.outcomes_refused > 0 {
        let (lost, refused) = (findings.memberships_lost, findings.outcomes_refused);
        lines.push(format!("memberships lost: {lost}; outcomes refused for it: {refused}"));
    }
    if let Some(report) = &findings.checker {
        lines.push(format!("\nthe checker:\n{report}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits_and_a_fitting_unit() {
        let spans = [0.25, 1.5, 12.34, 999.0, 1_500.0, 2_500_000.0].map(span);

        assert_eq!(spans, ["250 ns", "1.50 µs", "12.3 µs", "999 µs", "1.50 ms", "2.50 s"]);
    }

    #[test]
    fn a_phase_without_jobs_has_no_rate() {
        let used = Vitals { cpu_ns: 30_000_000, ..Vitals::default() };
        let phase = Phase::new("idle".to_owned(), 0, Duration::from_secs(60), used);

        assert_eq!((phase.row()[3].as_str(), phase.row()[4].as_str()), ("–", "0.05 %"));
    }
}
