//! What graphs set out to reach.

use crate::suite::targets::Limit::AtMost;
use crate::suite::targets::{Figure, Tables, Target};

const SUM: &str = "windlass graph, caller + 1 worker: build + seal + run";
const AGAIN: &str = "windlass graph, caller + 1 worker: run again";

pub const TARGETS: &[Target] = &[
    Target {
        workload: "chain",
        asked: "chain of 2²⁰: build + seal + run, ns a node",
        limit: AtMost(40.0),
        figure: |run| median(run, "2²⁰", SUM),
    },
    Target {
        workload: "chain",
        asked: "chain of 2²¹: build + seal + run, ns a node",
        limit: AtMost(40.0),
        figure: |run| median(run, "2²¹", SUM),
    },
    Target {
        workload: "chain",
        asked: "chain of 2²²: build + seal + run, ns a node",
        limit: AtMost(40.0),
        figure: |run| median(run, "2²²", SUM),
    },
    Target {
        workload: "chain",
        asked: "chain of 2²³: build + seal + run, ns a node",
        limit: AtMost(40.0),
        figure: |run| median(run, "2²³", SUM),
    },
    Target {
        workload: "chain",
        asked: "chain of 2²⁰: run again, ns a node",
        limit: AtMost(5.0),
        figure: |run| median(run, "2²⁰", AGAIN),
    },
    Target {
        workload: "chain",
        asked: "chain of 2²³: run again, ns a node",
        limit: AtMost(5.0),
        figure: |run| median(run, "2²³", AGAIN),
    },
    Target {
        workload: "tree",
        asked: "tree of 2²⁰: build + seal + run, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.row("2²⁰", SUM)?.to_best_peer(),
    },
    Target {
        workload: "tree",
        asked: "tree of 2²⁰: run again, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.row("2²⁰", AGAIN)?.to_best_peer(),
    },
    Target {
        workload: "short_chain",
        asked: "chain of 32, again: ns a run",
        limit: AtMost(150.0),
        figure: |run| run.ours("32 nodes")?.median(),
    },
    Target {
        workload: "random",
        asked: "random graph, empty nodes: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("empty")?.to_best_peer(),
    },
    Target {
        workload: "random",
        asked: "random graph, nodes of 0.1 µs: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("0.1 µs")?.to_best_peer(),
    },
    Target {
        workload: "random",
        asked: "random graph, nodes of 1 µs: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("work 1 µs")?.to_best_peer(),
    },
    Target {
        workload: "wavefront",
        asked: "wavefront of 32 × 32, 0.1 µs: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("32 × 32 blocks, work 0.1 µs")?.to_best_peer(),
    },
    Target {
        workload: "wavefront",
        asked: "wavefront of 32 × 32, 1 µs: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("32 × 32 blocks, work 1 µs")?.to_best_peer(),
    },
    Target {
        workload: "wavefront",
        asked: "wavefront of 1,024 × 1,024, 0.1 µs: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("1 024 × 1 024 blocks, work 0.1 µs")?.to_best_peer(),
    },
    Target {
        workload: "wavefront",
        asked: "wavefront of 1,024 × 1,024, 1 µs: time, in the best peer's",
        limit: AtMost(1.0),
        figure: |run| run.ours("1 024 × 1 024 blocks, work 1 µs")?.to_best_peer(),
    },
    Target {
        workload: "matmul",
        asked: "product of 512 × 512: time, in the best peer's",
        limit: AtMost(1.05),
        figure: |run| run.ours("512 × 512")?.to_best_peer(),
    },
    Target {
        workload: "memory",
        asked: "long chain: bytes a node, at the highest",
        limit: AtMost(80.0),
        figure: |run| run.ours("memory at the highest")?.median(),
    },
];

fn median<'a>(run: Tables<'a>, title: &str, name: &str) -> Option<Figure<'a>> {
    run.row(title, name)?.median()
}
