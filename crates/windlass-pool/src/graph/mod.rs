//! Graphs of tasks that are built once and run again and again.
//!
//! A [`Graph`] is for building: closures, and which of them come before which. [`Graph::seal`] checks it and lays it out
//! as a [`Plan`]; a plan runs as often as one likes, and running it allocates nothing. What a node returns can be read
//! by the nodes after it ([`Graph::add_from`]), and by who ran the plan ([`Plan::take`]).
//!
//! ```
//! use windlass_pool::{Graph, Pool};
//!
//! let pool = Pool::new().unwrap();
//! let mut graph = Graph::new();
//! // (a + b) * (c + d)
//! let [a, b, c, d] = [1, 2, 3, 4].map(|number| graph.add(move || number));
//! let left = graph.add_from((a, b), |(a, b)| a + b);
//! let right = graph.add_from((c, d), |(c, d)| c + d);
//! let product = graph.add_from((left, right), |(left, right)| left * right);
//! let plan = graph.seal().unwrap();
//!
//! plan.run(&pool).unwrap();
//!
//! assert_eq!(plan.take(product).unwrap(), Some(21));
//! ```
//!
//! # How a plan is laid out (`seal.rs`)
//! Nodes are in topological order in one array. A chain, nodes of which each has only the next one after it and only the
//! one before it, is one *segment*: a tight loop over neighbours in memory. Only the first node of a segment can have
//! several predecessors, so the segment has one counter, and none if it has one predecessor. The counter sets itself
//! again when the segment begins, so a run costs its sources, not its nodes. The end of a run is the end of its sinks,
//! counted by each worker for itself first, as tasks of a scope are.
//!
//! # How it runs (`plan.rs`)
//! A segment is pushed into a ring like a task, and is its own entry: no slot is taken. Who ends a segment goes on with
//! the successor on the longest path, and pushes the others.
//!
//! # Cancelling and panics
//! A node that was cancelled, or panicked, counts down its successors like any other, and marks them as skipped: they do
//! the same in their turn. So after every run all counters are as they were before.
//!
//! # Conditions
//! A *condition* says which of its successors is next, by number: all others stay as they are. Its edges are not counted,
//! so they may lead back: that is a loop. A plan with conditions counts what is under way instead of its sinks, sets all
//! its counters at the beginning of a run, and marks each segment while it runs: entering it twice at a time, which only
//! conditions can try, is a panic of the node.

pub(crate) mod counter;
mod dot;
mod input;
mod node;
mod plan;
mod run;
mod seal;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc as StdArc;

use crate::lane;
use crate::scope::{self, Scope};
use crate::sync::{Ordering, ProcessCounter};

use input::Cell;
pub use input::Inputs;
use node::Body;
pub(crate) use plan::Segment;
pub use plan::{Busy, Plan, RunReport};
pub use run::Run;

/// Nodes that one graph can have.
const NODES_MAX: usize = (1 << 31) - 1;

/// A node of a graph, and of the plan that is made of it. `T` is what it returns.
pub struct Node<T = ()> {
    id: NodeId,
    of: PhantomData<fn() -> T>,
}

/// A node, whatever it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId {
    graph: u32,
    index: u32,
}

impl<T> Node<T> {
    /// The node, whatever it returns: to put nodes of several types into one list.
    pub fn id(self) -> NodeId {
        self.id
    }
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Node<T> {
        *self
    }
}

impl<T> Copy for Node<T> {}

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.id.index)
    }
}

/// One node or many: a [`Node`], a [`NodeId`], a [`Subgraph`], or an array, a slice, or a vector of these.
pub trait Nodes {
    /// Calls `f` with where each begins and where it ends: the same node, but for a subgraph.
    #[doc(hidden)]
    fn each(&self, f: impl FnMut(NodeId, NodeId));
}

impl Nodes for NodeId {
    fn each(&self, mut f: impl FnMut(NodeId, NodeId)) {
        f(*self, *self);
    }
}

impl<T> Nodes for Node<T> {
    fn each(&self, mut f: impl FnMut(NodeId, NodeId)) {
        f(self.id, self.id);
    }
}

impl Nodes for Subgraph {
    fn each(&self, mut f: impl FnMut(NodeId, NodeId)) {
        f(self.begin, self.end);
    }
}

