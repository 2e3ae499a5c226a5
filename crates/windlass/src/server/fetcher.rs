//! Leases as many jobs as there is room for, in one call.
//!
//! Room is the concurrency, plus a *prefetch*: while jobs are short, some are leased ahead, so that one commit of
//! the store serves hundreds of them. The prefetch is what the server has lately finished in [`PREFETCH_SPAN`]; with
//! long jobs it is nothing, so that no job waits here while another process is idle. A job that has been buffered
//! for longer than [`BUFFER_PATIENCE`] all the same is handed back.
//!
//! An empty store is not polled: the fetcher waits for the store's bell, and looks again after the poll interval in
//! case a ring was missed.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::clock::Stopwatch;
use crate::server::Shared;
use crate::server::order;
use crate::server::service::{Next, Service, Ticking};
use crate::store::{RECOVERIES_SUSPECT, Ring, VERB_LEN_MAX};

/// How much work, in time at the present rate, is leased ahead.
pub(crate) const PREFETCH_SPAN: Duration = Duration::from_millis(20);

/// How long a leased job may wait for a place before it is handed back.
const BUFFER_PATIENCE: Duration = Duration::from_secs(2);

/// How long the fetcher leaves a store alone that could not answer.
const BACK_OFF: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    rate: Rate,
    /// What the store's bell counted before the last look.
    seen: Ring,
    /// Whether the last look found room but no jobs.
    is_starved: bool,
    /// Whether a suspect may be in hand: the store gives out the next one when this one has ended.
    has_suspect: bool,
}

impl Fetcher {
    pub(crate) fn new(shared: Arc<Shared>) -> Fetcher {
        Fetcher { rate: Rate::new(), seen: Ring::default(), is_starved: false, has_suspect: false, shared }
    }

    async fn fetch(&mut self) -> Next {
        self.shared.in_flight.begin_lease();
        let next = self.fill_up().await;
        self.shared.in_flight.end_lease();
        next
    }

    async fn fill_up(&mut self) -> Next {
        let in_flight = &self.shared.in_flight;
        let patience = self.shared.config.poll_interval;
        if self.shared.is_quiet() {
            in_flight.hand_back(|_| true);
            return Next::WhenRung(patience);
        }
        in_flight.hand_back(|since| since.elapsed() > BUFFER_PATIENCE);
        let load = in_flight.load();
        let prefetch = self.rate.prefetch(load.ended, self.shared.config.prefetch_max as usize);
        in_flight.set_low_water(prefetch / 2);
        let in_hand = load.buffered + load.running + load.unacked;
        let room = (self.shared.config.concurrency as usize + prefetch).saturating_sub(in_hand).min(VERB_LEN_MAX);
        self.is_starved = false;
        // With enough buffered, a little room is not worth a commit.
        if room == 0 || (load.buffered > prefetch / 2 && room < prefetch / 2) {
            return Next::WhenRung(patience);
        }
        self.lease(room).await
    }

    async fn lease(&mut self, room: usize) -> Next {
        let shared = &self.shared;
        self.seen = shared.store.ring();
        let plan = order::plan(&shared.config.queues, shared.config.order, room, &shared.entropy);
        let member = shared.membership.current();
        let span = tracing::debug_span!("lease", room);
        match shared.store.lease(&member, plan).instrument(span).await {
            Ok(jobs) if jobs.is_empty() => {
                self.is_starved = true;
                let load = shared.in_flight.load();
                self.has_suspect &= load.running + load.buffered + load.unacked > 0;
                Next::WhenRung(shared.config.poll_interval)
            }
            // The membership was lost while the answer was on its way: the jobs are somebody else's by now.
            Ok(_) if member != shared.membership.current() => Next::Now,
            Ok(jobs) => {
                for job in &jobs {
                    let (kind, queue, attempt) = (job.kind.as_str(), job.queue.as_str(), job.attempt);
                    tracing::trace!(job.id = %job.token.job(), job.kind = kind, queue, attempt, "leased");
                }
                self.has_suspect |= jobs.iter().any(|job| job.recoveries >= RECOVERIES_SUSPECT);
                shared.start_runners(shared.in_flight.accept(jobs, &member));
                Next::Now
            }
            // The heartbeat finds out as well, and joins anew; until then there is nothing to lease.
            Err(error) if error.is_fenced() => Next::After(BACK_OFF),
            Err(error) => {
                shared.complain("lease", &error);
                Next::After(BACK_OFF)
            }
        }
    }
}

impl Service for Fetcher {
    fn name(&self) -> &'static str {
        "fetcher"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.fetch())
    }

    fn rung(&self) -> Ticking<'_, ()> {
        Box::pin(async {
            if self.is_starved && !self.shared.is_quiet() {
                tokio::select! {
                    _ = self.shared.store.wait(self.seen, self.shared.config.poll_interval) => {}
                    () = self.shared.in_flight.room(), if self.has_suspect => {}
                    () = self.shared.quiet_asked() => {}
                }
            } else {
                tokio::select! {
                    () = self.shared.in_flight.room() => {}
                    () = self.shared.quiet_asked() => {}
                }
            }
        })
    }
}

/// How many runs ended lately.
#[derive(Debug)]
struct Rate {
    since: Stopwatch,
    ended_then: u64,
    per_second: f64,
}

impl Rate {
    /// Shorter spans say more about the scheduler than about the jobs.
    const SPAN_MIN: Duration = Duration::from_millis(5);

    fn new() -> Rate {
        Rate { since: Stopwatch::start(), ended_then: 0, per_second: 0.0 }
    }

    /// How many jobs to lease ahead, given how many have ended by now.
    fn prefetch(&mut self, ended: u64, max: usize) -> usize {
        let elapsed = self.since.elapsed();
        if elapsed >= Rate::SPAN_MIN {
            let measured = (ended - self.ended_then) as f64 / elapsed.as_secs_f64();
            // Half of the old value, half of the new: quick to follow, and not thrown by one long commit.
            self.per_second = (self.per_second + measured) / 2.0;
            (self.since, self.ended_then) = (Stopwatch::start(), ended);
        }
        ((self.per_second * PREFETCH_SPAN.as_secs_f64()) as usize).min(max)
    }
}
