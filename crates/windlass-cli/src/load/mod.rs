//! `windlass load`: how much a store and a server of this program can take, and whether every job came through.
//!
//! A test *fills* a queue of its own with jobs, *drains* it with servers as `serve` has them, and *verifies* that each
//! job ran exactly once; or *offers* jobs at a rate while they are run, for how long each waits. Rates count outcomes
//! that the store has taken. A fast run that lost a job is a failed run: the program says so and ends with an error.
//!
//! It is a guest in the store. It refuses a queue in which others have jobs or at which others work, and takes away
//! what it brought, also when it is interrupted.

mod bodies;
mod crew;
mod http;
mod latency;
mod ledger;
mod meter;
mod push;
mod report;
mod vitals;
mod worker;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::sync::watch;
use windlass::checker::{Allowances, History, Stored};
use windlass::config::parse_duration;
use windlass::entropy::Entropy;
use windlass::state::State;
use windlass::store::{Changed, Store};
use windlass::{Client, Inspector, JobId};

use self::bodies::{Mix, PAYLOAD_LEN_MIN, SHARES_MAX, Share};
use self::crew::{Crew, Task};
use self::http::SlowServer;
use self::latency::Spans;
use self::ledger::{RunId, Verdict};
use self::meter::{Meter, now_us};
use self::push::{Fill, Pusher};
use self::report::{Findings, Phase};
use self::vitals::Vitals;
use self::worker::Settings;
use crate::exit::Usage;
use crate::{Common, config, output, signals};

/// Jobs that are removed in one call.
const SLICE_LEN: usize = 1_000;
/// With nothing in the queue and nothing happening for so long, what has no outcome will have none.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long what is still running gets to end before it is reported as left.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many jobs; 0 with --idle
    #[arg(short = 'n', long, value_name = "COUNT", default_value = "100000", value_parser = parse_count)]
    jobs: u32,
    /// What a job does: noop, sleep:SPAN, http:URL, append:FILE or fib:N; several are dealt out by their shares, such as 9*sleep:5ms
    #[arg(short = 'b', long = "job", value_name = "[SHARE*]BODY", default_value = "noop")]
    bodies: Vec<Share>,
    /// Bytes of arguments of each job
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(i64::from(PAYLOAD_LEN_MIN)..=1 << 20))]
    payload: u32,
    /// Handlers at a time, in each process
    #[arg(short, long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Threads of the CPU pool, in each process; 0 means as many as the machine has
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_024))]
    cpu_threads: u32,
    /// Run the jobs in so many processes of their own instead of in this one
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=256))]
    processes: u32,
    /// How the queue is filled: bulk or single, from one task or several, such as single:100
    #[arg(long, value_name = "WAY[:TASKS]", default_value = "bulk")]
    fill: Fill,
    /// Jobs in one call of a bulk
    #[arg(long, value_name = "COUNT", default_value_t = 4_000, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    batch: u32,
    /// Offer so many jobs a second while they are run, instead of filling first
    #[arg(long, value_name = "PER_SECOND", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Whether a job may run again when its process is lost, or must never
    #[arg(long, value_name = "MODE", default_value = "reliable")]
    mode: Mode,
    /// At the end, measure the server without work for this long, such as 60s
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, conflicts_with = "processes")]
    idle: Option<Duration>,
    /// The queue; nobody else may use it
    #[arg(long, value_name = "NAME", default_value = "windlass.load")]
    queue: String,
    /// Keep a journal in this new folder, and have the checker judge it; costs a system call for each event
    #[arg(long, value_name = "FOLDER")]
    journal: Option<PathBuf>,
    /// Serve HTTP for http: jobs instead: answer every request after this long
    #[arg(long, value_name = "DELAY", value_parser = parse_duration)]
    serve_http: Option<Duration>,
    /// Where to serve HTTP
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), requires = "serve_http")]
    listen: SocketAddr,
    /// Work for a load test that has started this process
    #[arg(long, hide = true)]
    child: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// At least once: given to another process when this one is lost
    Reliable,
    /// At most once: dead when its process is lost
    AtMostOnce,
}

