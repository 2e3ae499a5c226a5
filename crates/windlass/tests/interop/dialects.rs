//! What the versions write that the real Sidekiq of this machine may not be: shapes of keys and values as documented.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use windlass::job::Payload;
use windlass::store::{Store, open};
use windlass::{Client, Context, HandlerError, Handlers};
use windlass_testbed::RedisServer;

use crate::{heard, start_on};

/// Runs three jobs of a kind: one fails, and one is looked at while it runs.
async fn run_some(server: &RedisServer, store: &Arc<dyn Store>) -> Vec<String> {
    let client = Client::new(Arc::clone(store));
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = move |args: Payload, ctx: Context| {
        let tell = tell.clone();
        async move {
            match args.to_text().as_str() {
                "[\"fail\"]" => Err(HandlerError::msg("as wanted")),
                "[\"wait\"]" => {
                    let _ = tell.send(());
                    ctx.cancelled().await;
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    };
    let running = start_on(store, Handlers::new().raw("Some::Class", handler)).await;
    for args in ["[1]", "[\"fail\"]"] {
        client.raw("Some::Class", args).await.unwrap();
    }
    let waiting = client.raw("Some::Class", "[\"wait\"]").await.unwrap();
    heard(&mut told).await;
    let member = running.member().to_string();
    let work = windlass_testbed::wait::until("the work", crate::PATIENCE, || {
        let keys = server.cli(&["KEYS", &format!("{member}:w*")])?.texts();
        Ok((!keys.is_empty()).then_some(keys))
    });
    client.cancel(waiting).await.unwrap();
    assert!(running.stop().await.is_clean);
    work.unwrap().iter().map(|key| key.strip_prefix(&member).unwrap().to_owned()).collect()
}

fn keys(server: &RedisServer, pattern: &str) -> Vec<String> {
    let mut keys = server.cli(&["KEYS", pattern]).unwrap().texts();
    keys.sort();
    keys
}

/// The numbers of runs, of failed ones, and of those in the histogram.
fn metrics(server: &RedisServer, minutes: &[String], histograms: &[String]) -> [i64; 3] {
    let sum = |field: &str| {
        let of = |key: &String| server.cli(&["HGET", key, field]).unwrap().integer().unwrap_or(0);
        minutes.iter().map(of).sum()
    };
    let mut in_histogram = 0;
    for histogram in histograms {
        for bucket in 0..26 {
            let count = server.cli(&["BITFIELD", histogram, "GET", "u16", &format!("#{bucket}")]).unwrap();
            in_histogram += count.texts()[0].parse::<i64>().unwrap();
        }
    }
    [sum("Some::Class|p"), sum("Some::Class|f"), in_histogram]
}

async fn opened(dialect: u8) -> (RedisServer, Arc<dyn Store>) {
    let server = RedisServer::start().unwrap();
    let store = open(&format!("{}?dialect={dialect}", server.url())).unwrap();
    (server, store)
}

/// A scheduled job's JSON.
async fn pushed(server: &RedisServer, store: &Arc<dyn Store>) -> Value {
    let client = Client::new(Arc::clone(store));
    client.with(windlass::JobOptions::new()).raw("A", "[]").await.unwrap();
    let text = server.cli(&["LINDEX", "queue:default", "0"]).unwrap().text();
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sidekiq_6_has_seconds_and_no_metrics() {
    let (server, store) = opened(6).await;

    assert_eq!(run_some(&server, &store).await, [":workers"]);

    assert_eq!(keys(&server, "j|*").len() + keys(&server, "*Some::Class*").len(), 0);
    let job = pushed(&server, &store).await;
    assert!(job["created_at"].is_f64() && job["enqueued_at"].is_f64(), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sidekiq_7_has_seconds_and_a_hash_for_each_minute() {
    let (server, store) = opened(7).await;

    assert_eq!(run_some(&server, &store).await, [":work"]);

    let (minutes, histograms) = (keys(&server, "j|20??????|*:*"), keys(&server, "Some::Class-??-??:*"));
    assert_eq!(keys(&server, "j|*"), minutes);
    assert_eq!(metrics(&server, &minutes, &histograms), [3, 1, 2]);
    let job = pushed(&server, &store).await;
    assert!(job["created_at"].is_f64() && job["enqueued_at"].is_f64(), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sidekiq_8_has_milliseconds_and_hashes_for_each_minute_and_ten() {
    let (server, store) = opened(8).await;

    assert_eq!(run_some(&server, &store).await, [":work"]);

    let (minutes, tens) = (keys(&server, "j|??????|*:[0-5][0-9]"), keys(&server, "j|??????|*:[0-5]"));
    let histograms = keys(&server, "h|Some::Class-*-*:*");
    assert_eq!(keys(&server, "j|*").len(), minutes.len() + tens.len());
    assert_eq!(metrics(&server, &minutes, &histograms), [3, 1, 2]);
    assert_eq!(metrics(&server, &tens, &[]), [3, 1, 0]);
    for (key, kept) in [(&minutes[0], 8 * 3_600), (&tens[0], 72 * 3_600), (&histograms[0], 8 * 3_600)] {
        let left = server.cli(&["TTL", key]).unwrap().integer().unwrap();
        assert!((kept - 120..=kept).contains(&left), "{key}: {left}");
    }
    let job = pushed(&server, &store).await;
    assert!(job["created_at"].is_u64() && job["enqueued_at"].is_u64(), "{job}");
    let now_ms = store.now().as_millis() as u64;
    assert!(job["created_at"].as_u64().unwrap().abs_diff(now_ms) < Duration::from_secs(60).as_millis() as u64, "{job}");
}
