//! Runs that were spawned: a first task that opens the graph, a last one that has the outcome, and a handle.
//!
//! The nodes' ends are counted at the first task, as children are; the last task continues with it. So a spawned run is
//! waited for, awaited and cancelled as any task is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::plan::{Busy, Claim, Core, Plan, RunReport};
use crate::error::TaskError;
use crate::lane;
use crate::panic::unwrap;
use crate::pool::Pool;
use crate::sync::{Arc, Ordering};
use crate::task::Task;

impl Plan<'static> {
    /// Has the pool run the plan, and answers a handle to wait for it.
    ///
    /// # Errors
    /// [`Busy`] when a run goes on.
    ///
    /// # Panics
    /// As [`Pool::prepare`].
    pub fn spawn(&self, pool: &Pool) -> Result<Run, Busy> {
        let claim = Claim::new(&self.core)?;
        self.core.begin_run();
        let number = self.core.run_number();
        // Until there is one: whatever is dropped before, for want of slots, counts nothing.
        self.core.set_parent(std::ptr::null());
        // The run is a parent task: its children are what is counted in `open_count`. Another task, which continues with
        // it, has the outcome.
        let begin = Beginning { core: Arc::clone(&self.core), has_begun: false };
        let parent = pool.prepare(move || begin.begin());
        let ending = Ending { core: Arc::clone(&self.core) };
        // From now on the ending gives the plan back, however it goes.
        std::mem::forget(claim);
        let end = pool.prepare(move || ending.end());
        end.follow(&parent);
        self.core.set_parent(parent.open_for_children(self.core.open_count()));
        let task = end.schedule();
        parent.schedule_detached();
        Ok(Run { task, core: Arc::clone(&self.core), number })
    }
}

/// The first task of a spawned run.
struct Beginning {
    core: Arc<Core>,
    has_begun: bool,
}

impl Beginning {
    fn begin(mut self) {
        lane::with_current(|lane| {
            // There is none only where a thread ends and runs what it leaves behind: the run is cancelled then.
            if let Some(lane) = lane {
                self.has_begun = true;
                self.core.start(lane);
            }
        });
    }
}

impl Drop for Beginning {
    /// It was cancelled: what was counted as open will never come.
    fn drop(&mut self) {
        if self.has_begun {
            return;
        }
        self.core.cancel_run(None);
        // SAFETY: the parent, if there is one, is the slot of this very task, which has not ended.
        if let Some(parent) = unsafe { self.core.parent().as_ref() } {
            // ORDER: AcqRel; as every count of an end. The task itself is still open.
            parent.open.fetch_sub(self.core.open_count(), Ordering::AcqRel);
        }
    }
}

/// The last task of a spawned run.
struct Ending {
    core: Arc<Core>,
}

impl Ending {
    fn end(self) -> RunReport {
        let outcome = self.core.end_run(0);
        // Before the outcome can be seen: who has waited for a run can begin another one.
        drop(self);
        unwrap(outcome)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.core.give_back();
    }
}

/// A run that was spawned. Dropping it does not stop the run.
#[must_use = "a run goes on without its handle; drop it in so many words"]
pub struct Run {
    task: Task<RunReport>,
    core: Arc<Core>,
    number: u64,
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({})", if self.is_done() { "done" } else { "under way" })
    }
}

impl Run {
    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.task.is_done()
    }

    /// Waits until the run has ended; see [`Task::wait`].
    ///
    /// # Panics
    /// With the first panic of a node, or with [`Cancelled`](crate::Cancelled) if the pool was shut down before the run could end.
    pub fn wait(self) -> RunReport {
        self.task.wait()
    }

    /// As [`wait`](Run::wait), but a panic or a cancellation is an answer.
    ///
    /// # Errors
    /// What kept the run from ending well.
    pub fn wait_result(self) -> Result<RunReport, TaskError> {
        self.task.wait_result()
    }

    /// As [`wait`](Run::wait), but runs nothing meanwhile: see [`Task::wait_blocking`].
    ///
    /// # Panics
    /// As [`wait`](Run::wait).
    pub fn wait_blocking(self) -> RunReport {
        self.task.wait_blocking()
    }

    /// Waits for at most `timeout`, and runs nothing meanwhile.
    ///
    /// # Errors
    /// The handle, if the run has not ended by then.
    ///
    /// # Panics
    /// As [`wait`](Run::wait).
    pub fn wait_timeout(self, timeout: Duration) -> Result<RunReport, Run> {
        let Run { task, core, number } = self;
        task.wait_timeout(timeout).map_err(|task| Run { task, core, number })
    }

    /// Cancels this run: nodes that have not begun do not run. Other runs of the plan are not touched.
    pub fn cancel(&self) {
        self.core.cancel_run(Some(self.number));
    }
}

/// Awaiting a run gives its report.
///
/// # Panics
/// As [`Run::wait`].
impl Future for Run {
    type Output = RunReport;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RunReport> {
        Pin::new(&mut self.task).poll(context)
    }
}
