//! `windlass load` as its users run it: real stores, real processes, a real server for HTTP; right and wrong input.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn windlass(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(dir).env_remove("WINDLASS_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn load(dir: &Path, arguments: &[&str]) -> Output {
    windlass(dir).args(["load", "--json"]).args(arguments).output().unwrap()
}

/// Runs a test, expects success, and answers what it found.
fn found(dir: &Path, arguments: &[&str]) -> Value {
    let output = load(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a test, expects this exit code, and answers its complaint.
fn complaint(dir: &Path, code: i32, arguments: &[&str]) -> String {
    let output = load(dir, arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
    complaint
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    let output = windlass(dir).args(arguments).arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_store_is_empty(dir: &Path) {
    let counts = &json(dir, &["stats"])["counts"];
    for state in ["scheduled", "ready", "running", "retry", "done", "dead", "cancelled"] {
        assert_eq!(counts[state], 0, "{state}");
    }
}

/// A process that is ended when the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_job_of_a_fill_and_a_drain_is_accounted_for_and_none_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();

    for store in ["memory:", "sqlite:jobs.db"] {
        let found = found(dir.path(), &["-n", "5_000", "--fill", "bulk:2", "--payload", "300", "--store", store]);

        assert_eq!(found["verdict"]["pushed"], 5_000);
        assert_eq!(found["verdict"]["done"], 5_000);
        assert_eq!(found["phases"].as_array().unwrap().len(), 2);
        assert!(found["phases"][1]["jobs_per_second"].as_f64().unwrap() > 100.0, "{found}");
        assert!(found["phases"][1]["rss_bytes"].as_u64().unwrap() > 1 << 20, "{found}");
        assert_eq!(found["latencies"][0]["run"]["count"], 5_000);
    }

    assert_store_is_empty(dir.path());
    assert_eq!(json(dir.path(), &["stats"])["counts"]["totals"]["done"], 5_000);
}

#[test]
fn processes_of_their_own_share_the_jobs_and_the_checker_agrees_with_the_counts() {
    let dir = tempfile::tempdir().unwrap();

    for mode in ["reliable", "at-most-once"] {
        let found = found(
            dir.path(),
            &["-n", "3000", "-c", "10", "--processes", "2", "--journal", mode, "--mode", mode, "--fill", "single:20"],
        );

        assert_eq!((&found["verdict"]["done"], &found["mode"]), (&3_000.into(), &mode.into()));
        assert_eq!(found["checker"]["sent"], 3_000);
        assert_eq!(found["checker"]["finished"], 3_000);
        assert_eq!(found["checker"]["lost"], serde_json::json!([]));
        let journals = std::fs::read_dir(dir.path().join(mode)).unwrap().count();
        assert_eq!(journals, 3);
    }
    assert_store_is_empty(dir.path());
}

#[test]
fn an_open_loop_tells_how_long_jobs_wait_for_their_start() {
    let dir = tempfile::tempdir().unwrap();

    let found = found(dir.path(), &["-n", "200", "--rate", "1000", "--job", "3*noop", "--job", "fib:10"]);

    let seconds = found["phases"][0]["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.199, "200 jobs at 1000 a second took {seconds} s");
    assert_eq!(found["push_lateness"]["count"], 200);
    assert_eq!(found["latencies"][0]["due_to_start"]["count"], 150);
    assert_eq!(found["latencies"][1]["due_to_start"]["count"], 50);
    let p50 = |span: &str| found["latencies"][0][span]["p50_us"].as_f64().unwrap();
    assert!(p50("due_to_start") >= p50("push_to_start"), "{found}");
}

#[test]
fn jobs_that_ask_a_slow_server_wait_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut server =
        windlass(dir.path()).args(["load", "--serve-http", "100ms"]).stdout(Stdio::piped()).spawn().unwrap();
    let output = server.stdout.take().unwrap();
    let _server = Running(server);
    let mut url = String::new();
    BufReader::new(output).read_line(&mut url).unwrap();

    let found = found(dir.path(), &["-n", "200", "-c", "100", "--job", &format!("http:{}", url.trim())]);

    assert_eq!(found["verdict"]["done"], 200);
    assert!(found["latencies"][0]["run"]["p50_us"].as_f64().unwrap() >= 99_000.0, "{found}");
    let seconds = found["phases"][1]["seconds"].as_f64().unwrap();
    assert!((0.2..10.0).contains(&seconds), "one after the other would have taken 20 s; took {seconds}");
}

#[test]
fn a_line_is_appended_for_each_job() {
    let dir = tempfile::tempdir().unwrap();

    found(dir.path(), &["-n", "1000", "--job", "append:lines.txt"]);

    let text = std::fs::read_to_string(dir.path().join("lines.txt")).unwrap();
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!((text.lines().count(), lines.len()), (1_000, 1_000));
}

#[test]
fn an_idle_server_is_measured_without_a_job() {
    let dir = tempfile::tempdir().unwrap();

    let found = found(dir.path(), &["-n", "0", "--idle", "200ms"]);

    assert_eq!(found["phases"][0]["name"], "idle");
    assert!(found["phases"][0]["seconds"].as_f64().unwrap() >= 0.2);
}

#[test]
fn jobs_that_fail_fail_the_test_and_are_removed_with_their_reason_told() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = format!("http://{}/", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());

    let output = load(dir.path(), &["-n", "20", "--job", &nobody]);

    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["verdict"]["failed"], &found["verdict"]["done"]), (&20.into(), &0.into()));
    assert!(found["first_failure"].as_str().unwrap().contains(&nobody), "{found}");
    assert_store_is_empty(dir.path());
}

