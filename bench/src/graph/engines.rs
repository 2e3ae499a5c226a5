//! The competitors: how each takes nodes and edges, and runs them.

use std::sync::Arc;

use dag_exec::{Dag, DagBuilder, Executor, ExecutorConfig};
use windlass_pool::{Graph, Node, Plan, Pool, PoolConfig, Prepared};

use super::by_hand::{ByHand, Ends};
use crate::pool::peers::{self, all_workers, with_caller};
use crate::pool::windlass::Kept;

pub const THREADS: usize = 2;

/// Something that runs graphs.
pub trait Engine: Sized + 'static {
    type Pool: 'static;
    type Node: Copy;
    /// A graph that can be run.
    type Ready: 'static;

    fn name() -> String;

    fn start_pool() -> Self::Pool;

    /// A graph without nodes, with room for so many.
    fn begin(pool: &Self::Pool, nodes: u32) -> Self;

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> Self::Node;

    fn precede(&mut self, before: Self::Node, after: Self::Node);

    /// What has to be done once before the graph can be run.
    fn seal(self) -> Self::Ready;

    fn run(ready: &mut Self::Ready, pool: &Self::Pool);
}

/// windlass, its graphs.
pub struct WindlassGraph(Graph<'static>);

impl Engine for WindlassGraph {
    type Pool = Kept;
    type Node = Node;
    type Ready = Plan<'static>;

    fn name() -> String {
        with_caller("windlass graph", THREADS)
    }

    fn start_pool() -> Kept {
        Kept::start(THREADS - 1)
    }

    fn begin(_pool: &Kept, nodes: u32) -> WindlassGraph {
        WindlassGraph(Graph::with_capacity(nodes as usize))
    }

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> Node {
        self.0.add(task)
    }

    fn precede(&mut self, before: Node, after: Node) {
        self.0.precede(before, after);
    }

    fn seal(self) -> Plan<'static> {
        self.0.seal().expect("it has no cycles")
    }

    fn run(plan: &mut Plan<'static>, pool: &Kept) {
        let report = plan.run(pool.0).expect("nobody else runs it");
        assert_eq!(report.skipped, 0, "nodes were skipped");
    }
}

/// windlass without graphs: prepared tasks that continue with others. They run once.
pub struct WindlassPrepared {
    pool: &'static Pool,
    tasks: Vec<Prepared<()>>,
}

impl Engine for WindlassPrepared {
    type Pool = Kept;
    type Node = u32;
    type Ready = Vec<Prepared<()>>;

    fn name() -> String {
        with_caller("windlass prepared", THREADS)
    }

    fn start_pool() -> Kept {
        // Every prepared task keeps a slot until it has run, and so does every edge.
        let config = PoolConfig { slot_count_max: 1 << 22, ..PoolConfig::with_threads(THREADS - 1) };
        Kept(Box::leak(Box::new(Pool::with(config).unwrap())))
    }

    fn begin(pool: &Kept, nodes: u32) -> WindlassPrepared {
        WindlassPrepared { pool: pool.0, tasks: Vec::with_capacity(nodes as usize) }
    }

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> u32 {
        self.tasks.push(self.pool.prepare(task));
        self.tasks.len() as u32 - 1
    }

    fn precede(&mut self, before: u32, after: u32) {
        self.tasks[before as usize].continue_with(&self.tasks[after as usize]);
    }

    fn seal(self) -> Vec<Prepared<()>> {
        self.tasks
    }

    fn run(tasks: &mut Vec<Prepared<()>>, pool: &Kept) {
        assert!(!tasks.is_empty(), "prepared tasks run once");
        tasks.drain(..).for_each(Prepared::schedule_detached);
        pool.0.wait_idle();
    }
}

/// No pool at all.
pub struct Loop(ByHand);

impl Engine for Loop {
    type Pool = ();
    type Node = u32;
    type Ready = ByHand;

    fn name() -> String {
        "loop over boxed closures".to_owned()
    }

    fn start_pool() {}

    fn begin(_pool: &(), nodes: u32) -> Loop {
        Loop(ByHand::with_capacity(nodes as usize))
    }

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> u32 {
        self.0.add(task)
    }

    fn precede(&mut self, before: u32, after: u32) {
        self.0.precede(before, after);
    }

    fn seal(self) -> ByHand {
        self.0
    }

