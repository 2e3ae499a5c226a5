//! How a pool is set up.

use std::any::Any;
use std::fmt;
use std::sync::Arc as StdArc;
use std::time::Duration;

use crate::error::PoolError;
use crate::sync::available_threads;

/// Is told of the panic of a task that nobody waits for.
pub type PanicHook = StdArc<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// Is called on a worker's thread with the worker's number.
pub type ThreadHook = StdArc<dyn Fn(usize) + Send + Sync>;

/// The most threads of one pool.
pub(crate) const THREADS_MAX: usize = 1_024;
/// The most tasks of one pool that are queued, running, or done and not yet waited for.
pub(crate) const SLOTS_MAX: usize = 1 << 28;
/// The smallest stack a worker is given.
const STACK_SIZE_MIN: usize = 64 << 10;
/// The longest a worker may look for work before it sleeps.
const SPIN_MAX: Duration = Duration::from_millis(1);
/// How long a worker looks for work before it sleeps, if there is a processor for each.
const SPIN: Duration = Duration::from_micros(5);

/// How a pool is set up. Start from [`PoolConfig::default`] and change what differs.
#[derive(Clone)]
pub struct PoolConfig {
    /// Worker threads, 1 to 1,024. Default: as many as the process may run at a time, by quota and affinity. A thread
    /// that waits in `join` or `scope` works too: a program whose main thread does so may take one less.
    pub threads: usize,
    /// What the threads are called, before their number. Default: `windlass`.
    pub name: String,
    /// The stack of each worker in bytes, 64 KiB or more. Default: 2 MiB.
    pub stack_size: usize,
    /// Tasks that may be prepared, queued, running, or done and not yet waited for, and ties between them, 1 to 2²⁸.
    /// Default: 65,536. Beyond it
    /// `spawn` runs tasks on the caller's thread first, and exceeds it only where such tasks would be run more than 32
    /// deep inside each other. The memory is taken as it is needed, some 140 bytes a task, and
    /// kept.
    pub slot_count_max: usize,
    /// How long a worker without work looks around before it sleeps, at most 1 ms; it uses its processor meanwhile.
    /// Default: 5 µs, or not at all when there are more workers than the process may run threads at a time.
    pub spin: Option<Duration>,
    /// Threads that may be added while tasks are inside [`blocking`](fn@crate::blocking), 0 to 1,024. Default: 16.
    pub spare_threads_max: usize,
    /// Binds worker number `n` to the processor `pinned_to[n]`, on systems that can; others and workers beyond the list
    /// are left free. Default: empty.
    pub pinned_to: Vec<usize>,
    /// Runs everything on the threads that wait, one task at a time, in an order that follows from this seed: for tests
    /// that must repeat. Inside `isolate` other tasks may run all the same. No threads are started; a task nobody waits for runs in `wait_idle`, or when the pool goes.
    /// Default: none.
    pub deterministic_seed: Option<u64>,
    /// Is told of the panic of a task that nobody waits for. Default: writes its message to standard error.
    pub panic_hook: PanicHook,
    /// Is called on each worker's thread before its first task. Default: nothing.
    pub on_thread_start: Option<ThreadHook>,
    /// Is called on each worker's thread after its last task. Default: nothing.
    pub on_thread_end: Option<ThreadHook>,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig::with_threads(available_threads())
    }
}

impl PoolConfig {
    /// The default with so many threads.
    pub fn with_threads(threads: usize) -> PoolConfig {
        PoolConfig {
            threads,
            name: "windlass".to_owned(),
            stack_size: 2 << 20,
            slot_count_max: 1 << 16,
            spin: None,
            spare_threads_max: 16,
            pinned_to: Vec::new(),
            deterministic_seed: None,
            panic_hook: StdArc::new(crate::panic::tell),
            on_thread_start: None,
            on_thread_end: None,
        }
    }

    /// Checks every range.
    pub(crate) fn validate(&self) -> Result<(), PoolError> {
        within("threads", self.threads, 1, THREADS_MAX)?;
        validate_thread(&self.name, self.stack_size)?;
        within("slot_count_max", self.slot_count_max, 1, SLOTS_MAX)?;
        within("spare_threads_max", self.spare_threads_max, 0, THREADS_MAX)?;
        if let Some(spin) = self.spin.filter(|spin| *spin > SPIN_MAX) {
            return Err(refused("spin", format!("{spin:?}"), "must be at most 1ms"));
        }
        Ok(())
    }

    /// How long a worker looks around before it sleeps.
    pub(crate) fn spin(&self) -> Duration {
        let has_processors = self.threads <= available_threads();
        self.spin.unwrap_or(if has_processors { SPIN } else { Duration::ZERO })
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolConfig")
            .field("threads", &self.threads)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .field("slot_count_max", &self.slot_count_max)
            .field("spin", &self.spin)
            .field("spare_threads_max", &self.spare_threads_max)
            .field("pinned_to", &self.pinned_to)
            .field("deterministic_seed", &self.deterministic_seed)
            .finish_non_exhaustive()
    }
}

/// Checks what a thread is started with.
pub(crate) fn validate_thread(name: &str, stack_size: usize) -> Result<(), PoolError> {
    within("stack_size", stack_size, STACK_SIZE_MIN, isize::MAX as usize)?;
    if name.contains('\0') {
        return Err(refused("name", format!("{name:?}"), "must not contain NUL"));
    }
    Ok(())
}

fn refused(field: &'static str, found: String, allowed: &str) -> PoolError {
    PoolError::Config { field, found, allowed: allowed.to_owned() }
}

fn within(field: &'static str, found: usize, min: usize, max: usize) -> Result<(), PoolError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(refused(field, found.to_string(), &format!("must be between {min} and {max}")))
}
