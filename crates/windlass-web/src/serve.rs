//! Serves a dashboard on a socket, with an end to every wait.
//!
//! A client that sends its headers too slowly, does not read what is sent to it, or holds more connections than are
//! allowed, is let go; a stop ends the streams of events at once, and what else is under way within a grace.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;

use crate::Limits;
use crate::auth::{Auth, Peer};

/// Why nothing was served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can be reached by others, and nobody would be asked who they are.
    #[error(
        "cannot listen on {address} without authentication: everybody who reaches it could delete jobs; use 127.0.0.1, or set up basic, bearer or forward authentication"
    )]
    Unprotected {
        /// Where it should have listened.
        address: SocketAddr,
    },
    /// The socket could not be opened.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// Where it should have listened.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// Opens a socket for a dashboard with this authentication.
///
/// # Errors
/// [`ServeError`]: for an address that others can reach while nobody is asked who they are, and what the system says.
pub async fn listen(address: SocketAddr, auth: &Auth) -> Result<TcpListener, ServeError> {
    if matches!(auth, Auth::None) && !address.ip().is_loopback() {
        return Err(ServeError::Unprotected { address });
    }
    TcpListener::bind(address).await.map_err(|cause| ServeError::Listen { address, cause })
}

/// Told to requests: that the server stops, by the end of its sender.
#[derive(Debug, Clone)]
pub(crate) struct Stopping(pub(crate) watch::Receiver<()>);

/// Answers requests until `stop` is there, within the usual [`Limits`].
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    serve_within(&Limits::default(), listener, router, stop).await;
}

/// Answers requests until `stop` is there, within these limits.
pub async fn serve_within(limits: &Limits, listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let (tell, told) = watch::channel(());
    let places = u32::try_from(limits.connections_max).unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(places as usize));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // A client beyond the cap is let go at once: it may come again, and nobody else waits for it.
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
                let conversation = converse(stream, peer, router.clone(), Stopping(told.clone()), limits.clone());
                tokio::spawn(async move {
                    conversation.await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: looking again at once would only burn the processor.
                tracing::warn!(%error, "no connection could be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(tell);
    // What has not ended by then is dropped with the runtime.
    let _ = tokio::time::timeout(limits.grace, room.acquire_many(places)).await;
}

async fn converse(stream: TcpStream, peer: SocketAddr, router: Router, stopping: Stopping, limits: Limits) {
    // Answers are small; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_time));
    let Stopping(mut told) = stopping.clone();
    let service = router.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        request.extensions_mut().insert(stopping.clone());
        request.map(Body::new)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.header_time).max_buf_size(limits.header_len_max);
    let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service));
    let mut connection = std::pin::pin!(connection);
    // How a client went away is its own affair.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = told.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
}