    fn run(graph: &mut ByHand, _pool: &()) {
        graph.run_in_a_loop();
    }
}

/// rayon, with counters by hand in a scope.
pub struct Rayon(ByHand);

impl Engine for Rayon {
    type Pool = rayon::ThreadPool;
    type Node = u32;
    type Ready = (ByHand, Ends);

    fn name() -> String {
        all_workers("rayon scope, counters", THREADS)
    }

    fn start_pool() -> rayon::ThreadPool {
        peers::rayon(THREADS)
    }

    fn begin(_pool: &rayon::ThreadPool, nodes: u32) -> Rayon {
        Rayon(ByHand::with_capacity(nodes as usize))
    }

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> u32 {
        self.0.add(task)
    }

    fn precede(&mut self, before: u32, after: u32) {
        self.0.precede(before, after);
    }

    fn seal(self) -> (ByHand, Ends) {
        let ends = self.0.ends();
        (self.0, ends)
    }

    fn run((graph, ends): &mut (ByHand, Ends), pool: &rayon::ThreadPool) {
        graph.run_in_rayon(ends, pool);
    }
}

/// tokio, with counters by hand.
pub struct Tokio(ByHand);

impl Engine for Tokio {
    type Pool = tokio::runtime::Runtime;
    type Node = u32;
    type Ready = (Arc<ByHand>, Ends);

    fn name() -> String {
        all_workers("tokio spawn, counters", THREADS)
    }

    fn start_pool() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).build().unwrap()
    }

    fn begin(_pool: &tokio::runtime::Runtime, nodes: u32) -> Tokio {
        Tokio(ByHand::with_capacity(nodes as usize))
    }

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> u32 {
        self.0.add(task)
    }

    fn precede(&mut self, before: u32, after: u32) {
        self.0.precede(before, after);
    }

    fn seal(self) -> (Arc<ByHand>, Ends) {
        let ends = self.0.ends();
        (Arc::new(self.0), ends)
    }

    fn run((graph, ends): &mut (Arc<ByHand>, Ends), pool: &tokio::runtime::Runtime) {
        graph.run_in_tokio(ends, pool.handle());
    }
}

/// The crate `dag_exec`, whose nodes are asked for by their keys, and which starts its threads for each run
/// and hands each node to one of them: a wake for each node of a chain, so it is asked to run small graphs only.
#[derive(Default)]
pub struct DagExec {
    nodes: Vec<(Task, Vec<u32>)>,
    has_next: Vec<bool>,
}

type Task = Box<dyn Fn() + Send + Sync>;

impl Engine for DagExec {
    type Pool = Executor;
    type Node = u32;
    /// With the keys of the nodes in which it ends.
    type Ready = (Dag<u32, (), ()>, Vec<u32>);

    fn name() -> String {
        all_workers("dag_exec", THREADS)
    }

    fn start_pool() -> Executor {
        Executor::new(ExecutorConfig { max_workers: THREADS, ..ExecutorConfig::default() })
    }

    fn begin(_pool: &Executor, _nodes: u32) -> DagExec {
        DagExec::default()
    }

    fn add(&mut self, task: impl Fn() + Send + Sync + 'static) -> u32 {
        self.nodes.push((Box::new(task), Vec::new()));
        self.has_next.push(false);
        self.nodes.len() as u32 - 1
    }

    fn precede(&mut self, before: u32, after: u32) {
        self.nodes[after as usize].1.push(before);
        self.has_next[before as usize] = true;
    }

    fn seal(self) -> Self::Ready {
        let mut builder = DagBuilder::new();
        for (key, (task, before)) in self.nodes.into_iter().enumerate() {
            let run = move |_: &[Arc<()>]| {
                task();
                Ok(())
            };
            builder.add_task(key as u32, before, run).expect("keys are told apart");
        }
        let is_sink = |key: &u32| !self.has_next[*key as usize];
        let sinks = (0..self.has_next.len() as u32).filter(is_sink).collect();
        (builder.build().expect("it has no cycles"), sinks)
    }

    fn run((dag, sinks): &mut Self::Ready, executor: &Executor) {
        let done = executor.run_parallel(dag, sinks.iter().copied()).expect("no node fails");
        assert_eq!(done.len(), sinks.len(), "a sink was lost");
    }
}
