//! The counter of a segment: the last predecessor sees what all have done, and the next run finds it set again.

use loom::thread;

use super::Watched;
use crate::graph::counter::Counter;
use crate::sync::{Arc, AtomicBool, Ordering};

/// A segment with two predecessors, which each leave a number.
struct Scene {
    counter: Counter,
    numbers: [Watched; 2],
    is_done: AtomicBool,
}

impl Scene {
    /// A predecessor ends; the last one runs the segment.
    fn end(&self, number: usize, value: u32, is_skipped: bool) {
        self.numbers[number].write(value);
        if self.counter.release(is_skipped) {
            let is_skipped = self.counter.begin();
            assert_eq!(is_skipped, value == 0);
            assert_eq!((self.numbers[0].read(), self.numbers[1].read()), (value, value));
            self.is_done.store(true, Ordering::Release);
        }
    }
}

/// Two runs: in the first, `skip_first` says which predecessors were skipped.
fn two_runs(skip_first: bool) {
    loom::model(move || {
        let numbers = [Watched::new(9), Watched::new(9)];
        let scene = Arc::new(Scene { counter: Counter::new(2), numbers, is_done: AtomicBool::new(false) });
        for run in 0..2 {
            let is_skipped = skip_first && run == 0;
            let value = u32::from(!is_skipped);
            let other = {
                let scene = Arc::clone(&scene);
                thread::spawn(move || scene.end(0, value, is_skipped))
            };
            scene.end(1, value, is_skipped);
            while !scene.is_done.load(Ordering::Acquire) {
                thread::yield_now();
            }
            scene.is_done.store(false, Ordering::Relaxed);
            // The next run begins when this one has ended, not when its threads have.
            if run == 1 {
                other.join().unwrap();
            }
        }
    });
}

#[test]
fn the_last_predecessor_sees_what_both_have_done_in_every_run() {
    two_runs(false);
}

#[test]
fn a_skip_is_seen_once_and_not_in_the_next_run() {
    two_runs(true);
}

/// Conditions may enter a segment twice at a time: one of them is refused, or comes after the other.
#[test]
fn a_segment_is_run_by_one_thread_at_a_time() {
    loom::model(|| {
        let scene = Arc::new((Counter::new(0), Watched::new(0)));
        let enter = |scene: &(Counter, Watched)| {
            if scene.0.enter().is_some() {
                scene.1.write(scene.1.read() + 1);
                scene.0.leave();
            }
        };
        let other = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || enter(&scene))
        };
        enter(&scene);
        other.join().unwrap();
        assert!((1..=2).contains(&scene.1.read()));
    });
}
