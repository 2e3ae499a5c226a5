//! The world of the browser tests: a store with jobs in every state, hostile texts, long ones, and a server with jobs that
//! move.
//!
//! `cargo run --package windlass-web --example seeded STORE_URL`. It prints the ids of some jobs as JSON when everything
//! is in its state, then goes on until its standard input ends, or until it is ordered to stop.

#![expect(clippy::print_stdout, reason = "what it says is for whoever started it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass::config::QueueConfig;
use windlass::job::{JobId, Payload};
use windlass::retry::RetryPolicy;
use windlass::state::State;
use windlass::store::Store;
use windlass::{Client, Context, HandlerError, Handlers, Inspector, JobOptions, Server, ServerConfig};

type Failure = Box<dyn std::error::Error>;

/// What a browser would run if a page forgot to escape it; `taken` is what the tests look for.
const HOSTILE: &[&str] = &[
    "<script>window.taken=1</script>",
    "</script><script>window.taken=1</script>",
    "<img src=x onerror=window.taken=1>",
    "<svg/onload=window.taken=1>",
    "\"><svg onload=window.taken=1>",
    "'\" autofocus onfocus=window.taken=1 x='",
    "</pre></textarea></title><iframe srcdoc=\"<script>parent.taken=1</script>\">",
    "<a href=\"javascript:window.taken=1\">click</a>",
    "<style>@import url(//evil.example/x.css)</style><meta http-equiv=refresh content=0;url=//evil.example>",
    "<math><mtext></table><mglyph><style><img src onerror=window.taken=1>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "\u{202e}gnp.exe \u{0000}\u{001b}[31mred\u{001b}[0m \u{feff}",
];

/// Ends the way its kind says.
async fn run(payload: Payload, ctx: Context) -> Result<(), HandlerError> {
    let text = payload.to_text();
    match ctx.kind() {
        "report.fail" => Err(HandlerError::with_class("PrinterError", format!("out of paper for {text}"))),
        "hostile.fail" => Err(HandlerError::with_class(&text, &text)),
        "long.fail" => Err(HandlerError::msg("unbreakable".repeat(200))),
        "video.encode" => {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(())
        }
        _ => {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(())
        }
    }
}

const KINDS: &[&str] = &["mail.send", "image.resize", "report.fail", "hostile.fail", "long.fail", "video.encode"];

fn hostile(text: &str) -> String {
    serde_json::json!([{ "text": text, text: [text] }]).to_string()
}

/// Enqueues some of everything, and waits until each is in its state.
async fn seed(client: &Client, inspector: &Inspector) -> Result<BTreeMap<&'static str, JobId>, Failure> {
    let live = || JobOptions::new().queue("live");
    let once = || live().attempts(1);
    let hour = Duration::from_secs(3_600);
    let mut known = BTreeMap::new();
    for number in 0..60 {
        known.insert("dead", client.with(once()).raw("report.fail", &format!("[{{\"page\":{number}}}]")).await?);
        let args = format!("[{{\"to\":\"reader-{number}@example.com\",\"subject\":\"news\"}}]");
        known.insert("done", client.with(live().keep_done(hour)).raw("mail.send", &args).await?);
        known.insert("ready", client.with(JobOptions::new().queue("night")).raw("mail.send", &args).await?);
    }
    for text in HOSTILE {
        client.with(once()).raw("hostile.fail", &hostile(text)).await?;
        client.with(JobOptions::new().queue("night")).raw("mail.send", &hostile(text)).await?;
    }
    known.insert("hostile", client.with(once()).raw("hostile.fail", &hostile(&HOSTILE.join(" "))).await?);
    known.insert("long", client.with(once()).raw("long.fail", &format!("[\"{}\"]", "w".repeat(5_000))).await?);
    let patient = live().retry(RetryPolicy::Fixed { delay_ms: 3_600_000 });
    for number in 0..5 {
        known.insert("retry", client.with(patient.clone()).raw("report.fail", &format!("[{number}]")).await?);
        let at = client.store().now() + hour;
        known.insert("scheduled", client.with(live()).raw_at(at, "mail.send", &format!("[{number}]")).await?);
        let given_up = client.with(live()).raw_at(at, "image.resize", &format!("[{number}]")).await?;
        client.cancel(given_up).await?;
        known.insert("cancelled", given_up);
    }
    for number in 0..3 {
        known.insert("running", client.with(live()).raw("video.encode", &format!("[{number}]")).await?);
    }
    for queue in ["spare", "deutsche.übung", &"long-".repeat(20)] {
        client.with(JobOptions::new().queue(queue)).raw("mail.send", "[1]").await?;
    }
    for (name, id) in &known {
        until(inspector, *id, name).await?;
    }
    Ok(known)
}

/// Waits until a job is in the state that its name says; those with another name are to be dead.
async fn until(inspector: &Inspector, id: JobId, name: &str) -> Result<(), Failure> {
    let wanted = name.parse().unwrap_or(State::Dead);
    for _ in 0..3_000 {
        if inspector.job(id).await?.state == wanted {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("job {id} is not {wanted} after 30 s").into())
}

/// Jobs that come and go for as long as the tests look.
async fn produce(client: Client) -> Result<(), windlass::Error> {
    loop {
        let resize = client.with(JobOptions::new().queue("live"));
        resize.raw("image.resize", "[{\"name\":\"photo.jpg\",\"width\":200}]").await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().nth(1).ok_or("name the store: sqlite:PATH")?;
    let store: Arc<dyn Store> = windlass::open(&url)?;
    let handlers = KINDS.iter().fold(Handlers::new(), |handlers, kind| handlers.raw(kind, run));
    let queues = vec![QueueConfig { name: "live".to_owned(), weight: 1, at_most_once: false }];
    let stop_timeout = Duration::from_millis(200);
    let config = ServerConfig { queues, stop_timeout, ..ServerConfig::default() };
    let server = Server::new(Arc::clone(&store), handlers, config)?.start().await?;
    let client = Client::new(Arc::clone(&store));
    let known = seed(&client, &Inspector::new(Arc::clone(&store))).await?;
    let known: BTreeMap<_, _> = known.iter().map(|(name, id)| (name, id.to_string())).collect();
    println!("{}", serde_json::to_string(&known)?);
    let producing = tokio::spawn(produce(client));
    let (tell, owner_left) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // An owner that is gone cannot write; whatever ends the reading ends us.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = tell.send(());
    });
    tokio::select! {
        _ = owner_left => {}
        () = server.stop_asked() => {}
        ended = producing => ended??,
    }
    server.stop().await;
    store.close().await?;
    // The thread that reads may read on; nothing waits for it.
    std::process::exit(0);
}
