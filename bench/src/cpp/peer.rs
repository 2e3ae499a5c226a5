//! A subject of another language: a process of its own, that takes a turn for each line it is sent (`cpp/main.cpp`).

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::suite::measure::{Clock, tell_child_time};

/// Where `cargo xtask bench cpp` says that it has put the program.
const PROGRAM: &str = "WINDLASS_BENCH_CPP";

fn program() -> PathBuf {
    let path = std::env::var_os(PROGRAM).map(PathBuf::from);
    path.unwrap_or_else(|| panic!("{PROGRAM} is not set: run `cargo xtask bench cpp`, which compiles the C++ side"))
}

/// The subjects that were compiled in: oneTBB's are not everywhere.
pub fn has(subject: &str) -> bool {
    let output = Command::new(program()).output().expect("the C++ side can be run");
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line == subject)
}

pub struct Peer {
    process: Child,
    /// Closed to end it.
    turns: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    subject: &'static str,
    told: Duration,
}

impl Peer {
    pub fn start(subject: &'static str, size: usize, threads: usize) -> Peer {
        let mut command = Command::new(program());
        command.args([subject, &size.to_string(), &threads.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the C++ side starts");
        let turns = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("it was piped"));
        Peer { process, turns, answers, subject, told: Duration::ZERO }
    }

    /// A turn, timed there.
    pub fn take_turn(&mut self, clock: &mut Clock) {
        let turns = self.turns.as_mut().expect("it is not closed before the end");
        turns.write_all(b"\n").expect("the C++ side listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the C++ side answers");
        let seconds: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [wall, cpu, so_far] = seconds[..] else {
            panic!("{}: no figures but {line:?}: see what it said above", self.subject);
        };
        clock.record(Duration::from_secs_f64(wall), Duration::from_secs_f64(cpu));
        let so_far = Duration::from_secs_f64(so_far);
        tell_child_time(so_far.saturating_sub(std::mem::replace(&mut self.told, so_far)));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.turns.take());
        let status = self.process.wait().expect("the C++ side ends when nothing more comes");
        assert!(status.success() || std::thread::panicking(), "{} ended with {status}", self.subject);
    }
}
