//! Running other programs from the project's folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A program to be run in the project's folder.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    command(&cargo, arguments)
}

/// Runs a program, shows what it prints, and fails when it does.
pub(crate) fn call(command: &mut Command) -> Result<()> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Runs a program and answers what it printed; fails when it does.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is there and answers.
pub(crate) fn answers(program: &str, arguments: &[&str]) -> bool {
    let probe = command(program, arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

fn show(command: &Command) -> String {
    let environment =
        command.get_envs().filter_map(|(name, value)| Some(format!("{}={:?} ", name.to_str()?, value?.to_str()?)));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy());
    environment.collect::<String>() + &words.collect::<Vec<_>>().join(" ")
}
