//! Draws the screen: a pure function of what the [`App`] knows.
//!
//! ```text
//! windlass top   where the store is                                  its time
//! how many jobs are in each state
//! a line each for what is enqueued, done and failed a second
//! the lists, the present one marked; filter; page
//! the rows of the list
//! …
//! news, or a question, or the keys of this list
//! ```
//!
//! It fits into 80 columns and 24 lines, and uses more where there is more. Every text that comes from the store goes
//! through [`text`].

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Sparkline, Table, TableState};
use windlass::Timestamp;
use windlass::job::JobRecord;
use windlass::state::State;
use windlass::store::ProcessInfo;

use super::app::{App, KEYS, Mode, News, Row, View};
use crate::{jobs, output, processes, time};

/// From this width on, ids are shown whole.
const WIDE: u16 = 120;
/// The end of an id that is shown where room is scarce: the random part, which tells jobs apart.
const ID_END_LEN: usize = 8;
/// Of a long text only so many characters are looked at: no screen shows more.
const TEXT_LEN_MAX: usize = 500;
/// The same, where a job is shown by itself.
const DETAIL_LEN_MAX: usize = 50_000;
/// Columns for the name and the value of a rate.
const RATE_WIDTH: u16 = 20;

/// The columns of the list of queues that hold numbers.
const NUMBERS: &[&str] = &["ready", "running", "waiting", "latency"];

/// A text of the store, made harmless.
fn text(untrusted: &str) -> String {
    output::printable(&output::shortened(untrusted, TEXT_LEN_MAX))
}

/// The colour of a state: the same wherever the state is named.
fn color(state: State) -> Color {
    match state {
        State::Scheduled => Color::Magenta,
        State::Ready => Color::Blue,
        State::Running => Color::Green,
        State::Retry => Color::Yellow,
        State::Done => Color::Cyan,
        State::Dead => Color::Red,
        State::Cancelled => Color::DarkGray,
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let lines = [1, 1, 1, 1, 1, 1].map(Constraint::Length);
    let parts = lines.into_iter().chain([Constraint::Fill(1), Constraint::Length(1)]);
    let [head, counts, enqueued, done, failed, tabs, list, foot] = Layout::vertical(parts).areas(frame.area());
    draw_head(frame, head, app);
    draw_counts(frame, counts, app);
    draw_rate(frame, enqueued, "enqueued/s", &app.rates.enqueued, color(State::Ready));
    draw_rate(frame, done, "done/s", &app.rates.done, color(State::Running));
    draw_rate(frame, failed, "failed/s", &app.rates.failed, color(State::Dead));
    draw_tabs(frame, tabs, app);
    draw_list(frame, list, app);
    draw_foot(frame, foot, app);
    match app.mode {
        Mode::Help => draw_help(frame, list),
        Mode::Details { line } => draw_details(frame, list, app, line),
        Mode::Lists | Mode::Filter | Mode::Ask { .. } => {}
    }
    if app.is_plain {
        // Emphasis stays; colours go.
        for cell in &mut frame.buffer_mut().content {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
        }
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let now = app.look.as_ref().map_or(String::new(), |look| clock(look.at));
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(now.len() as u16)]).areas(area);
    let title = Line::from(vec![" windlass top ".reversed().bold(), "  ".into(), text(&app.store).into()]);
    frame.render_widget(title, left);
    frame.render_widget(Span::from(now), right);
}

/// The time of day, UTC.
fn clock(at: Timestamp) -> String {
    let whole = at.to_string();
    let time = whole.split_once('T').map(|(_, time)| time.chars().take(8).collect::<String>());
    time.map_or(whole, |time| time + "Z")
}

