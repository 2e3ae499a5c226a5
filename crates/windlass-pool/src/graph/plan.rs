//! A graph that can be run: what its segments share, and the loop that runs them.
//!
//! # Who may call a node
//! A node is called by whoever has its segment, and a segment is had by one thread at a time: it is ready once for each
//! run, by the count of its predecessors, and there is one run at a time, by [`Claim`]. In a plan with conditions
//! a segment could be entered twice; there a mark is set while it runs ([`Counter::enter`]).
//!
//! # What is ordered by what
//! The end of a segment counts its successors down by an exchange that releases; the last one acquires what all have
//! done. An edge into a segment with one predecessor has no count: the thread that ended the predecessor goes on itself,
//! or pushes the entry, which publishes it as every task. The counter is set again by plain stores, at the beginning of
//! the segment: those who count it down in the next run come after the end of this one, and so after the store.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc as StdArc;

use super::counter::Counter;
use super::input::Cell;
use super::node::Body;
use super::seal::Layout;
use super::{Graph, Node, NodeId, dot};
use crate::lane::{Lane, with_lane};
use crate::panic::{Outcome, catch, forget, keep_first, unwrap};
use crate::pool::Pool;
use crate::shared::flag;
use crate::slot::{Slot, SlotRef};
use crate::sync::{Arc, AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use crate::wait::Help;

/// In the count of targets: its last node is a condition.
const CONDITION: u32 = 1 << 31;

/// A chain of nodes that run one after the other; an entry of rings.
#[repr(C, align(32))]
pub(crate) struct Segment {
    /// Set when the plan has its address.
    core: *const Core,
    counter: Counter,
    first: u32,
    len: u32,
    first_target: u32,
    target_count: u32,
}

const _: () = assert!(cfg!(any(loom, shuttle)) || size_of::<Segment>() == 32);

// SAFETY: the address is that of the plan it belongs to, which may be shared between threads.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    pub(super) fn new(incoming: u32, first: u32, len: u32, is_condition: bool) -> Segment {
        let target_count = if is_condition { CONDITION } else { 0 };
        let counter = Counter::new(incoming);
        Segment { core: std::ptr::null(), counter, first, len, first_target: 0, target_count }
    }

    pub(super) fn set_targets(&mut self, first: u32, count: u32) {
        self.first_target = first;
        self.target_count |= count;
    }

    pub(super) fn first(&self) -> u32 {
        self.first
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn end(&self) -> u32 {
        self.first + self.len
    }

    pub(super) fn is_condition(&self) -> bool {
        self.target_count & CONDITION != 0
    }

    pub(super) fn targets(&self) -> Range<usize> {
        let first = self.first_target as usize;
        first..first + (self.target_count & !CONDITION) as usize
    }

    fn nodes(&self) -> Range<usize> {
        self.first as usize..self.end() as usize
    }

    fn entry(&self) -> SlotRef {
        SlotRef::of_segment(self)
    }

    /// Runs it on this thread, and then what it makes ready, as far as it is not pushed.
    ///
    /// # Safety
    /// It came out of a queue, so its plan is being run, and so alive.
    pub(crate) unsafe fn run(this: *const Segment, lane: &Lane) {
        // SAFETY: passed on to the caller.
        let segment = unsafe { &*this };
        // SAFETY: the core is set when the plan is made, and lives as long as its segments.
        unsafe { &*segment.core }.run_from(segment, lane);
    }
}

/// The plan is being run: it cannot be run, read or reset meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the plan is being run: wait for the end of that run, or seal a second plan")
    }
}

impl std::error::Error for Busy {}

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunReport {
    /// How often the plan was run.
    pub runs: u64,
    /// Nodes that did not run the last time: they were cancelled, or came after one that was.
    pub skipped: usize,
    /// The last run was cancelled as a whole.
    pub is_cancelled: bool,
}

/// A graph that was sealed: it can be run any number of times, one run at a time.
///
/// May be shared between threads, and cloned: clones are the same plan. A run keeps it alive. What its closures borrow
/// must live for `'env`; only a plan that borrows nothing can be [spawned](Plan::spawn).
pub struct Plan<'env> {
    pub(super) core: Arc<Core>,
    of: PhantomData<fn(&'env ()) -> &'env ()>,
}

