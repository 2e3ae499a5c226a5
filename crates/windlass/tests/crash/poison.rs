//! A job that takes its process with it.

use windlass::blocking::block_on;
use windlass::checker::FaultKind;
use windlass::state::State;

use crate::arena::{Arena, usual_works};
use crate::worker::Work;

pub(crate) fn aborts() {
    let arena = Arena::new(1);
    let ids = arena.produce(vec![Work { run_ms: 5, fails_first: false, aborts: true }]);
    arena.produce(usual_works(40, &arena.entropy));

    let mut worker = arena.start_worker(&[]);
    let mut crashes = 0;
    arena.until("the job is dead and the others are done", || {
        if worker.has_ended() {
            crashes += 1;
            arena.fault(FaultKind::Kill, &mut worker, |_| {});
            worker = arena.start_worker(&[]);
        }
        arena.count(State::Dead) == 1 && arena.count(State::Done) == 40
    });
    drop(worker);

    let job = block_on(arena.inspector().job(ids[0])).expect("the job");
    assert_eq!((job.state, job.reason.as_deref(), job.recoveries), (State::Dead, Some("poison"), 3));
    assert_eq!(crashes, 3);
}
