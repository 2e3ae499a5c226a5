//! What the pool set out to reach with tasks.

use crate::suite::targets::Limit::{AtLeast, AtMost};
use crate::suite::targets::{Figure, Tables, Target};

pub const TARGETS: &[Target] = &[
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
        figure: |run| blocking(run, "back to back, 2 threads"),
    },
    Target {
        workload: "one",
        asked: "wait_blocking, hot, on one core: the same",
        limit: AtMost(1.1),
        figure: |run| blocking(run, "all on one core"),
    },
    Target {
        workload: "one",
        asked: "wait_blocking, cold: the same",
        limit: AtMost(1.1),
        figure: |run| blocking(run, "2 ms after the last"),
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
        figure: |run| crowd(run, "empty tasks", "windlass, 2 threads, 2 neighbours"),
    },
    Target {
        workload: "crowd",
        asked: "empty tasks, 64 threads and 2 neighbours: % of 2 threads alone",
        limit: AtLeast(80.0),
        figure: |run| crowd(run, "empty tasks", "windlass, 2 threads"),
    },
    Target {
        workload: "crowd",
        asked: "adds, 64 threads and 2 neighbours: % of 2 threads there",
        limit: AtLeast(80.0),
        figure: |run| crowd(run, "100 adds", "windlass, 2 threads, 2 neighbours"),
    },
    Target {
        workload: "crowd",
        asked: "adds, 64 threads and 2 neighbours: % of 2 threads alone",
        limit: AtLeast(80.0),
        figure: |run| crowd(run, "100 adds", "windlass, 2 threads"),
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

/// The time of a task that a worker must run, in that of a thread which is only woken.
fn blocking<'a>(run: Tables<'a>, title: &str) -> Option<Figure<'a>> {
    run.row(title, "windlass spawn + wait_blocking")?.over(run.row(title, "raw park and unpark")?)
}

/// The throughput of many threads among neighbours, in percent of that in other conditions.
fn crowd<'a>(run: Tables<'a>, title: &str, other: &str) -> Option<Figure<'a>> {
    let figure = run.row(title, "windlass, 64 threads, 2 neighbours")?.speed_of(run.row(title, other)?)?;
    Some(Figure { value: figure.value * 100.0, ..figure })
}
