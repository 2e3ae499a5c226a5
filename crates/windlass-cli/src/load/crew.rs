//! Who runs the jobs: a server in this process, or servers in processes of their own.
//!
//! # How a child is told
//! A child is this program with `load --child`. Everything travels by its standard input and output, so that an
//! address with a password in it is on nobody's list of processes.
//!
//! ```text
//! to the child      one line: the order, as JSON     its store is open, its server is not
//! from the child    "ready"
//! to the child      "go"                             its server starts
//! from the child    a line of JSON each time the count of outcomes has grown
//! to the child      end of input                     its server stops
//! from the child    a line of JSON with what it found, then the marks of its ledger, a byte for each job
//! ```

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use windlass::JobId;
use windlass::store::Store;

use super::bodies::Mix;
use super::ledger::RunId;
use super::meter::{Findings, Meter};
use super::vitals::Vitals;
use super::worker::{Settings, Worker};

/// How often a child tells how far it is.
const TELL_PACE: Duration = Duration::from_millis(20);

/// What a child must know.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    store: String,
    first_job: JobId,
    jobs: u32,
    bodies: Vec<String>,
    settings: Settings,
    name: String,
}

/// How far a child is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Progress {
    landed: u64,
    last_landing_us: u64,
    vitals: Vitals,
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    Ready,
    Progress(Progress),
    Found { findings: Findings, marks_len: usize, is_clean: bool },
}

/// Those who run the jobs.
#[derive(Debug)]
pub(super) enum Crew {
    /// A server in this process.
    Here { store: Arc<dyn Store>, meter: Arc<Meter>, settings: Settings, worker: Option<Worker> },
    /// Servers in processes of their own.
    Apart { children: Vec<Hand>, landed: Arc<AtomicU64> },
}

/// A child process, as its parent sees it.
#[derive(Debug)]
pub(super) struct Hand {
    child: Child,
    input: Option<ChildStdin>,
    /// Listens to the child until it has told everything.
    ears: JoinHandle<anyhow::Result<Told>>,
    progress: Arc<std::sync::Mutex<Progress>>,
    ready: tokio::sync::oneshot::Receiver<()>,
}

/// What a child found.
#[derive(Debug)]
struct Told {
    findings: Findings,
    marks: Vec<u8>,
    is_clean: bool,
}

/// What a run needs to be told apart from others.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) url: &'a str,
    pub(super) run: RunId,
    pub(super) jobs: u32,
    pub(super) mix: &'a Mix,
}

impl Crew {
    pub(super) fn here(store: &Arc<dyn Store>, meter: &Arc<Meter>, settings: Settings) -> Crew {
        Crew::Here { store: Arc::clone(store), meter: Arc::clone(meter), settings, worker: None }
    }

    /// Starts the processes, and waits until each has opened the store.
    pub(super) async fn apart(count: u32, task: &Task<'_>, settings: &Settings) -> anyhow::Result<Crew> {
        let landed = Arc::new(AtomicU64::new(0));
        let mut children = Vec::new();
        for index in 0..count {
            let order = Order {
                store: task.url.to_owned(),
                first_job: task.run.job(0),
                jobs: task.jobs,
                bodies: task.mix.names().map(str::to_owned).collect(),
                settings: settings.clone(),
                name: format!("worker-{index}"),
            };
            children.push(Hand::hire(&order, &landed).await?);
        }
        for hand in &mut children {
            if (&mut hand.ready).await.is_err() {
                // Its ears know why.
                (&mut hand.ears).await??;
                return Err(anyhow!("a worker process ended before it was told to"));
            }
        }
        Ok(Crew::Apart { children, landed })
    }

    /// Begins to run jobs.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        match self {
            Crew::Here { store, meter, settings, worker } => {
                *worker = Some(Worker::start(store, meter, settings).await?);
            }
            Crew::Apart { children, .. } => {
                for hand in children {
                    let input = hand.input.as_mut().context("a worker process was told to stop already")?;
                    input.write_all(b"go\n").await.context("cannot tell a worker process to start")?;
                }
            }
        }
        Ok(())
    }

    /// How many outcomes the store has taken by now.
    pub(super) fn landed(&self) -> u64 {
        match self {
            Crew::Here { meter, .. } => meter.ledger().landed(),
            Crew::Apart { landed, .. } => landed.load(Ordering::SeqCst),
        }
    }

    /// Waits until the store has taken that many, or a process has ended too early.
    pub(super) async fn until_landed(&self, goal: u64) -> anyhow::Result<()> {
        match self {
            Crew::Here { meter, .. } => meter.until_landed(goal).await,
            Crew::Apart { children, landed } => {
                while landed.load(Ordering::SeqCst) < goal {
                    ensure!(
                        !children.iter().any(|hand| hand.ears.is_finished()),
                        "a worker process has ended too early"
                    );
                    tokio::time::sleep(TELL_PACE).await;
                }
            }
        }
        Ok(())
    }

    /// When the store took the last outcome, in Unix microseconds.
    pub(super) fn last_landing_us(&self) -> u64 {
        match self {
            Crew::Here { meter, .. } => meter.last_landing_us(),
            Crew::Apart { children, .. } => {
                children.iter().map(|hand| hand.progress().last_landing_us).max().unwrap_or_default()
            }
        }
    }

    /// What those who run the jobs have used.
    pub(super) fn vitals(&self) -> Vitals {
        match self {
            Crew::Here { .. } => Vitals::now(),
            Crew::Apart { children, .. } => {
                children.iter().map(|hand| hand.progress().vitals).fold(Vitals::default(), Vitals::plus)
            }
        }
    }

    /// Stops gracefully, and puts everything that was found into `meter`. Answers whether every outcome is stored.
    pub(super) async fn stop(self, meter: &Meter) -> anyhow::Result<bool> {
        match self {
            Crew::Here { worker: None, .. } => Ok(true),
            Crew::Here { worker: Some(worker), .. } => Ok(worker.stop().await.is_clean),
            Crew::Apart { mut children, .. } => {
                children.iter_mut().for_each(|hand| drop(hand.input.take()));
                let mut is_clean = true;
                for mut hand in children {
                    let told = (&mut hand.ears).await??;
                    meter.add(&told.findings, &told.marks);
                    is_clean &= told.is_clean;
                    let status = hand.child.wait().await.context("a worker process")?;
                    ensure!(status.success(), "a worker process ended with {status}");
                }
                Ok(is_clean)
            }
        }
    }
}

