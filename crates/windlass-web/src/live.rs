//! Live figures: one task asks the store once a second while anybody looks, and everybody is told the same.
//!
//! Viewers and the task meet under one lock, `Live::source`. A viewer that finds a sender there subscribes to it under the
//! lock; the task looks under the lock whether anybody is subscribed, and takes its sender away in the same step when not.
//! So no viewer is left with a task that is about to end, and there is never more than one task.
//!
//! A stream ends with the server, and after [`crate::Limits::stream_life`] at the latest: a browser opens the next by itself,
//! and who never reads what is sent keeps no seat.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Extension;
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

use crate::refusal::Refusal;
use crate::serve::Stopping;
use crate::{Limits, Shared};

/// How often the store is asked: three calls each time.
const PERIOD: Duration = Duration::from_secs(1);
/// Queues and running jobs that are told, at most.
const ROWS_MAX: usize = 50;
/// A proxy that hears nothing for longer may hang up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What viewers are told. The JSON is made once for all of them; empty before the first.
type Told = Arc<str>;
type Tell = Arc<watch::Sender<Told>>;

#[derive(Debug)]
pub(crate) struct Live {
    inspector: Inspector,
    seats: Arc<Semaphore>,
    stream_life: Duration,
    /// Where the asking task tells; `None` while there is none.
    source: Arc<Mutex<Option<Tell>>>,
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
    pub(crate) fn new(inspector: Inspector, limits: &Limits) -> Live {
        let seats = Arc::new(Semaphore::new(limits.viewers_max));
        Live { inspector, seats, stream_life: limits.stream_life, source: Arc::default() }
    }

    /// A place to listen; the asking task is started if need be. `None` when all seats are taken.
    fn listen(&self, stopping: Option<Stopping>) -> Option<Viewer> {
        let seat = Arc::clone(&self.seats).try_acquire_owned().ok()?;
        let told = self.subscribe();
        let end = end(Instant::now() + self.stream_life, stopping);
        Some(Viewer { next: Box::pin(next(told)), end: Box::pin(end), is_over: false, _seat: seat })
    }

    fn subscribe(&self) -> watch::Receiver<Told> {
        let mut source = lock(&self.source);
        if let Some(tell) = source.as_ref() {
            let mut told = tell.subscribe();
            // The newest moment is for latecomers as well.
            told.mark_changed();
            return told;
        }
        let tell = Tell::new(watch::channel(Told::from("")).0);
        let told = tell.subscribe();
        *source = Some(Arc::clone(&tell));
        tokio::spawn(ask(self.inspector.clone(), Asking { tell, source: Arc::clone(&self.source) }));
        told
    }
}

fn lock(source: &Mutex<Option<Tell>>) -> MutexGuard<'_, Option<Tell>> {
    source.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The asking task's hold on the source.
struct Asking {
    tell: Tell,
    source: Arc<Mutex<Option<Tell>>>,
}

impl Asking {
    /// Whether nobody listens; then the source is given up in the same step.
    fn is_over(&self) -> bool {
        let mut source = lock(&self.source);
        let is_over = self.tell.receiver_count() == 0;
        if is_over {
            *source = None;
        }
        is_over
    }
}

impl Drop for Asking {
    /// Should asking panic, the streams end, and the next viewer starts it anew.
    fn drop(&mut self) {
        let mut source = lock(&self.source);
        if source.as_ref().is_some_and(|known| Arc::ptr_eq(known, &self.tell)) {
            *source = None;
        }
    }
}

/// Asks until nobody listens.
async fn ask(inspector: Inspector, asking: Asking) {
    let mut before: Option<(Instant, Totals)> = None;
    let mut rates = Rates::default();
    let mut every = tokio::time::interval(PERIOD);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        if asking.is_over() {
            return;
        }
        let moment = look(&inspector, &mut before, &mut rates).await.unwrap_or_else(|error| Moment::failed(&error));
        match serde_json::to_string(&moment) {
            Ok(text) => drop(asking.tell.send_replace(Told::from(text))),
            Err(error) => tracing::error!(%error, "live figures could not be written as JSON"),
        }
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

type Next = Pin<Box<dyn Future<Output = Option<(Told, watch::Receiver<Told>)>> + Send>>;
type End = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One who looks: the newest moment whenever there is one. What a slow viewer misses is not kept for it.
struct Viewer {
    next: Next,
    end: End,
    is_over: bool,
    _seat: OwnedSemaphorePermit,
}

async fn next(mut told: watch::Receiver<Told>) -> Option<(Told, watch::Receiver<Told>)> {
    loop {
        told.changed().await.ok()?;
        let moment = Arc::clone(&told.borrow_and_update());
        if !moment.is_empty() {
            return Some((moment, told));
        }
    }
}

/// When a stream ends although its viewer goes on listening.
async fn end(at: Instant, stopping: Option<Stopping>) {
    match stopping {
        Some(Stopping(mut stopping)) => {
            // The sender is dropped when the server stops, so both answers mean the same.
            let _ = tokio::time::timeout_at(at, stopping.changed()).await;
        }
        None => tokio::time::sleep_until(at).await,
    }
}

impl Stream for Viewer {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over || self.end.as_mut().poll(context).is_ready() {
            self.is_over = true;
            return Poll::Ready(None);
        }
        let Poll::Ready(answer) = self.next.as_mut().poll(context) else { return Poll::Pending };
        Poll::Ready(match answer {
            Some((moment, told)) => {
                self.next = Box::pin(next(told));
                Some(Ok(Event::default().data(&*moment)))
            }
            None => {
                self.is_over = true;
                None
            }
        })
    }
}

/// The stream of events.
pub(crate) async fn events(State(shared): State<Shared>, stopping: Option<Extension<Stopping>>) -> Response {
    match shared.live.listen(stopping.map(|Extension(stopping)| stopping)) {
        Some(viewer) => Sse::new(viewer).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response(),
        None => {
            let why = "too many are looking: this page does not move";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}