#[test]
fn a_queue_in_which_others_have_jobs_or_at_which_others_work_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let id = json(dir.path(), &["enqueue", "theirs", "--queue", "busy"])["id"].as_str().unwrap().to_owned();
    json(dir.path(), &["pause", "paused"]);
    let mut server = windlass(dir.path()).args(["serve", "--queue", "served"]).stderr(Stdio::piped()).spawn().unwrap();
    let says = server.stderr.take().unwrap();
    let _server = Running(server);
    let mut line = String::new();
    BufReader::new(says).read_line(&mut line).unwrap();
    assert!(line.contains("serving"), "{line}");

    assert!(complaint(dir.path(), 2, &["--queue", "busy"]).contains("holds 1 jobs"));
    assert!(complaint(dir.path(), 2, &["--queue", "paused"]).contains("is paused"));
    assert!(complaint(dir.path(), 2, &["--queue", "served"]).contains("serves queue"));

    assert_eq!(json(dir.path(), &["jobs", "show", &id])["state"], "ready");
}

#[test]
fn wrong_input_is_refused_with_what_is_right() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("there")).unwrap();

    for (arguments, right) in [
        (&["--job", "dance"][..], "noop"),
        (&["--payload", "3"], "88"),
        (&["--jobs", "many"], "number of jobs"),
        (&["--rate", "0"], "jobs a second"),
        (&["--fill", "gently"], "bulk or single"),
        (&["--mode", "perhaps"], "at-most-once"),
        (&["--concurrency", "0"], "1..=10000"),
        (&["--queue", "no space"], "queue"),
        (&["--processes", "2", "--store", "memory:"], "another --store"),
    ] {
        let complaint = complaint(dir.path(), 2, arguments);
        assert!(complaint.contains(right), "{arguments:?}: {complaint}");
    }
    assert!(complaint(dir.path(), 1, &["--journal", "there"]).contains("new folder"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_test_says_so_and_takes_its_jobs_away() {
    for (processes, signal) in [("0", "-INT"), ("2", "-TERM")] {
        let dir = tempfile::tempdir().unwrap();
        let mut test = windlass(dir.path())
            .args(["load", "--json", "-n", "2000", "-c", "2", "--job", "sleep:50ms", "--processes", processes])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Some have ended: the test is in the middle.
        let since = std::time::Instant::now();
        while json(dir.path(), &["stats"])["counts"]["totals"]["done"].as_u64().unwrap_or(0) < 4 {
            assert!(since.elapsed().as_secs() < 30);
            assert_eq!(test.try_wait().unwrap(), None);
        }

        assert!(Command::new("kill").arg(signal).arg(test.id().to_string()).status().unwrap().success());
        let output = test.wait_with_output().unwrap();

        assert_eq!(output.status.code(), Some(1));
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert!(complaint.contains("interrupted; the jobs of this test that had not run were removed"), "{complaint}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let count = |name: &str| found["verdict"][name].as_u64().unwrap();
        assert_eq!(count("done") + count("left"), 2_000, "{found}");
        assert_eq!(count("lost") + count("duplicated"), 0);
        assert_store_is_empty(dir.path());
    }
}
