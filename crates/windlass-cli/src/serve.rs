//! `windlass serve`: works the queues with the kinds this program has.

use std::net::SocketAddr;
use std::sync::Arc;

use windlass::Handlers;
use windlass::config::load::Settings;
use windlass::server::{RunningServer, Server, StopReport};

use crate::web::{self, Dashboard};
use crate::{Common, config, demo, http, output, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A queue to serve, with its weight: mail or mail:4; may be given several times
    #[arg(short, long = "queue", value_name = "NAME[:WEIGHT]")]
    queues: Vec<String>,
    /// Handlers at a time
    #[arg(short, long, value_name = "COUNT")]
    concurrency: Option<String>,
    /// How long a stop waits for running jobs, such as 25s
    #[arg(long, value_name = "SPAN")]
    stop_timeout: Option<String>,
    /// How long this process may be silent before others take its jobs, such as 15s
    #[arg(long, value_name = "SPAN")]
    lease: Option<String>,
    /// How long a job that is told to end may take, such as 2s
    #[arg(long, value_name = "SPAN")]
    cancel_grace: Option<String>,
    /// Programs that `exec` jobs may run: absolute paths, or names that are looked up now
    #[arg(long, value_name = "PROGRAM", num_args = 1..)]
    allow_exec: Vec<String>,
    /// Let `exec` jobs run any program, anywhere, with any environment
    #[arg(long)]
    allow_exec_any: bool,
    /// Folders in or below which `exec` jobs may ask to run
    #[arg(long, value_name = "DIR", num_args = 1..)]
    allow_exec_cwd: Vec<String>,
    /// Variables that `exec` jobs may set for their program
    #[arg(long, value_name = "NAME", num_args = 1..)]
    allow_exec_env: Vec<String>,
    /// Hosts, or beginnings of URLs, that `http` jobs may be posted to
    #[arg(long, value_name = "HOST|URL", num_args = 1..)]
    allow_http: Vec<String>,
    /// Also serve the dashboard here, such as 127.0.0.1:7420; who may come is said in [web] of the configuration file
    #[arg(long, value_name = "ADDRESS")]
    web: Option<SocketAddr>,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let settings = config::read(common, &flags(arguments))?.settings;
    let handlers = handlers(&settings)?;
    let look = |listen| web::Settings::read(common, &web::Flags::listening(listen));
    let look = arguments.web.map(look).transpose()?;
    let store = windlass::open(&settings.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        // Before the server: an address that is not to be had should be known before a job is leased.
        let dashboard = match look {
            Some(settings) => Some(Dashboard::start(Arc::clone(&store), settings).await?),
            None => None,
        };
        let server = Server::new(Arc::clone(&store), handlers, settings.server)?.start().await?;
        output::error(&format!("windlass: serving {} as {}", store.describe().url, server.member()));
        if let Some(dashboard) = &dashboard {
            output::error(&format!("windlass: the dashboard is at {}", dashboard.url()));
        }
        signals::until_stop(&server).await?;
        let report = stop(server).await;
        if let Some(dashboard) = dashboard {
            dashboard.stop().await;
        }
        store.close().await?;
        anyhow::Ok(report)
    })?;
    // A handler that never gives way must not keep the program from ending.
    runtime.shutdown_background();
    let report = report
        .ok_or_else(|| anyhow::anyhow!("stopped at once: the jobs that ran go on elsewhere when the lease is over"))?;
    output::error(&format!("windlass: stopped; {} done, {} failed", report.stats.done, report.stats.failed));
    anyhow::ensure!(report.is_clean, "some outcomes could not be stored; their jobs run again when the lease is over");
    Ok(())
}

/// The kinds this program has: those of the demo, and those that are allowed.
fn handlers(settings: &Settings) -> anyhow::Result<Handlers> {
    let handlers = http::add(demo::handlers(), settings)?;
    #[cfg(unix)]
    let handlers = crate::exec::add(handlers, settings)?;
    Ok(handlers)
}

/// Stops gracefully, or at once at the second request.
async fn stop(server: RunningServer) -> Option<StopReport> {
    tokio::select! {
        report = server.stop() => Some(report),
        _ = signals::until_stop_signal() => None,
    }
}

/// The flags as settings, so that they are read and checked like those of the file.
fn flags(arguments: &Arguments) -> Vec<config::Flag> {
    let mut flags: Vec<config::Flag> = Vec::new();
    if !arguments.queues.is_empty() {
        flags.push(("queues", "--queue", arguments.queues.join(",")));
    }
    flags.extend(arguments.concurrency.iter().map(|text| ("concurrency", "--concurrency", text.clone())));
    flags.extend(arguments.stop_timeout.iter().map(|text| ("stop_timeout", "--stop-timeout", text.clone())));
    flags.extend(arguments.lease.iter().map(|text| ("lease", "--lease", text.clone())));
    flags.extend(arguments.cancel_grace.iter().map(|text| ("cancel_grace", "--cancel-grace", text.clone())));
    if arguments.allow_exec_any {
        flags.push(("allow_exec_any", "--allow-exec-any", "true".to_owned()));
    }
    let lists = [
        ("allow_exec", "--allow-exec", &arguments.allow_exec),
        ("allow_exec_cwd", "--allow-exec-cwd", &arguments.allow_exec_cwd),
        ("allow_exec_env", "--allow-exec-env", &arguments.allow_exec_env),
        ("allow_http", "--allow-http", &arguments.allow_http),
    ];
    let given = lists.into_iter().filter(|(_, _, items)| !items.is_empty());
    flags.extend(given.map(|(name, flag, items)| (name, flag, items.join(","))));
    flags
}
