//! `cargo xtask browser`: the dashboard, as a real Chromium shows it.
//!
//! The tests are JavaScript (`crates/windlass-web/tests/browser`), run by node's own runner. The driver is installed into
//! `target/browser` by npm; the browser is the system's own. Where one of them is not to be had the step is skipped,
//! and says why.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::shell::{answers, call, cargo, command, output, root};

/// The driver, pinned: another one may need another browser.
const DRIVER: &str = "playwright-core@1.65.1";
/// The least node whose test runner has what the tests use.
const NODE_MIN: u32 = 20;
const CHROMIUMS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
const TESTS: &str = "crates/windlass-web/tests/browser";
/// The largest picture of the documentation.
const PICTURE_LEN_MAX: u64 = 150 << 10;

/// Runs the tests, or, with `--pictures`, takes the pictures of the documentation. Answers why it was skipped.
pub(crate) fn run(options: &[&str]) -> Result<Option<String>> {
    let are_pictures = match options {
        [] => false,
        ["--pictures"] => true,
        _ => anyhow::bail!("`cargo xtask browser` knows --pictures only"),
    };
    let Some(chromium) = CHROMIUMS.iter().find(|name| answers(name, &["--version"])) else {
        return Ok(Some("no chromium: apt-get install chromium".to_owned()));
    };
    if !has_node() {
        return Ok(Some(format!("no node {NODE_MIN} or later: apt-get install nodejs npm")));
    }
    let driver = match install_driver() {
        Ok(driver) => driver,
        Err(error) => return Ok(Some(format!("the driver cannot be installed: {error:#}"))),
    };
    call(&mut cargo(&["build", "-p", "windlass-cli", "-p", "windlass-web", "--bins", "--example", "seeded"]))?;
    let chromium = output(&mut command("sh", &["-c", &format!("command -v {chromium}")]))?;
    let built = target().join("debug");
    let mut node = if are_pictures { command("node", &[&format!("{TESTS}/pictures.mjs")]) } else { tests() };
    node.env("DRIVER", driver)
        .env("CHROMIUM", chromium.trim())
        .env("WINDLASS", built.join("windlass"))
        .env("SEEDED", built.join("examples/seeded"))
        .env("PICTURES", pictures());
    call(&mut node)?;
    if are_pictures { check_pictures().map(|()| None) } else { Ok(None) }
}

/// One file after the other: each has a server of its own, and a time by which figures must have moved.
fn tests() -> std::process::Command {
    command("sh", &["-c", &format!("exec node --test --test-concurrency=1 {TESTS}/*.test.mjs")])
}

fn pictures() -> PathBuf {
    root().join("docs/images")
}

fn check_pictures() -> Result<()> {
    for picture in fs::read_dir(pictures())? {
        let picture = picture?;
        let len = picture.metadata()?.len();
        ensure!(len <= PICTURE_LEN_MAX, "{}: {len} bytes, more than {PICTURE_LEN_MAX}", picture.path().display());
    }
    Ok(())
}

fn has_node() -> bool {
    let version = output(&mut command("node", &["--version"])).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.trim().parse().ok());
    answers("npm", &["--version"]) && major.is_some_and(|major: u32| major >= NODE_MIN)
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// The folder that holds the driver, installed if it is not yet.
fn install_driver() -> Result<PathBuf> {
    let folder = target().join("browser");
    if is_installed(&folder) {
        return Ok(folder);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(folder.join("package.json"), "{ \"private\": true }\n")?;
    let prefix = folder.display().to_string();
    let options = ["install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--prefix"];
    call(&mut command("npm", &[&options[..], &[&prefix, DRIVER]].concat()))?;
    Ok(folder)
}

fn is_installed(folder: &Path) -> bool {
    let facts = fs::read_to_string(folder.join("node_modules/playwright-core/package.json")).unwrap_or_default();
    let version = DRIVER.rsplit('@').next().unwrap_or_default();
    facts.contains(&format!("\"version\": \"{version}\""))
}
