//! `windlass man`: manual pages, made from the same description as `--help`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::CommandFactory;

use crate::output;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write the pages of the program and of every subcommand into this folder, instead of printing the first
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = crate::Arguments::command();
    // Gives every subcommand its full name and the flags it has from its parents.
    command.build();
    match &arguments.out {
        None => output::line(String::from_utf8(page(&command)?)?.trim_end()),
        Some(folder) => write_all(&command, "windlass", folder),
    }
}

/// Writes the page of a command, then those of its subcommands.
fn write_all(command: &clap::Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let file = folder.join(format!("{name}.1"));
    std::fs::write(&file, page(command)?).with_context(|| format!("cannot write {}", file.display()))?;
    output::line(&output::printable(&file.display().to_string()))?;
    let is_shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for subcommand in command.get_subcommands().filter(is_shown) {
        write_all(subcommand, &format!("{name}-{}", subcommand.get_name()), folder)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
