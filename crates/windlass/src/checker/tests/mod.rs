//! A judge that never objects is worse than none: random correct histories must pass, and every kind of violation
//! planted into one must be found, at exactly the job it was planted in.

mod lives;
mod plants;

use proptest::prelude::*;

use self::lives::{Ending, Life, Mishap, Plan, SKEW_MS, VICTIM, any_plan, history, lives, victim_plan};
use self::plants::{PLANTS, Plant, charges};
use super::*;

fn example(mishaps: &[Mishap], ending: Ending) -> Life {
    let plan = Plan { acknowledged: true, delay_ms: Some(100), mishaps: mishaps.to_vec(), ending };
    Life::lead(VICTIM, &plan, 1_000)
}

proptest! {
    #[test]
    fn a_correct_history_is_clean_in_whatever_order_it_was_written(
        plans in prop::collection::vec(any_plan(), 0..20),
        seed in any::<u64>(),
    ) {
        let lives = lives(&plans);
        let mut shuffled = lives.clone();
        for life in &mut shuffled {
            let turn = seed as usize % life.events.len();
            life.events.rotate_left(turn);
        }

        let report = history(&lives).check();

        prop_assert!(report.is_clean(), "{report}\n{}", report.stories());
        prop_assert_eq!(history(&shuffled).check(), report);
    }

    #[test]
    fn every_duplicate_and_retry_of_a_correct_history_is_counted(plans in prop::collection::vec(any_plan(), 1..20)) {
        let is_last_run = |plan: &Plan| !matches!(plan.ending, Ending::StillReady | Ending::NeverArrived);
        let mut expected = [0; 5];
        for plan in plans.iter().filter(|plan| !matches!(plan.ending, Ending::NeverArrived)) {
            // The last mishap has no successor when the job waits for its next run.
            let followed = plan.mishaps.len() - usize::from(!is_last_run(plan) && !plan.mishaps.is_empty());
            for mishap in &plan.mishaps[..followed] {
                expected[match mishap {
                    Mishap::Failed | Mishap::FailedLate => 0,
                    Mishap::Released => 1,
                    Mishap::Killed => 2,
                    Mishap::Stopped | Mishap::StoppedBeforeStart => 3,
                    Mishap::Terminated => 4,
                }] += 1;
            }
        }

        let report = history(&lives(&plans)).check();

        let causes = FaultKind::ALL.map(|kind| report.explained_by(kind));
        let found = [report.retries as usize, report.releases as usize, causes[0], causes[1], causes[2]];
        prop_assert_eq!(found, expected);
        prop_assert_eq!(report.duplicates.len(), expected[2..].iter().sum::<usize>());
    }

    #[test]
    fn every_planted_violation_is_found_at_exactly_its_job(
        victim in victim_plan(),
        others in prop::collection::vec(any_plan(), 0..20),
    ) {
        let correct = lives(&[vec![victim], others].concat());
        prop_assert!(history(&correct).check().is_clean());
        for plant in PLANTS {
            let mut spoilt = correct.clone();
            plant.spoil(&mut spoilt[0]);

            let report = history(&spoilt).check();

            prop_assert!(!report.is_clean(), "{plant:?}");
            prop_assert_eq!(report.offenders().into_iter().collect::<Vec<_>>(), [VICTIM], "{:?}: {}", plant, report);
            prop_assert_eq!(charges(&report), plant.charges(), "{:?}: {}", plant, report);
            prop_assert_eq!(report.timelines.keys().collect::<Vec<_>>(), [VICTIM]);
        }
    }
}

#[test]
fn a_job_may_start_early_by_exactly_the_skew() {
    let mut life = example(&[], Ending::Done);
    life.move_run_at(SKEW_MS);

    assert!(history(&[life]).check().is_clean());
}

#[test]
fn a_failure_written_later_than_the_lag_after_the_next_start_does_not_make_it_a_retry() {
    let mut life = example(&[Mishap::FailedLate], Ending::Done);
    for event in &mut life.events {
        if let Event::Run(run) = event
            && run.phase == Phase::Failed
        {
            run.at += 1;
        }
    }

    let report = history(&[life]).check();

    assert_eq!((report.retries, report.unexplained().count()), (0, 1));
}

#[test]
fn a_stopped_process_that_starts_later_than_the_lag_is_not_excused() {
    let mut life = example(&[Mishap::StoppedBeforeStart], Ending::Done);
    for event in &mut life.events {
        if let Event::Fault(fault) = event {
            fault.until -= 1;
        }
    }

    assert_eq!(history(&[life]).check().unexplained().count(), 1);
}

#[test]
fn a_vanished_job_that_only_finished_is_lost_unless_jobs_are_removed_when_done() {
    let life = example(&[], Ending::RemovedUnseen);
    let mut keeping = History::default();
    life.events.iter().cloned().for_each(|event| keeping.record(event));

    assert_eq!(keeping.check().lost, [VICTIM]);
    assert!(history(&[life]).check().is_clean());
}

#[test]
fn a_job_whose_outcome_was_accepted_may_be_gone_even_where_done_jobs_are_kept() {
    let life = example(&[Mishap::Failed], Ending::DoneAndRemoved);
    let mut keeping = History::default();
    life.events.into_iter().for_each(|event| keeping.record(event));

    assert!(keeping.check().is_clean());
}

