//! Runs subjects by turns and keeps what they took.
//!
//! A [`Panel`] is one question put to several subjects. Every subject is run once to warm up, then they take turns
//! (A B C A B C …) several times, so that a change of the machine's mood meets all of them. A subject times the part
//! that counts with its [`Clock`]; what it sets up before is not measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::host::Noise;

/// How much time a run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// For figures: some minutes.
    Full,
    /// To see that everything runs: under a minute. The largest sizes are left out, and medians mean little.
    Quick,
}

impl Effort {
    /// Turns of every subject in a panel.
    pub fn turns(self) -> usize {
        match self {
            Effort::Full => 7,
            Effort::Quick => 3,
        }
    }

    /// Samples or operations: all of them, or a fifth.
    pub fn share(self, count: usize) -> usize {
        match self {
            Effort::Full => count,
            Effort::Quick => count.div_ceil(5),
        }
    }
}

/// A run: the tables so far.
pub struct Suite {
    pub effort: Effort,
    pub tables: Vec<Table>,
}

impl Suite {
    /// Measures, and keeps the table.
    pub fn measure(&mut self, panel: Panel) {
        self.tables.push(panel.run(self.effort.turns()));
    }

    /// Measures in so many turns: of something that is the same each time.
    pub fn measure_times(&mut self, panel: Panel, turns: usize) {
        self.tables.push(panel.run(turns));
    }

    /// Measures rounds of a single sample or few, so many in a full run, and who was first in one is last in the next.
    pub fn measure_rounds(&mut self, panel: Panel, rounds: usize) {
        let panel = Panel { takes_turns: true, ..panel };
        self.tables.push(panel.run(self.effort.share(rounds)));
    }
}

/// Between the turns, for the threads of the one before to fall asleep.
const SETTLE: Duration = Duration::from_millis(2);

/// What a subject is in its panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// No pool at all.
    Floor,
    /// What the pool is compared with.
    Peer,
    /// The pool itself.
    Windlass,
}

/// What the figures are given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    /// No time at all: how often something happened.
    Times,
    /// No time either.
    Bytes,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "µs",
            Unit::Milliseconds => "ms",
            Unit::Times => "times",
            Unit::Bytes => "bytes",
        }
    }

    fn of(self, time: Duration) -> f64 {
        let seconds = time.as_secs_f64();
        match self {
            Unit::Nanoseconds => seconds * 1e9,
            Unit::Microseconds => seconds * 1e6,
            Unit::Milliseconds => seconds * 1e3,
            // `Clock::count` keeps a count as so many seconds.
            Unit::Times | Unit::Bytes => seconds,
        }
    }
}

/// Which figure stands for the slow end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    Max,
    /// The 99th percentile, where there are hundreds of samples.
    P99,
}

impl Tail {
    pub fn name(self) -> &'static str {
        match self {
            Tail::Max => "max",
            Tail::P99 => "p99",
        }
    }

    /// The figure among sorted samples.
    fn of(self, sorted: &[f64]) -> f64 {
        match self {
            Tail::Max => sorted[sorted.len() - 1],
            Tail::P99 => sorted[sorted.len() * 99 / 100],
        }
    }
}

/// Collects the samples of one subject.
#[derive(Debug, Default)]
pub struct Clock {
    walls: Vec<Duration>,
    /// Processor time of a call: of each of them, or the mean of many in a row.
    cpus: Vec<Duration>,
}

impl Clock {
    /// Times one call.
    pub fn time<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let (cpu, since) = (cpu_time(), Instant::now());
        let value = f();
        self.record(since.elapsed(), cpu_time() - cpu);
        value
    }

    /// Times each of `count` calls, `pause` before each of them, after one that is not timed. Processor time is the mean
    /// of the whole, falling asleep included.
    pub fn time_each(&mut self, count: u32, pause: Duration, mut f: impl FnMut()) {
        f();
        let cpu = cpu_time();
        for _ in 0..count {
            if !pause.is_zero() {
                sleep(pause);
            }
            let since = Instant::now();
            f();
            self.walls.push(since.elapsed());
        }
        self.cpus.push((cpu_time() - cpu) / count);
    }

    /// Times `count` calls as a whole, and keeps the mean of one.
    pub fn time_mean(&mut self, count: u32, mut f: impl FnMut()) {
        self.time_as_mean(count, || (0..count).for_each(|_| f()));
    }

    /// Times one call that does something `count` times, and keeps the mean of one time.
    pub fn time_as_mean(&mut self, count: u32, f: impl FnOnce()) {
        let (cpu, since) = (cpu_time(), Instant::now());
        f();
        self.record(since.elapsed() / count, (cpu_time() - cpu) / count);
    }

    /// Keeps how often something happened, or how much there is, for a panel in a unit that is not of time.
    pub fn count(&mut self, times: f64) {
        self.record(Duration::from_secs_f64(times), Duration::ZERO);
    }

    /// Keeps a sample that was taken by other means.
    pub fn record(&mut self, wall: Duration, cpu: Duration) {
        self.walls.push(wall);
        self.cpus.push(cpu);
    }
}

