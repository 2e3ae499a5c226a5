//! From a graph to a plan: what comes before what is checked, and everything gets its place.
//!
//! 1. Edges are sorted by where they begin (a counting sort, which keeps the order in which they were added).
//! 2. Nodes get their places in a topological order: the one in which they were added, if it is one; else they are taken
//!    off as they get ready (Kahn 1962), from a stack, so that what belongs together stays together. Each chain is
//!    followed to its end at once, and becomes a segment.
//! 3. What is left over waits for itself: the cycle is looked for and named.
//! 4. Nodes are moved to their places, each once.
//! 5. From the last segment to the first, the longest path to the end is counted, in nodes. The successor on it is put
//!    first: who ends a segment goes on with that one.

use super::plan::{Plan, Segment};
use super::{Graph, GraphError};

/// A plan, as far as it is laid out.
pub(super) struct Layout {
    pub(super) segments: Vec<Segment>,
    /// Segments that come after others, one list after the other.
    pub(super) targets: Vec<u32>,
    pub(super) sources: Vec<u32>,
    /// Where each node is now; nothing if each is where it was.
    pub(super) places: Option<Vec<u32>>,
}

pub(super) fn seal(mut graph: Graph<'_>) -> Result<Plan<'_>, GraphError> {
    if let Some(mistake) = graph.mistake.take() {
        return Err(mistake);
    }
    let is_condition = Marks::of(graph.len(), graph.conditions.iter().copied());
    let edges = Edges::sort(graph.len(), std::mem::take(&mut graph.edges));
    let layout = Sorting::new(&edges, &is_condition).run().map_err(|stuck| stuck.into_error(&graph))?;
    if let Some(places) = &layout.places {
        move_to_places(&mut graph.bodies, places);
    }
    Ok(Plan::new(graph, layout))
}

/// One bit for each node; none at all if no bit is set.
struct Marks(Vec<u64>);

impl Marks {
    fn of(len: usize, nodes: impl Iterator<Item = u32>) -> Marks {
        let mut marks = Marks(Vec::new());
        for node in nodes {
            marks.0.resize(len.div_ceil(64), 0);
            marks.0[node as usize / 64] |= 1 << (node % 64);
        }
        marks
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    fn has(&self, node: u32) -> bool {
        self.0.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }
}

/// The edges, by where they begin.
struct Edges {
    /// Where the list of each node begins, and at the end where the last one ends.
    firsts: Vec<u32>,
    targets: Vec<u32>,
}

impl Edges {
    fn sort(len: usize, edges: Vec<(u32, u32)>) -> Edges {
        let mut firsts = vec![0_u32; len + 1];
        for (from, _) in &edges {
            firsts[*from as usize] += 1;
        }
        // Each becomes the end of its list, and filling from behind makes it the beginning.
        let mut end = 0;
        for first in &mut firsts {
            end += *first;
            *first = end;
        }
        let mut targets = vec![0_u32; edges.len()];
        for (from, to) in edges.iter().rev() {
            let first = &mut firsts[*from as usize];
            *first -= 1;
            targets[*first as usize] = *to;
        }
        Edges { firsts, targets }
    }

    #[inline]
    fn of(&self, node: u32) -> &[u32] {
        let place = node as usize;
        &self.targets[self.firsts[place] as usize..self.firsts[place + 1] as usize]
    }

    fn len(&self) -> usize {
        self.firsts.len() - 1
    }

    /// Whether every edge leads from a node that was added earlier to one that was added later.
    fn are_ascending(&self) -> bool {
        (0..self.len() as u32).all(|node| self.of(node).iter().all(|target| *target > node))
    }
}

/// Among the counts of predecessors: the node has its place.
const PLACED: u32 = u32::MAX;
/// Among the numbers of segments: the node has none yet; it has none, but is about to get one.
const NOWHERE: u32 = u32::MAX;
const READY: u32 = u32::MAX - 1;

/// A topological sort under way.
struct Sorting<'a> {
    edges: &'a Edges,
    is_condition: &'a Marks,
    /// Nodes that a condition leads to.
    is_chosen: Marks,
    /// Of a node without a place: its predecessors that are counted. Of a node with a place: the number of its segment.
    incoming: Vec<u32>,
    /// How many nodes have their places.
    placed: usize,
    /// Nodes in the order of their places; nothing as long as that is the order in which they were added.
    order: Option<Vec<u32>>,
    segments: Vec<Segment>,
}

/// Nodes that are left over.
struct Stuck {
    /// Which ones wait for each other, in order; none if conditions lead there that nothing leads to.
    cycle: Vec<u32>,
    /// The first of them. Nothing if there was nothing to begin with.
    first: Option<u32>,
}

impl<'a> Sorting<'a> {
    fn new(edges: &'a Edges, is_condition: &'a Marks) -> Sorting<'a> {
        let len = edges.len();
        let mut incoming = vec![0_u32; len];
        let mut chosen = Vec::new();
        if is_condition.is_empty() {
            edges.targets.iter().for_each(|target| incoming[*target as usize] += 1);
        } else {
            for node in 0..len as u32 {
                if is_condition.has(node) {
                    chosen.extend_from_slice(edges.of(node));
                } else {
                    edges.of(node).iter().for_each(|target| incoming[*target as usize] += 1);
                }
            }
        }
        let is_chosen = Marks::of(len, chosen.into_iter());
        Sorting { edges, is_condition, is_chosen, incoming, placed: 0, order: None, segments: Vec::new() }
    }

    fn run(mut self) -> Result<Layout, Stuck> {
        let is_source = |node: &u32| self.incoming[*node as usize] == 0 && !self.is_chosen.has(*node);
        let sources: Vec<u32> = (0..self.edges.len() as u32).filter(is_source).collect();
        if self.is_condition.is_empty() && self.edges.are_ascending() {
            self.place_as_added();
        } else {
            self.place_as_they_get_ready(&sources)?;
        }
        let sources = sources.iter().map(|node| self.incoming[*node as usize]).collect();
        Ok(self.finish(sources))
    }

    /// Nodes were added in an order in which they can run: they keep it, but for chains, which come together.
    fn place_as_added(&mut self) {
        for node in 0..self.edges.len() as u32 {
            if self.incoming[node as usize] != PLACED {
                self.add_segment(node, |_| ());
            }
        }
        // Now that none is looked at any more: the heads, by which targets are found, get their numbers.
        for (number, segment) in self.segments.iter().enumerate() {
            let head = self.order.as_ref().map_or(segment.first(), |order| order[segment.first() as usize]);
            self.incoming[head as usize] = number as u32;
        }
    }

    fn place_as_they_get_ready(&mut self, sources: &[u32]) -> Result<(), Stuck> {
        let mut left = self.incoming.clone();
        let mut ready: Vec<u32> = sources.iter().rev().copied().collect();
        let mut numbers = vec![NOWHERE; self.edges.len()];
        while let Some(head) = ready.pop() {
            let number = self.segments.len() as u32;
            let last = self.add_segment(head, |node| numbers[node as usize] = number);
            let edges = self.edges;
            for target in edges.of(last).iter().rev() {
                let place = *target as usize;
                if self.is_condition.has(last) {
                    // A choice is not counted: it makes a node ready that waits for nothing else, the first time.
                    if left[place] == 0 && numbers[place] == NOWHERE && self.incoming[place] == 0 {
                        numbers[place] = READY;
                        ready.push(*target);
                    }
                    continue;
                }
                left[place] -= 1;
                if left[place] == 0 && numbers[place] == NOWHERE {
                    numbers[place] = READY;
                    ready.push(*target);
                }
            }
        }
        if self.placed < self.edges.len() {
            return Err(self.find_stuck(&numbers, &left, sources.is_empty()));
        }
        self.incoming = numbers;
        Ok(())
    }

    /// Gives a chain its places, and tells each node of it. Answers the last one.
    fn add_segment(&mut self, head: u32, mut tell: impl FnMut(u32)) -> u32 {
        let first = self.placed as u32;
        let incoming = self.incoming[head as usize];
        let mut last = head;
        loop {
            self.place(last);
            tell(last);
            let Some(next) = self.next_in_chain(last) else {
                break;
            };
            last = next;
        }
        let len = self.placed as u32 - first;
        self.segments.push(Segment::new(incoming, first, len, self.is_condition.has(last)));
        last
    }

    #[inline]
    fn place(&mut self, node: u32) {
        if self.order.is_none() && self.placed != node as usize {
            let mut order = Vec::with_capacity(self.edges.len());
            order.extend(0..self.placed as u32);
            self.order = Some(order);
        }
        if let Some(order) = &mut self.order {
            order.push(node);
        }
        if self.is_condition.is_empty() {
            self.incoming[node as usize] = PLACED;
        }
        self.placed += 1;
    }

    /// The node after this one, if there is only one, and it has only this one before it.
    #[inline]
    fn next_in_chain(&self, node: u32) -> Option<u32> {
        let [target] = *self.edges.of(node) else {
            return None;
        };
        let is_chain =
            self.incoming[target as usize] == 1 && !self.is_condition.has(node) && !self.is_chosen.has(target);
        is_chain.then_some(target)
    }

    /// Every segment by its number: its targets, and the places of all nodes.
    fn finish(mut self, sources: Vec<u32>) -> Layout {
        let mut targets = Vec::new();
        for segment in &mut self.segments {
            let last = segment.end() - 1;
            let last = self.order.as_ref().map_or(last, |order| order[last as usize]);
            let first = targets.len() as u32;
            targets.extend(self.edges.of(last).iter().map(|node| self.incoming[*node as usize]));
            segment.set_targets(first, targets.len() as u32 - first);
        }
        put_longest_first(&self.segments, &mut targets);
        let places = self.order.map(|order| {
            // The numbers of segments are not needed any more: their list becomes that of places.
            let mut places = self.incoming;
            order.iter().enumerate().for_each(|(place, node)| places[*node as usize] = place as u32);
            places
        });
        Layout { segments: self.segments, targets, sources, places }
    }

    fn find_stuck(&self, numbers: &[u32], left: &[u32], has_no_source: bool) -> Stuck {
        let is_waiting = |node: &u32| numbers[*node as usize] == NOWHERE && left[*node as usize] > 0;
        let cycle = self.find_cycle(&is_waiting);
        let first = (0..self.edges.len() as u32).find(|node| numbers[*node as usize] == NOWHERE);
        Stuck { cycle, first: first.filter(|_| !has_no_source) }
    }

    /// Follows the waiting nodes backwards, each of which has one before it, until one comes for the second time.
    fn find_cycle(&self, is_waiting: &impl Fn(&u32) -> bool) -> Vec<u32> {
        let mut before = std::collections::HashMap::new();
        for node in (0..self.edges.len() as u32).filter(is_waiting).filter(|node| !self.is_condition.has(*node)) {
            for target in self.edges.of(node) {
                before.insert(*target, node);
            }
        }
        let mut path: Vec<u32> = Vec::new();
        let mut seen_at = std::collections::HashMap::new();
        let mut at = before.keys().copied().filter(is_waiting).min();
        while let Some(node) = at {
            if let Some(start) = seen_at.insert(node, path.len()) {
                path.drain(..start);
                path.reverse();
                // From the one that was added first: the same graph gives the same words.
                let least = (0..path.len()).min_by_key(|place| path[*place]).unwrap_or(0);
                path.rotate_left(least);
                return path;
            }
            path.push(node);
            at = before.get(&node).copied();
        }
        Vec::new()
    }
}

