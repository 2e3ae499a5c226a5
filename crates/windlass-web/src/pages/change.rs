//! What a person, or a program, does to jobs, queues and processes. Each answer of a page leads back to where the person
//! was; the API answers what was done.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use windlass::state::State as JobState;
use windlass::store::{Changed, ClearFilter, MemberId, ProcessOrder, ProcessTarget};
use windlass::sweep::{Edit, Swept};

use super::confirm::{self, Fields};
use super::jobs::Wanted;
use super::queues::Named;
use super::{Failure, Visit, job};
use crate::Shared;

/// Jobs that can be named in one request.
const IDS_MAX: usize = 1_000;
/// Jobs removed in one step while a queue is cleared.
const CLEAR_LEN: usize = 1_000;
/// What a change tells of itself in the query of the page it leads back to.
const NOTICES: [&str; 5] = ["changed", "asked", "refused", "more", "told"];

fn edit(verb: &str) -> Result<Edit, Failure> {
    match verb {
        "requeue" => Ok(Edit::Requeue),
        "kill" => Ok(Edit::Kill),
        "cancel" => Ok(Edit::Cancel),
        "delete" => Ok(Edit::Delete),
        _ => Err(Failure::missing("no such verb: requeue, kill, cancel and delete are known")),
    }
}

async fn change_named(shared: &Shared, edit: Edit, ids: &[String]) -> Result<Swept, Failure> {
    if ids.is_empty() || ids.len() > IDS_MAX {
        return Err(Failure::bad(format!("{} jobs are named: 1 to {IDS_MAX} can be", ids.len())));
    }
    let ids = ids.iter().map(|text| job::id(text)).collect::<Result<Vec<_>, _>>()?;
    let store = shared.client.store();
    let answers = match edit {
        Edit::Requeue => store.requeue(ids).await,
        Edit::Kill => store.kill(ids).await,
        Edit::Cancel => store.cancel(ids).await,
        Edit::Delete => store.delete(ids).await,
    };
    let mut swept = Swept::default();
    for answer in answers.map_err(windlass::Error::from)? {
        match answer {
            Changed::From(_) => swept.changed += 1,
            Changed::Asked => swept.asked += 1,
            Changed::Refused(_) | Changed::NotFound => swept.refused += 1,
        }
    }
    Ok(swept)
}

/// What was done to many jobs, and whether there may be more of them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Done {
    #[serde(flatten)]
    swept: Swept,
    more: bool,
}

/// Everything that a filter chooses, as far as one request goes. Something must be chosen: nobody means every job there
/// is.
async fn change_all(shared: &Shared, edit: Edit, wanted: &Wanted) -> Result<Done, Failure> {
    let filter = wanted.filter()?;
    if filter.state.is_none() {
        return Err(Failure::bad("all jobs of which state? name one"));
    }
    let until = Instant::now() + shared.options.limits.change_time;
    let mut sweep = shared.client.sweep(edit, filter).await?;
    // One step at least, so that asking again and again comes to an end.
    let mut more = sweep.step().await?;
    while more && Instant::now() < until {
        more = sweep.step().await?;
    }
    Ok(Done { swept: sweep.swept(), more })
}

/// Removes the ready jobs of a queue, as far as one request goes.
async fn clear(shared: &Shared, name: &str) -> Result<Done, Failure> {
    let filter = ClearFilter { state: Some(JobState::Ready), queue: Some(name.to_owned()) };
    let until = Instant::now() + shared.options.limits.change_time;
    let mut done = Done { more: true, ..Done::default() };
    while done.more && (done.swept.changed == 0 || Instant::now() < until) {
        let removed = shared.client.store().clear(filter.clone(), CLEAR_LEN).await.map_err(windlass::Error::from)?;
        done.swept.changed += removed as u64;
        done.more = removed > 0;
    }
    Ok(done)
}

async fn change_queue(shared: &Shared, name: &str, verb: &str) -> Result<Done, Failure> {
    windlass::job::check_name("queue", name).map_err(windlass::Error::from)?;
    let changed = |changed: bool| Done { swept: Swept { changed: changed.into(), ..Swept::default() }, more: false };
    match verb {
        "pause" => Ok(changed(shared.client.pause(name).await?)),
        "resume" => Ok(changed(shared.client.resume(name).await?)),
        "clear" => clear(shared, name).await,
        _ => Err(Failure::missing("no such verb: pause, resume and clear are known")),
    }
}