impl Clone for Plan<'_> {
    fn clone(&self) -> Self {
        Plan { core: Arc::clone(&self.core), of: PhantomData }
    }
}

/// As for `Graph`: the closures may look at what they borrow when they are dropped.
impl Drop for Plan<'_> {
    fn drop(&mut self) {}
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, segments) = (self.core.bodies.len(), self.core.segments.len());
        f.debug_struct("Plan").field("nodes", &nodes).field("segments", &segments).finish_non_exhaustive()
    }
}

/// Bits of [`Core::state`]; its upper half counts the runs.
mod state {
    /// A run goes on, or somebody has the plan for himself.
    pub(super) const BUSY: u64 = 1;
    /// There are cancelled nodes.
    pub(super) const HAS_CANCELLED: u64 = 2;
    /// The run that goes on was cancelled.
    pub(super) const RUN_CANCELLED: u64 = 4;
    /// A node has panicked in this run.
    pub(super) const PANICKED: u64 = 8;
    /// What nodes are looked at more closely for.
    pub(super) const ODD: u64 = HAS_CANCELLED | RUN_CANCELLED | PANICKED;
    pub(super) const ONE_RUN: u64 = 1 << 32;
}

/// What the runs of a plan share.
pub(super) struct Core {
    bodies: Vec<Body>,
    segments: Box<[Segment]>,
    targets: Box<[u32]>,
    sources: Box<[u32]>,
    /// Segments that nothing comes after.
    sink_count: u32,
    has_conditions: bool,
    /// How often it was run, and bits (`state`).
    state: AtomicU64,
    /// What is open until the run has ended: a slot, or what is on the stack of who runs it.
    parent: AtomicPtr<Slot>,
    /// The places of cancelled nodes.
    cancelled: Mutex<HashSet<u32>>,
    skipped: AtomicUsize,
    /// The first panic of a node in this run.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    // For people.
    id: u32,
    places: Option<Vec<u32>>,
    names: HashMap<u32, String>,
    cells: HashMap<u32, StdArc<dyn Any + Send + Sync>>,
}

