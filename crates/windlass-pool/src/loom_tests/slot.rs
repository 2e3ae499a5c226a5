//! The word of a slot: claims, completion, cancelling, use again.

use loom::thread::{self, JoinHandle};

use super::Watched;
use crate::slot::{Detach, Ended, Entered, Finish, SlotState};
use crate::sync::{Arc, AtomicUsize, Ordering};

struct Scene {
    state: SlotState,
    /// The closure, and then its outcome.
    body: Watched,
    /// Whom to wake.
    waiter: Watched,
    freed: AtomicUsize,
}

/// A task that is queued, with a handle.
fn queued() -> Arc<Scene> {
    let state = SlotState::new();
    state.queue_held();
    Arc::new(Scene { state, body: Watched::new(1), waiter: Watched::new(0), freed: AtomicUsize::new(0) })
}

impl Scene {
    /// Runs the closure, once.
    fn run(&self) {
        assert_eq!(self.body.read(), 1);
        self.body.write(2);
    }

    /// As `end_body`. Answers whom it found to be woken.
    fn end(&self) -> Option<u32> {
        let mut waiter = None;
        let finish = self.state.finish(Ended::Closure, |duties| {
            waiter = duties.has_waiter.then(|| self.waiter.read());
        });
        match finish {
            Finish::Handed => {}
            Finish::Orphaned => self.discard(),
            Finish::Open => panic!("nobody keeps it open"),
        }
        waiter
    }

    fn discard(&self) {
        assert_eq!(self.body.read(), 2);
        self.body.write(0);
        self.leave();
    }

    fn leave(&self) {
        if self.state.leave() {
            self.free();
        }
    }

    /// The slot is nobody's any more: it is written by its next user.
    fn free(&self) {
        self.state.free();
        self.body.write(3);
        self.waiter.write(0);
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// As `run_entry`.
    fn enter(&self) -> Option<u32> {
        match self.state.enter() {
            Entered::Alone => {
                self.state.claim_alone();
                self.run();
                self.end()
            }
            Entered::Shared => {
                self.run();
                self.end()
            }
            Entered::Spent => None,
            Entered::SpentLast => {
                self.free();
                None
            }
        }
    }

    fn freed(&self) -> usize {
        self.freed.load(Ordering::Relaxed)
    }
}

/// A worker, which has taken the entry out of a queue.
fn worker(scene: &Arc<Scene>) -> JoinHandle<Option<u32>> {
    let scene = Arc::clone(scene);
    thread::spawn(move || scene.enter())
}

/// The holder of the handle takes the task over, or waits for the worker; then takes the outcome. The entry comes out of
/// the queue meanwhile, and the slot is freed by one of the two.
#[test]
fn a_task_is_claimed_once_and_freed_once() {
    loom::model(|| {
        let scene = queued();
        let worker = worker(&scene);
        if scene.state.claim() {
            scene.run();
            assert_eq!(scene.end(), None);
        }
        while !scene.state.is_done() {
            thread::yield_now();
        }
        assert_eq!(scene.body.read(), 2);
        scene.leave();
        worker.join().unwrap();
        assert_eq!(scene.freed(), 1);
    });
}

/// The result is there when the word says done, and the slot may be freed and used again at once.
#[test]
fn completion_publishes_the_result_and_is_the_last_touch() {
    loom::model(|| {
        let scene = queued();
        let worker = worker(&scene);
        while !scene.state.is_done() {
            thread::yield_now();
        }
        assert_eq!(scene.body.read(), 2);
        // The worker has taken the entry out: this is the last hold.
        assert!(scene.state.leave());
        scene.free();
        scene.body.write(1);
        scene.state.queue_alone();
        assert_eq!(scene.enter(), None);
        worker.join().unwrap();
        assert_eq!(scene.freed(), 2);
    });
}

/// Either the worker sees that nobody will ask, or the handle sees that it is done: exactly one of them tidies up.
#[test]
fn a_detached_result_is_dropped_once() {
    loom::model(|| {
        let scene = queued();
        let worker = worker(&scene);
        if scene.state.detach() == Detach::Mine {
            scene.discard();
        }
        worker.join().unwrap();
        assert_eq!(scene.freed(), 1);
    });
}

/// A waiter that registered is seen by the worker, or the waiter sees that it is done.
#[test]
fn a_waiter_is_never_forgotten() {
    loom::model(|| {
        let scene = queued();
        let worker = worker(&scene);
        scene.waiter.write(7);
        let is_registered = scene.state.add_waiter();
        let woken = worker.join().unwrap();
        assert_eq!(is_registered.then_some(7), woken);
    });
}

/// Whoever registered may drop the handle before the task begins: the worker still finds what was written.
#[test]
fn what_the_handle_left_is_there_for_the_worker() {
    loom::model(|| {
        let scene = queued();
        let worker = worker(&scene);
        scene.waiter.write(7);
        let _ = scene.state.add_waiter();
        if scene.state.detach() == Detach::Mine {
            scene.discard();
        }
        worker.join().unwrap();
        assert_eq!(scene.freed(), 1);
    });
}

/// The closure is run or dropped unrun, not both, and the outcome is there either way.
#[test]
fn a_task_is_cancelled_or_started() {
    loom::model(|| {
        let scene = queued();
        let worker = worker(&scene);
        if scene.state.claim_to_cancel() {
            // Drops the closure, and leaves that it was cancelled.
            scene.run();
            assert_eq!(scene.end(), None);
            assert!(scene.state.is_done());
        }
        if scene.state.detach() == Detach::Mine {
            scene.discard();
        }
        worker.join().unwrap();
        assert_eq!(scene.freed(), 1);
    });
}

/// Two holders of a shared handle cancel.
#[test]
fn a_task_is_cancelled_once() {
    loom::model(|| {
        let scene = queued();
        let other = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.state.claim_to_cancel())
        };
        let mine = scene.state.claim_to_cancel();
        assert!(mine ^ other.join().unwrap());
    });
}

/// A task that waits for a predecessor is cancelled while the predecessor ends: its entry comes all the same, and the
/// slot is freed once.
#[test]
fn a_blocked_task_is_cancelled_while_it_is_unblocked() {
    loom::model(|| {
        let state = SlotState::new();
        state.prepare(true, crate::Priority::Normal);
        state.schedule(true, true);
        let freed = AtomicUsize::new(0);
        let scene = Arc::new(Scene { state, body: Watched::new(1), waiter: Watched::new(0), freed });
        let predecessor = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.state.unblock();
                // Through a queue.
                assert_eq!(scene.enter(), None);
            })
        };
        if scene.state.claim_to_cancel() {
            scene.run();
            assert_eq!(scene.end(), None);
        }
        if scene.state.detach() == Detach::Mine {
            scene.discard();
        }
        predecessor.join().unwrap();
        assert_eq!(scene.freed(), 1);
    });
}
