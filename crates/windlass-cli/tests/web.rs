//! The dashboard as the program serves it: where it listens, who may come, how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

fn windlass(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(dir).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for variable in ["URL", "WEB_LISTEN", "WEB_AUTH", "WEB_USERS", "WEB_TOKENS"] {
        command.env_remove(format!("WINDLASS_{variable}"));
    }
    command
}

/// A program that serves a dashboard, ended with its test.
struct Serving {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Serving {
    /// Starts it, and reads until it has told where its dashboard is.
    fn start(command: &mut Command) -> Serving {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // Whatever happens from now on, it is ended and waited for.
        let mut serving = Serving { child, stderr, address: String::new() };
        serving.address = serving.told();
        serving
    }

    fn told(&mut self) -> String {
        let mut heard = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "no address was told: {heard}");
            if let Some((_, rest)) = line.split_once("http://") {
                return rest.trim().trim_end_matches('/').to_owned();
            }
            heard += &line;
        }
    }

    /// The status and the whole answer to a request with these headers.
    fn ask(&self, line: &str, headers: &[&str]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let headers = headers.iter().map(|header| format!("{header}\r\n")).collect::<String>();
        let host = &self.address;
        write!(stream, "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n{headers}\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer[9..12].parse().unwrap(), answer)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path}"), &[])
    }

    fn pause(&self, headers: &[&str]) -> u16 {
        let json = ["Content-Type: application/json"];
        self.ask("POST /api/queue/pause?name=mail", &[&json[..], headers].concat()).0
    }

    /// Sends a signal, waits for the end, and answers the exit code and what was said on the way.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (code, said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn web(dir: &Path, arguments: &[&str]) -> Serving {
    Serving::start(&mut windlass(dir, &[&["web", "--listen", "127.0.0.1:0"], arguments].concat()))
}

/// Expects wrong usage, and answers what was complained about.
fn refusal(dir: &Path, arguments: &[&str]) -> String {
    let output = windlass(dir, arguments).output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
    complaint
}

