//! A place for one scenario: a store, the journals, the worker processes, and the judgement at the end.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use windlass::checker::{Allowances, Event, Fault, FaultKind, History, Journal, Report, Stored};
use windlass::clock::{Clock, SystemClock};
use windlass::entropy::Entropy;
use windlass::job::JobId;
use windlass::state::State;
use windlass::store::{JobQuery, PAGE_LEN_MAX, Store};
use windlass::{BlockingClient, Client, Inspector};

use crate::worker::Work;

/// The lease of the workers: as short as it may be, so that crashes are recovered while the test looks on.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// A scenario that takes longer than this hangs.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Arena {
    dir: tempfile::TempDir,
    store: Arc<dyn Store>,
    journal: Journal,
    clock: SystemClock,
    starts: AtomicU64,
    pub(crate) entropy: Entropy,
    pub(crate) seed: u64,
    pub(crate) cycles: u64,
}

/// A worker process. Ended when it is dropped.
pub(crate) struct Worker {
    child: Child,
    /// What it is called in the journals: new at each start.
    pub(crate) name: String,
}

impl Arena {
    /// `cycles` is what an ordinary run does; the environment may ask for more.
    pub(crate) fn new(cycles: u64) -> Arena {
        Arena::in_dir(cycles, tempfile::tempdir().expect("a folder for the scenario"))
    }

    fn in_dir(cycles: u64, dir: tempfile::TempDir) -> Arena {
        let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
        let seed = number("WINDLASS_CRASH_SEED").unwrap_or_else(|| Entropy::from_system().next_u64() >> 32);
        println!("seed {seed} (repeat with WINDLASS_CRASH_SEED={seed})");
        let url = format!("sqlite:{}", dir.path().join("jobs.db").display());
        Arena {
            store: windlass::open(&url).expect("the scenario's store"),
            journal: Journal::open(dir.path().join("producer.journal")).expect("the producer's journal"),
            clock: SystemClock::new(),
            starts: AtomicU64::new(0),
            entropy: Entropy::seeded(seed),
            seed,
            cycles: number("WINDLASS_CRASH_CYCLES").unwrap_or(cycles),
            dir,
        }
    }

    pub(crate) fn inspector(&self) -> Inspector {
        Inspector::new(Arc::clone(&self.store))
    }

    pub(crate) fn client(&self) -> BlockingClient {
        Client::new(Arc::clone(&self.store)).blocking()
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().as_millis()
    }

    /// Starts a worker process. `options` are words that [`crate::worker`] understands.
    pub(crate) fn start_worker(&self, options: &[&str]) -> Worker {
        self.start_worker_with(options, "")
    }

