//! What the pool set out to reach from C and C++.

use super::{C_ADDS, C_QUEUES, CPP_CHAIN, CPP_CHAIN_AGAIN, CPP_FIB, CPP_ROWS, CPP_SUBMIT};
use super::{RUST_CHAIN, RUST_FIB, RUST_ROWS, RUST_SUBMIT};
use crate::suite::targets::Limit::{AtLeast, AtMost};
use crate::suite::targets::{Figure, Tables, Target};

pub const TARGETS: &[Target] = &[
    to_peer("fib", "fib(25), two tasks a call: time, in oneTBB's", |run| in_peers(run, "fib(25)", CPP_FIB)),
    to_peer("fib", "fib(28), two tasks a call: time, in oneTBB's", |run| in_peers(run, "fib(28)", CPP_FIB)),
    to_peer("fib", "fib(30), two tasks a call: time, in oneTBB's", |run| in_peers(run, "fib(30)", CPP_FIB)),
    to_rust("fib", "fib(28), two tasks a call: time, in that from Rust", |run| {
        in_rusts(run, "fib(28)", CPP_FIB, RUST_FIB)
    }),
    Target {
        workload: "fib",
        // Taskflow 4.1, its task group on the build machine, 2026-11: it is not part of this run.
        asked: "fib(30), two tasks a call: ns a call, what Taskflow takes",
        limit: AtMost(35.0),
        figure: |run| run.row("fib(30)", CPP_FIB)?.median(),
    },
    to_peer("chain", "chain of 2²⁰: time, in oneTBB's", |run| in_peers(run, "2²⁰", CPP_CHAIN)),
    to_peer("chain", "chain of 2²¹: time, in oneTBB's", |run| in_peers(run, "2²¹", CPP_CHAIN)),
    to_peer("chain", "chain of 2²²: time, in oneTBB's", |run| in_peers(run, "2²²", CPP_CHAIN)),
    to_peer("chain", "chain of 2²⁰, again: time, in oneTBB's", |run| {
        in_peers(run, "2²⁰ empty tasks, run", CPP_CHAIN_AGAIN)
    }),
    to_rust("chain", "chain of 2²⁰: time, in that of a graph from Rust", |run| {
        in_rusts(run, "2²⁰", CPP_CHAIN, RUST_CHAIN)
    }),
    Target {
        workload: "chain",
        // dpuyda/scheduling on the build machine, 2026-11: it is not part of this run.
        asked: "chain of 2²⁰: ns a task, what dpuyda/scheduling takes",
        limit: AtMost(103.0),
        figure: |run| run.row("2²⁰", CPP_CHAIN)?.median(),
    },
    to_peer("matmul", "128 × 128: time, in oneTBB's", |run| in_peers(run, "128", CPP_ROWS)),
    to_peer("matmul", "256 × 256: time, in oneTBB's", |run| in_peers(run, "256", CPP_ROWS)),
    to_peer("matmul", "512 × 512: time, in oneTBB's", |run| in_peers(run, "512", CPP_ROWS)),
    to_rust("matmul", "512 × 512: time, in that from Rust", |run| in_rusts(run, "512", CPP_ROWS, RUST_ROWS)),
    Target {
        workload: "matmul",
        // Taskflow 4.1 on the build machine, 2026-11: it is not part of this run.
        asked: "512 × 512: ms, what Taskflow takes",
        limit: AtMost(60.0),
        figure: |run| run.row("512", CPP_ROWS)?.median(),
    },
    to_peer("submit", "lambdas from outside: time, in oneTBB's", |run| in_peers(run, "lambdas", CPP_SUBMIT)),
    to_rust("submit", "lambdas from outside: time, in that from Rust", |run| {
        in_rusts(run, "lambdas", CPP_SUBMIT, RUST_SUBMIT)
    }),
    Target {
        workload: "adds",
        asked: "C tasks, 8 threads: times as fast as a queue for each thread",
        limit: AtLeast(10.0),
        figure: |run| run.row(", 8 threads", C_ADDS)?.speed_of(run.row(", 8 threads", C_QUEUES)?),
    },
];

type Judged = fn(Tables<'_>) -> Option<Figure<'_>>;

const fn to_peer(workload: &'static str, asked: &'static str, figure: Judged) -> Target {
    Target { workload, asked, limit: AtMost(1.0), figure }
}

const fn to_rust(workload: &'static str, asked: &'static str, figure: Judged) -> Target {
    Target { workload, asked, limit: AtMost(1.5), figure }
}

fn in_peers<'a>(run: Tables<'a>, title: &str, name: &str) -> Option<Figure<'a>> {
    run.row(title, name)?.to_best_peer()
}

fn in_rusts<'a>(run: Tables<'a>, title: &str, name: &str, rust: &str) -> Option<Figure<'a>> {
    run.row(title, name)?.over(run.row(title, rust)?)
}
