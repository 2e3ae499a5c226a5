//! The processes, and what they are running.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use windlass::Timestamp;
use windlass::store::ProcessInfo;

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::filters;

/// Processes shown on one page, and rows of what they run.
const ROWS_SHOWN: usize = 300;

#[derive(Template)]
#[template(path = "processes.html")]
struct Processes {
    frame: Frame,
    processes: Vec<ProcessInfo>,
    /// How many there are in all.
    count: u64,
    now: Timestamp,
}

pub(crate) async fn page(State(shared): State<Shared>, visit: Visit) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let mut processes = shared.inspector.processes().await?;
    let count = processes.len() as u64;
    processes.truncate(ROWS_SHOWN);
    html(&Processes { frame, processes, count, now: shared.client.store().now() })
}

#[derive(Template)]
#[template(path = "busy.html")]
struct Busy {
    frame: Frame,
    processes: Vec<ProcessInfo>,
    now: Timestamp,
}

pub(crate) async fn busy(State(shared): State<Shared>, visit: Visit) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let mut processes = shared.inspector.processes().await?;
    cut(&mut processes);
    html(&Busy { frame, processes, now: shared.client.store().now() })
}

/// Leaves as many running jobs as a page shows; the longest-running of each process come first.
fn cut(processes: &mut [ProcessInfo]) {
    let mut room = ROWS_SHOWN;
    for process in processes {
        process.jobs.truncate(room);
        room -= process.jobs.len();
    }
}
