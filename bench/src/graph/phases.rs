//! `chain` and `tree`: graphs that are built, sealed, run, and run again; each of these by itself, and the first three
//! together.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::engines::{Engine, Loop, Rayon, Tokio, WindlassGraph, WindlassPrepared};
use super::shape::{Shape, verify};
use crate::suite::measure::{Effort, Panel, Role, Suite, Unit, cpu_time};

/// Powers of two.
const CHAINS: [(u32, &str); 4] = [(20, "2²⁰"), (21, "2²¹"), (22, "2²²"), (23, "2²³")];

/// What C++ takes here, on another day: the build machine, 2026-11, google-benchmark, build and run.
const RECORDED: &str = "recorded, not same run: build + run with dpuyda/scheduling 94–103 ns, with Taskflow 157–169 ns";
const RECORDED_EMPTY: &str =
    "recorded, not same run: build + run of a graph of empty tasks with dpuyda/scheduling 362–403 ns";

pub fn run_chain(suite: &mut Suite) {
    let sizes = match suite.effort {
        Effort::Full => &CHAINS[..],
        Effort::Quick => &CHAINS[..1],
    };
    for (power, words) in sizes {
        let shape = Shape::Chain(1 << power);
        let mut panel = panel("chain", format!("chain of {words} nodes, per node, 2 threads"), shape).note(RECORDED);
        add::<Loop>(&mut panel, Role::Floor, shape, AGAIN);
        add::<Rayon>(&mut panel, Role::Peer, shape, AGAIN);
        if *power == CHAINS[0].0 {
            add::<Tokio>(&mut panel, Role::Peer, shape, AGAIN);
            add::<WindlassPrepared>(&mut panel, Role::Windlass, shape, ONCE);
        }
        add::<WindlassGraph>(&mut panel, Role::Windlass, shape, AGAIN);
        suite.measure(panel);
    }
}

pub fn run_tree(suite: &mut Suite) {
    let shape = Shape::Tree(1 << 20);
    let mut panel = panel("tree", "binary tree of 2²⁰ nodes, per node, 2 threads", shape).note(RECORDED_EMPTY);
    add::<Loop>(&mut panel, Role::Floor, shape, AGAIN);
    add::<Rayon>(&mut panel, Role::Peer, shape, AGAIN);
    add::<Tokio>(&mut panel, Role::Peer, shape, AGAIN);
    add::<WindlassPrepared>(&mut panel, Role::Windlass, shape, ONCE);
    add::<WindlassGraph>(&mut panel, Role::Windlass, shape, AGAIN);
    suite.measure(panel);
}

fn panel(workload: &'static str, title: impl Into<String>, shape: Shape) -> Panel {
    Panel::new(workload, title, Unit::Nanoseconds).per(u64::from(shape.node_count())).ranked_by(phase_of)
}

/// What follows the engine in a subject's name.
fn phase_of(name: &str) -> &str {
    name.split_once(": ").map_or("", |(_engine, phase)| phase)
}

/// What a phase took, by the clock and of the processors.
#[derive(Clone, Copy, Default)]
struct Taken {
    wall: Duration,
    cpu: Duration,
}

impl Taken {
    fn time<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let (cpu, since) = (cpu_time(), Instant::now());
        let value = f();
        *self = Taken { wall: since.elapsed(), cpu: cpu_time() - cpu };
        value
    }

    fn and(self, other: Taken) -> Taken {
        Taken { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }
}

/// The phases of one turn.
#[derive(Clone, Copy, Default)]
struct Phases {
    build: Taken,
    seal: Taken,
    run: Taken,
    again: Taken,
}

type Phase = (&'static str, fn(Phases) -> Taken);

/// What is read off a turn: of those that can be run again, and of those that cannot.
const AGAIN: &[Phase] = &[
    ("seal", |phases| phases.seal),
    ("first run", |phases| phases.run),
    ("run again", |phases| phases.again),
    ("build + seal + run", |phases| phases.build.and(phases.seal).and(phases.run)),
];
const ONCE: &[Phase] = &[AGAIN[1], AGAIN[3]];

/// Adds a subject for each phase. The first of them takes the turn, the others only say what it took.
fn add<E: Engine>(panel: &mut Panel, role: Role, shape: Shape, phases: &[Phase]) {
    let taken = Rc::new(Cell::new(Phases::default()));
    let pool = E::start_pool();
    let (own, runs_again) = (Rc::clone(&taken), phases.len() == AGAIN.len());
    panel.add(role, format!("{}: build", E::name()), move |clock| {
        own.set(take_turn::<E>(&pool, shape, runs_again));
        clock.record(own.get().build.wall, own.get().build.cpu);
    });
    for (name, of) in phases {
        let (taken, of) = (Rc::clone(&taken), *of);
        panel.add(role, format!("{}: {name}", E::name()), move |clock| {
            let phase = of(taken.get());
            clock.record(phase.wall, phase.cpu);
        });
    }
}

fn take_turn<E: Engine>(pool: &E::Pool, shape: Shape, runs_again: bool) -> Phases {
    let nodes = shape.node_count();
    let mut phases = Phases::default();
    let engine = phases.build.time(|| {
        let mut engine = E::begin(pool, nodes);
        shape.build(&mut engine);
        engine
    });
    let mut ready = phases.seal.time(|| engine.seal());
    verify(u64::from(nodes), || phases.run.time(|| E::run(&mut ready, pool)));
    if runs_again {
        verify(u64::from(nodes), || phases.again.time(|| E::run(&mut ready, pool)));
    }
    phases
}
