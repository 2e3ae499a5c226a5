//! The processes, and what they are running.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use windlass::Timestamp;
use windlass::store::ProcessInfo;

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::filters;

#[derive(Template)]
#[template(path = "processes.html")]
struct Processes {
    frame: Frame,
    processes: Vec<ProcessInfo>,
    now: Timestamp,
}

pub(crate) async fn page(State(shared): State<Shared>, visit: Visit) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    html(&Processes { frame, processes: shared.inspector.processes().await?, now: shared.client.store().now() })
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
    html(&Busy { frame, processes: shared.inspector.processes().await?, now: shared.client.store().now() })
}
