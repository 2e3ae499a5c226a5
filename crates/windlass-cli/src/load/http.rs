//! HTTP for jobs that wait for an answer: the client they use, and a small server that answers after a while.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use windlass::HandlerError;

/// A client that keeps its connections. Cheap to clone.
pub(super) type Requests = Client<HttpConnector, Empty<Bytes>>;

pub(super) fn requests() -> Requests {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Gets a page and reads it to its end.
pub(super) async fn get(requests: &Requests, uri: &Uri) -> Result<(), HandlerError> {
    let failed = |error: &dyn std::fmt::Display| HandlerError::with_class("Http", format!("GET {uri}: {error}"));
    let mut response = requests.get(uri.clone()).await.map_err(|error| failed(&error))?;
    while let Some(frame) = response.body_mut().frame().await {
        frame.map_err(|error| failed(&error))?;
    }
    let status = response.status();
    if status.is_success() { Ok(()) } else { Err(failed(&format!("the server answered {status}"))) }
}

/// A server that answers every request with a few bytes, `delay` after it came.
#[derive(Debug)]
pub(super) struct SlowServer {
    listener: TcpListener,
    delay: Duration,
}

impl SlowServer {
    pub(super) async fn bind(address: SocketAddr, delay: Duration) -> std::io::Result<SlowServer> {
        Ok(SlowServer { listener: TcpListener::bind(address).await?, delay })
    }

    /// Where it listens.
    pub(super) fn url(&self) -> std::io::Result<String> {
        Ok(format!("http://{}/", self.listener.local_addr()?))
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// What the system says when it takes no more connections.
    pub(super) async fn serve(self) -> std::io::Result<Infallible> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            tokio::spawn(serve_one(stream, self.delay));
        }
    }
}

async fn serve_one(stream: TcpStream, delay: Duration) {
    // An answer that waits for more to send would be counted as the job's time.
    let _ = stream.set_nodelay(true);
    let answer = |_: Request<Incoming>| async move {
        tokio::time::sleep(delay).await;
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done\n"))))
    };
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
    // A client that goes away in the middle is its own business.
    drop(served);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_page_is_got_after_its_delay_and_a_dead_address_is_an_error_with_the_address() {
        let delay = Duration::from_millis(30);
        let server = SlowServer::bind(([127, 0, 0, 1], 0).into(), delay).await.unwrap();
        let uri: Uri = server.url().unwrap().parse().unwrap();
        let serving = tokio::spawn(server.serve());
        let requests = requests();
        let since = Instant::now();

        get(&requests, &uri).await.unwrap();
        assert!(since.elapsed() >= delay);

        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        let error = get(&super::requests(), &uri).await.unwrap_err();
        assert!(error.to_string().contains(&uri.to_string()), "{error}");
    }
}
