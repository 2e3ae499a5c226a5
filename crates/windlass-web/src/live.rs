//! Live figures: one task asks the store once a second while anybody looks, and everybody is told the same.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use windlass::store::{Counts, ProcessInfo, QueueInfo, Totals};
use windlass::{Error, Inspector};

use crate::{Shared, guard};

/// How often the store is asked: three calls each time.
const PERIOD: Duration = Duration::from_secs(1);
/// Viewers at a time.
const VIEWERS_MAX: usize = 64;
/// Queues and running jobs that are told, at most.
const ROWS_MAX: usize = 50;
/// A proxy that hears nothing for longer may hang up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What viewers are told. The JSON is made once for all of them.
type Told = Arc<str>;

#[derive(Debug)]
pub(crate) struct Live {
    inspector: Inspector,
    seats: Arc<Semaphore>,
    /// Where the asking task tells; `None` while there is none.
    source: Mutex<Option<watch::Receiver<Told>>>,
}

/// One second, for the pages' script.
#[derive(Debug, Serialize)]
struct Moment {
    counts: Counts,
    rates: Rates,
    queues: Vec<QueueInfo>,
    processes: usize,
    busy: u64,
    /// Processes, each with as many of its jobs as there is room for.
    members: Vec<ProcessInfo>,
    error: Option<String>,
}

/// Happenings a second.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Rates {
    enqueued: f64,
    done: f64,
    failed: f64,
}

impl Live {
    pub(crate) fn new(inspector: Inspector) -> Live {
        Live { inspector, seats: Arc::new(Semaphore::new(VIEWERS_MAX)), source: Mutex::new(None) }
    }

    /// A place to listen; the asking task is started if need be. `None` when all seats are taken.
    fn listen(&self) -> Option<Viewer> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        let mut source = self.source.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = source.as_ref().filter(|known| known.has_changed().is_ok()).cloned();
        let receiver = known.unwrap_or_else(|| {
            let (tell, told) = watch::channel(Told::from(""));
            tokio::spawn(ask(self.inspector.clone(), tell));
            *source = Some(told.clone());
            told
        });
        // Nobody but the viewers keeps the task asking.
        Some(Viewer { stream: Box::pin(stream(receiver)), _seat: seat })
    }
}

/// Asks until nobody listens. The receiver in `Live::source` is one that does not count.
async fn ask(inspector: Inspector, tell: watch::Sender<Told>) {
    let mut before: Option<(Instant, Totals)> = None;
    let mut rates = Rates::default();
    let mut every = tokio::time::interval(PERIOD);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if tell.receiver_count() < 2 {
            return;
        }
        let moment = look(&inspector, &mut before, &mut rates).await.unwrap_or_else(|error| Moment::failed(&error));
        let Ok(text) = serde_json::to_string(&moment) else { continue };
        tell.send_replace(Told::from(text));
    }
}

async fn look(
    inspector: &Inspector,
    before: &mut Option<(Instant, Totals)>,
    rates: &mut Rates,
) -> Result<Moment, Error> {
    let counts = inspector.counts().await?;
    let mut queues = inspector.queues().await?;
    let mut members = inspector.processes().await?;
    if let Some((at, totals)) = before.replace((Instant::now(), counts.totals)) {
        rates.follow(&totals, &counts.totals, at.elapsed().as_secs_f64());
    }
    let (processes, busy) = (members.len(), members.iter().map(|member| u64::from(member.vitals.busy)).sum());
    queues.truncate(ROWS_MAX);
    members.truncate(ROWS_MAX);
    let share = ROWS_MAX / members.len().max(1);
    members.iter_mut().for_each(|member| member.jobs.truncate(share.max(1)));
    Ok(Moment { counts, rates: *rates, queues, processes, busy, members, error: None })
}

impl Moment {
    fn failed(error: &Error) -> Moment {
        Moment {
            counts: Counts::default(),
            rates: Rates::default(),
            queues: Vec::new(),
            processes: 0,
            busy: 0,
            members: Vec::new(),
            error: Some(error.to_string()),
        }
    }
}

impl Rates {
    /// Half of what is new, half of what was: calm, and not late.
    fn follow(&mut self, before: &Totals, now: &Totals, seconds: f64) {
        let mix = |old: &mut f64, before: u64, now: u64| {
            *old = 0.5 * *old + 0.5 * (now.saturating_sub(before) as f64 / seconds.max(0.001));
            if *old < 0.05 {
                *old = 0.0;
            }
        };
        mix(&mut self.enqueued, before.enqueued, now.enqueued);
        mix(&mut self.done, before.done, now.done);
        mix(&mut self.failed, before.failed, now.failed);
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>;

/// One who looks.
struct Viewer {
    stream: Events,
    _seat: OwnedSemaphorePermit,
}

impl Stream for Viewer {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}

/// The newest moment whenever there is one; what a slow viewer misses is not kept for it.
fn stream(receiver: watch::Receiver<Told>) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    Moments { next: Box::pin(next(receiver)) }
}

type Next = Pin<Box<dyn Future<Output = Option<(Told, watch::Receiver<Told>)>> + Send>>;

struct Moments {
    next: Next,
}

async fn next(mut receiver: watch::Receiver<Told>) -> Option<(Told, watch::Receiver<Told>)> {
    receiver.changed().await.ok()?;
    let told = Arc::clone(&receiver.borrow_and_update());
    Some((told, receiver))
}

impl Stream for Moments {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Poll::Ready(answer) = self.next.as_mut().poll(context) else { return Poll::Pending };
        Poll::Ready(answer.map(|(told, receiver)| {
            self.next = Box::pin(next(receiver));
            Ok(Event::default().data(&*told))
        }))
    }
}

/// The stream of events.
pub(crate) async fn events(State(shared): State<Shared>) -> Response {
    match shared.live.listen() {
        Some(viewer) => Sse::new(viewer).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response(),
        None => guard::refuse(StatusCode::SERVICE_UNAVAILABLE, "too many are looking: this page does not move"),
    }
}
