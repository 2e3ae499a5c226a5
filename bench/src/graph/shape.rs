//! Graphs that are run, and the proof that every node of them was.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use super::engines::Engine;
use crate::suite::tally;

/// A graph, and what its nodes do. Edges lead from nodes that are added earlier to nodes that are added later.
#[derive(Clone, Copy)]
pub enum Shape {
    /// So many nodes one after the other, each of which counts on from the one before.
    Chain(u32),
    /// A binary tree of so many nodes, from its root.
    Tree(u32),
    /// So many nodes, each after up to four of the fifty before it; and the steps of a node.
    Random { nodes: u32, steps: u32 },
    /// A square of blocks, each after the one above and the one to the left; and the steps of a block.
    Wavefront { side: u32, steps: u32 },
}

/// What the nodes of chains count: only their order keeps it exact.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Adds one by a load and a store, which would lose numbers if two nodes of a chain ran at a time.
pub fn count_on(count: &AtomicU64) {
    // ORDER: Relaxed; the chain orders its nodes.
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// A step is a multiplication and a rotation, each after the one before: somewhat more than a nanosecond.
fn work(steps: u32) {
    let mut value = u64::from(steps);
    for _ in 0..steps {
        value = value.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(7);
    }
    black_box(value);
    tally::add_one();
}

impl Shape {
    pub fn node_count(self) -> u32 {
        match self {
            Shape::Chain(nodes) | Shape::Tree(nodes) | Shape::Random { nodes, .. } => nodes,
            Shape::Wavefront { side, .. } => side * side,
        }
    }

    pub fn build<E: Engine>(self, engine: &mut E) {
        match self {
            Shape::Chain(nodes) => build_chain(engine, nodes),
            Shape::Tree(nodes) => build_tree(engine, nodes),
            Shape::Random { nodes, steps } => build_random(engine, nodes, steps),
            Shape::Wavefront { side, steps } => build_wavefront(engine, side, steps),
        }
    }
}

fn build_chain<E: Engine>(engine: &mut E, nodes: u32) {
    let count: &'static AtomicU64 = &COUNT;
    let mut last = engine.add(move || count_on(count));
    for _ in 1..nodes {
        let next = engine.add(move || count_on(count));
        engine.precede(last, next);
        last = next;
    }
}

fn build_tree<E: Engine>(engine: &mut E, nodes: u32) {
    let mut added = Vec::with_capacity(nodes as usize);
    for place in 0..nodes as usize {
        let node = engine.add(tally::add_one);
        if place > 0 {
            engine.precede(added[(place - 1) / 2], node);
        }
        added.push(node);
    }
}

fn build_random<E: Engine>(engine: &mut E, nodes: u32, steps: u32) {
    const REACH: u64 = 50;
    let mut random = Random(0x5EED);
    let mut added: Vec<E::Node> = Vec::with_capacity(nodes as usize);
    for place in 0..u64::from(nodes) {
        let node = engine.add(move || work(steps));
        let mut before: Vec<u64> = match place {
            0 => Vec::new(),
            _ => (0..=random.below(4)).map(|_| place - 1 - random.below(REACH.min(place))).collect(),
        };
        before.sort_unstable();
        before.dedup();
        before.into_iter().for_each(|place| engine.precede(added[place as usize], node));
        added.push(node);
    }
}

fn build_wavefront<E: Engine>(engine: &mut E, side: u32, steps: u32) {
    let side = side as usize;
    let mut added: Vec<E::Node> = Vec::with_capacity(side * side);
    for place in 0..side * side {
        let node = engine.add(move || work(steps));
        if place >= side {
            engine.precede(added[place - side], node);
        }
        if place % side > 0 {
            engine.precede(added[place - 1], node);
        }
        added.push(node);
    }
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Runs `f`, in which exactly so many nodes must have run when it returns.
pub fn verify<R>(expected: u64, f: impl FnOnce() -> R) -> R {
    // ORDER: Relaxed; a run's end orders it.
    let total = || COUNT.load(Ordering::Relaxed) + tally::total();
    let before = total();
    let value = f();
    assert_eq!(total() - before, expected, "nodes were lost, or ran twice, or at the same time as the one before");
    value
}
