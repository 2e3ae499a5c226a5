//! Opens the store that flags, environment and configuration name, for commands that look or change and end.

use std::future::Future;
use std::sync::Arc;

use windlass::blocking::block_on;
use windlass::store::Store;
use windlass::{Client, Inspector, Timestamp};

use crate::{Common, config};

/// A store for the length of one command.
#[derive(Debug)]
pub(crate) struct Opened {
    store: Arc<dyn Store>,
}

/// Opens the store of this command.
pub(crate) fn open(common: &Common) -> anyhow::Result<Opened> {
    let loaded = config::read(common, &[])?;
    Ok(Opened { store: windlass::open(&loaded.settings.store)? })
}

impl Opened {
    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::clone(&self.store))
    }

    pub(crate) fn inspector(&self) -> Inspector {
        Inspector::new(Arc::clone(&self.store))
    }

    /// The present, by the store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Waits for an answer on this thread.
    pub(crate) fn wait<T, E>(&self, answer: impl Future<Output = Result<T, E>>) -> anyhow::Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        Ok(block_on(answer)?)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // What a command did is durable already; closing only tidies up.
        let _ = block_on(self.store.close());
    }
}
