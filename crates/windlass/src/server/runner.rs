//! Runs one leased job, from its lease to the verdict about it.
//!
//! A run is a pipeline over one job: find the handler, decode the arguments, start, watch, decide. Whatever happens
//! on the way, a panic of the handler or of its decoder included, comes out as an [`Ending`], and [`decide`] turns
//! that into the verdict that the acker carries to the store.
//!
//! A runner is a task of the I/O runtime that runs one job after another until none is buffered; the server starts
//! as many as there are jobs, up to its concurrency. An async handler is polled in the runner itself, so a short job
//! costs no task of its own; a CPU handler runs on the pool while its runner waits.
//!
//! Nothing is killed: a handler that should give way is told by its token and has a grace period. An async handler
//! that goes on regardless is dropped at its next await; a CPU handler cannot be, and is counted as stuck until it
//! ends by itself.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::cancel::CancelCause;
use crate::clock::{Stopwatch, Timestamp};
use crate::context::Context;
use crate::handler::{Call, CpuRun, Running};
use crate::job::{ERROR_MESSAGE_LEN_MAX, ErrorInfo, LeasedJob, PAYLOAD_LEN_MAX, Payload};
use crate::outcome::Outcome;
use crate::server::inflight::{Buffered, Report};
use crate::server::recorder::RunFacts;
use crate::server::{Shared, unwind};
use crate::store::Verdict;
use crate::trace::Trace;

/// A runner lets other tasks of the runtime in after this many jobs that never waited.
const JOBS_PER_TURN: u32 = 32;

/// How a run ended, before anybody has decided what that means.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The handler returned.
    Answered(Outcome),
    /// The handler, or its decoder, panicked with this message.
    Panicked(String),
    /// The handler was told to give way and did not, within the grace period.
    GaveNoWay(CancelCause),
    /// No handler is registered for the kind.
    UnknownKind,
    /// The payload's version is above what the handler knows.
    TooNew {
        /// The highest version the handler knows.
        known: u32,
    },
    /// The arguments are not what the kind expects.
    Undecodable(String),
}

