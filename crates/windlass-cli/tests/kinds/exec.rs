//! Programs as jobs: what they get, what their end means, what is refused.

use std::path::Path;

use serde_json::json;

use crate::support::Bench;

#[test]
fn a_program_in_any_language_gets_the_job_and_its_output_is_the_result() {
    let bench = Bench::serving(&["--allow-exec", "sh"]);
    let script =
        r#"cat; echo "$WINDLASS_JOB_ID $WINDLASS_JOB_ATTEMPT/$WINDLASS_JOB_ATTEMPTS_MAX $WINDLASS_JOB_DEADLINE" >&2"#;

    let id = bench.enqueue(&["exec", "--data", r#"{"to":["ann"]}"#, "--timeout", "1h", "--", "sh", "-c", script]);
    let result = bench.until(&id, "done")["result"].clone();

    let told: serde_json::Value = serde_json::from_str(result["stdout"].as_str().unwrap()).unwrap();
    assert_eq!((&told["id"], &told["kind"], &told["attempt"]), (&json!(id), &json!("exec"), &json!(1)));
    assert_eq!((&told["data"], &told["argv"]), (&json!({ "to": ["ann"] }), &json!(["sh", "-c", script])));
    let words: Vec<&str> = result["stderr"].as_str().unwrap().split_whitespace().collect();
    assert_eq!(words, [&id, "1/25", told["deadline"].as_str().unwrap()]);
    assert_eq!((&result["exit_code"], &result["stderr_len"]), (&json!(0), &json!(words.join(" ").len() + 1)));
}

#[test]
fn the_trace_that_enqueued_a_program_goes_on_in_it() {
    let bench = Bench::serving(&["--allow-exec", "sh"]);
    let trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01";

    let mut enqueue = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    enqueue.current_dir(bench.dir.path()).env("TRACEPARENT", trace).env_remove("WINDLASS_URL");
    enqueue.args(["enqueue", "exec", "--keep", "1h", "--", "sh", "-c", "echo $TRACEPARENT"]);
    let traced = String::from_utf8(enqueue.output().unwrap().stdout).unwrap().trim().to_owned();
    let plain = bench.enqueue(&["exec", "--", "sh", "-c", "echo [$TRACEPARENT]"]);

    assert_eq!(bench.until(&traced, "done")["result"]["stdout"], format!("{trace}\n"));
    assert_eq!(bench.until(&plain, "done")["result"]["stdout"], "[]\n");
}

#[test]
fn arguments_reach_the_program_as_they_stand() {
    let bench = Bench::serving(&["--allow-exec", "printf"]);
    let hostile = ["$(touch made)", "; touch made", "`touch made`", "a  b", "*", "-rf", "", "'\"\\", "é\u{1b}[2J"];

    let id = bench.enqueue(&[&["exec", "--", "printf", "<%s>"], &hostile[..]].concat());
    let result = bench.until(&id, "done")["result"].clone();

    assert_eq!(result["stdout"], hostile.map(|word| format!("<{word}>")).concat());
    assert!(!bench.dir.path().join("made").exists());
}

#[test]
fn exit_codes_decide_between_done_again_and_dead() {
    let bench = Bench::serving(&["--allow-exec", "sh"]);
    let enqueue =
        |script: &str| bench.enqueue(&["exec", "--attempts", "2", "--retry", "10ms", "--", "sh", "-c", script]);

    let (hopeless, failing, tempfail, killed) = (
        enqueue("echo bad data >&2; exit 65"),
        enqueue("echo said; exit 3"),
        enqueue("exit 75"),
        enqueue("kill -9 $$"),
    );
    let second = enqueue(r#"test "$WINDLASS_JOB_ATTEMPT" = 2 || exit 75"#);

    let error = |id: &str, state: &str| {
        let job = bench.until(id, state);
        (job["attempt"].as_u64().unwrap(), job["error"]["class"].clone(), job["error"]["message"].clone())
    };
    assert_eq!(error(&hopeless, "dead"), (1, json!("ExecExit"), json!("exit code 65 (EX_DATAERR)\nbad data")));
    assert_eq!(error(&failing, "dead"), (2, json!("ExecExit"), json!("exit code 3\nsaid")));
    assert_eq!(error(&tempfail, "dead").1, "ExecTempFail");
    assert_eq!(error(&killed, "dead").2, "killed by signal 9 (SIGKILL), and no output");
    assert_eq!(bench.until(&second, "done")["attempt"], 2);
}

#[test]
fn what_is_not_allowed_is_dead_with_the_reason() {
    let bench = Bench::serving(&["--allow-exec", "true", "sleep", "--allow-exec-env", "LANG"]);
    let reason = |arguments: &[&str]| {
        let id = bench.enqueue(&[&["exec"], arguments].concat());
        bench.until(&id, "dead")["error"]["message"].as_str().unwrap().to_owned()
    };

    assert!(
        reason(&["--", "sh", "-c", "true"]).contains(r#"program "sh" is not allowed here; allowed are true, sleep"#)
    );
    assert!(reason(&["--", "/bin/../bin/true"]).contains("not allowed"));
    assert!(reason(&["--setenv", "LD_PRELOAD=x.so", "--", "true"]).contains(r#"variable "LD_PRELOAD""#));
    assert!(reason(&["--setenv", "WINDLASS_JOB_ID=x", "--", "true"]).contains("WINDLASS_"));
    assert!(reason(&["--cwd", "/", "--", "true"]).contains(r#"folder "/" is not allowed"#));
    bench.until(&bench.enqueue(&["exec", "--setenv", "LANG=cs", "--", "true"]), "done");
    let unreadable = bench.enqueue(&["other.exec"]);
    assert_eq!(bench.until(&unreadable, "retry")["error"]["class"], "UnknownKind");
}

#[test]
fn without_an_allow_list_no_program_runs_and_the_job_waits_for_a_server_that_may() {
    let bench = Bench::serving(&[]);

    let id = bench.enqueue(&["exec", "--", "touch", "made"]);

    assert_eq!(bench.until(&id, "retry")["error"]["class"], "UnknownKind");
    assert!(!bench.dir.path().join("made").exists());
}

#[test]
fn folder_and_variables_are_given_where_they_are_allowed_and_the_servers_own_are_not() {
    let mut bench = Bench::new();
    let folder = bench.dir.path().join("inside");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let flags =
        ["--allow-exec", "sh", "--allow-exec-env", "WHO", "--allow-exec-cwd", bench.dir.path().to_str().unwrap()];
    let flags = flags.map(str::to_owned);
    let secret = [("WINDLASS_URL", "sqlite:jobs.db"), ("REDIS_URL", "redis://:word@host"), ("PLAIN", "kept")];
    bench.serve(&flags.each_ref().map(String::as_str), &secret);

    let script = r#"echo "$WHO $PLAIN [$WINDLASS_URL$REDIS_URL$WINDLASS_POLL_INTERVAL] $(pwd -P)""#;
    let folder = folder.to_str().unwrap();
    let id = bench.enqueue(&["exec", "--setenv", "WHO=ann", "--cwd", folder, "--", "sh", "-c", script]);

    assert_eq!(bench.until(&id, "done")["result"]["stdout"], format!("ann kept [] {folder}\n"));
}

#[test]
fn any_program_may_run_where_that_is_said() {
    let mut bench = Bench::new();
    std::fs::write(bench.dir.path().join("windlass.toml"), "allow_exec_any = true\n").unwrap();
    bench.serve(&[], &[]);

    let id = bench.enqueue(&["exec", "--setenv", "A=b", "--cwd", "/", "--", "sh", "-c", "pwd; echo $A"]);

    assert_eq!(bench.until(&id, "done")["result"]["stdout"], "/\nb\n");
    let missing = bench.enqueue(&["exec", "--attempts", "1", "--", "no-such-program"]);
    assert_eq!(bench.until(&missing, "dead")["error"]["class"], "ExecMissing");
}

#[test]
fn a_long_output_is_kept_by_its_two_ends() {
    let bench = Bench::serving(&["--allow-exec", "sh"]);
    let many = "i=0; while [ $i -lt 300000 ]; do echo line $i; i=$((i+1)); done";

    let done = bench.enqueue(&["exec", "--", "sh", "-c", many]);
    let failed = bench.enqueue(&["exec", "--attempts", "1", "--", "sh", "-c", &format!("{many}; exit 1")]);

    let result = bench.until(&done, "done")["result"].clone();
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("line 0\n") && stdout.ends_with("line 299999\n") && stdout.contains("bytes left out"));
    assert!(stdout.len() < 70_000 && result["stdout_len"].as_u64().unwrap() > 3_000_000);
    let message = bench.until(&failed, "dead")["error"]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.ends_with("line 299999") && message.len() < 10_000);
}

#[test]
fn a_program_that_reads_commands_gets_an_empty_input_when_it_is_asked_for() {
    let bench = Bench::serving(&["--allow-exec", "wc", "true"]);

    let id = bench.enqueue(&["exec", "--no-stdin", "--", "wc", "-c"]);
    let unread = bench.enqueue(&["exec", "--data", &format!("[{}1]", "1,".repeat(60_000)), "--", "true"]);

    assert_eq!(bench.until(&id, "done")["result"]["stdout"].as_str().unwrap().trim(), "0");
    bench.until(&unread, "done");
}

#[test]
fn a_server_goes_on_when_its_file_is_replaced() {
    let mut bench = Bench::new();
    let image = bench.dir.path().join("windlass");
    std::fs::copy(Path::new(env!("CARGO_BIN_EXE_windlass")), &image).unwrap();
    bench.serve_with(&image, &["--allow-exec", "true"], &[]);
    bench.until(&bench.enqueue(&["exec", "--", "true"]), "done");

    std::fs::remove_file(&image).unwrap();

    bench.until(&bench.enqueue(&["exec", "--", "true"]), "done");
}

#[test]
fn wrong_words_are_refused_before_anything_is_started_or_stored() {
    let bench = Bench::new();
    std::fs::write(bench.dir.path().join("bad.toml"), "\nallow_exe = [\"ls\"]\n").unwrap();

    for (arguments, why) in [
        (&["enqueue", "exec"][..], "no program"),
        (&["enqueue", "exec", "--setenv", "novalue", "--", "ls"], "NAME=VALUE"),
        (&["enqueue", "exec", "--data", "{", "--", "ls"], "broken JSON"),
        (&["enqueue", "mail.send", "--data", "{}"], "for jobs of kind exec or http"),
        (&["enqueue", "mail.send", "--cwd", "/"], "for jobs of kind exec or http"),
        (&["serve", "--allow-exec", "no-such-program"], "no-such-program"),
        (&["serve", "--allow-exec", "./run.sh"], "absolute path"),
        (&["serve", "--allow-exec", "ls", "--allow-exec-cwd", "/no/such"], "/no/such"),
        (&["serve", "--allow-exec-env", "HOME"], "no program"),
        (&["serve", "--config", "bad.toml"], "bad.toml:2:1"),
    ] {
        let complaint = bench.complaint(arguments);
        assert!(complaint.contains(why), "{arguments:?}: {complaint}");
    }
    assert!(!bench.dir.path().join("jobs.db").exists());
}
