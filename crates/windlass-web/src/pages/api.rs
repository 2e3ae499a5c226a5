//! The JSON beside the pages: the same questions, for programs.

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use windlass::job::JobRecord;
use windlass::store::{Counts, DayTotals, ProcessInfo, QueueInfo, Series, SeriesQuery, Span, StoreInfo};

use super::jobs::{Listing, Wanted};
use super::{Failure, job, jobs};
use crate::Shared;

/// Jobs on a page, unless the query says otherwise.
const PAGE_LEN: usize = 100;
/// The most on a page.
const PAGE_LEN_MAX: usize = 500;

#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    store: StoreInfo,
    counts: Counts,
}

pub(crate) async fn overview(State(shared): State<Shared>) -> Result<Json<Overview>, Failure> {
    Ok(Json(Overview { store: shared.inspector.describe(), counts: shared.inspector.counts().await? }))
}

pub(crate) async fn queues(State(shared): State<Shared>) -> Result<Json<Vec<QueueInfo>>, Failure> {
    Ok(Json(shared.inspector.queues().await?))
}

pub(crate) async fn processes(State(shared): State<Shared>) -> Result<Json<Vec<ProcessInfo>>, Failure> {
    Ok(Json(shared.inspector.processes().await?))
}

pub(crate) async fn jobs(State(shared): State<Shared>, Query(wanted): Query<Wanted>) -> Result<Json<Listing>, Failure> {
    let limit = wanted.limit.unwrap_or(PAGE_LEN).clamp(1, PAGE_LEN_MAX);
    Ok(Json(jobs::read(&shared, &wanted, limit).await?))
}

pub(crate) async fn job(State(shared): State<Shared>, Path(id): Path<String>) -> Result<Json<JobRecord>, Failure> {
    Ok(Json(shared.inspector.job(job::id(&id)?).await?))
}

/// Which measurements.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Measured {
    #[serde(default)]
    span: Span,
    kind: Option<String>,
    queue: Option<String>,
    #[serde(default)]
    by_kind: bool,
}

pub(crate) async fn series(
    State(shared): State<Shared>,
    Query(Measured { span, kind, queue, by_kind }): Query<Measured>,
) -> Result<Json<Series>, Failure> {
    Ok(Json(shared.inspector.series(SeriesQuery { span, kind, queue, by_kind }).await?))
}

/// How many days back.
#[derive(Debug, Deserialize)]
pub(crate) struct Days {
    #[serde(default = "thirty")]
    days: u32,
}

fn thirty() -> u32 {
    30
}

pub(crate) async fn history(
    State(shared): State<Shared>,
    Query(Days { days }): Query<Days>,
) -> Result<Json<Vec<DayTotals>>, Failure> {
    Ok(Json(shared.inspector.history(days).await?))
}
