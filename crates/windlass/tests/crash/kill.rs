//! kill -9.

use std::time::{Duration, Instant};

use windlass::checker::FaultKind;
use windlass::state::State;

use crate::arena::{Arena, LEASE, Worker, usual_works};
use crate::worker::Work;

/// Two workers; again and again one of them is killed at a random instant and another takes its place, while jobs
/// arrive.
pub(crate) fn in_a_loop() {
    let arena = Arena::new(200);
    let mut workers: Vec<Worker> = (0..2).map(|_| arena.start_worker(&[])).collect();

    for _ in 0..arena.cycles {
        arena.produce(usual_works(6, &arena.entropy));
        std::thread::sleep(arena.random_ms(5, 60));
        let victim = arena.entropy.below(workers.len() as u64) as usize;
        arena.fault(FaultKind::Kill, &mut workers[victim], Worker::kill);
        workers[victim] = arena.start_worker(&[]);
    }
    arena.until_drained();
    drop(workers);

    let report = arena.assert_clean();
    assert_eq!(report.acknowledged, arena.cycles * 6);
    assert!(report.finished > 0);
}

/// The worst moments to die: around a commit, before an ack, after an ack whose answer is lost.
const WORST_MOMENTS: &[&str] =
    &["sqlite.group.begin", "sqlite.commit.before", "sqlite.commit.after", "acker.send", "acker.reply.lost"];

/// At each of them a worker dies, at its third hit and at its twentieth; the next one takes over.
pub(crate) fn at_the_worst_moments() {
    let arena = Arena::new(WORST_MOMENTS.len() as u64 * 2);
    for moment in WORST_MOMENTS {
        for hit in [3, 20] {
            arena.produce(usual_works(12, &arena.entropy));
            let mut worker = arena.start_worker_with(&[], &format!("{moment}=kill@{hit}"));
            arena.fault(FaultKind::Kill, &mut worker, |worker| {
                arena.until("the worker dies at the moment chosen", || {
                    // It may need more work to get there.
                    arena.produce(usual_works(1, &arena.entropy));
                    worker.has_ended()
                });
            });
        }
    }
    let last = arena.start_worker(&[]);
    arena.until_drained();
    drop(last);

    arena.assert_clean();
}

/// One job, one worker that dies with it, one that takes over.
pub(crate) fn is_recovered_in_time() {
    let arena = Arena::new(1);
    let mut first = arena.start_worker(&[]);
    arena.produce(vec![Work { run_ms: 600, fails_first: false, aborts: false }]);
    // Leased is not begun: only a run that has begun is run a second time.
    arena.until("the job has begun", || arena.has_noted("started"));

    arena.fault(FaultKind::Kill, &mut first, Worker::kill);
    let killed_at = Instant::now();
    let second = arena.start_worker(&[]);
    arena.until("the job is done", || arena.count(State::Done) == 1);
    let took = killed_at.elapsed();
    drop(second);

    assert!(took < LEASE + Duration::from_secs(5) + Duration::from_millis(600), "recovered after {took:?}");
    assert_eq!(arena.assert_clean().explained_by(FaultKind::Kill), 1);
}

/// The same history with one kill left out of the log: the checker must object. A test that cannot fail proves
/// nothing.
pub(crate) fn negative_control() {
    let arena = Arena::new(1);
    let mut first = arena.start_worker(&[]);
    arena.produce(vec![Work { run_ms: 300, fails_first: false, aborts: false }]);
    arena.until("the job is running", || arena.count(State::Running) == 1);
    // The job's start must be in the journal before the kill, or there is nothing to object to.
    let journal = arena.dir().join(format!("{}.journal", first.name));
    arena.until("the start is in the journal", || {
        std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("started"))
    });

    first.kill();
    let second = arena.start_worker(&[]);
    arena.until_drained();
    drop(second);

    let report = arena.judge();
    assert_eq!(report.unexplained().count(), 1, "a duplicate without a fault went unnoticed");
}
