//! Who takes part: how each is built, started, and what it leaves in the store when it has lost nothing.
//!
//! The programs of the peers are in `bench/jobs`, in their own languages. They are built here, so that whoever runs the
//! suite needs nothing but the languages' tools; who cannot be built is left out by name.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use windlass_testbed::program::is_installed;

use super::peer::{self, Order, Sample};
use super::rounds::Place;
use super::targets::{AT_MOST_ONCE, RELIABLE};
use crate::suite::host::locked_version;
use crate::suite::measure::Role;

/// Somebody who can be put to work.
pub struct Competitor {
    pub name: String,
    pub role: Role,
    work: Work,
    /// How the store looks when it has every outcome; nothing for who looks by himself.
    traces: &'static [Trace],
}

/// What counts something in the store, and what it counts when all jobs are done.
pub struct Trace {
    /// A command and a key, or a statement.
    pub count: &'static [&'static str],
    /// Nothing is left, or every job is there.
    pub is_all: bool,
}

const fn none_in(count: &'static [&'static str]) -> Trace {
    Trace { count, is_all: false }
}

const fn all_in(count: &'static [&'static str]) -> Trace {
    Trace { count, is_all: true }
}

/// How it is put to work.
enum Work {
    /// A program that speaks the protocol of `peer`.
    Program(Box<dyn Fn(Phase, Order<'_>) -> Command>),
    /// The load test of windlass, with further words; it fills and drains, and verifies what it did.
    Load { program: PathBuf, words: Vec<&'static str>, url_end: &'static str },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Enqueue,
    Drain,
}

impl Phase {
    fn word(self) -> &'static str {
        match self {
            Phase::Enqueue => "enqueue",
            Phase::Drain => "drain",
        }
    }
}

/// What one turn took: enqueueing, then draining.
pub struct Turn {
    pub enqueue: Sample,
    pub drain: Sample,
}

impl Competitor {
    /// Enqueues and drains.
    pub fn take_turn(&self, order: Order<'_>, place: &Place) -> Result<Turn> {
        match &self.work {
            Work::Program(command) => {
                let enqueue = peer::enqueue(&mut command(Phase::Enqueue, order), order).context("enqueueing")?;
                let before = place.server_cpu()?;
                let is_acked = || place.has(self.traces, order);
                let drain = peer::drain(&mut command(Phase::Drain, order), order, &is_acked).context("draining")?;
                let used = place.server_cpu()? - before;
                Ok(Turn { enqueue, drain: Sample { server_cpu_seconds: Some(used), ..drain } })
            }
            Work::Load { program, words, url_end } => load(program, words, &format!("{}{url_end}", order.url), order),
        }
    }
}

/// It takes a job off its queue before it runs it, and has no ack.
const SIDEKIQ_TRACES: &[Trace] = &[none_in(&["LLEN", "queue:default"]), none_in(&["ZCARD", "retry"])];

const BULLMQ_TRACES: &[Trace] = &[none_in(&["LLEN", "bull:bench:wait"]), none_in(&["LLEN", "bull:bench:active"])];

const ASYNQ_TRACES: &[Trace] =
    &[none_in(&["LLEN", "asynq:{default}:pending"]), none_in(&["LLEN", "asynq:{default}:active"])];

/// It runs hundreds of jobs before it acknowledges them.
const APALIS_TRACES: &[Trace] = &[none_in(&["LLEN", "bench:active"]), all_in(&["ZCARD", "bench:done"])];

const APALIS_SQLITE_TRACES: &[Trace] = &[all_in(&["SELECT COUNT(*) FROM Jobs WHERE status = 'Done'"])];

/// Everybody who works off Redis.
pub fn on_redis() -> Vec<Competitor> {
    let rust = build_rust();
    let rust_peer = |crate_name, traces| rust_peer(&rust, crate_name, traces);
    gather([
        ("Sidekiq", ruby("")),
        ("Sidekiq with YJIT", ruby("--yjit")),
        ("BullMQ", bullmq()),
        ("asynq", asynq()),
        ("rusty-sidekiq", rust_peer("rusty-sidekiq", SIDEKIQ_TRACES)),
        ("apalis-redis", rust_peer("apalis-redis", APALIS_TRACES)),
        ("windlass", windlass(RELIABLE, "redis://127.0.0.1:1/0", vec!["--mode", "reliable"], "")),
        ("windlass", windlass(AT_MOST_ONCE, "redis://127.0.0.1:1/0", vec!["--mode", "at-most-once"], "")),
    ])
}

/// Everybody who works off a file.
pub fn on_sqlite() -> Vec<Competitor> {
    let rust = build_rust();
    gather([
        ("apalis-sqlite", rust_peer(&rust, "apalis-sqlite", APALIS_SQLITE_TRACES)),
        ("windlass", windlass("windlass, synchronous NORMAL", "", vec![], "?sync=normal")),
        ("windlass", windlass("windlass, synchronous FULL", "", vec![], "?sync=full")),
    ])
}

/// Keeps who is there, and says who is not.
fn gather<const N: usize>(all: [(&str, Result<Competitor>); N]) -> Vec<Competitor> {
    let say =
        |(name, found): (&str, Result<Competitor>)| found.map_err(|why| println!("left out: {name}: {why:#}")).ok();
    all.into_iter().filter_map(say).collect()
}

fn ruby(option: &'static str) -> Result<Competitor> {
    need(&["ruby", "sidekiq"])?;
    let version = last_word(&said_by(Command::new("sidekiq").arg("--version"))?);
    let ruby = said_by(Command::new("ruby").args(option.split_whitespace()).args(["-e", "print RUBY_VERSION"]))?;
    let jit = if option.is_empty() { "" } else { " with YJIT" };
    let folder = sources().join("ruby");
    let command = move |phase, order: Order<'_>| {
        let mut command = Command::new(if phase == Phase::Drain { "sidekiq" } else { "ruby" });
        match phase {
            Phase::Enqueue => command.arg(folder.join("enqueue.rb")),
            Phase::Drain => {
                let concurrency = order.concurrency.to_string();
                command
                    .args(["-e", "production", "-q", "default", "-c", &concurrency, "-r"])
                    .arg(folder.join("jobs.rb"))
            }
        };
        command.env("RUBYOPT", option).env("REDIS_URL", order.url).env("COUNT", order.count.to_string());
        command
    };
    Ok(Competitor {
        name: format!("Sidekiq {version}, Ruby {ruby}{jit}"),
        role: Role::Peer,
        work: Work::Program(Box::new(command)),
        traces: SIDEKIQ_TRACES,
    })
}