/// A number of jobs, which may be grouped: `1_000_000`.
fn parse_count(text: &str) -> Result<u32, String> {
    let count = text.replace('_', "").parse().ok().filter(|count| *count <= 100_000_000);
    count.ok_or_else(|| format!("{text:?} is no number of jobs: expected 0 to 100_000_000"))
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.replace('_', "").parse().ok().filter(|rate| (0.001..=1e7).contains(rate));
    rate.ok_or_else(|| format!("{text:?} is no rate: expected jobs a second, 0.001 to 10_000_000"))
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if arguments.child {
        let ended = runtime.block_on(crew::serve_parent());
        // Somebody may still wait for a line of input, on a thread that cannot be told to stop.
        runtime.shutdown_background();
        return ended;
    }
    if let Some(delay) = arguments.serve_http {
        return runtime.block_on(serve_http(arguments.listen, delay));
    }
    if arguments.bodies.len() > SHARES_MAX {
        return Err(Usage(format!("at most {SHARES_MAX} different --job in one test")).into());
    }
    let url = config::read(common, &[])?.settings.store;
    let store = windlass::open(&url)?;
    if arguments.processes > 0 && store.describe().engine == "memory" {
        return Err(Usage("a store in memory cannot be shared with --processes: use another --store".to_owned()).into());
    }
    let findings = runtime.block_on(async {
        let findings = Test::new(arguments, &url, &store)?.run().await?;
        store.close().await?;
        anyhow::Ok(findings)
    })?;
    runtime.shutdown_background();
    if common.json {
        output::json(&findings)?;
    } else {
        report::print(&findings)?;
    }
    conclude(&findings)
}

/// The error that the program ends with, if the test is no success.
fn conclude(findings: &Findings) -> anyhow::Result<()> {
    ensure!(
        !findings.was_interrupted,
        "interrupted; the jobs of this test that had not run were removed ({})",
        output::grouped(findings.verdict.left)
    );
    let is_clean = findings.verdict.is_clean() && findings.checker.as_ref().is_none_or(|report| report.is_clean());
    ensure!(is_clean, "not every job ran exactly once and ended well: see the counts above");
    Ok(())
}

async fn serve_http(address: SocketAddr, delay: Duration) -> anyhow::Result<()> {
    let server = SlowServer::bind(address, delay).await.with_context(|| format!("cannot listen at {address}"))?;
    output::line(&server.url()?)?;
    tokio::select! {
        served = server.serve() => match served.context("cannot take more connections")? {},
        asked = signals::until_stop_signal() => Ok(asked?),
    }
}

/// One test, from the first job to the last.
struct Test<'a> {
    arguments: &'a Arguments,
    url: &'a str,
    store: &'a Arc<dyn Store>,
    inspector: Inspector,
    run: RunId,
    meter: Arc<Meter>,
    pusher: Arc<Pusher>,
    interrupt: watch::Receiver<bool>,
    phases: Vec<Phase>,
}

