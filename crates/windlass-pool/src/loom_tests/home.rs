//! Handles counted in plain memory here and by an exchange elsewhere: their home is freed once, and never under one.

use loom::thread;

use super::Watched;
use crate::home::AwayCount;
use crate::sync::{Arc, AtomicBool, Ordering};

struct Scene {
    away: AwayCount,
    /// What the home keeps: read by everybody who has a handle, written by whoever frees it.
    pool: Watched,
    is_freed: AtomicBool,
}

impl Scene {
    fn new() -> Arc<Scene> {
        Arc::new(Scene { away: AwayCount::new(), pool: Watched::new(1), is_freed: AtomicBool::new(false) })
    }

    fn drop_elsewhere(&self) {
        assert_eq!(self.pool.read(), 1);
        if self.away.drop_elsewhere() {
            self.free();
        }
    }

    fn detach(&self, held: i64) {
        assert_eq!(self.pool.read(), 1);
        if self.away.detach(held) {
            self.free();
        }
    }

    fn free(&self) {
        self.pool.write(0);
        assert!(!self.is_freed.swap(true, Ordering::Relaxed), "freed twice");
    }
}

/// Another thread drops so many handles, while the lane goes with `held` made and not dropped on it; what is alive then,
/// its thread drops later, which is elsewhere, too.
fn race(dropped_by: [usize; 2], held: i64) {
    loom::model(move || {
        let scene = Scene::new();
        let others = dropped_by.map(|count| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || (0..count).for_each(|_| scene.drop_elsewhere()))
        });
        scene.detach(held);
        let left = held as usize - dropped_by.iter().sum::<usize>();
        (0..left).for_each(|_| scene.drop_elsewhere());
        for other in others {
            other.join().unwrap();
        }
        assert!(scene.is_freed.load(Ordering::Relaxed), "never freed");
    });
}

#[test]
fn the_lane_goes_while_its_only_handle_is_dropped_elsewhere() {
    race([1, 0], 1);
}

#[test]
fn the_lane_goes_while_handles_are_dropped_on_two_threads() {
    race([2, 1], 3);
}

#[test]
fn a_handle_outlives_the_lane_on_its_own_thread() {
    race([1, 0], 2);
}

/// Made and dropped here: the lane is the last.
#[test]
fn a_lane_without_handles_frees_its_home() {
    loom::model(|| {
        let scene = Scene::new();
        scene.detach(0);
        assert!(scene.is_freed.load(Ordering::Relaxed));
    });
}
