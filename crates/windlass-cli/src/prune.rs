//! `windlass prune …`: removes jobs that nobody needs any more, in slices that let others in between.

use std::io::{BufRead, IsTerminal, Write};

use windlass::job::QUEUE_DEFAULT;
use windlass::state::State;
use windlass::store::{ClearFilter, Keep};

use crate::exit::Usage;
use crate::store::Opened;
use crate::{Common, output, store};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Do not ask
    #[arg(long, global = true)]
    yes: bool,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum What {
    /// What has been kept long enough: done, dead and cancelled jobs past their keep time
    Expired,
    /// The ready jobs of one queue
    Queue {
        /// Which queue
        #[arg(default_value = QUEUE_DEFAULT)]
        name: String,
    },
    /// The ready jobs of all queues
    Queues,
    /// Jobs that wait for a retry
    Retries,
    /// Jobs that wait for their time
    Scheduled,
    /// Dead jobs
    Dead,
    /// Cancelled jobs
    Cancelled,
    /// Done jobs that are kept
    Done,
    /// Every job that is not running
    Everything,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let removed = match filter(&arguments.what) {
        None => opened.wait(opened.client().prune(Keep::default()))?,
        Some(filter) => {
            if !arguments.yes {
                ask(&arguments.what, &opened)?;
            }
            opened.wait(opened.client().clear(filter))?
        }
    };
    if common.json {
        return output::json(&serde_json::json!({ "removed": removed }));
    }
    output::line(&format!("removed {} jobs", output::grouped(removed)))
}

fn filter(what: &What) -> Option<ClearFilter> {
    let of_state = |state| Some(ClearFilter { state: Some(state), queue: None });
    match what {
        What::Expired => None,
        What::Queue { name } => Some(ClearFilter { state: Some(State::Ready), queue: Some(name.clone()) }),
        What::Queues => of_state(State::Ready),
        What::Retries => of_state(State::Retry),
        What::Scheduled => of_state(State::Scheduled),
        What::Dead => of_state(State::Dead),
        What::Cancelled => of_state(State::Cancelled),
        What::Done => of_state(State::Done),
        What::Everything => Some(ClearFilter::default()),
    }
}

/// Asks on a terminal; elsewhere, where nobody could answer, wants `--yes`.
fn ask(what: &What, opened: &Opened) -> anyhow::Result<()> {
    let subject = match what {
        What::Queue { name } => format!("the ready jobs of queue {name:?}"),
        What::Queues => "the ready jobs of all queues".to_owned(),
        What::Everything => "every job that is not running".to_owned(),
        What::Expired => return Ok(()),
        What::Retries => "all jobs that wait for a retry".to_owned(),
        What::Scheduled => "all scheduled jobs".to_owned(),
        What::Dead => "all dead jobs".to_owned(),
        What::Cancelled => "all cancelled jobs".to_owned(),
        What::Done => "all done jobs".to_owned(),
    };
    let url = opened.inspector().describe().url;
    if !std::io::stdin().is_terminal() {
        return Err(Usage(format!("this removes {subject} from {url}; add --yes to do it")).into());
    }
    let mut prompt = std::io::stderr().lock();
    write!(prompt, "Remove {subject} from {url}? [y/N] ")?;
    prompt.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    if answer.trim().eq_ignore_ascii_case("y") { Ok(()) } else { Err(Usage("nothing was removed".to_owned()).into()) }
}
