//! Projects that use windlass as others do: installed, as a part of their own build, by pkg-config.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::{answers, crate_root, folder, run, skip};

/// The target folder that the tests are built in: cargo finds everything built there already.
fn target_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the tests' folder is in the target folder").to_owned()
}

/// What `cargo xtask install` puts into place.
fn installed(name: &str) -> PathBuf {
    let prefix = folder(name);
    let workspace = crate_root().join("../..");
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--", "install", "--profile", "dev", "--prefix"]);
    run(command.arg(&prefix).current_dir(workspace).env("CARGO_TARGET_DIR", target_folder()));
    prefix
}

fn builds_and_runs(how: &str, more: &[String]) {
    let build = folder(&format!("consumer_{how}"));
    // A cache of an earlier run would hide what is not found any more.
    let _ = std::fs::remove_file(build.join("CMakeCache.txt"));
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(crate_root().join("tests/consumer")).arg("-B").arg(&build).arg(format!("-DHOW={how}"));
    run(configure.args(more));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["shared", "plain"] {
        run(Command::new("timeout").arg("20").arg(build.join(program)));
    }
}

/// What a build that calls cargo is told, to find what is built already.
fn as_a_part() -> Vec<String> {
    vec![
        format!("-DWINDLASS_SOURCE={}", crate_root().display()),
        "-DWINDLASS_CARGO_PROFILE=dev".to_owned(),
        format!("-DWINDLASS_CARGO_TARGET_DIR={}", target_folder().display()),
        format!("-DWINDLASS_CARGO={}", env!("CARGO")),
    ]
}

#[test]
fn find_package_finds_what_was_installed() {
    if !answers("cmake") {
        return skip("cmake is not installed");
    }
    let prefix = installed("prefix_cmake");
    builds_and_runs("find", &[format!("-DCMAKE_PREFIX_PATH={}", prefix.display())]);
}

#[test]
fn add_subdirectory_builds_the_library() {
    if !answers("cmake") {
        return skip("cmake is not installed");
    }
    builds_and_runs("subdirectory", &as_a_part());
}

#[test]
fn fetch_content_builds_the_library() {
    if !answers("cmake") {
        return skip("cmake is not installed");
    }
    builds_and_runs("fetch", &as_a_part());
}

#[test]
fn pkg_config_names_what_was_installed() {
    if !answers("pkg-config") {
        return skip("pkg-config is not installed");
    }
    let prefix = installed("prefix_pkgconfig");
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "windlass"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = String::from_utf8_lossy(&run(&mut ask).stdout).into_owned();

    let program = prefix.join("program");
    let mut compile = Command::new("g++");
    compile.arg("-std=c++20").arg(crate_root().join("tests/consumer/main.cpp")).arg("-o").arg(&program);
    run(compile.args(flags.split_whitespace()));
    run(Command::new("timeout").arg("20").arg(program).env("LD_LIBRARY_PATH", prefix.join("lib")));
}
