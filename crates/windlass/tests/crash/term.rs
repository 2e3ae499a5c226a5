//! TERM: a graceful stop, again and again.

use rustix::process::Signal;
use windlass::checker::FaultKind;

use crate::arena::{Arena, Worker, usual_works};

pub(crate) fn in_a_loop() {
    let arena = Arena::new(50);
    let mut workers: Vec<Worker> = (0..2).map(|_| arena.start_worker(&[])).collect();

    for _ in 0..arena.cycles {
        arena.produce(usual_works(10, &arena.entropy));
        std::thread::sleep(arena.random_ms(5, 60));
        let victim = arena.entropy.below(workers.len() as u64) as usize;
        arena.fault(FaultKind::Term, &mut workers[victim], |worker| {
            worker.signal(Signal::TERM);
            let status = worker.wait();
            // A worker that was told before it could listen dies of the signal, like any program; it had no job then.
            assert!(status.success() || status.code().is_none(), "a graceful stop ended with {status}");
        });
        workers[victim] = arena.start_worker(&[]);
    }
    arena.until_drained();
    drop(workers);

    let report = arena.assert_clean();
    assert_eq!(report.duplicates, [], "a graceful stop ran a job twice");
}
