//! Children and what they keep open: a parent ends once, after all of them; so does a scope.

use loom::thread::{self, JoinHandle};

use super::Watched;
use crate::continuation::{
    Attached, Ending, attach, begin_building, end_building, end_closure, end_everything, open_for_child,
};
use crate::slot::{Entered, Finish, Slot};
use crate::sync::{Arc, AtomicUsize, Ordering};

struct Scene {
    parent: Slot,
    /// Set by the parent's closure, and by each child.
    effects: Vec<Watched>,
    edge: Slot,
    /// What was done when the parent ended.
    ends: AtomicUsize,
    released: AtomicUsize,
}

impl Scene {
    fn with(parent: Slot) -> Arc<Scene> {
        let effects = (0..3).map(|_| Watched::new(0)).collect();
        let (ends, released) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Scene { parent, effects, edge: Slot::new(), ends, released })
    }

    /// A parent that is queued, with a handle.
    fn queued() -> Arc<Scene> {
        let parent = Slot::new();
        parent.set_alone_in_its_group();
        parent.state.queue_held();
        Scene::with(parent)
    }

    fn run_parent(&self) {
        assert_eq!(self.parent.state.enter(), Entered::Shared);
        self.effects[0].write(1);
        if let Some(ending) = end_closure(&self.parent) {
            self.see_to(&ending);
        }
    }

    fn run_child(&self, child: usize) {
        self.effects[child].write(1);
        self.count_ends(1);
    }

    /// As `tell_tally`.
    fn count_ends(&self, count: u32) {
        if self.parent.count_ends(count) {
            self.see_to(&end_everything(&self.parent));
        }
    }

    fn see_to(&self, ending: &Ending) {
        assert_eq!(ending.finish, Finish::Handed);
        self.ends.fetch_add(1, Ordering::Relaxed);
        if !ending.edges.is_null() {
            self.released.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ties a child to the parent, which may run, and runs it.
    fn tie_and_run(&self, child: usize) -> bool {
        let is_tied = open_for_child(&self.parent);
        if is_tied {
            assert!(!self.parent.state.is_done(), "the parent ended before its child");
            self.run_child(child);
        }
        is_tied
    }

    fn assert_ended_with(&self, effects: &[usize]) {
        assert!(self.parent.state.is_done());
        assert_eq!(self.ends.load(Ordering::Relaxed), 1);
        for effect in effects {
            assert_eq!(self.effects[*effect].read(), 1);
        }
    }
}

fn in_thread<R: 'static>(scene: &Arc<Scene>, f: impl FnOnce(&Scene) -> R + 'static) -> JoinHandle<R> {
    let scene = Arc::clone(scene);
    thread::spawn(move || f(&scene))
}

#[test]
fn a_child_tied_to_a_running_parent_keeps_it_open_or_is_refused() {
    loom::model(|| {
        let scene = Scene::queued();
        let worker = in_thread(&scene, Scene::run_parent);
        let _ = scene.tie_and_run(1);
        worker.join().unwrap();
        scene.assert_ended_with(&[0]);
    });
}

/// Whoever waits for the parent sees what its closure and its child have done.
#[test]
fn the_waiter_sees_what_the_child_has_done() {
    loom::model(|| {
        let scene = Scene::queued();
        let worker = in_thread(&scene, Scene::run_parent);
        if open_for_child(&scene.parent) {
            let child = in_thread(&scene, |scene| scene.run_child(1));
            while !scene.parent.state.is_done() {
                thread::yield_now();
            }
            assert_eq!(scene.effects[1].read(), 1);
            child.join().unwrap();
        }
        worker.join().unwrap();
        scene.assert_ended_with(&[0]);
    });
}

#[test]
fn two_threads_tie_children_to_a_running_parent() {
    loom::model(|| {
        let scene = Scene::queued();
        let worker = in_thread(&scene, Scene::run_parent);
        let other = in_thread(&scene, |scene| scene.tie_and_run(2));
        let _ = scene.tie_and_run(1);
        let _ = other.join().unwrap();
        worker.join().unwrap();
        scene.assert_ended_with(&[0]);
    });
}

/// A successor of the parent waits for a child that was tied before it, and for one that was tied after it.
#[test]
fn a_successor_is_not_released_while_a_child_is_open() {
    loom::model(|| {
        let scene = Scene::queued();
        let worker = in_thread(&scene, Scene::run_parent);
        let attached = attach(&scene.parent, &scene.edge);
        if open_for_child(&scene.parent) {
            assert_eq!(attached, Attached::Kept);
            assert_eq!(scene.released.load(Ordering::Relaxed), 0, "the successor ran before the child");
            scene.run_child(1);
        }
        worker.join().unwrap();
        scene.assert_ended_with(&[0]);
    });
}

/// The same, tied by two threads: as long as the child is open, the list of successors is.
#[test]
fn the_list_of_successors_is_open_as_long_as_a_child_is() {
    loom::model(|| {
        let scene = Scene::queued();
        let worker = in_thread(&scene, Scene::run_parent);
        let other = in_thread(&scene, |scene| {
            let _ = attach(&scene.parent, &scene.edge);
        });
        if open_for_child(&scene.parent) {
            let late = Slot::new();
            assert_eq!(attach(&scene.parent, &late), Attached::Kept, "the successor was released before the child");
            scene.run_child(1);
        }
        other.join().unwrap();
        worker.join().unwrap();
        scene.assert_ended_with(&[0]);
    });
}

/// Children of a parent that is being built are counted beside `open`, and may end before it is scheduled.
#[test]
fn children_that_end_while_the_parent_is_built_do_not_end_it() {
    loom::model(|| {
        let parent = Slot::new();
        parent.set_alone_in_its_group();
        parent.state.prepare(true, crate::Priority::Normal);
        begin_building(&parent);
        let scene = Scene::with(parent);
        let children = [1, 2].map(|child| in_thread(&scene, move |scene| scene.run_child(child)));
        end_building(&scene.parent, 2);
        scene.parent.state.schedule(false, true);
        scene.run_parent();
        while !scene.parent.state.is_done() {
            thread::yield_now();
        }
        assert_eq!([1, 2].map(|child: usize| scene.effects[child].read()), [1, 1]);
        for child in children {
            child.join().unwrap();
        }
        scene.assert_ended_with(&[0, 1, 2]);
    });
}

/// A scope's owner counts what it has spawned when its closure ends; two workers tell their tallies; the scope ends once,
/// after all. One of the tasks spawns another.
#[test]
fn a_scope_ends_once_after_all_its_tasks() {
    const BUILDING: u32 = 1 << 31;
    loom::model(|| {
        let root = Slot::new();
        root.state.open_root();
        root.open.store(BUILDING, Ordering::Relaxed);
        let scene = Scene::with(root);
        let one = in_thread(&scene, |scene| {
            scene.effects[1].write(1);
            scene.count_ends(2);
        });
        let two = in_thread(&scene, |scene| {
            // Spawned by a task, so counted at once; run and told with the task that spawned it.
            scene.parent.open.fetch_add(1, Ordering::Relaxed);
            scene.effects[2].write(1);
            scene.count_ends(2);
        });
        scene.effects[0].write(1);
        scene.count_ends(BUILDING - 3);
        while !scene.parent.state.is_done() {
            thread::yield_now();
        }
        assert_eq!([1, 2].map(|child: usize| scene.effects[child].read()), [1, 1]);
        one.join().unwrap();
        two.join().unwrap();
        scene.assert_ended_with(&[0]);
    });
}
