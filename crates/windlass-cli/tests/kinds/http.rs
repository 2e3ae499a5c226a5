//! Web services as workers: what they are sent, what their answers mean, where nothing is sent.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::support::{Bench, until};

/// A request as the service saw it.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    headers: BTreeMap<String, String>,
    body: Value,
    at: Instant,
}

/// What the service answers: a status, headers, a body, and after how long.
#[derive(Debug, Clone, Default)]
struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
    delay: Duration,
}

fn reply(status: u16, body: &str) -> Reply {
    Reply { status, body: Bytes::copy_from_slice(body.as_bytes()), ..Reply::default() }
}

/// A web service in this process. Ends when it is dropped.
struct Service {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _runtime: Runtime,
}

/// Answers the n-th request, from 0.
type Answers = dyn Fn(usize) -> Reply + Send + Sync;

impl Service {
    fn answering(answers: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Service {
        Service::start(answers, None)
    }

    fn start(
        answers: impl Fn(usize) -> Reply + Send + Sync + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Service {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (answers, noted): (Arc<Answers>, _) = (Arc::new(answers), Arc::clone(&seen));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, noted, tls) = (Arc::clone(&answers), Arc::clone(&noted), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, noted, answers).await,
                        // A client that trusts nobody here ends the handshake.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, noted, answers).await;
                            }
                        }
                    }
                });
            }
        });
        Service { address, seen, _runtime: runtime }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, seen: Arc<Mutex<Vec<Seen>>>, answers: Arc<Answers>) {
    let answer = |request: Request<Incoming>| {
        let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
        async move {
            let (line, at) = (format!("{} {}", request.method(), request.uri()), Instant::now());
            let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
            let headers = request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap();
            let number = {
                let mut seen = seen.lock().unwrap();
                seen.push(Seen { line, headers, body, at });
                seen.len() - 1
            };
            let reply = answers(number);
            tokio::time::sleep(reply.delay).await;
            let mut response = Response::builder().status(reply.status);
            for (name, value) in &reply.headers {
                response = response.header(*name, value);
            }
            Ok::<_, Infallible>(response.body(Full::new(reply.body)).unwrap())
        }
    };
    // A client that goes away in the middle is what some tests want.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

#[test]
fn a_service_gets_the_data_and_who_asks_and_its_answer_is_the_result() {
    let service = Service::answering(|_| Reply {
        headers: vec![("content-type", "application/json".to_owned())],
        ..reply(201, r#"{"sent":1}"#)
    });
    let bench = Bench::serving(&["--allow-http", &service.url()]);
    let trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01";

    let url = format!("{}/mails?by=job", service.url());
    let mut enqueue = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    enqueue.current_dir(bench.dir.path()).env("TRACEPARENT", trace).env_remove("WINDLASS_URL");
    enqueue.args(["enqueue", "http", &url, "--keep", "1h", "--timeout", "1h", "--data", r#"{"to":"ann","n":1.50}"#]);
    let id = String::from_utf8(enqueue.output().unwrap().stdout).unwrap().trim().to_owned();
    let job = bench.until(&id, "done");

    assert_eq!(job["result"], json!({ "status": 201, "body": { "sent": 1 }, "cut": false }));
    let [seen] = &service.seen()[..] else { panic!("one request") };
    assert_eq!((seen.line.as_str(), &seen.body), ("POST /mails?by=job", &json!({ "to": "ann", "n": 1.5 })));
    for (name, value) in [
        ("content-type", "application/json"),
        ("host", &service.address.to_string()),
        ("idempotency-key", &id),
        ("windlass-job-id", &id),
        ("windlass-job-kind", "http"),
        ("windlass-job-queue", "default"),
        ("windlass-job-attempt", "1"),
        ("windlass-job-attempts-max", "25"),
        ("traceparent", trace),
    ] {
        assert_eq!(seen.headers.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(seen.headers["windlass-job-deadline"].ends_with('Z'));
    assert!(seen.headers["user-agent"].starts_with("windlass/"));
}

#[test]
fn a_service_that_is_busy_is_asked_again_when_it_says_with_the_same_key() {
    let service = Service::answering(|number| match number {
        0 => Reply { headers: vec![("retry-after", "1".to_owned())], ..reply(503, "busy") },
        _ => reply(200, "fine"),
    });
    let bench = Bench::serving(&["--allow-http", &service.address.to_string()]);

    // By its own policy the job would come at once.
    let id = bench.enqueue(&["http", &service.url(), "--retry", "0s"]);
    let job = bench.until(&id, "done");

    let [first, second] = &service.seen()[..] else { panic!("two requests") };
    assert!(second.at - first.at >= Duration::from_millis(900), "{:?}", second.at - first.at);
    assert_eq!(first.headers["idempotency-key"], second.headers["idempotency-key"]);
    assert_eq!((&*second.headers["windlass-job-attempt"], &job["result"]["body"]), ("2", &json!("fine")));
    assert_eq!(first.body, Value::Null);
}

#[test]
fn statuses_decide_between_again_and_dead() {
    let service = Service::answering(|number| reply(if number == 0 { 410 } else { 500 }, "no luck"));
    let bench = Bench::serving(&["--allow-http", &service.url()]);

    let gone = bench.until(&bench.enqueue(&["http", &service.url()]), "dead");
    let broken = bench.enqueue(&["http", &service.url(), "--attempts", "3", "--retry", "10ms"]);
    let broken = bench.until(&broken, "dead");

    assert_eq!((&gone["attempt"], &gone["error"]["class"]), (&json!(1), &json!("Http410")));
    assert_eq!((&broken["attempt"], &broken["error"]["class"]), (&json!(3), &json!("Http500")));
    assert!(broken["error"]["message"].as_str().unwrap().ends_with("500 Internal Server Error: no luck"));
}

#[test]
fn nothing_is_sent_where_nothing_may_be_sent() {
    let (listed, other) = (Service::answering(|_| reply(200, "")), Service::answering(|_| reply(200, "")));
    let bench = Bench::serving(&["--allow-http", &format!("{}/hooks", listed.url())]);

    for url in [
        other.url(),
        format!("{}/", listed.url()),
        format!("{}/hooksx", listed.url()),
        format!("http://localhost:{}/hooks", listed.address.port()),
        format!("https://{}/hooks", listed.address),
        "http://169.254.169.254/latest/meta-data".to_owned(),
    ] {
        let dead = bench.until(&bench.enqueue(&["http", &url]), "dead");
        assert_eq!((&dead["error"]["class"], &dead["attempt"]), (&json!("HttpNotAllowed"), &json!(1)), "{url}");
    }
    // What the command line refuses may still stand in a store that others write to.
    let store = windlass::open(&format!("sqlite:{}", bench.dir.path().join("jobs.db").display())).unwrap();
    let client = windlass::Client::new(store.clone()).blocking();
    for path in ["/hooks/../admin", "/hooks/%2e%2e/admin", "/hooks/..%2fadmin"] {
        let args = json!([{ "url": format!("{}{path}", listed.url()) }]).to_string();
        let dead = bench.until(&client.raw("http", &args).unwrap().to_string(), "dead");
        assert_eq!(dead["error"]["class"], "HttpInvalid", "{path}");
    }
    windlass::blocking::block_on(store.close()).unwrap();
    assert!(listed.seen().is_empty() && other.seen().is_empty());
}

#[test]
fn a_redirect_leads_nowhere() {
    let other = Service::answering(|_| reply(200, ""));
    let to = other.url();
    let service = Service::answering(move |_| Reply { headers: vec![("location", to.clone())], ..reply(307, "") });
    let bench = Bench::serving(&["--allow-http", &service.address.to_string(), &other.address.to_string()]);

    let dead = bench.until(&bench.enqueue(&["http", &service.url(), "--attempts", "1"]), "dead");

    assert_eq!(dead["error"]["class"], "Http307");
    assert!(dead["error"]["message"].as_str().unwrap().contains("redirects are not followed"));
    assert!(other.seen().is_empty());
}

#[test]
fn a_service_that_does_not_answer_is_left_at_the_deadline_and_at_a_cancel() {
    let service = Service::answering(|_| Reply { delay: Duration::from_secs(3_600), ..reply(200, "") });
    let bench = Bench::serving(&["--allow-http", &service.url()]);

    let late = bench.enqueue(&["http", &service.url(), "--timeout", "300ms", "--attempts", "1"]);
    let called_off = bench.enqueue(&["http", &service.url()]);
    until("two requests", || service.seen().len() == 2);
    bench.printed(&["jobs", "cancel", &called_off]);

    assert_eq!(bench.until(&late, "dead")["error"]["class"], "Timeout");
    bench.until(&called_off, "cancelled");
}

#[test]
fn nobody_listening_is_a_failure_that_says_so() {
    let address = Service::answering(|_| reply(200, "")).address;
    let bench = Bench::serving(&["--allow-http", &address.to_string()]);

    let dead = bench.until(&bench.enqueue(&["http", &format!("http://{address}/"), "--attempts", "1"]), "dead");

    assert_eq!(dead["error"]["class"], "Http");
    assert!(dead["error"]["message"].as_str().unwrap().contains("refused"), "{dead}");
}

#[test]
fn of_a_long_answer_the_beginning_is_kept() {
    let service = Service::answering(|_| reply(200, &"é".repeat(5_000_000)));
    let bench = Bench::serving(&["--allow-http", &service.url()]);

    let result = bench.until(&bench.enqueue(&["http", &service.url()]), "done")["result"].clone();

    assert_eq!(result["cut"], true);
    assert_eq!(result["body"].as_str().unwrap().len(), 64 << 10);
}

#[test]
fn a_thousand_requests_wait_for_their_answers_at_the_same_time() {
    const COUNT: usize = 1_000;
    const PATIENCE: Duration = Duration::from_secs(6);
    let here = Arc::new(AtomicUsize::new(0));
    let arrived = Arc::clone(&here);
    // Each answer takes its time; so all are there at once only if nobody waits for another.
    let service = Service::answering(move |_| {
        arrived.fetch_add(1, Ordering::Relaxed);
        Reply { delay: PATIENCE, ..reply(200, "") }
    });
    let mut bench = Bench::new();
    let store = windlass::open(&format!("sqlite:{}", bench.dir.path().join("jobs.db").display())).unwrap();
    let client = windlass::Client::new(store.clone()).blocking();
    let args = json!([{ "url": service.url() }]).to_string();
    for _ in 0..COUNT {
        client.raw("http", &args).unwrap();
    }
    bench.serve(&["--allow-http", &service.url(), "--concurrency", "1000"], &[]);

    until("a thousand requests", || here.load(Ordering::Relaxed) == COUNT);
    until("a thousand answers", || {
        let stats: Value = serde_json::from_str(&bench.printed(&["stats", "--json"])).unwrap();
        stats["counts"]["totals"]["done"] == COUNT
    });

    let arrivals: Vec<Instant> = service.seen().iter().map(|seen| seen.at).collect();
    let spread = *arrivals.iter().max().unwrap() - *arrivals.iter().min().unwrap();
    assert!(spread < PATIENCE, "some came after the first answers: {spread:?}");
    windlass::blocking::block_on(store.close()).unwrap();
}

#[cfg(feature = "tls")]
#[test]
fn a_service_is_reached_by_tls_when_the_system_trusts_it_and_not_otherwise() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let private = tokio_rustls::rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
    let config = config.with_single_cert(vec![key.cert.der().clone()], private).unwrap();
    let service = Service::start(|_| reply(200, "fine"), Some(Arc::new(config).into()));
    let url = format!("https://localhost:{}/", service.address.port());
    let (mut trusting, mut wary) = (Bench::new(), Bench::new());
    let certificate = trusting.dir.path().join("trusted.pem");
    std::fs::write(&certificate, key.cert.pem()).unwrap();

    trusting.serve(&["--allow-http", &url], &[("SSL_CERT_FILE", certificate.to_str().unwrap())]);
    wary.serve(&["--allow-http", &format!("localhost:{}", service.address.port())], &[]);

    let done = trusting.until(&trusting.enqueue(&["http", &url]), "done");
    assert_eq!(done["result"]["body"], "fine");
    let dead = wary.until(&wary.enqueue(&["http", &url, "--attempts", "1"]), "dead");
    assert!(dead["error"]["message"].as_str().unwrap().contains("certificate"), "{dead}");
    assert_eq!(service.seen().len(), 1);
}

#[test]
fn wrong_words_are_refused_before_anything_is_started_or_stored() {
    let bench = Bench::new();

    for (arguments, why) in [
        (&["enqueue", "http"][..], "one address"),
        (&["enqueue", "http", "http://a.test/", "http://b.test/"], "one address"),
        (&["enqueue", "http", "a.test"], "http://"),
        (&["enqueue", "http", "ftp://a.test"], "http://"),
        (&["enqueue", "http", "http://ann:word@a.test/"], "password"),
        (&["enqueue", "http", "http://a.test/x/../y"], "climbs"),
        (&["enqueue", "http", "http://a.test/", "--data", "{"], "broken JSON"),
        (&["enqueue", "http", "http://a.test/", "--cwd", "/"], "kind exec"),
        (&["serve", "--allow-http", "a.test/hooks"], "http://a.test/hooks"),
        (&["serve", "--allow-http", "file:///etc/passwd"], "http://"),
    ] {
        let complaint = bench.complaint(arguments);
        assert!(complaint.contains(why), "{arguments:?}: {complaint}");
    }
    assert!(!bench.dir.path().join("jobs.db").exists());
}
