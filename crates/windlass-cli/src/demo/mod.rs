//! `windlass demo [PATH]`: the main job of the program, on real input.
//!
//! It checksums every file below a folder, one job a file; lets some jobs fail and be retried; and sums up when all
//! have ended. Everything is a job, also the scan that finds the files, so it may be killed at any time: started
//! again, it goes on where it was, and the sum is the same.

mod kinds;

pub(crate) use kinds::handlers;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use windlass::config::{QueueConfig, QueueOrder, ServerConfig};
use windlass::job::{JobId, JobRecord};
use windlass::server::{RunningServer, Server};
use windlass::state::State;
use windlass::store::{JobQuery, Store};
use windlass::{Client, Inspector, Job, Timestamp};

use crate::demo::kinds::{Found, Scan, Sum, Summary};
use crate::exit::Usage;
use crate::web::{self, Dashboard};
use crate::{Common, output, signals, time};

/// The file the demo keeps its jobs in, beside where it is started, unless `--store` names another.
pub(crate) const STORE_NAME: &str = "windlass-demo.db";

/// How often the progress is looked at.
const GLANCE: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The folder whose files are checksummed
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Handlers at a time
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Serve no dashboard meanwhile
    #[arg(long)]
    no_web: bool,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let root = std::fs::canonicalize(&arguments.path)
        .with_context(|| format!("cannot read the folder {:?}", arguments.path.display()))?;
    if !root.is_dir() {
        return Err(Usage(format!("{:?} is no folder: name one whose files to checksum", root.display())).into());
    }
    let url = common.store.clone().unwrap_or_else(|| format!("sqlite:{STORE_NAME}"));
    let store = windlass::open(&url)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(work(common, arguments, &root, &url, store))
}

async fn work(
    common: &Common,
    arguments: &Arguments,
    root: &Path,
    url: &str,
    store: Arc<dyn Store>,
) -> anyhow::Result<()> {
    let dashboard = if arguments.no_web { None } else { look(&store).await };
    let server = Server::new(Arc::clone(&store), kinds::handlers(), config(arguments))?.start().await?;
    let demo = Demo { inspector: Inspector::new(Arc::clone(&store)), client: Client::new(Arc::clone(&store)), store };
    let ended = tokio::select! {
        ended = demo.until_summed(root) => ended,
        stopped = signals::until_stop(&server) => {
            stopped?;
            Err(anyhow::anyhow!("interrupted: run the same command again, and it goes on where it was"))
        }
    };
    stop(server).await;
    if let Some(dashboard) = dashboard {
        dashboard.stop().await;
    }
    demo.store.close().await?;
    demo.show(common, url, &ended?)
}

/// A dashboard while the demo runs. Where there is none to be had the demo goes on without.
async fn look(store: &Arc<dyn Store>) -> Option<Dashboard> {
    match Dashboard::start(Arc::clone(store), web::Settings::private()).await {
        Ok(dashboard) => {
            output::error(&format!("windlass: look at it while it runs: {}", dashboard.url()));
            Some(dashboard)
        }
        Err(error) => {
            output::error(&format!("windlass: going on without a dashboard: {error:#}"));
            None
        }
    }
}

async fn stop(server: RunningServer) {
    tokio::select! {
        report = server.stop() => if !report.is_clean {
            output::error("windlass: some jobs were handed back unfinished; they go on with the next start");
        },
        _ = signals::until_stop_signal() => output::error("windlass: stopped at once; what ran goes on with the next start"),
    }
}

fn config(arguments: &Arguments) -> ServerConfig {
    let queue = |name: &str| QueueConfig { name: name.to_owned(), weight: 1, at_most_once: false };
    ServerConfig {
        queues: vec![queue(kinds::QUEUE_CONTROL), queue(kinds::QUEUE)],
        order: QueueOrder::Strict,
        concurrency: arguments.concurrency,
        // A demo that was killed should not be waited for long.
        lease: Duration::from_secs(2),
        poll_interval: Duration::from_millis(100),
        stop_timeout: Duration::from_secs(5),
        ..ServerConfig::default()
    }
}

struct Demo {
    store: Arc<dyn Store>,
    client: Client,
    inspector: Inspector,
}

/// How it ended.
struct Ended {
    sum: JobRecord,
    summary: Summary,
    found: Found,
    jobs: u64,
    elapsed: Duration,
    resumed: bool,
}

impl Demo {
    /// Enqueues the scan, or takes up one that was interrupted, and shows progress until its sum is there.
    async fn until_summed(&self, root: &Path) -> anyhow::Result<Ended> {
        let begun_at = self.store.now();
        let done_before = self.inspector.counts().await?.totals.done;
        let (scan, resumed) = self.scan(root).await?;
        let bar = progress_bar();
        let found = loop {
            if let Some(found) = self.result::<Found>(scan).await? {
                break found;
            }
            bar.set_message("looking for files");
            tokio::time::sleep(GLANCE).await;
        };
        bar.set_length(found.files + found.folders);
        let (sum, summary) = loop {
            if let Some(ended) = self.sum_of(scan).await? {
                break ended;
            }
            self.glance(&bar, found).await?;
            tokio::time::sleep(GLANCE).await;
        };
        bar.finish_and_clear();
        let jobs = self.inspector.counts().await?.totals.done - done_before;
        Ok(Ended { sum, summary, found, jobs, elapsed: self.store.now().since(begun_at), resumed })
    }

