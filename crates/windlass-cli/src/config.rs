//! The configuration of this run, and `windlass config show`.

use std::path::Path;

use windlass::config::load::{FILE_NAME, Loaded, Sources, load, variables};

use crate::{Common, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show every setting in force
    Show {
        /// Also tell who set it: a file with its line, a variable, a flag
        #[arg(long)]
        origin: bool,
    },
}

/// A setting given as a flag: the setting's name, the flag, its value.
pub(crate) type Flag = (&'static str, &'static str, String);

/// Puts the configuration together: defaults, file, environment, flags.
pub(crate) fn read(common: &Common, flags: &[Flag]) -> anyhow::Result<Loaded> {
    let mut flags = flags.to_vec();
    flags.extend(common.store.iter().map(|url| ("store", "--store", url.clone())));
    let file = match &common.config {
        Some(path) => (path.as_path(), true),
        None => (Path::new(FILE_NAME), false),
    };
    let section = common.env.as_deref();
    Ok(load(&Sources { file: Some(file), section, variables: variables(), flags })?)
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let Action::Show { origin: with_origin } = arguments.action;
    let rows = read(common, &[])?.rows();
    if common.json {
        let setting = |(name, value, origin): &(&str, String, _)| serde_json::json!({ "name": name, "value": value, "origin": format!("{origin}") });
        return output::json(&rows.iter().map(setting).collect::<Vec<_>>());
    }
    let row = |(name, value, origin): (&str, String, windlass::config::load::Origin)| {
        let mut row = vec![name.to_owned(), value];
        if with_origin {
            row.push(origin.to_string());
        }
        row
    };
    let header: &[&str] = if with_origin { &["setting", "value", "set by"] } else { &["setting", "value"] };
    output::table(header, rows.into_iter().map(row).collect(), "")
}