    /// Starts a worker process that stumbles at `failpoints`.
    pub(crate) fn start_worker_with(&self, options: &[&str], failpoints: &str) -> Worker {
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        let name = format!("worker-{start}");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["worker", &name])
            .arg(self.dir.path())
            .args(options)
            .env("WINDLASS_FAILPOINTS", failpoints)
            .stdin(Stdio::null())
            .spawn()
            .expect("a worker process");
        Worker { child, name }
    }

    /// Enqueues jobs and writes the journal of it: before, and after the answer.
    pub(crate) fn produce(&self, works: Vec<Work>) -> Vec<JobId> {
        let client = self.client();
        works.into_iter().map(|work| self.produce_one(&client, &work)).collect()
    }

    fn produce_one(&self, client: &BlockingClient, work: &Work) -> JobId {
        let now = self.clock.now();
        let options = windlass::JobOptions::new().keep_done(Duration::from_secs(3_600));
        let id = JobId::new(now, &self.entropy);
        let job = Client::describe(id, work, now, options).expect("a valid job");
        let name = id.to_string();
        self.journal.record(&Event::Sent { id: name.clone(), at: self.now_ms(), run_at: None }).expect("journal");
        client.insert(vec![job]).expect("the push");
        self.journal.record(&Event::Acknowledged { id: name, at: self.now_ms() }).expect("journal");
        id
    }

    /// Does something to a worker and writes down when.
    pub(crate) fn fault(&self, kind: FaultKind, worker: &mut Worker, act: impl FnOnce(&mut Worker)) {
        let from = self.now_ms();
        act(worker);
        let fault = Fault { kind, process: worker.name.clone(), from, until: self.now_ms() };
        self.journal.record(&Event::Fault(fault)).expect("journal");
    }

    /// Waits until no job is left to run.
    pub(crate) fn until_drained(&self) {
        self.until("every job has ended", || {
            let counts = windlass::blocking::block_on(self.inspector().counts()).expect("counts");
            counts.ready + counts.running + counts.scheduled + counts.retry == 0
        });
    }

    /// Looks again and again until `holds`, and fails when that takes for ever.
    pub(crate) fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let since = Instant::now();
        while !holds() {
            assert!(since.elapsed() < DRAIN_LIMIT, "after {DRAIN_LIMIT:?} still not true: {what} (seed {})", self.seed);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Has the history judged. Prints the ledger line and, on failure, the story of every offender.
    pub(crate) fn judge(&self) -> Report {
        let mut history = History::new(Allowances { skew_ms: 5, lag_ms: 500, removed_when_done: false });
        for journal in self.journals() {
            let file = File::open(&journal).expect("a journal");
            history.read(BufReader::new(file)).expect("a journal that can be read");
        }
        self.dump_into(&mut history);
        let report = history.check();
        println!("{report}");
        let explained = report.duplicates.len() - report.unexplained().count();
        println!(
            "crash-ledger: cycles={} lost={} double={} duplicates={} explained={explained}",
            self.cycles,
            report.lost.len(),
            report.double_finishes.len(),
            report.duplicates.len(),
        );
        report
    }

    fn journals(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.dir.path()).expect("the scenario's folder");
        let paths = files.map(|file| file.expect("a file").path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "journal")).collect()
    }

    /// Whether a worker has written this word into its journal.
    pub(crate) fn has_noted(&self, word: &str) -> bool {
        let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a journal");
        self.journals().iter().any(|path| text(path).contains(word))
    }

    fn dump_into(&self, history: &mut History) {
        let inspector = self.inspector();
        let mut query = JobQuery { limit: PAGE_LEN_MAX, ..JobQuery::default() };
        loop {
            let page = windlass::blocking::block_on(inspector.list(query.clone())).expect("a page");
            for job in &page.jobs {
                let stored = Stored {
                    state: job.state.to_string(),
                    accepted: u32::from(job.state.is_final()),
                    attempt: job.attempt,
                    recoveries: job.recoveries,
                };
                history.store(job.id.to_string(), stored);
            }
            query.after = page.next;
            if query.after.is_none() {
                return;
            }
        }
    }

    /// Fails unless nothing forbidden happened.
    pub(crate) fn assert_clean(&self) -> Report {
        let report = self.judge();
        assert!(report.is_clean(), "seed {}\n{}", self.seed, report.stories());
        report
    }

    /// How many jobs are in `state`.
    pub(crate) fn count(&self, state: State) -> u64 {
        windlass::blocking::block_on(self.inspector().counts()).expect("counts").of(state)
    }

    pub(crate) fn random_ms(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.entropy.below(to - from + 1))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Worker {
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the signal");
    }

    /// kill -9, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the kill");
        self.child.wait().expect("the end of the worker");
    }

    /// Waits for its end, and fails when that takes for ever.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of the worker") {
                return status;
            }
            assert!(since.elapsed() < DRAIN_LIMIT, "worker {} does not end", self.name);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the state of the worker").is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Some jobs of the usual kind: short, and now and then one that fails at first.
pub(crate) fn usual_works(count: u64, entropy: &Entropy) -> Vec<Work> {
    let work = |_| Work { run_ms: entropy.below(8), fails_first: entropy.below(10) == 0, aborts: false };
    (0..count).map(work).collect()
}
