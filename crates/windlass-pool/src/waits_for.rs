//! Debug builds: who waits for whom, to report a wait that would never end.
//!
//! Before a thread sleeps for a task, each task it is in the middle of is written down as waiting for that one. A chain
//! of such waits that comes back to where it began is a deadlock: it is reported by a panic of the wait that closes it.

use std::collections::HashMap;

use crate::lane::Lane;
use crate::slot::TaskId;
use crate::sync::{PoisonError, ProcessMutex, ProcessMutexGuard};

static WAITS: ProcessMutex<Option<HashMap<TaskId, TaskId>>> = ProcessMutex::new(None);

fn waits() -> ProcessMutexGuard<'static, Option<HashMap<TaskId, TaskId>>> {
    WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits that are written down until this is dropped.
pub(crate) struct Edges(Vec<TaskId>);

/// This thread is about to wait for `target`.
///
/// # Panics
/// When `target` waits, directly or not, for a task this thread is in the middle of.
pub(crate) fn enter(lane: &Lane, target: TaskId) -> Edges {
    let under_way = lane.under_way.borrow().clone();
    let mut waits = waits();
    let waits = waits.get_or_insert_default();
    let mut at = Some(target);
    while let Some(task) = at {
        let is_own = under_way.contains(&task);
        assert!(under_way.last() != Some(&task) || task != target, "a task waits for itself, which would never end");
        assert!(!is_own, "tasks wait for each other in a circle, which would never end");
        at = waits.get(&task).copied();
    }
    for task in &under_way {
        waits.insert(*task, target);
    }
    Edges(under_way)
}

impl Drop for Edges {
    fn drop(&mut self) {
        let mut waits = waits();
        if let Some(waits) = waits.as_mut() {
            for task in &self.0 {
                waits.remove(task);
            }
        }
    }
}
