//! A dashboard with something to see: a store in memory, a server, and jobs that come, run, fail and are retried.
//!
//! `cargo run --package windlass-web --example moving [PORT]`

#![expect(clippy::print_stdout, reason = "what it says is for whoever started it")]

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::config::QueueConfig;
use windlass::store::Store;
use windlass::{Client, HandlerError, Handlers, Job, JobOptions, Server, ServerConfig};
use windlass_web::{Options, router, serve};

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "mail.send", queue = "mail")]
struct SendMail {
    to: String,
}

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "image.resize", queue = "images", keep_done = "10m")]
struct Resize {
    name: String,
    width: u32,
}

#[derive(Job, Serialize, Deserialize)]
#[job(kind = "report.build", queue = "low", attempts = 3, retry = "fixed(20s)")]
struct Report {
    number: u64,
}

async fn send(_: SendMail) {
    tokio::time::sleep(Duration::from_millis(15)).await;
}

async fn resize(job: Resize) {
    tokio::time::sleep(Duration::from_millis(u64::from(job.width))).await;
}

async fn report(job: Report) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(120)).await;
    if job.number.is_multiple_of(3) { Err(HandlerError::msg("the printer is out of paper")) } else { Ok(()) }
}

/// Work for as long as the program runs.
async fn produce(client: Client) -> Result<(), windlass::Error> {
    for number in 0_u64.. {
        client.enqueue(&SendMail { to: format!("reader-{number}@example.com") }).await?;
        if number.is_multiple_of(3) {
            client.enqueue(&Resize { name: format!("photo-{number}.jpg"), width: 200 + (number % 900) as u32 }).await?;
        }
        if number.is_multiple_of(20) {
            client.enqueue(&Report { number: number / 20 }).await?;
            let later = Duration::from_secs(600 + number);
            client.with(JobOptions::new().queue("night")).enqueue_in(later, &Report { number: 1 }).await?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(7420), |port| port.parse())?;
    let store: Arc<dyn Store> = windlass::open("memory:")?;
    let handlers = Handlers::new().on(send).on(resize).on(report);
    let queue = |name: &str| QueueConfig { name: name.to_owned(), weight: 1, at_most_once: false };
    let queues = ["mail", "images", "low"].map(queue).to_vec();
    let config = ServerConfig { queues, ..ServerConfig::default() };
    let server = Server::new(Arc::clone(&store), handlers, config)?.start().await?;
    tokio::spawn(produce(Client::new(Arc::clone(&store))));
    let options = Options::default();
    let listener = serve::listen(([127, 0, 0, 1], port).into(), &options.auth).await?;
    println!("http://{}/", listener.local_addr()?);
    serve::serve(listener, router(store, options), async {
        // Without a signal to wait for there is nothing to stop for.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await;
    server.stop().await;
    Ok(())
}
