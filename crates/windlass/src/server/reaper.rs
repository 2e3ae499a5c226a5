//! Hands on the jobs of members that are lost.
//!
//! Any server may do it for any other: whoever comes first removes the lost member, and the rest find nothing. The
//! pace is a third of the lease and at most [`PACE_MAX`], with jitter so that servers started together do not all
//! look at once: a crash is recovered within its lease and five seconds.
//!
//! A process that could not beat for a while (a full disk, a suspended machine) judges nobody until it has beaten
//! again: the first lost member it would find is itself, and jobs whose outcomes are waiting to be stored would be
//! given away.

use std::sync::Arc;
use std::time::Duration;

use crate::server::Shared;
use crate::server::service::{Next, Service, Ticking};

/// The longest time between two looks, before jitter.
const PACE_MAX: Duration = Duration::from_secs(4);

/// How many jobs one step hands on.
const STEP: usize = 500;

#[derive(Debug)]
pub(crate) struct Reaper {
    shared: Arc<Shared>,
}

impl Reaper {
    pub(crate) fn new(shared: Arc<Shared>) -> Reaper {
        Reaper { shared }
    }

    async fn reap(&mut self) -> Next {
        if !self.shared.membership.is_fresh(self.shared.config.lease) {
            return Next::After(self.pace() / 4);
        }
        match self.shared.store.reap(STEP).await {
            Ok(reaped) => {
                let jobs = reaped.recovered + reaped.dead + reaped.cancelled;
                for member in &reaped.members {
                    tracing::warn!(%member, "a member was lost; its jobs are handed on");
                }
                if jobs > 0 {
                    tracing::info!(recovered = reaped.recovered, dead = reaped.dead, "recovered jobs of lost members");
                }
                if reaped.more { Next::Now } else { Next::After(self.pace()) }
            }
            Err(error) => {
                self.shared.complain("reap", &error);
                Next::After(self.pace())
            }
        }
    }

    /// From 80 to 100 % of the pace.
    fn pace(&self) -> Duration {
        let pace = (self.shared.config.lease / 3).min(PACE_MAX);
        pace.mul_f64(0.8 + 0.2 * self.shared.entropy.fraction())
    }
}

impl Service for Reaper {
    fn name(&self) -> &'static str {
        "reaper"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.reap())
    }
}
