//! Jobs of the kind `http`: a web service as the worker of a job.
//!
//! The job names an address; its data is posted there as JSON, with the job's id, attempt, kind and deadline in
//! headers. Where jobs may be posted to is said by [`places`], where names may lead to by [`connect`], and what the
//! answer means by [`answer`]. Redirects are not followed: they could lead anywhere.

mod answer;
mod connect;
mod places;

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass::config::load::Settings;
use windlass::{Context, HandlerError, Handlers, Job, Outcome, State};

use crate::exit::Usage;
use answer::Answer;
use connect::Requests;
use places::Places;
pub(crate) use places::parse_url;

/// How long a request may take when neither its job nor the server says.
const TIME_DEFAULT: Duration = Duration::from_secs(60);
/// Bytes of an answer that are kept.
const ANSWER_LEN_MAX: usize = 64 << 10;

/// A request to make.
#[derive(Debug, Serialize, Deserialize, Job)]
#[serde(deny_unknown_fields)]
#[job(kind = "http")]
pub(crate) struct Http {
    /// Where to, from the scheme on.
    pub(crate) url: String,
    /// What is posted. Default: `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Box<RawValue>>,
}

/// What every run of this server shares.
#[derive(Debug)]
struct Service {
    places: Places,
    requests: Requests,
}

/// Adds the kind, if any place is allowed.
///
/// # Errors
/// A listed place that cannot be one.
pub(crate) fn add(handlers: Handlers, settings: &Settings) -> anyhow::Result<Handlers> {
    let listed = &settings.allow.http;
    if listed.is_empty() {
        return Ok(handlers);
    }
    let places = Places::parse(listed).map_err(|why| Usage(format!("allow_http: {why}")))?;
    let requests = connect::requests(&places, settings.server.concurrency as usize)?;
    Ok(handlers.on(run).state(Service { places, requests }))
}

async fn run(job: Http, State(service): State<Service>, ctx: Context) -> Outcome {
    let request = match admit(&service.places, &job, &ctx) {
        Ok(request) => request,
        Err(error) => return Outcome::Dead(error),
    };
    // With a time-out of its own the job is cancelled in time, and so is this.
    let limit = if ctx.deadline().is_some() { Duration::MAX } else { TIME_DEFAULT };
    let exchange = tokio::time::timeout(limit, exchange(&service.requests, request));
    tokio::select! {
        answer = exchange => match answer {
            Ok(Ok(answer)) => answer.into_outcome(ctx.now()),
            Ok(Err(error)) => Outcome::Failed(HandlerError::with_class("Http", format!("POST {}: {error}", job.url))),
            Err(_) => {
                let message = format!("POST {}: no answer within {} s", job.url, TIME_DEFAULT.as_secs());
                Outcome::Failed(HandlerError::with_class("HttpTimeout", message))
            }
        },
        // Dropping the exchange closes the connection.
        _ = ctx.cancelled() => Outcome::Cancelled,
    }
}

/// The request, if the job may be posted there.
fn admit(places: &Places, job: &Http, ctx: &Context) -> Result<Request<Full<Bytes>>, HandlerError> {
    let invalid = |why: String| HandlerError::with_class("HttpInvalid", why);
    let uri = parse_url(&job.url).map_err(invalid)?;
    let not_allowed = |why: String| HandlerError::with_class("HttpNotAllowed", why);
    places.admit(&uri).map_err(not_allowed)?;
    if !cfg!(feature = "tls") && uri.scheme_str() == Some("https") {
        return Err(not_allowed(
            "this server was built without the feature `tls`: it reaches no https address".to_owned(),
        ));
    }
    request(uri, job, ctx).map_err(|error| invalid(error.to_string()))
}

fn request(uri: Uri, job: &Http, ctx: &Context) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let id = ctx.id().to_string();
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(USER_AGENT, HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))))
        .header("idempotency-key", &id)
        .header("windlass-job-id", &id)
        .header("windlass-job-kind", ctx.kind())
        .header("windlass-job-queue", ctx.queue())
        .header("windlass-job-attempt", ctx.attempt())
        .header("windlass-job-attempts-max", ctx.attempts_max())
        .header("windlass-job-fencing-token", ctx.fencing_token());
    if let Some(deadline) = ctx.deadline() {
        request = request.header("windlass-job-deadline", deadline.to_string());
    }
    if let Some(trace) = ctx.trace() {
        request = request.header("traceparent", trace.traceparent());
        if !trace.tracestate().is_empty() {
            request = request.header("tracestate", trace.tracestate());
        }
    }
    let data = job.data.as_ref().map_or("null", |data| data.get());
    request.body(Full::new(Bytes::copy_from_slice(data.as_bytes())))
}

/// Sends and reads the answer, of which no more than is kept is read.
async fn exchange(requests: &Requests, request: Request<Full<Bytes>>) -> Result<Answer, String> {
    let response = requests.request(request).await.map_err(|error| with_causes(&error))?;
    let text = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let (retry_after, content_type) = (text(RETRY_AFTER).map(str::to_owned), text(CONTENT_TYPE).map(str::to_owned));
    let location = text(hyper::header::LOCATION).map(str::to_owned);
    let status = response.status();
    let (body, is_cut) = read(response).await?;
    Ok(Answer { status, retry_after, content_type, location, body, is_cut })
}

async fn read(response: Response<Incoming>) -> Result<(Vec<u8>, bool), String> {
    let (mut incoming, mut body) = (response.into_body(), Vec::new());
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| with_causes(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        let room = ANSWER_LEN_MAX - body.len();
        body.extend_from_slice(&data[..data.len().min(room)]);
        if data.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}

/// An error with what led to it, which is where the reason stands.
fn with_causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
