//! What each kind of job takes.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use windlass::store::measure::BOUNDS_MS;
use windlass::store::{KindMeasure, Series, SeriesQuery};

use super::overview::{Back, Spans, spans};
use super::queues::Named;
use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::{chart, filters};

#[derive(Template)]
#[template(path = "kinds.html")]
struct Kinds {
    frame: Frame,
    kinds: Vec<KindMeasure>,
    spans: Spans,
}

pub(crate) async fn page(
    State(shared): State<Shared>,
    visit: Visit,
    Query(back): Query<Back>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let query = SeriesQuery { span: back.span, by_kind: true, ..SeriesQuery::default() };
    let kinds = shared.inspector.series(query).await?.kinds;
    html(&Kinds { frame, kinds, spans: spans(back.span, None) })
}

#[derive(Template)]
#[template(path = "kind.html")]
struct One {
    frame: Frame,
    kind: String,
    series: Series,
    histogram: chart::Drawing,
    spans: Spans,
}

pub(crate) async fn one(
    State(shared): State<Shared>,
    visit: Visit,
    Query(Named { name: kind }): Query<Named>,
    Query(back): Query<Back>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let query = SeriesQuery { span: back.span, kind: Some(kind.clone()), ..SeriesQuery::default() };
    let series = shared.inspector.series(query).await?;
    let histogram = chart::histogram(series.total.run.counts(), &BOUNDS_MS);
    let spans = spans(back.span, Some(&kind));
    html(&One { frame, kind, series, histogram, spans })
}
