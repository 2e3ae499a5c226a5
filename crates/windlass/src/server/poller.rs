//! Makes scheduled and retry jobs ready when their time has come.
//!
//! Every server polls; the store moves each job once. The next tick is when the next job is due, and never later
//! than the poll interval, for another process may schedule something sooner.

use std::sync::Arc;
use std::time::Duration;

use crate::server::Shared;
use crate::server::service::{Next, Service, Ticking};

/// How many jobs one step makes ready: a herd of a million is moved in steps that let others in between.
const STEP: usize = 500;

/// The shortest sleep before a due time, so that rounding cannot make the poller spin.
const SLEEP_MIN: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Poller {
    shared: Arc<Shared>,
}

impl Poller {
    pub(crate) fn new(shared: Arc<Shared>) -> Poller {
        Poller { shared }
    }

    async fn poll(&mut self) -> Next {
        let longest = self.shared.config.poll_interval;
        match self.shared.store.promote(STEP).await {
            Ok(promoted) if promoted.ready + promoted.expired >= STEP => Next::Now,
            Ok(promoted) => {
                let until_due = promoted.next_due.map(|due| due.since(self.shared.store.now()));
                Next::WhenRung(until_due.unwrap_or(longest).clamp(SLEEP_MIN, longest))
            }
            Err(error) => {
                self.shared.complain("promote", &error);
                Next::After(longest)
            }
        }
    }
}

impl Service for Poller {
    fn name(&self) -> &'static str {
        "poller"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.poll())
    }
}
