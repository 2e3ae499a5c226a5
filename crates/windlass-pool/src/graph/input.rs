//! What nodes return, and how the nodes after them read it.
//!
//! A result lies in a cell of its own, shared by the node that fills it and those that read it. The order of the graph
//! makes sure that nobody reads while it is filled; where a condition leads back to a node that is being read, and so
//! breaks that order, the cell finds out, and the node panics.

use std::any::Any;
use std::sync::Arc as StdArc;

use super::{Graph, Node, NodeId};
use crate::sync::{ResultLock, ResultReadGuard, TryLockError};

/// The result of one node.
#[derive(Debug)]
pub struct Cell<T>(StdArc<ResultLock<Option<T>>>);

impl<T> Clone for Cell<T> {
    fn clone(&self) -> Cell<T> {
        Cell(StdArc::clone(&self.0))
    }
}

/// A result while it is read.
#[derive(Debug)]
struct Guard<'a, T>(ResultReadGuard<'a, Option<T>>);

impl<T> Guard<'_, T> {
    fn value(&self) -> &T {
        self.0.as_ref().expect("a condition led here before the node that this one reads has run")
    }
}

impl<T> Cell<T> {
    pub(super) fn new() -> Cell<T> {
        Cell(StdArc::new(ResultLock::new(None)))
    }

    /// Replaces the result.
    ///
    /// # Panics
    /// When somebody reads it.
    pub(super) fn put(&self, value: T) {
        let before = match self.0.try_write() {
            Ok(mut cell) => cell.replace(value),
            Err(TryLockError::Poisoned(cell)) => cell.into_inner().replace(value),
            Err(TryLockError::WouldBlock) => panic!("a condition led back to a node whose result is being read"),
        };
        // Not under the lock: a destructor may do anything.
        drop(before);
    }

    /// Takes the result out.
    pub(super) fn take(&self) -> Option<T> {
        match self.0.try_write() {
            Ok(mut cell) => cell.take(),
            Err(TryLockError::Poisoned(cell)) => cell.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn read(&self) -> Guard<'_, T> {
        match self.0.try_read() {
            Ok(guard) => Guard(guard),
            Err(TryLockError::Poisoned(guard)) => Guard(guard.into_inner()),
            Err(TryLockError::WouldBlock) => panic!("a condition led back to a node whose result is being read"),
        }
    }
}

impl<T: Send + Sync + 'static> Cell<T> {
    pub(super) fn into_any(self) -> StdArc<dyn Any + Send + Sync> {
        self.0
    }

    /// The cell again, if it is one of this type.
    pub(super) fn of_any(any: &StdArc<dyn Any + Send + Sync>) -> Option<Cell<T>> {
        StdArc::clone(any).downcast().ok().map(Cell)
    }

    /// The cell of a node, in the graph it belongs to.
    fn of_node(graph: &Graph<'_>, node: Node<T>) -> Cell<T> {
        assert!(
            node.id.graph == graph.id,
            "{node:?} is one of another graph: what it returns cannot be read in this one"
        );
        let any = graph.cells.get(&node.id.index).map(Cell::of_any);
        any.flatten().unwrap_or_else(|| {
            // A node that returns nothing has no cell: here is one, filled for ever.
            let cell = Cell::new();
            let mut nothing = Some(());
            let unit: Option<T> = (&mut nothing as &mut dyn Any).downcast_mut().and_then(Option::take);
            cell.put(unit.expect("a node that returns something has a cell"));
            cell
        })
    }
}

/// What [`Graph::add_from`] reads: a node, a tuple of nodes, or an array of nodes.
pub trait Inputs: 'static {
    /// What the closure is given: references to what the nodes returned.
    type Values<'a>;
    #[doc(hidden)]
    type Cells: Send;

    #[doc(hidden)]
    fn cells(&self, graph: &Graph<'_>) -> Self::Cells;
    #[doc(hidden)]
    fn each_node(&self, f: &mut dyn FnMut(NodeId));
    #[doc(hidden)]
    fn with_values<R>(cells: &Self::Cells, f: &mut dyn for<'a> FnMut(Self::Values<'a>) -> R) -> R;
}

impl<A: Send + Sync + 'static> Inputs for Node<A> {
    type Values<'a> = &'a A;
    type Cells = Cell<A>;

    fn cells(&self, graph: &Graph<'_>) -> Cell<A> {
        Cell::of_node(graph, *self)
    }

    fn each_node(&self, f: &mut dyn FnMut(NodeId)) {
        f(self.id);
    }

    fn with_values<R>(cells: &Cell<A>, f: &mut dyn for<'a> FnMut(&'a A) -> R) -> R {
        f(cells.read().value())
    }
}

impl<A: Send + Sync + 'static, const COUNT: usize> Inputs for [Node<A>; COUNT] {
    type Values<'a> = [&'a A; COUNT];
    type Cells = [Cell<A>; COUNT];

    fn cells(&self, graph: &Graph<'_>) -> Self::Cells {
        self.map(|node| Cell::of_node(graph, node))
    }

    fn each_node(&self, f: &mut dyn FnMut(NodeId)) {
        self.iter().for_each(|node| f(node.id));
    }

    fn with_values<R>(cells: &Self::Cells, f: &mut dyn for<'a> FnMut(Self::Values<'a>) -> R) -> R {
        let guards = cells.each_ref().map(Cell::read);
        f(guards.each_ref().map(Guard::value))
    }
}

macro_rules! inputs_of_tuples {
    ($(($($letter:ident)+))+) => {$(
        impl<$($letter: Send + Sync + 'static),+> Inputs for ($(Node<$letter>,)+) {
            type Values<'a> = ($(&'a $letter,)+);
            type Cells = ($(Cell<$letter>,)+);

            #[expect(non_snake_case, reason = "one name for a type and its value")]
            fn cells(&self, graph: &Graph<'_>) -> Self::Cells {
                let ($($letter,)+) = self;
                ($(Cell::of_node(graph, *$letter),)+)
            }

            #[expect(non_snake_case, reason = "as above")]
            fn each_node(&self, f: &mut dyn FnMut(NodeId)) {
                let ($($letter,)+) = self;
                $(f($letter.id);)+
            }

            #[expect(non_snake_case, reason = "as above")]
            fn with_values<Value>(cells: &Self::Cells, f: &mut dyn for<'a> FnMut(Self::Values<'a>) -> Value) -> Value {
                let ($($letter,)+) = cells;
                let ($($letter,)+) = ($($letter.read(),)+);
                f(($($letter.value(),)+))
            }
        }
    )+};
}

inputs_of_tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E G) (A B C D E G H) (A B C D E G H I) }
