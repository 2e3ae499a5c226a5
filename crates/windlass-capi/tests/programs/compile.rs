//! Compiling C and C++ against the headers and the libraries, and running what comes out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of this crate.
pub(crate) fn crate_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the libraries that these tests were built with: beside the test itself, or one above.
pub(crate) fn library(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows where it is");
    let folders = test.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("{name} was not built"))
}

/// A folder of the test's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for what is compiled");
    folder
}

/// The shared library under the names that the linker and the loader look for.
pub(crate) fn shared_library(folder: &Path) {
    let from = library("libwindlass_capi.so");
    for name in ["libwindlass.so", "libwindlass.so.0"] {
        std::fs::copy(&from, folder.join(name)).expect("the library can be copied");
    }
}

pub(crate) fn answers(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Says past the test's capture that something was not tried.
pub(crate) fn skip(why: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    // Best effort: where standard error is gone nobody reads it.
    let _ = writeln!(std::io::stderr(), "skipped {name}: {why}");
}

/// Runs a command, and fails with all that it said.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// How a program is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Static,
    Shared,
}

/// Compiles a source of `tests/c` or `examples` as strictly as can be, and answers the program.
pub(crate) fn compile(compiler: &str, source: &str, link: Link, more: &[&str]) -> PathBuf {
    let is_cpp = source.ends_with(".cpp");
    let stem = source.replace(['/', '.'], "_");
    let folder = folder(&format!("{compiler}_{stem}_{link:?}{}", more.concat().replace(['=', ',', '-', '/'], "")));
    let program = folder.join("program");
    let mut command = Command::new(compiler);
    command.arg(if is_cpp { "-std=c++20" } else { "-std=c11" });
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]).args(more);
    command.arg("-I").arg(crate_root().join("include")).arg("-I").arg(crate_root().join("tests/c"));
    command.arg(crate_root().join(source)).arg("-o").arg(&program);
    match link {
        Link::Static => {
            command.arg(library("libwindlass_capi.a")).args(["-lpthread", "-ldl", "-lm", "-lrt", "-lutil"]);
        }
        Link::Shared => {
            shared_library(&folder);
            command.arg("-L").arg(&folder).arg("-lwindlass").arg("-lpthread").arg("-ldl");
            command.arg(format!("-Wl,-rpath,{}", folder.display()));
        }
    }
    run(&mut command);
    program
}

/// Compiles and runs, within two minutes, and answers what was printed.
pub(crate) fn compile_and_run(compiler: &str, source: &str, link: Link, more: &[&str]) -> String {
    let program = compile(compiler, source, link, more);
    let output = run(Command::new("timeout").arg("120").arg(program));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
