//! `tree`: the sum over a balanced binary tree with a join for each node, as chili's own benchmark has it.
//!
//! The nodes lie in memory in the order of the walk, so it matters which child comes first. Everybody begins with the
//! left one: chili runs the second closure of a join first, the others (forte deep in the tree) the first one.

use std::hint::black_box;
use std::sync::Arc;

use super::peers::{self, all_workers, with_caller};
use super::windlass::{self, Crew, Pool};
use crate::suite;
use crate::suite::measure::{Panel, Suite, Unit};

/// Sums of the small tree in one timed call, all of them inside the pool.
const SMALL_ROUNDS: u64 = 2_000;
const SMALL_LAYERS: u32 = 10;
const LARGE_LAYERS: u32 = 24;

/// A node whose children were allocated after it, the left ones first.
pub struct Node {
    pub value: u64,
    pub left: Option<Box<Node>>,
    pub right: Option<Box<Node>>,
}

impl Node {
    fn tree(layers: u32) -> Box<Node> {
        let mut node = Box::new(Node { value: 1, left: None, right: None });
        if layers > 1 {
            node.left = Some(Node::tree(layers - 1));
            node.right = Some(Node::tree(layers - 1));
        }
        node
    }
}

/// A tree, and how often it is summed in a timed call.
#[derive(Clone)]
struct Task {
    root: Arc<Node>,
    rounds: u64,
    nodes: u64,
}

impl Task {
    fn new(layers: u32, rounds: u64) -> Task {
        Task { root: Arc::from(Node::tree(layers)), rounds, nodes: (1 << layers) - 1 }
    }

    fn repeat(&self, mut sum: impl FnMut(&Node) -> u64) {
        for _ in 0..self.rounds {
            assert_eq!(sum(black_box(&self.root)), self.nodes, "the sum is wrong");
        }
    }
}

pub fn run(suite: &mut Suite) {
    let small = Task::new(SMALL_LAYERS, SMALL_ROUNDS);
    for threads in [1, 2] {
        let title = format!("sum over 1,023 nodes, whole, {}", suite::threads(threads));
        suite.measure(fill(Panel::new("tree", title, Unit::Microseconds).per(SMALL_ROUNDS), &small, threads));
    }
    let large = Task::new(LARGE_LAYERS, 1);
    for threads in [1, 2] {
        let title = format!("sum over 2²⁴ nodes, whole, {}", suite::threads(threads));
        suite.measure(fill(Panel::new("tree", title, Unit::Milliseconds), &large, threads));
    }
}

/// Adds everybody to a panel.
fn fill(mut panel: Panel, task: &Task, threads: usize) -> Panel {
    let own = task.clone();
    panel.floor("plain call", move |clock| clock.time(|| own.repeat(plain)));
    let (own, pool) = (task.clone(), peers::chili(threads));
    panel.peer(with_caller("chili", threads), move |clock| {
        clock.time(|| {
            let mut scope = pool.scope();
            own.repeat(|node| in_chili(&mut scope, node));
        });
    });
    let (own, pool) = (task.clone(), peers::rayon(threads));
    panel.peer(all_workers("rayon join", threads), move |clock| {
        clock.time(|| pool.install(|| own.repeat(in_rayon)));
    });
    let (own, pool) = (task.clone(), peers::Forte::start(threads));
    panel.peer(with_caller("forte", threads), move |clock| {
        clock.time(|| pool.0.with_worker(|worker| own.repeat(|node| in_forte(worker, node))));
    });
    for crew in Crew::of_both_kinds(threads) {
        let own = task.clone();
        panel.windlass(crew.named("windlass lane"), move |clock| {
            let own = own.clone();
            let sum = move |pool: &Pool| pool.attach(|lane| own.repeat(|node| windlass::sum_by_lane(lane, node)));
            clock.time(|| crew.run(sum));
        });
    }
    for crew in Crew::of_both_kinds(threads) {
        let own = task.clone();
        panel.windlass(crew.named("windlass join"), move |clock| {
            let own = own.clone();
            let sum = move |pool: &Pool| own.repeat(|node| windlass::sum(pool, node));
            clock.time(|| crew.run(sum));
        });
    }
    panel
}

fn plain(node: &Node) -> u64 {
    node.value + node.left.as_deref().map_or(0, plain) + node.right.as_deref().map_or(0, plain)
}

fn in_chili(scope: &mut chili::Scope<'_>, node: &Node) -> u64 {
    let (right, left) = scope.join(
        |scope| node.right.as_deref().map_or(0, |child| in_chili(scope, child)),
        |scope| node.left.as_deref().map_or(0, |child| in_chili(scope, child)),
    );
    node.value + left + right
}

fn in_rayon(node: &Node) -> u64 {
    let (left, right) =
        rayon::join(|| node.left.as_deref().map_or(0, in_rayon), || node.right.as_deref().map_or(0, in_rayon));
    node.value + left + right
}

fn in_forte(worker: &forte::Worker, node: &Node) -> u64 {
    let (left, right) = worker.join(
        |worker| node.left.as_deref().map_or(0, |child| in_forte(worker, child)),
        |worker| node.right.as_deref().map_or(0, |child| in_forte(worker, child)),
    );
    node.value + left + right
}
