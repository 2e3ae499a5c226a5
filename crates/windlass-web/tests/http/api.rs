//! The JSON API as `docs/dashboard.md` tells it.

use axum::Router;
use axum::http::{Method, StatusCode};
use windlass::job::JobId;
use windlass::state::State;
use windlass_web::{Options, router};

use super::support::{Answer, ask, get, memory, record};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn with_dead_jobs(count: u8) -> Router {
    let store = memory();
    let jobs = (0..count).map(|number| record(JobId::from_bytes([number; 12]), State::Dead, "mail.send"));
    let _ = store.restore(jobs.collect()).await.unwrap();
    router(store, Options::default())
}

async fn post(app: &Router, path: &str, body: &str) -> Answer {
    ask(app, Method::POST, path, &JSON, body).await
}

#[tokio::test]
async fn a_listing_is_read_page_by_page() {
    let app = with_dead_jobs(5).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&app, &format!("/api/jobs?state=dead&kind=mail.send&limit=2&after={after}")).await;
        let page: serde_json::Value = serde_json::from_str(&page.body).unwrap();
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = next.to_owned();
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn changes_answer_what_was_done() {
    let app = with_dead_jobs(5).await;
    let paused = post(&app, "/api/queue/pause?name=mail", "").await;
    assert_eq!(paused.body, r#"{"changed":1,"asked":0,"refused":0,"more":false}"#);
    let all = r#"{"verb":"requeue","all":{"state":"dead","kind":"mail.send"}}"#;
    assert_eq!(post(&app, "/api/jobs/change", all).await.body, r#"{"changed":5,"asked":0,"refused":0,"more":false}"#);
    let id = JobId::from_bytes([3; 12]);
    assert_eq!(post(&app, &format!("/api/jobs/{id}/requeue"), "").await.status, StatusCode::CONFLICT, "it is ready");
    assert_eq!(post(&app, &format!("/api/jobs/{id}/delete"), "").await.status, StatusCode::OK);
    assert_eq!(get(&app, &format!("/api/jobs/{id}")).await.status, StatusCode::NOT_FOUND);
    let cleared = post(&app, "/api/queue/clear?name=mail.send", "").await;
    assert_eq!(cleared.body, r#"{"changed":4,"asked":0,"refused":0,"more":false}"#);
    assert_eq!(post(&app, "/api/process/stop?id=all", "").await.body, r#"{"told":0}"#);
    assert_eq!(post(&app, "/api/process/stop?id=nobody", "").await.status, StatusCode::NOT_FOUND);
    assert_eq!(post(&app, "/api/queue/explode?name=mail", "").await.status, StatusCode::NOT_FOUND);
    assert_eq!(post(&app, "/api/queue/pause?name=no%20name", "").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn metrics_are_served_as_openmetrics() {
    let answer = get(&with_dead_jobs(2).await, "/metrics").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"), "{answer:?}");
    assert!(
        answer.body.contains("windlass_jobs{state=\"dead\"} 2\n") && answer.body.ends_with("# EOF\n"),
        "{answer:?}"
    );
}
