//! What the pool set out to reach, beside what a run found.
//!
//! A target is a limit for a figure that is computed from the tables: a time, or a ratio to a peer of the same run.
//! Where a table has several rows of the pool, the fastest of them counts, and the verdict names it. Ratios mean the
//! same everywhere; times were set for the machine that the project is built on.

use serde::Serialize;

use super::measure::{Role, Row, Table};
use crate::report::grouped;
use Limit::{AtLeast, AtMost};

/// What is asked of a figure.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// A figure, and the row of the pool that it comes from.
pub struct Figure<'a> {
    pub value: f64,
    pub row: &'a Row,
}

pub struct Target {
    pub workload: &'static str,
    /// What is asked, with its unit.
    pub asked: &'static str,
    pub limit: Limit,
    pub figure: fn(Tables<'_>) -> Option<Figure<'_>>,
}

/// The tables of one workload.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    all: &'a [Table],
    workload: &'a str,
}

impl<'a> Tables<'a> {
    /// The rows of the first table whose title holds the words.
    pub fn rows(self, title: &str) -> &'a [Row] {
        let is_wanted = |table: &&Table| table.workload == self.workload && table.title.contains(title);
        self.all.iter().find(is_wanted).map_or(&[], |table| &table.rows)
    }

    /// The pool's fastest row in a table.
    pub fn ours(self, title: &str) -> Option<&'a Row> {
        let ours = self.rows(title).iter().filter(|row| row.role == Role::Windlass);
        ours.min_by(|a, b| a.median.total_cmp(&b.median))
    }

    pub fn peer(self, title: &str, name: &str) -> Option<&'a Row> {
        self.rows(title).iter().find(|row| row.role == Role::Peer && row.name.starts_with(name))
    }

    /// The row of this name in a table.
    pub fn row(self, title: &str, name: &str) -> Option<&'a Row> {
        self.rows(title).iter().find(|row| row.name == name)
    }
}

impl Row {
    pub fn median(&self) -> Option<Figure<'_>> {
        Some(Figure { value: self.median, row: self })
    }

    pub fn to_best_peer(&self) -> Option<Figure<'_>> {
        Some(Figure { value: self.ratio?, row: self })
    }

    /// This row's time, in another's.
    pub fn over(&self, other: &Row) -> Option<Figure<'_>> {
        Some(Figure { value: self.median / other.median, row: self })
    }

    /// How many times as fast as another this row is.
    pub fn speed_of(&self, other: &Row) -> Option<Figure<'_>> {
        Some(Figure { value: other.median / self.median, row: self })
    }
}

/// What became of a target.
#[derive(Debug, Serialize)]
pub struct Verdict {
    asked: &'static str,
    limit: String,
    /// `None` if the run was a short one, which leaves the table out.
    found: Option<f64>,
    pub is_met: Option<bool>,
    /// The row that was judged.
    row: Option<String>,
    /// That row's ratio to the fastest peer.
    to_peer: Option<f64>,
}

/// Judges the targets of the workloads that were run.
pub fn judge(targets: &[Target], tables: &[Table]) -> Vec<Verdict> {
    let was_run = |target: &&Target| tables.iter().any(|table| table.workload == target.workload);
    targets.iter().filter(was_run).map(|target| judge_one(target, tables)).collect()
}

fn judge_one(target: &Target, tables: &[Table]) -> Verdict {
    let figure = (target.figure)(Tables { all: tables, workload: target.workload });
    Verdict {
        asked: target.asked,
        limit: target.limit.words(),
        found: figure.as_ref().map(|figure| figure.value),
        is_met: figure.as_ref().map(|figure| target.limit.holds(figure.value)),
        row: figure.as_ref().map(|figure| figure.row.name.clone()),
        to_peer: figure.and_then(|figure| figure.row.ratio),
    }
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            AtMost(limit) => value <= limit,
            AtLeast(limit) => value >= limit,
        }
    }

    fn words(self) -> String {
        match self {
            AtMost(limit) => format!("≤ {}", grouped(limit)),
            AtLeast(limit) => format!("≥ {}", grouped(limit)),
        }
    }
}

impl Verdict {
    /// A line of the list.
    pub fn words(&self) -> String {
        let outcome = match self.is_met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "not run",
        };
        let found = self.found.map(grouped).unwrap_or_default();
        let ratio = self.to_peer.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let row = self.row.as_deref().unwrap_or_default();
        format!("{outcome:<8} {:<68} {:>8} {found:>9}   {row:<40} {ratio:>6}", self.asked, self.limit)
    }
}
