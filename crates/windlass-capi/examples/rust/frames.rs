//! A loop of frames: the bodies of each frame on all threads, and the sounds to threads that sleep in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_pool::{Burst, Pool};

pub(crate) fn run() -> String {
    let pool = Pool::new().expect("the system gives threads");
    let moved = AtomicU64::new(0);
    let heard = Arc::new(AtomicU64::new(0));
    let burst = Burst::new();
    for _ in 0..2 {
        let heard = Arc::clone(&heard);
        let play = move |sound| {
            heard.fetch_add(sound, Ordering::Relaxed);
        };
        burst.add_worker(play).expect("the system gives threads");
    }
    for _frame in 0..60 {
        burst.send_all([1, 1, 1]).expect("there are workers");
        pool.for_each(0..1_000, |_body| {
            moved.fetch_add(1, Ordering::Relaxed);
        });
        burst.wait_idle();
    }
    format!("{} bodies moved, {} sounds heard\n", moved.into_inner(), heard.load(Ordering::Relaxed))
}

#[allow(dead_code, clippy::print_stdout, reason = "an example shows what it does; a test only calls it")]
fn main() {
    print!("{}", run());
}
