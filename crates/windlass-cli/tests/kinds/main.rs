//! The kinds that `windlass serve` has of its own: programs as jobs, and web services as workers. Real processes,
//! real sockets.
#![forbid(unsafe_code)]

#[cfg(unix)]
mod documents;
#[cfg(unix)]
mod exec;
#[cfg(unix)]
mod guard;
mod http;
mod support;
