//! Violations to plant into a correct life: what the judge must object to.

use super::lives::{LAG_MS, Life, SKEW_MS};
use crate::checker::*;

/// A violation, and how to make it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plant {
    Lost,
    LostAfterFencedFinish,
    InUnknownState,
    Ghost,
    AgainWithoutFault,
    AgainAfterFaultsThatDoNotTouch,
    AgainAfterItsOutcome,
    SameRunTwice,
    SameRunAfterItFailed,
    AcceptedTwice,
    StoredAsAcceptedTwice,
    StaleFinish,
    Early,
}

pub(super) const PLANTS: [Plant; 13] = [
    Plant::Lost,
    Plant::LostAfterFencedFinish,
    Plant::InUnknownState,
    Plant::Ghost,
    Plant::AgainWithoutFault,
    Plant::AgainAfterFaultsThatDoNotTouch,
    Plant::AgainAfterItsOutcome,
    Plant::SameRunTwice,
    Plant::SameRunAfterItFailed,
    Plant::AcceptedTwice,
    Plant::StoredAsAcceptedTwice,
    Plant::StaleFinish,
    Plant::Early,
];

impl Plant {
    /// Spoils a life that ended in [`Ending::Done`] after a [`Mishap::Stopped`].
    pub(super) fn spoil(self, life: &mut Life) {
        let start = life.last(Phase::Started);
        let accepted = life.last(Phase::Accepted);
        match self {
            Plant::Lost => {
                life.drop_phases(&[Phase::Finished, Phase::Accepted]);
                life.stored = None;
            }
            // The stopped run before the last one did finish, but its finish was refused.
            Plant::LostAfterFencedFinish => {
                life.drop_phases(&[Phase::Accepted]);
                life.events.retain(
                    |event| !matches!(event, Event::Run(run) if run.phase == Phase::Finished && run.run == start.run),
                );
                life.stored = None;
            }
            Plant::InUnknownState => {
                life.drop_phases(&[Phase::Finished, Phase::Accepted]);
                life.keep("limbo", 0);
            }
            Plant::Ghost => {
                life.events.retain(|event| !matches!(event, Event::Sent { .. } | Event::Acknowledged { .. }));
            }
            Plant::AgainWithoutFault => {
                life.drop_phases(&[Phase::Accepted]);
                life.run(&[(Phase::Started, start.at + 900)], start.run + 1);
            }
            Plant::AgainAfterFaultsThatDoNotTouch => {
                life.drop_phases(&[Phase::Accepted]);
                let again = start.at + 900;
                life.run(&[(Phase::Started, again)], start.run + 1);
                // Over before the earlier run, begun with the later one, and to the later one's process.
                life.fault(FaultKind::Stop, start.run, start.at - 500, start.at - LAG_MS - 1);
                life.fault(FaultKind::Kill, start.run, again, again + 1);
                life.fault(FaultKind::Kill, start.run + 1, start.at + 1, start.at + 2);
            }
            Plant::AgainAfterItsOutcome => {
                life.run(&[(Phase::Started, accepted.at + 900)], start.run + 1);
                life.fault(FaultKind::Kill, start.run, accepted.at + 1, accepted.at + 2);
            }
            Plant::SameRunTwice => {
                life.run(&[(Phase::Started, start.at + 3)], start.run);
                life.fault(FaultKind::Kill, start.run, start.at + 1, start.at + 2);
            }
            Plant::SameRunAfterItFailed => {
                life.drop_phases(&[Phase::Accepted]);
                let (failed, again) = (start.at + 1, start.at + 2);
                life.run(&[(Phase::Failed, failed), (Phase::Started, again)], start.run);
            }
            Plant::AcceptedTwice => life.run(&[(Phase::Accepted, accepted.at + 1)], start.run),
            Plant::StoredAsAcceptedTwice => life.keep("done", 2),
            Plant::StaleFinish => {
                life.drop_phases(&[Phase::Accepted]);
                life.run(&[(Phase::Accepted, accepted.at)], start.run - 1);
            }
            Plant::Early => life.move_run_at(SKEW_MS + 1),
        }
    }

    /// How many offences of each class the victim must be charged with: lost, ghosts, unexplained duplicates, double
    /// finishes, stale finishes, early runs.
    pub(super) fn charges(self) -> [usize; 6] {
        match self {
            Plant::Lost | Plant::LostAfterFencedFinish | Plant::InUnknownState => [1, 0, 0, 0, 0, 0],
            Plant::Ghost => [0, 1, 0, 0, 0, 0],
            Plant::AgainWithoutFault
            | Plant::AgainAfterFaultsThatDoNotTouch
            | Plant::AgainAfterItsOutcome
            | Plant::SameRunTwice
            | Plant::SameRunAfterItFailed => [0, 0, 1, 0, 0, 0],
            Plant::AcceptedTwice | Plant::StoredAsAcceptedTwice => [0, 0, 0, 1, 0, 0],
            Plant::StaleFinish => [0, 0, 0, 0, 1, 0],
            Plant::Early => [0, 0, 0, 0, 0, 1],
        }
    }
}

pub(super) fn charges(report: &Report) -> [usize; 6] {
    [
        report.lost.len(),
        report.ghosts.len(),
        report.unexplained().count(),
        report.double_finishes.len(),
        report.stale_finishes.len(),
        report.early_runs.len(),
    ]
}
