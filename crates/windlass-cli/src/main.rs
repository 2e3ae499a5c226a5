//! The program `windlass`: works queues, enqueues, and looks inside a store.
//!
//! One file for each subcommand; each is a function from its arguments and the opened store to a result. What is
//! common stands beside them: `output` prints tables for people and JSON for programs, `store` opens the store that
//! flags, environment and configuration name, `exit` turns an error into the documented exit code.
#![forbid(unsafe_code)]

mod completions;
mod config;
mod demo;
mod doctor;
mod enqueue;
#[cfg(unix)]
mod exec;
mod exit;
mod http;
mod jobs;
mod load;
mod man;
mod migrate;
mod order;
mod output;
mod pause;
mod processes;
mod prune;
mod queues;
mod serve;
mod signals;
mod stats;
mod store;
mod time;
mod top;
mod web;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use windlass::store::ProcessOrder;

/// Background jobs that survive the process.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, after_help = exit::HELP, arg_required_else_help = true)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every subcommand understands.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// The store: sqlite:PATH[?sync=full|normal], or memory: for a trial [default: sqlite:jobs.db, or as configured]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// The configuration file [default: windlass.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The section [env.NAME] of the configuration file that applies on top of it
    #[arg(long, global = true, value_name = "NAME", env = "WINDLASS_ENV")]
    env: Option<String>,
    /// Print JSON for programs instead of tables for people
    #[arg(long, global = true)]
    json: bool,
    /// Log more: -v for what happens, -vv for every detail
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How the log on standard error looks: text for people, or JSON, one object a line, for programs
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t, env = "WINDLASS_LOG_FORMAT")]
    log_format: output::LogFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the main job: checksum every file below a folder, sum up, survive being killed
    Demo(demo::Arguments),
    /// Work the queues until told to stop
    Serve(serve::Arguments),
    /// Serve the dashboard
    Web(web::Arguments),
    /// Enqueue a job
    Enqueue(enqueue::Arguments),
    /// List the queues
    Queues,
    /// List, show, retry, kill, cancel or delete jobs
    Jobs(jobs::Arguments),
    /// Show counts, totals and the last days
    Stats(stats::Arguments),
    /// List the processes that work the queues, and what they run
    Processes,
    /// Show the store on this terminal, live, with keys to act on it
    Top(top::Arguments),
    /// Have processes lease no more jobs, and go on with what they run
    Quiet(order::Arguments),
    /// Have processes stop gracefully
    Stop(order::Arguments),
    /// Stop leases from a queue, in every process
    Pause(pause::Arguments),
    /// End a pause
    Resume(pause::Arguments),
    /// Remove jobs
    Prune(prune::Arguments),
    /// Move every job of one store into another; may be repeated after an interruption
    Migrate(migrate::Arguments),
    /// Examine the store
    Doctor,
    /// Show the configuration in force
    Config(config::Arguments),
    /// Measure what a store and a server can take, and whether every job comes through
    Load(load::Arguments),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
    /// Print the manual page, or write the pages of all subcommands
    Man(man::Arguments),
}

fn main() -> ExitCode {
    // What the server starts for itself is no command for people.
    #[cfg(unix)]
    if let Some(ended) = exec::guard::play_part(std::env::args_os().skip(1)) {
        return ended.map_or_else(|error| exit::report(&error), |()| ExitCode::SUCCESS);
    }
    let Arguments { common, command } = Arguments::parse();
    // A line of the log in the middle of a drawn screen would be read by nobody.
    if !matches!(&command, Command::Top(arguments) if arguments.draws()) {
        output::start_logging(common.verbose, common.log_format);
    }
    #[cfg(feature = "failpoints")]
    if let Err(error) = windlass::config::load::failpoints_from_environment() {
        return exit::report(&exit::Usage(error).into());
    }
    match run(&common, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

fn run(common: &Common, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(common, &arguments),
        Command::Serve(arguments) => serve::run(common, &arguments),
        Command::Web(arguments) => web::run(common, &arguments),
        Command::Enqueue(arguments) => enqueue::run(common, &arguments),
        Command::Queues => queues::run(common),
        Command::Jobs(arguments) => jobs::run(common, &arguments),
        Command::Stats(arguments) => stats::run(common, &arguments),
        Command::Processes => processes::run(common),
        Command::Top(arguments) => top::run(common, &arguments),
        Command::Quiet(arguments) => order::run(common, &arguments, ProcessOrder::Quiet),
        Command::Stop(arguments) => order::run(common, &arguments, ProcessOrder::Stop),
        Command::Pause(arguments) => pause::pause(common, &arguments),
        Command::Resume(arguments) => pause::resume(common, &arguments),
        Command::Prune(arguments) => prune::run(common, &arguments),
        Command::Migrate(arguments) => migrate::run(common, &arguments),
        Command::Doctor => doctor::run(common),
        Command::Config(arguments) => config::run(common, &arguments),
        Command::Load(arguments) => load::run(common, &arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
    }
}
