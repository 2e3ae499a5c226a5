//! The pool as its users see it: start, spawn, join, scope, stop.

use std::fmt;
use std::time::Duration;

use crate::config::PoolConfig;
use crate::error::PoolError;
use crate::join;
use crate::metrics::WorkerMetrics;
use crate::panic::catch;
use crate::scope::{self, Scope};
use crate::sync::{Arc, JoinHandle, thread};
use crate::task::Task;
use crate::worker::{self, Shared};

/// Threads that run tasks. May be shared by reference between threads, and used from inside its own tasks.
///
/// Dropping it runs everything that was spawned, and then joins the threads; inside one of its own tasks, where
/// joining would never end, it lets the threads end by themselves.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Threads that have ended.
    pub ended: usize,
    /// Threads that were still running tasks when the time was over. They end by themselves when those end.
    pub left: usize,
}

impl Pool {
    /// Starts a pool with as many threads as this process may run at a time.
    ///
    /// # Errors
    /// [`PoolError::Thread`] when the system gives no thread; those that had started are ended.
    pub fn new() -> Result<Pool, PoolError> {
        Pool::with(PoolConfig::default())
    }

    /// Starts a pool.
    ///
    /// # Errors
    /// [`PoolError::Config`] names the setting that cannot be used. [`PoolError::Thread`] when the system gives no
    /// thread; those that had started are ended.
    pub fn with(config: PoolConfig) -> Result<Pool, PoolError> {
        config.validate()?;
        let wanted = config.threads;
        let mut pool = Pool { shared: Arc::new(Shared::new(config)), threads: Vec::with_capacity(wanted) };
        for index in 0..wanted {
            match pool.start_worker(index) {
                Ok(thread) => pool.threads.push(thread),
                // C-7: dropping the pool ends the threads that did start.
                Err(cause) => {
                    return Err(PoolError::Thread { started: index, wanted, cause });
                }
            }
        }
        Ok(pool)
    }

    fn start_worker(&self, index: usize) -> std::io::Result<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        shared.count_in();
        let config = &self.shared.config;
        let thread = thread::Builder::new()
            .name(format!("{}-{index}", config.name))
            .stack_size(config.stack_size)
            .spawn(move || worker::main(shared, index));
        if thread.is_err() {
            self.shared.count_out();
        }
        thread
    }

    /// Spawns a task: it runs on a worker, or on whoever waits for it first.
    ///
    /// When the pool has no slot left the task runs here and now, before `spawn` returns.
    ///
    /// # Cost
    /// No allocation for a closure and a result of up to 96 bytes each, once the slots have grown.
    pub fn spawn<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_spawn(f).unwrap_or_else(|f| Task::ready(catch(f)))
    }

    /// Spawns a task, or gives the closure back when the pool has no slot left.
    ///
    /// # Errors
    /// The closure.
    pub fn try_spawn<F, T>(&self, f: F) -> Result<Task<T>, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the closure borrows nothing, and its value is `Send`.
        unsafe { worker::spawn(&self.shared, f) }
    }

    /// Runs both closures, at the same time if a worker is free, and answers both values. May be called from anywhere,
    /// also inside tasks, and nested to any depth.
    ///
    /// # Panics
    /// With the panic of `a`, else with that of `b`; not before both have ended. When `a` panics before `b` has begun,
    /// `b` is not run.
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        join::join(&self.shared, a, b)
    }

    /// Runs `f` with a scope in which tasks may be spawned that borrow from the caller, and waits for all of them.
    ///
    /// # Panics
    /// With the panic of `f`, else with the first one of a task; not before all tasks have ended.
    pub fn scope<'scope, R>(&self, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        scope::scope(&self.shared, f)
    }

    /// How many threads it has.
    pub fn thread_count(&self) -> usize {
        self.shared.config.threads
    }

    /// What each worker has done so far.
    pub fn metrics(&self) -> Vec<WorkerMetrics> {
        self.shared.metrics()
    }

    /// Runs everything that was spawned, and ends the threads, for up to `timeout`. What still runs then goes on, and
    /// its thread ends after it.
    ///
    /// # Panics
    /// Inside one of the pool's own tasks: it would wait for itself.
    ///
    /// # Blocking
    /// Until every thread has ended, or for `timeout`.
    pub fn shutdown(mut self, timeout: Duration) -> ShutdownReport {
        assert!(!worker::is_worker_of(&self.shared), "a task shuts its own pool down, which would never end");
        self.shared.stop();
        let left = self.shared.wait_for_end(Some(timeout));
        let ended = self.threads.len() - left;
        if left > 0 {
            // Dropping the handles lets the threads go.
            self.threads.clear();
        }
        ShutdownReport { ended, left }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop();
        // BP-1, SC-14: a worker that drops its own pool cannot join itself.
        if worker::is_worker_of(&self.shared) {
            return;
        }
        for thread in self.threads.drain(..) {
            // The threads catch every panic of a task; one of the engine itself has been printed by its thread.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}
