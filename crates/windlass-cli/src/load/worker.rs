//! A server that runs the jobs of a load test, in this process.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::ServerConfig;
use windlass::config::QueueConfig;
use windlass::server::{RunningServer, Server, StopReport};
use windlass::store::Store;

use super::bodies::handlers;
use super::meter::Meter;

/// How jobs are run. Told to every process that runs some.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) queue: String,
    pub(super) concurrency: u32,
    pub(super) cpu_threads: u32,
    pub(super) at_most_once: bool,
    pub(super) journal: Option<PathBuf>,
}

impl Settings {
    /// The defaults of `serve`, but for what a test varies.
    fn server(&self) -> ServerConfig {
        let queue = QueueConfig { at_most_once: self.at_most_once, ..QueueConfig::new(&self.queue) };
        ServerConfig {
            queues: vec![queue],
            concurrency: self.concurrency,
            cpu_threads: self.cpu_threads,
            ..ServerConfig::default()
        }
    }
}

/// A server on its way.
#[derive(Debug)]
pub(super) struct Worker {
    server: RunningServer,
}

impl Worker {
    pub(super) async fn start(
        store: &Arc<dyn Store>,
        meter: &Arc<Meter>,
        settings: &Settings,
    ) -> anyhow::Result<Worker> {
        let handlers = handlers().shared_state(Arc::clone(meter));
        let server = Server::new(Arc::clone(store), handlers, settings.server())?;
        let watched = server.watched_by(Arc::clone(meter) as Arc<dyn windlass::event::Subscriber>);
        Ok(Worker { server: watched.start().await? })
    }

    pub(super) async fn stop(self) -> StopReport {
        self.server.stop().await
    }
}
