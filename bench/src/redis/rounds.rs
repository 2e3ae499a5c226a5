//! The turns, and the tables that come of them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OpenFlags};
use windlass_testbed::RedisServer;

use super::competitors::{Competitor, Trace, Turn};
use super::peer::{Order, Sample};
use crate::report::grouped;
use crate::suite::host::{Noise, children_time};
use crate::suite::measure::{Effort, Role, Row, Suite, Table};

/// Where the jobs are kept.
pub enum Place {
    Redis(RedisServer),
    /// A new file for each turn, in this folder.
    Sqlite(tempfile::TempDir),
}

impl Place {
    pub fn redis() -> Place {
        let server = RedisServer::start().expect("the redis-server that everybody works off");
        println!("redis-server {}", server.info_text("redis_version").ok().flatten().unwrap_or_default());
        Place::Redis(server)
    }

    pub fn sqlite() -> Place {
        // In the present folder: a disk, not memory, where that is one.
        Place::Sqlite(tempfile::tempdir_in(".").expect("a folder for the files"))
    }

    /// Empties the store, and answers where it is.
    fn clear(&self, turn: usize) -> Result<String> {
        match self {
            Place::Redis(server) => {
                server.cli(&["FLUSHALL"])?;
                Ok(server.url())
            }
            Place::Sqlite(folder) => Ok(format!("sqlite:{}", folder.path().join(format!("jobs-{turn}.db")).display())),
        }
    }

    /// Processor time of the server so far, in seconds.
    pub fn server_cpu(&self) -> Result<f64> {
        let Place::Redis(server) = self else { return Ok(0.0) };
        let field = |name| Ok::<f64, anyhow::Error>(server.info(name)?.unwrap_or_default());
        Ok(field("used_cpu_user")? + field("used_cpu_sys")?)
    }

