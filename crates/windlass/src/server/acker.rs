//! Carries verdicts to the store, many in one call, until they land or are refused.
//!
//! While one call is under way the outbox fills for the next, so batches grow by themselves with the load. A
//! verdict the store cannot take now goes back to the front of the outbox and is tried again, for as long as it
//! takes: nobody else may run the job until the membership is lost, and then the store refuses the verdict by
//! itself. A refused verdict is counted and logged; its effects on the job are somebody else's now.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::event::Event;
use crate::failpoint;
use crate::job::LeaseToken;
use crate::server::Shared;
use crate::server::inflight::Report;
use crate::server::service::{Next, Service, Ticking};
use crate::store::{Finished, MemberId, VERB_LEN_MAX, Verdict};

/// How long the acker leaves a store alone that could not take its verdicts.
const BACK_OFF: Duration = Duration::from_millis(100);

/// The outbox is looked at this often even if nobody rings.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Acker {
    shared: Arc<Shared>,
}

impl Acker {
    pub(crate) fn new(shared: Arc<Shared>) -> Acker {
        Acker { shared }
    }

    async fn send(&mut self) -> Next {
        let reports = self.shared.in_flight.take_reports(VERB_LEN_MAX);
        if reports.is_empty() {
            return Next::WhenRung(PATIENCE);
        }
        let (now, later) = of_one_member(reports);
        let is_sent = self.send_for_one_member(now).await;
        if !later.is_empty() {
            self.shared.in_flight.put_back(later);
        }
        if is_sent { Next::Now } else { Next::After(BACK_OFF) }
    }

    /// Answers whether the store has taken or refused them; otherwise they are back in the outbox.
    async fn send_for_one_member(&self, reports: Vec<Report>) -> bool {
        let Some(member) = reports.first().map(|report| Arc::clone(&report.member)) else {
            return true;
        };
        let verdicts: Vec<(LeaseToken, Verdict)> = reports.iter().map(|r| (r.token, r.verdict.clone())).collect();
        match self.finish(&member, verdicts).await {
            Ok(answers) => {
                self.note_answers(&reports, &answers);
                self.shared.in_flight.acked(reports.len());
                true
            }
            // The whole membership is gone, and with it every token: nothing was changed, nothing ever will be.
            Err(error) if error.is_fenced() => {
                self.note_answers(&reports, &vec![Finished::Fenced; reports.len()]);
                self.shared.in_flight.acked(reports.len());
                true
            }
            Err(error) => {
                self.shared.complain("finish", &error);
                self.shared.in_flight.put_back(reports);
                false
            }
        }
    }

    async fn finish(
        &self,
        member: &MemberId,
        verdicts: Vec<(LeaseToken, Verdict)>,
    ) -> Result<Vec<Finished>, crate::StoreError> {
        failpoint::hit("acker.send")?;
        let span = tracing::debug_span!("ack", count = verdicts.len());
        let answers = self.shared.store.finish(member, verdicts).instrument(span).await?;
        failpoint::hit("acker.reply.lost")?;
        Ok(answers)
    }

    fn note_answers(&self, reports: &[Report], answers: &[Finished]) {
        self.measure(reports, answers);
        for (Report { member, token, verdict, .. }, answer) in reports.iter().zip(answers) {
            match answer {
                Finished::Landed => {
                    tracing::trace!(job.id = %token.job(), verdict = verdict.name(), "acked");
                    self.shared.tally.note_landed(verdict);
                    self.shared.subscriber.event(&Event::Landed { member, token: *token, verdict });
                }
                Finished::Fenced => {
                    self.shared.tally.note_fenced();
                    self.shared.subscriber.event(&Event::Fenced { member, token: *token });
                    if let Some(left_out) = self.shared.complaints.admit("a refused outcome") {
                        let (job, run) = (token.job(), token.run());
                        tracing::warn!(job.id = %job, run, %member, left_out, "an outcome came too late and was refused");
                    }
                }
            }
        }
    }
}

impl Acker {
    /// Under the meter's lock, so without calling anybody.
    fn measure(&self, reports: &[Report], answers: &[Finished]) {
        let mut sums = self.shared.meter.sums();
        for (report, answer) in reports.iter().zip(answers) {
            if let (Some(facts), Finished::Landed) = (&report.facts, answer) {
                sums.note(facts, &report.verdict);
            }
        }
    }
}

/// Splits off the verdicts that were leased under the same membership as the first one.
fn of_one_member(reports: Vec<Report>) -> (Vec<Report>, Vec<Report>) {
    let Some(member) = reports.first().map(|report| Arc::clone(&report.member)) else {
        return Default::default();
    };
    reports.into_iter().partition(|report| report.member == member)
}

impl Service for Acker {
    fn name(&self) -> &'static str {
        "acker"
    }

    fn tick(&mut self) -> Ticking<'_, Next> {
        Box::pin(self.send())
    }

    fn rung(&self) -> Ticking<'_, ()> {
        Box::pin(self.shared.in_flight.mail())
    }
}
