//! `cargo xtask soak`: a crash scenario, or the pool's ledger, for as long as you like, with a ledger that adds up over runs.
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

/// A scenario: what the soak calls it, and how its test is run.
struct Scenario {
    name: &'static str,
    package: &'static str,
    test: &'static str,
    /// A part of the test's name.
    filter: &'static str,
    /// The variables that say which seed, and how much of it in one run; and how much that is.
    seed: &'static str,
    amount: (&'static str, u64),
    /// What the line with the counts begins with.
    prefix: &'static str,
}

const CRASH: Scenario = Scenario {
    name: "",
    package: "windlass",
    test: "crash",
    filter: "",
    seed: "WINDLASS_CRASH_SEED",
    amount: ("WINDLASS_CRASH_CYCLES", 0),
    prefix: "crash-ledger: ",
};

const fn crash(name: &'static str, filter: &'static str, cycles: u64) -> Scenario {
    Scenario { name, filter, amount: (CRASH.amount.0, cycles), ..CRASH }
}

const SCENARIOS: &[Scenario] = &[
    crash("kill", "kill_9_in_a_loop", 500),
    crash("term", "term_in_a_loop", 200),
    crash("stop", "stopped_beyond_its_lease", 20),
    // The tasks of the pool: some hundred million in a run of a minute.
    Scenario {
        name: "ledger",
        package: "windlass-pool",
        test: "ledger",
        filter: "every_task_is_run_exactly_once",
        seed: "WINDLASS_LEDGER_SEED",
        amount: ("WINDLASS_LEDGER_TASKS", 100_000_000),
        prefix: "ledger: ",
    },
];

pub(crate) fn run(options: &[&str]) -> Result<()> {
    let ["--only", name, "--minutes", minutes] = options else {
        bail!("usage: cargo xtask soak --only kill|term|stop|ledger --minutes M");
    };
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == *name);
    let Some(scenario) = scenario else { bail!("no scenario {name:?}: use kill, term, stop or ledger") };
    let name = scenario.name;
    let minutes: u64 = minutes.parse().with_context(|| format!("{minutes:?} is no number of minutes"))?;
    let (since, limit) = (Instant::now(), Duration::from_secs(minutes * 60));
    let mut is_first = true;
    while is_first || since.elapsed() < limit {
        is_first = false;
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 & 0xffff_ffff;
        let counts = scenario.run_once(seed)?;
        add(name, seed, &counts)?;
        println!("{name} seed {seed}: {}", shown(&counts));
        ensure!(counts["lost"] == 0 && counts["double"] == 0, "seed {seed}: a job was lost or finished twice");
    }
    println!("{name} in all: {}", shown(&totals(name)?));
    Ok(())
}

impl Scenario {
    /// Runs the test once, and answers what its ledger counted.
    fn run_once(&self, seed: u64) -> Result<Counts> {
        let Scenario { package, test, filter, seed: seed_variable, amount: (amount_variable, amount), .. } = self;
        let arguments = ["test", "--package", package, "--test", test, "--all-features", "--", filter, "--nocapture"];
        let mut command = cargo(&arguments);
        command.env(seed_variable, seed.to_string()).env(amount_variable, amount.to_string());
        let printed = output(&mut command).with_context(|| {
            format!("{} failed: repeat with {seed_variable}={seed} {amount_variable}={amount}", self.name)
        })?;
        counts_in(&printed, self.prefix).context("the scenario printed no ledger line")
    }
}

type Counts = BTreeMap<String, u64>;

/// The counts of the line `crash-ledger: cycles=200 lost=0 …`.
fn counts_in(printed: &str, prefix: &str) -> Option<Counts> {
    let line = printed.lines().find_map(|line| line.strip_prefix(prefix))?;
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
            && let Some(counts) = counts_in(counts, "")
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
        let printed = "seed 5\ncrash-ledger: cycles=200 lost=0 double=1\nok\n";
        let counts = counts_in(printed, "crash-ledger: ").unwrap();

        assert_eq!((counts["cycles"], counts["lost"], counts["double"]), (200, 0, 1));
        assert!(counts_in("nothing here", "crash-ledger: ").is_none());
    }
}
