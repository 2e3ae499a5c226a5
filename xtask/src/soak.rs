//! `cargo xtask soak`: a crash scenario for as long as you like, with a ledger that adds up over runs.
//!
//! Each run has a seed of its own and adds a line to `target/soak/ledger.tsv`: when, which scenario, its seed, and what
//! the checker counted. Killed and started again, it goes on adding.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};

use crate::shell::{cargo, output, root};

/// What the soak calls a scenario, a part of its test's name, and its cycles in one run.
const SCENARIOS: &[(&str, &str, u32)] =
    &[("kill", "kill_9_in_a_loop", 500), ("term", "term_in_a_loop", 200), ("stop", "stopped_beyond_its_lease", 20)];

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let ["--only", name, "--minutes", minutes] = options else {
        bail!("usage: cargo xtask soak --only kill|term|stop --minutes M");
    };
    let scenario = SCENARIOS.iter().find(|scenario| scenario.0 == *name);
    let Some((name, filter, cycles)) = scenario else { bail!("no scenario {name:?}: use kill, term or stop") };
    let minutes: u64 = minutes.parse().with_context(|| format!("{minutes:?} is no number of minutes"))?;
    let (since, limit) = (Instant::now(), Duration::from_secs(minutes * 60));
    let mut is_first = true;
    while is_first || since.elapsed() < limit {
        is_first = false;
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 & 0xffff_ffff;
        let printed = output(
            cargo(&["test", "--package", "windlass", "--test", "crash", "--all-features", "--", filter])
                .env("WINDLASS_CRASH_SEED", seed.to_string())
                .env("WINDLASS_CRASH_CYCLES", cycles.to_string()),
        )
        .with_context(|| {
            format!("{name} failed: repeat with WINDLASS_CRASH_SEED={seed} WINDLASS_CRASH_CYCLES={cycles}")
        })?;
        let counts = counts_in(&printed).context("the scenario printed no ledger line")?;
        add(name, seed, &counts)?;
        println!("{name} seed {seed}: {}", shown(&counts));
        ensure!(counts["lost"] == 0 && counts["double"] == 0, "seed {seed}: a job was lost or finished twice");
    }
    println!("{name} in all: {}", shown(&totals(name)?));
    Ok(())
}

type Counts = BTreeMap<String, u64>;

/// The counts of the line `crash-ledger: cycles=200 lost=0 …`.
fn counts_in(printed: &str) -> Option<Counts> {
    let line = printed.lines().find_map(|line| line.strip_prefix("crash-ledger: "))?;
    let count = |pair: &str| {
        let (name, count) = pair.split_once('=')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    line.split(' ').map(count).collect()
}

fn shown(counts: &Counts) -> String {
    counts.iter().map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(" ")
}

fn ledger() -> PathBuf {
    root().join("target/soak/ledger.tsv")
}

fn add(name: &str, seed: u64, counts: &Counts) -> Result<()> {
    let path = ledger();
    std::fs::create_dir_all(path.parent().context("the ledger has a folder")?)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    writeln!(file, "{seconds}\t{name}\t{seed}\t{}", shown(counts))?;
    Ok(())
}

fn totals(name: &str) -> Result<Counts> {
    let mut sums = Counts::new();
    for line in std::fs::read_to_string(ledger())?.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if let [_, found, _, counts] = fields[..]
            && found == name
            && let Some(counts) = counts_in(&format!("crash-ledger: {counts}"))
        {
            for (name, count) in counts {
                *sums.entry(name).or_default() += count;
            }
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_line_is_found_among_others() {
        let counts = counts_in("seed 5\ncrash-ledger: cycles=200 lost=0 double=1\nok\n").unwrap();

        assert_eq!((counts["cycles"], counts["lost"], counts["double"]), (200, 0, 1));
        assert!(counts_in("nothing here").is_none());
    }
}