impl<N: Nodes> Nodes for [N] {
    fn each(&self, mut f: impl FnMut(NodeId, NodeId)) {
        self.iter().for_each(|nodes| nodes.each(&mut f));
    }
}

impl<N: Nodes, const COUNT: usize> Nodes for [N; COUNT] {
    fn each(&self, f: impl FnMut(NodeId, NodeId)) {
        self.as_slice().each(f);
    }
}

impl<N: Nodes> Nodes for Vec<N> {
    fn each(&self, f: impl FnMut(NodeId, NodeId)) {
        self.as_slice().each(f);
    }
}

impl<N: Nodes + ?Sized> Nodes for &N {
    fn each(&self, f: impl FnMut(NodeId, NodeId)) {
        (**self).each(f);
    }
}

/// A graph that was put into another one as a whole: it can be ordered like a node.
#[derive(Debug, Clone, Copy)]
pub struct Subgraph {
    begin: NodeId,
    end: NodeId,
    /// Which graph it was, and where its nodes are now.
    was: u32,
    offset: u32,
    len: u32,
}

impl Subgraph {
    /// A node of the graph it was, as a node of the graph it is part of.
    ///
    /// # Panics
    /// When the node is not one of the graph it was.
    pub fn node<T>(&self, node: Node<T>) -> Node<T> {
        let is_ours = node.id.graph == self.was && node.id.index < self.len;
        assert!(is_ours, "node {} is not one of the graph that became this subgraph", node.id.index);
        let id = NodeId { graph: self.begin.graph, index: self.offset + node.id.index };
        Node { id, of: PhantomData }
    }
}

/// Why a graph has no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// Nodes wait for each other: each comes before the next, and the last before the first.
    Cycle {
        /// The nodes, in that order.
        nodes: Vec<String>,
    },
    /// An edge was added to a node of another graph.
    Foreign {
        /// The node of this graph at the other end, or of the other graph if both are foreign.
        node: String,
    },
    /// Every node waits for another one, or for a condition: there is none to begin with.
    NoSource,
    /// Only conditions lead there that nothing leads to.
    Unreachable {
        /// The first of them.
        node: String,
    },
    /// A graph with conditions was put into another one: it has no single end.
    ConditionInSubgraph {
        /// The condition.
        node: String,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphError::Cycle { nodes } => {
                write!(f, "cannot seal a graph whose nodes wait for each other: {}", nodes.join(" → "))?;
                write!(f, " → {}; a loop needs a condition", nodes.first().map_or("", String::as_str))
            }
            GraphError::Foreign { node } => write!(f, "cannot seal a graph with an edge to another one, at {node}"),
            GraphError::NoSource => f.write_str("cannot seal a graph in which every node waits: add one that does not"),
            GraphError::Unreachable { node } => write!(f, "cannot seal a graph in which nothing leads to {node}"),
            GraphError::ConditionInSubgraph { node } => {
                write!(f, "cannot seal a subgraph with a condition ({node}): seal it by itself, and run it in a node")
            }
        }
    }
}

impl std::error::Error for GraphError {}

/// Nodes and their order, while it is built. What its closures borrow must live for `'env`.
///
/// May be sent to another thread. Dropping it drops the closures.
pub struct Graph<'env> {
    id: u32,
    bodies: Vec<Body>,
    /// Which node comes before which.
    edges: Vec<(u32, u32)>,
    /// Nodes whose edges are choices.
    conditions: Vec<u32>,
    names: HashMap<u32, String>,
    /// Where the results of nodes that return something are.
    cells: HashMap<u32, StdArc<dyn Any + Send + Sync>>,
    /// The first mistake that cannot be told where it is made.
    mistake: Option<GraphError>,
    /// The closures may borrow, exactly for `'env`.
    of: PhantomData<fn(&'env ()) -> &'env ()>,
}

impl fmt::Debug for Graph<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.len()).field("edges", &self.edges.len()).finish_non_exhaustive()
    }
}

/// The closures, whose types are forgotten, may look at what they borrow when they are dropped: with this the compiler
/// knows.
impl Drop for Graph<'_> {
    fn drop(&mut self) {}
}

impl Default for Graph<'_> {
    fn default() -> Self {
        Graph::new()
    }
}

