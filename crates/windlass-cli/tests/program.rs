//! The program as its users run it: real processes, real files, right and wrong input.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn windlass(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(dir).env_remove("WINDLASS_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    windlass(dir).args(arguments).output().unwrap()
}

/// Runs it, expects success, and answers what it printed.
fn printed(dir: &Path, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(dir, &[arguments, &["--json"]].concat())).unwrap()
}

/// Runs it, expects this exit code, and answers its complaint.
fn complaint(dir: &Path, code: i32, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
    complaint
}

/// A folder with some files to checksum.
fn files(count: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..count {
        let folder = dir.path().join(format!("folder-{}", number % 10));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{number}.txt")), "a line\n".repeat(number % 50)).unwrap();
    }
    dir
}

#[test]
fn the_demo_sums_up_every_file_and_a_second_one_agrees() {
    let (dir, root) = (tempfile::tempdir().unwrap(), files(60));
    let root = root.path().to_str().unwrap();

    let first = json(dir.path(), &["demo", root]);
    let second = json(dir.path(), &["demo", root]);

    let lines: u64 = (0..60).map(|number| number % 50).sum();
    assert_eq!(first["summary"]["files"], 60);
    assert_eq!(first["summary"]["lines"], lines);
    assert_eq!(first["summary"]["folders"], 11);
    assert_eq!(first["summary"]["dead"], 0);
    for part in ["files", "bytes", "lines", "checksum"] {
        assert_eq!(first["summary"][part], second["summary"][part]);
    }
    assert!(printed(dir.path(), &["demo", root]).contains("look inside: windlass --store sqlite:windlass-demo.db"));
}

#[test]
fn a_demo_that_is_killed_again_and_again_goes_on_where_it_was_and_its_sum_is_right() {
    let (dir, elsewhere, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), files(3_000));
    let root = root.path().to_str().unwrap();
    let undisturbed = json(elsewhere.path(), &["demo", root]);

    for pause_ms in [60, 120, 200, 280] {
        let mut demo =
            windlass(dir.path()).args(["demo", root]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause_ms));
        demo.kill().unwrap();
        demo.wait().unwrap();
    }
    let disturbed = json(dir.path(), &["demo", root]);

    for part in ["files", "bytes", "lines", "checksum", "folders", "dead"] {
        assert_eq!(disturbed["summary"][part], undisturbed["summary"][part], "{part}");
    }
    let stats = json(dir.path(), &["stats", "--store", "sqlite:windlass-demo.db"]);
    assert_eq!(stats["counts"]["ready"], 0);
    assert_eq!(stats["counts"]["running"], 0);
}

