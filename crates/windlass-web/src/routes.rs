//! Every route, in one table: the router is made of it, and the tests walk it.

use axum::Router;
use axum::extract::OriginalUri;
use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, any, get, post};

use crate::pages::{api, assets, change, job, jobs, kinds, overview, probes, processes, queues};
use crate::refusal::Refusal;
use crate::{Shared, guard, live};

/// What a route needs of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing: it tells nothing about jobs.
    Open,
    /// That they may view.
    View,
    /// That they may act. Always a `POST`, and only from the dashboard's own pages or a program.
    Act,
}

/// One route.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The path, as axum has it; below wherever the router is mounted.
    pub path: &'static str,
    /// Who may.
    pub access: Access,
    handler: fn() -> MethodRouter<Shared>,
}

const fn view(path: &'static str, handler: fn() -> MethodRouter<Shared>) -> Route {
    Route { path, access: Access::View, handler }
}

const fn open(path: &'static str, handler: fn() -> MethodRouter<Shared>) -> Route {
    Route { path, access: Access::Open, handler }
}

const fn act(path: &'static str, handler: fn() -> MethodRouter<Shared>) -> Route {
    Route { path, access: Access::Act, handler }
}

/// Every route there is. Names of queues, kinds and processes stand in the query, for they may be `..` or hold a `/`, of
/// which browsers and proxies make another path.
pub const ROUTES: &[Route] = &[
    view("/", || get(overview::page)),
    view("/queues", || get(queues::page)),
    view("/queue", || get(queues::one)),
    act("/queue/{verb}", || post(change::queue)),
    view("/jobs", || get(jobs::page)),
    act("/jobs/change", || post(change::jobs)),
    view("/jobs/{id}", || get(job::page)),
    act("/jobs/{id}/{verb}", || post(change::job)),
    view("/busy", || get(processes::busy)),
    view("/processes", || get(processes::page)),
    act("/process/{verb}", || post(change::process)),
    view("/kinds", || get(kinds::page)),
    view("/kind", || get(kinds::one)),
    view("/events", || get(live::events)),
    view("/api/overview", || get(api::overview)),
    view("/api/queues", || get(api::queues)),
    act("/api/queue/{verb}", || post(change::api_queue)),
    view("/api/jobs", || get(api::jobs)),
    act("/api/jobs/change", || post(change::api_jobs)),
    view("/api/jobs/{id}", || get(api::job)),
    act("/api/jobs/{id}/{verb}", || post(change::api_job)),
    view("/api/processes", || get(api::processes)),
    act("/api/process/{verb}", || post(change::api_process)),
    view("/api/series", || get(api::series)),
    view("/api/history", || get(api::history)),
    view("/metrics", || get(probes::metrics)),
    open("/health", || get(probes::health)),
    open("/ready", || get(probes::ready)),
    view("/assets/{name}", || get(assets::one)),
];

/// The router of all of them; what is none of them is refused like a route that may be viewed.
pub(crate) fn mount(shared: &Shared) -> Router {
    let guarded = |access: Access| middleware::from_fn_with_state((shared.clone(), access), guard::admit);
    let router = ROUTES
        .iter()
        .fold(Router::new(), |router, route| router.route(route.path, (route.handler)().layer(guarded(route.access))));
    router.fallback_service(any(nothing).layer(guarded(Access::View)).with_state::<()>(())).with_state(shared.clone())
}

/// Where a mounted dashboard is asked for with a slash at the end, the way is shown: axum knows it without one only.
async fn nothing(OriginalUri(whole): OriginalUri, inner: Uri) -> Response {
    if inner.path() == "/" && whole.path() != "/" {
        return Redirect::to(guard::base(&whole, &inner)).into_response();
    }
    Refusal::new(StatusCode::NOT_FOUND, "there is no such page").into_response()
}
