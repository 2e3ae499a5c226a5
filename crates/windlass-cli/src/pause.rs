//! `windlass pause QUEUE` and `windlass resume QUEUE`.

use crate::{Common, output, store};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The queue
    queue: String,
}

pub(crate) fn pause(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let changed = opened.wait(opened.client().pause(&arguments.queue))?;
    tell(common, &arguments.queue, true, changed)
}

pub(crate) fn resume(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let changed = opened.wait(opened.client().resume(&arguments.queue))?;
    tell(common, &arguments.queue, false, changed)
}

fn tell(common: &Common, queue: &str, paused: bool, changed: bool) -> anyhow::Result<()> {
    if common.json {
        return output::json(&serde_json::json!({ "queue": queue, "paused": paused, "changed": changed }));
    }
    let already = if changed { "" } else { " already" };
    let state = if paused { "paused" } else { "not paused" };
    output::line(&format!("queue {queue:?} is{already} {state}"))
}
