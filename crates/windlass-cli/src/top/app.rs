//! What the screen shows and what each key does, without a terminal: messages in, wishes out.

use std::collections::VecDeque;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use windlass::job::JobRecord;
use windlass::state::State;
use windlass::store::{Cursor, MemberId, ProcessInfo, QueueInfo, RunningJob, SEARCH_LEN_MAX, Totals};
use windlass::{JobId, Timestamp};

use super::look::{Interest, Look, Order, Wish};
use crate::output;

/// Rates that are remembered: more than a wide screen shows.
const RATES_LEN: usize = 300;
/// Rows that a page key goes.
const LEAP: usize = 10;

/// The lists, in the order of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum View {
    Queues,
    Busy,
    Scheduled,
    Retries,
    Dead,
    Processes,
}

impl View {
    pub(super) const ALL: [View; 6] =
        [View::Queues, View::Busy, View::Scheduled, View::Retries, View::Dead, View::Processes];

    pub(super) fn title(self) -> &'static str {
        match self {
            View::Queues => "Queues",
            View::Busy => "Busy",
            View::Scheduled => "Scheduled",
            View::Retries => "Retries",
            View::Dead => "Dead",
            View::Processes => "Processes",
        }
    }

    /// The state whose jobs are listed, where the list is not part of every look.
    fn state(self) -> Option<State> {
        match self {
            View::Scheduled => Some(State::Scheduled),
            View::Retries => Some(State::Retry),
            View::Dead => Some(State::Dead),
            View::Queues | View::Busy | View::Processes => None,
        }
    }
}

/// What a key does in some of the lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) key: char,
    pub(super) does: &'static str,
    pub(super) views: &'static [View],
    order: fn(&Subject) -> Option<Order>,
    /// Whether somebody is asked first.
    asks: bool,
}

const WAITING: &[View] = &[View::Scheduled, View::Retries];
const ENDED: &[View] = &[View::Scheduled, View::Retries, View::Dead];

const PROCESSES: &[View] = &[View::Processes];

/// Every key that changes something.
pub(super) const KEYS: &[Key] = &[
    Key { key: 'p', does: "pause or resume", views: &[View::Queues], order: pause_or_resume, asks: false },
    Key { key: 'd', does: "delete ready jobs", views: &[View::Queues], order: clear, asks: true },
    Key { key: 'c', does: "cancel", views: &[View::Busy], order: |it| it.job().map(Order::Cancel), asks: true },
    Key { key: 'r', does: "run now", views: ENDED, order: |it| it.job().map(Order::Requeue), asks: false },
    Key { key: 'x', does: "kill", views: WAITING, order: |it| it.job().map(Order::Kill), asks: true },
    Key { key: 'd', does: "delete", views: ENDED, order: |it| it.job().map(Order::Delete), asks: true },
    Key { key: 'u', does: "quiet", views: PROCESSES, order: |it| it.process().map(Order::Quiet), asks: true },
    Key { key: 's', does: "stop", views: PROCESSES, order: |it| it.process().map(Order::Stop), asks: true },
];

fn pause_or_resume(subject: &Subject) -> Option<Order> {
    match subject {
        Subject::Queue { name, is_paused: true } => Some(Order::Resume(name.clone())),
        Subject::Queue { name, is_paused: false } => Some(Order::Pause(name.clone())),
        _ => None,
    }
}

fn clear(subject: &Subject) -> Option<Order> {
    match subject {
        Subject::Queue { name, .. } => Some(Order::Clear(name.clone())),
        _ => None,
    }
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Queue { name: String, is_paused: bool },
    Job(JobId),
    Process(MemberId),
}

impl Subject {
    fn job(&self) -> Option<JobId> {
        if let Subject::Job(id) = self { Some(*id) } else { None }
    }

    fn process(&self) -> Option<MemberId> {
        if let Subject::Process(id) = self { Some(id.clone()) } else { None }
    }

    /// Whether both are about the same thing, whatever has become of it.
    fn is_same(&self, other: &Subject) -> bool {
        match (self, other) {
            (Subject::Queue { name: one, .. }, Subject::Queue { name: two, .. }) => one == two,
            _ => self == other,
        }
    }
}

