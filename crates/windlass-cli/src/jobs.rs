//! `windlass jobs …`: list, search, show, retry, kill, cancel, delete.

use anyhow::Context as _;
use windlass::job::{JobId, JobRecord};
use windlass::state::State;
use windlass::store::{Changed, Cursor, JobQuery};
use windlass::{Client, Timestamp};

use crate::exit::Usage;
use crate::store::Opened;
use crate::{Common, output, store, time};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List jobs, the next to run or the latest to end first
    Ls(List),
    /// Find jobs with a text in their id, kind, arguments or last error
    Search {
        /// The text, letter by letter
        text: String,
        #[command(flatten)]
        list: List,
    },
    /// Show everything known of one job
    Show {
        /// The job
        id: JobId,
    },
    /// Make scheduled, retry, dead or cancelled jobs ready now
    Retry(Ids),
    /// Put jobs that are not running among the dead
    Kill(Ids),
    /// Call jobs off; a running one is asked to give way
    Cancel(Ids),
    /// Remove jobs that are not running
    Delete(Ids),
}

#[derive(Debug, clap::Args)]
struct Ids {
    /// The jobs
    #[arg(required = true)]
    ids: Vec<JobId>,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only in this state: scheduled, ready, running, retry, done, dead or cancelled
    #[arg(long)]
    state: Option<State>,
    /// Only in this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only of this kind
    #[arg(long)]
    kind: Option<String>,
    /// At most this many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Go on after this place, as the page before told it
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let client = opened.client();
    match &arguments.action {
        Action::Ls(list) => ls(common, &opened, list, None),
        Action::Search { text, list } => ls(common, &opened, list, Some(text)),
        Action::Show { id } => show(common, &opened, *id),
        Action::Retry(ids) => change(common, ids, "retry", |id| change_one(&opened, &client, id, Verb::Requeue)),
        Action::Kill(ids) => change(common, ids, "kill", |id| change_one(&opened, &client, id, Verb::Kill)),
        Action::Cancel(ids) => change(common, ids, "cancel", |id| change_one(&opened, &client, id, Verb::Cancel)),
        Action::Delete(ids) => change(common, ids, "delete", |id| change_one(&opened, &client, id, Verb::Delete)),
    }
}

fn ls(common: &Common, opened: &Opened, list: &List, search: Option<&String>) -> anyhow::Result<()> {
    let query = JobQuery {
        state: list.state,
        queue: list.queue.clone(),
        kind: list.kind.clone(),
        search: search.cloned(),
        after: list.after.as_deref().map(parse_cursor).transpose()?,
        ..JobQuery::default()
    };
    let (jobs, next) = collect(opened, query, list.limit as usize)?;
    if common.json {
        let next = next.as_ref().map(show_cursor);
        return output::json(&serde_json::json!({ "jobs": jobs, "next": next }));
    }
    let now = opened.now();
    let rows = jobs.iter().map(|job| row(job, now)).collect();
    output::table(&["id", "kind", "queue", "state", "attempt", "when", "about"], rows, "no such jobs")?;
    if let Some(next) = next {
        output::line(&format!("\nmore: add --after {}", show_cursor(&next)))?;
    }
    Ok(())
}

/// Reads pages until there are enough jobs: a page of the store may be short and still have a next one.
fn collect(opened: &Opened, mut query: JobQuery, limit: usize) -> anyhow::Result<(Vec<JobRecord>, Option<Cursor>)> {
    let mut jobs = Vec::new();
    loop {
        query.limit = (limit - jobs.len()).min(windlass::store::PAGE_LEN_MAX);
        let page = opened.wait(opened.inspector().list(query.clone()))?;
        jobs.extend(page.jobs);
        query.after = page.next;
        if query.after.is_none() || jobs.len() >= limit {
            return Ok((jobs, query.after));
        }
    }
}

fn row(job: &JobRecord, now: Timestamp) -> Vec<String> {
    let when = job.finished_at.or(job.leased_at).unwrap_or(job.run_at);
    let about = match (&job.error, &job.reason) {
        (Some(error), _) => format!("{}: {}", error.class, error.message),
        (None, Some(reason)) => reason.clone(),
        (None, None) => job.payload.to_text(),
    };
    vec![
        job.id.to_string(),
        job.kind.clone(),
        job.queue.clone(),
        job.state.to_string(),
        job.attempt.to_string(),
        time::relative(when, now),
        output::shortened(&about, 60),
    ]
}

