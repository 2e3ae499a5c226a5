//! Plans that are run again and again, by several threads, or not to their end.

use super::{Ledger, explore, join, pool};
use crate::sync::{Arc, thread};
use crate::{Graph, Plan};

/// Two before one before two, and each says whether those before it had run as often as itself.
fn plan_of(ledger: &Ledger, mistakes: &Ledger) -> Plan<'static> {
    let mut graph = Graph::new();
    let nodes: Vec<_> = (0..5)
        .map(|node| {
            let (ledger, mistakes) = (ledger.clone(), mistakes.clone());
            graph.add(move || {
                ledger.note(node);
                let before = [0..0, 0..0, 0..2, 2..3, 2..3][node].clone();
                if before.into_iter().any(|before| ledger.count(before) != ledger.count(node)) {
                    mistakes.note(0);
                }
            })
        })
        .collect();
    graph.precede([nodes[0], nodes[1]], nodes[2]);
    graph.precede(nodes[2], [nodes[3], nodes[4]]);
    graph.seal().unwrap()
}

#[test]
fn a_plan_run_twice_runs_every_node_twice_in_order() {
    explore(4_000, || {
        let (pool, ledger, mistakes) = (pool(), Ledger::of(5), Ledger::of(1));
        let plan = plan_of(&ledger, &mistakes);

        assert_eq!(plan.run(&pool).unwrap().skipped, 0);
        assert_eq!(plan.spawn(&pool).unwrap().wait_blocking().skipped, 0);

        assert_eq!((0..5).map(|node| ledger.count(node)).collect::<Vec<_>>(), [2; 5]);
        assert_eq!(mistakes.count(0), 0);
    });
}

#[test]
fn a_cancelled_run_ends_and_counts_what_it_has_skipped() {
    explore(4_000, || {
        let (pool, ledger, mistakes) = (pool(), Ledger::of(5), Ledger::of(1));
        let plan = Arc::new(plan_of(&ledger, &mistakes));

        let run = plan.spawn(&pool).unwrap();
        let theirs = Arc::clone(&plan);
        let canceller = thread::spawn(move || theirs.cancel_run());
        let report = run.wait();
        join(canceller);

        let runs: u32 = (0..5).map(|node| ledger.count(node)).sum();
        assert_eq!(u64::from(runs) + report.skipped as u64, 5);
        assert_eq!(mistakes.count(0), 0);
    });
}
