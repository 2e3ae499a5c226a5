//! Looks into the store again and again, and does there what the person at the keys wants.
//!
//! A thread of its own, so that a slow store never makes a key slow. It reads only what is on the screen: the counts, the
//! queues, the processes, and one page of jobs if a list of jobs is shown.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use windlass::blocking::block_on;
use windlass::job::JobRecord;
use windlass::state::State;
use windlass::store::{
    Changed, ClearFilter, Counts, Cursor, JobPage, JobQuery, MemberId, ProcessInfo, ProcessOrder, ProcessTarget,
    QueueInfo,
};
use windlass::{Client, Error, Inspector, JobId, Timestamp};

use super::Message;

/// Jobs on a page. More than any screen has lines; a further page is a key away.
const PAGE_LEN: usize = 200;
/// Calls for one page of a search. What they did not find may be on the next page.
const CALLS_MAX: usize = 10;

/// What is on the screen, and so worth reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// The list of jobs that is shown, if one is.
    pub(super) state: Option<State>,
    /// Only jobs with this text somewhere; empty means all.
    pub(super) search: String,
    /// Where its page begins.
    pub(super) after: Option<Cursor>,
    /// The job whose details are shown, if they are.
    pub(super) job: Option<JobId>,
}

/// What somebody wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    Pause(String),
    Resume(String),
    /// Remove the ready jobs of a queue.
    Clear(String),
    Requeue(JobId),
    Kill(JobId),
    Delete(JobId),
    Cancel(JobId),
    Quiet(MemberId),
    Stop(MemberId),
}

/// What the screen asks of this thread.
#[derive(Debug)]
pub(super) enum Wish {
    Attend(Interest),
    Do(Order),
}

/// The store at one instant.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// By the store's clock.
    pub(super) at: Timestamp,
    pub(super) counts: Counts,
    pub(super) queues: Vec<QueueInfo>,
    pub(super) processes: Vec<ProcessInfo>,
    /// What was read, for a look may come after the screen has moved on.
    pub(super) interest: Interest,
    pub(super) jobs: Vec<JobRecord>,
    /// Where the next page begins.
    pub(super) next: Option<Cursor>,
    /// The job whose details are shown; `None` too if it is gone.
    pub(super) job: Option<JobRecord>,
}

/// Reads what `interest` asks for.
pub(super) fn look(inspector: &Inspector, at: Timestamp, interest: &Interest) -> Result<Look, Error> {
    let page = match interest.state {
        Some(state) => page(inspector, state, interest)?,
        None => JobPage::default(),
    };
    let job = match interest.job.map(|id| block_on(inspector.job(id))) {
        Some(Ok(job)) => Some(job),
        Some(Err(Error::NotFound { .. })) | None => None,
        Some(Err(error)) => return Err(error),
    };
    Ok(Look {
        at,
        counts: block_on(inspector.counts())?,
        queues: block_on(inspector.queues())?,
        processes: block_on(inspector.processes())?,
        interest: interest.clone(),
        jobs: page.jobs,
        next: page.next,
        job,
    })
}

/// A full page, if there is one within [`CALLS_MAX`] calls: a search may answer short pages, one after the other.
fn page(inspector: &Inspector, state: State, interest: &Interest) -> Result<JobPage, Error> {
    let mut page = JobPage { jobs: Vec::new(), next: interest.after };
    let search = (!interest.search.is_empty()).then(|| interest.search.clone());
    for _ in 0..CALLS_MAX {
        let limit = PAGE_LEN - page.jobs.len();
        let query =
            JobQuery { state: Some(state), search: search.clone(), after: page.next, limit, ..JobQuery::default() };
        let more = block_on(inspector.list(query))?;
        page.jobs.extend(more.jobs);
        page.next = more.next;
        if page.next.is_none() || page.jobs.len() == PAGE_LEN {
            break;
        }
    }
    Ok(page)
}

/// The life of the thread: looks every `pace`, and after every wish. Ends when nobody listens or wishes any more.
pub(super) fn watch(client: &Client, pace: Duration, wishes: &Receiver<Wish>, messages: &Sender<Message>) {
    let inspector = Inspector::new(std::sync::Arc::clone(client.store()));
    let mut interest = Interest::default();
    loop {
        let since = Instant::now();
        let looked = look(&inspector, client.store().now(), &interest).map(Box::new);
        if messages.send(Message::Looked(looked)).is_err() {
            return;
        }
        match wishes.recv_timeout(pace.saturating_sub(since.elapsed())) {
            Ok(Wish::Attend(now)) => interest = now,
            Ok(Wish::Do(order)) => {
                let answer = obey(client, &order);
                if messages.send(Message::Obeyed(answer)).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Does what was ordered, and answers what to say about it.
fn obey(client: &Client, order: &Order) -> Result<String, String> {
    let told = |error: Error| error.to_string();
    let changed = |what: &str, id: &JobId, answer: Result<Changed, Error>| match answer.map_err(told)? {
        Changed::Asked => Ok(format!("job {id} is running and has been asked to give way")),
        _ => Ok(format!("job {id} {what}")),
    };
    let was = |is_changed: bool| if is_changed { "" } else { " already" };
    match order {
        Order::Pause(queue) => {
            let is_changed = block_on(client.pause(queue)).map_err(told)?;
            Ok(format!("queue {queue} is paused{}", was(is_changed)))
        }
        Order::Resume(queue) => {
            let is_changed = block_on(client.resume(queue)).map_err(told)?;
            Ok(format!("queue {queue} goes on{}", was(is_changed)))
        }
        Order::Clear(queue) => {
            let filter = ClearFilter { state: Some(State::Ready), queue: Some(queue.clone()) };
            let removed = block_on(client.clear(filter)).map_err(told)?;
            Ok(format!("{removed} ready jobs of queue {queue} deleted"))
        }
        Order::Requeue(id) => changed("is ready", id, block_on(client.requeue(*id))),
        Order::Kill(id) => changed("is dead", id, block_on(client.kill(*id))),
        Order::Delete(id) => changed("is deleted", id, block_on(client.delete(*id))),
        Order::Cancel(id) => changed("is cancelled", id, block_on(client.cancel(*id))),
        Order::Quiet(process) => tell(client, process, ProcessOrder::Quiet),
        Order::Stop(process) => tell(client, process, ProcessOrder::Stop),
    }
}

fn tell(client: &Client, process: &MemberId, order: ProcessOrder) -> Result<String, String> {
    let told = block_on(client.order(ProcessTarget::One(process.clone()), order));
    told.map_err(|error| error.to_string())?;
    Ok(format!("process {process} has been told to {}; it hears of it with its next beat", order.name()))
}