/// One process, or `all`.
async fn order(shared: &Shared, id: &str, verb: &str) -> Result<usize, Failure> {
    let order = match verb {
        "quiet" => ProcessOrder::Quiet,
        "stop" => ProcessOrder::Stop,
        "dump" => ProcessOrder::Dump,
        _ => return Err(Failure::missing("no such verb: quiet, stop and dump are known")),
    };
    let target = if id == "all" { ProcessTarget::All } else { ProcessTarget::One(MemberId::from(id.to_owned())) };
    match shared.client.order(target, order).await? {
        0 if id != "all" => Err(Failure::missing("there is no such process, or no longer")),
        told => Ok(told),
    }
}

/// Where the person was, if the form or the browser says so and it is ours; else `elsewhere`.
fn origin(visit: &Visit, headers: &HeaderMap, fields: &Fields, elsewhere: &str) -> String {
    let told = fields.get("back").filter(|path| is_own(path, &visit.base)).map(str::to_owned);
    let referer = || {
        let url = headers.get(header::REFERER)?.to_str().ok()?;
        own_path(url, headers, &visit.base)
    };
    told.or_else(referer).unwrap_or_else(|| format!("{}{elsewhere}", visit.base))
}

/// The path and query of a URL of this host below `base`.
fn own_path(url: &str, headers: &HeaderMap, base: &str) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?.strip_prefix(host)?;
    is_own(rest, base).then(|| rest.to_owned())
}

/// Whether a browser stays here that is sent to this path. It takes `//` and `/\` for the beginning of another host, and
/// leaves out tabs and line ends before it looks.
fn is_own(path: &str, base: &str) -> bool {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_below = path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    is_plain && is_below && path.starts_with('/') && !path.starts_with("//")
}

/// Leads back, with the numbers of what was done.
fn back(page: &str, done: &[(&str, u64)]) -> Response {
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    let is_notice = |pair: &str| NOTICES.iter().any(|name| pair.split('=').next() == Some(name));
    let mut pairs: Vec<String> =
        query.split('&').filter(|pair| !pair.is_empty() && !is_notice(pair)).map(str::to_owned).collect();
    pairs.extend(done.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}={count}")));
    let page = if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) };
    Redirect::to(&page).into_response()
}

