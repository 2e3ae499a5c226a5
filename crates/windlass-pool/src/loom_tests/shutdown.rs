//! Telling a pool to stop against its workers: what was pushed before is run, and everybody learns of it.

use loom::thread::{self, JoinHandle};

use crate::ring::{Ring, Steal};
use crate::sleep::Sleep;
use crate::stop::{Look, StopSign};
use crate::sync::Arc;

struct Scene {
    /// Of an outside thread.
    ring: Ring,
    stop_sign: StopSign,
    sleep: Sleep,
}

impl Scene {
    fn new() -> Arc<Scene> {
        Arc::new(Scene { ring: Ring::new(), stop_sign: StopSign::new(), sleep: Sleep::new() })
    }

    fn find(&self) -> Option<usize> {
        loop {
            match self.ring.steal() {
                Steal::Got(entry) => return Some(entry),
                Steal::Empty => return None,
                Steal::Lost => thread::yield_now(),
            }
        }
    }

    /// As `next_work`, over and over. Answers how much it has found.
    fn work(&self, worker: u32) -> usize {
        let mut found = 0;
        loop {
            match self.stop_sign.look(|| self.find()) {
                Look::Found(_) => found += 1,
                Look::Nothing => self.rest(worker),
                Look::End => return found,
            }
        }
    }

    /// As `sleep_unless`: who is about to sleep looks at the sign after its announcement. Pushes wake nobody here.
    fn rest(&self, worker: u32) {
        self.sleep.announce(worker);
        if !self.stop_sign.is_set() {
            thread::park();
        }
        if self.sleep.give_up(worker) {
            self.sleep.end_search();
        }
    }

    /// As `Shared::stop`: everybody is taken off the list and unparked after the sign is set.
    fn stop(&self, after_draining: bool, workers: &[JoinHandle<usize>]) {
        self.stop_sign.set(after_draining);
        self.sleep.take_all();
        for worker in workers {
            worker.thread().unpark();
        }
    }
}

fn worker(scene: &Arc<Scene>, number: u32) -> JoinHandle<usize> {
    let scene = Arc::clone(scene);
    thread::spawn(move || scene.work(number))
}

/// Pushes so many tasks, stops the workers, and answers how many tasks they have found.
fn push_and_stop(scene: &Arc<Scene>, tasks: usize, workers: Vec<JoinHandle<usize>>, after_draining: bool) -> usize {
    (0..tasks).for_each(|number| scene.ring.push(FIRST_ENTRY + number));
    scene.stop(after_draining, &workers);
    let found = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert!(!scene.sleep.is_anybody_idle(), "a worker has ended that counts as a sleeper");
    found
}

/// Entries that no cell takes for a mark are larger.
const FIRST_ENTRY: usize = 16;

#[test]
fn nothing_that_was_pushed_before_is_left() {
    loom::model(|| {
        let scene = Scene::new();
        let workers = vec![worker(&scene, 0)];
        assert_eq!(push_and_stop(&scene, 2, workers, true), 2);
        assert!(scene.ring.is_empty());
    });
}

#[test]
fn two_workers_leave_nothing_between_them() {
    loom::model(|| {
        let scene = Scene::new();
        let workers = vec![worker(&scene, 0), worker(&scene, 1)];
        assert_eq!(push_and_stop(&scene, 1, workers, true), 1);
    });
}

/// Without draining what is queued stays so, and is found when the workers are started again.
#[test]
fn what_is_not_drained_stays_queued() {
    loom::model(|| {
        let scene = Scene::new();
        let workers = vec![worker(&scene, 0)];
        let found = push_and_stop(&scene, 1, workers, false);
        assert_eq!(found + scene.ring.len(), 1);
    });
}

#[test]
fn a_worker_about_to_sleep_learns_that_it_is_to_end() {
    loom::model(|| {
        let scene = Scene::new();
        let workers = vec![worker(&scene, 0)];
        assert_eq!(push_and_stop(&scene, 0, workers, true), 0);
    });
}
