//! `windlass top` on a real pseudo-terminal: what its user sees, what keys do to the store, and that the terminal is
//! given back however the program ends.
#![cfg(unix)]

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use windlass::blocking::block_on;
use windlass::job::{ErrorInfo, JobId, NewJob, Payload};
use windlass::store::{LeasePlan, MemberId, MemberInfo, Take, Verdict};
use windlass::{JobOptions, Timestamp};

const PATIENCE: Duration = Duration::from_secs(30);

fn windlass(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.current_dir(dir).env_remove("WINDLASS_URL").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

fn json(dir: &Path, arguments: &[&str]) -> Value {
    let output = windlass(dir).args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn enqueue(dir: &Path, arguments: &[&str]) -> String {
    json(dir, &[&["enqueue"], arguments].concat())["id"].as_str().unwrap().to_owned()
}

/// A program on a terminal of its own. Ended when it is dropped.
struct OnTerminal {
    child: Child,
    /// The side of the person who looks and types.
    desk: File,
    /// The side of the program, held open to see what it leaves behind.
    seat: OwnedFd,
    written: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    screen: vt100::Parser,
}

impl OnTerminal {
    fn start(dir: &Path, arguments: &[&str]) -> OnTerminal {
        OnTerminal::start_with(dir, arguments, &[])
    }

    fn start_with(dir: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> OnTerminal {
        use rustix::fs::{Mode, OFlags, open};
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

        let desk = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&desk).unwrap();
        unlockpt(&desk).unwrap();
        let name = ptsname(&desk, Vec::new()).unwrap();
        let seat = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&desk, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        // In a session of its own, so that the terminal is the program's: it hears of changes of size and of its end.
        let child = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_windlass")])
            .args(arguments)
            .current_dir(dir)
            .env_remove("WINDLASS_URL")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .env("RUST_BACKTRACE", "0")
            .envs(variables.iter().copied())
            .stdin(seat.try_clone().unwrap())
            .stdout(seat.try_clone().unwrap())
            .stderr(seat.try_clone().unwrap())
            .spawn()
            .unwrap();
        let desk = File::from(desk);
        let (write, written) = channel();
        let mut reader = desk.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(len @ 1..) = reader.read(&mut buffer) {
                if write.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        OnTerminal { child, desk, seat, written, bytes: Vec::new(), screen: parser(24, 80) }
    }

    /// Takes in what the program has written, or waits a little for it.
    fn listen(&mut self) {
        if let Ok(bytes) = self.written.recv_timeout(Duration::from_millis(10)) {
            self.screen.process(&bytes);
            self.bytes.extend(bytes);
        }
    }

    /// Waits until the screen is as it should be.
    fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let since = Instant::now();
        while !holds(&self.contents()) {
            assert!(since.elapsed() < PATIENCE, "still not true: {what}; the screen:\n{}", self.contents());
            self.listen();
        }
    }

    fn until_shown(&mut self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    /// Waits until the program has written these bytes, from `start` of all that it wrote.
    fn until_written(&mut self, bytes: &[u8], start: usize) {
        let since = Instant::now();
        while !self.bytes[start..].windows(bytes.len()).any(|window| window == bytes) {
            assert!(since.elapsed() < PATIENCE, "never written: {:?}", String::from_utf8_lossy(bytes));
            self.listen();
        }
    }

    fn contents(&self) -> String {
        self.screen.screen().contents()
    }

    fn press(&mut self, keys: &str) {
        self.desk.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the end, and takes in the last that was written.
    fn until_ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                while let Ok(bytes) = self.written.recv_timeout(Duration::from_millis(100)) {
                    self.screen.process(&bytes);
                    self.bytes.extend(bytes);
                }
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "still running; the screen:\n{}", self.contents());
            self.listen();
        }
    }

    fn modes(&self) -> Modes {
        Modes::from(&tcgetattr(&self.seat).unwrap())
    }

    /// Whether the program has given back what it took: the modes, the screen, the cursor.
    fn assert_given_back(&self, before: &Modes) {
        assert_eq!(self.modes(), *before);
        assert!(!self.screen.screen().alternate_screen());
        assert!(!self.screen.screen().hide_cursor());
    }
}

fn lines(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

fn parser(height: u16, width: u16) -> vt100::Parser {
    vt100::Parser::new(lines(height), lines(width), 0)
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a terminal treats what is typed and written.
#[derive(Debug, PartialEq)]
struct Modes {
    flags: (u64, u64, u64, u64),
}

impl From<&Termios> for Modes {
    fn from(termios: &Termios) -> Modes {
        Modes {
            flags: (
                u64::from(termios.input_modes.bits()),
                u64::from(termios.output_modes.bits()),
                u64::from(termios.control_modes.bits()),
                u64::from(termios.local_modes.bits()),
            ),
        }
    }
}

impl Modes {
    fn is_raw(&self) -> bool {
        self.flags.3 & u64::from((LocalModes::ICANON | LocalModes::ECHO).bits()) == 0
    }
}

#[test]
fn the_store_is_shown_live_and_keys_act_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mail = enqueue(dir, &["mail.send", "--queue", "mail"]);
    let dead = enqueue(dir, &["report.build", "--queue", "reports"]);
    json(dir, &["jobs", "kill", &dead]);

    let mut top = OnTerminal::start(dir, &["top", "--every", "100ms"]);
    top.until_shown("ready 1  running 0  retry 0  dead 1");
    enqueue(dir, &["mail.send", "--queue", "mail"]);
    top.until_shown("ready 2");

    top.press("p");
    top.until_shown("paused");
    assert_eq!(json(dir, &["queues"])[0]["paused"], true);
    top.press("p");
    top.until("the queue goes on", |screen| !screen.contains("paused"));

    top.press("5");
    top.until_shown("report.build");
    top.press("\r");
    top.until_shown(&dead);
    top.press("\u{1b}");
    top.until_shown("r run now");
    top.press("r");
    top.until_shown("no job is dead");
    assert_eq!(json(dir, &["jobs", "show", &dead])["state"], "ready");

    top.press("1");
    top.until_shown("mail");
    top.press("d");
    top.until_shown("Delete the 2 ready jobs of queue mail?  y / N");
    assert_eq!(json(dir, &["jobs", "show", &mail])["state"], "ready");
    top.press("y");
    top.until_shown("2 ready jobs of queue mail deleted");
    assert_eq!(json(dir, &["stats"])["counts"]["ready"], 1);

    top.press("?");
    top.until_shown("back to the shell for a while");
    top.press("xq");
    assert!(top.until_ended().success());
}

#[test]
fn a_filter_finds_a_job_wherever_it_stands_in_a_long_list() {
    let dir = tempfile::tempdir().unwrap();
    let store = windlass::open(&format!("sqlite:{}", dir.path().join("jobs.db").display())).unwrap();
    let far = Timestamp::from_millis(store.now().as_millis() + 3_600_000);
    let job = |number: i64| {
        let mut id = [7; 12];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let payload = Payload::from_bytes(format!("[\"number {number}\"]"));
        let at = Timestamp::from_millis(far.as_millis() + number);
        NewJob::new(JobId::from_bytes(id), "mail.send", payload, at, 0, JobOptions::new()).unwrap()
    };
    block_on(store.insert((0..2_000).map(job).collect())).unwrap();
    block_on(store.close()).unwrap();

    let mut top = OnTerminal::start(dir.path(), &["top", "--view", "scheduled", "--every", "100ms"]);
    top.until_shown("number 0");
    top.press("]");
    top.until_shown("number 200");
    top.press("/number 1987\r");
    top.until("only the job that was looked for", |screen| {
        screen.contains("number 1987\"") && !screen.contains("number 200\"")
    });
    top.press("\u{1b}");
    top.until_shown("number 0");
    top.press("q");
    assert!(top.until_ended().success());
}

#[test]
fn a_process_is_made_quiet_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut server =
        windlass(dir.path()).args(["serve", "--lease", "1s"]).stderr(Stdio::null()).spawn().map(Running).unwrap();
    let mut top = OnTerminal::start(dir.path(), &["top", "--view", "processes", "--every", "100ms"]);
    top.until_shown("0/100");

    top.press("u");
    top.until_shown("lease no more jobs?  y / N");
    top.press("y");
    top.until("the process says that it is quiet", |screen| {
        screen.lines().any(|line| line.contains("0/100") && line.trim_end().ends_with("quiet"))
    });
    top.press("s");
    top.until_shown("Stop process");
    top.press("y");
    top.until_shown("no process works on this store");

    assert!(server.0.wait().unwrap().success());
    top.press("q");
    assert!(top.until_ended().success());
}

/// Ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_terminal_is_given_back_at_every_end() {
    let dir = tempfile::tempdir().unwrap();
    for end in ["q", "\u{3}", "-TERM", "-INT", "-HUP"] {
        let mut top = OnTerminal::start(dir.path(), &["top"]);
        let before = top.modes();
        top.until_shown("no queue holds a job");
        assert!(top.modes().is_raw() && top.screen.screen().alternate_screen() && top.screen.screen().hide_cursor());

        if end.starts_with('-') {
            top.signal(end)
        } else {
            top.press(end)
        }

        assert!(top.until_ended().success(), "{end:?}");
        top.assert_given_back(&before);
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn the_terminal_is_given_back_before_a_panic_or_an_error_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for (action, told) in [("panic", "a test asked for this panic"), ("error", "a test asked for this error")] {
        let failpoint = format!("top.draw={action}@2");
        let mut top = OnTerminal::start_with(dir.path(), &["top"], &[("WINDLASS_FAILPOINTS", &failpoint)]);
        let before = top.modes();

        assert!(!top.until_ended().success());

        top.assert_given_back(&before);
        assert!(top.contents().contains(told), "{}", top.contents());
    }
}

#[test]
fn a_suspended_program_leaves_the_terminal_and_takes_it_again() {
    let dir = tempfile::tempdir().unwrap();
    for by_key in [true, false] {
        let mut top = OnTerminal::start(dir.path(), &["top", "--every", "100ms"]);
        let before = top.modes();
        top.until_shown("no queue holds a job");

        if by_key {
            top.press("\u{1a}")
        } else {
            top.signal("-TSTP")
        }
        until("it stands still", || process_state(top.child.id()) == 'T');
        top.until_written(b"\x1b[?1049l", 0);
        top.assert_given_back(&before);

        let start = top.bytes.len();
        top.signal("-CONT");
        top.until_written(b"\x1b[?1049h", start);
        top.until_shown("no queue holds a job");
        assert!(top.modes().is_raw());
        top.press("q");
        assert!(top.until_ended().success());
        top.assert_given_back(&before);
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "still not true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn process_state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap()
}

#[test]
fn a_terminal_that_grows_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let id = enqueue(dir.path(), &["mail.send", "--in", "1h"]);
    let mut top = OnTerminal::start(dir.path(), &["top", "--view", "scheduled"]);
    top.until_shown("mail.send");
    assert!(!top.contents().contains(&id));

    tcsetwinsize(&top.desk, Winsize { ws_row: 40, ws_col: 140, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    top.screen.screen_mut().set_size(lines(40), lines(140));

    top.until_shown(&id);
    top.press("q");
    assert!(top.until_ended().success());
}

#[test]
fn nothing_in_the_store_can_speak_to_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "\u{1b}]0;PWNED\u{7}\u{1b}[2J\u{9b}31m\u{1b}P+q544e\u{1b}\\\u{1b}]52;c;AAAA\u{7}\r\n\u{202e}";
    plant(dir.path(), evil);

    let mut top = OnTerminal::start(dir.path(), &["top", "--every", "100ms"]);
    top.until_shown("dead 1");
    top.press("2");
    top.until_shown("evil.run");
    top.press("\r");
    top.until_shown(&"02".repeat(12));
    top.press("\u{1b}");
    top.until_shown("c cancel");
    top.press("5");
    top.until_shown("evil.dead");
    top.press("\r");
    top.until_shown(&"01".repeat(12));
    top.press("\u{1b}");
    top.until_shown("r run now");
    top.press("6");
    top.until_shown("0/3");
    top.press("q");
    assert!(top.until_ended().success());

    assert_speaks_only_of_cells(&top.bytes);
}

/// A dead job, a running one and a process, hostile in every field that is free text.
fn plant(dir: &Path, evil: &str) {
    let store = windlass::open(&format!("sqlite:{}", dir.join("jobs.db").display())).unwrap();
    let member = MemberId::from(format!("m{evil}"));
    let info = MemberInfo {
        id: member.clone(),
        host: evil.to_owned(),
        pid: 1,
        queues: vec![evil.to_owned()],
        weights: Vec::new(),
        concurrency: 3,
        version: evil.to_owned(),
    };
    block_on(store.join(info.clone(), Duration::from_secs(3_600))).unwrap();
    let idle = MemberInfo { id: MemberId::from(format!("idle{evil}")), ..info };
    block_on(store.join(idle, Duration::from_secs(3_600))).unwrap();
    let job = |number: u8, kind: &str| {
        let payload = Payload::from_bytes(format!("[\"{evil}\"]"));
        let id = JobId::from_bytes([number; 12]);
        NewJob::new(id, kind, payload, Timestamp::EPOCH, 0, JobOptions::new()).unwrap()
    };
    for (number, kind) in [(1, "evil.dead"), (2, "evil.run")] {
        block_on(store.insert(vec![job(number, kind)])).unwrap();
        let take = Take { queue: "default".to_owned(), max: 1, at_most_once: false };
        let leased = block_on(store.lease(&member, LeasePlan { takes: vec![take], max: 1 })).unwrap();
        if kind == "evil.dead" {
            let error = ErrorInfo {
                class: evil.to_owned(),
                message: evil.to_owned(),
                backtrace: Some(evil.to_owned()),
                attempt: 1,
                at: store.now(),
            };
            let verdict = Verdict::Dead { reason: evil.to_owned(), error: Some(error) };
            let _landed = block_on(store.finish(&member, vec![(leased[0].token, verdict)])).unwrap();
        }
    }
    block_on(store.close()).unwrap();
}

/// Fails unless the bytes are text and the few sequences that move the cursor, set colours, and switch the screen.
fn assert_speaks_only_of_cells(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '\u{1b}' {
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
            let sequence = &rest[..=end];
            let is_private = sequence.starts_with("[?");
            let is_known = match sequence.chars().last() {
                Some('h' | 'l') => is_private && ["[?1049", "[?25"].contains(&&sequence[..end]),
                Some('H' | 'J' | 'm') => sequence.starts_with('[') && !is_private,
                _ => false,
            };
            assert!(is_known, "an unknown sequence: {sequence:?}");
            rest = &rest[end + 1..];
        } else {
            assert!(!c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c), "{c:?} was written");
        }
    }
}

