//! The real Sidekiq, of the system's packages: its worker, its API and its page.
//!
//! windlass speaks Sidekiq's format; whether it does is for Sidekiq to say. [`Ruby`] is a place for Ruby programs that
//! look at one Redis: [`Ruby::ask`] runs a snippet with the API at hand and brings back its value, [`Ruby::work`]
//! starts the worker with classes that the test writes, [`Ruby::web`] starts the page.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::http::Browser;
use crate::port::Port;
use crate::program::{Program, is_installed};
use crate::wait;

/// How long a snippet may take.
const ASK_LIMIT: Duration = Duration::from_secs(60);

const ASK: &str = include_str!("../ruby/ask.rb");
const WEB: &str = include_str!("../ruby/web.rb");

/// In front of a test's classes, on their first line: the packaged client warns of a call that the packaged Sidekiq
/// makes for each job.
const QUIET: &str = "Redis.silence_deprecations = true; ";

/// A place for Ruby programs that look at one Redis.
#[derive(Debug)]
pub struct Ruby {
    url: String,
    folder: TempDir,
    count: AtomicU64,
}

/// How a worker is to be started.
#[derive(Clone, Debug)]
pub struct WorkOptions {
    /// How many jobs at once.
    pub concurrency: u32,
    /// The queues, in strict order.
    pub queues: Vec<String>,
    /// For how long running jobs may go on after TERM, in seconds.
    pub stop_seconds: u32,
}

impl Default for WorkOptions {
    /// Five jobs at once from the queue `default`, eight seconds to end.
    fn default() -> Self {
        WorkOptions { concurrency: 5, queues: vec!["default".to_owned()], stop_seconds: 8 }
    }
}

/// A running `sidekiq`. Ended when it is dropped.
#[derive(Debug)]
pub struct SidekiqWorker {
    program: Program,
}

/// Sidekiq's running page. Ended when it is dropped.
#[derive(Debug)]
pub struct SidekiqWeb {
    _program: Program,
    port: Port,
}

impl Ruby {
    /// Whether Sidekiq is there.
    #[must_use]
    pub fn is_installed() -> bool {
        is_installed("ruby") && is_installed("sidekiq")
    }

    /// For the Redis at `url`.
    ///
    /// # Errors
    /// When Sidekiq is not installed.
    pub fn at(url: &str) -> Result<Ruby> {
        ensure!(
            Ruby::is_installed(),
            "sidekiq is not installed: `cargo xtask test` installs it, or on Debian: apt-get install ruby-sidekiq"
        );
        let folder = tempfile::tempdir().context("cannot make a folder for Ruby's files")?;
        Ok(Ruby { url: url.to_owned(), folder, count: AtomicU64::new(0) })
    }

    /// Sidekiq's version, such as `6.4.1`.
    ///
    /// # Errors
    /// When it does not say.
    pub fn version(&self) -> Result<String> {
        let version = self.ask("Sidekiq::VERSION")?;
        Ok(version.as_str().context("a version that is no text")?.to_owned())
    }

    /// Where programs of this test may leave files for each other.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a snippet and answers its value. `Sidekiq::Client`, `Queue`, `RetrySet`, `DeadSet`, `ScheduledSet`,
    /// `ProcessSet`, `Workers` and `Stats` are at hand; what they hold must be made plain, as with
    /// `Sidekiq::Queue.new.map(&:item)`.
    ///
    /// # Errors
    /// When the snippet raises, with what it raised; when it takes too long.
    pub fn ask(&self, snippet: &str) -> Result<Value> {
        let (file, value, log) = (self.file("snippet.rb"), self.file("value.json"), self.file("log"));
        let mut ruby = self.ruby(ASK)?;
        std::fs::write(&file, snippet).context("cannot write the snippet")?;
        let mut program = Program::start(ruby.arg(&file).arg(&value), &log)?;
        let status = program.wait(ASK_LIMIT)?;
        ensure!(status.success(), "Ruby ended with {status} on `{snippet}`: {}", program.tail());
        let json = std::fs::read(&value).context("cannot read what the snippet answered")?;
        serde_json::from_slice(&json).context("the snippet's answer is no JSON")
    }

