//! Charts as SVG, drawn here: they need no script, and the style file colours them in light and dark.

use std::fmt;
use std::fmt::Write as _;

use askama::filters::HtmlSafe;
use windlass::store::{Point, Series};

/// Markup made here, out of numbers and our own words only: no text of a job is in it, so it is not escaped.
#[derive(Debug)]
pub(crate) struct Drawing(String);

impl HtmlSafe for Drawing {}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;
/// Room for the numbers at the left, and the times below.
const LEFT: f64 = 52.0;
const BELOW: f64 = 20.0;
const ABOVE: f64 = 8.0;

/// One line of a chart: its class in the style file, its name, its values.
struct Line<'a> {
    class: &'static str,
    name: &'static str,
    value: &'a dyn Fn(&Point) -> Option<f64>,
    is_filled: bool,
}

/// Jobs a minute, and of these the failed ones.
pub(crate) fn jobs(series: &Series) -> Drawing {
    let minutes = series.step_ms as f64 / 60_000.0;
    let lines = [
        Line { class: "done", name: "run", value: &|point| Some(point.processed as f64 / minutes), is_filled: true },
        Line { class: "dead", name: "failed", value: &|point| Some(point.failed as f64 / minutes), is_filled: true },
    ];
    draw(series, "Jobs a minute", &lines, &count)
}

/// How long runs take.
pub(crate) fn run_times(series: &Series) -> Drawing {
    let lines = [
        Line { class: "p50", name: "p50", value: &|point| point.run.map(|run| run.p50_ms as f64), is_filled: false },
        Line { class: "p95", name: "p95", value: &|point| point.run.map(|run| run.p95_ms as f64), is_filled: false },
        Line { class: "p99", name: "p99", value: &|point| point.run.map(|run| run.p99_ms as f64), is_filled: false },
    ];
    draw(series, "Run time", &lines, &length)
}

/// How late runs begin.
pub(crate) fn start_times(series: &Series) -> Drawing {
    let p50 = |point: &Point| point.start.map(|start| start.p50_ms as f64);
    let p99 = |point: &Point| point.start.map(|start| start.p99_ms as f64);
    let lines = [
        Line { class: "p50", name: "p50", value: &p50, is_filled: false },
        Line { class: "p99", name: "p99", value: &p99, is_filled: false },
    ];
    draw(series, "Latency, from due to begun", &lines, &length)
}

/// How many jobs are ready.
pub(crate) fn depth(series: &Series) -> Drawing {
    let ready = |point: &Point| point.ready.map(|ready| ready as f64);
    draw(series, "Ready jobs", &[Line { class: "ready", name: "ready", value: &ready, is_filled: true }], &count)
}

fn count(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.0} k", v / 1e3),
        v if v >= 10.0 || v.fract() == 0.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}

fn length(value: f64) -> String {
    super::span(value as u64)
}

