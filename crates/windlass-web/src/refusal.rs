//! How "no" is said: a line of text for a program, an object of JSON under `/api`, a page with a way back for a browser.
//!
//! Whoever refuses gives a status and a reason; [`dress`] looks at who asked, and is the last to touch the answer. It
//! dresses the refusals of libraries too: a body that is too long, a method that is not allowed, a panic.

use std::borrow::Cow;

use askama::Template;
use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::view::Theme;

/// More than this is no reason, but a bug.
const REASON_LEN_MAX: usize = 16 << 10;

/// A "no", with its reason.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    why: Cow<'static, str>,
    /// What the client is told to show next time.
    challenge: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, why: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { status, why: why.into(), challenge: None }
    }

    pub(crate) fn with_challenge(self, challenge: Option<&'static str>) -> Refusal {
        Refusal { challenge, ..self }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let mut response = (self.status, kind, format!("{}\n", self.why)).into_response();
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// For whom an answer is.
#[derive(Debug)]
pub(crate) struct Asker {
    /// Where the dashboard is mounted.
    pub(crate) base: String,
    pub(crate) theme: Option<Theme>,
    is_api: bool,
    is_browser: bool,
}

impl Asker {
    pub(crate) fn new(base: String, path: &str, headers: &HeaderMap, theme: Option<Theme>) -> Asker {
        let accepts = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
        let is_browser = accepts.is_some_and(|accepted| accepted.contains("text/html"));
        Asker { base, theme, is_api: path.starts_with("/api/"), is_browser }
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    base: &'a str,
    theme: Option<Theme>,
    status: u16,
    name: &'static str,
    why: &'a str,
}

#[derive(serde::Serialize)]
struct ErrorObject<'a> {
    error: &'a str,
}

/// Gives a refusal the form that suits who asked. Other answers pass.
pub(crate) async fn dress(response: Response, asker: &Asker) -> Response {
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if !is_error || !(asker.is_api || asker.is_browser) || !is_plain(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let why = reason(body, parts.status).await;
    let dressed =
        if asker.is_api { Json(ErrorObject { error: &why }).into_response() } else { page(&parts, asker, &why) };
    parts.headers.remove(header::CONTENT_LENGTH);
    let (dressed_parts, body) = dressed.into_parts();
    parts.headers.extend(dressed_parts.headers);
    Response::from_parts(parts, body)
}

fn is_plain(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

async fn reason(body: Body, status: StatusCode) -> String {
    let text = axum::body::to_bytes(body, REASON_LEN_MAX).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() { status.canonical_reason().unwrap_or("refused").to_lowercase() } else { text }
}

fn page(parts: &axum::http::response::Parts, asker: &Asker, why: &str) -> Response {
    let name = parts.status.canonical_reason().unwrap_or("Refused");
    let page = ErrorPage { base: &asker.base, theme: asker.theme, status: parts.status.as_u16(), name, why };
    match page.render() {
        Ok(text) => ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "the page of a refusal could not be made");
            format!("{why}\n").into_response()
        }
    }
}
