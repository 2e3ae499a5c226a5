//! What the suites share: a suite is a list of workloads, and the targets that it is judged by.
//!
//! Each workload makes one table for every question in it. They are printed as they come, what the pool set out to
//! reach comes last, and everything is written to `bench/results` as JSON with the facts of the host, and as a picture.
//!
//! `measure` takes the turns and the times, `tally` proves that no task was lost, `targets` judges, `plot` draws.

pub mod host;
pub mod measure;
pub mod plot;
pub mod tally;
pub mod targets;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::report::grouped;
use host::Host;
use measure::{BINS, Effort, Row, Suite, Table};
use targets::{Target, Verdict};

/// The word that makes a run a short one.
const QUICK: &str = "--quick";

/// What a workload is called, and what measures it.
pub type Workload = (&'static str, fn(&mut Suite));

/// A suite, as it is written down.
pub struct Kind {
    /// What it is called on the command line.
    pub name: &'static str,
    pub workloads: &'static [Workload],
    pub targets: &'static [Target],
}

#[derive(Serialize)]
struct Results {
    host: Host,
    effort: Effort,
    turns: usize,
    tables: Vec<Table>,
    targets: Vec<Verdict>,
}

impl Kind {
    /// The workloads, for the help.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.workloads.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    /// Runs the workloads that are named, or all of them.
    pub fn run(&self, words: &[String]) {
        let is_option = |word: &&str| *word == QUICK;
        let (options, wanted): (Vec<&str>, Vec<&str>) = words.iter().map(String::as_str).partition(is_option);
        for word in &wanted {
            if !self.workloads.iter().any(|(name, _)| name == word) {
                crate::refuse(&format!("no workload {word:?} of {}; there are {}", self.name, self.names()));
            }
        }
        let host = Host::read();
        println!("{}", host.words());
        let effort = if options.is_empty() { Effort::Full } else { Effort::Quick };
        let mut suite = Suite { effort, tables: Vec::new() };
        for (name, run) in self.workloads {
            if wanted.is_empty() || wanted.contains(name) {
                let done = suite.tables.len();
                run(&mut suite);
                suite.tables[done..].iter().for_each(print);
            }
        }
        let targets = targets::judge(self.targets, &suite.tables);
        print_targets(&targets);
        write(self.name, words, Results { host, effort, turns: effort.turns(), tables: suite.tables, targets });
    }
}

/// For the titles.
pub fn threads(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

fn print(table: &Table) {
    let others = format!("other processes took {:.0} % of the machine", table.others_percent);
    println!("\n{}: {} [{}]; {others}", table.workload, table.title, table.unit);
    let extra = table.extra.unwrap_or_default();
    let has_spread = table.rows.iter().any(|row| row.spread.is_some());
    let names: &[&str] = match has_spread {
        true => &["min", "mean", "median", "p80", table.tail, "max", "cpu"],
        false => &["min", "median", table.tail, "cpu"],
    };
    println!("  {:<44}{} {:>9}  {extra}", "", columns(names), "to peer");
    for row in &table.rows {
        println!("  {}", line(row).trim_end());
    }
    if has_spread {
        print_histograms(&table.rows);
    }
    if let Some(note) = &table.note {
        println!("  {note}");
    }
}

fn columns(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|word| format!(" {:>11}", word.as_ref())).collect()
}

fn line(row: &Row) -> String {
    let figures: Vec<f64> = match &row.spread {
        Some(spread) => vec![row.min, spread.mean, row.median, spread.p80, row.tail, spread.max, row.cpu],
        None => vec![row.min, row.median, row.tail, row.cpu],
    };
    let figures: Vec<String> = figures.into_iter().map(grouped).collect();
    let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
    let extra = row.extra.map(grouped).unwrap_or_default();
    format!("{:<44}{} {ratio:>9}  {extra}", row.name, columns(&figures))
}

/// For each row, how many percent of its samples lie below each of the ends, and not below the one before.
fn print_histograms(rows: &[Row]) {
    let is_used = |bin: &usize| rows.iter().flat_map(|row| &row.spread).any(|spread| spread.bins[*bin] > 0);
    let bins: Vec<usize> = (0..=BINS.len()).filter(is_used).collect();
    let cells = |words: Vec<String>| words.iter().map(|word| format!("{word:>6}")).collect::<String>();
    let end = |bin: usize| BINS.get(bin).map_or_else(|| "more".to_owned(), |end| format!("<{end}"));
    println!("  {:<44}{}", "% of the samples", cells(bins.iter().map(|bin| end(*bin)).collect()));
    for row in rows {
        let Some(spread) = &row.spread else {
            continue;
        };
        let percent = |bin: &usize| spread.bins[*bin] as f64 * 100.0 / row.samples as f64;
        let word = |bin| match percent(bin) {
            0.0 => "·".to_owned(),
            part if part < 0.5 => "<1".to_owned(),
            part => format!("{part:.0}"),
        };
        let shape: String = bins.iter().map(|bin| bar(percent(bin))).collect();
        println!("  {:<44}{}  {shape}", row.name, cells(bins.iter().map(word).collect()));
    }
}

/// So many percent, as a bar.
fn bar(percent: f64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    // Half of all samples, or more, are a full bar.
    let height = (percent / 50.0 * 8.0).ceil().clamp(0.0, 8.0);
    BARS[height as usize]
}

fn print_targets(verdicts: &[Verdict]) {
    if verdicts.is_empty() {
        return;
    }
    println!("\ntargets: the best of our forms for each; the last column is its ratio to the fastest peer");
    for verdict in verdicts {
        println!("  {}", verdict.words().trim_end());
    }
    let count = |is_met| verdicts.iter().filter(|verdict| verdict.is_met == Some(is_met)).count();
    println!("  {} met, {} missed, {} in all", count(true), count(false), verdicts.len());
}

/// Writes the results; those of a selection under its own name.
fn write(suite: &str, words: &[String], results: Results) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    fs::create_dir_all(&dir).unwrap();
    let words: Vec<&str> = words.iter().map(|word| word.trim_start_matches('-')).collect();
    let name = [&[suite], &words[..]].concat().join("-");
    let json = serde_json::to_string_pretty(&results).expect("results are plain data");
    fs::write(dir.join(format!("{name}.json")), json).unwrap();
    fs::write(dir.join(format!("{name}.svg")), plot::svg(&results.host.words(), &results.tables)).unwrap();
    println!("\nwritten to bench/results/{name}.json and {name}.svg");
}