/// Processor time of all threads of this process so far, those that have ended included.
pub fn cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// Processor time that processes of the run have told, in nanoseconds: they are not others.
static CHILDREN: AtomicU64 = AtomicU64::new(0);

/// A process that a subject consists of has taken so much processor time.
pub fn tell_child_time(time: Duration) {
    CHILDREN.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Processor time of the processes that subjects consist of, as far as they have told it.
pub fn child_time() -> Duration {
    Duration::from_nanos(CHILDREN.load(Ordering::Relaxed))
}

/// Processor time of the calling thread so far.
pub fn thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().expect("processor time is not negative")
}

/// Something that is measured: what it takes a turn with, owning its pool.
pub struct Subject {
    name: String,
    role: Role,
    turn: Box<dyn FnMut(&mut Clock)>,
}

/// A further column, computed from the rows when all of them are there.
#[derive(Clone, Copy)]
pub struct Extra {
    pub label: &'static str,
    pub of: fn(row: &Row, rows: &[Row]) -> Option<f64>,
}

/// One question to several subjects.
pub struct Panel {
    workload: &'static str,
    title: String,
    unit: Unit,
    /// Operations in one timed call: figures are for one of them.
    ops: f64,
    tail: Tail,
    extra: Option<Extra>,
    /// The rows say how their samples are spread.
    has_spread: bool,
    /// Every other turn is taken from the last to the first.
    takes_turns: bool,
    note: Option<String>,
    /// From a subject's name to what it is ranked among.
    class: fn(&str) -> &str,
    subjects: Vec<Subject>,
}

impl Panel {
    pub fn new(workload: &'static str, title: impl Into<String>, unit: Unit) -> Panel {
        let title = title.into();
        Panel {
            workload,
            title,
            unit,
            ops: 1.0,
            tail: Tail::Max,
            extra: None,
            has_spread: false,
            takes_turns: false,
            note: None,
            class: |_| "",
            subjects: Vec::new(),
        }
    }

    /// Divides the figures by the number of operations in a timed call.
    pub fn per(mut self, ops: u64) -> Panel {
        self.ops = ops as f64;
        self
    }

    /// Gives the 99th percentile in the place of the maximum.
    pub fn p99(mut self) -> Panel {
        self.tail = Tail::P99;
        self
    }

    /// Has each row say how its samples are spread.
    pub fn with_spread(self) -> Panel {
        Panel { has_spread: true, ..self.p99() }
    }

    /// Says something below the table: what others were found to take that are not part of the run.
    pub fn note(mut self, words: impl Into<String>) -> Panel {
        self.note = Some(words.into());
        self
    }

    pub fn extra(mut self, extra: Extra) -> Panel {
        self.extra = Some(extra);
        self
    }

    /// Compares each subject only with the peers of its class.
    pub fn ranked_by(mut self, class: fn(&str) -> &str) -> Panel {
        self.class = class;
        self
    }

    pub fn floor(&mut self, name: impl Into<String>, turn: impl FnMut(&mut Clock) + 'static) {
        self.add(Role::Floor, name, turn);
    }

    pub fn peer(&mut self, name: impl Into<String>, turn: impl FnMut(&mut Clock) + 'static) {
        self.add(Role::Peer, name, turn);
    }

    pub fn windlass(&mut self, name: impl Into<String>, turn: impl FnMut(&mut Clock) + 'static) {
        self.add(Role::Windlass, name, turn);
    }

    pub fn add(&mut self, role: Role, name: impl Into<String>, turn: impl FnMut(&mut Clock) + 'static) {
        self.subjects.push(Subject { name: name.into(), role, turn: Box::new(turn) });
    }

