//! What a person, or a program, does to jobs, queues and processes. Each answer of a page leads back to where the person
//! was; the API answers what was done.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::{Deserialize, Serialize};
use windlass::state::State as JobState;
use windlass::store::{Changed, ClearFilter, MemberId, ProcessOrder, ProcessTarget};
use windlass::sweep::{Edit, Swept};

use super::jobs::Wanted;
use super::{Failure, Visit, job};
use crate::Shared;

/// Jobs that can be named in one request.
const IDS_MAX: usize = 1_000;

fn edit(verb: &str) -> Result<Edit, Failure> {
    match verb {
        "requeue" => Ok(Edit::Requeue),
        "kill" => Ok(Edit::Kill),
        "cancel" => Ok(Edit::Cancel),
        "delete" => Ok(Edit::Delete),
        _ => Err(Failure::missing("no such verb: requeue, kill, cancel and delete are known")),
    }
}

/// One job.
async fn change_one(shared: &Shared, text: &str, verb: &str) -> Result<Swept, Failure> {
    change_named(shared, edit(verb)?, &[text.to_owned()]).await
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

/// Everything that a filter chooses. Something must be chosen: nobody means every job there is.
async fn change_all(shared: &Shared, edit: Edit, wanted: &Wanted) -> Result<Swept, Failure> {
    let filter = wanted.filter()?;
    if filter.state.is_none() {
        return Err(Failure::bad("all jobs of which state? name one"));
    }
    Ok(shared.client.sweep(edit, filter).await?.finish().await?)
}

async fn change_queue(shared: &Shared, name: &str, verb: &str) -> Result<u64, Failure> {
    match verb {
        "pause" => Ok(u64::from(shared.client.pause(name).await?)),
        "resume" => Ok(u64::from(shared.client.resume(name).await?)),
        "clear" => {
            let ready = ClearFilter { state: Some(JobState::Ready), queue: Some(name.to_owned()) };
            Ok(shared.client.clear(ready).await?)
        }
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

/// Back to the page the person was on, if it says so and is ours, with the numbers of what was done.
fn back(visit: &Visit, headers: &HeaderMap, elsewhere: &str, done: &[(&str, u64)]) -> Response {
    let referer = headers.get("x-back").or_else(|| headers.get(header::REFERER)).and_then(|value| value.to_str().ok());
    let ours = referer.and_then(|url| own_path(url, headers, &visit.base));
    let page = ours.unwrap_or_else(|| format!("{}{elsewhere}", visit.base));
    let (path, query) = page.split_once('?').unwrap_or((&page, ""));
    let is_notice = |pair: &str| ["changed=", "asked=", "refused=", "told="].iter().any(|name| pair.starts_with(name));
    let mut pairs: Vec<String> =
        query.split('&').filter(|pair| !pair.is_empty() && !is_notice(pair)).map(str::to_owned).collect();
    pairs.extend(done.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name}={count}")));
    let page = if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) };
    Redirect::to(&page).into_response()
}

/// The path and query of a URL of this host below `base`.
fn own_path(url: &str, headers: &HeaderMap, base: &str) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?.strip_prefix(host)?;
    let is_below = rest.strip_prefix(base).is_some_and(|rest| rest.starts_with('/') || rest.is_empty());
    (is_below && rest.starts_with('/') && !rest.starts_with("//")).then(|| rest.to_owned())
}

fn told(swept: Swept) -> [(&'static str, u64); 3] {
    [("changed", swept.changed), ("asked", swept.asked), ("refused", swept.refused)]
}

pub(crate) async fn job(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let swept = change_one(&shared, &id, &verb).await?;
    // A deleted job has no page to go back to.
    if verb == "delete" {
        let page = format!("{}/jobs?changed={}", visit.base, swept.changed);
        return Ok(Redirect::to(&page).into_response());
    }
    Ok(back(&visit, &headers, &format!("/jobs/{id}"), &told(swept)))
}

pub(crate) async fn jobs(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failure> {
    let fields: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let text = |name: &str| field(name).unwrap_or_default();
    let wanted =
        Wanted { state: text("state"), queue: text("queue"), kind: text("kind"), q: text("q"), ..Wanted::default() };
    let (scope, verb) = match field("all") {
        Some(verb) => (true, verb),
        None => (false, text("selected")),
    };
    let swept = if scope {
        change_all(&shared, edit(&verb)?, &wanted).await?
    } else {
        let ids: Vec<String> = fields.iter().filter(|(name, _)| name == "id").map(|(_, id)| id.clone()).collect();
        change_named(&shared, edit(&verb)?, &ids).await?
    };
    Ok(back(&visit, &headers, &format!("/jobs?{}", wanted.link()), &told(swept)))
}

pub(crate) async fn queue(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Path((name, verb)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let changed = change_queue(&shared, &name, &verb).await?;
    let done = if verb == "clear" { changed } else { 0 };
    Ok(back(&visit, &headers, "/queues", &[("changed", done)]))
}

pub(crate) async fn process(
    State(shared): State<Shared>,
    visit: Visit,
    headers: HeaderMap,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let count = order(&shared, &id, &verb).await?;
    Ok(back(&visit, &headers, "/processes", &[("told", count as u64)]))
}

pub(crate) async fn api_job(
    State(shared): State<Shared>,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Response, Failure> {
    let swept = change_one(&shared, &id, &verb).await?;
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

pub(crate) async fn api_jobs(State(shared): State<Shared>, Json(many): Json<Many>) -> Result<Json<Swept>, Failure> {
    let edit = edit(&many.verb)?;
    match (many.ids, many.all) {
        (Some(ids), None) => Ok(Json(change_named(&shared, edit, &ids).await?)),
        (None, Some(wanted)) => Ok(Json(change_all(&shared, edit, &wanted).await?)),
        _ => Err(Failure::bad("name either `ids` or `all`")),
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Count {
    changed: u64,
}

pub(crate) async fn api_queue(
    State(shared): State<Shared>,
    Path((name, verb)): Path<(String, String)>,
) -> Result<Json<Count>, Failure> {
    Ok(Json(Count { changed: change_queue(&shared, &name, &verb).await? }))
}

pub(crate) async fn api_process(
    State(shared): State<Shared>,
    Path((id, verb)): Path<(String, String)>,
) -> Result<Json<Count>, Failure> {
    Ok(Json(Count { changed: order(&shared, &id, &verb).await? as u64 }))
}
