//! `windlass stats`: how many jobs there are, and what has happened.

use serde::Serialize;
use windlass::state::State;
use windlass::store::{Counts, DayTotals, Totals};

use crate::{Common, output, store};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many days of history to show, 1 to 90
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=90))]
    days: u32,
}

#[derive(Serialize)]
struct Stats {
    counts: Counts,
    history: Vec<DayTotals>,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let counts = opened.wait(opened.inspector().counts())?;
    let history = opened.wait(opened.inspector().history(arguments.days))?;
    if common.json {
        return output::json(&Stats { counts, history });
    }
    let states = State::ALL.map(|state| vec![state.to_string(), output::grouped(counts.of(state))]);
    output::table(&["state", "jobs"], states.into(), "")?;
    output::line("")?;
    let mut rows = vec![totals_row("in all".to_owned(), &counts.totals)];
    rows.extend(history.iter().map(|day| totals_row(day.day.to_string().chars().take(10).collect(), &day.totals)));
    let header = ["", "enqueued", "done", "failed", "dead", "recovered", "cancelled", "expired", "fenced"];
    output::table(&header, rows, "")
}

fn totals_row(name: String, totals: &Totals) -> Vec<String> {
    let Totals { enqueued, done, failed, dead, recovered, cancelled, expired, fenced } = *totals;
    let counts = [enqueued, done, failed, dead, recovered, cancelled, expired, fenced];
    std::iter::once(name).chain(counts.into_iter().map(output::grouped)).collect()
}
