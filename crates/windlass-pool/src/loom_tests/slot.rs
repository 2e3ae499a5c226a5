//! The word of a slot: claims, completion and use again.

use loom::cell::UnsafeCell;
use loom::thread;

use crate::slot::{Detach, Finish, SlotState};
use crate::sync::Arc;

/// A slot whose body is one number, watched by loom.
struct Scene {
    state: SlotState,
    body: UnsafeCell<u32>,
}

// SAFETY: the body is touched under the transitions of `state` only; that this is enough is what the models show.
unsafe impl Sync for Scene {}

fn scene() -> Arc<Scene> {
    Arc::new(Scene { state: SlotState::new(), body: UnsafeCell::new(0) })
}

fn write(scene: &Scene, value: u32) {
    // SAFETY: the caller has the body by a transition; loom objects if it has not.
    scene.body.with_mut(|body| unsafe { *body = value });
}

fn read(scene: &Scene) -> u32 {
    // SAFETY: as `write`.
    scene.body.with(|body| unsafe { *body })
}

#[test]
fn slot_a_task_is_claimed_once() {
    loom::model(|| {
        let scene = scene();
        write(&scene, 1);
        let id = scene.state.queue(0);
        let other = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.state.claim(id))
        };
        let mine = scene.state.claim(id);
        assert!(mine ^ other.join().unwrap());
    });
}

/// The result is there when the word says done, and the slot may be freed and used again at once.
#[test]
fn slot_completion_publishes_the_result_and_is_the_last_touch() {
    loom::model(|| {
        let scene = scene();
        write(&scene, 1);
        let id = scene.state.queue(0);
        let worker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                assert!(scene.state.claim(id));
                assert_eq!(read(&scene), 1);
                write(&scene, 2);
                assert_eq!(scene.state.finish(|_| ()), Finish::Handed);
            })
        };
        while !scene.state.is_done() {
            thread::yield_now();
        }
        assert_eq!(read(&scene), 2);
        scene.state.free();
        write(&scene, 3);
        let next = scene.state.queue(0);
        assert!(!scene.state.claim(id));
        assert!(scene.state.claim(next));
        worker.join().unwrap();
    });
}

/// Either the worker sees that nobody will ask, or the handle sees that it is done: exactly one of them tidies up.
#[test]
fn slot_a_detached_result_is_dropped_once() {
    loom::model(|| {
        let scene = scene();
        write(&scene, 1);
        let id = scene.state.queue(0);
        let worker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                assert!(scene.state.claim(id));
                write(&scene, 2);
                let finish = scene.state.finish(|_| ());
                if finish == Finish::Orphaned {
                    write(&scene, 0);
                }
                finish
            })
        };
        let detach = scene.state.detach();
        if detach == Detach::Mine {
            write(&scene, 0);
        }
        let finish = worker.join().unwrap();
        assert!((detach == Detach::Mine) ^ (finish == Finish::Orphaned));
    });
}

/// A waiter that registered is seen by the worker, or the waiter sees that it is done.
#[test]
fn slot_a_waiter_is_never_forgotten() {
    loom::model(|| {
        let scene = scene();
        let id = scene.state.queue(0);
        let worker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                assert!(scene.state.claim(id));
                let mut is_waited_for = false;
                let finish = scene.state.finish(|is_waiting| {
                    is_waited_for = is_waiting;
                    if is_waiting {
                        // The waiter wrote this before it set its flag.
                        assert_eq!(read(&scene), 7);
                    }
                });
                assert_eq!(finish, Finish::Handed);
                is_waited_for
            })
        };
        write(&scene, 7);
        let is_registered = scene.state.add_waiter();
        let is_waited_for = worker.join().unwrap();
        assert_eq!(is_registered, is_waited_for);
    });
}
