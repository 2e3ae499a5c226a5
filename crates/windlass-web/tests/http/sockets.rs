//! Over real sockets: clients that are slow, silent, greedy or many, and a server that stops.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::job::{JobId, Payload};
use windlass::state::State;
use windlass::store::Store as _;
use windlass_web::serve::{listen, serve_within};
use windlass_web::{Auth, Limits, Options, router};

use super::support::{Watched, record};

/// Long enough for a busy machine; what is waited for comes long before.
const PATIENCE: Duration = Duration::from_secs(60);

struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

async fn serve(limits: &Limits, router: Router) -> Served {
    let listener = listen("127.0.0.1:0".parse().unwrap(), &Auth::None).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let limits = limits.clone();
    let server = tokio::spawn(async move {
        serve_within(&limits, listener, router, async { drop(stopped.await) }).await;
    });
    Served { address, stop, server }
}

async fn served(limits: &Limits) -> Served {
    serve(limits, router(Watched::new(), Options { limits: limits.clone(), ..Options::default() })).await
}

async fn connected(served: &Served, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// All that comes until the server ends the connection, also by a reset.
async fn until_the_end(mut stream: TcpStream) -> String {
    let mut got = Vec::new();
    let reading = async {
        let mut piece = [0; 65_536];
        while let Ok(len @ 1..) = stream.read(&mut piece).await {
            got.extend_from_slice(&piece[..len]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the server ends the connection");
    String::from_utf8_lossy(&got).into_owned()
}

const GOOD: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn a_client_that_dribbles_its_headers_is_let_go() {
    let mut limits = Limits::default();
    limits.header_time = Duration::from_millis(100);
    let served = served(&limits).await;
    let slow = connected(&served, "GET /health HTTP/1.1\r\nhost: local").await;
    let silent = connected(&served, "").await;
    assert!(until_the_end(connected(&served, GOOD).await).await.starts_with("HTTP/1.1 200"));
    assert!(!until_the_end(slow).await.contains("200"));
    assert_eq!(until_the_end(silent).await, "");
}

#[tokio::test]
async fn a_client_that_dribbles_its_body_is_answered_that_time_is_over() {
    let mut limits = Limits::default();
    limits.answer_time = Duration::from_millis(100);
    let served = served(&limits).await;
    let head =
        "POST /api/jobs/change HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let slow = connected(&served, &format!("{head}content-length: 100\r\n\r\n{{\"verb\"")).await;
    assert!(until_the_end(slow).await.starts_with("HTTP/1.1 504"));
}

#[tokio::test]
async fn headers_that_are_too_long_are_refused() {
    let served = served(&Limits::default()).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let long = format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(10 << 20));
    // The server may hang up before it has read all of it.
    let _ = stream.write_all(long.as_bytes()).await;
    assert!(!until_the_end(stream).await.contains(" 200 "));
}

/// SE-11. The answer is larger than what sockets hold back for a client that never reads.
#[tokio::test]
async fn a_client_that_never_reads_loses_its_place() {
    let mut limits = Limits::default();
    (limits.write_time, limits.connections_max) = (Duration::from_millis(200), 1);
    let store = Watched::new();
    for number in 0..20_u8 {
        let mut job = record(JobId::from_bytes([number; 12]), State::Dead, "mail");
        job.payload = Payload::from_bytes(format!("\"{}\"", "x".repeat(1_000_000)));
        let _ = store.restore(vec![job]).await.unwrap();
    }
    let served = serve(&limits, router(store, Options { limits: limits.clone(), ..Options::default() })).await;
    let deaf = connected(&served, "GET /api/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    deaf.readable().await.unwrap();
    // There is one place: another client is answered once it is free.
    let answered = async {
        loop {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            let mut answer = String::new();
            let is_sent = stream.write_all(GOOD.as_bytes()).await.is_ok();
            if is_sent && stream.read_to_string(&mut answer).await.is_ok() && answer.starts_with("HTTP/1.1 200") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("the place of the client that never reads is freed");
    drop(deaf);
}

#[tokio::test]
async fn a_stream_of_events_ends_by_itself_and_frees_its_seat() {
    let mut limits = Limits::default();
    (limits.stream_life, limits.viewers_max) = (Duration::from_millis(200), 1);
    let served = served(&limits).await;
    let events = "GET /events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut first = connected(&served, events).await;
    first.readable().await.unwrap();
    assert!(until_the_end(connected(&served, events).await).await.starts_with("HTTP/1.1 503"));
    let mut begun = [0; 12];
    first.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    until_the_end(first).await;
    assert!(until_the_end(connected(&served, events).await).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_stop_ends_streams_at_once() {
    let mut limits = Limits::default();
    limits.grace = PATIENCE * 2;
    let served = served(&limits).await;
    let stream = connected(&served, "GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    stream.readable().await.unwrap();
    served.stop.send(()).unwrap();
    assert!(until_the_end(stream).await.starts_with("HTTP/1.1 200"));
    tokio::time::timeout(PATIENCE, served.server).await.expect("long before the grace is over").unwrap();
}

#[tokio::test]
async fn a_public_address_without_authentication_is_refused() {
    let error = listen("0.0.0.0:0".parse().unwrap(), &Auth::None).await.unwrap_err();
    assert!(error.to_string().contains("without authentication"), "{error}");
}