/// A row of the present list.
#[derive(Debug)]
pub(super) enum Row<'a> {
    Queue(&'a QueueInfo),
    Busy(&'a ProcessInfo, &'a RunningJob),
    Job(&'a JobRecord),
    Process(&'a ProcessInfo),
}

impl Row<'_> {
    pub(super) fn subject(&self) -> Subject {
        match self {
            Row::Queue(queue) => Subject::Queue { name: queue.name.clone(), is_paused: queue.paused },
            Row::Busy(_, job) => Subject::Job(job.id),
            Row::Job(job) => Subject::Job(job.id),
            Row::Process(process) => Subject::Process(process.info.id.clone()),
        }
    }

    /// Whether `text` is somewhere in what identifies it. The store has searched the jobs of a list already.
    fn holds(&self, text: &str) -> bool {
        let holds = |field: &str| field.contains(text);
        match self {
            Row::Queue(queue) => holds(&queue.name),
            Row::Busy(process, job) => {
                holds(&job.id.to_string()) || holds(&job.kind) || holds(&job.queue) || holds(process.info.id.as_str())
            }
            Row::Process(process) => {
                holds(process.info.id.as_str()) || process.info.queues.iter().any(|queue| holds(queue))
            }
            Row::Job(_) => true,
        }
    }
}

/// What the keys mean now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    Lists,
    /// The filter is being typed.
    Filter,
    /// A question waits for `y`.
    Ask {
        question: String,
        order: Order,
    },
    Help,
    /// One job, from this line on.
    Details {
        line: usize,
    },
}

/// A line of news at the foot of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    Good(String),
    Bad(String),
}

/// How often something happened, a second, at each look.
#[derive(Debug, Default)]
pub(super) struct Rates {
    last: Option<(Timestamp, Totals)>,
    pub(super) enqueued: VecDeque<u64>,
    pub(super) done: VecDeque<u64>,
    pub(super) failed: VecDeque<u64>,
}

impl Rates {
    fn note(&mut self, at: Timestamp, totals: Totals) {
        if let Some((then, last)) = self.last {
            let ms = at.since(then).as_millis() as u64;
            if ms == 0 {
                return;
            }
            let rate = |now: u64, then: u64| (now.saturating_sub(then) * 1_000 + ms / 2) / ms;
            push(&mut self.enqueued, rate(totals.enqueued, last.enqueued));
            push(&mut self.done, rate(totals.done, last.done));
            push(&mut self.failed, rate(totals.failed, last.failed));
        }
        self.last = Some((at, totals));
    }
}

fn push(rates: &mut VecDeque<u64>, rate: u64) {
    if rates.len() == RATES_LEN {
        rates.pop_front();
    }
    rates.push_back(rate);
}

/// What a message leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Go,
    Suspend,
    Redraw,
    End,
}

/// Everything the screen depends on.
#[derive(Debug)]
pub(super) struct App {
    /// Where the store is, without secrets.
    pub(super) store: String,
    pub(super) view: View,
    pub(super) mode: Mode,
    pub(super) filter: String,
    pub(super) news: Option<News>,
    /// Why the last look failed, if it did.
    pub(super) trouble: Option<String>,
    pub(super) look: Option<Look>,
    pub(super) rates: Rates,
    /// Whether to do without colours.
    pub(super) is_plain: bool,
    /// The last line of a job's details that may stand on top. Found when they are drawn, for it depends on the screen.
    pub(super) details_end: std::cell::Cell<usize>,
    /// The place in the list. What stands there is remembered, for rows come and go.
    index: usize,
    subject: Option<Subject>,
    /// Where this page and those before it begin.
    pages: Vec<Option<Cursor>>,
    wishes: Vec<Wish>,
}

impl App {
    pub(super) fn new(store: String, view: View) -> App {
        let mut app = App {
            store,
            view,
            mode: Mode::Lists,
            filter: String::new(),
            news: None,
            trouble: None,
            look: None,
            rates: Rates::default(),
            is_plain: false,
            details_end: std::cell::Cell::new(0),
            index: 0,
            subject: None,
            pages: vec![None],
            wishes: Vec::new(),
        };
        app.attend();
        app
    }

