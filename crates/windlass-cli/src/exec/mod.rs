//! Jobs of the kind `exec`: any program, in any language, as the work of a job.
//!
//! A job names a program and its arguments; [`rules`] says whether it may run. The server never starts a program
//! itself. For each job it starts a *guard* ([`guard`]), this same binary as a process of its own, and tells it over
//! a pipe what to run ([`request`]). The guard is what makes the promise hold that no program outlives its job:
//!
//! | what happens | what the guard does |
//! |---|---|
//! | the program ends | kills what it left behind, and reports |
//! | the server says so: deadline, cancel, stop | TERM to the program's group, KILL to all of it after the grace |
//! | the pipe ends: the server was killed | the same, with a grace shorter than the lease |
//! | the guard itself is killed | the server kills the group; if it is gone as well, the kernel kills the program |
//!
//! There is no shell on the way: arguments reach the program as they stand in the job. [`ward`] is the server's end
//! of the pipe, [`capture`] keeps the two ends of what was printed, [`verdict`] turns a report into an outcome.

mod capture;
pub(crate) mod guard;
mod request;
mod rules;
mod verdict;
mod ward;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass::config::load::Settings;
use windlass::{Context, HandlerError, Handlers, Job, Outcome, State};

use request::{Report, Request};
pub(crate) use rules::Rules;
use ward::Ward;

/// A program to run.
#[derive(Debug, Serialize, Deserialize, Job)]
#[serde(deny_unknown_fields)]
#[job(kind = "exec")]
pub(crate) struct Exec {
    /// The program, and its arguments.
    pub(crate) argv: Vec<String>,
    /// Variables of its environment beside the server's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// The folder it runs in, if it is not the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    /// Anything else it should know: part of the JSON on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Box<RawValue>>,
    /// Nothing on its standard input, for programs that read commands there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) no_stdin: bool,
}

/// What every run of this server shares.
#[derive(Debug)]
struct Service {
    rules: Rules,
    /// How long a program may take to end when it was told to.
    grace: Duration,
    /// The same, when there is no server any more.
    orphan_grace: Duration,
}

/// Adds the kind, if anything is allowed.
///
/// # Errors
/// A program or a folder that is listed and not there.
pub(crate) fn add(handlers: Handlers, settings: &Settings) -> anyhow::Result<Handlers> {
    let Some(rules) = Rules::read(&settings.allow)? else { return Ok(handlers) };
    // The guard must be done before the runner gives up waiting, and an orphan before others may run its job.
    let grace = settings.server.cancel_grace.mul_f64(0.8);
    let orphan_grace = grace.min(settings.server.lease / 3);
    Ok(handlers.on(run).state(Service { rules, grace, orphan_grace }))
}

async fn run(job: Exec, State(service): State<Service>, ctx: Context) -> Outcome {
    let program = match service.rules.admit(&job) {
        Ok(program) => program,
        Err(refused) => return refused.into_outcome(),
    };
    let request = Request {
        environment: environment(&job, &ctx),
        stdin: (!job.no_stdin).then(|| described(&job, &ctx)),
        grace_ms: service.grace.as_millis() as u64,
        orphan_grace_ms: service.orphan_grace.as_millis() as u64,
        program: program.path,
        cwd: program.cwd,
        argv: job.argv,
    };
    match watch(&request, &ctx).await {
        Ok(report) => verdict::of(report, ctx.cancel_cause()),
        Err(error) => {
            Outcome::Failed(HandlerError::with_class("ExecGuard", format!("cannot guard the program: {error}")))
        }
    }
}

/// Has the program run under guard; tells the guard when it should end.
async fn watch(request: &Request, ctx: &Context) -> std::io::Result<Report> {
    let mut ward = Ward::start(request).await?;
    tokio::select! {
        report = ward.report() => return report,
        _ = ctx.cancelled() => {}
    }
    ward.end().await?;
    ward.report().await
}

/// What the program finds in its environment about the run it is.
fn environment(job: &Exec, ctx: &Context) -> BTreeMap<String, String> {
    let mut variables = job.env.clone();
    let mut put = |name: &str, value: String| variables.insert(name.to_owned(), value);
    put("WINDLASS_JOB_ID", ctx.id().to_string());
    put("WINDLASS_JOB_QUEUE", ctx.queue().to_owned());
    put("WINDLASS_JOB_ATTEMPT", ctx.attempt().to_string());
    put("WINDLASS_JOB_ATTEMPTS_MAX", ctx.attempts_max().to_string());
    put("WINDLASS_JOB_FENCING_TOKEN", ctx.fencing_token().to_string());
    if let Some(deadline) = ctx.deadline() {
        put("WINDLASS_JOB_DEADLINE", deadline.to_string());
    }
    if let Some(trace) = ctx.trace() {
        put("TRACEPARENT", trace.traceparent().to_owned());
        if !trace.tracestate().is_empty() {
            put("TRACESTATE", trace.tracestate().to_owned());
        }
    }
    variables
}

/// The job as the program reads it on its standard input: one line of JSON.
fn described(job: &Exec, ctx: &Context) -> String {
    let text = serde_json::json!({
        "id": ctx.id(),
        "kind": ctx.kind(),
        "queue": ctx.queue(),
        "attempt": ctx.attempt(),
        "attempts_max": ctx.attempts_max(),
        "fencing_token": ctx.fencing_token(),
        "enqueued_at": ctx.enqueued_at().to_string(),
        "started_at": ctx.started_at().to_string(),
        "deadline": ctx.deadline().map(|deadline| deadline.to_string()),
        "argv": job.argv,
        "data": job.data,
    });
    format!("{text}\n")
}
