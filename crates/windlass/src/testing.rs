//! Testing code that enqueues and runs jobs, without a server, without threads and without waiting.
//!
//! A [`TestKit`] is a store in memory with a clock that only the test moves. [`TestKit::drain`] runs what is ready, in
//! order, one job at a time, through the same runner as a server's; [`TestKit::advance`] moves the clock and makes due
//! what is due. The same seed gives the same ids and the same jitter.
//!
//! ```
//! # #[cfg(feature = "derive")] {
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use std::time::Duration;
//!
//! use serde::{Deserialize, Serialize};
//! use windlass::testing::TestKit;
//! use windlass::{Handlers, Job};
//!
//! #[derive(Job, Serialize, Deserialize)]
//! #[job(kind = "mail.send")]
//! struct SendMail { to: String }
//!
//! async fn send(_mail: SendMail) {}
//!
//! let kit = TestKit::new(Handlers::new().on(send));
//! kit.client().enqueue_in(Duration::from_secs(60), &SendMail { to: "ann".into() }).await.unwrap();
//!
//! kit.assert_enqueued::<SendMail>(|mail| mail.to == "ann");
//! assert_eq!(kit.drain().await.done, 0);
//! kit.advance(Duration::from_secs(60)).await;
//! assert_eq!(kit.drain().await.done, 1);
//! # });
//! # }
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::blocking::block_on;
use crate::client::Client;
use crate::clock::{Clock, ManualClock, Timestamp};
use crate::codec::decode;
use crate::config::{QueueConfig, ServerConfig};
use crate::entropy::Entropy;
use crate::handler::Handlers;
use crate::inspect::Inspector;
use crate::job::{Job, JobRecord, LeasedJob};
use crate::server::{Shared, runner};
use crate::store::memory::MemoryStore;
use crate::store::{Finished, JobQuery, LeasePlan, PAGE_LEN_MAX, Store, Take, VERB_LEN_MAX, Verdict};

/// When every kit's clock begins: 2026-01-01T00:00:00Z.
pub const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Jobs that one drain runs before it takes them for a loop that never ends.
const DRAIN_MAX: usize = 100_000;

/// A store in memory with virtual time, and the handlers to run its jobs. See the [module](self).
#[derive(Debug)]
pub struct TestKit {
    store: Arc<MemoryStore>,
    clock: Arc<ManualClock>,
    shared: Arc<Shared>,
}

/// What a drain did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// Runs that succeeded.
    pub done: usize,
    /// Runs that failed and will be retried, or were discarded.
    pub failed: usize,
    /// Jobs that went to the dead.
    pub dead: usize,
    /// Runs that snoozed, were cancelled or handed back.
    pub other: usize,
}

impl TestKit {
    /// A kit with these handlers, an empty store, and the seed 0.
    ///
    /// # Panics
    /// When the handlers cannot work, with what is wrong.
    pub fn new(handlers: Handlers) -> TestKit {
        TestKit::seeded(handlers, 0)
    }

    /// A kit whose ids and jitter follow from `seed`.
    ///
    /// # Panics
    /// When the handlers cannot work, with what is wrong.
    pub fn seeded(handlers: Handlers, seed: u64) -> TestKit {
        if let Err(error) = handlers.validate() {
            panic!("{error}");
        }
        let clock = Arc::new(ManualClock::new(BEGINNING));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let entropy = Arc::new(Entropy::seeded(seed));
        let config = ServerConfig { queues: vec![QueueConfig::new("default")], ..ServerConfig::default() };
        let pool = crate::server::start_pool_for(&handlers, &config).unwrap_or_else(|error| panic!("{error}"));
        let shared = Shared::new(Arc::clone(&store) as Arc<dyn Store>, handlers, config, entropy, pool);
        block_on(shared.join()).expect("an empty store takes its first member");
        TestKit { store, clock, shared: Arc::new(shared) }
    }

    /// A client of the kit's store.
    pub fn client(&self) -> &Client {
        &self.shared.services.client
    }

    /// Looks into the kit's store.
    pub fn inspector(&self) -> Inspector {
        Inspector::new(Arc::clone(&self.store) as Arc<dyn Store>)
    }

    /// The present, by the kit's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock ahead, and makes ready what is due then.
    pub async fn advance(&self, delay: Duration) {
        self.clock.advance(delay);
        while self.store.promote(VERB_LEN_MAX).await.expect("the kit's store is open").ready == VERB_LEN_MAX {}
    }

    /// Runs the next ready job of any queue. `None` when there is none.
    pub async fn run_one(&self) -> Option<Verdict> {
        let job = self.lease_one().await?;
        let ctx = runner::context_for(&self.shared, &job);
        let verdict = runner::conclude(&self.shared, &job, &ctx).await.verdict;
        let member = self.shared.membership.current();
        let answer = self.store.finish(&member, vec![(job.token, verdict.clone())]).await;
        assert_eq!(answer.expect("the kit's store is open"), [Finished::Landed], "the kit's only member was fenced");
        Some(verdict)
    }

