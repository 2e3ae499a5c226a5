//! A dashboard for [windlass](https://docs.rs/windlass): what is queued, running, failing and done, and the means to
//! do something about it.
//!
//! [`router`] is an axum `Router` to mount in any program, under any path; [`serve::serve`] puts it on a socket of its own.
//! Everything goes through [`Inspector`] and [`Client`], so any store will do.
//!
//! Pages are rendered here and work without JavaScript; with it, figures are live by one stream of events. There is a
//! JSON API beside the pages, under `/api`. What the store is asked for live figures does not depend on how many look:
//! one task asks once a second while anybody does (`live.rs`).
//!
//! Whatever a job carries is hostile text. Templates escape all of it, pages allow no script and no style but the two files
//! of this crate, and every request passes `guard.rs` first.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass_web::{Options, router, serve};
//!
//! let store = windlass::open("sqlite:jobs.db")?;
//! let options = Options::default();
//! let listener = serve::listen("127.0.0.1:7420".parse()?, &options.auth).await?;
//! serve::serve(listener, router(store, options), std::future::pending()).await;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod auth;
pub mod serve;

mod guard;
mod limits;
mod live;
mod pages;
mod refusal;
mod routes;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, header};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use windlass::store::Store;
use windlass::{Client, Inspector};

pub use auth::Auth;
pub use limits::{BODY_LEN_MAX, Limits};
pub use routes::{Access, ROUTES, Route};

/// How a dashboard behaves.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How those who ask are known. Default: not at all, and only requests to localhost are answered.
    pub auth: Auth,
    /// Whether nobody may change anything. Default: false.
    pub is_read_only: bool,
    /// Origins such as `https://jobs.example.com` whose pages may act although the `Host` that arrives here is another: for
    /// a proxy in front. Default: none.
    pub trusted_origins: Vec<String>,
    /// Where it stops waiting.
    pub limits: Limits,
}

/// What all requests share.
#[derive(Debug, Clone)]
struct Shared(Arc<Dashboard>);

#[derive(Debug)]
struct Dashboard {
    inspector: Inspector,
    client: Client,
    gate: auth::Gate,
    options: Options,
    live: live::Live,
    readiness: pages::probes::Readiness,
}

impl std::ops::Deref for Shared {
    type Target = Dashboard;

    fn deref(&self) -> &Dashboard {
        &self.0
    }
}

impl Dashboard {
    fn is_trusted_origin(&self, origin: &str) -> bool {
        self.options.trusted_origins.iter().any(|trusted| trusted == origin)
    }

    /// Whether the request is to the name of a trusted origin.
    fn is_trusted_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let hosts = |origin: &String| origin.split_once("://").map(|(_, host)| host.to_owned());
        host.is_some_and(|host| self.options.trusted_origins.iter().filter_map(hosts).any(|trusted| trusted == host))
    }
}

/// The dashboard of a store, to serve by itself or to mount: `app.nest("/jobs", router(store, options))`.
///
/// The limits of the socket ([`serve`]) are the caller's when it is mounted, and so is telling where requests come from:
/// see [`auth::Peer`].
pub fn router(store: Arc<dyn Store>, options: Options) -> Router {
    let answer_time = options.limits.answer_time;
    let shared = Shared(Arc::new(Dashboard {
        inspector: Inspector::new(Arc::clone(&store)),
        client: Client::new(Arc::clone(&store)),
        gate: auth::Gate::new(options.auth.clone()),
        live: live::Live::new(Inspector::new(store), &options.limits),
        readiness: pages::probes::Readiness::default(),
        options,
    }));
    routes::mount(&shared)
        .layer(TimeoutLayer::with_status_code(axum::http::StatusCode::GATEWAY_TIMEOUT, answer_time))
        .layer(RequestBodyLimitLayer::new(BODY_LEN_MAX))
        .layer(CatchPanicLayer::new())
        .layer(axum::middleware::from_fn(guard::harden))
        .layer(CompressionLayer::new().gzip(true))
}
