//! Whole stores moved into others.

use std::sync::Arc;

use windlass::blocking::block_on;
use windlass::job::JobOptions;
use windlass::migrate::migrate;
use windlass::state::State;
use windlass::store::{JobQuery, PAGE_LEN_MAX};

use crate::fixture::{Fixture, LEASE, for_every_store};

for_every_store!(
    every_job_moves_and_comes_back_as_it_was,
    nothing_is_moved_while_a_process_works_on_either_store,
    a_store_is_not_moved_into_itself,
    what_a_lost_process_was_running_is_moved_too,
);

fn every_job_moves_and_comes_back_as_it_was(f: &Fixture) {
    let there = Fixture::memory();
    let later = f.now() + LEASE;
    let scheduled = (0..PAGE_LEN_MAX + 7).map(|_| f.new_job_at(later, JobOptions::new())).collect();
    block_on(f.store.insert(scheduled)).unwrap();
    let dead = f.insert_many(3);
    block_on(f.store.kill(dead)).unwrap();
    f.insert_many(2);
    block_on(f.store.pause("default")).unwrap();
    let before = f.all(JobQuery::default());
    let mut told = 0;

    let moved = block_on(migrate(&f.store, &there.store, |so_far| told = so_far.total())).unwrap();
    let left = f.all(JobQuery::default());
    let back = block_on(migrate(&there.store, &f.store, |_| {})).unwrap();
    let after = f.all(JobQuery::default());

    assert_eq!((moved.total(), moved.jobs.dead, moved.jobs.ready, moved.pauses), (before.len() as u64, 3, 2, 1));
    assert_eq!((told, left.len(), back.total()), (moved.total(), 0, moved.total()));
    assert!(before.iter().all(|job| after.contains(job)));
    assert!(block_on(there.store.queues()).unwrap().iter().all(|queue| queue.paused));
}

fn nothing_is_moved_while_a_process_works_on_either_store(f: &Fixture) {
    let there = Fixture::memory();
    f.insert_many(2);
    let here = f.join("here");

    let refused_here = block_on(migrate(&f.store, &there.store, |_| {})).unwrap_err().to_string();
    block_on(f.store.leave(&here)).unwrap();
    there.join("there");
    let refused_there = block_on(migrate(&f.store, &there.store, |_| {})).unwrap_err().to_string();

    assert!(refused_here.contains("here:1") && refused_here.contains("stop them"), "{refused_here}");
    assert!(refused_there.contains("there:1"), "{refused_there}");
    assert_eq!(f.counts().of(State::Ready), 2);
}

fn a_store_is_not_moved_into_itself(f: &Fixture) {
    f.insert_many(1);

    let refused = block_on(migrate(&f.store, &Arc::clone(&f.store), |_| {})).unwrap_err().to_string();

    assert!(refused.contains("the same store"), "{refused}");
    assert_eq!(f.counts().ready, 1);
}

fn what_a_lost_process_was_running_is_moved_too(f: &Fixture) {
    let there = Fixture::memory();
    let id = f.insert(JobOptions::new());
    let member = f.join("lost");
    f.lease_one(&member);
    f.clock.advance(LEASE);

    let moved = block_on(migrate(&f.store, &there.store, |_| {})).unwrap();

    assert_eq!((moved.jobs.ready, there.get(id).recoveries), (1, 1));
}