impl<'env> Plan<'env> {
    pub(super) fn new(mut graph: Graph<'env>, layout: Layout) -> Plan<'env> {
        let place = |index: u32| layout.places.as_ref().map_or(index, |places| places[index as usize]);
        let names = graph.names.drain().map(|(index, name)| (place(index), name)).collect();
        let sink_count = layout.segments.iter().filter(|segment| segment.targets().is_empty()).count() as u32;
        let mut core = Arc::new(Core {
            bodies: std::mem::take(&mut graph.bodies),
            segments: layout.segments.into(),
            targets: layout.targets.into(),
            sources: layout.sources.into(),
            sink_count,
            has_conditions: !graph.conditions.is_empty(),
            state: AtomicU64::new(0),
            parent: AtomicPtr::new(std::ptr::null_mut()),
            cancelled: Mutex::default(),
            skipped: AtomicUsize::new(0),
            panic: Mutex::default(),
            id: graph.id,
            names,
            cells: std::mem::take(&mut graph.cells),
            places: layout.places,
        });
        let address = Arc::as_ptr(&core);
        let owned = Arc::get_mut(&mut core).expect("nobody else has it yet");
        owned.segments.iter_mut().for_each(|segment| segment.core = address);
        Plan { core, of: PhantomData }
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.core.bodies.len()
    }

    /// Whether it has no nodes: running it does nothing.
    pub fn is_empty(&self) -> bool {
        self.core.bodies.is_empty()
    }

    /// Runs the plan, and waits for its end. The calling thread takes part, wherever it is called.
    ///
    /// # Errors
    /// [`Busy`] when a run goes on.
    ///
    /// # Panics
    /// With the first panic of a node. What comes after that node was skipped; the plan can be run again.
    ///
    /// # Cost
    /// No allocation. Some 50 ns, and 2 ns for each node of a chain; 10 to 30 ns for each node that others may take.
    pub fn run(&self, pool: &Pool) -> Result<RunReport, Busy> {
        self.repeat(pool, |runs| runs < 1)
    }

    /// Runs the plan `count` times, one after the other; not again after a run that was [cancelled](Plan::cancel_run).
    ///
    /// # Errors
    /// As [`run`](Plan::run).
    ///
    /// # Panics
    /// As [`run`](Plan::run), at the end of the run in which a node panicked.
    pub fn run_n(&self, pool: &Pool, count: u64) -> Result<RunReport, Busy> {
        self.repeat(pool, |runs| runs < count)
    }

    /// Runs the plan at least once, and again until the predicate holds; not again after a run that was
    /// [cancelled](Plan::cancel_run).
    ///
    /// # Errors
    /// As [`run`](Plan::run).
    ///
    /// # Panics
    /// As [`run_n`](Plan::run_n).
    pub fn run_until(&self, pool: &Pool, mut is_enough: impl FnMut() -> bool) -> Result<RunReport, Busy> {
        self.repeat(pool, |runs| runs == 0 || !is_enough())
    }

    fn repeat(&self, pool: &Pool, mut goes_on: impl FnMut(u64) -> bool) -> Result<RunReport, Busy> {
        let claim = Claim::new(&self.core)?;
        let outcome = with_lane(pool.shared(), |lane| {
            let mut report = RunReport::default();
            while !report.is_cancelled && goes_on(report.runs) {
                self.core.run_and_wait(lane);
                report = self.core.end_run(report.runs)?;
            }
            Ok(report)
        });
        drop(claim);
        Ok(unwrap(outcome))
    }

    /// Cancels a node: it does not run, and nothing that comes after it, in this run, if it has not begun, and in all
    /// later ones, until [`reset`](Plan::reset).
    ///
    /// # Panics
    /// When the node is one of another graph.
    pub fn cancel(&self, node: impl Into<NodeId>) {
        let place = self.core.place_of(node.into());
        lock(&self.core.cancelled).insert(place);
        // ORDER: Relaxed; a node that begins at the same time may or may not see it, and the lock orders the rest.
        self.core.state.fetch_or(state::HAS_CANCELLED, Ordering::Relaxed);
    }

    /// Has all nodes run again that were cancelled.
    ///
    /// # Errors
    /// [`Busy`] when a run goes on.
    pub fn reset(&self) -> Result<(), Busy> {
        let _claim = Claim::new(&self.core)?;
        lock(&self.core.cancelled).clear();
        self.core.state.fetch_and(!state::HAS_CANCELLED, Ordering::Relaxed);
        Ok(())
    }

    /// Cancels the run that goes on, if there is one: nodes that have not begun do not run.
    pub fn cancel_run(&self) {
        self.core.cancel_run(None);
    }

    /// Takes what a node returned the last time it ran; the next run may return something again.
    ///
    /// # Errors
    /// [`Busy`] when a run goes on.
    ///
    /// # Panics
    /// When the node is one of another graph.
    pub fn take<T: Send + Sync + 'static>(&self, node: Node<T>) -> Result<Option<T>, Busy> {
        let _claim = Claim::new(&self.core)?;
        // Asked for its panic: a number of another graph must not give the result of some node of this one.
        let _ = self.core.place_of(node.id());
        let cell = self.core.cells.get(&node.id().index).and_then(Cell::<T>::of_any);
        Ok(cell.and_then(|cell| cell.take()))
    }

    /// The plan as a drawing in the language of Graphviz. Nodes are numbered by their places.
    pub fn to_dot(&self) -> String {
        let core = &self.core;
        let titles = (0..self.len() as u32).map(|place| core.title(place));
        let within = |segment: &Segment| (segment.first..segment.end() - 1).map(|place| (place, place + 1));
        let between = |segment: &Segment| {
            let last = segment.end() - 1;
            let firsts: Vec<u32> = core.targets_of(segment).map(|target| target.first).collect();
            firsts.into_iter().map(move |first| (last, first))
        };
        let edges = core.segments.iter().flat_map(|segment| within(segment).chain(between(segment)));
        let is_condition =
            |place| core.segments.iter().any(|segment| segment.is_condition() && segment.end() - 1 == place);
        dot::draw(titles, edges, is_condition)
    }
}