impl<'a> Test<'a> {
    fn new(arguments: &'a Arguments, url: &'a str, store: &'a Arc<dyn Store>) -> anyhow::Result<Test<'a>> {
        let run = RunId::new(JobId::new(store.now(), &Entropy::from_system()));
        let mut meter = Meter::new(run, arguments.jobs, Mix::new(arguments.bodies.clone()));
        if let Some(folder) = &arguments.journal {
            std::fs::create_dir(folder)
                .with_context(|| format!("cannot make the new folder {} for --journal", folder.display()))?;
            meter = meter.with_journal(folder, "load")?;
        }
        let meter = Arc::new(meter);
        let interrupt = interrupts();
        let pusher = Pusher {
            client: Client::new(Arc::clone(store)),
            meter: Arc::clone(&meter),
            run,
            queue: arguments.queue.clone(),
            payload_len: arguments.payload,
            batch_len: arguments.batch,
            calls: Spans::new(),
            lateness: Spans::new(),
            interrupt: interrupt.clone(),
        };
        let (inspector, pusher) = (Inspector::new(Arc::clone(store)), Arc::new(pusher));
        Ok(Test { arguments, url, store, inspector, run, meter, pusher, interrupt, phases: Vec::new() })
    }

    async fn run(mut self) -> anyhow::Result<Findings> {
        self.refuse_company().await?;
        let ran = self.phases().await;
        let was_interrupted = self.is_interrupted();
        let journal = if was_interrupted { None } else { self.arguments.journal.as_deref() };
        let checker = match journal.filter(|_| ran.is_ok()) {
            Some(folder) => Some(self.judge_journal(folder).await?),
            None => None,
        };
        let failure = self.first_failure().await;
        let left = self.remove().await;
        // What went wrong first is told first.
        ran?;
        let verdict = self.meter.ledger().judge(left?);
        Ok(Findings { first_failure: failure?, ..self.findings(verdict, checker, was_interrupted) })
    }

    fn is_interrupted(&self) -> bool {
        *self.interrupt.borrow()
    }

    /// Others' jobs would be run by the wrong handlers, and others' servers would run ours.
    async fn refuse_company(&self) -> anyhow::Result<()> {
        let queue = &self.arguments.queue;
        let here = self.inspector.describe().url;
        if let Some(found) = self.inspector.queues().await?.iter().find(|info| info.name == *queue) {
            let jobs = found.ready + found.running + found.waiting;
            let message = if jobs > 0 {
                format!(
                    "queue {queue:?} of {here} holds {jobs} jobs: use another --queue, or remove them with `windlass prune queue {queue}`"
                )
            } else {
                format!("queue {queue:?} of {here} is paused: use another --queue, or `windlass resume {queue}`")
            };
            if jobs > 0 || found.paused {
                return Err(Usage(message).into());
            }
        }
        let processes = self.inspector.processes().await?;
        if let Some(other) = processes.iter().find(|process| process.info.queues.contains(queue)) {
            let id = &other.info.id;
            return Err(Usage(format!("process {id} serves queue {queue:?} of {here}: use another --queue")).into());
        }
        Ok(())
    }

    async fn phases(&mut self) -> anyhow::Result<()> {
        let mut crew = self.crew().await?;
        let ran = self.phases_with(&mut crew).await;
        let is_clean = crew.stop(&self.meter).await?;
        ran?;
        ensure!(is_clean, "some outcomes could not be stored; their jobs would run again when the lease is over");
        Ok(())
    }

    async fn crew(&self) -> anyhow::Result<Crew> {
        let Arguments { queue, concurrency, cpu_threads, processes, mode, journal, jobs, .. } = self.arguments;
        let settings = Settings {
            queue: queue.clone(),
            concurrency: *concurrency,
            cpu_threads: *cpu_threads,
            at_most_once: *mode == Mode::AtMostOnce,
            journal: journal.as_ref().map(std::path::absolute).transpose()?,
        };
        if *processes == 0 {
            return Ok(Crew::here(self.store, &self.meter, settings));
        }
        let task = Task { url: self.url, run: self.run, jobs: *jobs, mix: self.meter.mix() };
        Crew::apart(*processes, &task, &settings).await
    }

    async fn phases_with(&mut self, crew: &mut Crew) -> anyhow::Result<()> {
        let Arguments { jobs, fill, rate, concurrency, .. } = self.arguments;
        match rate {
            _ if *jobs == 0 => crew.start().await?,
            None => {
                let begun = Begun::now(Vitals::now());
                let pushed = self.pusher.fill(*jobs, *fill).await?;
                self.phases.push(begun.end(format!("fill, {fill}"), pushed, Vitals::now()));
                if self.is_interrupted() {
                    return Ok(());
                }
                let begun = Begun::now(crew.vitals());
                crew.start().await?;
                self.until_drained(crew, begun, &format!("drain, concurrency {concurrency}")).await?;
            }
            Some(rate) => {
                crew.start().await?;
                let begun = Begun::now(crew.vitals());
                self.pusher.offer(*jobs, *rate).await?;
                self.until_drained(crew, begun, &format!("offer {rate}/s, concurrency {concurrency}")).await?;
            }
        }
        match self.arguments.idle {
            Some(span) if !self.is_interrupted() => self.idle(crew, span).await,
            _ => Ok(()),
        }
    }

    /// Waits for every job, and adds the phase.
    async fn until_drained(&mut self, crew: &Crew, begun: Begun, name: &str) -> anyhow::Result<()> {
        let goal = u64::from(self.arguments.jobs);
        let mut interrupt = self.interrupt.clone();
        tokio::select! {
            landed = crew.until_landed(goal) => landed?,
            _ = interrupt.wait_for(|is_asked| *is_asked) => {}
            silence = self.until_silent(crew) => silence?,
        }
        let vitals = crew.vitals();
        let elapsed = Duration::from_micros(crew.last_landing_us().saturating_sub(begun.at_us));
        self.phases.push(Phase::new(name.to_owned(), crew.landed(), elapsed, vitals.since(begun.vitals)));
        Ok(())
    }

    /// Answers when nothing has happened for a while and nothing is left to happen.
    async fn until_silent(&self, crew: &Crew) -> anyhow::Result<()> {
        let (mut landed, mut since) = (crew.landed(), Instant::now());
        loop {
            tokio::time::sleep(SILENCE_MAX / 5).await;
            if crew.landed() != landed || !self.is_queue_empty().await? {
                (landed, since) = (crew.landed(), Instant::now());
            }
            if since.elapsed() > SILENCE_MAX {
                return Ok(());
            }
        }
    }

    async fn is_queue_empty(&self) -> anyhow::Result<bool> {
        let queues = self.inspector.queues().await?;
        let ours = queues.iter().find(|info| info.name == self.arguments.queue);
        Ok(ours.is_none_or(|info| info.ready + info.running + info.waiting == 0))
    }

    async fn idle(&mut self, crew: &Crew, span: Duration) -> anyhow::Result<()> {
        let mut interrupt = self.interrupt.clone();
        // The last of the work before, and the first looks of the services, are not idleness.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = Begun::now(crew.vitals());
        tokio::select! {
            () = tokio::time::sleep(span) => {}
            _ = interrupt.wait_for(|is_asked| *is_asked) => {}
        }
        self.phases.push(begun.end("idle".to_owned(), 0, crew.vitals()));
        Ok(())
    }

    /// Has the checker judge the journals of all processes, and what the store holds.
    async fn judge_journal(&self, folder: &std::path::Path) -> anyhow::Result<windlass::checker::Report> {
        let mut history = History::new(Allowances { skew_ms: 5, lag_ms: 500, removed_when_done: true });
        for entry in std::fs::read_dir(folder)? {
            let file = std::fs::File::open(entry?.path())?;
            history.read(std::io::BufReader::new(file))?;
        }
        for id in self.meter.ledger().unfinished() {
            let job = match self.inspector.job(id).await {
                Ok(job) => job,
                Err(windlass::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let accepted = u32::from(job.state.is_final());
            let stored =
                Stored { state: job.state.to_string(), accepted, attempt: job.attempt, recoveries: job.recoveries };
            history.store(id.to_string(), stored);
        }
        Ok(history.check())
    }

    /// Why the first job failed that did.
    async fn first_failure(&self) -> anyhow::Result<Option<String>> {
        let Some(id) = self.meter.ledger().first_failed() else { return Ok(None) };
        let job = self.inspector.job(id).await?;
        let reason = job.reason.unwrap_or_default();
        Ok(Some(job.error.map_or(reason, |error| format!("{}: {}", error.class, error.message))))
    }

    /// Removes every job of this test that is still in the store. Answers how many had no outcome.
    async fn remove(&self) -> anyhow::Result<u64> {
        let mut left = 0;
        for slice in self.meter.ledger().unfinished().chunks(SLICE_LEN) {
            let mut slice = slice.to_vec();
            for attempt in 1.. {
                let answers = self.store.delete(slice.clone()).await.map_err(windlass::Error::from)?;
                left += answers
                    .iter()
                    .filter(|answer| matches!(answer, Changed::From(state) if *state != State::Dead))
                    .count() as u64;
                let refused = slice.iter().zip(&answers).filter(|(_, answer)| matches!(answer, Changed::Refused(_)));
                slice = refused.map(|(id, _)| *id).collect();
                if slice.is_empty() {
                    break;
                }
                ensure!(
                    attempt < REMOVE_TRIES,
                    "{} jobs of this test are running still: when their lease is over, remove them with `windlass prune queue {}`",
                    slice.len(),
                    self.arguments.queue
                );
                tokio::time::sleep(REMOVE_PAUSE).await;
            }
        }
        Ok(left)
    }

    fn findings(self, verdict: Verdict, checker: Option<windlass::checker::Report>, was_interrupted: bool) -> Findings {
        let (memberships_lost, outcomes_refused) = self.meter.accidents();
        Findings {
            store: self.inspector.describe().url,
            queue: self.arguments.queue.clone(),
            jobs: self.arguments.jobs,
            payload_bytes: self.arguments.payload,
            concurrency: self.arguments.concurrency,
            processes: self.arguments.processes,
            mode: if self.arguments.mode == Mode::AtMostOnce { "at-most-once" } else { "reliable" },
            phases: self.phases,
            push: self.pusher.calls.percentiles(),
            push_lateness: self.pusher.lateness.percentiles(),
            latencies: self.meter.latencies(),
            memberships_lost,
            outcomes_refused,
            was_interrupted,
            first_failure: None,
            verdict,
            checker,
        }
    }
}

/// The beginning of a phase.
struct Begun {
    since: Instant,
    at_us: u64,
    vitals: Vitals,
}

impl Begun {
    fn now(vitals: Vitals) -> Begun {
        vitals::forget_high_water();
        Begun { since: Instant::now(), at_us: now_us(), vitals }
    }

    fn end(self, name: String, jobs: u64, vitals: Vitals) -> Phase {
        Phase::new(name, jobs, self.since.elapsed(), vitals.since(self.vitals))
    }
}

/// Turns true at the first signal to stop; at the second the process ends as if nobody listened.
fn interrupts() -> watch::Receiver<bool> {
    let (interrupt, is_interrupted) = watch::channel(false);
    tokio::spawn(async move {
        if signals::until_stop_signal().await.is_ok() {
            output::error("windlass: stopping; once more to stop at once and leave the jobs in the store");
            // Who no longer listens has ended anyway.
            let _ = interrupt.send(true);
        }
        if signals::until_stop_signal().await.is_ok() {
            std::process::exit(1);
        }
    });
    is_interrupted
}
