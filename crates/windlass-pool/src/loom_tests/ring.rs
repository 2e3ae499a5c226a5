//! The owner of a ring against thieves: every entry is taken exactly once, and what its task needs is there.

use loom::thread::{self, JoinHandle};

use super::Watched;
use crate::ring::{Ring, Steal};
use crate::sync::Arc;

/// Entries that no cell takes for a mark are larger.
const FIRST_ENTRY: usize = 16;

struct Scene {
    ring: Ring,
    /// The bodies of the tasks: how often each was taken. Written before the task is pushed, and by whoever takes it.
    bodies: Vec<Watched>,
}

impl Scene {
    fn starting_at(start: u64) -> Arc<Scene> {
        let bodies = (0..4).map(|_| Watched::new(0)).collect();
        Arc::new(Scene { ring: Ring::starting_at(start), bodies })
    }

    fn write(&self, number: usize) -> usize {
        self.bodies[number].write(0);
        FIRST_ENTRY + number
    }

    fn push(&self, number: usize) {
        self.ring.push(self.write(number));
    }

    fn take(&self, entry: usize) {
        self.bodies[entry - FIRST_ENTRY].add_one();
    }

    fn steal(&self) {
        if let Steal::Got(entry) = self.ring.steal() {
            self.take(entry);
        }
    }

    fn pop_all(&self) {
        while let Some(entry) = self.ring.pop() {
            self.take(entry);
        }
    }
}

/// A thread that steals so often.
fn thief(scene: &Arc<Scene>, times: usize) -> JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || (0..times).for_each(|_| scene.steal()))
}

/// Waits for the thieves, and has the owner take what lost races have left.
fn end(scene: &Scene, thieves: impl IntoIterator<Item = JoinHandle<()>>, count: usize) {
    for thief in thieves {
        thief.join().unwrap();
    }
    scene.pop_all();
    assert!(scene.ring.is_empty());
    for body in &scene.bodies[..count] {
        assert_eq!(body.read(), 1);
    }
}

/// Two thieves steal once each while the owner pops everything.
fn race(count: usize, start: u64) {
    loom::model(move || {
        let scene = Scene::starting_at(start);
        (0..count).for_each(|number| scene.push(number));
        let thieves = [thief(&scene, 1), thief(&scene, 1)];
        scene.pop_all();
        end(&scene, thieves, count);
    });
}

#[test]
fn the_last_entry_is_taken_once() {
    race(1, 0);
}

#[test]
fn two_entries_are_taken_once_each() {
    race(2, 0);
}

#[test]
fn entries_are_taken_once_across_the_wrap() {
    race(2, u64::MAX);
}

/// The ring has two cells here: the third entry makes it grow.
#[test]
fn a_ring_grows_under_a_thief() {
    loom::model(|| {
        let scene = Scene::starting_at(u64::MAX);
        scene.push(0);
        scene.push(1);
        let thief = thief(&scene, 2);
        scene.push(2);
        scene.pop_all();
        end(&scene, [thief], 3);
    });
}

/// A cell is filled again while a thief may still be between its look and its exchange.
#[test]
fn a_place_is_filled_again_under_a_thief() {
    loom::model(|| {
        let scene = Scene::starting_at(0);
        scene.push(0);
        let thief = thief(&scene, 2);
        if let Some(entry) = scene.ring.pop() {
            scene.take(entry);
        }
        scene.push(1);
        scene.push(2);
        scene.pop_all();
        end(&scene, [thief], 3);
    });
}

/// The same task comes to the same cell again: the thief that saw it the first time may have it.
#[test]
fn a_task_that_comes_again_is_taken_once_each_time() {
    loom::model(|| {
        let scene = Scene::starting_at(0);
        scene.push(0);
        let thief = thief(&scene, 2);
        if scene.ring.pop().is_some() {
            // Taken by the owner, and pushed once more, as it is.
            scene.push(0);
        }
        scene.push(1);
        scene.pop_all();
        end(&scene, [thief], 2);
    });
}

#[test]
fn a_batch_is_shown_to_a_thief_that_takes_more_than_one() {
    loom::model(|| {
        let scene = Scene::starting_at(0);
        let thief = thief(&scene, 3);
        let count = scene.ring.push_many((0..3).map(|number| scene.write(number)));
        assert_eq!(count, 3);
        scene.pop_all();
        end(&scene, [thief], 3);
    });
}

#[test]
fn the_expected_task_is_popped_or_stolen() {
    loom::model(|| {
        let scene = Scene::starting_at(0);
        scene.push(0);
        scene.push(1);
        let thief = thief(&scene, 2);
        for number in [1, 0] {
            if scene.ring.pop_if(FIRST_ENTRY + number) {
                scene.take(FIRST_ENTRY + number);
            }
        }
        end(&scene, [thief], 2);
    });
}
