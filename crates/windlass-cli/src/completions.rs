//! `windlass completions SHELL`: prints a completion script.

use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which shell: bash, zsh, fish, elvish or powershell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::Arguments::command(), "windlass", &mut script);
    crate::output::line(String::from_utf8(script)?.trim_end())
}
