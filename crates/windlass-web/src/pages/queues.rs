//! The queues, and one of them.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use windlass::store::{JobQuery, QueueInfo, Series, SeriesQuery};

use super::jobs::Row;
use super::overview::{Back, Spans, spans};
use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::{chart, filters};

/// Jobs shown on the page of a queue; the listing has the rest.
const JOBS_SHOWN: usize = 20;

/// Queues shown on one page; others are found by name.
const QUEUES_SHOWN: usize = 300;

/// The name of a queue or a kind, in a query.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}

/// A part of the names to show.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Part {
    #[serde(default)]
    name: String,
}

#[derive(Template)]
#[template(path = "queues.html")]
struct Queues {
    frame: Frame,
    part: String,
    queues: Vec<QueueInfo>,
    /// How many there are besides.
    hidden: u64,
}

pub(crate) async fn page(
    State(shared): State<Shared>,
    visit: Visit,
    Query(Part { name: part }): Query<Part>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let mut queues = shared.inspector.queues().await?;
    queues.retain(|queue| queue.name.contains(&part));
    let hidden = queues.len().saturating_sub(QUEUES_SHOWN) as u64;
    queues.truncate(QUEUES_SHOWN);
    html(&Queues { frame, part, queues, hidden })
}

#[derive(Template)]
#[template(path = "queue.html")]
struct One {
    frame: Frame,
    queue: QueueInfo,
    series: Series,
    rows: Vec<Row>,
    spans: Spans,
}

pub(crate) async fn one(
    State(shared): State<Shared>,
    visit: Visit,
    Query(Named { name }): Query<Named>,
    Query(back): Query<Back>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let known = shared.inspector.queues().await?.into_iter().find(|queue| queue.name == name);
    // What the store holds is shown whatever it is called; of others only what could be one.
    if known.is_none() {
        windlass::job::check_name("queue", &name).map_err(windlass::Error::from)?;
    }
    // A queue without a job is nowhere: it is as it will be when the next one comes.
    let queue = known.unwrap_or_else(|| QueueInfo {
        name: name.clone(),
        ready: 0,
        running: 0,
        waiting: 0,
        latency_ms: 0,
        paused: false,
    });
    let query = SeriesQuery { span: back.span, queue: Some(name.clone()), ..SeriesQuery::default() };
    let series = shared.inspector.series(query).await?;
    let spans = spans(back.span, Some(&name));
    let ready = JobQuery {
        state: Some(windlass::state::State::Ready),
        queue: Some(name),
        limit: JOBS_SHOWN,
        ..JobQuery::default()
    };
    let rows = shared.inspector.list(ready).await?.jobs.into_iter().map(Row::from).collect();
    html(&One { frame, queue, series, rows, spans })
}
