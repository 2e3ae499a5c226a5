//! Listings of jobs: by state, queue, kind, or a text in them; page by page.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use windlass::Timestamp;
use windlass::job::JobRecord;
use windlass::state::State as JobState;
use windlass::store::{Cursor, JobQuery};
use windlass::sweep::JobFilter;

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::{actions, encoded, filters, short};

/// Jobs on a page.
const PAGE_LEN: usize = 50;
/// Pages of the store that are read for one page of ours when a search finds little: what bounds a read.
const READS_MAX: usize = 4;

/// What to list, as it stands in a query or a form. An empty field is none.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) queue: String,
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) q: String,
    #[serde(default)]
    pub(crate) after: String,
    pub(crate) limit: Option<usize>,
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Wanted {
    pub(crate) fn state(&self) -> Result<Option<JobState>, Failure> {
        let parse = |text: String| text.parse().map_err(|error| Failure::bad(format!("{error}")));
        filled(&self.state).map(parse).transpose()
    }

    pub(crate) fn filter(&self) -> Result<JobFilter, Failure> {
        Ok(JobFilter {
            state: self.state()?,
            queue: filled(&self.queue),
            kind: filled(&self.kind),
            search: filled(&self.q),
        })
    }

    fn query(&self, limit: usize) -> Result<JobQuery, Failure> {
        let JobFilter { state, queue, kind, search } = self.filter()?;
        let after = filled(&self.after).map(|text| cursor(&text)).transpose()?;
        Ok(JobQuery { state, queue, kind, search, after, limit })
    }

    /// The same choice as a query, without the place in it.
    pub(crate) fn link(&self) -> String {
        let fields = [("state", &self.state), ("queue", &self.queue), ("kind", &self.kind), ("q", &self.q)];
        let chosen = fields.into_iter().filter(|(_, value)| !value.is_empty());
        chosen.map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
    }
}

fn cursor(text: &str) -> Result<Cursor, Failure> {
    let parse = || {
        let (at_ms, arrival) = text.split_once('_')?;
        Some(Cursor { at_ms: at_ms.parse().ok()?, arrival: arrival.parse().ok()? })
    };
    parse().ok_or_else(|| Failure::bad("`after` is no place in a listing: take it from the page before"))
}

fn cursor_text(cursor: Cursor) -> String {
    format!("{}_{}", cursor.at_ms, cursor.arrival)
}

/// One page, and where the next begins. A store may answer short pages while it searches: some are read together.
pub(crate) async fn read(shared: &Shared, wanted: &Wanted, limit: usize) -> Result<Listing, Failure> {
    let mut query = wanted.query(limit)?;
    let mut jobs = Vec::new();
    for _ in 0..READS_MAX {
        let page = shared.inspector.list(JobQuery { limit: limit - jobs.len(), ..query.clone() }).await?;
        jobs.extend(page.jobs);
        query.after = page.next;
        if query.after.is_none() || jobs.len() >= limit {
            break;
        }
    }
    Ok(Listing { jobs, next: query.after.map(cursor_text) })
}

/// Some jobs, and where the next ones begin.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Listing {
    pub(crate) jobs: Vec<JobRecord>,
    pub(crate) next: Option<String>,
}

/// One job as a row.
pub(crate) struct Row {
    pub(crate) job: JobRecord,
    /// When it ended, or is due.
    pub(crate) at: Timestamp,
    /// What of it there is room for: why it failed or ended, else its arguments.
    pub(crate) text: String,
}

/// The longest text in a cell, in characters.
const TEXT_LEN_MAX: usize = 120;

impl From<JobRecord> for Row {
    fn from(job: JobRecord) -> Row {
        let text = match (&job.error, &job.reason) {
            (Some(error), _) => format!("{}: {}", error.class, error.message),
            (None, Some(reason)) => reason.clone(),
            (None, None) => job.payload.to_text(),
        };
        Row { at: job.finished_at.unwrap_or(job.run_at), text: short(&text, TEXT_LEN_MAX), job }
    }
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    frame: Frame,
    wanted: Wanted,
    state: Option<JobState>,
    rows: Vec<Row>,
    next: Option<String>,
    /// How many are in this state; unknown where something else is chosen as well.
    total: Option<u64>,
    /// What can be done to all of them.
    actions: &'static [(&'static str, &'static str)],
    now: Timestamp,
}

pub(crate) async fn page(
    State(shared): State<Shared>,
    visit: Visit,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let state = wanted.state()?;
    let listing = read(&shared, &wanted, PAGE_LEN).await?;
    let is_narrowed = [&wanted.queue, &wanted.kind, &wanted.q].iter().any(|field| !field.is_empty());
    let total = state.filter(|_| !is_narrowed).map(|state| frame.counts.of(state));
    let actions = state.map_or(&[][..], actions);
    let rows = listing.jobs.into_iter().map(Row::from).collect();
    let now = shared.client.store().now();
    html(&Jobs { frame, wanted, state, rows, next: listing.next, total, actions, now })
}
