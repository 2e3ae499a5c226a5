//! `cargo xtask bench [NAME…]`: what the embedded store and the server on top of it do, on this machine, in one run.
//! `cargo xtask bench pool|graph|burst|cpp [--quick] [WORKLOAD…]` are suites of their own, about the pool of tasks;
//! `cargo xtask bench jobs [--quick] [redis|sqlite]` is one about jobs, beside other job systems.
//!
//! Every scenario is a question. Figures are medians of [`REPEATS`] repetitions, with the least beside them; the bare
//! library is measured in the same run, for a ratio means more than a number of one machine.

#![forbid(unsafe_code)]

mod bare;
mod jobs;
mod report;

mod suite;

mod burst;
mod cpp;
mod graph;
mod pool;
mod redis;

use std::time::Duration;

use report::Report;

/// Repetitions of each measurement.
const REPEATS: usize = 5;

type Scenario = (&'static str, &'static str, fn(&mut Report));

const SCENARIOS: &[Scenario] = &[
    ("enqueue", "how many jobs a second are enqueued durably, in bulk and one by one?", jobs::enqueue),
    ("cycle", "how many jobs a second are leased, run and acked durably?", jobs::cycle),
    ("latency", "how long from enqueue to start, with an idle server in the same process?", jobs::latency),
    ("million", "how much memory does draining a million jobs take?", jobs::million),
    ("idle", "what does an idle server cost?", jobs::idle),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    match wanted.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("pool", workloads)) => return pool::run(workloads),
        Some(("graph", workloads)) => return graph::run(workloads),
        Some(("burst", workloads)) => return burst::KIND.run(workloads),
        Some(("cpp", workloads)) => return cpp::KIND.run(workloads),
        Some(("jobs", workloads)) => return redis::KIND.run(workloads),
        _ => {}
    }
    if wanted.is_empty() {
        for (name, question, _) in SCENARIOS {
            println!("{name:<10} {question}");
        }
        println!("all        every one of them");
        println!("pool       the pool of tasks beside other pools, in some minutes; pool --quick in one");
        println!("           or some of it: {}", pool::KIND.names());
        println!("graph      graphs of tasks, in the same way: {}", graph::KIND.names());
        println!("burst      bursts to threads that sleep: {}", burst::KIND.names());
        println!("cpp        the pool from C and C++, beside oneTBB: {}", cpp::KIND.names());
        println!("jobs       jobs through a store, beside other job systems: {}", redis::KIND.names());
        return;
    }
    let known = |word: &str| word == "all" || SCENARIOS.iter().any(|(name, ..)| *name == word);
    if let Some(word) = wanted.iter().find(|word| !known(word)) {
        refuse(&format!("no benchmark {word:?}; without a name, `cargo xtask bench` lists what there is"));
    }
    for (name, question, scenario) in SCENARIOS {
        if wanted.iter().any(|word| word == name || word == "all") {
            let mut report = Report::new(question);
            scenario(&mut report);
            report.print();
        }
    }
}

/// Says what is wrong with the arguments, and ends.
fn refuse(why: &str) -> ! {
    eprintln!("bench: {why}");
    std::process::exit(2)
}

/// The rate of `count` things in `elapsed`, per second.
fn rate(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
