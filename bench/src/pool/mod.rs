//! `cargo xtask bench pool [--quick] [WORKLOAD…]`: the pool of tasks beside other pools, in one run.
//!
//! Each workload makes one table for every question in it. They are printed as they come, what the pool set out to
//! reach comes last, and everything is written to `bench/results` as JSON with the facts of the host, and as a picture.
//! `--quick` only shows, in less than a minute, that everything runs.
//!
//! Threads are counted alike where work begins inside a pool: the rows say who is one of them. Where tasks come from
//! outside they are the pool's own, the calling thread being one more; windlass's runs tasks, too, while it waits.
//!
//! `measure` takes the turns and the times, `peers` and `windlass` are the pools, `tally` proves that no task was lost,
//! `targets` judges; a file for each kind of workload says what is run.

mod host;
mod measure;
mod tally;

mod peers;
mod windlass;

mod adds;
mod coarse;
mod crowd;
mod fib;
mod flat;
mod idle;
mod one;
mod range;
mod tree;

mod plot;
mod targets;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::report::grouped;
use host::Host;
use measure::{Effort, Row, Suite, Table};
use targets::Verdict;

/// What the suite is called on the command line.
pub const NAME: &str = "pool";

/// The word that makes a run a short one.
const QUICK: &str = "--quick";

type Workload = (&'static str, fn(&mut Suite));

const WORKLOADS: &[Workload] = &[
    ("fib", fib::run_fib),
    ("tree", tree::run),
    ("coarse", coarse::run),
    ("pool_fib", fib::run_pool_fib),
    ("flat", flat::run_flat),
    ("ordered", flat::run_ordered),
    ("one", one::run),
    ("adds", adds::run),
    ("range", range::run),
    ("idle", idle::run),
    ("crowd", crowd::run),
];

#[derive(Serialize)]
struct Results {
    host: Host,
    effort: Effort,
    turns: usize,
    tables: Vec<Table>,
    targets: Vec<Verdict>,
}

/// Runs the workloads that are named, or all of them.
pub fn run(words: &[String]) {
    if words == [crowd::NEIGHBOUR] {
        return crowd::be_neighbour();
    }
    let (options, wanted): (Vec<&str>, Vec<&str>) = words.iter().map(String::as_str).partition(|word| *word == QUICK);
    for word in &wanted {
        assert!(WORKLOADS.iter().any(|(name, _)| name == word), "no workload {word:?}; there are {}", names());
    }
    let host = Host::read();
    println!("{}", host.words());
    let effort = if options.is_empty() { Effort::Full } else { Effort::Quick };
    let mut suite = Suite { effort, tables: Vec::new() };
    for (name, run) in WORKLOADS {
        if wanted.is_empty() || wanted.contains(name) {
            let done = suite.tables.len();
            run(&mut suite);
            suite.tables[done..].iter().for_each(print);
        }
    }
    let targets = targets::judge(&suite.tables);
    print_targets(&targets);
    write(words, Results { host, effort, turns: effort.turns(), tables: suite.tables, targets });
}

/// The workloads, for the help.
pub fn names() -> String {
    let names: Vec<&str> = WORKLOADS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// For the titles.
fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

fn print(table: &Table) {
    let others = format!("other processes took {:.0} % of the machine", table.others_percent);
    println!("\n{}: {} [{}]; {others}", table.workload, table.title, table.unit);
    let extra = table.extra.unwrap_or_default();
    println!("  {:<44} {:>11} {:>11} {:>11} {:>11} {:>9}  {extra}", "", "min", "median", table.tail, "cpu", "to peer");
    for row in &table.rows {
        println!("  {}", line(row).trim_end());
    }
}

fn line(row: &Row) -> String {
    let [min, median, tail, cpu] = [row.min, row.median, row.tail, row.cpu].map(grouped);
    let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    let extra = row.extra.map(grouped).unwrap_or_default();
    format!("{:<44} {min:>11} {median:>11} {tail:>11} {cpu:>11} {ratio:>9}  {extra}", row.name)
}

fn print_targets(verdicts: &[Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    println!("\ntargets: the best of the pool's forms for each; the last column is its ratio to the fastest peer");
    for verdict in verdicts {
        println!("  {}", verdict.words().trim_end());
    }
    let count = |is_met| verdicts.iter().filter(|verdict| verdict.is_met == Some(is_met)).count();
    println!("  {} met, {} missed, {} in all", count(true), count(false), verdicts.len());
}

/// Writes the results; those of a selection under its own name.
fn write(words: &[String], results: Results) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    fs::create_dir_all(&dir).unwrap();
    let words: Vec<&str> = words.iter().map(|word| word.trim_start_matches('-')).collect();
    let name = [&[NAME], &words[..]].concat().join("-");
    let json = serde_json::to_string_pretty(&results).expect("results are plain data");
    fs::write(dir.join(format!("{name}.json")), json).unwrap();
    fs::write(dir.join(format!("{name}.svg")), plot::svg(&results.host.words(), &results.tables)).unwrap();
    println!("\nwritten to bench/results/{name}.json and {name}.svg");
}
