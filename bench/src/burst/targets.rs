//! What bursts set out to reach.

use crate::suite::targets::Limit::AtMost;
use crate::suite::targets::{Figure, Tables, Target};

/// The row that is judged.
const OURS: &str = "windlass send_all";
const RAW: &str = "raw loop of unparks";

pub const TARGETS: &[Target] = &[
    Target {
        workload: "short",
        asked: "10 short items to 10 sleepers: mean µs, where the raw loop takes 39",
        limit: AtMost(12.0),
        figure: |run| mean(run, "10 short", OURS),
    },
    Target {
        workload: "short",
        asked: "10 short items to 10 sleepers: p99 µs, likewise",
        limit: AtMost(35.0),
        figure: |run| run.row("10 short", OURS).map(|row| Figure { value: row.tail, row }),
    },
    Target {
        workload: "short",
        asked: "10 short items to 10 sleepers: mean, in that of the raw loop",
        limit: AtMost(0.31),
        figure: |run| to_raw(run, "10 short", mean),
    },
    Target {
        workload: "holding",
        asked: "10 items that hold 10 threads: mean, in that of the raw loop",
        limit: AtMost(1.05),
        figure: |run| to_raw(run, "10 items that hold", mean),
    },
    Target {
        workload: "holding",
        asked: "10 items that hold 10 threads: p80, in that of the raw loop",
        limit: AtMost(1.05),
        figure: |run| to_raw(run, "10 items that hold", p80),
    },
    Target {
        workload: "holding",
        asked: "2 items that hold 2 threads: mean, in that of the raw loop",
        limit: AtMost(1.05),
        figure: |run| to_raw(run, "2 items that hold their threads, to 2", mean),
    },
    Target {
        workload: "holding",
        asked: "2 items that hold 2 threads: p80, in that of the raw loop",
        limit: AtMost(1.05),
        figure: |run| to_raw(run, "2 items that hold their threads, to 2", p80),
    },
    Target {
        workload: "single",
        asked: "one item to one sleeper: mean, in that of the raw loop",
        limit: AtMost(1.05),
        figure: |run| to_raw(run, "one sleeper", mean),
    },
    Target {
        workload: "hot",
        asked: "one item to a hot worker: median µs",
        limit: AtMost(1.0),
        figure: |run| run.ours("that is awake")?.median(),
    },
];

type Of = for<'a> fn(Tables<'a>, &str, &str) -> Option<Figure<'a>>;

fn mean<'a>(run: Tables<'a>, title: &str, name: &str) -> Option<Figure<'a>> {
    let row = run.row(title, name)?;
    Some(Figure { value: row.spread.as_ref()?.mean, row })
}

fn p80<'a>(run: Tables<'a>, title: &str, name: &str) -> Option<Figure<'a>> {
    let row = run.row(title, name)?;
    Some(Figure { value: row.spread.as_ref()?.p80, row })
}

fn to_raw<'a>(run: Tables<'a>, title: &str, of: Of) -> Option<Figure<'a>> {
    let (ours, raw) = (of(run, title, OURS)?, of(run, title, RAW)?);
    Some(Figure { value: ours.value / raw.value, row: ours.row })
}
