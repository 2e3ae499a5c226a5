//! `cargo xtask`: the checks of the project, the same on a developer's machine and on every change.
//!
//! One file for each command. Each prints what it does, and fails with the reason.
#![forbid(unsafe_code)]

mod bench;
mod browser;
mod docs;
mod install;
mod instructions;
mod loom;
mod sanitize;
mod shell;
mod shuttle;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test                every check and every test; installs what is missing where it may
  tidy                the rules of the tree that a program can check
  loom                the models of the pool's protocols, and their controls
  shuttle [SCENARIO]  the whole pool in 100,000 schedules, and the controls; or only scenarios whose names hold the word
  sanitize [KIND]     the pool's tests under a sanitizer: thread (default) or address; needs a nightly toolchain
  docs [--check]      writes docs/job_lifecycle.md and builds the reference; --check only compares
  browser [--pictures]
                      the dashboard in a real Chromium; or the pictures of the documentation
  soak --only NAME --minutes M
                      a crash scenario (kill, term, stop), or the tasks of the pool (ledger), again and again, with a
                      ledger that adds up over runs
  instructions [--update]
                      what the pool's operations cost in instructions, against bench/instructions.tsv; needs valgrind
  install --prefix DIR [--profile NAME]
                      the headers and libraries of the pool for C and C++
  bench [NAME]        the benchmarks of bench/; without a name it lists them
  bench pool|graph|burst|cpp --quick
                      in a minute, whether the benchmarks of the pool, its graphs, its bursts, its C and C++ side run
  bench jobs [--quick] [redis|sqlite]
                      jobs through a store, beside Sidekiq, BullMQ, asynq, rusty-sidekiq and apalis";

fn browse(options: &[&str]) -> anyhow::Result<()> {
    if let Some(why) = browser::run(options)? {
        println!("skipped: {why}");
    }
    Ok(())
}

fn count_instructions(is_update: bool) -> anyhow::Result<()> {
    if let Some(why) = instructions::run(is_update)? {
        println!("skipped: {why}");
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(),
        ["loom"] => loom::run(),
        ["shuttle"] => shuttle::run(None),
        ["shuttle", scenario] => shuttle::run(Some(scenario)),
        ["sanitize"] => sanitize::run("thread"),
        ["sanitize", kind] => sanitize::run(kind),
        ["docs"] => docs::run(false),
        ["docs", "--check"] => docs::run(true),
        ["install", options @ ..] => install::run(options),
        ["browser", options @ ..] => browse(options),
        ["soak", options @ ..] => soak::run(options),
        ["instructions"] => count_instructions(false),
        ["instructions", "--update"] => count_instructions(true),
        ["bench", names @ ..] => bench::run(names),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        [other, ..] => Err(anyhow::anyhow!("no command {other:?}\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