    /// Starts a worker with the classes in `source`, and waits until it shows itself among the processes.
    ///
    /// # Errors
    /// When it ends instead, with what it printed.
    pub fn work(&self, source: &str, options: &WorkOptions) -> Result<SidekiqWorker> {
        let (file, log) = (self.file("workers.rb"), self.file("log"));
        std::fs::write(&file, format!("{QUIET}{source}")).context("cannot write the workers")?;
        let mut sidekiq = Command::new("sidekiq");
        sidekiq.arg("-r").arg(&file).args(["-e", "production"]);
        sidekiq.args(["-c", &options.concurrency.to_string(), "-t", &options.stop_seconds.to_string()]);
        sidekiq.args(options.queues.iter().flat_map(|queue| ["-q", queue]));
        sidekiq.env("REDIS_URL", &self.url).current_dir(self.folder.path());
        let mut worker = SidekiqWorker { program: Program::start(&mut sidekiq, &log)? };
        self.until_shown(&mut worker)?;
        Ok(worker)
    }

    /// Starts Sidekiq's page and waits until it answers.
    ///
    /// # Errors
    /// When it ends instead, with what it printed.
    pub fn web(&self) -> Result<SidekiqWeb> {
        let (port, log) = (Port::reserve()?, self.file("log"));
        let mut program = Program::start(self.ruby(WEB)?.arg(port.number().to_string()), &log)?;
        wait::until("Sidekiq's page", wait::LIMIT, || {
            if let Some(status) = program.ended()? {
                bail!("Sidekiq's page ended with {status}: {}", program.tail());
            }
            Ok(Browser::at(port.number()).get("/stats").ok())
        })?;
        Ok(SidekiqWeb { _program: program, port })
    }

    fn until_shown(&self, worker: &mut SidekiqWorker) -> Result<()> {
        wait::until("the worker among the processes", wait::LIMIT, || {
            if let Some(status) = worker.program.ended()? {
                bail!("sidekiq ended with {status}: {}", worker.program.tail());
            }
            let ids = self.ask("Sidekiq::ProcessSet.new(false).map { |process| process[\"pid\"] }")?;
            let is_shown = ids.as_array().is_some_and(|ids| ids.contains(&worker.program.id().into()));
            Ok(is_shown.then_some(()))
        })
    }

    /// Ruby with one of our programs.
    fn ruby(&self, source: &str) -> Result<Command> {
        let file = self.file("program.rb");
        std::fs::write(&file, source).context("cannot write the program")?;
        let mut ruby = Command::new("ruby");
        ruby.arg(file).env("REDIS_URL", &self.url).env("RACK_ENV", "production").current_dir(self.folder.path());
        Ok(ruby)
    }

    /// A new file in our folder.
    fn file(&self, name: &str) -> PathBuf {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("{number}-{name}"))
    }
}

impl SidekiqWorker {
    /// Its process id, as Sidekiq's API names it.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.program.id()
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.program.ended()?.is_some())
    }

    /// Asks it to take no more jobs.
    ///
    /// # Errors
    /// When it has ended.
    pub fn quiet(&mut self) -> Result<()> {
        self.program.signal(Signal::TSTP)
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it does not.
    pub fn terminate(&mut self) -> Result<()> {
        self.program.signal(Signal::TERM)?;
        self.program.wait(wait::LIMIT).map(drop)
    }

    /// `kill -9`.
    pub fn kill9(&mut self) {
        self.program.kill();
    }

    /// What it printed.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn printed(&self) -> Result<String> {
        self.program.printed()
    }
}

impl SidekiqWeb {
    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Someone who looks at it.
    #[must_use]
    pub fn browser(&self) -> Browser {
        Browser::at(self.port())
    }
}
