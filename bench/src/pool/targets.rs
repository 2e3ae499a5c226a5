//! What the pool set out to reach, beside what this run found.
//!
//! A target is a limit for a figure that is computed from the tables: a time, or a ratio to a peer of the same run.
//! Where a table has several rows of the pool, the fastest of them counts, and the verdict names it. Ratios mean the
//! same everywhere; times were set for the machine that the project is built on.

use serde::Serialize;

use super::measure::{Role, Row, Table};
use crate::report::grouped;
use Limit::{AtLeast, AtMost};

/// What is asked of a figure.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// A figure, and the row of the pool that it comes from.
struct Figure<'a> {
    value: f64,
    row: &'a Row,
}

struct Target {
    workload: &'static str,
    /// What is asked, with its unit.
    asked: &'static str,
    limit: Limit,
    figure: fn(Tables<'_>) -> Option<Figure<'_>>,
}

const TARGETS: &[Target] = &[
    Target {
        workload: "fib",
        asked: "fib(35), 1 thread: ns for a fork over the plain call",
        limit: AtMost(1.8),
        figure: |run| run.ours("1 thread").and_then(|row| Some(Figure { value: row.extra?, row })),
    },
    Target {
        workload: "fib",
        asked: "fib(35), 2 threads: time, in chili's",
        limit: AtMost(1.0),
        figure: |run| run.ours("2 threads")?.over(run.peer("2 threads", "chili")?),
    },
    Target {
        workload: "fib",
        asked: "fib(35), 2 threads: times as fast as rayon",
        limit: AtLeast(3.5),
        figure: |run| run.ours("2 threads")?.speed_of(run.peer("2 threads", "rayon")?),
    },
    Target {
        workload: "tree",
        asked: "tree of 1,023 nodes, 2 threads: µs",
        limit: AtMost(2.6),
        figure: |run| run.ours("1,023 nodes, whole, 2 threads")?.median(),
    },
    Target {
        workload: "tree",
        asked: "tree of 2²⁴ nodes, 2 threads: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("2²⁴ nodes, whole, 2 threads")?.to_best_peer(),
    },
    Target {
        workload: "coarse",
        asked: "join(10 ms, 10 ms) from cold: ms",
        limit: AtMost(10.3),
        figure: |run| run.ours("ideal 10")?.median(),
    },
    Target {
        workload: "coarse",
        asked: "four uneven pieces from cold: time, in the ideal 16 ms",
        limit: AtMost(1.05),
        figure: |run| run.ours("ideal 16").map(|row| Figure { value: row.median / 16.0, row }),
    },
    Target {
        workload: "pool_fib",
        asked: "fib(25), a new pool: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("inside the timed part")?.to_best_peer(),
    },
    Target {
        workload: "pool_fib",
        asked: "fib(25), two tasks a call: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("fib(25), two tasks per call, per call")?.to_best_peer(),
    },
    Target {
        workload: "pool_fib",
        asked: "fib(28), two tasks a call: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("fib(28), two tasks per call, per call")?.to_best_peer(),
    },
    Target {
        workload: "pool_fib",
        asked: "fib(30), two tasks a call: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("fib(30), two tasks per call, per call")?.to_best_peer(),
    },
    Target {
        workload: "pool_fib",
        // Taskflow 4.1, its task group on the build machine, 2026-11: it is not part of this run.
        asked: "fib(28), two tasks a call: ns a call, what Taskflow takes",
        limit: AtMost(35.0),
        figure: |run| run.ours("fib(28), two tasks per call, per call")?.median(),
    },
    Target {
        workload: "flat",
        asked: "2,047 tasks: µs for all of them",
        limit: AtMost(30.0),
        figure: |run| run.ours("2 047 empty").map(|row| Figure { value: row.median * 2_047.0 / 1_000.0, row }),
    },
    Target {
        workload: "flat",
        asked: "10⁵ tasks: ns each",
        limit: AtMost(20.0),
        figure: |run| run.ours("100 000 empty")?.median(),
    },
    Target {
        workload: "flat",
        asked: "10⁶ tasks: ns each",
        limit: AtMost(20.0),
        figure: |run| run.ours("1 000 000 empty")?.median(),
    },
    Target {
        workload: "ordered",
        asked: "one task after the other: ns each",
        limit: AtMost(20.0),
        figure: |run| run.ours("one task and wait")?.median(),
    },
    Target {
        workload: "one",
        asked: "one task, cold, which the waiter may run: µs",
        limit: AtMost(0.3),
        figure: |run| run.ours("2 ms after the last")?.median(),
    },
    Target {
        workload: "one",
        asked: "wait_blocking, hot: time, in that of raw park and unpark",
        limit: AtMost(1.1),
        figure: |run| run.blocking("back to back, 2 threads"),
    },
    Target {
        workload: "one",
        asked: "wait_blocking, hot, on one core: the same",
        limit: AtMost(1.1),
        figure: |run| run.blocking("all on one core"),
    },
    Target {
        workload: "one",
        asked: "wait_blocking, cold: the same",
        limit: AtMost(1.1),
        figure: |run| run.blocking("2 ms after the last"),
    },
    Target {
        workload: "adds",
        asked: "adds: throughput with 32 threads, in that with 2",
        limit: AtLeast(0.9),
        figure: |run| run.ours("outside, 32 threads")?.speed_of(run.ours("outside, 2 threads")?),
    },
    Target {
        workload: "adds",
        asked: "adds, 32 threads: times as fast as a mutex pool",
        limit: AtLeast(10.0),
        figure: |run| run.ours("outside, 32 threads")?.speed_of(run.peer("outside, 32 threads", "mutex")?),
    },
    Target {
        workload: "crowd",
        asked: "empty tasks, 64 threads and 2 neighbours: % of 2 threads there",
        limit: AtLeast(80.0),
        figure: |run| run.crowd("empty tasks", "windlass, 2 threads, 2 neighbours"),
    },
    Target {
        workload: "crowd",
        asked: "empty tasks, 64 threads and 2 neighbours: % of 2 threads alone",
        limit: AtLeast(80.0),
        figure: |run| run.crowd("empty tasks", "windlass, 2 threads"),
    },
    Target {
        workload: "crowd",
        asked: "adds, 64 threads and 2 neighbours: % of 2 threads there",
        limit: AtLeast(80.0),
        figure: |run| run.crowd("100 adds", "windlass, 2 threads, 2 neighbours"),
    },
    Target {
        workload: "crowd",
        asked: "adds, 64 threads and 2 neighbours: % of 2 threads alone",
        limit: AtLeast(80.0),
        figure: |run| run.crowd("100 adds", "windlass, 2 threads"),
    },
    Target {
        workload: "idle",
        // Two clocks are read one after the other: a few µs are theirs.
        asked: "idle: % of a processor",
        limit: AtMost(0.01),
        figure: |run| {
            run.ours("processor time in a second, nothing").map(|row| Figure { value: row.median / 10.0, row })
        },
    },
    Target {
        workload: "idle",
        asked: "idle: turns of a thread in a second, without which no system call",
        limit: AtMost(0.0),
        figure: |run| run.ours("turns of the pool's threads")?.median(),
    },
];

/// The tables of one workload.
#[derive(Clone, Copy)]
struct Tables<'a> {
    all: &'a [Table],
    workload: &'a str,
}