    async fn glance(&self, bar: &ProgressBar, found: Found) -> anyhow::Result<()> {
        let queues = self.inspector.queues().await?;
        let demo = queues.iter().find(|queue| queue.name == kinds::QUEUE);
        let (left, waiting) = demo.map_or((0, 0), |q| (q.ready + q.running + q.waiting, q.waiting));
        bar.set_position((found.files + found.folders).saturating_sub(left));
        let message = if waiting > 0 { format!("{waiting} wait for a retry") } else { String::new() };
        bar.set_message(message);
        Ok(())
    }

    /// The scan of this folder that has not been summed yet, or a new one.
    async fn scan(&self, root: &Path) -> anyhow::Result<(JobId, bool)> {
        if let Some(scan) = self.unfinished_scan().await? {
            let begun: [Scan; 1] = serde_json::from_slice(scan.payload.as_bytes())?;
            if begun[0].root != root {
                let (other, id) = (begun[0].root.display(), scan.id);
                let message = format!(
                    "this store holds an unfinished demo of {other} (job {id}): finish it with `windlass demo {other}`, or use another --store"
                );
                return Err(Usage(message).into());
            }
            return Ok((scan.id, true));
        }
        let scan = Scan { root: root.to_owned() };
        Ok((self.client.with(kinds::scan_options()).enqueue(&scan).await?, false))
    }

    async fn unfinished_scan(&self) -> anyhow::Result<Option<JobRecord>> {
        for state in [State::Scheduled, State::Ready, State::Running, State::Retry] {
            let query =
                JobQuery { state: Some(state), queue: Some(kinds::QUEUE_CONTROL.to_owned()), ..JobQuery::default() };
            for job in self.inspector.list(query).await?.jobs {
                match job.kind.as_str() {
                    Scan::KIND => return Ok(Some(job)),
                    Sum::KIND => {
                        let sum: [Sum; 1] = serde_json::from_slice(job.payload.as_bytes())?;
                        return Ok(Some(self.inspector.job(sum[0].scan).await?));
                    }
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    async fn result<T: serde::de::DeserializeOwned>(&self, id: JobId) -> anyhow::Result<Option<T>> {
        let job = self.inspector.job(id).await?;
        if job.state == State::Dead {
            let why = job.error.map(|error| error.message).or(job.reason).unwrap_or_default();
            anyhow::bail!("job {id} ({}) is dead: {why}", job.kind);
        }
        Ok(job.result.map(|result| serde_json::from_slice(result.as_bytes())).transpose()?)
    }

    /// The sum's record and result, once it is done.
    async fn sum_of(&self, scan: JobId) -> anyhow::Result<Option<(JobRecord, Summary)>> {
        let sum = kinds::sum_id(scan);
        let Some(summary) = self.result::<Summary>(sum).await? else { return Ok(None) };
        Ok(Some((self.inspector.job(sum).await?, summary)))
    }

    fn show(&self, common: &Common, url: &str, ended: &Ended) -> anyhow::Result<()> {
        let Ended { sum, summary, found, jobs, elapsed, resumed } = ended;
        let per_second = (*jobs as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
        if common.json {
            return output::json(&serde_json::json!({
                "summary": summary, "unreadable_folders": found.unreadable, "sum_job": sum.id,
                "jobs": jobs, "jobs_per_second": per_second, "elapsed_ms": elapsed.as_millis() as u64, "resumed": resumed,
            }));
        }
        if *resumed {
            output::line("went on with the demo that had been interrupted\n")?;
        }
        let rows = [
            ("files", output::grouped(summary.files)),
            ("bytes", format!("{} ({})", output::grouped(summary.bytes), output::bytes(summary.bytes))),
            ("lines", output::grouped(summary.lines)),
            ("checksum", format!("{:016x}", summary.checksum)),
            ("folders", format!("{} and {} unreadable", output::grouped(summary.folders), found.unreadable)),
            ("retries", output::grouped(summary.retries)),
            ("dead jobs", output::grouped(summary.dead)),
            (
                "jobs run now",
                format!(
                    "{} in {}: {} a second",
                    output::grouped(*jobs),
                    time::span(*elapsed),
                    output::grouped(per_second)
                ),
            ),
        ];
        let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        output::table(&["summed up", &Timestamp::to_string(&sum.finished_at.unwrap_or(sum.run_at))], rows, "")?;
        output::line(&format!(
            "\nlook inside: windlass --store {url} web    (or: jobs ls, stats, queues, jobs show {})",
            sum.id
        ))
    }
}

/// On a terminal only: elsewhere nothing is drawn.
fn progress_bar() -> ProgressBar {
    let target =
        if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} jobs  {per_sec:.0}  {eta} left  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
