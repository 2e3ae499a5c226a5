//! The first page: how it goes, now and over time.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use windlass::store::{DayTotals, QueueInfo, Series, SeriesQuery, Span};

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::{chart, filters};

/// How far back the charts go.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Back {
    #[serde(default)]
    pub(crate) span: Span,
}

/// A link to another span: its name in the query, its words, whether it is shown now.
pub(crate) fn spans(now: Span) -> [(&'static str, &'static str, bool); 3] {
    [
        ("hour", "1 hour", now == Span::Hour),
        ("day", "24 hours", now == Span::Day),
        ("month", "30 days", now == Span::Month),
    ]
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    series: Series,
    queues: Vec<QueueInfo>,
    days: Vec<DayTotals>,
    processes: usize,
    busy: u64,
    spans: [(&'static str, &'static str, bool); 3],
}

pub(crate) async fn page(
    State(shared): State<Shared>,
    visit: Visit,
    Query(back): Query<Back>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let series = shared.inspector.series(SeriesQuery { span: back.span, ..SeriesQuery::default() }).await?;
    let mut queues = shared.inspector.queues().await?;
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.ready));
    queues.truncate(8);
    let members = shared.inspector.processes().await?;
    let busy = members.iter().map(|member| u64::from(member.vitals.busy)).sum();
    let days = shared.inspector.history(14).await?;
    html(&Overview { frame, series, queues, days, processes: members.len(), busy, spans: spans(back.span) })
}
