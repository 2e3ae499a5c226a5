//! `short_chain`, `random` and `wavefront`: graphs that were built before, run again and again.

use super::engines::{DagExec, Engine, Loop, Rayon, THREADS, Tokio, WindlassGraph};
use super::shape::{Shape, verify};
use crate::pool::peers::with_caller;
use crate::pool::windlass::Kept;
use crate::suite::measure::{Effort, Panel, Role, Suite, Unit};

/// Nodes of the chain, and its runs in all turns.
const SHORT_CHAIN: u32 = 32;
const SHORT_CHAIN_RUNS: usize = 1_000_000;

const RANDOM: u32 = 1_000;
const RANDOM_RUNS: usize = 10_000;

/// Steps of a node, and what that is. Some nanoseconds, and some more.
const SMALL: (u32, &str) = (80, "0.1 µs");
const LARGE: (u32, &str) = (800, "1 µs");

/// Runs of the large graphs in one turn.
const WAVEFRONT_RUNS: u32 = 20;

pub fn run_short_chain(suite: &mut Suite) {
    let runs = suite.effort.share(SHORT_CHAIN_RUNS).div_ceil(suite.effort.turns()) as u32;
    let shape = Shape::Chain(SHORT_CHAIN);
    let mut panel = Panel::new("short_chain", "chain of 32 nodes, per run, 2 threads", Unit::Nanoseconds);
    add::<Loop>(&mut panel, Role::Floor, shape, runs);
    add::<Rayon>(&mut panel, Role::Peer, shape, runs.div_ceil(10));
    add::<Tokio>(&mut panel, Role::Peer, shape, runs.div_ceil(10));
    add::<DagExec>(&mut panel, Role::Peer, shape, runs.div_ceil(1_000));
    add::<WindlassGraph>(&mut panel, Role::Windlass, shape, runs);
    add_run_n(&mut panel, shape, runs);
    suite.measure(panel);
}

pub fn run_random(suite: &mut Suite) {
    let runs = suite.effort.share(RANDOM_RUNS).div_ceil(suite.effort.turns()) as u32;
    for ((steps, words), runs) in [((0, "empty"), runs), (SMALL, runs.div_ceil(2)), (LARGE, runs.div_ceil(10))] {
        let shape = Shape::Random { nodes: RANDOM, steps };
        let title = format!("random graph of 1 000 nodes, work {words}, per run, 2 threads");
        let mut panel = Panel::new("random", title, Unit::Microseconds);
        add_all(&mut panel, shape, runs);
        add::<DagExec>(&mut panel, Role::Peer, shape, runs.div_ceil(20));
        add_run_n(&mut panel, shape, runs);
        suite.measure(panel);
    }
}

pub fn run_wavefront(suite: &mut Suite) {
    for (steps, words) in [SMALL, LARGE] {
        let title = format!("wavefront of 32 × 32 blocks, work {words}, per run, 2 threads");
        let mut panel = Panel::new("wavefront", title, Unit::Microseconds);
        add_all(&mut panel, Shape::Wavefront { side: 32, steps }, WAVEFRONT_RUNS);
        suite.measure(panel);
    }
    let sizes = match suite.effort {
        Effort::Full => &[SMALL, LARGE][..],
        Effort::Quick => &[SMALL][..],
    };
    for (steps, words) in sizes {
        let title = format!("wavefront of 1 024 × 1 024 blocks, work {words}, per run, 2 threads");
        let mut panel = Panel::new("wavefront", title, Unit::Milliseconds);
        add_all(&mut panel, Shape::Wavefront { side: 1_024, steps: *steps }, 1);
        suite.measure(panel);
    }
}

fn add_all(panel: &mut Panel, shape: Shape, runs: u32) {
    add::<Loop>(panel, Role::Floor, shape, runs);
    add::<Rayon>(panel, Role::Peer, shape, runs);
    add::<Tokio>(panel, Role::Peer, shape, runs);
    add::<WindlassGraph>(panel, Role::Windlass, shape, runs);
}

/// Adds a subject that has built the graph, and runs it so often in a turn.
fn add<E: Engine>(panel: &mut Panel, role: Role, shape: Shape, runs: u32) {
    let pool = E::start_pool();
    let mut engine = E::begin(&pool, shape.node_count());
    shape.build(&mut engine);
    let mut ready = engine.seal();
    panel.add(role, E::name(), move |clock| {
        verify(nodes_in(shape, runs), || clock.time_mean(runs, || E::run(&mut ready, &pool)));
    });
}

/// windlass, many runs asked for at once.
fn add_run_n(panel: &mut Panel, shape: Shape, runs: u32) {
    let pool: Kept = WindlassGraph::start_pool();
    let mut engine = WindlassGraph::begin(&pool, shape.node_count());
    shape.build(&mut engine);
    let plan = engine.seal();
    panel.windlass(with_caller("windlass graph, run_n", THREADS), move |clock| {
        verify(nodes_in(shape, runs), || {
            clock.time_as_mean(runs, || {
                let report = plan.run_n(pool.0, u64::from(runs)).expect("nobody else runs it");
                assert_eq!((report.runs, report.skipped), (u64::from(runs), 0), "not every run was a whole one");
            });
        });
    });
}

fn nodes_in(shape: Shape, runs: u32) -> u64 {
    u64::from(shape.node_count()) * u64::from(runs)
}
