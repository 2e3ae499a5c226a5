//! Who ends a program when its owner cannot.

#![allow(clippy::print_stdout, reason = "the owner says the id of its program")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use windlass_testbed::program::{Program, is_installed};
use windlass_testbed::wait;

/// Set in the process that is to be killed.
const OWNER: &str = "WINDLASS_TESTBED_OWNER";

/// Starts a program that would run for ever, says its id, and waits to be killed.
fn own_a_program(folder: &str) -> ! {
    let program = Program::start(Command::new("sleep").arg("1000"), &Path::new(folder).join("log")).unwrap();
    println!("program {}", program.id());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_program_whose_owner_was_killed_is_killed_too() {
    if let Ok(folder) = std::env::var(OWNER) {
        own_a_program(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_whose_owner_was_killed_is_killed_too", "--nocapture"])
        .env(OWNER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let id = lines.filter_map(|line| Some(line.split_once("program ")?.1.to_owned())).next().unwrap();
    let process = format!("/proc/{id}/cmdline");
    assert!(std::fs::read_to_string(&process).unwrap().contains("sleep"));

    owner.kill().unwrap();
    owner.wait().unwrap();

    // Whoever takes in orphans may leave it as a zombie, whose command line is empty.
    let is_gone =
        || std::fs::read_to_string(&process).is_ok_and(|line| line.is_empty()) || !Path::new(&process).exists();
    wait::until_true("the end of the program", wait::LIMIT, is_gone).unwrap();
}

#[test]
fn a_program_that_ends_by_itself_leaves_its_status_and_what_it_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo to the output; echo to the errors >&2; exit 3"]);

    let mut program = Program::start(&mut shell, &folder.path().join("log")).unwrap();

    assert_eq!(program.wait(wait::LIMIT).unwrap().code(), Some(3));
    assert_eq!(program.printed().unwrap(), "to the output\nto the errors\n");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();

    let error = Program::start(&mut Command::new("no-such-program"), &folder.path().join("log")).unwrap_err();

    assert!(format!("{error:#}").contains("no-such-program"));
    assert!(!is_installed("no-such-program") && is_installed("sh"));
}
