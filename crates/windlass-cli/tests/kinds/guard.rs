//! No program outlives its job: deadlines, cancels, stops, and kills of everybody who could see to it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, until};

/// A span for `sleep` that no other process on this machine sleeps for.
struct Mark(String);

impl Mark {
    fn new() -> Mark {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Mark(format!("86400.{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The processes that have it on their command line and are not the server's own helpers.
    fn processes(&self) -> Vec<i32> {
        let is_it =
            |pid: &i32| words(*pid).first().is_some_and(|word| word == "sleep") && words(*pid).contains(&self.0);
        pids().into_iter().filter(is_it).collect()
    }

    fn until_count(&self, count: usize) {
        until(&format!("{count} processes to sleep for {}", self.0), || self.processes().len() == count);
    }
}

fn pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The command line of a process; none when it has ended.
fn words(pid: i32) -> Vec<String> {
    let line = std::fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The process that started another.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A script that sleeps in its group, out of its group, and in the program itself, deaf to TERM.
fn deaf(mark: &Mark) -> String {
    let span = &mark.0;
    format!("trap '' TERM; sleep {span} & setsid sleep {span} & sleep {span}; exit 0")
}

fn enqueue(bench: &Bench, options: &[&str], script: &str) -> String {
    bench.enqueue(&[&["exec"], options, &["--", "sh", "-c", script]].concat())
}

#[test]
fn at_its_deadline_a_program_and_all_it_started_are_ended() {
    let bench = Bench::serving(&["--allow-exec", "sh", "--cancel-grace", "400ms"]);
    let mark = Mark::new();
    let script = format!("echo begun; {}", deaf(&mark));

    let id = enqueue(&bench, &["--timeout", "1500ms", "--attempts", "1"], &script);
    mark.until_count(3);
    let error = bench.until(&id, "dead")["error"].clone();

    assert_eq!(error["class"], "Timeout");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("at its deadline") && message.contains("SIGKILL") && message.ends_with("begun"),
        "{message}"
    );
    mark.until_count(0);
}

#[test]
fn a_program_that_heeds_term_has_the_grace_to_end_well_also_behind_a_shell() {
    let bench = Bench::serving(&["--allow-exec", "sh", "--cancel-grace", "20s"]);
    let mark = Mark::new();
    // The outer shell ends at once; the inner one takes its time over the end.
    let inner = format!("trap 'sleep 0.4; touch ended-well; exit 0' TERM; sleep {} & wait", mark.0);
    let script = format!("sh -c \"{inner}\" & wait");

    let id = enqueue(&bench, &[], &script);
    mark.until_count(1);
    bench.printed(&["jobs", "cancel", &id]);
    bench.until(&id, "cancelled");

    assert!(bench.dir.path().join("ended-well").exists());
    mark.until_count(0);
}

#[test]
fn what_a_program_leaves_running_ends_with_it() {
    let bench = Bench::serving(&["--allow-exec", "sh"]);
    let mark = Mark::new();
    let script = format!("sleep {0} & setsid sh -c 'sleep {0} & sleep {0}' & sleep 0.3; echo done", mark.0);

    let id = enqueue(&bench, &[], &script);

    assert_eq!(bench.until(&id, "done")["result"]["stdout"], "done\n");
    assert_eq!(mark.processes(), [0; 0]);
}

#[test]
fn a_stopped_server_ends_its_programs_and_gives_their_jobs_back() {
    let mut bench = Bench::serving(&["--allow-exec", "sh", "--stop-timeout", "100ms", "--cancel-grace", "500ms"]);
    let mark = Mark::new();
    let id = enqueue(&bench, &[], &deaf(&mark));
    mark.until_count(3);

    let printed = bench.stop();

    assert!(printed.contains("stopped; 0 done, 0 failed"), "{printed}");
    assert_eq!(bench.job(&id)["state"], "ready");
    mark.until_count(0);
}

#[test]
fn a_server_that_is_stopped_at_once_leaves_no_program_behind() {
    let mut bench = Bench::serving(&["--allow-exec", "sh"]);
    let mark = Mark::new();
    enqueue(&bench, &[], &deaf(&mark));
    mark.until_count(3);

    bench.server().signal(Signal::TERM).unwrap();
    // The second request counts only when the first has been heard.
    let quiet = || bench.printed(&["processes", "--json"]).contains("\"quiet\": true");
    until("the server to be quiet", quiet);
    bench.server().signal(Signal::TERM).unwrap();

    mark.until_count(0);
}

#[test]
fn programs_of_a_server_that_was_killed_end_before_others_may_run_their_jobs() {
    let mut bench = Bench::serving(&["--allow-exec", "sh", "--cancel-grace", "1h"]);
    let mark = Mark::new();
    enqueue(&bench, &[], &deaf(&mark));
    mark.until_count(3);

    bench.server().kill();

    mark.until_count(0);
    assert!(bench.printed(&["jobs", "ls", "--state", "running"]).contains("exec"), "the lease was over first");
}

#[test]
fn a_guard_that_is_killed_takes_its_program_along_and_the_job_is_tried_again() {
    let bench = Bench::serving(&["--allow-exec", "sh"]);
    let mark = Mark::new();
    let script = format!("test $WINDLASS_JOB_ATTEMPT = 2 || sleep {}", mark.0);
    let id = enqueue(&bench, &["--retry", "10ms"], &script);
    mark.until_count(1);

    let shell = parent(mark.processes()[0]);
    let guard = parent(shell);
    assert_eq!(words(guard), ["windlass", "exec-guard"]);
    kill(guard, Signal::KILL);

    assert_eq!(bench.until(&id, "done")["attempt"], 2);
    mark.until_count(0);
}

#[test]
fn a_program_ends_even_when_server_and_guard_are_killed_at_once() {
    let mut bench = Bench::serving(&["--allow-exec", "sleep"]);
    let mark = Mark::new();
    bench.enqueue(&["exec", "--", "sleep", &mark.0]);
    mark.until_count(1);
    let guard = parent(mark.processes()[0]);
    assert_eq!(words(guard), ["windlass", "exec-guard"]);

    // Neither can do anything any more when the other is gone.
    bench.server().stop().unwrap();
    kill(guard, Signal::STOP);
    kill(guard, Signal::KILL);
    bench.server().kill();

    mark.until_count(0);
}

#[test]
fn a_guard_that_nobody_started_says_so_and_runs_nothing() {
    let bench = Bench::new();

    let output = bench.run(&["exec-guard"]);

    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("started by `windlass serve`"));
    assert!(!bench.printed(&["--help"]).contains("exec-guard"));
}