impl Stuck {
    fn into_error(self, graph: &Graph<'_>) -> GraphError {
        if !self.cycle.is_empty() {
            return GraphError::Cycle { nodes: self.cycle.iter().map(|node| graph.title(*node)).collect() };
        }
        self.first.map_or(GraphError::NoSource, |node| GraphError::Unreachable { node: graph.title(node) })
    }
}

/// Has the segments on the longest paths come first among the targets of each, but for conditions, whose targets are
/// numbered.
fn put_longest_first(segments: &[Segment], targets: &mut [u32]) {
    if targets.is_empty() {
        return;
    }
    let mut lengths = vec![0_u32; segments.len()];
    for (number, segment) in segments.iter().enumerate().rev() {
        let own = &mut targets[segment.targets()];
        let longest = (0..own.len()).rev().max_by_key(|place| lengths[own[*place] as usize]).unwrap_or(0);
        let length = own.get(longest).map_or(0, |target| lengths[*target as usize]);
        lengths[number] = length.saturating_add(segment.len());
        if !segment.is_condition() && longest > 0 {
            own[..=longest].rotate_right(1);
        }
    }
}

/// Moves each item to its place, by exchanges: each brings one item home.
fn move_to_places<T>(items: &mut [T], places: &[u32]) {
    let mut places = places.to_vec();
    for start in 0..items.len() {
        while places[start] as usize != start {
            let home = places[start] as usize;
            items.swap(start, home);
            places.swap(start, home);
        }
    }
}
