//! What a run leaves in the log, and the trace that travels with a job. One test a program: the log is the thread's.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing_subscriber::fmt::format::FmtSpan;
use windlass::server::Server;
use windlass::store::Store;
use windlass::store::memory::MemoryStore;
use windlass::trace::{Trace, TraceContext};
use windlass::{Client, Context, Handlers, Job, JobOptions, ServerConfig};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER_PARENT: &str = "00-11111111111111111111111111111111-2222222222222222-00";

#[derive(Serialize, Deserialize, Job)]
#[job(kind = "trace.me")]
struct TraceMe;

/// Lines of JSON, in memory.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A library that is always within one and the same span.
struct Always(Trace);

impl TraceContext for Always {
    fn current(&self) -> Option<Trace> {
        Some(self.0.clone())
    }
}

/// What the handler saw of its trace.
type Seen = Arc<Mutex<Vec<Option<Trace>>>>;

#[tokio::test]
async fn a_run_is_logged_with_its_job_and_the_trace_it_is_part_of() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let seen = Seen::default();
    let handler = {
        let seen = Arc::clone(&seen);
        move |_: TraceMe, ctx: Context| {
            let seen = Arc::clone(&seen);
            async move {
                tracing::info!("hello from the handler");
                seen.lock().unwrap().push(ctx.trace().cloned());
            }
        }
    };
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let trace = Trace::new(PARENT, "vendor=1").unwrap();
    let client = Client::new(Arc::clone(&store)).traced_by(Arc::new(Always(trace.clone())));
    let server =
        Server::new(store, Handlers::new().on(handler), ServerConfig::default()).unwrap().start().await.unwrap();

    let id = client.enqueue(&TraceMe).await.unwrap();
    let other = Trace::new(OTHER_PARENT, "").unwrap();
    client.with(JobOptions::new().trace(other.clone())).enqueue(&TraceMe).await.unwrap();
    Client::new(Arc::clone(client.store())).enqueue(&TraceMe).await.unwrap();
    let all_ran = async {
        while seen.lock().unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_ran).await.unwrap();
    server.stop().await;

    assert_eq!(*seen.lock().unwrap(), [Some(trace), Some(other), None]);
    let lines = log.lines();
    let hello = lines.iter().find(|line| line["fields"]["message"] == "hello from the handler").unwrap();
    let span = &hello["span"];
    assert_eq!(
        (&span["name"], &span["job.id"], &span["job.kind"]),
        (&"run".into(), &id.to_string().into(), &"trace.me".into())
    );
    assert_eq!(
        (&span["queue"], &span["attempt"], &span["traceparent"]),
        (&"default".into(), &1.into(), &PARENT.into())
    );
    for name in ["enqueue", "lease", "run", "ack"] {
        let is_end = |line: &&Value| line["fields"]["message"] == "close" && line["span"]["name"] == name;
        assert!(lines.iter().any(|line| is_end(&line)), "no span {name}");
    }
    for message in ["leased", "acked"] {
        let is_it = |line: &&Value| line["fields"]["message"] == message && line["fields"]["job.id"] == id.to_string();
        assert!(lines.iter().any(|line| is_it(&line)), "no event {message}");
    }
}