fn show(common: &Common, opened: &Opened, id: JobId) -> anyhow::Result<()> {
    let job = opened.wait(opened.inspector().job(id))?;
    if common.json {
        return output::json(&job);
    }
    for (name, value) in fields(&job, opened.now()) {
        output::line(&format!("{name:<14}{}", output::printable(&value)))?;
    }
    Ok(())
}

/// Everything known of a job, for people: names and values. The values are untrusted.
pub(crate) fn fields(job: &JobRecord, now: Timestamp) -> Vec<(&'static str, String)> {
    let instant = |at: Timestamp| format!("{at} ({})", time::relative(at, now));
    let mut fields = vec![
        ("id", job.id.to_string()),
        ("kind", job.kind.clone()),
        ("queue", job.queue.clone()),
        ("state", job.state.to_string()),
        ("arguments", job.payload.to_text()),
        ("attempt", format!("{} of {}", job.attempt, job.settings.attempts_max())),
        ("enqueued", instant(job.enqueued_at)),
        ("due", instant(job.run_at)),
    ];
    let mut known = |name, value: Option<String>| fields.extend(value.map(|value| (name, value)));
    known("recoveries", (job.recoveries > 0).then(|| job.recoveries.to_string()));
    known("at most once", job.at_most_once.then(|| "yes".to_owned()));
    known("expires", job.expires_at.map(instant));
    known("leased", job.leased_at.map(instant));
    known("by", job.member.clone());
    known("cancelling", job.cancel_asked.then(|| "asked".to_owned()));
    known("first failed", job.failed_at.map(instant));
    known("ended", job.finished_at.map(instant));
    known("kept until", job.keep_until.map(instant));
    known("reason", job.reason.clone());
    known("result", job.result.as_ref().map(|result| result.to_text()));
    if let Some(error) = &job.error {
        known("error", Some(format!("{}: {}", error.class, error.message)));
        known("at", Some(instant(error.at)));
        known("backtrace", error.backtrace.clone());
    }
    fields
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Requeue,
    Kill,
    Cancel,
    Delete,
}

fn change_one(opened: &Opened, client: &Client, id: JobId, verb: Verb) -> anyhow::Result<Changed> {
    match verb {
        Verb::Requeue => opened.wait(client.requeue(id)),
        Verb::Kill => opened.wait(client.kill(id)),
        Verb::Cancel => opened.wait(client.cancel(id)),
        Verb::Delete => opened.wait(client.delete(id)),
    }
}

/// Changes one job after the other, and goes on after a failure: the first one decides the exit code.
fn change(
    common: &Common,
    ids: &Ids,
    tried: &'static str,
    change_one: impl Fn(JobId) -> anyhow::Result<Changed>,
) -> anyhow::Result<()> {
    let (mut first_error, mut changed) = (None, Vec::new());
    for &id in &ids.ids {
        match change_one(id) {
            Ok(change) => changed.push((id, change)),
            Err(error) if first_error.is_none() => first_error = Some(error),
            Err(error) => output::error(&format!("windlass: {error:#}")),
        }
    }
    if common.json {
        let done = |(id, change): &(JobId, Changed)| serde_json::json!({ "id": id, "answer": word_for(*change) });
        output::json(&changed.iter().map(done).collect::<Vec<_>>())?;
    } else {
        for (id, change) in &changed {
            output::line(&format!("{id} {}", word_for(*change)))?;
        }
    }
    first_error.map_or(Ok(()), |error| Err(error).context(format!("cannot {tried} every job")))
}

fn word_for(change: Changed) -> String {
    match change {
        Changed::From(state) => format!("was {state}"),
        Changed::Asked => "is running and has been asked to give way".to_owned(),
        Changed::Refused(state) => format!("is {state}"),
        Changed::NotFound => "is not in the store".to_owned(),
    }
}

fn show_cursor(cursor: &Cursor) -> String {
    format!("{}:{}", cursor.at_ms, cursor.arrival)
}

fn parse_cursor(text: &str) -> anyhow::Result<Cursor> {
    let parse = || {
        let (at_ms, arrival) = text.split_once(':')?;
        Some(Cursor { at_ms: at_ms.parse().ok()?, arrival: arrival.parse().ok()? })
    };
    let usage = || Usage(format!("--after {text:?} is no place in a listing: use the one the page before told"));
    Ok(parse().ok_or_else(usage)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_listing_is_read_back() {
        let cursor = Cursor { at_ms: -5, arrival: 12 };

        assert_eq!(parse_cursor(&show_cursor(&cursor)).unwrap(), cursor);
        assert!(parse_cursor("12").is_err());
    }
}