fn hash(dir: &Path, password: &str) -> String {
    let mut child = windlass(dir, &["web", "hash-password"]).stdin(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_dashboard_is_served_on_this_machine_and_ends_at_term_and_at_interrupt() {
    let dir = tempfile::tempdir().unwrap();

    for signal in ["-TERM", "-INT"] {
        let serving = web(dir.path(), &[]);
        assert!(serving.get("/").1.contains("Overview"));
        assert_eq!(serving.pause(&[]), 200);
        assert_eq!(serving.end(signal).0, Some(0));
    }
}

#[test]
fn an_address_that_others_reach_is_refused_while_nobody_is_asked_who_they_are() {
    let dir = tempfile::tempdir().unwrap();

    let complaint = refusal(dir.path(), &["web", "--listen", "0.0.0.0:0"]);

    assert!(complaint.contains("without authentication"), "{complaint}");
}

#[test]
fn a_password_is_hashed_and_opens_the_dashboard_to_its_user() {
    let dir = tempfile::tempdir().unwrap();
    let hash = hash(dir.path(), "open sesame");
    assert!(hash.starts_with("$argon2id$"), "{hash}");
    std::fs::write(dir.path().join("users.txt"), format!("ann:act:{hash}\nbob:view:{hash}\n")).unwrap();

    let serving = web(dir.path(), &["--users", "users.txt"]);

    // ann:open sesame, bob:open sesame, ann:guess
    let [ann, bob, wrong] = ["YW5uOm9wZW4gc2VzYW1l", "Ym9iOm9wZW4gc2VzYW1l", "YW5uOmd1ZXNz"]
        .map(|text| format!("Authorization: Basic {text}"));
    assert_eq!(serving.get("/").0, 401);
    assert_eq!(serving.ask("GET /", &[&wrong]).0, 401);
    assert_eq!(serving.ask("GET /", &[&ann]).0, 200);
    assert_eq!((serving.pause(&[&ann]), serving.pause(&[&bob])), (200, 403));
}

#[test]
fn tokens_come_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = windlass(dir.path(), &["web", "--listen", "127.0.0.1:0"]);
    command.env("WINDLASS_WEB_TOKENS", "act:0123456789abcdef\nview:fedcba9876543210");

    let serving = Serving::start(&mut command);

    let [act, view] = ["0123456789abcdef", "fedcba9876543210"].map(|token| format!("Authorization: Bearer {token}"));
    assert_eq!(serving.get("/").0, 401);
    assert_eq!((serving.pause(&[&act]), serving.pause(&[&view])), (200, 403));
}

#[test]
fn a_proxy_that_is_named_says_who_asks() {
    let dir = tempfile::tempdir().unwrap();

    let serving = web(dir.path(), &["--auth", "forward", "--proxy", "127.0.0.1", "--actor", "ann"]);

    assert_eq!(serving.get("/").0, 401);
    assert_eq!(serving.pause(&["X-Forwarded-User: ann"]), 200);
    assert_eq!(serving.pause(&["X-Forwarded-User: bob"]), 403);
}

#[test]
fn the_file_says_how_and_a_flag_says_it_louder() {
    let dir = tempfile::tempdir().unwrap();
    let file = "concurrency = 7\n[web]\nlisten = \"0.0.0.0:0\"\nread_only = true\n[env.trial.web]\nread_only = false\n";
    std::fs::write(dir.path().join("windlass.toml"), file).unwrap();

    assert!(refusal(dir.path(), &["web"]).contains("0.0.0.0"));
    assert_eq!(web(dir.path(), &[]).pause(&[]), 403);
    assert_eq!(web(dir.path(), &["--env", "trial"]).pause(&[]), 200);
    assert!(windlass(dir.path(), &["config", "show"]).output().unwrap().status.success());
}

#[test]
fn a_wrong_setting_is_named_with_its_place_and_a_secret_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("windlass.toml", "[web]\nlistn = \"127.0.0.1:1\"\n");
    let complaint = refusal(dir.path(), &["web"]);
    assert!(complaint.contains("line 2") && complaint.contains("listn"), "{complaint}");

    write("windlass.toml", "");
    write("users.txt", "ann:act:hunter2\n");
    let complaint = refusal(dir.path(), &["web", "--users", "users.txt"]);
    assert!(complaint.contains("users.txt, line 1") && !complaint.contains("hunter2"), "{complaint}");
    assert!(refusal(dir.path(), &["web", "--auth", "bearer"]).contains("--tokens"));
    assert!(refusal(dir.path(), &["web", "--trusted-origin", "example.com"]).contains("https://"));
}

#[test]
fn a_server_serves_its_own_dashboard_and_both_end_together() {
    let dir = tempfile::tempdir().unwrap();

    let serving = Serving::start(&mut windlass(dir.path(), &["serve", "--web", "127.0.0.1:0"]));
    assert!(serving.get("/processes").1.contains("data-process"));
    let (code, said) = serving.end("-TERM");

    assert_eq!(code, Some(0));
    assert!(said.contains("stopped; 0 done"), "{said}");
    assert!(refusal(dir.path(), &["serve", "--web", "0.0.0.0:0"]).contains("without authentication"));
}

#[test]
fn the_demo_tells_its_dashboard_first_and_the_page_shows_its_jobs() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..20 {
        std::fs::write(files.path().join(format!("{number}.txt")), "a line\n").unwrap();
    }
    let root = files.path().to_str().unwrap();

    let mut demo = Serving::start(&mut windlass(dir.path(), &["demo", root]));
    // The first folder fails at its first attempt and waits a second for the next: there is time to look.
    assert_eq!(demo.get("/jobs?state=retry").0, 200);
    assert_eq!(demo.child.wait().unwrap().code(), Some(0));

    let mut printed = String::new();
    demo.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    let last = printed.lines().last().unwrap();
    assert!(last.starts_with("look inside: windlass --store sqlite:windlass-demo.db web"), "{printed}");
    let retries = printed.lines().find(|line| line.contains("retries")).unwrap();
    assert!(retries.contains('1'), "{retries}");
}

#[test]
fn a_demo_without_a_dashboard_tells_of_none() {
    let (dir, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());

    let output = windlass(dir.path(), &["demo", "--no-web", files.path().to_str().unwrap()]).output().unwrap();

    assert!(output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("http://"));
}
