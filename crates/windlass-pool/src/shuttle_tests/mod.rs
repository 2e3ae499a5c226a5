//! The whole pool, with all its threads, in schedules that chance has chosen.
//!
//! A model (`loom_tests`) tries every order of the steps of one protocol. Here every protocol runs as it does in a program,
//! with three workers and the threads that use them; shuttle decides at each atomic, each lock and each park who goes on.
//! So what one protocol assumes of another is tried, too. Shuttle knows one order of memory only, the strictest: what a
//! weaker one allows is for the models to find.
//!
//! Each scenario is a small program that must end, whatever the schedule, with its books in order: every task was run
//! once, or was not run and says so. A task that is lost, or a thread that nobody wakes, leaves everybody blocked, which
//! shuttle reports.
//!
//! `cargo xtask shuttle` runs 100,000 schedules, and then builds the pool with a flaw (`--cfg windlass_weaken="NAME"`)
//! that loses a task or a wake: a scenario must fail then. A failing schedule is printed with its seed; the same again is
//! `SHUTTLE_RANDOM_SEED=SEED cargo xtask shuttle SCENARIO` for a random one, and `shuttle::replay` for any.

use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

use crate::sync::{Arc, AtomicU32, JoinHandle, Ordering};
use crate::{Pool, PoolConfig};

mod structured;
mod tasks;

mod burst;
mod graph;

mod life;

/// A schedule of a scenario that ends has a few thousand steps.
const STEPS_MAX: usize = 200_000;
/// Where the order of so many pairs of steps matters, the second scheduler is likely to find the wrong one.
const PCT_DEPTH: usize = 3;
const STACK_SIZE: usize = 256 << 10;

/// Runs a scenario so many times, or `SHUTTLE_TIMES` as often: half of them each step is given to anybody, half of them to the same one as long as
/// it can go on, but for a few steps chosen by chance (Burckhardt et al., PCT, ASPLOS 2010).
fn explore(schedules: usize, scenario: fn()) {
    let times = std::env::var("SHUTTLE_TIMES").map_or(1, |times| times.parse().expect("SHUTTLE_TIMES is a number"));
    let schedules = schedules * times;
    let random = schedules / 2;
    run(RandomScheduler::new(random), scenario);
    run(PctScheduler::new(PCT_DEPTH, schedules - random), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK_SIZE;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(scenario);
}

/// Three workers that never look again instead of sleeping.
fn config() -> PoolConfig {
    PoolConfig {
        stack_size: STACK_SIZE,
        slot_count_max: 256,
        spin: Some(Duration::ZERO),
        ..PoolConfig::with_threads(3)
    }
}

fn pool() -> Arc<Pool> {
    Arc::new(Pool::with(config()).unwrap())
}

/// What the thread has to say, when it has ended.
fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("the thread did not panic")
}

/// The books of a scenario: how often each of its tasks was run.
#[derive(Clone)]
struct Ledger(Arc<[AtomicU32]>);

impl Ledger {
    fn of(tasks: usize) -> Ledger {
        Ledger((0..tasks).map(|_| AtomicU32::new(0)).collect())
    }

    /// A task of this number runs. Writing it down is a step, too: others may come between.
    fn note(&self, task: usize) {
        self.0[task].fetch_add(1, Ordering::AcqRel);
    }

    /// As `note`, for a task that answers its number.
    fn enter(&self, task: usize) -> usize {
        self.note(task);
        task
    }

    fn count(&self, task: usize) -> u32 {
        self.0[task].load(Ordering::Acquire)
    }

    fn assert_each_was_run_once(&self) {
        for task in 0..self.0.len() {
            assert_eq!(self.count(task), 1, "runs of task {task} of {}", self.0.len());
        }
    }
}