impl<'a> Tables<'a> {
    /// The rows of the first table whose title holds the words.
    fn rows(self, title: &str) -> &'a [Row] {
        let is_wanted = |table: &&Table| table.workload == self.workload && table.title.contains(title);
        self.all.iter().find(is_wanted).map_or(&[], |table| &table.rows)
    }

    /// The pool's fastest row in a table.
    fn ours(self, title: &str) -> Option<&'a Row> {
        let ours = self.rows(title).iter().filter(|row| row.role == Role::Windlass);
        ours.min_by(|a, b| a.median.total_cmp(&b.median))
    }

    fn peer(self, title: &str, name: &str) -> Option<&'a Row> {
        self.rows(title).iter().find(|row| row.role == Role::Peer && row.name.starts_with(name))
    }

    /// The time of a task that a worker must run, in that of a thread which is only woken.
    fn blocking(self, title: &str) -> Option<Figure<'a>> {
        let row = |name| self.rows(title).iter().find(|row| row.name == name);
        row("windlass spawn + wait_blocking")?.over(row("raw park and unpark")?)
    }

    /// The throughput of many threads among neighbours, in percent of that in other conditions.
    fn crowd(self, title: &str, other: &str) -> Option<Figure<'a>> {
        let row = |name| self.rows(title).iter().find(|row| row.name == name);
        let figure = row("windlass, 64 threads, 2 neighbours")?.speed_of(row(other)?)?;
        Some(Figure { value: figure.value * 100.0, ..figure })
    }
}

impl Row {
    fn median(&self) -> Option<Figure<'_>> {
        Some(Figure { value: self.median, row: self })
    }

    fn to_best_peer(&self) -> Option<Figure<'_>> {
        Some(Figure { value: self.ratio?, row: self })
    }

    /// This row's time, in another's.
    fn over(&self, other: &Row) -> Option<Figure<'_>> {
        Some(Figure { value: self.median / other.median, row: self })
    }

    /// How many times as fast as another this row is.
    fn speed_of(&self, other: &Row) -> Option<Figure<'_>> {
        Some(Figure { value: other.median / self.median, row: self })
    }
}

/// What became of a target.
#[derive(Debug, Serialize)]
pub struct Verdict {
    asked: &'static str,
    limit: String,
    /// `None` if the run was a short one, which leaves the table out.
    found: Option<f64>,
    pub is_met: Option<bool>,
    /// The row that was judged.
    row: Option<String>,
    /// That row's ratio to the fastest peer.
    to_peer: Option<f64>,
}

/// Judges the targets of the workloads that were run.
pub fn judge(tables: &[Table]) -> Vec<Verdict> {
    let was_run = |target: &&Target| tables.iter().any(|table| table.workload == target.workload);
    TARGETS.iter().filter(was_run).map(|target| judge_one(target, tables)).collect()
}

fn judge_one(target: &Target, tables: &[Table]) -> Verdict {
    let figure = (target.figure)(Tables { all: tables, workload: target.workload });
    Verdict {
        asked: target.asked,
        limit: target.limit.words(),
        found: figure.as_ref().map(|figure| figure.value),
        is_met: figure.as_ref().map(|figure| target.limit.holds(figure.value)),
        row: figure.as_ref().map(|figure| figure.row.name.clone()),
        to_peer: figure.and_then(|figure| figure.row.ratio),
    }
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            AtMost(limit) => value <= limit,
            AtLeast(limit) => value >= limit,
        }
    }

    fn words(self) -> String {
        match self {
            AtMost(limit) => format!("≤ {}", grouped(limit)),
            AtLeast(limit) => format!("≥ {}", grouped(limit)),
        }
    }
}

impl Verdict {
    /// A line of the list.
    pub fn words(&self) -> String {
        let outcome = match self.is_met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not run",
        };
        let found = self.found.map(grouped).unwrap_or_default();
        let ratio = self.to_peer.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let row = self.row.as_deref().unwrap_or_default();
        format!("{outcome:<8} {:<68} {:>8} {found:>9}   {row:<40} {ratio:>6}", self.asked, self.limit)
    }
}
