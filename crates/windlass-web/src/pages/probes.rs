//! What load balancers and supervisors ask.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::{Shared, guard};

/// Whether this process answers.
pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Whether the store answers as well.
pub(crate) async fn ready(State(shared): State<Shared>) -> Response {
    match shared.inspector.counts().await {
        Ok(_) => guard::refuse(StatusCode::OK, "ready"),
        Err(error) => guard::refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}
