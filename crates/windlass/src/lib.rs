//! Background jobs that survive the process.
//!
//! A **job** is a stored record with a name and a life. A [`Client`] enqueues it, a store keeps it, a server leases
//! it, runs its handler as a task, and the outcome is the job's next state.
//!
//! An accepted job is run at least once as long as the store keeps its data. It is run more than once only if its
//! process loses its membership while running it. A stale process can never ack, retry or kill a job that was given
//! to someone else.
#![forbid(unsafe_code)]

pub mod state;

pub mod clock;
pub mod entropy;
pub mod failpoint;

pub mod codec;
pub mod error;
pub mod job;
pub mod retry;
pub mod trace;

pub mod store;

pub mod blocking;
pub mod client;
pub mod inspect;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod migrate;
pub mod sweep;

#[cfg(feature = "server")]
pub mod cancel;
pub mod config;
#[cfg(feature = "server")]
pub mod context;
#[cfg(feature = "server")]
pub mod event;
#[cfg(feature = "server")]
pub mod handler;
#[cfg(feature = "server")]
pub mod outcome;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "testing")]
pub mod checker;
#[cfg(all(feature = "testing", feature = "server"))]
pub mod testing;

pub use blocking::BlockingClient;
pub use client::Client;
pub use clock::Timestamp;
pub use error::{Error, StoreError};
pub use inspect::Inspector;
pub use job::{Job, JobId, JobOptions};
pub use store::open;
#[cfg(feature = "derive")]
pub use windlass_derive::Job;
#[cfg(feature = "server")]
pub use {
    config::ServerConfig,
    context::Context,
    handler::{Handlers, State},
    outcome::{HandlerError, Json, Outcome},
    server::Server,
};

/// The examples of the README, compiled and run.
#[cfg(all(doctest, feature = "server", feature = "sqlite", feature = "derive"))]
#[doc = include_str!("../../../README.md")]
struct ReadmeExamples;

/// The examples of the guide, compiled and run.
#[cfg(all(doctest, feature = "server", feature = "sqlite", feature = "derive"))]
#[doc = include_str!("../../../docs/guide.md")]
struct GuideExamples;
