//! One operation of the pool, so many times: `instructions NAME COUNT`. Without arguments it names the operations.
//!
//! For `cargo xtask instructions`, which runs it under a simulator of the processor that counts every instruction. The
//! pool's threads are never started, so one thread does everything, in the same order each time. What looks at the clock is not among them: nested joins
//! and loops decide by it what they show to others, and their counts would differ from run to run.

#![expect(clippy::print_stdout, reason = "it tells what it can do")]

use std::hint::black_box;

use windlass_pool::{Pool, PoolConfig};

type Operation = (&'static str, fn(&Pool, usize));

const OPERATIONS: &[Operation] = &[
    ("spawn_and_wait", |pool, count| {
        times(count, |number| pool.spawn(move || number).wait());
    }),
    // In hundreds, so that tasks are queued behind each other, and run from the queue.
    ("spawn_detached_and_run", |pool, count| {
        times(count / 100, |_| {
            times(100, |number| pool.spawn_detached(move || use_up(number)));
            pool.wait_idle();
        });
    }),
    ("scope_spawn_and_run", |pool, count| {
        times(count / 100, |_| pool.scope(|s| times(100, |number| s.spawn(move |_| use_up(number)))));
    }),
    ("join", |pool, count| times(count, |number| pool.join(|| number, || number + 1))),
    ("prepare_and_run", |pool, count| times(count, |number| pool.prepare(move || number).run())),
    ("prepare_schedule_and_wait", |pool, count| {
        times(count, |number| pool.prepare(move || number).schedule().wait());
    }),
    ("continue_with", |pool, count| {
        times(count, |number| {
            let (first, second) = (pool.prepare(move || number), pool.prepare(move || number));
            first.continue_with(&second);
            let second = second.schedule();
            first.run() + second.wait()
        });
    }),
    ("spawn_and_cancel", |pool, count| times(count, |number| pool.spawn(move || number).cancel())),
];

/// Calls `f` with so many numbers.
fn times<T>(count: usize, f: impl Fn(usize) -> T) {
    for number in 0..count {
        black_box(f(number));
    }
}

fn use_up(number: usize) {
    black_box(number);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = &arguments[..] else {
        OPERATIONS.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, operation) = OPERATIONS.iter().find(|operation| operation.0 == name).expect("an operation's name");
    let pool = Pool::unstarted(PoolConfig { threads: 1, ..PoolConfig::default() }).unwrap();
    operation(&pool, count.parse().expect("a number"));
}
