//! Serves a dashboard on a socket, with an end to every wait.
//!
//! A client that sends its headers too slowly, or holds more connections than are allowed, is let go; a stop ends those
//! under way within a grace.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt as _;

use crate::auth::{Auth, Peer};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// How long a client may take to send its headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest headers.
const HEADER_LEN_MAX: usize = 32 << 10;
/// How long connections have to end once the server is told to stop.
const GRACE: Duration = Duration::from_secs(2);

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

/// Answers requests until `stop` is there.
pub async fn serve(listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let (tell, told) = watch::channel(());
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
                let (router, told) = (router.clone(), told.clone());
                tokio::spawn(async move {
                    converse(stream, peer, router, told).await;
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
    let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    // What has not ended by then is dropped with the runtime.
    let _ = tokio::time::timeout(GRACE, room.acquire_many(all)).await;
}

async fn converse(stream: TcpStream, peer: SocketAddr, router: Router, mut told: watch::Receiver<()>) {
    // Answers are small; waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let service = router.map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        request.map(Body::new)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HEADER_LEN_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
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