static NEXT_ID: ProcessCounter = ProcessCounter::new(0);

impl<'env> Graph<'env> {
    /// A graph without nodes.
    pub fn new() -> Graph<'env> {
        Graph::with_capacity(0)
    }

    /// A graph without nodes, with room for so many.
    pub fn with_capacity(nodes: usize) -> Graph<'env> {
        Graph {
            // ORDER: Relaxed; a number that no other graph has.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            bodies: Vec::with_capacity(nodes),
            edges: Vec::with_capacity(nodes),
            conditions: Vec::new(),
            names: HashMap::new(),
            cells: HashMap::new(),
            mistake: None,
            of: PhantomData,
        }
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }

    /// Adds a node that runs `f`. What `f` returns can be read by nodes after it, see [`add_from`](Graph::add_from), and
    /// taken after a run, see [`Plan::take`].
    ///
    /// # Panics
    /// Beyond 2³¹ − 1 nodes; so do all that add nodes.
    ///
    /// # Cost
    /// 40 bytes with one edge, for a closure of up to 24 bytes that returns nothing; a larger one is boxed, and a result
    /// has an allocation of its own.
    pub fn add<T, F>(&mut self, mut f: F) -> Node<T>
    where
        T: Send + Sync + 'static,
        F: FnMut() -> T + Send + 'env,
    {
        if TypeId::of::<T>() == TypeId::of::<()>() {
            let run = move || {
                f();
                0
            };
            return self.typed(Body::new::<_, F>(run));
        }
        let cell = Cell::new();
        let own = cell.clone();
        let run = move || {
            own.put(f());
            0
        };
        self.add_with_cell(Body::new::<_, F>(run), cell)
    }

    /// Adds a node that is run after `inputs`, with what they returned: a node, a tuple of up to eight, or an array.
    ///
    /// # Panics
    /// When an input is a node of another graph.
    pub fn add_from<I, T, F>(&mut self, inputs: I, mut f: F) -> Node<T>
    where
        I: Inputs + 'env,
        T: Send + Sync + 'static,
        F: for<'a> FnMut(I::Values<'a>) -> T + Send + 'env,
    {
        let cells = inputs.cells(self);
        let cell = Cell::new();
        let own = cell.clone();
        let run = move || {
            let value = I::with_values(&cells, &mut f);
            own.put(value);
            0
        };
        let node = self.add_with_cell(Body::new::<_, F>(run), cell);
        inputs.each_node(&mut |input| self.add_edge(input, node.id));
        node
    }

    /// Adds a node that does nothing: for many to come before many, with one edge each.
    pub fn add_empty(&mut self) -> Node {
        self.typed(Body::new::<_, ()>(|| 0))
    }

    /// Adds a condition: what `f` returns is the number of the successor that runs next, in the order in which they were
    /// added; beyond the last one, none does. A condition may lead back to nodes before it.
    pub fn add_condition(&mut self, f: impl FnMut() -> usize + Send + 'env) -> Node {
        let node = self.typed(body_of_condition(f));
        self.conditions.push(node.id.index);
        node
    }

    /// Adds a node that spawns tasks of its own: its successors run after all of them.
    pub fn add_scope<F>(&mut self, mut f: F) -> Node
    where
        F: FnMut(&Scope<'env>) + Send + 'env,
    {
        let run = move || {
            lane::with_current(|lane| {
                let lane = lane.expect("nodes run on lanes");
                scope::scope(&lane.shared, |scope| f(scope));
            });
            0
        };
        self.typed(Body::new::<_, F>(run))
    }

    /// Puts a whole graph into this one. What comes before the subgraph comes before all of its nodes, and what comes
    /// after it after all of them.
    ///
    /// A graph with conditions cannot be put in: [`seal`](Graph::seal) says so. Seal it by itself, and run its plan in a
    /// node.
    pub fn add_graph(&mut self, mut graph: Graph<'env>) -> Subgraph {
        if let (Some(condition), None) = (graph.conditions.first(), &self.mistake) {
            self.mistake = Some(GraphError::ConditionInSubgraph { node: graph.title(*condition) });
        }
        self.mistake = self.mistake.take().or(graph.mistake.take());
        let (len, (mut has_before, mut has_after)) = (graph.bodies.len(), graph.ends());
        let begin = self.add_empty().id;
        let offset = self.len() as u32;
        self.bodies.append(&mut graph.bodies);
        let end = self.add_empty().id;
        self.edges.extend(graph.edges.iter().map(|(from, to)| (from + offset, to + offset)));
        self.names.extend(graph.names.drain().map(|(index, name)| (index + offset, name)));
        self.cells.extend(graph.cells.drain().map(|(index, cell)| (index + offset, cell)));
        for index in 0..len as u32 {
            if !has_before.next().unwrap_or(false) {
                self.edges.push((begin.index, index + offset));
            }
            if !has_after.next().unwrap_or(false) {
                self.edges.push((index + offset, end.index));
            }
        }
        if len == 0 {
            self.add_edge(begin, end);
        }
        Subgraph { begin, end, was: graph.id, offset, len: len as u32 }
    }

    /// For each node, whether something comes before it, and whether something comes after it.
    fn ends(&self) -> (impl Iterator<Item = bool> + use<>, impl Iterator<Item = bool> + use<>) {
        let (mut has_before, mut has_after) = (vec![false; self.len()], vec![false; self.len()]);
        for (from, to) in &self.edges {
            has_after[*from as usize] = true;
            has_before[*to as usize] = true;
        }
        (has_before.into_iter(), has_after.into_iter())
    }

    /// Has every one of `before` run before every one of `after`.
    pub fn precede(&mut self, before: impl Nodes, after: impl Nodes) {
        before.each(|_, from| after.each(|to, _| self.add_edge(from, to)));
    }

    /// Has every one of `after` run after every one of `before`.
    pub fn succeed(&mut self, after: impl Nodes, before: impl Nodes) {
        self.precede(before, after);
    }

    /// Calls a node by a name: in errors, in traces, in drawings.
    pub fn name(&mut self, node: impl Nodes, name: impl Into<String>) {
        let name = name.into();
        node.each(|id, _| {
            if id.graph == self.id {
                self.names.insert(id.index, name.clone());
            } else {
                self.note_foreign(id);
            }
        });
    }

    /// The graph as a drawing in the language of Graphviz.
    pub fn to_dot(&self) -> String {
        let nodes = (0..self.len() as u32).map(|index| self.title(index));
        dot::draw(nodes, self.edges.iter().copied(), |node| self.conditions.contains(&node))
    }

    /// Checks the graph, and lays it out to be run.
    ///
    /// # Errors
    /// [`GraphError`] names the nodes that keep it from being run.
    ///
    /// # Cost
    /// 10 to 20 ns for each node of a chain, some 50 for each of a tree; for a moment some 20 bytes more for each node.
    pub fn seal(self) -> Result<Plan<'env>, GraphError> {
        seal::seal(self)
    }

    fn push(&mut self, body: Body) -> NodeId {
        assert!(self.len() < NODES_MAX, "a graph can have {NODES_MAX} nodes");
        let id = NodeId { graph: self.id, index: self.len() as u32 };
        self.bodies.push(body);
        id
    }

    fn typed<T>(&mut self, body: Body) -> Node<T> {
        Node { id: self.push(body), of: PhantomData }
    }

    fn add_with_cell<T: Send + Sync + 'static>(&mut self, body: Body, cell: Cell<T>) -> Node<T> {
        let node = self.typed(body);
        self.cells.insert(node.id.index, cell.into_any());
        node
    }

    #[inline]
    fn add_edge(&mut self, from: NodeId, to: NodeId) {
        if from.graph != self.id || to.graph != self.id {
            let foreign = if from.graph == self.id { from } else { to };
            return self.note_foreign(foreign);
        }
        self.edges.push((from.index, to.index));
    }

    #[cold]
    fn note_foreign(&mut self, id: NodeId) {
        let node = if id.graph == self.id { self.title(id.index) } else { format!("node {} of it", id.index) };
        self.mistake.get_or_insert(GraphError::Foreign { node });
    }

    /// What a node is called.
    fn title(&self, index: u32) -> String {
        let nameless = || format!("node {index}");
        self.names.get(&index).cloned().unwrap_or_else(nameless)
    }
}

fn body_of_condition<F: FnMut() -> usize + Send>(f: F) -> Body {
    Body::new::<_, F>(f)
}
