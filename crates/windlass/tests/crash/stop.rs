//! STOP beyond the lease, then CONT: the process that slept comes back and finds that its jobs belong to others.

use rustix::process::Signal;
use windlass::blocking::block_on;
use windlass::checker::FaultKind;
use windlass::state::State;

use crate::arena::{Arena, LEASE, Worker};
use crate::worker::Work;

pub(crate) fn beyond_the_lease() {
    let arena = Arena::new(3);
    let fenced = |arena: &Arena| block_on(arena.inspector().counts()).expect("counts").totals.fenced;

    for _ in 0..arena.cycles {
        let fenced_before = fenced(&arena);
        let done_before = arena.count(State::Done);
        let mut sleeper = arena.start_worker(&["concurrency=4"]);
        arena.produce(vec![Work { run_ms: 400, fails_first: false, aborts: false }; 4]);
        arena.until("four jobs are running", || arena.count(State::Running) == 4);

        let other = arena.fault_stop(&mut sleeper, || {
            let other = arena.start_worker(&[]);
            std::thread::sleep(LEASE * 2);
            arena.until("the other worker has done the jobs", || arena.count(State::Done) == done_before + 4);
            other
        });

        arena.until("four late outcomes were refused", || fenced(&arena) == fenced_before + 4);
        drop((sleeper, other));
    }
    arena.until_drained();

    let report = arena.assert_clean();
    assert_eq!(report.explained_by(FaultKind::Stop) as u64, arena.cycles * 4);
}

impl Arena {
    /// Stops a worker, does something meanwhile, and lets it go on.
    fn fault_stop<T>(&self, worker: &mut Worker, meanwhile: impl FnOnce() -> T) -> T {
        let mut answer = None;
        self.fault(FaultKind::Stop, worker, |worker| {
            worker.signal(Signal::STOP);
            answer = Some(meanwhile());
            worker.signal(Signal::CONT);
        });
        answer.expect("what was done meanwhile")
    }
}
