//! A dashboard to ask, over a store that counts its calls and can put a hostile text into every field.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use windlass::Timestamp;
use windlass::clock::SystemClock;
use windlass::job::{ErrorInfo, JobId, JobRecord, LeaseToken, LeasedJob, NewJob, Payload, Settings};
use windlass::state::State;
use windlass::store::memory::MemoryStore;
use windlass::store::{
    Changed, ClearFilter, Counts, DayTotals, Finding, Finished, Inserted, JobPage, JobQuery, Keep, KindMeasure,
    LeasePlan, Measure, MemberId, MemberInfo, Orders, ProcessInfo, ProcessOrder, ProcessTarget, Promoted, QueueInfo,
    Reaped, Reply, Ring, RunningJob, Sample, Series, SeriesQuery, Store, StoreInfo, Verdict, Vitals,
};

/// The id of the job that [`Watched::with_job`] holds.
pub(crate) const ID: JobId = JobId::from_bytes([7; 12]);

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))
}

/// A store that counts calls, and shows one text wherever a store can show text.
#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    calls: AtomicU64,
    text: Option<String>,
}

impl Watched {
    pub(crate) fn new() -> Arc<Watched> {
        Arc::new(Watched { inner: memory(), calls: AtomicU64::new(0), text: None })
    }

    pub(crate) fn saying(text: &str) -> Arc<Watched> {
        Arc::new(Watched { inner: memory(), calls: AtomicU64::new(0), text: Some(text.to_owned()) })
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn jobs(&self) -> Vec<JobRecord> {
        self.text.iter().map(|text| record(ID, State::Dead, text)).collect()
    }
}

/// A job with a text in every field that can hold one.
pub(crate) fn record(id: JobId, state: State, text: &str) -> JobRecord {
    let at = Timestamp::from_millis(1_700_000_000_000);
    JobRecord {
        id,
        kind: text.to_owned(),
        queue: text.to_owned(),
        state,
        payload: Payload::from_bytes(text),
        attempt: 2,
        run: 3,
        recoveries: 1,
        enqueued_at: at,
        run_at: at,
        expires_at: None,
        failed_at: Some(at),
        leased_at: Some(at),
        member: Some(text.to_owned()),
        finished_at: Some(at),
        keep_until: None,
        at_most_once: false,
        cancel_asked: false,
        reason: Some(text.to_owned()),
        error: Some(ErrorInfo {
            class: text.to_owned(),
            message: text.to_owned(),
            backtrace: Some(text.to_owned()),
            attempt: 2,
            at,
        }),
        result: Some(Payload::from_bytes(text)),
        settings: Settings::default(),
    }
}

fn process(text: &str) -> ProcessInfo {
    let at = Timestamp::from_millis(1_700_000_000_000);
    ProcessInfo {
        info: MemberInfo {
            id: MemberId::from(text.to_owned()),
            host: text.to_owned(),
            pid: 1,
            queues: vec![text.to_owned(), text.to_owned()],
            weights: Vec::new(),
            concurrency: 4,
            version: text.to_owned(),
        },
        joined_at: at,
        beat_at: at,
        lease_until: at,
        vitals: Vitals::default(),
        running: 1,
        jobs: vec![RunningJob { id: ID, kind: text.to_owned(), queue: text.to_owned(), leased_at: at, attempt: 1 }],
    }
}

macro_rules! counted {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> Reply<'_, $answer> {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.inner.$name($($argument),*)
        })*
    };
}

impl Store for Watched {
    fn describe(&self) -> StoreInfo {
        let info = self.inner.describe();
        StoreInfo { url: self.text.clone().unwrap_or(info.url.clone()), ..info }
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn ring(&self) -> Ring {
        self.inner.ring()
    }

    fn get(&self, id: JobId) -> Reply<'_, Option<JobRecord>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match &self.text {
            Some(text) => Box::pin(async move { Ok(Some(record(id, State::Dead, text))) }),
            None => self.inner.get(id),
        }
    }

    fn list(&self, query: JobQuery) -> Reply<'_, JobPage> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match &self.text {
            Some(_) => Box::pin(async move { Ok(JobPage { jobs: self.jobs(), next: None }) }),
            None => self.inner.list(query),
        }
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let Some(text) = &self.text else { return self.inner.queues() };
        let queue = QueueInfo { name: text.clone(), ready: 1, running: 1, waiting: 1, latency_ms: 5, paused: false };
        Box::pin(async move { Ok(vec![queue]) })
    }

    fn processes(&self) -> Reply<'_, Vec<ProcessInfo>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match &self.text {
            Some(text) => Box::pin(async move { Ok(vec![process(text)]) }),
            None => self.inner.processes(),
        }
    }

    fn series(&self, query: SeriesQuery) -> Reply<'_, Series> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let mut series = self.inner.series(query).await?;
            let kind = |text: &String| KindMeasure { kind: text.clone(), measure: Measure::default() };
            series.kinds.extend(self.text.iter().map(kind));
            Ok(series)
        })
    }

    counted! {
        insert(batch: Vec<NewJob>) -> Vec<Inserted>;
        restore(batch: Vec<JobRecord>) -> Vec<Inserted>;
        lease(member: &MemberId, plan: LeasePlan) -> Vec<LeasedJob>;
        finish(member: &MemberId, verdicts: Vec<(LeaseToken, Verdict)>) -> Vec<Finished>;
        join(member: MemberInfo, lease: Duration) -> ();
        beat(member: &MemberId, vitals: Vitals) -> Orders;
        order(to: ProcessTarget, order: ProcessOrder) -> usize;
        leave(member: &MemberId) -> usize;
        reap(max: usize) -> Reaped;
        promote(max: usize) -> Promoted;
        wait(since: Ring, timeout: Duration) -> ();
        cancel(ids: Vec<JobId>) -> Vec<Changed>;
        kill(ids: Vec<JobId>) -> Vec<Changed>;
        requeue(ids: Vec<JobId>) -> Vec<Changed>;
        delete(ids: Vec<JobId>) -> Vec<Changed>;
        clear(filter: ClearFilter, max: usize) -> usize;
        prune(keep: Keep, max: usize) -> usize;
        pause(queue: &str) -> bool;
        resume(queue: &str) -> bool;
        counts() -> Counts;
        history(days: u32) -> Vec<DayTotals>;
        meters() -> Vec<Sample>;
        record(member: &MemberId, samples: Vec<Sample>) -> ();
        check() -> Vec<Finding>;
        close() -> ();
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Asks as a program on this machine does.
pub(crate) async fn ask(router: &Router, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| *name == "host") {
        request = request.header("host", "localhost");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = if parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        String::new()
    } else {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };
    Answer { status: parts.status, headers: parts.headers, body }
}

pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    ask(router, Method::GET, path, &[("accept", "text/html")], "").await
}