/// Runs buffered jobs until there are none.
pub(crate) async fn work(shared: Arc<Shared>) {
    let mut turn = 0;
    while let Some(next) = shared.in_flight.next_job() {
        run(&shared, next).await;
        turn += 1;
        if turn % JOBS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
}

async fn run(shared: &Arc<Shared>, next: Buffered) {
    let Buffered { job, member, .. } = next;
    let ctx = context_for(shared, &job);
    shared.in_flight.begin(&ctx);
    let Concluded { verdict, at } = conclude(shared, &job, &ctx).await;
    let LeasedJob { token, kind, queue, run_at, .. } = job;
    let (waited, took) = (ctx.started_at().since(run_at), at.since(ctx.started_at()));
    let facts = Some(RunFacts { kind, queue, waited, took });
    shared.in_flight.end(Report { member, token, verdict, facts });
}

/// The context of a run that starts now.
pub(crate) fn context_for(shared: &Shared, job: &LeasedJob) -> Context {
    let timeout = job.settings.timeout_ms.map(Duration::from_millis).or(shared.config.job_timeout);
    Context::new(job, shared.store.now(), timeout, &shared.services)
}

/// The verdict about a run that has ended.
#[derive(Debug)]
pub(crate) struct Concluded {
    pub(crate) verdict: Verdict,
    /// When the run ended, by the store's clock.
    pub(crate) at: Timestamp,
}

/// One run of one job, to the verdict about it.
pub(crate) async fn conclude(shared: &Arc<Shared>, job: &LeasedJob, ctx: &Context) -> Concluded {
    let ending = execute(shared, job, ctx).instrument(span_of(ctx)).await;
    let at = shared.store.now();
    Concluded { verdict: decide(ending, job, ctx.cancel_cause(), at, shared.entropy.fraction()), at }
}

/// What stands beside everything that a run logs.
fn span_of(ctx: &Context) -> Span {
    let traceparent = ctx.trace().map(Trace::traceparent);
    tracing::info_span!(
        "run",
        job.id = %ctx.id(),
        job.kind = ctx.kind(),
        queue = ctx.queue(),
        attempt = ctx.attempt(),
        traceparent
    )
}

/// Find, decode, start, watch.
async fn execute(shared: &Arc<Shared>, job: &LeasedJob, ctx: &Context) -> Ending {
    let Some(handler) = shared.handlers.find(&job.kind) else {
        return Ending::UnknownKind;
    };
    if job.settings.version > handler.version {
        return Ending::TooNew { known: handler.version };
    }
    // The decoder is the user's code as well: it may panic.
    let started = unwind::catch_call(|| match &handler.call {
        Call::Async(start) => start(&job.payload, ctx.clone()).map(Started::Async),
        Call::Cpu(start) => start(&job.payload, ctx.clone()).map(Started::Cpu),
    });
    match started {
        Err(panic) => Ending::Panicked(panic),
        Ok(Err(error)) => Ending::Undecodable(error.to_string()),
        Ok(Ok(Started::Async(run))) => {
            let polled = observe_polls(run, ctx, shared);
            watch(ctx, polled, shared.config.cancel_grace).await
        }
        Ok(Ok(Started::Cpu(run))) => run_on_pool(shared, run, ctx).await,
    }
}

enum Started {
    Async(Running),
    Cpu(CpuRun),
}

async fn run_on_pool(shared: &Arc<Shared>, run: CpuRun, ctx: &Context) -> Ending {
    let (tell, told) = oneshot::channel();
    let (worker_shared, worker_ctx) = (Arc::clone(shared), ctx.clone());
    let Some(pool) = &shared.pool else { unreachable!("a server with a CPU handler has a pool") };
    let span = Span::current();
    let task = pool.spawn(move || {
        let ended = span.in_scope(|| unwind::catch_call(run));
        if worker_ctx.run().end_closure() {
            worker_shared.tally.note_unstuck();
        }
        // Nobody listens any more when the runner has given up; the job has had its verdict then.
        let _ = tell.send(ended);
    });
    // The channel tells of the end; the task itself needs no waiter.
    drop(task);
    let ended = async { told.await.unwrap_or_else(|_| Err("the pool dropped the task".to_owned())) };
    let ending = watch(ctx, ended, shared.config.cancel_grace).await;
    if matches!(ending, Ending::GaveNoWay(_)) && ctx.run().give_up_on_closure() {
        shared.tally.note_stuck();
        tracing::warn!(job.id = %ctx.id(), job.kind = ctx.kind(), "a CPU handler does not give way; its thread is stuck in it");
    }
    ending
}

/// Waits for the end of a run; when it should give way, for the grace period and no longer.
async fn watch(ctx: &Context, run: impl Future<Output = Result<Outcome, String>>, grace: Duration) -> Ending {
    let mut run = pin!(run);
    let cause = tokio::select! {
        biased;
        ended = &mut run => return ending(ended),
        cause = interruption(ctx) => cause,
    };
    match tokio::time::timeout(grace, run).await {
        Ok(ended) => ending(ended),
        Err(_) => Ending::GaveNoWay(cause),
    }
}

fn ending(ended: Result<Outcome, String>) -> Ending {
    match ended {
        Ok(outcome) => Ending::Answered(outcome),
        Err(panic) => Ending::Panicked(panic),
    }
}

/// Answers when the run should give way: somebody cancelled it, or its time is over.
async fn interruption(ctx: &Context) -> CancelCause {
    let Some(timeout) = ctx.run().timeout else {
        return ctx.cancelled().await;
    };
    tokio::select! {
        cause = ctx.cancelled() => cause,
        () = tokio::time::sleep(timeout) => {
            ctx.run().cancel.cancel(CancelCause::Timeout);
            // Another cause may have come first.
            ctx.cancelled().await
        }
    }
}

/// Polls a handler, catches its panic, marks each poll for the watchdog and warns when one took too long.
async fn observe_polls(mut run: Running, ctx: &Context, shared: &Shared) -> Result<Outcome, String> {
    let polled = poll_fn(|task| {
        let watch = Stopwatch::start();
        ctx.run().note_poll_edge();
        let polled = run.as_mut().poll(task);
        ctx.run().note_poll_edge();
        let elapsed = watch.elapsed();
        if elapsed > shared.config.block_warning {
            shared.tally.note_blocked();
            if let Some(left_out) = shared.complaints.admit("a handler that blocks") {
                let (id, kind, elapsed_ms) = (ctx.id(), ctx.kind(), elapsed.as_millis() as u64);
                let message = "a handler blocked the I/O runtime; register it with .cpu(..)";
                tracing::warn!(job.id = %id, job.kind = kind, elapsed_ms, left_out, "{message}");
            }
        }
        polled
    });
    unwind::catch(polled).await
}

/// What becomes of a job after a run ended so. Pure: `cause` is why the run was told to give way, if it was;
/// `fraction` in `0.0..1.0` is the jitter of a retry.
pub(crate) fn decide(
    ending: Ending,
    job: &LeasedJob,
    cause: Option<CancelCause>,
    now: Timestamp,
    fraction: f64,
) -> Verdict {
    let failure = Failure { job, now, fraction };
    match ending {
        Ending::Answered(outcome) => of_outcome(outcome, cause, failure),
        Ending::Panicked(message) => failure.retry("Panic", message),
        Ending::GaveNoWay(cause) => given_way(cause, failure),
        Ending::UnknownKind => {
            let message = format!("no handler for kind {:?} in this server; a newer one may have it", job.kind);
            failure.retry("UnknownKind", message)
        }
        Ending::TooNew { known } => {
            let version = job.settings.version;
            let message = format!("payload version {version}, and this server's handler knows up to {known}");
            failure.retry("UnknownVersion", message)
        }
        Ending::Undecodable(message) => failure.dead("undecodable", "Undecodable", message),
    }
}

fn of_outcome(outcome: Outcome, cause: Option<CancelCause>, failure: Failure<'_>) -> Verdict {
    match outcome {
        Outcome::Done => failure.done(None),
        Outcome::DoneWith(result) if result.len() > PAYLOAD_LEN_MAX => {
            let message = format!("the result has {} bytes: at most {PAYLOAD_LEN_MAX} are kept", result.len());
            failure.retry("ResultTooLarge", message)
        }
        Outcome::DoneWith(result) => failure.done(Some(result)),
        Outcome::Failed(error) => failure.retry(error.class(), error.message()),
        Outcome::Retry { after, error } => failure.retry_after(after, error.class(), error.message()),
        Outcome::Discard => Verdict::Discard,
        Outcome::Dead(error) => failure.dead("given up by its handler", error.class(), error.message()),
        Outcome::Snooze { until } => Verdict::Snooze { until },
        Outcome::Cancelled => match cause {
            Some(cause) => given_way(cause, failure),
            None => Verdict::Cancelled { reason: "by its handler".to_owned() },
        },
    }
}

/// The run gave way, or was dropped, for `cause`.
fn given_way(cause: CancelCause, failure: Failure<'_>) -> Verdict {
    match cause {
        CancelCause::Asked => Verdict::Cancelled { reason: "asked to cancel".to_owned() },
        CancelCause::Timeout => failure.retry("Timeout", "the attempt took longer than its time-out"),
        // A run that began and did not end may have had effects: what must not run twice is not handed back.
        CancelCause::Stop | CancelCause::LeaseLost if failure.job.at_most_once => {
            Verdict::Dead { reason: "interrupted".to_owned(), error: None }
        }
        CancelCause::Stop | CancelCause::LeaseLost => Verdict::Release,
    }
}

/// A run whose verdict depends on what is left: attempts, window.
#[derive(Clone, Copy)]
struct Failure<'a> {
    job: &'a LeasedJob,
    now: Timestamp,
    fraction: f64,
}

