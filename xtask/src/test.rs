//! `cargo xtask test`: everything that must hold, in the order of what fails fastest.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::shell::{answers, call, cargo, command, output};
use crate::{browser, docs, instructions, loom, sanitize, shuttle, tidy};

/// A program the tests need: how to ask for it, its Debian package, and what for.
struct Tool {
    program: &'static str,
    probe: &'static [&'static str],
    package: &'static str,
    why: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "cc", probe: &["--version"], package: "gcc libc6-dev", why: "SQLite is built from source" },
    Tool { program: "g++", probe: &["--version"], package: "g++", why: "the pool's C++ header is tested" },
    Tool {
        program: "redis-server",
        probe: &["--version"],
        package: "redis-server",
        why: "the Redis store is tested with the real server",
    },
    Tool {
        program: "sidekiq",
        probe: &["--version"],
        package: "ruby-sidekiq ruby-webrick",
        why: "jobs are exchanged with the real Sidekiq, and the guide's worker is written in Ruby",
    },
    Tool {
        program: "sqlite3",
        probe: &["--version"],
        package: "sqlite3",
        why: "the backup of docs/operations.md is taken",
    },
    Tool {
        program: "chromium",
        probe: &["--version"],
        package: "chromium",
        why: "the dashboard is tested in a real browser",
    },
    Tool { program: "node", probe: &["--version"], package: "nodejs", why: "the browser tests are JavaScript" },
    Tool { program: "npm", probe: &["--version"], package: "npm", why: "the browser tests need a driver" },
];

/// How a step ended.
enum Ended {
    Passed,
    Skipped(String),
    Failed(String),
}

type Step = (&'static str, fn() -> Result<Option<String>>);

const STEPS: &[Step] = &[
    ("tools", || install_tools().map(|()| None)),
    ("format", format),
    ("clippy", clippy),
    ("tidy", || tidy::run().map(|()| None)),
    ("client-only build", client_only),
    ("tests", tests),
    ("browser", || browser::run(&[])),
    ("documents", || docs::run(true).map(|()| None)),
    ("instructions", || instructions::run(false)),
    ("models", || loom::run().map(|()| None)),
    ("schedules", || shuttle::run(None).map(|()| None)),
    ("address sanitizer", || sanitize::step("address")),
    ("thread sanitizer", || sanitize::step("thread")),
];

/// Runs the steps, stops at the first that fails, and prints what each took.
pub(crate) fn run_all(steps: &[Step]) -> Result<()> {
    let mut ended: Vec<(&str, Duration, Ended)> = Vec::new();
    for (name, step) in steps {
        println!("\n=== {name}");
        let since = Instant::now();
        let how = match step() {
            Ok(None) => Ended::Passed,
            Ok(Some(why)) => Ended::Skipped(why),
            Err(error) => Ended::Failed(format!("{error:#}")),
        };
        let has_failed = matches!(how, Ended::Failed(_));
        ended.push((name, since.elapsed(), how));
        if has_failed {
            break;
        }
    }
    summary(&ended)
}

pub(crate) fn run() -> Result<()> {
    run_all(STEPS)
}

fn summary(ended: &[(&str, Duration, Ended)]) -> Result<()> {
    println!();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, took, how) in ended {
        let word = match how {
            Ended::Passed => {
                passed += 1;
                "ok".to_owned()
            }
            Ended::Skipped(why) => {
                skipped += 1;
                format!("skipped: {why}")
            }
            Ended::Failed(why) => {
                failed += 1;
                format!("FAILED: {why}")
            }
        };
        println!("{name:<20}{:>6.1} s  {word}", took.as_secs_f64());
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    ensure!(failed == 0, "a step failed");
    Ok(())
}

/// Finds what is missing and installs it as root, or says the one line to run.
fn install_tools() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !answers(tool.program, tool.probe)).collect();
    if missing.is_empty() {
        println!("everything is there");
        return Ok(());
    }
    for tool in &missing {
        println!("{} is missing: {}", tool.program, tool.why);
    }
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.package.split(' ')).collect();
    let line = format!("apt-get update && apt-get install --yes {}", packages.join(" "));
    let is_root = output(&mut command("id", &["-u"])).is_ok_and(|id| id.trim() == "0");
    if !is_root || !answers("apt-get", &["--version"]) {
        bail!("install what is missing and try again, on Debian by: sudo sh -c '{line}'");
    }
    call(command("sh", &["-c", &line]).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn format() -> Result<Option<String>> {
    if !answers("cargo", &["fmt", "--version"]) {
        return Ok(Some("no rustfmt: rustup component add rustfmt".to_owned()));
    }
    call(&mut cargo(&["fmt", "--all", "--check"]))?;
    Ok(None)
}

fn clippy() -> Result<Option<String>> {
    if !answers("cargo", &["clippy", "--version"]) {
        return Ok(Some("no clippy: rustup component add clippy".to_owned()));
    }
    call(&mut cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]))?;
    Ok(None)
}

/// A program that only pushes jobs must not pay for what runs them.
fn client_only() -> Result<Option<String>> {
    let features = ["-p", "windlass", "--no-default-features", "--features", "sqlite"];
    call(&mut cargo(&[&["check"][..], &features].concat()))?;
    let tree = output(&mut cargo(&[&["tree", "-e", "normal", "--prefix", "none"][..], &features].concat()))?;
    for heavy in ["windlass-pool", "clap", "tracing", "toml", "windlass-derive"] {
        let is_there = tree.lines().any(|line| line.split(' ').next() == Some(heavy));
        ensure!(!is_there, "the client-only build contains {heavy}");
    }
    println!("{} packages", tree.lines().collect::<std::collections::BTreeSet<_>>().len());
    Ok(None)
}

fn tests() -> Result<Option<String>> {
    call(&mut cargo(&["test", "--workspace", "--all-features"]))?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_fails_the_whole_and_stops_it() {
        let steps: &[Step] = &[
            ("good", || Ok(None)),
            ("bad", || bail!("on purpose")),
            ("never", || panic!("a step after a failure was run")),
        ];

        assert!(run_all(steps).is_err());
    }

    #[test]
    fn a_skipped_step_is_no_failure() {
        assert!(run_all(&[("absent", || Ok(Some("no such tool".to_owned())))]).is_ok());
    }
}
