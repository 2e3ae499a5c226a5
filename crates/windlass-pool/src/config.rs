//! How a pool is set up.

use std::any::Any;
use std::fmt;
use std::sync::Arc as StdArc;

use crate::error::PoolError;
use crate::sync::available_threads;

/// Is told of the panic of a task that nobody waits for.
pub type PanicHook = StdArc<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// The most threads of one pool.
pub(crate) const THREADS_MAX: usize = 1_024;
/// The most tasks of one pool that are queued, running, or done and not yet waited for.
pub(crate) const SLOTS_MAX: usize = 1 << 24;
/// The smallest stack a worker is given.
const STACK_SIZE_MIN: usize = 64 << 10;

/// How a pool is set up. Start from [`PoolConfig::default`] and change what differs.
#[derive(Clone)]
pub struct PoolConfig {
    /// Worker threads, 1 to 1,024. Default: as many as the process may run at a time.
    pub threads: usize,
    /// What the threads are called, before their number. Default: `windlass`.
    pub name: String,
    /// The stack of each worker in bytes, 64 KiB or more. Default: 2 MiB.
    pub stack_size: usize,
    /// Tasks that may be queued, running, or done and not yet waited for, 1 to 2²⁴. Default: 2²⁰. Beyond it `spawn`
    /// runs the task on the caller's thread. The memory is taken as it is needed, about 160 bytes a task.
    pub slot_count_max: usize,
    /// Is told of the panic of a task that nobody waits for. Default: writes its message to standard error.
    pub panic_hook: PanicHook,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            threads: available_threads(),
            name: "windlass".to_owned(),
            stack_size: 2 << 20,
            slot_count_max: 1 << 20,
            panic_hook: StdArc::new(crate::panic::tell),
        }
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolConfig")
            .field("threads", &self.threads)
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .field("slot_count_max", &self.slot_count_max)
            .finish_non_exhaustive()
    }
}

impl PoolConfig {
    /// Checks every range.
    pub(crate) fn validate(&self) -> Result<(), PoolError> {
        within("threads", self.threads, 1, THREADS_MAX)?;
        within("stack_size", self.stack_size, STACK_SIZE_MIN, isize::MAX as usize)?;
        within("slot_count_max", self.slot_count_max, 1, SLOTS_MAX)?;
        if self.name.contains('\0') {
            return Err(PoolError::Config {
                field: "name",
                found: format!("{:?}", self.name),
                allowed: "no NUL".into(),
            });
        }
        Ok(())
    }
}

fn within(field: &'static str, found: usize, min: usize, max: usize) -> Result<(), PoolError> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(PoolError::Config { field, found: found.to_string(), allowed: format!("must be between {min} and {max}") })
}