impl Hand {
    async fn hire(order: &Order, landed: &Arc<AtomicU64>) -> anyhow::Result<Hand> {
        let program = std::env::current_exe().context("cannot find this program to start it again")?;
        let mut child = Command::new(program)
            .args(["load", "--child"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start a worker process")?;
        let mut input = child.stdin.take().context("the input of a worker process")?;
        let output = child.stdout.take().context("the output of a worker process")?;
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        input.write_all(&line).await.context("cannot tell a worker process what to do")?;
        let (is_ready, ready) = tokio::sync::oneshot::channel();
        let progress = Arc::default();
        let ears = tokio::spawn(listen(output, is_ready, Arc::clone(&progress), Arc::clone(landed)));
        Ok(Hand { child, input: Some(input), ears, progress, ready })
    }

    fn progress(&self) -> Progress {
        *self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

async fn listen(
    output: ChildStdout,
    is_ready: tokio::sync::oneshot::Sender<()>,
    progress: Arc<std::sync::Mutex<Progress>>,
    landed: Arc<AtomicU64>,
) -> anyhow::Result<Told> {
    let mut output = BufReader::new(output);
    let (mut line, mut is_ready) = (String::new(), Some(is_ready));
    loop {
        line.clear();
        let len = output.read_line(&mut line).await.context("cannot hear a worker process")?;
        ensure!(len > 0, "a worker process ended in the middle; what it said of it is above");
        match serde_json::from_str(&line).context("a worker process said something unheard of")? {
            Word::Ready => {
                // The parent may have given up meanwhile; then nobody waits.
                let _ = is_ready.take().map(|is_ready| is_ready.send(()));
            }
            Word::Progress(now) => {
                let mut known = progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                landed.fetch_add(now.landed - known.landed, Ordering::SeqCst);
                *known = now;
            }
            Word::Found { findings, marks_len, is_clean } => {
                let mut marks = vec![0; marks_len];
                output.read_exact(&mut marks).await.context("cannot read the marks of a worker process")?;
                return Ok(Told { findings, marks, is_clean });
            }
        }
    }
}

/// The life of a child.
pub(super) async fn serve_parent() -> anyhow::Result<()> {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = String::new();
    input.read_line(&mut line).await?;
    let order: Order = serde_json::from_str(&line).context("load --child is for the program itself")?;
    let bodies = order.bodies.iter().map(|text| text.parse().map_err(|error: String| anyhow!(error)));
    let mix = Mix::new(bodies.collect::<anyhow::Result<_>>()?);
    let mut meter = Meter::new(RunId::new(order.first_job), order.jobs, mix);
    if let Some(folder) = &order.settings.journal {
        meter = meter.with_journal(folder, &order.name)?;
    }
    let meter = Arc::new(meter);
    let store = windlass::open(&order.store)?;
    say(&Word::Ready).await?;
    line.clear();
    if input.read_line(&mut line).await? == 0 {
        return Ok(());
    }
    let worker = Worker::start(&store, &meter, &order.settings).await?;
    tell_until_end_of_input(&meter, &mut input).await?;
    let is_clean = worker.stop().await.is_clean;
    let (findings, marks) = meter.export();
    say(&progress(&meter)).await?;
    say(&Word::Found { findings, marks_len: marks.len(), is_clean }).await?;
    let mut output = tokio::io::stdout();
    output.write_all(&marks).await?;
    output.flush().await?;
    store.close().await?;
    Ok(())
}

/// The parent decides when to stop: its end closes the input as well. So the signal of a terminal, which goes to all
/// processes of the group, is not obeyed here.
async fn tell_until_end_of_input(meter: &Meter, input: &mut BufReader<tokio::io::Stdin>) -> anyhow::Result<()> {
    let (mut told, mut rest) = (u64::MAX, String::new());
    loop {
        tokio::select! {
            len = input.read_line(&mut rest) => if len? == 0 {
                return Ok(());
            },
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            () = tokio::time::sleep(TELL_PACE) => {
                let landed = meter.ledger().landed();
                if landed != told {
                    told = landed;
                    say(&progress(meter)).await?;
                }
            }
        }
    }
}

/// The count is read first: the instant of the last landing belongs to it or to a later one.
fn progress(meter: &Meter) -> Word {
    let landed = meter.ledger().landed();
    Word::Progress(Progress { landed, last_landing_us: meter.last_landing_us(), vitals: Vitals::now() })
}

async fn say(word: &Word) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    let mut output = tokio::io::stdout();
    output.write_all(&line).await?;
    Ok(output.flush().await?)
}
