//! Says that this process lives, and hears what others want of it.
//!
//! The heartbeat runs on an OS thread of its own: a handler that computes for a minute, or blocks the I/O runtime,
//! must not cost the process its membership. Each beat extends the lease to its full length, tells how the process
//! does, and brings back what others want: runs to cancel, and orders to the process as a whole, which are carried
//! out here.
//!
//! When the store answers that the membership is gone, everything leased under it belongs to others: what has not
//! started is forgotten, what runs is told ([`CancelCause::LeaseLost`]), and the process joins again under a new
//! identity. A store that cannot be reached is asked again soon; until somebody reaps the member, nothing is lost.
//!
//! The watchdog lives here too, for the same reason: only a thread that handlers cannot block can see that one of
//! them is blocking the runtime.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cancel::CancelCause;
use crate::event::Event;
use crate::job::LeaseToken;
use crate::server::service::{Next, Service, Ticking};
use crate::server::{Shared, process};
use crate::store::{ProcessOrder, Vitals};

/// The longest time between two beats.
const PACE_MAX: Duration = Duration::from_secs(5);

/// How soon a failed beat is tried again.
const BACK_OFF: Duration = Duration::from_millis(250);

pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    /// Async runs that were in the middle of a poll at the last beat, with the number of that poll.
    polled_at_last_beat: HashMap<LeaseToken, u64>,
}

impl Heartbeat {
    pub(crate) fn new(shared: Arc<Shared>) -> Heartbeat {
        Heartbeat { shared, polled_at_last_beat: HashMap::new() }
    }

    async fn beat(&mut self) -> Next {
        self.watch();
        let pace = (self.shared.config.lease / 3).min(PACE_MAX);
        let member = self.shared.membership.current();
        match self.shared.store.beat(&member, self.vitals()).await {
            Ok(orders) => {
                self.shared.membership.note_beat();
                for token in &orders.cancel {
                    if self.shared.in_flight.cancel(token, CancelCause::Asked) {
                        tracing::info!(job.id = %token.job(), "told a running job to give way");
                    }
                }
                orders.process.iter().for_each(|order| self.obey(*order));
                Next::After(pace)
            }
            Err(error) if error.is_fenced() => self.rejoin().await,
            Err(error) => {
                self.shared.complain("beat", &error);
                Next::After(BACK_OFF.min(pace))
            }
        }
    }

    fn obey(&self, order: ProcessOrder) {
        tracing::warn!(%order, "ordered through the store");
        match order {
            ProcessOrder::Dump => {
                let running = self.shared.dump();
                tracing::warn!(count = running.len(), "running now");
                for job in running {
                    tracing::warn!(job, "running now");
                }
            }
            ProcessOrder::Quiet => self.shared.become_quiet(),
            ProcessOrder::Stop => self.shared.begin_stop(),
        }
    }

    async fn rejoin(&mut self) -> Next {
        let (forgotten, running) = self.shared.in_flight.lose();
        let lost = self.shared.membership.current();
        self.shared.subscriber.event(&Event::MemberLost { member: &lost, forgotten, running });
        tracing::warn!(member = %lost, forgotten, running, "lost the membership; joining again");
        match self.shared.join().await {
            Ok(()) => Next::Now,
            Err(error) => {
                self.shared.complain("join", &error);
                Next::After(BACK_OFF)
            }
        }
    }

    fn vitals(&self) -> Vitals {
        let running = self.shared.in_flight.running();
        Vitals {
            rss_bytes: process::rss_bytes(),
            busy: running.len() as u32,
            quiet: self.shared.is_quiet(),
            fenced: self.shared.tally.fenced(),
            stuck: self.shared.tally.stuck(),
        }
    }

    /// Warns about handlers that have been in one and the same poll since the last beat.
    fn watch(&mut self) {
        let mut polled = HashMap::new();
        for ctx in self.shared.in_flight.running() {
            let Some(poll) = ctx.run().poll_under_way() else {
                continue;
            };
            if self.polled_at_last_beat.get(&ctx.run().token) == Some(&poll)
                && let Some(left_out) = self.shared.complaints.admit("a handler in one poll")
            {
                let (id, kind) = (ctx.id(), ctx.kind());
                let message = "a handler is blocking the I/O runtime; register it with .cpu(..)";
                tracing::warn!(job.id = %id, job.kind = kind, left_out, "{message}");
            }
            polled.insert(ctx.run().token, poll);
        }
        self.polled_at_last_beat = polled;
    }
}

impl Service for Heartbeat {
    fn name(&self) -> &'static str {
        "heartbeat"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.beat())
    }
}
