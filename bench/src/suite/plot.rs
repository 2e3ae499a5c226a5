//! Draws the tables: a panel of horizontal bars for each, the bar the median, the line from the least to the tail.

use std::fmt::Write;

use super::measure::{Role, Row, Table};
use crate::report::grouped;

const WIDTH: f64 = 1_000.0;
const LABEL_WIDTH: f64 = 310.0;
const BAR_WIDTH: f64 = 500.0;
const ROW_HEIGHT: f64 = 20.0;
const BAR_HEIGHT: f64 = 13.0;
const TITLE_HEIGHT: f64 = 44.0;

/// Beyond this spread a panel's scale is logarithmic.
const LINEAR_SPREAD_MAX: f64 = 10.0;

/// The whole picture. `words` stand at its head, a line each.
pub fn svg(words: &str, tables: &[Table]) -> String {
    let mut picture = Picture { body: String::new(), y: 12.0 };
    for line in words.lines() {
        picture.y += 15.0;
        picture.text(12.0, "fill='#666'", line);
    }
    for table in tables {
        picture.panel(table);
    }
    let height = picture.y + 20.0;
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' \
         font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n{}</svg>\n",
        picture.body
    )
}

struct Picture {
    body: String,
    /// Where the next line goes.
    y: f64,
}

impl Picture {
    fn panel(&mut self, table: &Table) {
        self.y += TITLE_HEIGHT;
        let scale = Scale::of(table);
        let title = format!("{}: {}", table.workload, table.title);
        self.text(12.0, "font-weight='bold' font-size='14'", &title);
        let kind = if scale.is_log { ", logarithmic" } else { "" };
        let legend = format!(
            "{}, median; line from least to {}{kind}; others took {:.0} % of the machine",
            table.unit, table.tail, table.others_percent
        );
        self.y += 16.0;
        self.text(LABEL_WIDTH, "fill='#666'", &legend);
        self.y += 8.0;
        for row in &table.rows {
            self.row(row, &scale);
        }
    }

    fn row(&mut self, row: &Row, scale: &Scale) {
        let (top, middle) = (self.y, self.y + BAR_HEIGHT / 2.0);
        let [least, end, tail] = [row.min, row.median, row.tail].map(|value| scale.place(value));
        let colour = match row.role {
            Role::Floor => "#b8b8b8",
            Role::Peer => "#7a9cc6",
            Role::Windlass => "#d9822b",
        };
        self.shape(&format!(
            "<rect x='{LABEL_WIDTH}' y='{top:.1}' width='{:.1}' height='{BAR_HEIGHT}' fill='{colour}'/>",
            end - LABEL_WIDTH
        ));
        self.shape(&format!("<path d='M{least:.1} {middle:.1}H{tail:.1}' stroke='#333' stroke-width='1'/>"));
        self.y += BAR_HEIGHT - 2.0;
        self.text(LABEL_WIDTH - 8.0, "text-anchor='end'", &row.name);
        self.text(end.max(tail) + 6.0, "", &grouped(row.median));
        self.y += ROW_HEIGHT - BAR_HEIGHT + 2.0;
    }

    fn text(&mut self, x: f64, attributes: &str, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        self.shape(&format!("<text x='{x:.1}' y='{:.1}' {attributes}>{words}</text>", self.y));
    }

    fn shape(&mut self, shape: &str) {
        writeln!(self.body, "{shape}").expect("a string takes everything");
    }
}

/// From values to places. What is beyond the end is drawn at the end.
struct Scale {
    is_log: bool,
    first: f64,
    last: f64,
}

impl Scale {
    fn of(table: &Table) -> Scale {
        let medians = || table.rows.iter().map(|row| row.median).filter(|median| *median > 0.0);
        let least = medians().fold(f64::INFINITY, f64::min);
        let last = medians().fold(f64::MIN_POSITIVE, f64::max);
        let is_log = last / least > LINEAR_SPREAD_MAX;
        let first = if is_log { least / 2.0 } else { 0.0 };
        Scale { is_log, first, last: last * 1.1 }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.is_log {
            true => (value / self.first).ln() / (self.last / self.first).ln(),
            false => (value - self.first) / (self.last - self.first),
        };
        LABEL_WIDTH + BAR_WIDTH * part.clamp(0.0, 1.0)
    }
}
