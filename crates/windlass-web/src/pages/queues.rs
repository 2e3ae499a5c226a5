//! The queues, and one of them.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use windlass::store::{JobQuery, QueueInfo, Series, SeriesQuery};

use super::jobs::Row;
use super::overview::{Back, spans};
use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::{chart, filters};

/// Jobs shown on the page of a queue; the listing has the rest.
const JOBS_SHOWN: usize = 20;

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    frame: Frame,
    queues: Vec<QueueInfo>,
}

pub(crate) async fn page(State(shared): State<Shared>, visit: Visit) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    html(&Queues { frame, queues: shared.inspector.queues().await? })
}

#[derive(Template)]
#[template(path = "queue.html")]
struct One {
    frame: Frame,
    queue: QueueInfo,
    series: Series,
    rows: Vec<Row>,
    spans: [(&'static str, &'static str, bool); 3],
}

pub(crate) async fn one(
    State(shared): State<Shared>,
    visit: Visit,
    Path(name): Path<String>,
    Query(back): Query<Back>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let known = shared.inspector.queues().await?.into_iter().find(|queue| queue.name == name);
    let queue = known.ok_or_else(|| Failure::missing("no such queue, or nothing is in it"))?;
    let query = SeriesQuery { span: back.span, queue: Some(name.clone()), ..SeriesQuery::default() };
    let series = shared.inspector.series(query).await?;
    let ready = JobQuery {
        state: Some(windlass::state::State::Ready),
        queue: Some(name),
        limit: JOBS_SHOWN,
        ..JobQuery::default()
    };
    let rows = shared.inspector.list(ready).await?.jobs.into_iter().map(Row::from).collect();
    html(&One { frame, queue, series, rows, spans: spans(back.span) })
}
