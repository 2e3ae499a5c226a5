//! What looking costs: the store's calls, the time of a page over very many jobs, the size of a page.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use windlass::job::JobId;
use windlass::state::State;
use windlass_web::{Limits, Options, router};

use super::support::{Watched, ask, get, record};

async fn watch(app: &Router) -> Response {
    let request = Request::builder().uri("/events").header("host", "localhost").body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

/// Time is virtual: ten seconds pass at once, and each second is lived through.
#[tokio::test(start_paused = true)]
async fn sixty_four_viewers_cost_the_store_as_much_as_one_and_none_costs_nothing() {
    let store = Watched::new();
    let app = router(store.clone(), Options::default());
    let mut viewers = Vec::new();
    for _ in 0..64 {
        let viewer = watch(&app).await;
        assert_eq!(viewer.status(), StatusCode::OK);
        viewers.push(viewer);
    }
    assert_eq!(watch(&app).await.status(), StatusCode::SERVICE_UNAVAILABLE, "the 65th");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let watched = store.calls();
    assert!((27..=50).contains(&watched), "{watched} calls in 10 s");
    let heard = viewers[63].body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(heard.starts_with(b"data: {\"counts\":"), "{heard:?}");

    drop(viewers);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = store.calls();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(store.calls(), idle, "nobody looks");

    let mut back = watch(&app).await;
    let heard = back.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(heard.starts_with(b"data: {"), "the next one is told again");
}

/// Viewers come and go at the very instants at which the task decides whether to go on.
#[tokio::test(start_paused = true)]
async fn no_viewer_is_left_without_news() {
    let app = router(Watched::new(), Options::default());
    for round in 0..200_u64 {
        let mut viewer = watch(&app).await;
        let heard = tokio::time::timeout(Duration::from_secs(3), viewer.body_mut().frame()).await;
        assert!(heard.is_ok(), "round {round}");
        drop(viewer);
        tokio::time::sleep(Duration::from_millis(round * 37 % 1_100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn probing_costs_one_call_a_second_however_often_it_is_done() {
    let store = Watched::new();
    let app = router(store.clone(), Options::default());
    for _ in 0..100 {
        assert_eq!(get(&app, "/ready").await.status, StatusCode::OK);
    }
    assert_eq!(store.calls(), 1);
}

/// The pages of a store with `count` dead jobs: each within 100 ms, the best of five, for the machine does other things.
async fn pages_over_dead_jobs(count: u32) {
    let folder = tempfile::tempdir().unwrap();
    let store = windlass::open(&format!("sqlite:{}", folder.path().join("jobs.db").display())).unwrap();
    for batch in (0..count).collect::<Vec<_>>().chunks(5_000) {
        let jobs = batch.iter().map(|number| {
            let mut id = [0; 12];
            id[..4].copy_from_slice(&number.to_be_bytes());
            record(JobId::from_bytes(id), State::Dead, "mail")
        });
        let _ = store.restore(jobs.collect()).await.unwrap();
    }
    let app = router(store, Options::default());
    let first = get(&app, "/jobs?state=dead").await.body;
    let next = first.split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    for path in
        ["/", "/jobs?state=dead", &next, "/jobs?state=dead&q=nowhere", "/jobs?q=nowhere", "/queues", "/queue?name=mail"]
    {
        let mut best = Duration::MAX;
        for _ in 0..5 {
            let began = Instant::now();
            assert_eq!(get(&app, path).await.status, StatusCode::OK, "{path}");
            best = best.min(began.elapsed());
        }
        assert!(best <= Duration::from_millis(100), "{path}: {best:?}");
    }
}

/// A million by `WINDLASS_TEST_DEAD_JOBS=1000000`: storing them takes minutes.
#[tokio::test]
async fn a_page_over_200_000_dead_jobs_is_there_within_100_ms() {
    let count = std::env::var("WINDLASS_TEST_DEAD_JOBS").map_or(200_000, |count| count.parse().unwrap());
    pages_over_dead_jobs(count).await;
}

/// What a browser loads for a page: the page and two files, compressed.
#[tokio::test]
async fn a_full_page_and_its_files_are_at_most_60_kb() {
    let store = windlass::open("memory:").unwrap();
    let text = "The quick brown fox jumps over the lazy dog".replace(' ', "-");
    let jobs = (0..200_u8).map(|number| record(JobId::from_bytes([number; 12]), State::Dead, &text));
    let _ = store.restore(jobs.collect()).await.unwrap();
    let app = router(store, Options::default());
    let len = async |path: &str| {
        let request = Request::builder().uri(path).header("host", "localhost").header("accept-encoding", "gzip");
        let response = app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().collect().await.unwrap().to_bytes().len()
    };
    let files = len("/assets/style.css").await + len("/assets/app.js").await;
    for path in ["/", "/queues", "/jobs?state=dead", "/jobs?state=dead&limit=500", "/processes", "/kinds"] {
        let sum = files + len(path).await;
        assert!(sum <= 60_000, "{path}: {sum}");
    }
}

#[tokio::test]
async fn a_change_of_very_many_jobs_stops_in_time_and_says_that_there_are_more() {
    let store = windlass::open("memory:").unwrap();
    let id =
        |number: u32| JobId::from_bytes(std::array::from_fn(|at| number.to_be_bytes().get(at).copied().unwrap_or(0)));
    let jobs = (0..3_000).map(|number| record(id(number), State::Dead, "mail"));
    let _ = store.restore(jobs.collect()).await.unwrap();
    let mut limits = Limits::default();
    limits.change_time = Duration::from_nanos(1);
    let app = router(store, Options { limits, ..Options::default() });
    let all = "{\"verb\":\"delete\",\"all\":{\"state\":\"dead\"}}";
    let mut changed = 0;
    for _ in 0..10 {
        let answer = ask(&app, Method::POST, "/api/jobs/change", &[("content-type", "application/json")], all).await;
        let done: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        changed += done["changed"].as_u64().unwrap();
        if done["more"] == false {
            break;
        }
    }
    assert_eq!(changed, 3_000);
}