    /// What the store is to be asked, and told, by now.
    pub(super) fn take_wishes(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.wishes)
    }

    /// What is worth reading now.
    pub(super) fn interest(&self) -> Interest {
        let is_open = matches!(self.mode, Mode::Details { .. });
        let job = self.subject.as_ref().and_then(Subject::job).filter(|_| is_open);
        let state = self.view.state();
        let search = if state.is_some() { self.filter.clone() } else { String::new() };
        Interest { state, search, after: self.pages.last().copied().flatten(), job }
    }

    fn attend(&mut self) {
        self.wishes.push(Wish::Attend(self.interest()));
    }

    /// The page that is shown, from 1.
    pub(super) fn page(&self) -> usize {
        self.pages.len()
    }

    /// The place in the list.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// What is in the present list, the filter applied.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let Some(look) = &self.look else { return Vec::new() };
        let mut rows: Vec<Row<'_>> = match self.view {
            View::Queues => look.queues.iter().map(Row::Queue).collect(),
            View::Busy => busy(look),
            View::Processes => look.processes.iter().map(Row::Process).collect(),
            View::Scheduled | View::Retries | View::Dead if look.interest.state == self.view.state() => {
                look.jobs.iter().map(Row::Job).collect()
            }
            // The page of another list, read before the screen moved on.
            View::Scheduled | View::Retries | View::Dead => Vec::new(),
        };
        rows.retain(|row| row.holds(&self.filter));
        rows
    }

    /// The store was looked into.
    pub(super) fn looked(&mut self, looked: Result<Box<Look>, windlass::Error>) {
        match looked {
            Ok(look) => {
                self.rates.note(look.at, look.counts.totals);
                self.look = Some(*look);
                self.trouble = None;
                self.find_place();
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// An order was carried out, or could not be.
    pub(super) fn obeyed(&mut self, answer: Result<String, String>) {
        self.news = Some(match answer {
            Ok(text) => News::Good(text),
            Err(text) => News::Bad(text),
        });
    }

    /// A key was pressed.
    pub(super) fn pressed(&mut self, key: KeyEvent) -> Step {
        if key.kind == KeyEventKind::Release {
            return Step::Go;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Step::End,
                KeyCode::Char('z') => return Step::Suspend,
                KeyCode::Char('l') => return Step::Redraw,
                _ => return Step::Go,
            }
        }
        match self.mode.clone() {
            Mode::Lists => return self.pressed_in_lists(key.code),
            Mode::Filter => self.pressed_in_filter(key.code),
            Mode::Ask { order, .. } => self.pressed_at_question(key.code, order),
            Mode::Help => self.mode = Mode::Lists,
            Mode::Details { line } => self.pressed_in_details(key.code, line),
        }
        Step::Go
    }

    fn pressed_in_lists(&mut self, key: KeyCode) -> Step {
        self.news = None;
        let last = self.rows().len().saturating_sub(1);
        match key {
            KeyCode::Char('q') => return Step::End,
            KeyCode::Esc if self.filter.is_empty() => {}
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Up | KeyCode::Char('k') => self.go_to(self.index.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.go_to(self.index + 1),
            KeyCode::PageUp => self.go_to(self.index.saturating_sub(LEAP)),
            KeyCode::PageDown => self.go_to(self.index + LEAP),
            KeyCode::Home | KeyCode::Char('g') => self.go_to(0),
            KeyCode::End | KeyCode::Char('G') => self.go_to(last),
            KeyCode::Tab | KeyCode::Right => self.show(self.neighbour(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.neighbour(View::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='6') => self.show(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Char(']') => self.turn_page(),
            KeyCode::Char('[') => self.turn_back(),
            KeyCode::Enter if matches!(self.subject, Some(Subject::Job(_))) => {
                self.mode = Mode::Details { line: 0 };
                self.attend();
            }
            KeyCode::Char(letter) => self.order(letter),
            _ => {}
        }
        Step::Go
    }

    fn pressed_in_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = Mode::Lists,
            KeyCode::Esc => {
                self.mode = Mode::Lists;
                self.set_filter(String::new());
            }
            KeyCode::Backspace => {
                let mut filter = self.filter.clone();
                filter.pop();
                self.set_filter(filter);
            }
            KeyCode::Char(letter) => self.set_filter(format!("{}{letter}", self.filter)),
            _ => {}
        }
    }

    fn pressed_at_question(&mut self, key: KeyCode, order: Order) {
        self.mode = Mode::Lists;
        if matches!(key, KeyCode::Char('y' | 'Y')) {
            self.wishes.push(Wish::Do(order));
        } else {
            self.news = Some(News::Good("nothing was changed".to_owned()));
        }
    }

    fn pressed_in_details(&mut self, key: KeyCode, line: usize) {
        let line = match key {
            KeyCode::Up | KeyCode::Char('k') => line.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => line + 1,
            KeyCode::PageUp => line.saturating_sub(LEAP),
            KeyCode::PageDown => line + LEAP,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => {
                self.mode = Mode::Lists;
                return self.attend();
            }
            _ => line,
        };
        self.mode = Mode::Details { line: line.min(self.details_end.get()) };
    }

    /// The view so many places further, around the end.
    fn neighbour(&self, places: usize) -> View {
        View::ALL[(self.view as usize + places) % View::ALL.len()]
    }

    fn show(&mut self, view: View) {
        if view != self.view {
            self.view = view;
            (self.pages, self.subject, self.index) = (vec![None], None, 0);
            self.find_place();
            self.attend();
        }
    }

    fn set_filter(&mut self, filter: String) {
        if filter.len() <= SEARCH_LEN_MAX && filter != self.filter {
            self.filter = filter;
            self.pages = vec![None];
            self.find_place();
            self.attend();
        }
    }

    /// The next page of a list of jobs, if there is one.
    fn turn_page(&mut self) {
        let wanted = self.interest();
        let place = |interest: &Interest| (interest.state, interest.search.clone(), interest.after);
        // A page that was read before the screen moved on says nothing about this one.
        let look = self.look.as_ref().filter(|look| place(&look.interest) == place(&wanted));
        let next = look.and_then(|look| look.next);
        if self.view.state().is_some() && next.is_some() {
            self.pages.push(next);
            (self.subject, self.index) = (None, 0);
            self.attend();
        }
    }

    fn turn_back(&mut self) {
        if self.pages.len() > 1 {
            self.pages.pop();
            (self.subject, self.index) = (None, 0);
            self.attend();
        }
    }

    fn go_to(&mut self, index: usize) {
        let subjects: Vec<Subject> = self.rows().iter().map(Row::subject).collect();
        self.index = index.min(subjects.len().saturating_sub(1));
        self.subject = subjects.into_iter().nth(self.index);
    }

    /// Stays on what was chosen, wherever it stands now; or at the place, if it is gone.
    fn find_place(&mut self) {
        // What is open, or asked about, stays chosen although it may have left the list.
        if !matches!(self.mode, Mode::Lists | Mode::Filter | Mode::Help) {
            return;
        }
        let subjects: Vec<Subject> = self.rows().iter().map(Row::subject).collect();
        let chosen = self.subject.as_ref();
        let found = chosen.and_then(|chosen| subjects.iter().position(|subject| subject.is_same(chosen)));
        self.go_to(found.unwrap_or(self.index));
    }

    /// Does what the letter does in this list, or asks first.
    fn order(&mut self, letter: char) {
        let Some(key) = KEYS.iter().find(|key| key.key == letter && key.views.contains(&self.view)) else { return };
        let Some(order) = self.subject.as_ref().and_then(key.order) else { return };
        if key.asks {
            let question = self.question(&order);
            self.mode = Mode::Ask { question, order };
        } else {
            self.wishes.push(Wish::Do(order));
        }
    }

    fn question(&self, order: &Order) -> String {
        let job = |what: &str, id: &JobId| {
            let rows = self.rows();
            let kind = rows.iter().find(|row| row.subject() == Subject::Job(*id)).map(|row| match row {
                Row::Job(job) => job.kind.as_str(),
                Row::Busy(_, job) => job.kind.as_str(),
                Row::Queue(_) | Row::Process(_) => "",
            });
            format!("{what} job {id} ({})?", kind.unwrap_or_default())
        };
        match order {
            Order::Clear(queue) => {
                let queues = self.look.iter().flat_map(|look| &look.queues);
                let ready = queues.filter(|info| info.name == *queue).map(|info| info.ready).sum();
                format!("Delete the {} ready jobs of queue {queue}?", output::grouped(ready))
            }
            Order::Cancel(id) => job("Cancel", id),
            Order::Kill(id) => job("Kill", id),
            Order::Delete(id) => job("Delete", id),
            Order::Requeue(id) => job("Run now", id),
            Order::Quiet(process) => format!("Have process {process} lease no more jobs?"),
            Order::Stop(process) => format!("Stop process {process}?"),
            Order::Pause(queue) => format!("Pause queue {queue}?"),
            Order::Resume(queue) => format!("Resume queue {queue}?"),
        }
    }
}

/// What runs, the longest-running first.
fn busy(look: &Look) -> Vec<Row<'_>> {
    let runs = look.processes.iter().flat_map(|process| process.jobs.iter().map(move |job| (process, job)));
    let mut runs: Vec<_> = runs.collect();
    runs.sort_by_key(|(_, job)| (job.leased_at, job.id));
    runs.into_iter().map(|(process, job)| Row::Busy(process, job)).collect()
}
