//! Graphs that are built once and run again and again.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;

use windlass_pool::{Graph, Node, Plan, RunReport};

use crate::life::{Kind, Opaque, lock};
use crate::object::Table;
use crate::pools::{User, array, enter, text, write_sized};
use crate::record::Destroy;
use crate::status::{Failure, Status, fail, guard, invalid};

/// `windlass_graph_report`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct GraphReport {
    pub size: usize,
    pub runs: u64,
    pub skipped: u64,
    pub is_cancelled: c_int,
    pub reserved: c_int,
}

/// `windlass_edge`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "windlass.h says what each means")]
pub struct Edge {
    pub before: u32,
    pub after: u32,
}

struct Nodes {
    nodes: Vec<Node>,
    stage: Stage,
}

enum Stage {
    Building(Graph<'static>),
    Sealed(Plan<'static>),
    /// It could not be sealed.
    Broken,
}

static GRAPHS: Table<Mutex<Nodes>> = Table::new(Kind::Graph);

impl Nodes {
    fn graph(&mut self) -> Result<&mut Graph<'static>, Failure> {
        match &mut self.stage {
            Stage::Building(graph) => Ok(graph),
            Stage::Sealed(_) => Err(fail(Status::Graph, "the graph is sealed: it cannot be changed any more")),
            Stage::Broken => Err(broken()),
        }
    }

    fn plan(&self) -> Result<Plan<'static>, Failure> {
        match &self.stage {
            Stage::Sealed(plan) => Ok(plan.clone()),
            Stage::Building(_) => Err(fail(Status::Graph, "the graph is not sealed yet")),
            Stage::Broken => Err(broken()),
        }
    }

    fn node(&self, index: u32) -> Result<Node, Failure> {
        let found = self.nodes.get(index as usize).copied();
        found.ok_or_else(|| invalid(format!("there is no node {index}: the graph has {}", self.nodes.len())))
    }
}

/// A sealed graph, drawn.
pub(crate) fn dot(graph: Opaque) -> Result<String, Failure> {
    let held = GRAPHS.get(graph)?;
    let plan = lock(&held).plan()?;
    Ok(plan.to_dot())
}

fn broken() -> Failure {
    fail(Status::Graph, "the graph could not be sealed: build another one")
}