fn bullmq() -> Result<Competitor> {
    need(&["node", "npm"])?;
    // Beside our other builds, so that the tree stays clean.
    let folder = target().join("bullmq");
    fs::create_dir_all(&folder)?;
    for file in ["package.json", "jobs.mjs"] {
        fs::copy(sources().join("bullmq").join(file), folder.join(file))
            .with_context(|| format!("cannot copy {file}"))?;
    }
    let install = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"];
    said_by(Command::new("npm").args(install).current_dir(&folder))?;
    let package = fs::read(folder.join("node_modules/bullmq/package.json"))?;
    let package: Value = serde_json::from_slice(&package)?;
    let node = said_by(Command::new("node").arg("--version"))?;
    let command = move |phase: Phase, order: Order<'_>| {
        let mut command = Command::new("node");
        command.arg("jobs.mjs").args(arguments(phase, order)).current_dir(&folder);
        command
    };
    Ok(Competitor {
        name: format!(
            "BullMQ {}, Node {}",
            package["version"].as_str().unwrap_or("unknown"),
            node.trim_start_matches('v')
        ),
        role: Role::Peer,
        work: Work::Program(Box::new(command)),
        traces: BULLMQ_TRACES,
    })
}

fn asynq() -> Result<Competitor> {
    need(&["go"])?;
    let (folder, program) = (sources().join("asynq"), target().join("asynq"));
    said_by(Command::new("go").args(["build", "-o"]).arg(&program).arg(".").current_dir(&folder))?;
    let module = fs::read_to_string(folder.join("go.mod"))?;
    let version =
        module.lines().find_map(|line| line.split_once("hibiken/asynq v")).map_or("unknown", |(_, rest)| rest);
    let go = said_by(Command::new("go").args(["env", "GOVERSION"]))?;
    let command = move |phase, order: Order<'_>| {
        let mut command = Command::new(&program);
        command.args(arguments(phase, order));
        command
    };
    Ok(Competitor {
        name: format!("asynq {version}, Go {}", go.trim_start_matches("go")),
        role: Role::Peer,
        work: Work::Program(Box::new(command)),
        traces: ASYNQ_TRACES,
    })
}