fn draw_counts(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let Some(look) = &app.look else {
        return frame.render_widget(Span::from("looking …").dim(), area);
    };
    let mut spans = Vec::new();
    let order =
        [State::Ready, State::Running, State::Retry, State::Dead, State::Scheduled, State::Done, State::Cancelled];
    for state in order {
        let count = look.counts.of(state);
        let style = if count == 0 { Style::new().dim() } else { Style::new().fg(color(state)) };
        spans.push(Span::styled(format!("{state} "), style));
        spans.push(Span::styled(format!("{}  ", output::grouped(count)), style.bold()));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_rate(frame: &mut Frame<'_>, area: Rect, name: &str, rates: &VecDeque<u64>, color: Color) {
    let [label, graph] = Layout::horizontal([Constraint::Length(RATE_WIDTH), Constraint::Fill(1)]).areas(area);
    let last = rates.back().map_or("–".to_owned(), |rate| output::grouped(*rate));
    let label_width = usize::from(RATE_WIDTH).saturating_sub(name.len() + 1);
    let line = Line::from(vec![name.to_owned().into(), format!("{last:>label_width$} ").bold()]);
    frame.render_widget(line, label);
    // The latest at the right, whatever the width.
    let width = usize::from(graph.width);
    let missing = std::iter::repeat_n(0, width.saturating_sub(rates.len()));
    let latest = rates.iter().copied().skip(rates.len().saturating_sub(width));
    frame.render_widget(Sparkline::default().data(missing.chain(latest)).style(color), graph);
}

fn draw_tabs(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let mut spans = Vec::new();
    for (index, view) in View::ALL.into_iter().enumerate() {
        let title = format!(" {} {} ", index + 1, view.title());
        spans.push(if view == app.view { title.reversed().bold() } else { title.dim() });
    }
    if app.page() > 1 || app.look.as_ref().is_some_and(|look| look.next.is_some()) {
        spans.push(format!("  page {}", app.page()).into());
    }
    if !app.filter.is_empty() && app.mode != Mode::Filter {
        spans.push(format!("  filter: {}", text(&app.filter)).yellow());
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let rows = app.rows();
    let Some(look) = app.look.as_ref().filter(|_| !rows.is_empty()) else {
        return frame.render_widget(Line::from(nothing(app)).dim().centered(), area);
    };
    let (header, widths) = columns(app.view, area.width);
    let title = |title: &&str| {
        let line = Line::from(title.to_uppercase());
        if NUMBERS.contains(title) { line.right_aligned() } else { line }
    };
    let lines = rows.iter().map(|row| TableRow::new(cells(row, look.at, area.width)));
    let table = Table::new(lines, widths)
        .header(TableRow::new(header.iter().map(title)).style(Modifier::DIM))
        .row_highlight_style(Modifier::REVERSED);
    let mut state = TableState::new().with_selected(app.index());
    frame.render_stateful_widget(table, area, &mut state);
}

fn nothing(app: &App) -> String {
    if app.look.is_none() {
        return String::new();
    }
    let what = match app.view {
        View::Queues => "no queue holds a job",
        View::Busy => "nothing is running",
        View::Scheduled => "nothing is scheduled",
        View::Retries => "nothing waits for a retry",
        View::Dead => "no job is dead",
        View::Processes => "no process works on this store",
    };
    if app.filter.is_empty() { what.to_owned() } else { format!("nothing here matches {:?}", text(&app.filter)) }
}

fn columns(view: View, width: u16) -> (&'static [&'static str], Vec<Constraint>) {
    let id = Constraint::Length(if width < WIDE { ID_END_LEN as u16 + 1 } else { 24 });
    let name = Constraint::Fill(2);
    let [short, number, word] = [8, 10, 9].map(Constraint::Length);
    match view {
        View::Queues => {
            (&["queue", "ready", "running", "waiting", "latency", ""], vec![name, number, number, number, number, word])
        }
        View::Busy => {
            (&["job", "kind", "queue", "attempt", "for", "process"], vec![id, name, name, short, short, name])
        }
        View::Scheduled => {
            (&["job", "kind", "queue", "due", "arguments"], vec![id, name, name, word, Constraint::Fill(3)])
        }
        View::Retries => (
            &["job", "kind", "queue", "attempt", "due", "error"],
            vec![id, name, name, short, word, Constraint::Fill(4)],
        ),
        View::Dead => (
            &["job", "kind", "queue", "attempt", "died", "why"],
            vec![id, name, name, short, number, Constraint::Fill(4)],
        ),
        View::Processes => (
            &["process", "queues", "busy", "memory", "joined", "beat", ""],
            vec![Constraint::Fill(3), name, word, number, number, number, Constraint::Length(5)],
        ),
    }
}

fn cells(row: &Row<'_>, now: Timestamp, width: u16) -> Vec<Cell<'static>> {
    let id = |id: windlass::JobId| Cell::from(if width < WIDE { short_id(id) } else { id.to_string() });
    match row {
        Row::Queue(queue) => vec![
            text(&queue.name).into(),
            count(queue.ready, State::Ready),
            count(queue.running, State::Running),
            count(queue.waiting, State::Scheduled),
            Line::from(time::span(std::time::Duration::from_millis(queue.latency_ms))).right_aligned().into(),
            if queue.paused { Cell::from("paused").style(Color::Yellow) } else { "".into() },
        ],
        Row::Busy(process, job) => vec![
            id(job.id),
            text(&job.kind).into(),
            text(&job.queue).into(),
            job.attempt.to_string().into(),
            time::span(now.since(job.leased_at)).into(),
            text(process.info.id.as_str()).into(),
        ],
        Row::Job(job) => job_cells(job, id(job.id), now),
        Row::Process(process) => process_cells(process, now),
    }
}

fn job_cells(job: &JobRecord, id: Cell<'static>, now: Timestamp) -> Vec<Cell<'static>> {
    let mut cells = vec![id, text(&job.kind).into(), text(&job.queue).into()];
    let tried = || Cell::from(job.attempt.to_string());
    let error = || job.error.as_ref().map(|error| format!("{}: {}", error.class, error.message));
    match job.state {
        State::Scheduled => cells.extend([time::relative(job.run_at, now).into(), text(&job.payload.to_text()).into()]),
        State::Dead => {
            let died = time::relative(job.finished_at.unwrap_or(job.run_at), now);
            let why = error().or_else(|| job.reason.clone()).unwrap_or_default();
            cells.extend([tried(), died.into(), text(&why).into()]);
        }
        _ => cells.extend([tried(), time::relative(job.run_at, now).into(), text(&error().unwrap_or_default()).into()]),
    }
    cells
}

fn process_cells(process: &ProcessInfo, now: Timestamp) -> Vec<Cell<'static>> {
    let word = processes::word_for(process, now);
    let style = if word == "lost" { Style::new().red() } else { Style::new().yellow() };
    vec![
        text(process.info.id.as_str()).into(),
        text(&process.info.queues.join(" ")).into(),
        format!("{}/{}", process.running, process.info.concurrency).into(),
        output::bytes(process.vitals.rss_bytes).into(),
        time::relative(process.joined_at, now).into(),
        time::relative(process.beat_at, now).into(),
        Cell::from(word).style(style),
    ]
}

fn count(count: u64, state: State) -> Cell<'static> {
    let style = if count == 0 { Style::new().dim() } else { Style::new().fg(color(state)) };
    Cell::from(Line::from(output::grouped(count)).right_aligned()).style(style)
}

fn short_id(id: windlass::JobId) -> String {
    let id = id.to_string();
    format!("…{}", &id[id.len() - ID_END_LEN..])
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let line = match (&app.mode, &app.news, &app.trouble) {
        (Mode::Ask { question, .. }, ..) => Line::from(format!("{}  y / N ", text(question))).red().bold(),
        (Mode::Filter, ..) => Line::from(vec!["filter: ".bold(), text(&app.filter).into(), "▏".into()]),
        (_, Some(News::Bad(news)), _) => Line::from(text(news)).red(),
        (_, Some(News::Good(news)), _) => Line::from(text(news)).green(),
        (_, None, Some(trouble)) => Line::from(text(trouble)).red(),
        (_, None, None) => keys_of(app),
    };
    frame.render_widget(line, area);
}

fn keys_of(app: &App) -> Line<'static> {
    let key = |key: String, does: &str| [Span::from(key).bold(), Span::from(format!(" {does}   "))];
    let mut spans = Vec::new();
    if let Mode::Details { .. } = app.mode {
        spans.extend(key("↑ ↓".to_owned(), "scroll"));
        spans.extend(key("Esc".to_owned(), "back"));
        return Line::from(spans);
    }
    for it in KEYS.iter().filter(|it| it.views.contains(&app.view)) {
        spans.extend(key(it.key.to_string(), it.does));
    }
    if !matches!(app.view, View::Queues | View::Processes) {
        spans.extend(key("Enter".to_owned(), "details"));
    }
    for (name, does) in [("/", "filter"), ("?", "help"), ("q", "quit")] {
        spans.extend(key(name.to_owned(), does));
    }
    Line::from(spans)
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let mut lines: Vec<String> = Vec::new();
    for key in KEYS {
        let views: Vec<&str> = key.views.iter().map(|view| view.title()).collect();
        lines.push(format!("{:<12}{:<20}{}", key.key, key.does, views.join(", ")));
    }
    let general = [
        ("1 … 6, Tab", "another list"),
        ("↑ ↓ j k", "another row; PgUp PgDn Home End go further"),
        ("[ ]", "the page before, the next page"),
        ("Enter", "everything known of a job"),
        ("/", "show only what holds a text, letter by letter; Esc shows all"),
        ("Ctrl-L", "draw anew"),
        ("Ctrl-Z", "back to the shell for a while"),
        ("q Ctrl-C", "quit"),
    ];
    lines.extend(general.map(|(key, does)| format!("{key:<12}{does}")));
    let height = lines.len() as u16 + 2;
    let area = area.centered(Constraint::Length(72), Constraint::Length(height));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" keys ");
    frame.render_widget(Paragraph::new(lines.join("\n")).block(block), area);
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, app: &App, line: usize) {
    let Some(look) = &app.look else { return };
    let block = Block::bordered().title(" job ");
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    let Some(job) = &look.job else {
        app.details_end.set(0);
        let message = if look.interest.job.is_some() { "the job is no longer in the store" } else { "looking …" };
        return frame.render_widget(Line::from(message).dim(), inner);
    };
    let lines = detail_lines(job, look.at, inner.width);
    let last = lines.len().saturating_sub(usize::from(inner.height));
    app.details_end.set(last);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(line.min(last)).take(usize::from(inner.height)).collect();
    frame.render_widget(Text::from(shown), inner);
}