fn told(done: &Done) -> [(&'static str, u64); 4] {
    let Swept { changed, asked, refused } = done.swept;
    [("changed", changed), ("asked", asked), ("refused", refused), ("more", done.more.into())]
}

pub(crate) async fn job(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Path((id, verb)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, Failure> {
    let fields = Fields::parse(&body);
    let id = job::id(&id)?;
    let page = origin(&visit, &headers, &fields, &format!("/jobs/{id}"));
    if is_grave(edit(&verb)?) && !fields.is_sure() {
        let action = visit.address.clone();
        return confirm::ask(&shared, visit, format!("This is to {verb} job {id}."), action, fields, page).await;
    }
    let swept = change_named(&shared, edit(&verb)?, &[id.to_string()]).await?;
    // A deleted job has no page to go back to.
    let page = if verb == "delete" { format!("{}/jobs", visit.base) } else { page };
    Ok(back(&page, &told(&Done { swept, more: false })))
}

/// Whether the person is asked first.
fn is_grave(edit: Edit) -> bool {
    matches!(edit, Edit::Kill | Edit::Delete)
}

pub(crate) async fn jobs(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let fields = Fields::parse(&body);
    let text = |name: &str| fields.get(name).unwrap_or_default().to_owned();
    let wanted =
        Wanted { state: text("state"), queue: text("queue"), kind: text("kind"), q: text("q"), ..Wanted::default() };
    let page = origin(&visit, &headers, &fields, &format!("/jobs?{}", wanted.link()));
    let (is_all, verb) = fields.get("all").map_or((false, text("selected")), |verb| (true, verb.to_owned()));
    let edit = edit(&verb)?;
    if (is_all || is_grave(edit)) && !fields.is_sure() {
        let which = if is_all { "all jobs of the list, also those on other pages" } else { "the chosen jobs" };
        let action = visit.address.clone();
        return confirm::ask(&shared, visit, format!("This is to {verb} {which}."), action, fields, page).await;
    }
    let done = if is_all {
        change_all(&shared, edit, &wanted).await?
    } else {
        let ids: Vec<String> = fields.all("id").map(str::to_owned).collect();
        Done { swept: change_named(&shared, edit, &ids).await?, more: false }
    };
    Ok(back(&page, &told(&done)))
}

pub(crate) async fn queue(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Path(verb): Path<String>,
    Query(Named { name }): Query<Named>,
    body: Bytes,
) -> Result<Response, Failure> {
    let fields = Fields::parse(&body);
    let page = origin(&visit, &headers, &fields, "/queues");
    if verb == "clear" && !fields.is_sure() {
        let (question, action) = (format!("This removes every ready job of the queue {name}."), visit.address.clone());
        return confirm::ask(&shared, visit, question, action, fields, page).await;
    }
    let done = change_queue(&shared, &name, &verb).await?;
    // A pause is seen on the page: nothing is to be told of jobs.
    let notices = if verb == "clear" { told(&done).to_vec() } else { Vec::new() };
    Ok(back(&page, &notices))
}

/// The identity of a process, in a query, or `all`.
#[derive(Debug, Deserialize)]
pub(crate) struct Process {
    id: String,
}

pub(crate) async fn process(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Path(verb): Path<String>,
    Query(Process { id }): Query<Process>,
    body: Bytes,
) -> Result<Response, Failure> {
    let fields = Fields::parse(&body);
    let page = origin(&visit, &headers, &fields, "/processes");
    if (verb == "stop" || id == "all") && !fields.is_sure() {
        let whom = if id == "all" { "every process".to_owned() } else { format!("the process {id}") };
        let action = visit.address.clone();
        return confirm::ask(&shared, visit, format!("This is to {verb} {whom}."), action, fields, page).await;
    }
    let count = order(&shared, &id, &verb).await?;
    Ok(back(&page, &[("told", count as u64)]))
}

pub(crate) async fn api_job(
    State(shared): State<Shared>,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let swept = change_named(&shared, edit(&verb)?, &[id]).await?;
    let status = if swept.refused > 0 { StatusCode::CONFLICT } else { StatusCode::OK };
    Ok((status, Json(swept)).into_response())
}

/// Many jobs: those that are named, or all of a filter.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Many {
    verb: String,
    ids: Option<Vec<String>>,
    all: Option<Wanted>,
}

pub(crate) async fn api_jobs(State(shared): State<Shared>, Json(many): Json<Many>) -> Result<Json<Done>, Failure> {
    let edit = edit(&many.verb)?;
    match (many.ids, many.all) {
        (Some(ids), None) => Ok(Json(Done { swept: change_named(&shared, edit, &ids).await?, more: false })),
        (None, Some(wanted)) => Ok(Json(change_all(&shared, edit, &wanted).await?)),
        _ => Err(Failure::bad("name either `ids` or `all`")),
    }
}

pub(crate) async fn api_queue(
    State(shared): State<Shared>,
    Path(verb): Path<String>,
    Query(Named { name }): Query<Named>,
) -> Result<Json<Done>, Failure> {
    Ok(Json(change_queue(&shared, &name, &verb).await?))
}

/// How many processes will be told.
#[derive(Debug, Serialize)]
pub(crate) struct Reached {
    told: usize,
}

pub(crate) async fn api_process(
    State(shared): State<Shared>,
    Path(verb): Path<String>,
    Query(Process { id }): Query<Process>,
) -> Result<Json<Reached>, Failure> {
    Ok(Json(Reached { told: order(&shared, &id, &verb).await? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_elsewhere() {
        for path in ["//evil.example", "/\\evil.example", "/\t/evil.example", "https://evil.example", "evil", ""] {
            assert!(!is_own(path, ""), "{path:?}");
        }
        for path in ["/jobs@evil.example", "/jobsevil", "/other", "//jobs", "/"] {
            assert!(!is_own(path, "/jobs"), "{path:?}");
        }
        for path in ["/jobs", "/jobs/queues", "/jobs?state=dead"] {
            assert!(is_own(path, "/jobs"), "{path:?}");
        }
    }
}
