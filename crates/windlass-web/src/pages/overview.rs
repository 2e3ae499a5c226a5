//! The first page: how it goes, now and over time.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use windlass::store::{DayTotals, QueueInfo, Series, SeriesQuery, Span};

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::{chart, encoded, filters};

/// How far back the charts go.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Back {
    #[serde(default)]
    pub(crate) span: Span,
}

/// Links to all spans: the query, the words, whether it is shown now.
pub(crate) type Spans = [(String, &'static str, bool); 3];

/// Links to all spans of the page of this name, if it has one.
pub(crate) fn spans(now: Span, name: Option<&str>) -> Spans {
    let name = name.map_or(String::new(), |name| format!("name={}&", encoded(name)));
    let link = |span: Span, text: &str, words| (format!("?{name}span={text}"), words, now == span);
    [link(Span::Hour, "hour", "1 hour"), link(Span::Day, "day", "24 hours"), link(Span::Month, "month", "30 days")]
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
    spans: Spans,
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
    html(&Overview { frame, series, queues, days, processes: members.len(), busy, spans: spans(back.span, None) })
}