fn draw(series: &Series, title: &str, lines: &[Line<'_>], label: &dyn Fn(f64) -> String) -> Drawing {
    let values = lines.iter().flat_map(|line| series.points.iter().filter_map(|point| (line.value)(point)));
    let top = round_up(values.fold(0.0, f64::max));
    let mut svg = format!(r#"<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">"#);
    grid(&mut svg, series, top, label);
    lines.iter().for_each(|line| path(&mut svg, series, line, top));
    svg.push_str("</svg>");
    legend(&mut svg, series, lines, label);
    Drawing(svg)
}

fn legend(svg: &mut String, series: &Series, lines: &[Line<'_>], label: &dyn Fn(f64) -> String) {
    svg.push_str(r#"<p class="legend">"#);
    for line in lines {
        let newest = series.points.iter().rev().find_map(|point| (line.value)(point));
        let newest = newest.map_or("–".to_owned(), label);
        let _ = write!(svg, r#"<span class="key {}">{} <b>{newest}</b></span> "#, line.class, line.name);
    }
    svg.push_str("</p>");
}

/// The next of 1, 2, 5, 10 … that is no less.
fn round_up(value: f64) -> f64 {
    if value <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

fn x(series: &Series, index: usize) -> f64 {
    LEFT + (WIDTH - LEFT) * index as f64 / (series.points.len().max(2) - 1) as f64
}

fn y(value: f64, top: f64) -> f64 {
    ABOVE + (HEIGHT - ABOVE - BELOW) * (1.0 - value / top)
}

fn grid(svg: &mut String, series: &Series, top: f64, label: &dyn Fn(f64) -> String) {
    for share in [0.0, 0.5, 1.0] {
        let (at, text) = (y(top * share, top), label(top * share));
        let _ = write!(svg, r#"<line class="rule" x1="{LEFT}" x2="{WIDTH}" y1="{at:.1}" y2="{at:.1}"/>"#);
        let _ = write!(svg, r#"<text class="mark end" x="{:.1}" y="{:.1}">{text}</text>"#, LEFT - 6.0, at + 3.5);
    }
    let last = series.points.len().saturating_sub(1);
    for (share, anchor) in [(0, "start"), (1, "middle"), (2, "end")] {
        let Some(point) = series.points.get(last * share / 2) else { continue };
        let ago = series.step_ms * (last - last * share / 2) as i64;
        let text = if ago == 0 { "now".to_owned() } else { format!("−{}", round_span(ago)) };
        let (x, y, at) = (x(series, last * share / 2), HEIGHT - 4.0, point.at);
        let _ = write!(svg, r#"<text class="mark {anchor}" x="{x:.1}" y="{y}">{text}<title>{at}</title></text>"#);
    }
}

fn round_span(ms: i64) -> String {
    match (ms + 30_000) / 60_000 {
        minutes if minutes < 120 => format!("{minutes} min"),
        minutes if minutes < 2_880 => format!("{} h", minutes / 60),
        minutes => format!("{} d", minutes / 1_440),
    }
}

/// A line with gaps where nothing was measured.
fn path(svg: &mut String, series: &Series, line: &Line<'_>, top: f64) {
    let (mut stroke, mut is_down) = (String::new(), false);
    for (index, point) in series.points.iter().enumerate() {
        let Some(value) = (line.value)(point) else {
            is_down = false;
            continue;
        };
        let _ = write!(stroke, "{}{:.1} {:.1}", if is_down { "L" } else { "M" }, x(series, index), y(value, top));
        is_down = true;
    }
    if line.is_filled {
        let _ = write!(svg, r#"<path class="area {}" d="{}"/>"#, line.class, area(series, line, top));
    }
    let _ = write!(svg, r#"<path class="line {}" d="{stroke}"/>"#, line.class);
}

/// What lies below a line; nothing measured is nothing there.
fn area(series: &Series, line: &Line<'_>, top: f64) -> String {
    let last = series.points.len().saturating_sub(1);
    let mut area = format!("M{:.1} {:.1}", x(series, 0), y(0.0, top));
    for (index, point) in series.points.iter().enumerate() {
        let value = (line.value)(point).unwrap_or(0.0);
        let _ = write!(area, "L{:.1} {:.1}", x(series, index), y(value, top));
    }
    let _ = write!(area, "L{:.1} {:.1}Z", x(series, last), y(0.0, top));
    area
}

/// How often a run took how long, as bars.
pub(crate) fn histogram(counts: &[u64], bounds_ms: &[u64]) -> Drawing {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let width = (WIDTH - LEFT) / counts.len() as f64;
    let mut svg = format!(r#"<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Run times">"#);
    for (index, count) in counts.iter().enumerate() {
        let (left, top) = (LEFT + width * index as f64, y(*count as f64, most));
        let below = bounds_ms.get(index).map_or("longer".to_owned(), |bound| format!("≤ {}", super::span(*bound)));
        let height = y(0.0, most) - top;
        let (bar_left, bar_width) = (left + 1.0, width - 2.0);
        let _ = write!(
            svg,
            r#"<rect class="bar" x="{bar_left:.1}" y="{top:.1}" width="{bar_width:.1}" height="{height:.1}">"#
        );
        let _ = write!(svg, "<title>{below}: {count}</title></rect>");
        if index % 5 == 0 {
            let _ = write!(svg, r#"<text class="mark start" x="{left:.1}" y="{}">{below}</text>"#, HEIGHT - 4.0);
        }
    }
    svg.push_str("</svg>");
    Drawing(svg)
}
