//! `windlass migrate --from URL --to URL`: moves every job of one store into another.

use std::sync::Arc;

use indicatif::ProgressBar;
use windlass::blocking::block_on;
use windlass::migrate::{Migrated, migrate};
use windlass::state::State;
use windlass::store::Store;

use crate::{Common, output};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The store to empty
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to fill
    #[arg(long, value_name = "URL")]
    to: String,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let from = windlass::open(&arguments.from)?;
    let to = windlass::open(&arguments.to)?;
    // Drawn on a terminal only.
    let bar = ProgressBar::new_spinner();
    let tell = |so_far: &Migrated| bar.set_message(format!("moved {} jobs", output::grouped(so_far.total())));
    let outcome = block_on(migrate(&from, &to, tell));
    bar.finish_and_clear();
    // What was moved is durable in the destination already; closing only tidies up.
    let _ = (block_on(from.close()), block_on(to.close()));
    report(common, &from, &to, outcome?)
}

fn report(common: &Common, from: &Arc<dyn Store>, to: &Arc<dyn Store>, moved: Migrated) -> anyhow::Result<()> {
    let by_state = |state: State| (state.name().to_owned(), moved.jobs.of(state).into());
    if common.json {
        let jobs: serde_json::Map<String, serde_json::Value> = State::ALL.into_iter().map(by_state).collect();
        return output::json(&serde_json::json!({
            "moved": moved.total(), "already_there": moved.already_there, "pauses": moved.pauses, "jobs": jobs,
        }));
    }
    let (from, to) = (from.describe().url, to.describe().url);
    output::line(&format!("moved {} jobs from {from} to {to}", output::grouped(moved.total())))?;
    for state in State::ALL.into_iter().filter(|state| moved.jobs.of(*state) > 0) {
        output::line(&format!("  {:<10} {}", state.name(), output::grouped(moved.jobs.of(state))))?;
    }
    if moved.already_there > 0 {
        let count = output::grouped(moved.already_there);
        output::line(&format!("{count} of them were there already, from a run that was interrupted"))?;
    }
    Ok(())
}
