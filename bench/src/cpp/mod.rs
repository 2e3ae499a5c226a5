//! `cargo xtask bench cpp [--quick] [WORKLOAD…]`: the pool from C and C++, beside oneTBB, a plain pool of C, and the same
//! pool from Rust, in one run.
//!
//! The C and C++ side is `bench/cpp`, compiled with `g++ -O3` before: each subject is a process that is sent a line for
//! every turn, so all of them take turns, whatever their language. Threads are counted alike: oneTBB's caller takes part
//! and is one of them; from C++ the pool's workers do the work and the caller waits, but where it says otherwise.

mod peer;
mod targets;

use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_pool::{Graph, Pool, PoolConfig};

use crate::graph::matmul::{Factors, sum};
use crate::pool::windlass::{self, Crew, Kept};
use crate::report::grouped;
use crate::suite::Kind;
use crate::suite::measure::{Clock, Effort, Panel, Role, Suite, Unit};
use peer::Peer;

pub const KIND: Kind = Kind {
    name: "cpp",
    workloads: &[
        ("fib", run_fib),
        ("join", run_join),
        ("chain", run_chain),
        ("matmul", run_matmul),
        ("submit", run_submit),
        ("adds", run_adds),
    ],
    targets: targets::TARGETS,
};

const THREADS: usize = 2;

/// Adds a process to the panel, if its subject was compiled in.
fn add(panel: &mut Panel, role: Role, name: &str, subject: &'static str, size: usize, threads: usize) {
    if !peer::has(subject) {
        println!("skipped {name:?}: its headers were not there when the C++ side was compiled");
        return;
    }
    let mut peer = Peer::start(subject, size, threads);
    panel.add(role, name, move |clock| peer.take_turn(clock));
}

// The pool-style fib.

fn run_fib(suite: &mut Suite) {
    for (n, value, calls) in [(25, 75_025, 242_785), (28, 317_811, 1_028_457), (30, 832_040, 2_692_537)] {
        let title = format!("fib({n}), two tasks per call, per call, 2 threads");
        let mut panel = Panel::new("fib", title, Unit::Nanoseconds).per(calls);
        add(&mut panel, Role::Peer, "oneTBB, task_group: two runs, wait", "tbb fib", n, THREADS);
        add(&mut panel, Role::Windlass, CPP_FIB, "windlass fib", n, THREADS);
        let crew = Crew::all_workers(THREADS);
        panel.windlass(RUST_FIB, move |clock| {
            let found = clock.time(|| crew.run(move |pool| windlass::fib_by_predicate(pool, n as u64)));
            assert_eq!(found, value, "the sum is wrong");
        });
        suite.measure(panel);
    }
}

const CPP_FIB: &str = "C++: two Submit, Wait(predicate)";
const RUST_FIB: &str = "Rust: two spawns, wait_until";

fn run_join(suite: &mut Suite) {
    const N: usize = 32;
    let title = format!("fib({N}) by join, per call, 2 threads, caller included");
    let mut panel = Panel::new("join", title, Unit::Nanoseconds).per(7_049_155);
    add(&mut panel, Role::Peer, "oneTBB, parallel_invoke", "tbb join", N, THREADS);
    add(&mut panel, Role::Windlass, "C++: Join", "windlass join", N, THREADS);
    let crew = Crew::with_caller(THREADS);
    panel.windlass("Rust: join", move |clock| {
        assert_eq!(clock.time(|| crew.run(|pool| windlass::fib(pool, N as u64))), 2_178_309, "the sum is wrong");
    });
    suite.measure(panel);
}

// Chains.

const CPP_CHAIN: &str = "C++: Task, built and run";
const CPP_PLAN: &str = "C++: Graph, built, sealed and run";
const RUST_CHAIN: &str = "Rust: Graph, built, sealed and run";
const CPP_CHAIN_AGAIN: &str = "C++: Task, run again";

fn run_chain(suite: &mut Suite) {
    let sizes: &[(usize, &str)] = match suite.effort {
        Effort::Full => &[(1 << 20, "2²⁰"), (1 << 21, "2²¹"), (1 << 22, "2²²")],
        Effort::Quick => &[(1 << 20, "2²⁰")],
    };
    for (count, words) in sizes {
        let (count, per) = (*count, *count as u64);
        let title = format!("chain of {words} empty tasks, per task, 2 threads");
        let mut panel = Panel::new("chain", title, Unit::Nanoseconds).per(per);
        add(&mut panel, Role::Peer, "oneTBB, continue_node, built and run", "tbb tasks", count, THREADS);
        add(&mut panel, Role::Windlass, CPP_CHAIN, "windlass tasks", count, THREADS);
        add(&mut panel, Role::Windlass, CPP_PLAN, "windlass plan", count, THREADS);
        let pool = Kept::start(THREADS - 1);
        panel.windlass(RUST_CHAIN, move |clock| build_and_run(clock, pool.0, count));
        suite.measure(panel);

        let title = format!("chain of {words} empty tasks, run again, per task, 2 threads");
        let mut panel = Panel::new("chain", title, Unit::Nanoseconds).per(per);
        add(&mut panel, Role::Peer, "oneTBB, continue_node, run again", "tbb tasks again", count, THREADS);
        add(&mut panel, Role::Windlass, CPP_CHAIN_AGAIN, "windlass tasks again", count, THREADS);
        add(&mut panel, Role::Windlass, "C++: Plan, run again", "windlass plan again", count, THREADS);
        suite.measure(panel);
    }
}