    /// Measures, and makes the table. The pools end with the panel.
    fn run(mut self, turns: usize) -> Table {
        let noise = Noise::start();
        let mut clocks: Vec<Clock> = self.subjects.iter().map(|_| Clock::default()).collect();
        for subject in &mut self.subjects {
            (subject.turn)(&mut Clock::default());
        }
        let last = self.subjects.len() - 1;
        for turn in 0..turns {
            for place in 0..=last {
                let place = if self.takes_turns && turn % 2 == 1 { last - place } else { place };
                sleep(SETTLE);
                (self.subjects[place].turn)(&mut clocks[place]);
            }
        }
        let rows = self.subjects.iter().zip(clocks).map(|(subject, clock)| self.row(subject, clock)).collect();
        self.table(rows, noise.percent())
    }

    fn row(&self, subject: &Subject, clock: Clock) -> Row {
        let (walls, cpus) = (self.figures(&clock.walls), self.figures(&clock.cpus));
        Row {
            name: subject.name.clone(),
            role: subject.role,
            samples: walls.len(),
            min: walls[0],
            median: median(&walls),
            tail: self.tail.of(&walls),
            cpu: median(&cpus),
            ratio: None,
            extra: None,
            spread: self.has_spread.then(|| Spread::of(&walls)),
        }
    }

    /// For one operation, sorted.
    fn figures(&self, times: &[Duration]) -> Vec<f64> {
        let mut figures: Vec<f64> = times.iter().map(|time| self.unit.of(*time) / self.ops).collect();
        figures.sort_by(f64::total_cmp);
        figures
    }

    fn table(&self, mut rows: Vec<Row>, others_percent: f64) -> Table {
        let ratios: Vec<Option<f64>> = rows.iter().map(|row| self.ratio(row, &rows)).collect();
        let extra = |row| self.extra.and_then(|extra| (extra.of)(row, &rows));
        let extras: Vec<Option<f64>> = rows.iter().map(extra).collect();
        for (row, (ratio, extra)) in rows.iter_mut().zip(ratios.into_iter().zip(extras)) {
            row.ratio = ratio;
            row.extra = extra;
        }
        Table {
            workload: self.workload,
            title: self.title.clone(),
            unit: self.unit.name(),
            tail: self.tail.name(),
            extra: self.extra.map(|extra| extra.label),
            others_percent,
            note: self.note.clone(),
            rows,
        }
    }

    /// The median in those of the fastest peer of the row's class; the mean, where the rows have one.
    fn ratio(&self, row: &Row, rows: &[Row]) -> Option<f64> {
        let is_rival = |other: &&Row| other.role == Role::Peer && (self.class)(&other.name) == (self.class)(&row.name);
        let fastest = rows.iter().filter(is_rival).map(Row::figure).min_by(f64::total_cmp);
        fastest.filter(|fastest| *fastest > 0.0).map(|fastest| row.figure() / fastest)
    }
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// What came out of a panel.
#[derive(Debug, Serialize)]
pub struct Table {
    pub workload: &'static str,
    pub title: String,
    pub unit: &'static str,
    /// Which figure the rows give as `tail`.
    pub tail: &'static str,
    /// What the rows give as `extra`.
    pub extra: Option<&'static str>,
    /// What other processes took of the machine meanwhile: beyond a few percent, measure again.
    pub others_percent: f64,
    pub note: Option<String>,
    pub rows: Vec<Row>,
}

/// The figures of one subject, for one operation.
#[derive(Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub role: Role,
    pub samples: usize,
    pub min: f64,
    pub median: f64,
    pub tail: f64,
    /// Processor time of all threads, the median.
    pub cpu: f64,
    /// The median, in those of the fastest peer.
    pub ratio: Option<f64>,
    pub extra: Option<f64>,
    /// How the samples are spread, where that is the question.
    pub spread: Option<Spread>,
}

impl Row {
    /// What it is compared by.
    fn figure(&self) -> f64 {
        self.spread.as_ref().map_or(self.median, |spread| spread.mean)
    }
}

/// The upper ends of a histogram's bins; there is one more bin beyond the last.
pub const BINS: [f64; 19] = [
    0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 11.0, 16.0, 23.0, 32.0, 45.0, 64.0, 91.0, 128.0, 181.0, 256.0, 362.0, 512.0, 1_024.0,
];

/// How samples are spread.
#[derive(Debug, Serialize)]
pub struct Spread {
    pub mean: f64,
    pub p80: f64,
    pub max: f64,
    /// Samples in each of the bins.
    pub bins: Vec<usize>,
}

impl Spread {
    fn of(sorted: &[f64]) -> Spread {
        let mut bins = vec![0; BINS.len() + 1];
        for value in sorted {
            bins[BINS.partition_point(|end| end <= value)] += 1;
        }
        Spread {
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p80: sorted[sorted.len() * 80 / 100],
            max: sorted[sorted.len() - 1],
            bins,
        }
    }
}
