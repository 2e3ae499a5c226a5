//! A pool that has worked and has nothing to do, for ten seconds: `strace -f -c -p` it, and see no system call.

use std::time::Duration;

fn main() {
    let pool = windlass_pool::Pool::new().unwrap();
    pool.for_each(0..1_000_000, |number| {
        std::hint::black_box(number);
    });
    pool.wait_idle();
    std::thread::sleep(Duration::from_secs(10));
}
