//! The end of a stolen fork against its owner: the outcome is there, and an owner that sleeps is woken.

use loom::thread::{self, Thread};

use super::Watched;
use crate::forks::ForkState;
use crate::sync::Arc;

struct Scene {
    state: ForkState,
    outcome: Watched,
}

fn scene() -> Arc<Scene> {
    Arc::new(Scene { state: ForkState::new(), outcome: Watched::new(0) })
}

/// As `run_fork`: leaves the outcome, ends the fork, wakes the owner if it is asked to.
fn thief(scene: &Arc<Scene>, owner: Thread) -> thread::JoinHandle<()> {
    let scene = Arc::clone(scene);
    thread::spawn(move || {
        scene.outcome.write(7);
        if scene.state.end() {
            owner.unpark();
        }
    })
}

#[test]
fn the_outcome_is_there_once_the_fork_has_ended() {
    loom::model(|| {
        let scene = scene();
        let thief = thief(&scene, thread::current());
        if scene.state.has_ended() {
            assert_eq!(scene.outcome.read(), 7);
        }
        thief.join().unwrap();
        assert!(scene.state.has_ended());
    });
}

/// As `wait`: looks, registers, looks once more, sleeps.
#[test]
fn an_owner_about_to_sleep_is_woken_or_sees_the_end() {
    loom::model(|| {
        let scene = scene();
        let thief = thief(&scene, thread::current());
        let mut is_registered = false;
        while !scene.state.has_ended() {
            if is_registered {
                thread::park();
            } else {
                is_registered = scene.state.add_waiter();
            }
        }
        assert_eq!(scene.outcome.read(), 7);
        thief.join().unwrap();
    });
}

/// An owner that was woken for something else registers again, and is told that it still is.
#[test]
fn an_owner_may_register_twice() {
    loom::model(|| {
        let scene = scene();
        let thief = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.outcome.write(7);
                scene.state.end()
            })
        };
        let first = scene.state.add_waiter();
        let second = scene.state.add_waiter();
        assert!(first || !second);
        if !second {
            assert_eq!(scene.outcome.read(), 7);
        }
        assert_eq!(thief.join().unwrap(), first);
    });
}
