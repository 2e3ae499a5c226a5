//! What other programs watch. Load balancers and supervisors ask without a password: so they learn yes or no, and not
//! why. Who collects metrics is asked who they are, for names of queues and kinds are told.

use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Failure;
use crate::Shared;
use crate::refusal::Refusal;

/// How long an answer of the store is good for: anybody may ask, and as often as they like.
const FRESH: Duration = Duration::from_secs(1);

/// Whether the store answered, and when it was asked.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    /// Asks the store, unless that was done right before. Who comes meanwhile waits for the same answer.
    async fn look(&self, shared: &Shared) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, is_ready)) = *known
            && at.elapsed() < FRESH
        {
            return is_ready;
        }
        let answer = shared.inspector.counts().await;
        if let Err(error) = &answer {
            tracing::warn!(%error, "not ready: the store does not answer");
        }
        *known = Some((Instant::now(), answer.is_ok()));
        answer.is_ok()
    }
}

/// Whether this process answers.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Whether the store answers as well.
pub(crate) async fn ready(State(shared): State<Shared>) -> Response {
    if shared.readiness.look(&shared).await {
        return "ready\n".into_response();
    }
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer: the log says why").into_response()
}

/// What the store knows, in OpenMetrics.
pub(crate) async fn metrics(State(shared): State<Shared>) -> Result<Response, Failure> {
    let text = windlass::metrics::render(&shared.inspector).await?;
    Ok(([(header::CONTENT_TYPE, windlass::metrics::CONTENT_TYPE)], text).into_response())
}
