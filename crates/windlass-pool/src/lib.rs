//! A work-stealing pool of tasks, for work that takes from nanoseconds up.
//!
//! A *task* is a closure in a slot. [`Pool::spawn`] writes it there and queues the slot; a worker takes it, runs the
//! closure, leaves its result in the slot; [`Task::wait`] takes it out. [`Pool::join`] and [`Pool::scope`] do the same
//! with closures that borrow from the caller's stack, [`Pool::for_each`] and [`Pool::map_reduce`] with loops.
//! [`Pool::prepare`] makes tasks that are tied to each other before they run; a [`Graph`] is sealed once and run again
//! and again; a [`Burst`] wakes sleeping threads with handlers of their own. A thread that waits runs other tasks
//! meanwhile, so tasks may wait for tasks.
//!
//! ```
//! use windlass_pool::Pool;
//!
//! let pool = Pool::new().unwrap();
//! let task = pool.spawn(|| 6 * 7);
//! let (left, right) = pool.join(|| 20, || 22);
//! let mut numbers = [1, 2, 3, 4];
//! pool.scope(|s| {
//!     for number in &mut numbers {
//!         s.spawn(move |_| *number *= 10);
//!     }
//! });
//! assert_eq!((task.wait(), left + right, numbers), (42, 42, [10, 20, 30, 40]));
//! ```
//!
//! A panic of a task is caught at its boundary and thrown again where the task is waited for; a task nobody waits for
//! has its panic told to the pool's hook. Nothing queued behind it is lost.
//!
//! | to | use |
//! |---|---|
//! | recurse on two halves | [`Pool::join`]; fastest with [`Pool::attach`] and [`Lane::join`] |
//! | run many tasks that borrow | [`Pool::scope`], [`Scope::spawn`], [`Scope::spawn_many`] |
//! | loop over a range or a slice | [`Pool::for_each`], [`Pool::for_each_mut`], [`Pool::for_each_chunk`], [`Pool::map_reduce`] |
//! | have one thing done meanwhile | [`Pool::spawn`], then [`Task::wait`], or await it |
//! | order tasks among each other | [`Pool::prepare`], [`Prepared::continue_with`], [`Prepared::finish_with`] |
//! | run the same graph often | [`Graph`], [`Plan`] |
//! | have threads of one's own start at once | [`Burst`] |
//! | wait for something that blocks | [`blocking()`] |
//!
//! How it works, and why it may be trusted, is told in `docs/pool-design.md` of the repository.
//!
//! No dependencies. Every atomic and every thread is named through `sync.rs`, so that the models in `loom_tests` run
//! the very code of the protocols, and the schedules in `shuttle_tests` the very pool.
//!
//! # What must not compile
//! A scope's task cannot outlive what it borrows:
//! ```compile_fail
//! let pool = windlass_pool::Pool::new().unwrap();
//! let task = {
//!     let number = 1;
//!     pool.spawn(|| number + 1)
//! };
//! ```
//! What the closures of a graph borrow must live until the graph, and its plan, have gone, for they may look at it when
//! they are dropped:
//! ```compile_fail
//! use windlass_pool::Graph;
//!
//! struct Peek<'a>(&'a String);
//! impl Drop for Peek<'_> {
//!     fn drop(&mut self) {
//!         assert!(!self.0.is_empty());
//!     }
//! }
//! let mut graph;
//! let data = String::from("gone before the graph");
//! let peek = Peek(&data);
//! graph = Graph::new();
//! graph.add(move || assert!(!peek.0.is_empty()));
//! ```
//! A task that is not `Send` stays where it is:
//! ```compile_fail
//! let pool = windlass_pool::Pool::new().unwrap();
//! let here = std::rc::Rc::new(1);
//! pool.spawn(move || *here);
//! ```
//! A task that nobody need wait for borrows nothing, prepared or detached or one of many:
//! ```compile_fail,E0597
//! let pool = windlass_pool::Pool::new().unwrap();
//! let number = 1;
//! pool.spawn_detached(|| drop(std::hint::black_box(&number)));
//! ```
//! ```compile_fail,E0597
//! let pool = windlass_pool::Pool::new().unwrap();
//! let number = 1;
//! let task = pool.prepare(|| number + 1);
//! ```
//! A value that comes back from a task must be one that may: its type is `Send`.
//! ```compile_fail,E0277
//! let pool = windlass_pool::Pool::new().unwrap();
//! pool.spawn(|| std::rc::Rc::new(1)).wait();
//! ```
//! A thread's place stays on its thread, and does not outlive the call that lends it:
//! ```compile_fail,E0277
//! let pool = windlass_pool::Pool::new().unwrap();
//! pool.attach(|lane| std::thread::scope(|threads| drop(threads.spawn(|| lane.join(|_| 1, |_| 2)))));
//! ```
//! ```compile_fail
//! let pool = windlass_pool::Pool::new().unwrap();
//! let lane = pool.attach(|lane| lane);
//! ```
//! A scope does not leave its closure, neither by its value nor by a variable outside, nor inside a task of it:
//! ```compile_fail
//! let pool = windlass_pool::Pool::new().unwrap();
//! let scope = pool.scope(|s| s);
//! ```
//! ```compile_fail,E0521
//! let pool = windlass_pool::Pool::new().unwrap();
//! let mut kept = None;
//! pool.scope(|s| kept = Some(s));
//! ```
//! ```compile_fail,E0521
//! let pool = windlass_pool::Pool::new().unwrap();
//! pool.scope(|s| s.spawn(|_| s.spawn(|_| ())));
//! ```
//! What a scope's tasks borrow must be there before the scope is:
//! ```compile_fail,E0373
//! let pool = windlass_pool::Pool::new().unwrap();
//! pool.scope(|s| {
//!     let number = 1;
//!     s.spawn(|_| drop(std::hint::black_box(&number)));
//! });
//! ```
//! Two halves of a join, or two tasks of a scope, do not change the same thing:
//! ```compile_fail,E0499
//! let pool = windlass_pool::Pool::new().unwrap();
//! let mut number = 1;
//! pool.join(|| number += 1, || number += 1);
//! ```

mod config;
mod error;
mod sync;

mod forks;
mod home;
mod injector;
mod ring;
mod sleep;
mod slot;
mod stop;

mod lane;
mod metrics;
mod panic;
mod pool;
mod push;
mod run;
mod shared;
mod task;
mod trace;
mod wait;
mod worker;

mod affinity;
mod blocking;
mod built;
mod burst;
mod cancel;
mod continuation;
mod deterministic;
mod graph;
mod join;
mod loops;
mod scope;
#[cfg(debug_assertions)]
mod waits_for;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, shuttle))]
mod shuttle_tests;

pub use blocking::blocking;
pub use built::Built;
pub use burst::{Burst, BurstConfig, Hot, Refused};
pub use cancel::{CancelToken, Cancelled};
pub use config::{PanicHook, PoolConfig, ThreadHook};
pub use continuation::{Prepared, TaskOptions, Tie};
pub use error::{AlreadyDone, PoolError, TaskError};
pub use graph::{Busy, Graph, GraphError, Inputs, Node, NodeId, Nodes, Plan, Run, RunReport, Subgraph};
pub use lane::Lane;
pub use metrics::WorkerMetrics;
pub use pool::{Pool, Shutdown, ShutdownReport};
pub use scope::Scope;
pub use slot::Priority;
pub use task::Task;
