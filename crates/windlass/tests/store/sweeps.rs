//! Changes of everything that a filter chooses.

use std::sync::Arc;

use windlass::Client;
use windlass::blocking::block_on;
use windlass::job::{JobId, JobOptions, NewJob, Payload};
use windlass::state::State;
use windlass::sweep::{Edit, JobFilter, Swept};

use crate::fixture::{Fixture, HOUR, SECOND, for_every_store};

for_every_store!(
    a_sweep_changes_all_that_match_and_nothing_else,
    a_sweep_of_a_search_in_several_states_tells_what_it_did,
    a_sweep_leaves_alone_what_comes_while_it_walks,
    a_sweep_that_is_dropped_leaves_done_what_is_done,
);

fn sweep(f: &Fixture, edit: Edit, filter: JobFilter) -> Swept {
    block_on(async { Client::new(Arc::clone(&f.store)).sweep(edit, filter).await.unwrap().finish().await.unwrap() })
}

fn changed(changed: u64) -> Swept {
    Swept { changed, ..Swept::default() }
}

fn in_state(state: State) -> JobFilter {
    JobFilter { state: Some(state), ..JobFilter::default() }
}

fn a_sweep_changes_all_that_match_and_nothing_else(f: &Fixture) {
    let batch = |queue: &str, count| (0..count).map(|_| f.new_job(JobOptions::new().queue(queue))).collect();
    let (mail, other): (Vec<NewJob>, Vec<NewJob>) = (batch("mail", 2_345), batch("other", 10));
    let ids: Vec<JobId> = mail.iter().chain(&other).map(|job| job.id).collect();
    block_on(f.store.insert([mail, other].concat())).unwrap();

    assert_eq!(
        sweep(f, Edit::Kill, JobFilter { queue: Some("mail".to_owned()), ..in_state(State::Ready) }),
        changed(2_345)
    );
    assert_eq!((f.counts().dead, f.counts().ready), (2_345, 10));
    assert_eq!(sweep(f, Edit::Requeue, in_state(State::Dead)), changed(2_345));
    assert_eq!(f.counts().ready, 2_355);
    assert_eq!(
        sweep(f, Edit::Cancel, JobFilter { kind: Some("nobody".to_owned()), ..in_state(State::Ready) }),
        changed(0)
    );
    assert_eq!(sweep(f, Edit::Delete, JobFilter::default()), changed(2_355));
    assert!(ids.iter().all(|id| f.state(*id).is_none()));
}

fn a_sweep_of_a_search_in_several_states_tells_what_it_did(f: &Fixture) {
    let member = f.join("a");
    let job = |at| NewJob { payload: Payload::from_bytes("[\"ann\"]"), ..f.new_job_at(at, JobOptions::new()) };
    let (running, ready, scheduled) = (job(f.now()), job(f.now()), job(f.now() + HOUR));
    let (id, left) = (running.id, f.new_job(JobOptions::new()));
    let left_alone = left.id;
    block_on(f.store.insert(vec![running])).unwrap();
    f.lease_one(&member);
    block_on(f.store.insert(vec![ready, scheduled, left])).unwrap();
    let ann = || JobFilter { search: Some("ann".to_owned()), ..JobFilter::default() };

    assert_eq!(sweep(f, Edit::Cancel, ann()), Swept { changed: 2, asked: 1, refused: 0 });
    assert_eq!(sweep(f, Edit::Delete, ann()), Swept { changed: 2, asked: 0, refused: 1 });

    assert_eq!((f.state(id), f.state(left_alone)), (Some(State::Running), Some(State::Ready)));
}

fn a_sweep_leaves_alone_what_comes_while_it_walks(f: &Fixture) {
    let due = |after: u32| f.new_job_at(f.now() + after * SECOND, JobOptions::new());
    let old: Vec<NewJob> = (1..=1_500).map(due).collect();
    block_on(f.store.insert(old)).unwrap();

    let mut sweep = block_on(Client::new(Arc::clone(&f.store)).sweep(Edit::Kill, in_state(State::Scheduled))).unwrap();
    assert!(block_on(sweep.step()).unwrap());
    f.clock.advance(SECOND);
    let young = f.new_job_at(f.now() + 1_200 * SECOND, JobOptions::new());
    let id = young.id;
    block_on(f.store.insert(vec![young])).unwrap();
    while block_on(sweep.step()).unwrap() {}

    assert_eq!(sweep.swept(), changed(1_500));
    assert_eq!(f.state(id), Some(State::Scheduled));
    assert!(!block_on(sweep.step()).unwrap());
}

fn a_sweep_that_is_dropped_leaves_done_what_is_done(f: &Fixture) {
    block_on(f.store.insert((0..1_500).map(|_| f.new_job(JobOptions::new())).collect())).unwrap();

    let mut sweep = block_on(Client::new(Arc::clone(&f.store)).sweep(Edit::Kill, in_state(State::Ready))).unwrap();
    assert!(block_on(sweep.step()).unwrap());
    drop(sweep);

    assert_eq!((f.counts().dead, f.counts().ready), (1_000, 500));
}