#[test]
fn without_a_terminal_it_says_so_and_prints_one_screen_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    enqueue(dir.path(), &["mail.send", "--queue", "mail"]);

    let live = windlass(dir.path()).arg("top").output().unwrap();
    assert_eq!(live.status.code(), Some(2));
    assert!(String::from_utf8(live.stderr).unwrap().contains("--once"));

    let once = windlass(dir.path()).args(["top", "--once", "--every", "100ms"]).output().unwrap();
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(once.status.success());
    assert_eq!(text.lines().count(), 24);
    assert!(text.contains("ready 1  running 0") && text.contains("mail") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn wrong_input_is_refused_with_what_is_right() {
    let dir = tempfile::tempdir().unwrap();

    for (arguments, right) in [(["--every", "1ms"], "100ms"), (["--every", "x"], "span"), (["--view", "x"], "queues")] {
        let output = windlass(dir.path()).arg("top").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8(output.stderr).unwrap().contains(right), "{arguments:?}");
    }
}

#[test]
fn a_command_on_a_terminal_says_nothing_but_its_answer() {
    let dir = tempfile::tempdir().unwrap();

    let mut stats = OnTerminal::start(dir.path(), &["stats"]);

    assert!(stats.until_ended().success());
    assert!(stats.contents().trim_start().starts_with("STATE"), "{}", stats.contents());
}
