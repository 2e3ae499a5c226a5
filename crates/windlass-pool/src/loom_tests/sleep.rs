//! Announce, pass the bells, look again, park, against push, ring, wake: no task is left while everybody sleeps.

use loom::thread::{self, JoinHandle, Thread};

use crate::sleep::{Bell, Sleep};
use crate::sync::{Arc, AtomicBool, Ordering};

/// A pool with a bell for each pusher, and places where work may appear.
struct Scene {
    sleep: Sleep,
    bells: Vec<Bell>,
    /// Relaxed on purpose: only the protocol of `sleep` may order it.
    work: Vec<AtomicBool>,
    /// Whom to unpark. The lock is not loom's: the handles must order nothing.
    threads: std::sync::Mutex<Vec<Option<Thread>>>,
}

impl Scene {
    fn new(workers: usize, pushers: usize, pieces: usize) -> Arc<Scene> {
        Arc::new(Scene {
            sleep: Sleep::new(),
            bells: (0..pushers).map(|_| Bell::default()).collect(),
            work: (0..pieces).map(|_| AtomicBool::new(false)).collect(),
            threads: std::sync::Mutex::new(vec![None; workers]),
        })
    }

    /// P1 to P3.
    fn push(&self, pusher: usize, piece: usize) {
        self.work[piece].store(true, Ordering::Relaxed);
        if self.bells[pusher].ring() {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        if let Some(worker) = self.sleep.notify() {
            let thread = self.threads.lock().unwrap()[worker as usize].clone();
            thread.expect("who announces itself is there").unpark();
        }
    }

    fn pass_bells(&self) {
        self.bells.iter().for_each(Bell::pass);
    }

    fn has_work(&self) -> bool {
        self.work.iter().any(|piece| piece.load(Ordering::Relaxed))
    }

    fn find(&self) -> bool {
        let take = |piece: &AtomicBool| {
            piece.load(Ordering::Relaxed)
                && piece.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.work.iter().any(take)
    }

    /// As `sleep_unless`: S1 to S4. Answers whether somebody woke it, and counted it as a searcher.
    fn sleep(&self, worker: u32) -> bool {
        self.sleep.announce(worker);
        self.pass_bells();
        if !self.has_work() {
            // If nobody unparks this thread, loom reports a deadlock.
            thread::park();
        }
        self.sleep.give_up(worker)
    }

    /// A worker's life until it has found so many pieces: search, sleep, search.
    fn live(&self, worker: u32, pieces: usize) {
        self.threads.lock().unwrap()[worker as usize] = Some(thread::current());
        let mut is_searching = false;
        for _ in 0..pieces {
            loop {
                if !is_searching {
                    self.sleep.begin_search();
                }
                if self.find() {
                    break;
                }
                self.sleep.end_search();
                is_searching = self.sleep(worker);
            }
            is_searching = false;
            self.found();
        }
    }

    /// As `Lane::found`.
    fn found(&self) {
        if self.sleep.end_search() {
            self.pass_bells();
            if self.has_work() {
                self.wake_one();
            }
        }
    }
}

fn worker(scene: &Arc<Scene>, number: u32, pieces: usize) -> JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || scene.live(number, pieces))
}

#[test]
fn work_of_a_stranger_is_never_missed() {
    loom::model(|| {
        let scene = Scene::new(1, 1, 1);
        let worker = worker(&scene, 0, 1);
        scene.push(0, 0);
        worker.join().unwrap();
        assert!(!scene.sleep.is_anybody_idle(), "the counts are not those of the lists");
    });
}

/// The second push may find the bell quiet because the first has taken the mark away.
#[test]
fn two_pushes_in_a_row_are_never_missed() {
    loom::model(|| {
        let scene = Scene::new(1, 1, 2);
        let worker = worker(&scene, 0, 2);
        scene.push(0, 0);
        scene.push(0, 1);
        worker.join().unwrap();
    });
}

#[test]
fn pushes_of_two_threads_are_never_missed() {
    loom::model(|| {
        let scene = Scene::new(1, 2, 2);
        let worker = worker(&scene, 0, 2);
        let other = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.push(1, 1))
        };
        scene.push(0, 0);
        other.join().unwrap();
        worker.join().unwrap();
    });
}

/// Each of two workers is busy with what it finds: the one that found the first piece, or the pusher, must see to it that
/// the other finds the second.
#[test]
fn the_last_searcher_that_found_something_wakes_the_next() {
    loom::model(|| {
        let scene = Scene::new(2, 1, 2);
        let workers = [worker(&scene, 0, 1), worker(&scene, 1, 1)];
        scene.push(0, 0);
        scene.push(0, 1);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two notices and two sleepers: one is woken, and searches for both; nobody is taken off twice.
#[test]
fn no_sleeper_is_woken_twice() {
    loom::model(|| {
        let sleep = Arc::new(Sleep::new());
        sleep.announce(0);
        sleep.announce(1);
        let other = {
            let sleep = Arc::clone(&sleep);
            thread::spawn(move || sleep.notify())
        };
        let mine = sleep.notify();
        let other = other.join().unwrap();
        assert!(mine.is_some() || other.is_some());
        assert_ne!(mine, other);
        assert_eq!(sleep.notify(), None, "the one that was woken searches");
    });
}

/// Who is woken while it gives up counts as a searcher, once.
#[test]
fn giving_up_races_with_being_woken() {
    loom::model(|| {
        let sleep = Arc::new(Sleep::new());
        sleep.announce(0);
        let other = {
            let sleep = Arc::clone(&sleep);
            thread::spawn(move || sleep.notify())
        };
        let was_woken = sleep.give_up(0);
        assert_eq!(other.join().unwrap().is_some(), was_woken);
        if was_woken {
            sleep.end_search();
        }
        assert!(!sleep.is_anybody_idle());
    });
}
