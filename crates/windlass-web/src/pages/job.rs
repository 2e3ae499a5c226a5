//! One job: what it is, what became of it, and when.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use windlass::job::{JobId, JobRecord, Payload};
use windlass::state::State as JobState;
use windlass::{Error, Timestamp};

use super::{Failure, Frame, Visit, html};
use crate::Shared;
use crate::view::text::laid_out;
use crate::view::{actions, filters, short};

/// Longer arguments and results are cut on the page; the API has all of them.
const TEXT_LEN_MAX: usize = 20_000;

/// Something that happened to a job.
struct Happening {
    at: Timestamp,
    what: &'static str,
    detail: String,
    /// The class in the style file: a state.
    class: &'static str,
}

#[derive(Template)]
#[template(path = "job.html")]
struct One {
    frame: Frame,
    job: JobRecord,
    arguments: String,
    result: Option<String>,
    settings: String,
    happenings: Vec<Happening>,
    actions: &'static [(&'static str, &'static str)],
    now: Timestamp,
}

/// The id in a path.
pub(crate) fn id(text: &str) -> Result<JobId, Failure> {
    text.parse().map_err(|error| Failure::missing(format!("{error}")))
}

pub(crate) async fn page(
    State(shared): State<Shared>,
    visit: Visit,
    Path(text): Path<String>,
) -> Result<Response, Failure> {
    let frame = visit.frame(&shared).await?;
    let job = shared.inspector.job(id(&text)?).await.map_err(gone)?;
    html(&One {
        arguments: pretty(&job.payload),
        result: job.result.as_ref().map(pretty),
        settings: serde_json::to_string_pretty(&job.settings).unwrap_or_default(),
        happenings: happenings(&job),
        actions: actions(job.state),
        now: shared.client.store().now(),
        frame,
        job,
    })
}

fn gone(error: Error) -> Failure {
    match error {
        Error::NotFound { id } => {
            Failure::missing(format!("there is no job {id}: it has ended and was not kept, or was removed"))
        }
        other => other.into(),
    }
}

fn pretty(payload: &Payload) -> String {
    short(&laid_out(&payload.to_text()), TEXT_LEN_MAX)
}

/// What the record tells of the job's life, in the order of time.
fn happenings(job: &JobRecord) -> Vec<Happening> {
    let mut all = vec![Happening {
        at: job.enqueued_at,
        what: "enqueued",
        detail: format!("into {}", job.queue),
        class: "ready",
    }];
    let mut tell = |at: Option<Timestamp>, what, detail: String, class| {
        all.extend(at.map(|at| Happening { at, what, detail, class }));
    };
    tell(job.failed_at, "failed for the first time", String::new(), "retry");
    if let Some(error) = &job.error {
        tell(Some(error.at), "last failure", format!("attempt {}: {}", error.attempt, error.class), "retry");
    }
    match job.state {
        JobState::Scheduled | JobState::Retry => tell(Some(job.run_at), "due", String::new(), "scheduled"),
        JobState::Ready => tell(Some(job.run_at), "ready", String::new(), "ready"),
        _ => {}
    }
    let member = job.member.clone().unwrap_or_default();
    tell(job.leased_at, "began to run", format!("attempt {} on {member}", job.attempt), "running");
    tell(job.finished_at, job.state.name(), job.reason.clone().unwrap_or_default(), job.state.name());
    tell(job.keep_until, "will be forgotten", String::new(), "done");
    tell(job.expires_at, "too late to start", String::new(), "dead");
    all.sort_by_key(|happening| happening.at);
    all
}
