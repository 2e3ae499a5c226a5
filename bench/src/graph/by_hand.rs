//! A graph as people write it who have only a pool: closures, lists of successors, and counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::runtime::Handle;

use crate::pool::peers::Countdown;

type Task = Box<dyn Fn() + Send + Sync>;

struct Node {
    task: Task,
    next: Vec<u32>,
    before: u32,
    /// Nodes before this one that have not run.
    left: AtomicU32,
}

#[derive(Default)]
pub struct ByHand {
    nodes: Vec<Node>,
}

impl ByHand {
    pub fn with_capacity(nodes: usize) -> ByHand {
        ByHand { nodes: Vec::with_capacity(nodes) }
    }

    pub fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> u32 {
        self.nodes.push(Node { task: Box::new(task), next: Vec::new(), before: 0, left: AtomicU32::new(0) });
        self.nodes.len() as u32 - 1
    }

    pub fn precede(&mut self, before: u32, after: u32) {
        self.nodes[before as usize].next.push(after);
        let after = &mut self.nodes[after as usize];
        after.before += 1;
        *after.left.get_mut() = after.before;
    }

    fn sources(&self) -> impl Iterator<Item = u32> {
        (0..self.nodes.len() as u32).filter(|node| self.nodes[*node as usize].before == 0)
    }

    fn sinks(&self) -> usize {
        self.nodes.iter().filter(|node| node.next.is_empty()).count()
    }

    /// What comes before and after a node is known: a list of both.
    pub fn ends(&self) -> Ends {
        Ends { sources: self.sources().collect(), sinks: self.sinks() }
    }

    /// In the order in which nodes were added.
    pub fn run_in_a_loop(&self) {
        self.nodes.iter().for_each(|node| (node.task)());
    }

    /// Runs a node, and then the first that it makes ready, and so on; hands the others to `spawn`, and tells `end` of
    /// the last.
    fn run_from(&self, first: u32, spawn: impl Fn(u32), end: impl Fn()) {
        let mut at = Some(first);
        while let Some(index) = at.take() {
            let node = &self.nodes[index as usize];
            // ORDER: Relaxed; nodes before this one count it down only after this run.
            node.left.store(node.before, Ordering::Relaxed);
            (node.task)();
            for next in &node.next {
                // ORDER: AcqRel; the last one sees what all have done.
                if self.nodes[*next as usize].left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    match at {
                        None => at = Some(*next),
                        Some(_) => spawn(*next),
                    }
                }
            }
            if node.next.is_empty() {
                end();
            }
        }
    }

    pub fn run_in_rayon(&self, ends: &Ends, pool: &rayon::ThreadPool) {
        pool.scope(|scope| ends.sources.iter().for_each(|source| self.run_in_scope(*source, scope)));
    }

    fn run_in_scope<'scope>(&'scope self, first: u32, scope: &rayon::Scope<'scope>) {
        let spawn = |node| scope.spawn(move |scope| self.run_in_scope(node, scope));
        self.run_from(first, spawn, || ());
    }

    pub fn run_in_tokio(self: &Arc<Self>, ends: &Ends, runtime: &Handle) {
        let open = Countdown::new(ends.sinks);
        ends.sources.iter().for_each(|source| self.spawn_in_tokio(*source, &open, runtime));
        open.wait();
    }

    fn spawn_in_tokio(self: &Arc<Self>, node: u32, open: &Arc<Countdown>, runtime: &Handle) {
        let (graph, open, handle) = (Arc::clone(self), Arc::clone(open), runtime.clone());
        // Without its handle: the sinks are waited for.
        drop(runtime.spawn(async move {
            graph.run_from(node, |node| graph.spawn_in_tokio(node, &open, &handle), || open.count_down());
        }));
    }
}

/// Where a graph begins, and in how many nodes it ends.
pub struct Ends {
    sources: Vec<u32>,
    sinks: usize,
}