fn busy() -> Failure {
    fail(Status::Busy, "the graph is being run")
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_create(graph: *mut Opaque) -> Status {
    guard("windlass_graph_create", || {
        if graph.is_null() {
            return Err(invalid("there is no place for the graph: NULL"));
        }
        let made = Nodes { nodes: Vec::new(), stage: Stage::Building(Graph::new()) };
        // SAFETY: the caller's pointer, checked.
        unsafe { *graph = GRAPHS.add(Mutex::new(made)) };
        Ok(())
    })
}

/// Adds a node, and says which.
///
/// # Safety
/// `node` is null or can be written.
unsafe fn add(graph: Opaque, node: *mut u32, make: impl FnOnce(&mut Graph<'static>) -> Node) -> Result<(), Failure> {
    let held = GRAPHS.get(graph)?;
    let mut nodes = lock(&held);
    let added = make(nodes.graph()?);
    let index = u32::try_from(nodes.nodes.len()).map_err(|_| invalid("the graph has no room for another node"))?;
    nodes.nodes.push(added);
    if !node.is_null() {
        // SAFETY: passed on to the caller.
        unsafe { *node = index };
    }
    Ok(())
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_add(
    graph: Opaque,
    function: Option<Destroy>,
    arg: *mut c_void,
    node: *mut u32,
) -> Status {
    guard("windlass_graph_add", || {
        let arg = User(arg);
        let make = |graph: &mut Graph<'static>| match function {
            None => graph.add_empty(),
            // SAFETY: the caller's function, called with the caller's argument, as windlass.h says.
            Some(function) => graph.add(move || unsafe { function(arg.get()) }),
        };
        // SAFETY: passed on to the caller.
        unsafe { add(graph, node, make) }
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_add_condition(
    graph: Opaque,
    function: Option<unsafe extern "C-unwind" fn(*mut c_void) -> usize>,
    arg: *mut c_void,
    node: *mut u32,
) -> Status {
    guard("windlass_graph_add_condition", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        let arg = User(arg);
        // SAFETY: as above; the rest is passed on to the caller.
        unsafe { add(graph, node, |graph| graph.add_condition(move || function(arg.get()))) }
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_graph_precede(graph: Opaque, before: u32, after: u32) -> Status {
    guard("windlass_graph_precede", || {
        let held = GRAPHS.get(graph)?;
        let mut nodes = lock(&held);
        let (before, after) = (nodes.node(before)?, nodes.node(after)?);
        nodes.graph()?.precede(before, after);
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_add_all(
    graph: Opaque,
    function: Option<Destroy>,
    args: *const *mut c_void,
    count: usize,
    first: *mut u32,
) -> Status {
    guard("windlass_graph_add_all", || {
        let function = function.ok_or_else(|| invalid("the function is NULL"))?;
        // SAFETY: passed on to the caller.
        let args = unsafe { array("arguments", args, count) }?;
        let held = GRAPHS.get(graph)?;
        let mut nodes = lock(&held);
        let begin = nodes.nodes.len();
        let has_room = begin.checked_add(count).is_some_and(|end| u32::try_from(end).is_ok());
        if !has_room {
            return Err(invalid(format!("the graph has no room for {count} more nodes")));
        }
        for arg in args {
            let arg = User(*arg);
            // SAFETY: the caller's function, called with the caller's arguments, as windlass.h says.
            let node = nodes.graph()?.add(move || unsafe { function(arg.get()) });
            nodes.nodes.push(node);
        }
        if !first.is_null() {
            // SAFETY: passed on to the caller.
            unsafe { *first = begin as u32 };
        }
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_precede_all(graph: Opaque, edges: *const Edge, count: usize) -> Status {
    guard("windlass_graph_precede_all", || {
        // SAFETY: passed on to the caller.
        let edges = unsafe { array("edges", edges, count) }?;
        let held = GRAPHS.get(graph)?;
        let mut nodes = lock(&held);
        nodes.graph()?;
        edges.iter().try_for_each(|edge| nodes.node(edge.before).and(nodes.node(edge.after)).map(|_| ()))?;
        for edge in edges {
            let (before, after) = (nodes.node(edge.before)?, nodes.node(edge.after)?);
            nodes.graph()?.precede(before, after);
        }
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_name(graph: Opaque, node: u32, name: *const c_char) -> Status {
    guard("windlass_graph_name", || {
        // SAFETY: passed on to the caller.
        let name = unsafe { text("name", name) }?.ok_or_else(|| invalid("the name is NULL"))?;
        let held = GRAPHS.get(graph)?;
        let mut nodes = lock(&held);
        let node = nodes.node(node)?;
        nodes.graph()?.name(node, name);
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_graph_seal(graph: Opaque) -> Status {
    guard("windlass_graph_seal", || {
        let held = GRAPHS.get(graph)?;
        let mut nodes = lock(&held);
        nodes.graph()?;
        let Stage::Building(graph) = std::mem::replace(&mut nodes.stage, Stage::Broken) else {
            return Err(broken());
        };
        nodes.stage = Stage::Sealed(graph.seal().map_err(|error| fail(Status::Graph, error.to_string()))?);
        Ok(())
    })
}

/// See `windlass.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn windlass_graph_run(
    graph: Opaque,
    pool: Opaque,
    count: u64,
    report: *mut GraphReport,
) -> Status {
    guard("windlass_graph_run", || {
        // SAFETY: passed on to the caller.
        unsafe { write_sized(report, &GraphReport::default()) }?;
        let held = GRAPHS.get(graph)?;
        let plan = lock(&held).plan()?;
        let access = enter(pool)?;
        let RunReport { runs, skipped, is_cancelled, .. } =
            access.wait(|pool| plan.run_n(pool, count)).map_err(|_| busy())?;
        let is_cancelled = c_int::from(is_cancelled);
        let found = GraphReport { size: 0, runs, skipped: skipped as u64, is_cancelled, reserved: 0 };
        // SAFETY: passed on to the caller.
        unsafe { write_sized(report, &found) }
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_graph_cancel(graph: Opaque, node: u32) -> Status {
    guard("windlass_graph_cancel", || {
        let held = GRAPHS.get(graph)?;
        let nodes = lock(&held);
        nodes.plan()?.cancel(nodes.node(node)?);
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_graph_cancel_run(graph: Opaque) -> Status {
    guard("windlass_graph_cancel_run", || {
        let held = GRAPHS.get(graph)?;
        lock(&held).plan()?.cancel_run();
        Ok(())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_graph_reset(graph: Opaque) -> Status {
    guard("windlass_graph_reset", || {
        let held = GRAPHS.get(graph)?;
        let plan = lock(&held).plan()?;
        plan.reset().map_err(|_| busy())
    })
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_graph_destroy(graph: Opaque) -> Status {
    guard("windlass_graph_destroy", || GRAPHS.remove(GRAPHS.get(graph)?))
}
