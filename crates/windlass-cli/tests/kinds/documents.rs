//! The commands of the documents, run as they stand there.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use windlass_testbed::port::Port;
use windlass_testbed::program::Program;

use crate::support::{Bench, until};

const GUIDE: &str = include_str!("../../../../docs/guide.md");
const OPERATIONS: &str = include_str!("../../../../docs/operations.md");
const UNIT: &str = include_str!("../../../../docs/windlass.service");

/// The code blocks with these words after the fence.
fn blocks(document: &str, info: &str) -> Vec<String> {
    let (mut blocks, mut block) = (Vec::new(), None::<String>);
    for line in document.lines() {
        match (line.strip_prefix("```"), &mut block) {
            (Some(found), None) => block = (found == info).then(String::new).or(Some("\0".to_owned())),
            (Some(_), Some(_)) => blocks.extend(block.take().filter(|text| !text.starts_with('\0'))),
            (None, Some(text)) => text.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    blocks
}

/// A shell in the folder, for which `windlass` is the program under test.
fn shell(home: &Path, script: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-euc", script]).current_dir(home).env("PATH", path).env_remove("WINDLASS_URL").env_remove("RUST_LOG");
    shell
}

fn run(home: &Path, script: &str) {
    let output = shell(home, script).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{said}");
}

#[test]
fn the_guide_does_what_it_says() {
    let (bench, port) = (Bench::new(), Port::reserve().unwrap());
    let home = bench.dir.path();
    let guide = GUIDE.replace("8080", &port.number().to_string());

    let start = |(number, script): (usize, String)| {
        let log = home.join(format!("server-{number}.log"));
        Program::start(&mut shell(home, &format!("exec {script}")), &log).unwrap()
    };
    let servers: Vec<Program> = blocks(&guide, "sh server").into_iter().enumerate().map(start).collect();
    assert_eq!(servers.len(), 3);
    until("the web service to listen", || std::net::TcpStream::connect(("127.0.0.1", port.number())).is_ok());
    for script in blocks(&guide, "sh") {
        run(home, &script);
    }

    let jobs = |state: &str| -> Vec<Value> {
        let page: Value = serde_json::from_str(&bench.printed(&["jobs", "ls", "--json", "--state", state])).unwrap();
        page["jobs"].as_array().unwrap().clone()
    };
    until("three jobs to be done and one to be dead", || (jobs("done").len(), jobs("dead").len()) == (3, 1));
    assert!(home.join("notes.tgz").exists());
    let results: Vec<String> =
        jobs("done").iter().map(|job| bench.job(job["id"].as_str().unwrap())["result"].to_string()).collect();
    assert!(results.iter().any(|result| result.contains("640 pixels")), "{results:?}");
    assert!(results.iter().any(|result| result.contains("got ann")), "{results:?}");
    assert!(jobs("dead")[0].to_string().contains("EX_DATAERR"), "{:?}", jobs("dead"));
}

#[test]
fn a_backup_is_taken_while_a_server_works_and_is_sound() {
    let bench = Bench::serving(&["--allow-exec", "true"]);
    bench.until(&bench.enqueue(&["exec", "--", "true"]), "done");

    let [backup] = &blocks(OPERATIONS, "sh")[..] else { panic!("one block") };
    run(bench.dir.path(), backup);

    let copy = bench.printed(&["jobs", "ls", "--json", "--state", "done", "--store", "sqlite:jobs-backup.db"]);
    assert_eq!(serde_json::from_str::<Value>(&copy).unwrap()["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn the_unit_is_what_systemd_understands() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("there is no systemd-analyze on this machine: the unit was not verified");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("windlass.service");
    // The program need not be installed where it will be.
    std::fs::write(&unit, UNIT.replace("/usr/local/bin/windlass", env!("CARGO_BIN_EXE_windlass"))).unwrap();

    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("windlass.service"), "{said}");
}

#[test]
fn manual_pages_and_completions_know_every_command_and_no_helper() {
    let bench = Bench::new();

    let written = bench.printed(&["man", "--out", "pages"]);
    let page = |name: &str| std::fs::read_to_string(bench.dir.path().join("pages").join(name)).unwrap();

    assert!(written.lines().count() > 20 && written.contains("pages/windlass-jobs-show.1"));
    assert!(page("windlass.1").starts_with(".ie") && page("windlass.1").contains(".TH windlass 1"));
    assert!(page("windlass-serve.1").contains("allow\\-exec\\-any"));
    assert_eq!(bench.printed(&["man"]).trim_end(), page("windlass.1").trim_end());
    for text in [bench.printed(&["man"]), bench.printed(&["completions", "zsh"]), bench.printed(&["--help"])] {
        assert!(!text.contains("exec-guard") && !text.contains("exec-start") && text.contains("serve"));
    }
    std::fs::write(bench.dir.path().join("file"), "").unwrap();
    assert!(!bench.run(&["man", "--out", "file"]).status.success());
}

#[test]
fn the_configuration_in_force_shows_what_is_allowed_and_who_said_so() {
    let bench = Bench::new();
    std::fs::write(bench.dir.path().join("windlass.toml"), "allow_exec = [\"tar\", \"ruby\"]\n").unwrap();

    let shown: Value = serde_json::from_str(&bench.printed(&["config", "show", "--json"])).unwrap();

    let row = |name: &str| shown.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone();
    assert_eq!(row("allow_exec")["value"], "tar,ruby");
    assert!(row("allow_exec")["origin"].as_str().unwrap().ends_with("windlass.toml:1:14"));
    for name in ["allow_exec_any", "allow_exec_cwd", "allow_exec_env", "allow_http"] {
        assert_eq!(row(name)["origin"], "default");
    }
}
