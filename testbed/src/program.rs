//! A started program, and who ends it.
//!
//! A [`Program`] is ended when it is dropped. A test can end without dropping anything, by `kill -9` or by a limit on
//! its time, so each program has an undertaker: a shell that reads from a pipe which only this process holds. When this
//! process is gone the pipe ends, and the shell kills the program by its id. As long as this process lives the id
//! cannot be given to another, because the child is waited for here and only after its undertaker was sent home.
//!
//! What a program prints goes to a file, and the end of it into the message of the error.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use crate::wait;

/// How much of a log is shown in an error.
const TAIL_LEN: usize = 2_000;

/// A child process with its log. Ended when it is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    undertaker: Child,
    ended: Option<ExitStatus>,
    log: PathBuf,
    name: String,
}

impl Program {
    /// Starts `command`; both its outputs go to the file `log`, at whose end they are added.
    ///
    /// # Errors
    /// When it cannot be started: it is not there, or the log cannot be written.
    pub fn start(command: &mut Command, log: &Path) -> Result<Program> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("cannot write the log {}", log.display()))?;
        let errors = file.try_clone().with_context(|| format!("cannot share the log {}", log.display()))?;
        // A group of its own: an interrupt at the terminal is for the test, which then sees to its programs.
        command.stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0);
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let undertaker = match undertaker_of(child.id()) {
            Ok(undertaker) => undertaker,
            Err(error) => {
                end(&mut child);
                return Err(error);
            }
        };
        Ok(Program { child, undertaker, ended: None, log: log.to_owned(), name })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, or `None` while it runs.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().with_context(|| format!("cannot ask for the end of {}", self.name))?;
        }
        Ok(self.ended)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// When it has not within `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {} (process {})", self.name, self.id());
        wait::until(&what, limit, || self.ended())
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        anyhow::ensure!(
            self.ended()?.is_none(),
            "cannot send {signal:?} to {}: it has ended: {}",
            self.name,
            self.tail()
        );
        rustix::process::kill_process(pid, signal).with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    /// Halts it, and waits until all of it stands still.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // Only looked at: an end is left for `ended` to find.
        let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let stopped = rustix::process::waitid(WaitId::Pid(Pid::from_child(&self.child)), what);
        stopped.with_context(|| format!("cannot wait for {} to stop", self.name))?;
        anyhow::ensure!(self.ended()?.is_none(), "{} ended before it was stopped: {}", self.name, self.tail());
        Ok(())
    }

    /// Lets it go on after [`Program::stop`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn go_on(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// `kill -9`, and waits until it is gone. Nothing happens when it has ended already.
    pub fn kill(&mut self) {
        end(&mut self.undertaker);
        if self.ended.is_none() {
            end(&mut self.child);
            self.ended = self.child.try_wait().ok().flatten();
        }
    }

    /// The end of what it printed.
    #[must_use]
    pub fn tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let from = text.len().saturating_sub(TAIL_LEN);
        String::from_utf8_lossy(&text[from..]).into_owned()
    }

    /// All that it printed, both outputs.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn printed(&self) -> Result<String> {
        let text = std::fs::read(&self.log).with_context(|| format!("cannot read the log {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Kills a child and waits for it.
fn end(child: &mut Child) {
    // An error of either says that it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// The shell that outlives this process by as long as it takes to kill `id`.
fn undertaker_of(id: u32) -> Result<Child> {
    let script = "trap '' INT TERM HUP; read -r _; kill -9 \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "undertaker", &id.to_string()]).process_group(0);
    // The pipe's other end stays in the `Child`, and is closed in all other programs that are started here.
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().context("cannot start the undertaker, a shell")
}

/// Whether a program is on the path, or is a file.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