#[test]
fn a_record_that_this_test_did_not_send_is_no_ghost_until_it_runs() {
    let mut life = example(&[], Ending::StillReady);
    life.events.clear();

    let before = history(std::slice::from_ref(&life)).check();
    life.run(&[(Phase::Started, 5)], 1);
    let after = history(&[life]).check();

    assert!(before.is_clean(), "{before}");
    assert_eq!(after.ghosts, [VICTIM]);
}

#[test]
fn a_job_in_doubt_may_be_missing_and_may_have_run() {
    let mut life = example(&[], Ending::Done);
    life.events.retain(|event| !matches!(event, Event::Acknowledged { .. }));
    life.drop_phases(&[Phase::Finished, Phase::Accepted]);
    life.stored = None;

    let report = history(&[life]).check();

    assert!(report.is_clean(), "{report}");
    assert_eq!((report.sent, report.acknowledged, report.started), (1, 0, 1));
}

#[test]
fn a_repeated_push_is_one_push_and_acknowledged_if_one_of_them_was() {
    let mut history = History::default();
    for at in [10, 20] {
        history.record(Event::Sent { id: VICTIM.to_owned(), at, run_at: None });
    }
    history.record(Event::Acknowledged { id: VICTIM.to_owned(), at: 25 });

    let report = history.check();

    assert_eq!((report.sent, report.acknowledged, report.lost), (1, 1, vec![VICTIM.to_owned()]));
}

#[test]
fn a_report_says_in_at_most_twelve_lines_what_is_wrong() {
    let mut lives: Vec<Life> = (0..30)
        .map(|index| {
            Life::lead(
                &format!("job-{index:02}"),
                &Plan {
                    acknowledged: true,
                    delay_ms: None,
                    mishaps: vec![Mishap::Killed, Mishap::Stopped],
                    ending: Ending::Done,
                },
                1_000,
            )
        })
        .collect();
    lives.iter_mut().for_each(|life| Plant::Lost.spoil(life));

    let report = history(&lives).check();

    let summary = report.to_string();
    assert!(summary.lines().count() <= 12, "{summary}");
    assert!(summary.starts_with("history:         NOT CLEAN: 30 jobs\n"), "{summary}");
    assert!(summary.contains("lost:            30 (job-00 job-01 job-02 …)\n"), "{summary}");
    assert!(summary.contains("duplicates:      60: 30 by kill, 30 by stop, 0 by term\n"), "{summary}");
    assert_eq!(report.timelines.len(), 20);
}

#[test]
fn the_summary_of_a_clean_history_counts_everything() {
    let mishaps = [Mishap::Failed, Mishap::Released, Mishap::Killed, Mishap::Stopped, Mishap::Terminated];
    let plan =
        |mishaps: &[Mishap], ending| Plan { acknowledged: true, delay_ms: None, mishaps: mishaps.to_vec(), ending };
    let plans = [
        plan(&mishaps, Ending::Done),
        plan(&[Mishap::Failed], Ending::Dead),
        plan(&[], Ending::StillReady),
        plan(&[], Ending::NeverArrived),
    ];

    let summary = history(&lives(&plans)).check().to_string();

    let expected = "\
history:         clean
pushes:          4 sent, 3 acknowledged, 1 in doubt
runs:            8 started, 2 finished, 2 retries, 1 releases
jobs:            2 ended, 1 dead, 1 done, 1 ready
faults:          3, 0 torn lines
lost:            0
ghosts:          0
duplicates:      3: 1 by kill, 1 by stop, 1 by term
unexplained:     0
double finishes: 0
stale finishes:  0
early runs:      0";
    assert_eq!(summary, expected);
}

#[test]
fn a_report_is_json_with_each_offence_and_its_cause() {
    let mut life = example(&[Mishap::Stopped], Ending::Done);
    Plant::AcceptedTwice.spoil(&mut life);

    let json: serde_json::Value = serde_json::from_str(&history(&[life]).check().to_json()).unwrap();

    assert_eq!(json["double_finishes"][0]["id"], VICTIM);
    assert_eq!(json["double_finishes"][0]["accepted"], 2);
    assert_eq!(json["duplicates"][0]["explained_by"]["kind"], "stop");
    assert_eq!(json["states"]["done"], 1);
    assert_eq!(json["timelines"][VICTIM][0]["what"], "sent, not to run before 1100");
}

#[test]
fn the_story_of_an_offender_is_its_push_its_runs_and_its_faults_in_the_order_of_time() {
    let mut life = example(&[Mishap::Killed], Ending::Done);
    Plant::StoredAsAcceptedTwice.spoil(&mut life);
    life.events.reverse();

    let story = history(&[life, example_of_another_job()]).check().stories();

    let expected = "\
job-0
            1000  sent, not to run before 1100
            1002  acknowledged
            1110  started: run 1, attempt 1, process job-0/1
            1210  kill of process job-0/1 begins
            1211  kill of process job-0/1 is over
            2110  started: run 2, attempt 1, process job-0/2
            2115  finished: run 2, attempt 1, process job-0/2
            2810  accepted: run 2, attempt 1, process job-0/2
             end  in the store: done, 2 outcomes accepted, attempt 1, 0 recoveries
";
    assert_eq!(story, expected);
}

fn example_of_another_job() -> Life {
    let plan = Plan { acknowledged: true, delay_ms: None, mishaps: vec![Mishap::Killed], ending: Ending::Done };
    Life::lead("another", &plan, 1_000)
}

#[test]
#[should_panic(expected = "skew_ms = -1: must not be negative")]
fn a_negative_allowance_is_refused() {
    History::new(Allowances { skew_ms: -1, ..Allowances::default() });
}
