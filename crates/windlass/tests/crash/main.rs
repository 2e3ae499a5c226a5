//! What survives when processes do not.
//!
//! Each scenario starts real worker processes on one store file, does something to them (kill -9, TERM, STOP, a full
//! disk), and hands the journals of everybody, with a dump of the store, to the checker. A worker is this same
//! program, started again with the word `worker`.
//!
//! Two variables make a scenario longer, for the soak: `WINDLASS_CRASH_CYCLES` and `WINDLASS_CRASH_SEED`. Every
//! scenario prints its seed, and a line `crash-ledger: …` that the soak adds up.

#![allow(clippy::print_stdout, reason = "it is its own test runner")]

mod arena;
mod disk_full;
mod kill;
mod poison;
mod stop;
mod term;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

type Scenario = (&'static str, fn());

const SCENARIOS: &[Scenario] = &[
    ("kill_9_in_a_loop_loses_nothing_and_finishes_nothing_twice", kill::in_a_loop),
    ("a_process_that_dies_at_the_worst_moments_loses_nothing", kill::at_the_worst_moments),
    ("a_crash_is_recovered_within_the_lease_and_five_seconds", kill::is_recovered_in_time),
    ("term_in_a_loop_loses_nothing_and_runs_nothing_twice", term::in_a_loop),
    ("a_process_stopped_beyond_its_lease_has_every_late_write_refused", stop::beyond_the_lease),
    ("a_job_that_aborts_its_process_is_dead_after_three_recoveries_and_the_others_finish", poison::aborts),
    ("a_full_disk_refuses_new_jobs_and_takes_the_acks_when_there_is_room_again", disk_full::fills_and_drains),
    ("the_checker_objects_when_the_fence_is_taken_away", kill::negative_control),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "worker") {
        return worker::main(&arguments[1..]);
    }
    if arguments.iter().any(|word| word == "--list") {
        SCENARIOS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let wanted: Vec<&Scenario> = SCENARIOS.iter().filter(|(name, _)| is_wanted(name)).collect();
    println!("\nrunning {} tests", wanted.len());
    let mut failed = 0;
    for (name, scenario) in &wanted {
        let ended = catch_unwind(AssertUnwindSafe(scenario));
        println!("test {name} ... {}", if ended.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(ended.is_err());
    }
    let (passed, out) = (wanted.len() - failed, SCENARIOS.len() - wanted.len());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {out} filtered out\n");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