/// The program with the peers in Rust, which is one for all of them.
fn build_rust() -> Result<PathBuf> {
    let manifest = sources().join("rust/Cargo.toml");
    // One of them may ask for a newer compiler than it needs.
    build(&["--ignore-rust-version", "--manifest-path", &manifest.to_string_lossy()])?;
    Ok(target().join("release/bench-jobs"))
}

fn rust_peer(program: &Result<PathBuf>, crate_name: &'static str, traces: &'static [Trace]) -> Result<Competitor> {
    let program = match program {
        Ok(program) => program.clone(),
        Err(error) => bail!("{error:#}"),
    };
    let lock = fs::read_to_string(sources().join("rust/Cargo.lock"))?;
    let command = move |phase, order: Order<'_>| {
        let mut command = Command::new(&program);
        command.arg(crate_name).args(arguments(phase, order));
        command
    };
    Ok(Competitor {
        name: format!("{crate_name} {}", locked_version(&lock, crate_name)),
        role: Role::Peer,
        work: Work::Program(Box::new(command)),
        traces,
    })
}

/// Our own load test. `probe` is a URL of the kind of store that is wanted, for a program that was built without it.
fn windlass(name: &str, probe: &str, words: Vec<&'static str>, url_end: &'static str) -> Result<Competitor> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    build(&["-p", "windlass-cli", "--manifest-path", &manifest.to_string_lossy()])?;
    let program = target().join("release/windlass");
    if probe.starts_with("redis:") {
        let output = Command::new(&program).args(["load", "--store", probe, "-n", "1"]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!said.contains("no kind of store"), "this program opens no store on Redis: {}", said.trim());
    }
    Ok(Competitor {
        name: name.to_owned(),
        role: Role::Windlass,
        work: Work::Load { program, words, url_end },
        traces: &[],
    })
}

/// Runs our load test once.
fn load(program: &Path, words: &[&str], url: &str, order: Order<'_>) -> Result<Turn> {
    let (count, concurrency) = (order.count.to_string(), order.concurrency.to_string());
    let mut command = Command::new(program);
    command.args(["load", "--json", "--store", url, "-n", &count, "-c", &concurrency, "--payload", "200"]).args(words);
    let found: Value = serde_json::from_str(&said_by(&mut command)?).context("the load test printed no JSON")?;
    let phase = |name: &str| {
        let phases = found["phases"].as_array().into_iter().flatten();
        let phase =
            phases.into_iter().find(|phase| phase["name"].as_str().is_some_and(|found| found.starts_with(name)));
        phase.with_context(|| format!("the load test tells of no {name}"))
    };
    let sample = |phase: &Value| -> Result<Sample> {
        ensure!(phase["jobs"].as_u64() == Some(order.count), "a phase of {} jobs", phase["jobs"]);
        Ok(Sample {
            seconds: phase["seconds"].as_f64().context("no seconds")?,
            cpu_seconds: phase["cpu_seconds"].as_f64().context("no processor time")?,
            rss_bytes: phase["rss_max_bytes"].as_u64(),
            server_cpu_seconds: None,
        })
    };
    Ok(Turn { enqueue: sample(phase("fill")?)?, drain: sample(phase("drain")?)? })
}

fn arguments(phase: Phase, order: Order<'_>) -> [String; 4] {
    [phase.word().to_owned(), order.url.to_owned(), order.count.to_string(), order.concurrency.to_string()]
}

fn need(programs: &[&str]) -> Result<()> {
    let missing = programs.iter().find(|program| !is_installed(program));
    missing.map_or(Ok(()), |program| bail!("{program} is not installed"))
}

/// Where the peers' programs are.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs")
}

/// Where builds go.
fn target() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from).join("peers")
}

fn build(words: &[&str]) -> Result<()> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    said_by(Command::new(cargo).args(["build", "--release", "--target-dir"]).arg(target()).args(words)).map(drop)
}

/// What a program printed; its own words when it failed.
fn said_by(command: &mut Command) -> Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} ended with {}: {}", output.status, errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn last_word(text: &str) -> String {
    text.split_whitespace().last().unwrap_or("unknown").to_owned()
}