    /// Whether the store has every outcome, as far as the traces tell.
    pub fn has(&self, traces: &[Trace], order: Order<'_>) -> Result<bool> {
        for trace in traces {
            let wanted = if trace.is_all { order.count } else { 0 };
            if self.count(trace.count, order)? != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn count(&self, words: &[&str], order: Order<'_>) -> Result<u64> {
        let count = match self {
            Place::Redis(server) => server.cli(words)?.integer().and_then(|count| u64::try_from(count).ok()),
            Place::Sqlite(_) => {
                let path = order.url.trim_start_matches("sqlite:");
                let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                file.busy_timeout(BUSY_LIMIT)?;
                u64::try_from(file.query_row(words[0], [], |row| row.get::<_, i64>(0))?).ok()
            }
        };
        count.with_context(|| format!("`{}` answered no count", words.join(" ")))
    }
}

/// How long a look at a file waits for those who write it.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

/// The numbers of jobs at once, in a full run.
const CONCURRENCIES: [usize; 3] = [10, 50, 100];

/// Jobs in a turn of a full run.
const COUNT: usize = 100_000;

/// What a competitor has done so far.
struct Entrant {
    who: Competitor,
    turns: Vec<Turn>,
    enqueues: Vec<Sample>,
    /// Why it takes no more turns.
    failure: Option<String>,
}

/// Has everybody take turns at each concurrency, and makes a table of each, and one of the enqueueing.
pub fn run(suite: &mut Suite, workload: &'static str, place: Place, competitors: Vec<Competitor>) {
    let entrant = |who| Entrant { who, turns: Vec::new(), enqueues: Vec::new(), failure: None };
    let mut entrants: Vec<Entrant> = competitors.into_iter().map(entrant).collect();
    let count = suite.effort.share(COUNT);
    let (concurrencies, rounds) = match suite.effort {
        Effort::Full => (&CONCURRENCIES[..], 5),
        Effort::Quick => (&CONCURRENCIES[..1], 3),
    };
    let whole = Watch::start(&place);
    for concurrency in concurrencies {
        let watch = Watch::start(&place);
        for round in 0..rounds {
            take_turns(&mut entrants, &place, *concurrency, count, round);
        }
        let others = watch.others_percent(&place);
        suite.tables.push(drains(workload, *concurrency, count, &mut entrants, others));
    }
    suite.tables.push(enqueues(workload, count, &entrants, whole.others_percent(&place)));
}

/// One turn of everybody; who was first in one round is last in the next.
fn take_turns(entrants: &mut [Entrant], place: &Place, concurrency: usize, count: usize, round: usize) {
    let len = entrants.len();
    for index in 0..len {
        let index = if round % 2 == 1 { len - 1 - index } else { index };
        let entrant = &mut entrants[index];
        if entrant.failure.is_some() {
            continue;
        }
        let file = round * len + index + concurrency * 1_000;
        match turn(&entrant.who, place, concurrency, count, file) {
            Ok(turn) => entrant.turns.push(turn),
            Err(error) => {
                println!("left out from now on: {}, at concurrency {concurrency}: {error:#}", entrant.who.name);
                entrant.failure = Some(format!("{} was left out: it failed", entrant.who.name));
            }
        }
    }
}

fn turn(who: &Competitor, place: &Place, concurrency: usize, count: usize, file: usize) -> Result<Turn> {
    let url = place.clear(file)?;
    let order = Order { url: &url, count: count as u64, concurrency };
    who.take_turn(order, place)
}

/// The table of the drains; the turns go on to be part of the table of the enqueueing.
fn drains(
    workload: &'static str,
    concurrency: usize,
    count: usize,
    entrants: &mut [Entrant],
    others_percent: f64,
) -> Table {
    let rows = entrants.iter().filter_map(|entrant| {
        let samples: Vec<Sample> = entrant.turns.iter().map(|turn| turn.drain).collect();
        Row::of(&entrant.who, &samples, count)
    });
    let mut table = table(workload, format!("drain, concurrency {concurrency}"), rows.collect(), others_percent);
    table.note = Some(notes(entrants, count).join("\n  "));
    for entrant in entrants {
        entrant.enqueues.extend(entrant.turns.drain(..).map(|turn| turn.enqueue));
    }
    table
}

fn enqueues(workload: &'static str, count: usize, entrants: &[Entrant], others_percent: f64) -> Table {
    let rows = entrants.iter().filter_map(|entrant| Row::of(&entrant.who, &entrant.enqueues, count));
    table(workload, "enqueue, as many in a call as it takes".to_owned(), rows.collect(), others_percent)
}

fn table(workload: &'static str, title: String, mut rows: Vec<Row>, others_percent: f64) -> Table {
    let peers = rows.iter().filter(|row| row.role == Role::Peer).map(|row| row.median);
    let fastest = peers.min_by(f64::total_cmp);
    for row in &mut rows {
        row.ratio = fastest.map(|fastest| row.median / fastest);
        row.extra = Some(1e6 / row.median);
    }
    Table { workload, title, unit: "µs a job", tail: "max", extra: Some("jobs/s"), others_percent, note: None, rows }
}

/// What does not fit into a row: memory, and the server's share.
fn notes(entrants: &[Entrant], count: usize) -> Vec<String> {
    let note = |entrant: &Entrant| {
        let drains = || entrant.turns.iter().map(|turn| turn.drain);
        let rss = median(drains().filter_map(|drain| Some(drain.rss_bytes? as f64)).collect())?;
        let server = median(drains().filter_map(|drain| drain.server_cpu_seconds).collect()).filter(|used| *used > 0.0);
        let server = server.map(|used| format!(", server {} µs a job", grouped(used * 1e6 / count as f64)));
        Some(format!("{:<44} {:>4.0} MiB{}", entrant.who.name, rss / 1_048_576.0, server.unwrap_or_default()))
    };
    let failures = entrants.iter().filter_map(|entrant| entrant.failure.clone());
    entrants.iter().filter_map(note).chain(failures).collect()
}

impl Row {
    /// The figures of one competitor, for one job; none when it took no turn.
    fn of(who: &Competitor, samples: &[Sample], count: usize) -> Option<Row> {
        let micros = |seconds: f64| seconds * 1e6 / count as f64;
        let mut walls: Vec<f64> = samples.iter().map(|sample| micros(sample.seconds)).collect();
        walls.sort_by(f64::total_cmp);
        Some(Row {
            name: who.name.clone(),
            role: who.role,
            samples: walls.len(),
            min: *walls.first()?,
            tail: *walls.last()?,
            median: median(walls)?,
            cpu: median(samples.iter().map(|sample| micros(sample.cpu_seconds)).collect())?,
            ratio: None,
            extra: None,
            spread: None,
        })
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Watches what others take of the machine while the competitors and their server work.
struct Watch {
    noise: Noise,
    ours: Duration,
}

impl Watch {
    fn start(place: &Place) -> Watch {
        Watch { noise: Noise::start(), ours: ours(place) }
    }

    fn others_percent(&self, place: &Place) -> f64 {
        self.noise.percent_without(ours(place).saturating_sub(self.ours))
    }
}

/// Processor time of the competitors that have ended, and of the server.
fn ours(place: &Place) -> Duration {
    // A server that does not say is counted among the others: the table then asks to be measured again.
    children_time() + Duration::from_secs_f64(place.server_cpu().unwrap_or_default())
}
