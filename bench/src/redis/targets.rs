//! What jobs through a store set out to reach: rates, as the time that a job may take.

use crate::suite::targets::Limit::AtMost;
use crate::suite::targets::{Figure, Tables, Target};

pub const TARGETS: &[Target] = &[
    Target {
        workload: "redis",
        asked: "drain, concurrency 10: 250,000 jobs/s, µs a job",
        limit: AtMost(4.0),
        figure: |run| reliable(run, "concurrency 10"),
    },
    Target {
        workload: "redis",
        asked: "drain, concurrency 50: 250,000 jobs/s, µs a job",
        limit: AtMost(4.0),
        figure: |run| reliable(run, "concurrency 50"),
    },
    Target {
        workload: "redis",
        asked: "drain, concurrency 100: 250,000 jobs/s, µs a job",
        limit: AtMost(4.0),
        figure: |run| reliable(run, "concurrency 100"),
    },
    Target {
        workload: "redis",
        asked: "drain, concurrency 50: reliable, in the time of at most once",
        limit: AtMost(1.15),
        figure: |run| run.row("concurrency 50", RELIABLE)?.over(run.row("concurrency 50", AT_MOST_ONCE)?),
    },
    Target {
        workload: "redis",
        asked: "enqueue: 500,000 jobs/s, µs a job",
        limit: AtMost(2.0),
        figure: |run| reliable(run, "enqueue"),
    },
];

/// What the rows of windlass on Redis are called.
pub const RELIABLE: &str = "windlass, reliable";
pub const AT_MOST_ONCE: &str = "windlass, at most once";

fn reliable<'a>(run: Tables<'a>, title: &str) -> Option<Figure<'a>> {
    run.row(title, RELIABLE)?.median()
}
