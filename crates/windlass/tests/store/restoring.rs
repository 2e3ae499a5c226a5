//! Jobs that come from another store: as they stood there, and as well as any other from then on.

use windlass::StoreError;
use windlass::blocking::block_on;
use windlass::job::{JobOptions, JobRecord};
use windlass::state::State;
use windlass::store::{Finished, Inserted, Verdict};

use crate::fixture::{Fixture, HOUR, SECOND, done, error, for_every_store};

for_every_store!(
    a_restored_job_is_what_it_was_in_every_state,
    a_job_that_is_there_already_is_left_as_it_is,
    a_running_job_cannot_be_restored,
    a_restored_job_goes_on_where_it_was,
    restoring_is_no_enqueuing,
);

/// One job in each state but running, as another store has it.
fn jobs_elsewhere() -> Vec<JobRecord> {
    let other = Fixture::memory();
    let member = other.join("elsewhere");
    let at = other.now();
    let verdicts = [
        Verdict::Done { result: Some(windlass::job::Payload::from_bytes("{\"sum\":3}")), keep: HOUR },
        Verdict::Retry { at: at + HOUR, error: error(at) },
        Verdict::Dead { reason: "attempts used up".to_owned(), error: Some(error(at)) },
        Verdict::Cancelled { reason: "asked".to_owned() },
    ];
    for verdict in verdicts {
        other.insert(JobOptions::new().attempts(3).timeout(SECOND));
        let token = other.lease_one(&member).token;
        assert_eq!(other.finish(&member, token, verdict), Finished::Landed);
    }
    let options = JobOptions::new().queue("later").expires_in(2 * HOUR).at_most_once(true);
    block_on(other.store.insert(vec![other.new_job_at(at + HOUR, options), other.new_job(JobOptions::new())])).unwrap();
    State::ALL
        .iter()
        .flat_map(|state| other.all(windlass::store::JobQuery { state: Some(*state), ..Default::default() }))
        .collect()
}

fn a_restored_job_is_what_it_was_in_every_state(f: &Fixture) {
    let jobs = jobs_elsewhere();
    assert_eq!(jobs.len(), 6);

    let answers = block_on(f.store.restore(jobs.clone())).unwrap();

    assert!(answers.iter().all(|answer| matches!(answer, Inserted::Accepted(_))));
    for job in jobs {
        assert_eq!(f.get(job.id), job, "{}", job.state);
        assert_eq!(f.counts().of(job.state), 1);
    }
}

fn a_job_that_is_there_already_is_left_as_it_is(f: &Fixture) {
    let jobs = jobs_elsewhere();
    block_on(f.store.restore(jobs.clone())).unwrap();
    let changed: Vec<JobRecord> =
        jobs.iter().map(|job| JobRecord { kind: "other".to_owned(), ..job.clone() }).collect();

    let answers = block_on(f.store.restore(changed)).unwrap();

    assert!(answers.iter().all(|answer| matches!(answer, Inserted::Duplicate(_))));
    assert_eq!(f.get(jobs[0].id), jobs[0]);
}

fn a_running_job_cannot_be_restored(f: &Fixture) {
    let mut jobs = jobs_elsewhere();
    jobs[3].state = State::Running;

    let refused = block_on(f.store.restore(jobs)).unwrap_err();

    assert!(matches!(&refused, StoreError::Invalid { detail, .. } if detail.contains("running")), "{refused}");
    assert!(State::ALL.iter().all(|state| f.counts().of(*state) == 0));
}

fn a_restored_job_goes_on_where_it_was(f: &Fixture) {
    let jobs = jobs_elsewhere();
    let retry = jobs.iter().find(|job| job.state == State::Retry).unwrap();
    block_on(f.store.restore(vec![retry.clone()])).unwrap();

    f.clock.advance(HOUR);
    assert_eq!(block_on(f.store.promote(9)).unwrap().ready, 1);
    let member = f.join("here");
    let leased = f.lease_one(&member);

    assert_eq!((leased.attempt, leased.token.run()), (2, 2));
    assert_eq!(leased.failed_at, retry.failed_at);
    assert_eq!(f.finish(&member, leased.token, done()), Finished::Landed);
    assert_eq!(f.state(retry.id), None);
}

fn restoring_is_no_enqueuing(f: &Fixture) {
    block_on(f.store.restore(jobs_elsewhere())).unwrap();

    assert_eq!(f.counts().totals, windlass::store::Totals::default());
}