/// A line for each field; more where the value has more lines, or is wider than the screen.
fn detail_lines(job: &JobRecord, now: Timestamp, width: u16) -> Vec<Line<'static>> {
    const NAME_WIDTH: usize = 14;
    let room = usize::from(width).saturating_sub(NAME_WIDTH).max(1);
    let mut lines = Vec::new();
    for (name, value) in jobs::fields(job, now) {
        let value = output::shortened(&value, DETAIL_LEN_MAX);
        let pieces = value.lines().flat_map(|line| folded(&output::printable(line), room));
        let style = if name == "state" { Style::new().fg(color(job.state)).bold() } else { Style::new() };
        for (index, piece) in pieces.enumerate() {
            let name = if index == 0 { name } else { "" };
            lines.push(Line::from(vec![format!("{name:<NAME_WIDTH$}").dim(), Span::styled(piece, style)]));
        }
    }
    lines
}

/// The text in pieces that are no wider than `room`.
fn folded(text: &str, room: usize) -> Vec<String> {
    let (mut pieces, mut piece, mut width) = (Vec::new(), String::new(), 0);
    for c in text.chars() {
        let c_width = Span::from(c.to_string()).width();
        if width + c_width > room {
            pieces.push(std::mem::take(&mut piece));
            width = 0;
        }
        piece.push(c);
        width += c_width;
    }
    pieces.push(piece);
    pieces
}
