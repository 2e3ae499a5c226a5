//! Announce, look again, park, against publish, notify, wake: no task is left while its worker sleeps.

use loom::thread;

use crate::sleep::Sleep;
use crate::sync::{Arc, AtomicBool, Ordering};

/// A worker with one place where work may appear.
struct Scene {
    sleep: Sleep,
    /// Relaxed on purpose: only the protocol of `sleep` may order it.
    work: AtomicBool,
}

#[test]
fn sleep_work_published_by_a_stranger_is_never_missed() {
    loom::model(|| {
        let scene = Arc::new(Scene { sleep: Sleep::new(), work: AtomicBool::new(false) });
        let sleeper = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                loop {
                    scene.sleep.announce(0);
                    if scene.work.load(Ordering::Relaxed) {
                        scene.sleep.give_up(0);
                        return;
                    }
                    // If nobody unparks this thread, loom reports a deadlock.
                    thread::park();
                    scene.sleep.give_up(0);
                    if scene.work.load(Ordering::Relaxed) {
                        return;
                    }
                }
            })
        };
        scene.work.store(true, Ordering::Relaxed);
        if let Some(worker) = scene.sleep.notify() {
            assert_eq!(worker, 0);
            sleeper.thread().unpark();
        }
        sleeper.join().unwrap();
    });
}

/// Two notices and two sleepers: nobody is taken off twice, and the count stays that of the list.
#[test]
fn sleep_no_sleeper_is_woken_twice() {
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
        assert!(mine.is_some() && other.is_some());
        assert_ne!(mine, other);
        assert_eq!(sleep.notify(), None);
    });
}