    /// Runs everything that is ready, also what those jobs enqueue, until nothing is.
    ///
    /// # Panics
    /// After 100,000 jobs: something enqueues itself for ever.
    pub async fn drain(&self) -> Drained {
        let mut drained = Drained::default();
        for _ in 0..DRAIN_MAX {
            match self.run_one().await {
                None => return drained,
                Some(Verdict::Done { .. }) => drained.done += 1,
                Some(Verdict::Retry { .. } | Verdict::Discard) => drained.failed += 1,
                Some(Verdict::Dead { .. }) => drained.dead += 1,
                Some(Verdict::Snooze { .. } | Verdict::Release | Verdict::Cancelled { .. }) => drained.other += 1,
            }
        }
        panic!("{DRAIN_MAX} jobs were run and there are still some: does one enqueue itself for ever?");
    }

    async fn lease_one(&self) -> Option<LeasedJob> {
        let queues = self.store.queues().await.expect("the kit's store is open");
        let take = |queue: &crate::store::QueueInfo| Take { queue: queue.name.clone(), max: 1, at_most_once: false };
        let plan = LeasePlan { takes: queues.iter().map(take).collect(), max: 1 };
        // The kit's clock may be moved by days: its member beats whenever it does something.
        let member = self.shared.membership.current();
        self.store.beat(&member, Default::default()).await.expect("nobody reaps the kit's member");
        self.store.lease(&member, plan).await.expect("the kit's member is there").pop()
    }

    /// Checks that a job of type `J` that `is_wanted` is waiting to be run: ready, scheduled or in retry.
    ///
    /// # Panics
    /// When there is none, with what is waiting.
    pub fn assert_enqueued<J: Job>(&self, is_wanted: impl Fn(&J) -> bool) {
        let waiting = self.waiting();
        if !waiting.iter().any(|job| is_match(job, &is_wanted)) {
            panic!("no job of kind {:?} is as wanted; waiting are:\n{}", J::KIND, shown(&waiting));
        }
    }

    /// Checks that no job of type `J` that `is_wanted` is waiting to be run.
    ///
    /// # Panics
    /// When there is one, with what is waiting.
    pub fn assert_not_enqueued<J: Job>(&self, is_wanted: impl Fn(&J) -> bool) {
        let waiting = self.waiting();
        if waiting.iter().any(|job| is_match(job, &is_wanted)) {
            panic!("a job of kind {:?} is waiting that should not be; waiting are:\n{}", J::KIND, shown(&waiting));
        }
    }

    /// The jobs that wait to be run, the latest first.
    pub fn waiting(&self) -> Vec<JobRecord> {
        let mut waiting = Vec::new();
        let mut query = JobQuery { limit: PAGE_LEN_MAX, ..JobQuery::default() };
        loop {
            let page = block_on(self.store.list(query.clone())).expect("the kit's store is open");
            waiting.extend(page.jobs.into_iter().filter(|job| !job.state.is_final()));
            query.after = page.next;
            if query.after.is_none() {
                return waiting;
            }
        }
    }
}

fn is_match<J: Job>(job: &JobRecord, is_wanted: impl Fn(&J) -> bool) -> bool {
    job.kind == J::KIND && decode::<J>(&job.payload).is_ok_and(|job| is_wanted(&job))
}

fn shown(jobs: &[JobRecord]) -> String {
    let line = |job: &JobRecord| format!("  {} {} {} {}\n", job.kind, job.queue, job.state, job.payload.to_text());
    if jobs.is_empty() { "  nothing\n".to_owned() } else { jobs.iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::context::Context;
    use crate::outcome::HandlerError;
    use crate::state::State;

    #[derive(Serialize, Deserialize)]
    struct Chain {
        left: u32,
    }

    impl Job for Chain {
        const KIND: &'static str = "chain";
    }

    async fn chain(job: Chain, ctx: Context) -> Result<(), HandlerError> {
        if job.left == 100 && ctx.attempt() == 1 {
            return Err(HandlerError::msg("at first"));
        }
        if job.left > 0 {
            ctx.client().enqueue(&Chain { left: job.left - 1 }).await?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_drain_runs_also_what_its_jobs_enqueue() {
        let kit = TestKit::new(Handlers::new().on(chain));

        kit.client().enqueue(&Chain { left: 4 }).await.unwrap();

        assert_eq!(kit.drain().await, Drained { done: 5, ..Drained::default() });
        kit.assert_not_enqueued::<Chain>(|_| true);
    }

    #[tokio::test]
    async fn a_retry_waits_for_the_clock_and_not_for_the_wall() {
        let kit = TestKit::new(Handlers::new().on(chain));
        let id = kit.client().enqueue(&Chain { left: 100 }).await.unwrap();

        assert_eq!(kit.drain().await.failed, 1);
        assert_eq!(kit.inspector().job(id).await.unwrap().state, State::Retry);
        kit.advance(Duration::from_secs(60)).await;

        assert_eq!(kit.drain().await.done, 101);
    }

    #[tokio::test]
    #[should_panic(expected = "chain default ready [{\"left\":7}]")]
    async fn what_is_missing_is_told_with_what_is_there() {
        let kit = TestKit::new(Handlers::new().on(chain));
        kit.client().enqueue(&Chain { left: 7 }).await.unwrap();

        kit.assert_enqueued::<Chain>(|job| job.left == 8);
    }
}
