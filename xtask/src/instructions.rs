//! `cargo xtask instructions`: what each operation of the pool costs in instructions, compared with what it cost before.
//!
//! Times vary with the machine and the hour; instructions do not. Each operation is run by one thread, so many times and
//! twice as many, under valgrind's callgrind; the difference, divided, is the cost of one. `bench/instructions.tsv` holds
//! the costs that were accepted: five per cent more is a failure, and `--update` accepts what is found. Another compiler
//! gives other numbers, so the file names the one it was written with, and is not compared under another.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::shell::{answers, call, cargo, command, output, root};

/// How often an operation is run, the second time twice as often.
const COUNT: u64 = 10_000;
/// What an operation may cost, against what was accepted.
const WORSE_MAX: f64 = 1.05;

type Costs = BTreeMap<String, f64>;

/// Counts, and compares or accepts. Answers why, if it could not.
pub(crate) fn run(is_update: bool) -> Result<Option<String>> {
    if !answers("valgrind", &["--version"]) {
        return Ok(Some("no valgrind: apt-get install valgrind".to_owned()));
    }
    call(&mut cargo(&["build", "--release", "--package", "windlass-pool", "--example", "instructions"]))?;
    let found = costs()?;
    let compiler = output(&mut command("rustc", &["--version"]))?.trim().to_owned();
    if is_update {
        std::fs::write(accepted_path(), written(&compiler, &found))?;
    }
    let text = std::fs::read_to_string(accepted_path()).unwrap_or_default();
    let (accepted_with, accepted) = read(&text);
    let complaints = compare(&accepted, &found);
    print(&accepted, &found);
    if accepted_with != compiler {
        return Ok(Some(format!("accepted with {accepted_with:?}, not {compiler:?}: compare by hand, or --update")));
    }
    ensure!(complaints.is_empty(), "{}: if that is right, accept it by --update", complaints.join("; "));
    Ok(None)
}

fn accepted_path() -> PathBuf {
    root().join("bench/instructions.tsv")
}

fn program() -> Result<String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let program = target.join("release/examples/instructions");
    Ok(program.to_str().context("the path of the target folder is no text")?.to_owned())
}

/// The instructions of one of each operation.
fn costs() -> Result<Costs> {
    let program = program()?;
    let names = output(&mut command(&program, &[]))?;
    names.lines().map(|name| Ok((name.to_owned(), cost_of(&program, name)?))).collect()
}

fn cost_of(program: &str, name: &str) -> Result<f64> {
    let (once, twice) = (count(program, name, COUNT)?, count(program, name, 2 * COUNT)?);
    Ok((twice as f64 - once as f64) / COUNT as f64)
}

/// All instructions of the program, from its start to its end.
fn count(program: &str, name: &str, times: u64) -> Result<u64> {
    let arguments = ["--tool=callgrind", "--callgrind-out-file=/dev/stdout", "--quiet", program, name];
    let printed = output(command("valgrind", &arguments).arg(times.to_string()))?;
    let line = printed.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    let text = line.with_context(|| format!("callgrind counted nothing for {name}"))?;
    text.trim().parse().with_context(|| format!("callgrind counted {text:?} for {name}"))
}

fn written(compiler: &str, costs: &Costs) -> String {
    let lines: String = costs.iter().map(|(name, cost)| format!("{name}\t{cost:.1}\n")).collect();
    format!(
        "# Instructions of one operation; written by `cargo xtask instructions --update` with\n# {compiler}\n{lines}"
    )
}

/// The compiler, and the costs that were accepted.
fn read(text: &str) -> (String, Costs) {
    let compiler = text.lines().nth(1).and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    let costs = pairs.filter_map(|(name, cost)| Some((name.to_owned(), cost.parse().ok()?)));
    (compiler.to_owned(), costs.collect())
}

/// What has become too dear.
fn compare(accepted: &Costs, found: &Costs) -> Vec<String> {
    let complaint = |(name, cost): (&String, &f64)| match accepted.get(name) {
        None => Some(format!("{name}: {cost:.1} instructions, and none accepted")),
        Some(before) if *cost > before * WORSE_MAX => Some(format!("{name}: {cost:.1} instructions, was {before:.1}")),
        Some(_) => None,
    };
    found.iter().filter_map(complaint).collect()
}

fn print(accepted: &Costs, found: &Costs) {
    println!("{:<28}{:>10}{:>10}", "instructions of one", "accepted", "found");
    for (name, cost) in found {
        let before = accepted.get(name).map_or_else(|| "-".to_owned(), |cost| format!("{cost:.1}"));
        println!("{name:<28}{before:>10}{cost:>10.1}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs_of(pairs: &[(&str, f64)]) -> Costs {
        pairs.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let costs = costs_of(&[("join", 70.5), ("spawn", 100.0)]);

        assert_eq!(read(&written("rustc 1.0", &costs)), ("rustc 1.0".to_owned(), costs));
    }

    #[test]
    fn more_than_five_per_cent_more_is_complained_of_and_so_is_what_was_never_accepted() {
        let accepted = costs_of(&[("join", 100.0), ("spawn", 100.0)]);
        let found = costs_of(&[("join", 104.0), ("spawn", 106.0), ("new", 1.0)]);

        let complaints = compare(&accepted, &found);

        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("new") && complaints[1].starts_with("spawn"));
    }
}