/// The end of the graph is not timed, as it is not in C++.
fn build_and_run(clock: &mut Clock, pool: &Pool, count: usize) {
    let next = AtomicUsize::new(0);
    let plan = clock.time(|| {
        let mut graph = Graph::new();
        let mut before = None;
        for step in 0..count {
            let next = &next;
            let node = graph.add(move || {
                if next.load(Ordering::Relaxed) == step {
                    next.store(step + 1, Ordering::Relaxed);
                }
            });
            if let Some(before) = before.replace(node) {
                graph.precede(before, node);
            }
        }
        let plan = graph.seal().expect("it has no cycles");
        plan.run(pool).expect("nobody else runs it");
        plan
    });
    drop(plan);
    assert_eq!(next.load(Ordering::Relaxed), count, "the order of the chain is wrong");
}

// Rows of a matrix.

const CPP_ROWS: &str = "C++: a Submit for each row, Wait";
const RUST_ROWS: &str = "Rust: a spawn for each row, in a scope";

fn run_matmul(suite: &mut Suite) {
    for len in [128, 256, 512] {
        let title = format!("product of {len} × {len} matrices, a task for each row, 2 threads");
        let mut panel = Panel::new("matmul", title, Unit::Milliseconds);
        add(&mut panel, Role::Floor, "plain loop in C++", "loop matmul", len, 1);
        add(&mut panel, Role::Peer, "oneTBB, task_group: a run for each row", "tbb matmul", len, THREADS);
        add(&mut panel, Role::Windlass, CPP_ROWS, "windlass matmul", len, THREADS);
        panel.windlass(RUST_ROWS, rows(len));
        suite.measure(panel);
    }
}

fn rows(len: usize) -> impl FnMut(&mut Clock) {
    let pool = Kept::start(THREADS - 1);
    let factors = Factors::new(len);
    let mut product = vec![0.0; len * len];
    product.chunks_mut(len).enumerate().for_each(|(row, product)| factors.multiply(row, product));
    let expected = sum(&product);
    move |clock| {
        product.fill(0.0);
        clock.time(|| {
            pool.0.scope(|scope| {
                for (row, product) in product.chunks_mut(len).enumerate() {
                    scope.spawn(move |_| factors.multiply(row, product));
                }
            });
        });
        assert_eq!(sum(&product), expected, "a row was lost");
    }
}

// Many small tasks.

const CPP_SUBMIT: &str = "C++: Submit, Wait";
const RUST_SUBMIT: &str = "Rust: spawn_detached, wait_idle";

fn run_submit(suite: &mut Suite) {
    const COUNT: usize = 1_000_000;
    let title = format!("{} empty lambdas from outside, per lambda, 2 threads", grouped(COUNT as f64));
    let mut panel = Panel::new("submit", title, Unit::Nanoseconds).per(COUNT as u64);
    add(&mut panel, Role::Peer, "oneTBB, task_group: run, wait", "tbb submit", COUNT, THREADS);
    add(&mut panel, Role::Windlass, CPP_SUBMIT, "windlass submit", COUNT, THREADS);
    // As many slots as there is work, as in C++.
    let config = PoolConfig { slot_count_max: 1 << 28, ..PoolConfig::with_threads(THREADS) };
    let pool = Kept(Box::leak(Box::new(Pool::with(config).expect("the threads start"))));
    panel.windlass(RUST_SUBMIT, move |clock| {
        clock.time(|| {
            (0..COUNT).for_each(|_| pool.0.spawn_detached(|| {}));
            pool.0.wait_idle();
        });
    });
    suite.measure(panel);
}

const C_ADDS: &str = "C: pool.h";
const C_QUEUES: &str = "C: a queue with a mutex and a condition per thread";

fn run_adds(suite: &mut Suite) {
    let count = suite.effort.share(500_000);
    for threads in [2, 8, 32] {
        let title =
            format!("{} C tasks of 100 adds from outside, {threads} threads, to the end", grouped(count as f64));
        let mut panel = Panel::new("adds", title, Unit::Nanoseconds).per(count as u64);
        add(&mut panel, Role::Floor, "plain loop in C", "loop adds", count, 1);
        add(&mut panel, Role::Peer, C_QUEUES, "queues adds", count, threads);
        add(&mut panel, Role::Peer, "oneTBB, task_group: run, wait", "tbb adds", count, threads);
        add(&mut panel, Role::Windlass, C_ADDS, "windlass adds", count, threads);
        suite.measure(panel);
    }
}
