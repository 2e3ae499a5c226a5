//! The pages, and the JSON beside them: each handler asks the inspector, and fills a template.

pub(crate) mod api;
pub(crate) mod assets;
pub(crate) mod change;
pub(crate) mod confirm;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod kinds;
pub(crate) mod overview;
pub(crate) mod probes;
pub(crate) mod processes;
pub(crate) mod queues;

use askama::Template;
use std::convert::Infallible;

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use windlass::store::Counts;
use windlass::{Error, StoreError};

use crate::auth::{Identity, Role};
use crate::refusal::Refusal;
use crate::view::Theme;
use crate::{Shared, guard};

/// What every page shows around its own.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The path under which the dashboard is mounted, without a slash at the end.
    pub(crate) base: String,
    pub(crate) store: String,
    pub(crate) user: Option<String>,
    pub(crate) may_act: bool,
    pub(crate) counts: Counts,
    /// What a change that led here has done.
    pub(crate) notice: Option<String>,
    pub(crate) theme: Option<Theme>,
    /// Which entry of the navigation this is, as [`Frame::is_at`] takes it.
    place: String,
}

impl Frame {
    /// The address of the overview.
    pub(crate) fn home(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// Whether this is the page of a navigation's entry: its path, and the state that it lists.
    pub(crate) fn is_at(&self, place: &str) -> bool {
        self.place == place
    }
}

/// Where the dashboard is mounted, and who asks.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) base: String,
    /// What was asked for: path and query, as the browser knows them.
    pub(crate) address: String,
    may_act: bool,
    user: Option<String>,
    notice: Option<String>,
    theme: Option<Theme>,
    place: String,
}

impl Visit {
    /// Asks for what every page shows.
    pub(crate) async fn frame(self, shared: &Shared) -> Result<Frame, Failure> {
        let counts = shared.inspector.counts().await?;
        let store = shared.inspector.describe().url;
        let may_act = self.may_act && !shared.options.is_read_only;
        let Visit { base, user, notice, theme, place, .. } = self;
        Ok(Frame { base, store, user, may_act, counts, notice, theme, place })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Visit, Infallible> {
        let OriginalUri(whole) = OriginalUri::from_request_parts(parts, state).await?;
        let base = guard::base(&whole, &parts.uri).to_owned();
        let identity = parts.extensions.get::<Identity>();
        let query = parts.uri.query().unwrap_or_default();
        Ok(Visit {
            base,
            address: whole.path_and_query().map_or("/", |address| address.as_str()).to_owned(),
            may_act: identity.is_some_and(|identity| identity.role == Role::Act),
            user: identity.and_then(|identity| identity.name.clone()),
            notice: notice(query),
            theme: Theme::chosen(query).or_else(|| Theme::remembered(&parts.headers)),
            place: place(parts.uri.path(), query),
        })
    }
}

fn place(path: &str, query: &str) -> String {
    let state = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "state").map(|(_, state)| state);
    match state {
        Some(state) if path == "/jobs" => format!("{path} {state}"),
        _ => path.to_owned(),
    }
}

/// What a change did, from the numbers in the query: no text of the query is shown.
fn notice(query: &str) -> Option<String> {
    let number = |name: &str| -> Option<u64> {
        form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == name)?.1.parse().ok()
    };
    let mut words = Vec::new();
    let mut tell = |name: &str, word: &str| match number(name) {
        Some(1) => words.push(format!("1 job {word}")),
        Some(count) => words.push(format!("{} jobs {word}", crate::view::grouped(count))),
        None => {}
    };
    tell("changed", "changed");
    tell("asked", "asked to give way");
    tell("refused", "left as they were");
    if number("more").is_some() {
        words.push("there are more: do it again for the next ones".to_owned());
    }
    if number("told").is_some() {
        words.push("the process will be told with its next beat".to_owned());
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// Why there is no page.
#[derive(Debug)]
pub(crate) struct Failure(StatusCode, String);

impl Failure {
    pub(crate) fn bad(why: impl Into<String>) -> Failure {
        Failure(StatusCode::BAD_REQUEST, why.into())
    }

    pub(crate) fn missing(why: impl Into<String>) -> Failure {
        Failure(StatusCode::NOT_FOUND, why.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::NotFound { .. } => StatusCode::NOT_FOUND,
            Error::WrongState { .. } => StatusCode::CONFLICT,
            Error::InvalidJob(_) | Error::Store(StoreError::Invalid { .. }) => StatusCode::BAD_REQUEST,
            Error::Store(cause) if cause.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure(status, error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        Refusal::new(self.0, self.1).into_response()
    }
}

/// A template as a page.
pub(crate) fn html(template: &impl Template) -> Result<Response, Failure> {
    let text = template.render().map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response())
}