impl<T> From<Node<T>> for NodeId {
    fn from(node: Node<T>) -> NodeId {
        node.id()
    }
}

/// The right to have the plan for oneself.
pub(super) struct Claim<'a>(&'a Core);

impl<'a> Claim<'a> {
    pub(super) fn new(core: &'a Core) -> Result<Claim<'a>, Busy> {
        // ORDER: Acquire; pairs with `give_back`: all that was done in the run before is visible.
        let before = core.state.fetch_or(state::BUSY, Ordering::Acquire);
        if before & state::BUSY == 0 { Ok(Claim(core)) } else { Err(Busy) }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

// Only whoever has the plan for itself calls these.
impl Core {
    pub(super) fn give_back(&self) {
        // ORDER: Release; pairs with `Claim::new`.
        self.state.fetch_and(!state::BUSY, Ordering::Release);
    }

    /// A run begins: what was odd about the last one is forgotten.
    pub(super) fn begin_run(&self) {
        // ORDER: Relaxed; published by what the run pushes. Not a store: a node may be cancelled at the same time.
        let before = self.state.fetch_add(state::ONE_RUN, Ordering::Relaxed);
        let stale = before & (state::RUN_CANCELLED | state::PANICKED);
        if stale != 0 {
            self.state.fetch_and(!stale, Ordering::Relaxed);
        }
        if before & state::ODD != 0 {
            self.skipped.store(0, Ordering::Relaxed);
            // Of a run whose ending was cancelled.
            let panic = lock(&self.panic).take();
            panic.into_iter().for_each(forget);
        }
        if self.has_conditions {
            self.segments.iter().for_each(|segment| segment.counter.reset());
        }
    }

    pub(super) fn run_number(&self) -> u64 {
        self.state.load(Ordering::Relaxed) / state::ONE_RUN
    }

    /// What is open at the beginning of a run.
    pub(super) fn open_count(&self) -> u32 {
        if self.has_conditions { self.sources.len() as u32 } else { self.sink_count }
    }

    pub(super) fn set_parent(&self, parent: *const Slot) {
        // ORDER: Relaxed; published by what the run pushes.
        self.parent.store(parent.cast_mut(), Ordering::Relaxed);
    }

    /// Runs it once, on this thread and on all that are free.
    fn run_and_wait(&self, lane: &Lane) {
        self.begin_run();
        if self.sources.is_empty() {
            return;
        }
        let root = Slot::new();
        root.state.open_root();
        // ORDER: Relaxed; published by what the run pushes.
        root.open.store(self.open_count(), Ordering::Relaxed);
        self.set_parent(&root);
        lane.enter_call();
        self.start(lane);
        lane.tell_tally();
        let register = || {
            // SAFETY: the waiter's place is ours until the flag is set (slot.rs), and it is set once.
            unsafe { (*root.head.get()).waiter = lane.index };
            root.state.add_waiter()
        };
        lane.wait(Help::Anything, || root.state.is_done(), register);
        lane.leave_call();
    }

    /// Begins with the sources: with the first right here.
    pub(super) fn start(&self, lane: &Lane) {
        let Some((first, others)) = self.sources.split_first() else {
            return;
        };
        if !others.is_empty() {
            lane.push_many(others.iter().rev().map(|source| self.segments[*source as usize].entry()));
        }
        self.run_from(&self.segments[*first as usize], lane);
    }

    /// After a run: its report, or the panic of a node.
    pub(super) fn end_run(&self, runs_before: u64) -> Outcome<RunReport> {
        // ORDER: Relaxed; the end of the run has been waited for.
        let state = self.state.load(Ordering::Relaxed);
        if state & state::ODD == 0 {
            return Ok(RunReport { runs: runs_before + 1, skipped: 0, is_cancelled: false });
        }
        if let Some(panic) = lock(&self.panic).take() {
            return Err(panic);
        }
        Ok(RunReport {
            runs: runs_before + 1,
            skipped: self.skipped.load(Ordering::Relaxed),
            is_cancelled: state & state::RUN_CANCELLED != 0,
        })
    }
}

impl Core {
    /// Cancels the run that goes on; only if it is the one of this number, if there is one.
    pub(super) fn cancel_run(&self, number: Option<u64>) {
        // ORDER: Relaxed; a node that begins at the same time may or may not see it.
        let cancel = |state: u64| {
            let is_meant = number.is_none_or(|number| number == state / state::ONE_RUN);
            (is_meant && state & state::BUSY != 0).then_some(state | state::RUN_CANCELLED)
        };
        // An error says that there is nothing to cancel.
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, cancel);
    }

    fn place_of(&self, node: NodeId) -> u32 {
        let is_ours = node.graph == self.id && (node.index as usize) < self.bodies.len();
        assert!(is_ours, "node {} is not one of the graph that became this plan", node.index);
        self.places.as_ref().map_or(node.index, |places| places[node.index as usize])
    }

    /// What the node in a place is called.
    fn title(&self, place: u32) -> String {
        self.names.get(&place).cloned().unwrap_or_else(|| self.bodies[place as usize].type_name().to_owned())
    }

    fn targets_of(&self, segment: &Segment) -> impl ExactSizeIterator<Item = &Segment> {
        self.targets[segment.targets()].iter().map(|target| &self.segments[*target as usize])
    }

    #[inline]
    pub(super) fn parent(&self) -> *const Slot {
        // ORDER: Relaxed; published by what the run pushed.
        self.parent.load(Ordering::Relaxed)
    }

    /// Runs a segment, and then the first one that it makes ready, and so on.
    fn run_from(&self, first: &Segment, lane: &Lane) {
        let parent = self.parent();
        lane.begin_of(parent);
        let mut at = Some(first);
        while let Some(segment) = at {
            at = if self.has_conditions { self.step_with_conditions(segment, lane) } else { self.step(segment, lane) };
        }
    }

    /// Runs a segment, and answers the next one; pushes what else has become ready.
    #[inline]
    fn step(&self, segment: &Segment, lane: &Lane) -> Option<&Segment> {
        let is_skipped = segment.counter.begin();
        let is_skipped = self.run_nodes(segment, is_skipped, lane).is_none();
        if segment.targets().is_empty() {
            lane.count_end_of(self.parent());
            return None;
        }
        let mut next = None;
        for target in self.targets_of(segment) {
            if target.counter.release(is_skipped) {
                match next {
                    None => next = Some(target),
                    Some(_) => lane.push_entry(target.entry()),
                }
            }
        }
        next
    }

    /// As `step`, where what is under way is counted instead of the sinks.
    fn step_with_conditions(&self, segment: &Segment, lane: &Lane) -> Option<&Segment> {
        let next = match segment.counter.enter() {
            Some(is_skipped) => {
                let choice = self.run_nodes(segment, is_skipped, lane);
                segment.counter.leave();
                self.choose(segment, choice, lane)
            }
            None => {
                self.note_panic(Box::new("a condition led to a node that was running"));
                None
            }
        };
        if next.is_none() {
            lane.count_end_of(self.parent());
        }
        next
    }

    fn choose(&self, segment: &Segment, choice: Option<usize>, lane: &Lane) -> Option<&Segment> {
        let mut targets = self.targets_of(segment);
        if segment.is_condition() {
            return targets.nth(choice?);
        }
        let mut next = None;
        for target in targets {
            let Some(is_ready) = target.counter.release_once(choice.is_none()) else {
                self.note_panic(Box::new("a loop ended the predecessor of a node again before that node had begun"));
                continue;
            };
            if is_ready {
                match next {
                    None => next = Some(target),
                    Some(_) => {
                        // SAFETY: the parent is open while this segment, which it counts, runs.
                        // ORDER: Relaxed; this segment is still counted.
                        unsafe { &*self.parent() }.open.fetch_add(1, Ordering::Relaxed);
                        lane.push_entry(target.entry());
                    }
                }
            }
        }
        next
    }

    /// Calls the nodes of a segment. Answers what the last one said, or nothing if not all of them have run.
    #[inline]
    fn run_nodes(&self, segment: &Segment, is_skipped: bool, lane: &Lane) -> Option<usize> {
        let nodes = segment.nodes();
        if is_skipped || self.is_odd() || lane.shared.flags() & (flag::TRACE | flag::CANCEL) != 0 {
            return self.run_nodes_closely(nodes, is_skipped, lane);
        }
        let (mut done, mut choice) = (0, 0);
        let bodies = &self.bodies[nodes.clone()];
        let outcome = catch(|| {
            for body in bodies {
                if self.is_odd() {
                    break;
                }
                // SAFETY: the segment is ours (see the module), so its nodes are.
                choice = unsafe { body.run() };
                done += 1;
            }
        });
        lane.desk().counters.run.add(done as u64);
        if outcome.is_ok() && done == bodies.len() {
            return Some(choice);
        }
        self.stop_nodes(nodes, done, outcome, lane)
    }

    /// Something was odd after so many nodes: one has panicked, or cancelling has begun.
    #[cold]
    fn stop_nodes(&self, nodes: Range<usize>, done: usize, outcome: Outcome<()>, lane: &Lane) -> Option<usize> {
        match outcome {
            Ok(()) => self.run_nodes_closely(nodes.start + done..nodes.end, false, lane),
            Err(panic) => {
                self.skipped.fetch_add(nodes.len() - done - 1, Ordering::Relaxed);
                self.note_panic(panic);
                None
            }
        }
    }

    /// As `run_nodes`, with a look at each node: whether it was cancelled, and for the trace.
    #[cold]
    fn run_nodes_closely(&self, nodes: Range<usize>, is_skipped: bool, lane: &Lane) -> Option<usize> {
        let mut choice = 0;
        for place in nodes.clone() {
            if is_skipped || self.is_cancelled(place as u32, lane) {
                self.skipped.fetch_add(nodes.end - place, Ordering::Relaxed);
                return None;
            }
            match self.run_node(place as u32, lane) {
                Ok(value) => choice = value,
                Err(panic) => {
                    self.skipped.fetch_add(nodes.end - place - 1, Ordering::Relaxed);
                    self.note_panic(panic);
                    return None;
                }
            }
        }
        Some(choice)
    }

    fn run_node(&self, place: u32, lane: &Lane) -> Outcome<usize> {
        let is_traced = lane.shared.flags() & flag::TRACE != 0;
        let span = is_traced.then(|| lane.desk().trace.begin(Cow::Owned(self.title(place))));
        // SAFETY: the segment is ours (see the module), so its nodes are.
        let outcome = catch(|| unsafe { self.bodies[place as usize].run() });
        if let Some(span) = span {
            lane.desk().trace.end(span);
        }
        lane.desk().counters.run.add(1);
        outcome
    }

    #[inline]
    fn is_odd(&self) -> bool {
        // ORDER: Relaxed; a node that begins as it is cancelled may run. A panic or a skip on the way here is seen: it
        // came before what handed the segment on.
        self.state.load(Ordering::Relaxed) & state::ODD != 0
    }

    fn is_cancelled(&self, place: u32, lane: &Lane) -> bool {
        if lane.shared.flags() & flag::CANCEL != 0 {
            self.cancel_run(None);
        }
        let state = self.state.load(Ordering::Relaxed);
        state & state::RUN_CANCELLED != 0
            || (state & state::HAS_CANCELLED != 0 && lock(&self.cancelled).contains(&place))
    }

    #[cold]
    fn note_panic(&self, panic: Box<dyn Any + Send>) {
        keep_first(&self.panic, panic);
        // ORDER: Relaxed; published by what hands the next segment on.
        self.state.fetch_or(state::PANICKED, Ordering::Relaxed);
    }
}
