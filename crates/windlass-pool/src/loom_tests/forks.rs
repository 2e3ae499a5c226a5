//! The cells of shown forks: whoever wants a fork, owner or thief, one of them gets it, and its closure is there.

use loom::thread::{self, JoinHandle};

use super::Watched;
use crate::forks::{ForkHead, ForkState, ShownForks};
use crate::sync::Arc;

/// As in `join.rs`: the head comes first.
#[repr(C)]
struct Fork {
    head: ForkHead,
    /// How often it was taken.
    closure: Watched,
}

impl Fork {
    fn new() -> Fork {
        let head = ForkHead { run: |_, _| unreachable!("forks of a model are not run"), state: ForkState::new() };
        Fork { head, closure: Watched::new(7) }
    }
}

struct Scene {
    shown: ShownForks,
    forks: Vec<Fork>,
}

impl Scene {
    fn new() -> Arc<Scene> {
        Arc::new(Scene { shown: ShownForks::new(), forks: vec![Fork::new(), Fork::new()] })
    }

    /// Writes a fork's closure, and shows it.
    fn show(&self, place: usize) {
        self.forks[place].closure.write(0);
        self.shown.show(place, &raw const self.forks[place].head);
    }

    fn take_back(&self, place: usize) {
        if self.shown.take_back(place) {
            self.forks[place].closure.add_one();
        }
    }

    fn steal(&self) {
        if let Some(fork) = self.shown.steal() {
            // SAFETY: the head is the first field of a fork of this scene.
            let fork = unsafe { &*fork.cast::<Fork>() };
            fork.closure.add_one();
        }
    }
}

fn thief(scene: &Arc<Scene>, times: usize) -> JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || (0..times).for_each(|_| scene.steal()))
}

#[test]
fn a_fork_is_taken_back_or_stolen_by_one_of_two_thieves() {
    loom::model(|| {
        let scene = Scene::new();
        let thieves = [thief(&scene, 1), thief(&scene, 1)];
        scene.show(0);
        scene.take_back(0);
        for thief in thieves {
            thief.join().unwrap();
        }
        assert_eq!(scene.forks[0].closure.read(), 1);
    });
}

#[test]
fn nested_forks_are_taken_once_each() {
    loom::model(|| {
        let scene = Scene::new();
        let thief = thief(&scene, 2);
        scene.show(0);
        scene.show(1);
        scene.take_back(1);
        scene.take_back(0);
        thief.join().unwrap();
        assert_eq!([0, 1].map(|place: usize| scene.forks[place].closure.read()), [1, 1]);
    });
}
