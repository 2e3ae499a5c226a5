//! The pages, and the JSON beside them: each handler asks the inspector, and fills a template.

pub(crate) mod api;
pub(crate) mod assets;
pub(crate) mod change;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod kinds;
pub(crate) mod overview;
pub(crate) mod probes;
pub(crate) mod processes;
pub(crate) mod queues;

use askama::Template;
use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use windlass::store::Counts;
use windlass::{Error, StoreError};

use crate::auth::{Identity, Role};
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
}

/// Where the dashboard is mounted, and who asks.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) base: String,
    may_act: bool,
    user: Option<String>,
    notice: Option<String>,
}

impl Visit {
    /// Asks for what every page shows.
    pub(crate) async fn frame(self, shared: &Shared) -> Result<Frame, Failure> {
        let counts = shared.inspector.counts().await?;
        let store = shared.inspector.describe().url;
        let may_act = self.may_act && !shared.options.is_read_only;
        Ok(Frame { base: self.base, store, user: self.user, may_act, counts, notice: self.notice })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Visit, Response> {
        let inner = parts.uri.path().to_owned();
        let OriginalUri(whole) = OriginalUri::from_request_parts(parts, state).await.map_err(|never| match never {})?;
        let base = whole.path().strip_suffix(inner.as_str()).unwrap_or(whole.path()).trim_end_matches('/').to_owned();
        let identity = parts.extensions.get::<Identity>();
        Ok(Visit {
            base,
            may_act: identity.is_some_and(|identity| identity.role == Role::Act),
            user: identity.and_then(|identity| identity.name.clone()),
            notice: notice(parts.uri.query().unwrap_or_default()),
        })
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
        guard::refuse(self.0, &self.1)
    }
}

/// A template as a page.
pub(crate) fn html(template: &impl Template) -> Result<Response, Failure> {
    let text = template.render().map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response())
}