#[test]
fn a_demo_of_another_folder_waits_for_the_unfinished_one() {
    let (dir, root) = (tempfile::tempdir().unwrap(), files(20));
    let url = "sqlite:jobs.db";
    let arguments = format!(r#"{{"root":"{}"}}"#, root.path().display());
    printed(dir.path(), &["enqueue", "demo.scan", &arguments, "--queue", "demo.control", "--store", url]);

    let complaint = complaint(dir.path(), 2, &["demo", dir.path().to_str().unwrap(), "--store", url]);

    assert!(complaint.contains("unfinished demo"), "{complaint}");
}

#[test]
fn a_job_is_enqueued_listed_shown_changed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();

    let id = printed(dir, &["enqueue", "mail.send", r#"{"to":"ann"}"#, "word", "7"]).trim().to_owned();
    let later =
        json(dir, &["enqueue", "mail.send", "--in", "1h", "--queue", "mail"])["id"].as_str().unwrap().to_owned();

    let shown = json(dir, &["jobs", "show", &id]);
    assert_eq!(shown["payload"], serde_json::json!([{ "to": "ann" }, "word", 7]));
    assert_eq!(shown["state"], "ready");
    assert!(printed(dir, &["jobs", "show", &id]).contains("mail.send"));
    assert_eq!(json(dir, &["jobs", "ls", "--state", "scheduled"])["jobs"][0]["id"], later.as_str());
    assert_eq!(json(dir, &["jobs", "ls", "--limit", "1"])["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(json(dir, &["queues"]).as_array().unwrap().len(), 2);
    assert_eq!(json(dir, &["jobs", "kill", &id])[0]["answer"], "was ready");
    assert_eq!(json(dir, &["jobs", "retry", &id, &later]).as_array().unwrap().len(), 2);
    assert_eq!(json(dir, &["stats"])["counts"]["ready"], 2);
    printed(dir, &["jobs", "delete", &id]);
    assert_eq!(json(dir, &["prune", "everything", "--yes"])["removed"], 1);
    assert!(printed(dir, &["jobs", "ls"]).contains("no such jobs"));
}

#[test]
fn a_queue_is_paused_and_resumed() {
    let dir = tempfile::tempdir().unwrap();

    assert_eq!(json(dir.path(), &["pause", "mail"])["changed"], true);
    assert_eq!(json(dir.path(), &["pause", "mail"])["changed"], false);
    assert_eq!(json(dir.path(), &["queues"])[0]["paused"], true);
    assert_eq!(json(dir.path(), &["resume", "mail"])["changed"], true);
}

#[test]
fn wrong_input_ends_with_its_documented_code_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let id = printed(dir, &["enqueue", "ok"]).trim().to_owned();
    std::fs::write(dir.join("bad.toml"), "lease = \"15s\"\nconcurency = 4\n").unwrap();
    std::fs::write(dir.join("notes.txt"), "dear diary").unwrap();

    assert!(complaint(dir, 2, &["jobs", "show", "xyz"]).contains("24 lower-case hexadecimal"));
    assert!(complaint(dir, 2, &["enqueue", "no space"]).contains("kind"));
    assert!(complaint(dir, 2, &["enqueue", "kind", "{\"broken\":"]).contains("broken JSON"));
    assert!(complaint(dir, 2, &["enqueue", "kind", "--queue", "a b"]).contains("queue"));
    assert!(complaint(dir, 2, &["enqueue", "kind", "--attempts", "0"]).contains("1 to 1000"));
    assert!(complaint(dir, 2, &["enqueue", "kind", "--in", "soon"]).contains("span of time"));
    assert!(complaint(dir, 2, &["stats", "--config", "bad.toml"]).contains("bad.toml:2:1"));
    assert!(complaint(dir, 2, &["serve", "--concurrency", "0"]).contains("between 1 and 10000"));
    assert!(complaint(dir, 2, &["prune", "everything"]).contains("--yes"));
    assert!(complaint(dir, 2, &["demo", "notes.txt"]).contains("no folder"));
    assert!(complaint(dir, 3, &["jobs", "show", "0123456789abcdef01234567"]).contains("no job"));
    assert!(complaint(dir, 5, &["stats", "--store", "ledger://127.0.0.1"]).contains("sqlite:PATH"));
    assert!(complaint(dir, 5, &["stats", "--store", "sqlite:notes.txt"]).contains("no SQLite database"));
    assert!(complaint(dir, 5, &["stats", "--store", "sqlite:missing/jobs.db"]).contains("missing"));
    printed(dir, &["jobs", "cancel", &id]);
    assert!(complaint(dir, 4, &["jobs", "cancel", &id]).contains("cancelled"));
    assert_eq!(std::fs::read(dir.join("notes.txt")).unwrap(), b"dear diary");
}

#[test]
fn an_escape_sequence_in_a_job_never_reaches_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let id = printed(dir.path(), &["enqueue", "kind", "a\u{1b}[2Jb"]).trim().to_owned();

    for arguments in [&["jobs", "ls"][..], &["jobs", "show", &id]] {
        assert!(!printed(dir.path(), arguments).contains('\u{1b}'));
    }
}

#[test]
fn the_configuration_tells_who_set_what() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("windlass.toml"), "concurrency = 7\n[env.test]\nlease = \"3s\"\n").unwrap();

    let output = windlass(dir.path())
        .args(["config", "show", "--origin", "--env", "test"])
        .env("WINDLASS_PREFETCH_MAX", "5")
        .output()
        .unwrap();

    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["windlass.toml:1:15", "windlass.toml:3:9", "variable WINDLASS_PREFETCH_MAX", "default"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn completions_are_printed_and_doctor_finds_a_new_store_sound() {
    let dir = tempfile::tempdir().unwrap();

    assert!(printed(dir.path(), &["completions", "bash"]).contains("_windlass"));
    let findings = json(dir.path(), &["doctor"]);
    assert!(findings.as_array().unwrap().iter().all(|finding| finding["severity"] == "good"), "{findings}");
}

#[cfg(unix)]
#[test]
fn a_server_works_a_queue_shows_itself_and_stops_at_term() {
    let dir = tempfile::tempdir().unwrap();
    let root = files(5);
    let mut server = windlass(dir.path())
        .args(["serve", "--queue", "demo:1", "--queue", "demo.control:1", "--lease", "1s"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let arguments = format!(r#"{{"root":"{}"}}"#, root.path().display());
    printed(dir.path(), &["enqueue", "demo.scan", &arguments, "--queue", "demo.control"]);

    // One scan, five files, six folders and the sum: thirteen, and a retry or two.
    let since = Instant::now();
    while json(dir.path(), &["stats"])["counts"]["totals"]["done"] != 13 {
        assert!(since.elapsed() < Duration::from_secs(30), "{}", printed(dir.path(), &["stats"]));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(json(dir.path(), &["processes"])[0]["info"]["pid"], server.id());
    let terminated = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(terminated.success());

    assert!(server.wait().unwrap().success());
    assert_eq!(json(dir.path(), &["processes"]), serde_json::json!([]));
}

#[test]
fn a_store_is_moved_into_another_and_back() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        printed(dir.path(), &["enqueue", "mail.send", "[1]", "--store", "sqlite:a.db"]);
    }
    let first = json(dir.path(), &["jobs", "ls", "--store", "sqlite:a.db"]);

    let moved = json(dir.path(), &["migrate", "--from", "sqlite:a.db", "--to", "sqlite:b.db"]);
    let left = printed(dir.path(), &["migrate", "--from", "sqlite:a.db", "--to", "sqlite:b.db"]);
    printed(dir.path(), &["migrate", "--from", "sqlite:b.db", "--to", "sqlite:a.db"]);

    assert_eq!((moved["moved"].as_u64(), moved["jobs"]["ready"].as_u64()), (Some(3), Some(3)));
    assert!(left.contains("moved 0 jobs"), "{left}");
    assert_eq!(json(dir.path(), &["jobs", "ls", "--store", "sqlite:a.db"]), first);
    let same = complaint(dir.path(), 5, &["migrate", "--from", "sqlite:a.db", "--to", "sqlite:a.db"]);
    assert!(same.contains("the same store"), "{same}");
}

#[test]
fn jobs_are_found_by_a_text_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let id = printed(dir.path(), &["enqueue", "mail.send", r#"{"to":"ann"}"#]).trim().to_owned();
    printed(dir.path(), &["enqueue", "mail.send", r#"{"to":"bob"}"#]);

    let found = |arguments: &[&str]| json(dir.path(), &[&["jobs", "search"], arguments].concat())["jobs"].clone();

    assert_eq!(found(&["ann"])[0]["id"], id.as_str());
    assert_eq!(found(&[&id[10..]]).as_array().unwrap().len(), 1);
    assert_eq!(found(&["mail", "--state", "ready"]).as_array().unwrap().len(), 2);
    assert_eq!(found(&["ann", "--kind", "other"]), serde_json::json!([]));
    assert!(printed(dir.path(), &["jobs", "search", "bob"]).contains("mail.send"));
}

#[cfg(unix)]
#[test]
fn a_server_is_made_quiet_and_stopped_through_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = windlass(dir.path()).args(["serve", "--lease", "1s"]).stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    let until = |is_so: &dyn Fn(&Value) -> bool| {
        while !is_so(&json(dir.path(), &["processes"])) {
            assert!(since.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until(&|processes| processes[0].is_object());
    let name = json(dir.path(), &["processes"])[0]["info"]["id"].as_str().unwrap().to_owned();

    assert_eq!(json(dir.path(), &["quiet", &name[..name.len() - 4]])["process"], name.as_str());
    until(&|processes| processes[0]["vitals"]["quiet"] == true);
    assert!(printed(dir.path(), &["stop", "--all"]).contains("1 process will begin to stop"));

    assert!(server.wait().unwrap().success());
    assert!(complaint(dir.path(), 3, &["stop", &name]).contains("no process"));
    assert!(printed(dir.path(), &["quiet", "--all"]).contains("no process works on"));
}

#[cfg(unix)]
#[test]
fn a_log_for_programs_is_one_json_object_a_line_with_the_job_it_is_about() {
    let (dir, root) = (tempfile::tempdir().unwrap(), files(3));
    let arguments = format!(r#"{{"root":"{}"}}"#, root.path().display());
    let id = printed(dir.path(), &["enqueue", "demo.scan", &arguments, "--queue", "demo.control"]).trim().to_owned();
    let server = windlass(dir.path())
        .args(["serve", "--queue", "demo.control:1", "--log-format", "json"])
        .env("RUST_LOG", "windlass=trace")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let since = Instant::now();
    while json(dir.path(), &["stats"])["counts"]["totals"]["done"] == 0 {
        assert!(since.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    let output = server.wait_with_output().unwrap();

    let log = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(output.status.success() && lines.len() > 2, "{log}");
    for line in &lines {
        assert!(["timestamp", "level", "message", "target"].iter().all(|field| line[field].is_string()), "{line}");
    }
    assert!(lines.iter().any(|line| line["message"] == "leased" && line["job.id"] == id.as_str()), "{log}");
}