impl Failure<'_> {
    fn done(self, result: Option<Payload>) -> Verdict {
        Verdict::Done { result, keep: self.job.settings.keep_done() }
    }

    fn retry(self, class: &str, message: impl Into<String>) -> Verdict {
        let policy = self.job.settings.retry.clone().unwrap_or_default();
        let delay = policy.delay(self.job.attempt, self.fraction);
        self.retry_after(delay, class, message)
    }

    fn retry_after(self, delay: Duration, class: &str, message: impl Into<String>) -> Verdict {
        let at = self.now + delay;
        match self.out_of(at) {
            Some(reason) => self.dead(reason, class, message),
            None => Verdict::Retry { at, error: self.error(class, message.into()) },
        }
    }

    /// Why there is no further attempt at `at`, if there is none.
    fn out_of(self, at: Timestamp) -> Option<&'static str> {
        let settings = &self.job.settings;
        let window = settings.retry_window_ms.map(Duration::from_millis);
        let window_end = window.map(|window| self.job.failed_at.unwrap_or(self.now) + window);
        if self.job.at_most_once {
            Some("failed, and must not run twice")
        } else if self.job.attempt >= settings.attempts_max() {
            Some("attempts used up")
        } else if window_end.is_some_and(|end| at > end) {
            Some("retry window over")
        } else {
            None
        }
    }

    fn dead(self, reason: &str, class: &str, message: impl Into<String>) -> Verdict {
        Verdict::Dead { reason: reason.to_owned(), error: Some(self.error(class, message.into())) }
    }

    fn error(self, class: &str, mut message: String) -> ErrorInfo {
        if let Some((end, _)) = message.char_indices().nth(ERROR_MESSAGE_LEN_MAX) {
            message.truncate(end);
        }
        let (attempt, at) = (self.job.attempt, self.now);
        ErrorInfo { class: class.to_owned(), message, backtrace: None, attempt, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;
    use crate::job::{JobId, LeaseToken, Settings};
    use crate::outcome::HandlerError;
    use crate::retry::RetryPolicy;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn leased() -> LeasedJob {
        let job = JobId::new(NOW, &Entropy::seeded(1));
        LeasedJob {
            token: LeaseToken { job, run: 1, row: 0 },
            kind: "mail".to_owned(),
            queue: "default".to_owned(),
            payload: Payload::from_bytes("[]"),
            attempt: 1,
            recoveries: 0,
            enqueued_at: NOW,
            run_at: NOW,
            failed_at: None,
            at_most_once: false,
            settings: Settings::default(),
        }
    }

    fn failed() -> Ending {
        Ending::Answered(Outcome::Failed(HandlerError::msg("no luck")))
    }

    fn reason(verdict: &Verdict) -> &str {
        match verdict {
            Verdict::Dead { reason, .. } | Verdict::Cancelled { reason } => reason,
            _ => panic!("neither dead nor cancelled: {verdict:?}"),
        }
    }

    #[test]
    fn a_failure_is_retried_by_the_jobs_policy() {
        let verdict = decide(failed(), &leased(), None, NOW, 0.0);

        let Verdict::Retry { at, error } = verdict else { panic!("{verdict:?}") };
        assert_eq!(at, NOW + RetryPolicy::Sidekiq.delay(1, 0.0));
        assert_eq!((error.class.as_str(), error.message.as_str(), error.attempt), ("Error", "no luck", 1));
    }

    #[test]
    fn the_last_attempt_that_fails_makes_the_job_dead() {
        let mut job = leased();
        job.settings.attempts_max = Some(3);

        job.attempt = 2;
        assert!(matches!(decide(failed(), &job, None, NOW, 0.0), Verdict::Retry { .. }));
        job.attempt = 3;
        assert_eq!(reason(&decide(failed(), &job, None, NOW, 0.0)), "attempts used up");
    }

    #[test]
    fn no_retry_is_planned_beyond_the_window_that_began_with_the_first_failure() {
        let mut job = leased();
        job.settings.retry_window_ms = Some(60_000);

        assert!(matches!(decide(failed(), &job, None, NOW, 0.0), Verdict::Retry { .. }));
        job.failed_at = Some(NOW - Duration::from_secs(50));
        assert_eq!(reason(&decide(failed(), &job, None, NOW, 0.0)), "retry window over");
    }

    #[test]
    fn what_must_not_run_twice_is_never_retried_nor_handed_back() {
        let mut job = leased();
        job.at_most_once = true;

        for ending in [failed(), Ending::Panicked("x".to_owned()), Ending::GaveNoWay(CancelCause::Stop)] {
            assert!(matches!(decide(ending, &job, None, NOW, 0.0), Verdict::Dead { .. }));
        }
    }

    #[test]
    fn an_undecodable_job_is_dead_at_once() {
        let verdict = decide(Ending::Undecodable("missing field `to`".to_owned()), &leased(), None, NOW, 0.0);

        assert_eq!(reason(&verdict), "undecodable");
    }

    #[test]
    fn an_unknown_kind_and_a_newer_version_wait_for_a_server_that_knows_them() {
        for ending in [Ending::UnknownKind, Ending::TooNew { known: 1 }] {
            assert!(matches!(decide(ending, &leased(), None, NOW, 0.0), Verdict::Retry { .. }));
        }
    }

    #[test]
    fn giving_way_means_what_it_was_asked_for() {
        let answer = |cause| decide(Ending::Answered(Outcome::Cancelled), &leased(), cause, NOW, 0.0);

        assert_eq!(reason(&answer(None)), "by its handler");
        assert_eq!(reason(&answer(Some(CancelCause::Asked))), "asked to cancel");
        assert_eq!(answer(Some(CancelCause::Stop)), Verdict::Release);
        let timed_out = answer(Some(CancelCause::Timeout));
        assert!(matches!(timed_out, Verdict::Retry { error, .. } if error.class == "Timeout"));
    }

    #[test]
    fn a_job_that_finished_although_it_was_asked_to_cancel_is_done() {
        let verdict = decide(Ending::Answered(Outcome::Done), &leased(), Some(CancelCause::Asked), NOW, 0.0);

        assert_eq!(verdict, Verdict::Done { result: None, keep: Duration::ZERO });
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let verdict = decide(Ending::Panicked("é".repeat(ERROR_MESSAGE_LEN_MAX + 5)), &leased(), None, NOW, 0.0);

        let Verdict::Retry { error, .. } = verdict else { panic!("{verdict:?}") };
        assert_eq!(error.message.chars().count(), ERROR_MESSAGE_LEN_MAX);
    }

    #[test]
    fn a_result_beyond_the_limit_fails_the_attempt() {
        let huge = Payload::from_bytes(vec![b' '; PAYLOAD_LEN_MAX + 1]);

        let verdict = decide(Ending::Answered(Outcome::DoneWith(huge)), &leased(), None, NOW, 0.0);

        assert!(matches!(verdict, Verdict::Retry { error, .. } if error.class == "ResultTooLarge"));
    }
}
