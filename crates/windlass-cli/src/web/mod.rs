//! `windlass web`: the dashboard of a store, by itself or beside a server.
//!
//! `settings.rs` puts together where it listens and who may come: flags, then the environment, then the section
//! `[web]` of `windlass.toml`. `keys.rs` reads users and tokens, which never stand on a command line, where everybody on
//! the machine could read them. `password.rs` makes the hashes that a file of users holds.

mod keys;
mod password;
mod settings;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::store::Store;
use windlass_web::{router, serve};

pub(crate) use settings::{Flags, Settings};

use crate::{Common, config, output, signals};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read a password from the terminal or from standard input, and print its hash for a file of users
    HashPassword,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.action {
        Some(Action::HashPassword) => password::run(),
        None => look(common, &arguments.flags),
    }
}

fn look(common: &Common, flags: &Flags) -> anyhow::Result<()> {
    let settings = Settings::read(common, flags)?;
    let store = windlass::open(&config::read(common, &[])?.settings.store)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let dashboard = Dashboard::start(Arc::clone(&store), settings).await?;
        output::error(&format!("windlass: the dashboard of {} is at {}", store.describe().url, dashboard.url()));
        signals::until_stop_signal().await?;
        dashboard.stop().await;
        store.close().await?;
        anyhow::Ok(())
    })
}

/// A dashboard that is being served. It ends with [`Dashboard::stop`], or when it is dropped.
#[derive(Debug)]
pub(crate) struct Dashboard {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Dashboard {
    pub(crate) async fn start(store: Arc<dyn Store>, settings: Settings) -> anyhow::Result<Dashboard> {
        let listener = serve::listen(settings.listen, &settings.options.auth).await?;
        let address = listener.local_addr()?;
        let (stop, told) = oneshot::channel();
        let told = async {
            // A sender that was dropped means stop as well.
            let _ = told.await;
        };
        let serving = tokio::spawn(serve::serve(listener, router(store, settings.options), told));
        Ok(Dashboard { address, stop, serving })
    }

    /// Where a browser finds it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Ends the answers under way, within the library's grace.
    pub(crate) async fn stop(self) {
        let Dashboard { stop, serving, .. } = self;
        drop(stop);
        if let Err(error) = serving.await {
            output::error(&format!("windlass: the dashboard failed: {error}"));
        }
    }
}
