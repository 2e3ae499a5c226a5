//! Forgets what has been kept long enough: done jobs past their retention, dead and cancelled ones past theirs.

use std::sync::Arc;
use std::time::Duration;

use crate::server::Shared;
use crate::server::service::{Next, Service, Ticking};

/// How often it looks.
const PACE: Duration = Duration::from_secs(30);

/// How many jobs one step removes, so that nobody waits long behind it.
const STEP: usize = 1_000;

/// The pause between two full steps.
const BREATH: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Pruner {
    shared: Arc<Shared>,
}

impl Pruner {
    pub(crate) fn new(shared: Arc<Shared>) -> Pruner {
        Pruner { shared }
    }

    async fn prune(&mut self) -> Next {
        match self.shared.store.prune(self.shared.config.keep, STEP).await {
            Ok(removed) if removed >= STEP => Next::After(BREATH),
            Ok(_) => Next::After(PACE),
            Err(error) => {
                self.shared.complain("prune", &error);
                Next::After(PACE)
            }
        }
    }
}

impl Service for Pruner {
    fn name(&self) -> &'static str {
        "pruner"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.prune())
    }
}
