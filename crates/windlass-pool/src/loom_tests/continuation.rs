//! Attaching a successor to a task that ends meanwhile: it is released exactly once, and sees what the task has done.

use loom::thread::{self, JoinHandle};

use super::Watched;
use crate::continuation::{Attached, Ending, attach, end_closure, unblock_once};
use crate::slot::{Entered, Slot};
use crate::sync::{Arc, Ordering};

/// A task that is queued, with a handle.
struct Task {
    slot: Slot,
    effect: Watched,
}

struct Scene {
    tasks: Vec<Task>,
    /// Edges lead to the one successor.
    edges: Vec<Slot>,
    successor: Slot,
    /// How often the successor was queued.
    runs: Watched,
}

fn scene(predecessors: usize, edges: usize) -> Arc<Scene> {
    let task = || {
        let slot = Slot::new();
        slot.set_alone_in_its_group();
        slot.state.queue_held();
        Task { slot, effect: Watched::new(0) }
    };
    let successor = Slot::new();
    // Each edge, and the builder.
    successor.blocked.store(edges as u32 + 1, Ordering::Relaxed);
    let tasks = (0..predecessors).map(|_| task()).collect();
    let edges = (0..edges).map(|_| Slot::new()).collect();
    Arc::new(Scene { tasks, edges, successor, runs: Watched::new(0) })
}

impl Scene {
    /// A worker takes the entry, runs the closure, sees to the end.
    fn run(&self, task: usize) {
        let task = &self.tasks[task];
        assert_eq!(task.slot.state.enter(), Entered::Shared);
        task.effect.write(1);
        let Ending { edges, .. } = end_closure(&task.slot).expect("it has no children");
        self.release(edges);
    }

    fn release(&self, mut list: *mut Slot) {
        while !list.is_null() {
            // SAFETY: edges of the scene, which outlives its threads.
            let edge = unsafe { &*list };
            list = edge.after.load(Ordering::Relaxed);
            self.unblock();
        }
    }

    fn unblock(&self) {
        if unblock_once(&self.successor.blocked) {
            for task in &self.tasks {
                assert_eq!(task.effect.read(), 1);
            }
            self.runs.add_one();
        }
    }

    /// As `follow`.
    fn follow(&self, task: usize, edge: usize) {
        match attach(&self.tasks[task].slot, &self.edges[edge]) {
            Attached::Kept => {}
            Attached::Refused => self.unblock(),
            Attached::Late(list) => self.release(list),
        }
    }
}

fn worker(scene: &Arc<Scene>, task: usize) -> JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || scene.run(task))
}

#[test]
fn a_successor_is_released_once_however_late_it_is_tied() {
    loom::model(|| {
        let scene = scene(1, 1);
        let worker = worker(&scene, 0);
        scene.follow(0, 0);
        scene.unblock();
        worker.join().unwrap();
        assert_eq!(scene.runs.read(), 1);
    });
}

/// The end is kept from saying done by a second tie, and by a waiter.
#[test]
fn ties_and_a_waiter_come_while_the_task_ends() {
    loom::model(|| {
        let scene = scene(1, 2);
        let worker = worker(&scene, 0);
        scene.follow(0, 0);
        let _ = scene.tasks[0].slot.state.add_waiter();
        scene.follow(0, 1);
        scene.unblock();
        worker.join().unwrap();
        assert_eq!(scene.runs.read(), 1);
    });
}

/// Two holders of a shared handle tie at once: whichever of the three closes the list releases what is on it.
#[test]
fn two_threads_tie_to_a_task_that_ends() {
    loom::model(|| {
        let scene = scene(1, 2);
        let worker = worker(&scene, 0);
        let other = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.follow(0, 1))
        };
        scene.follow(0, 0);
        scene.unblock();
        other.join().unwrap();
        worker.join().unwrap();
        assert_eq!(scene.runs.read(), 1);
    });
}

#[test]
fn a_successor_of_two_runs_once_after_both() {
    loom::model(|| {
        let scene = scene(2, 2);
        let workers = [worker(&scene, 0), worker(&scene, 1)];
        scene.follow(0, 0);
        scene.follow(1, 1);
        scene.unblock();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(scene.runs.read(), 1);
    });
}
