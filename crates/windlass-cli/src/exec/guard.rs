//! The guard: a small process between the server and one program, which sees to it that the program ends.
//!
//! Its walk: leave the server's terminal, become the parent of whatever the program orphans, read the request, start
//! the program in a process group of its own, wait for its end or for a reason to end it, kill what is left, report.
//!
//! The program itself is started through one step more, [`start`]: the same binary asks the kernel to be killed with
//! its guard, and becomes the program. So the program ends even when server and guard are killed at once. (The guard
//! could ask this for its child only between fork and exec, where no safe code runs.)
//!
//! A guard has one thread. Its parenthood and the kernel's promise are bound to it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitOptions};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::exec::capture::{Capture, Captured};
use crate::exec::request::{Ended, Report, Request};
use crate::exec::ward::own_image;

/// The first word on the command line of a guard.
pub(super) const COMMAND: &str = "exec-guard";
/// The first word on the command line of what becomes the program; then come the guard's process id, the program's
/// path, and its arguments from its own name on.
const COMMAND_START: &str = "exec-start";
/// Between two looks whether a process group is empty.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long what was killed may take to be gone.
const SWEEP_TIME: Duration = Duration::from_secs(1);
/// How long the outputs may stay open when everything that was known has ended.
const OUTPUT_TIME: Duration = Duration::from_millis(200);
/// The exit code when the program cannot be started, as shells have it.
const CANNOT_START: i32 = 127;

/// What a guard hears from its server.
type Control = BufReader<pipe::Receiver>;

/// Plays the part that the command line names, if it names one: guard, or what becomes the program.
pub(crate) fn play_part(mut words: impl Iterator<Item = OsString>) -> Option<anyhow::Result<()>> {
    match words.next()?.to_str()? {
        COMMAND => Some(run()),
        COMMAND_START => Some(start(words)),
        _ => None,
    }
}

/// Guards one program, as the request on standard input says.
fn run() -> anyhow::Result<()> {
    leave_the_server();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(guard())
}

/// Becomes the program, to be killed with its guard.
fn start(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let guard = words.next().and_then(|id| id.to_str()?.parse().ok());
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("cannot be bound to the guard")?;
    // It may have been killed before that.
    let parent = rustix::process::getppid().map(Pid::as_raw_pid);
    anyhow::ensure!(parent.is_some() && parent == guard, "the guard is gone");
    let program = words.next().context("no program")?;
    let name = words.next().context("no name for the program")?;
    let error = std::process::Command::new(&program).arg0(name).args(words).exec();
    crate::output::error(&format!("windlass: cannot start {}: {error}", program.display()));
    std::process::exit(CANNOT_START)
}

/// A session of its own, away from the terminal's signals; and whatever its program orphans becomes its child.
fn leave_the_server() {
    // Refused only to a leader of a group, who has no server to leave.
    let _ = rustix::process::setsid();
    // Where it is refused, processes that left their group are not found; the group still is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

async fn guard() -> anyhow::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdin = pipe::Receiver::from_owned_fd(stdin).context("exec-guard is started by `windlass serve`")?;
    let mut control = BufReader::new(stdin);
    let mut line = Vec::new();
    control.read_until(b'\n', &mut line).await?;
    // A server that was killed before it could say all has nothing run.
    if line.last() != Some(&b'\n') {
        return Ok(());
    }
    let mut request: Request = serde_json::from_slice(&line).context("cannot read the request")?;
    let since = Instant::now();
    let child = match command(&request).spawn() {
        Ok(child) => child,
        Err(error) => {
            let error = format!("cannot start {}: {error}", request.program.display());
            return report(&Report::NotStarted { error });
        }
    };
    let group = child.id().and_then(|id| Pid::from_raw(id as i32)).context("the program has no id")?;
    report(&Report::Started { group: group.as_raw_pid() })?;
    let program = Program::watch(child, group, request.stdin.take());
    let ended = program.until_ended(&mut control, &request, since).await?;
    report(&Report::Ended(ended))
}

/// The program's command line: itself, through the step that binds it to this guard.
fn command(request: &Request) -> Command {
    let image = own_image().unwrap_or_else(|_| "windlass".into());
    let mut command = Command::new(image);
    command.arg0("windlass").arg(COMMAND_START).arg(std::process::id().to_string());
    command.arg(&request.program).args(&request.argv);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
        command.env_remove(name);
    }
    command.envs(&request.environment);
    if let Some(cwd) = &request.cwd {
        command.current_dir(cwd);
    }
    let stdin = if request.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Whether a variable is for the server alone: an address of a store may have a password in it.
fn is_ours(name: &std::ffi::OsStr) -> bool {
    name == "REDIS_URL" || name.as_encoded_bytes().starts_with(b"WINDLASS_")
}

/// Answers the server. When it is gone, nobody is left to tell.
fn report(report: &Report) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    match io::stdout().write_all(&line).and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => Ok(told?),
    }
}

/// A program that was started.
struct Program {
    child: Child,
    group: Pid,
    stdout: Output,
    stderr: Output,
}

impl Program {
    /// Feeds it and reads what it prints.
    fn watch(mut child: Child, group: Pid, input: Option<String>) -> Program {
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            tokio::spawn(async move {
                // A program need not read its input to the end, nor at all.
                let _ = stdin.write_all(input.as_bytes()).await;
            });
        }
        let (stdout, stderr) = (Output::read(child.stdout.take()), Output::read(child.stderr.take()));
        Program { child, group, stdout, stderr }
    }

    /// Waits until it and all it started have ended, by themselves or because they were made to.
    async fn until_ended(mut self, control: &mut Control, request: &Request, since: Instant) -> io::Result<Ended> {
        let mut told = std::pin::pin!(reason_to_end(control));
        let status = tokio::select! {
            status = self.child.wait() => status?,
            reason = &mut told => {
                let grace_ms = match reason? {
                    Reason::Told => request.grace_ms,
                    Reason::ServerGone => request.orphan_grace_ms,
                };
                self.end(Duration::from_millis(grace_ms)).await?
            }
        };
        let has_survivors = !sweep(self.group).await;
        Ok(Ended {
            code: status.code(),
            signal: status.signal(),
            ran_ms: since.elapsed().as_millis() as u64,
            stdout: self.stdout.finish().await,
            stderr: self.stderr.finish().await,
            has_survivors,
        })
    }

    /// TERM to the group; KILL to the program if it has not ended within the grace. The rest of the group has the
    /// same grace: a shell that ends at once must not cost what it started the time to end well.
    async fn end(&mut self, grace: Duration) -> io::Result<ExitStatus> {
        let until = tokio::time::Instant::now() + grace;
        signal_group(self.group, Signal::TERM);
        if let Ok(status) = tokio::time::timeout_at(until, self.child.wait()).await {
            while reap_and_look(self.group) && tokio::time::Instant::now() < until {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            return status;
        }
        signal_group(self.group, Signal::KILL);
        self.child.wait().await
    }
}

/// Why a program is to be ended.
enum Reason {
    /// The server, or somebody who sent the guard a signal, says so.
    Told,
    /// There is no server any more.
    ServerGone,
}

async fn reason_to_end(control: &mut Control) -> io::Result<Reason> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        order = control.read_u8() => Ok(if order.is_ok() { Reason::Told } else { Reason::ServerGone }),
        _ = terminate.recv() => Ok(Reason::Told),
        _ = interrupt.recv() => Ok(Reason::Told),
        _ = hang_up.recv() => Ok(Reason::Told),
    }
}

fn signal_group(group: Pid, signal: Signal) {
    // Nobody is left in it, or none who may be signalled: `sweep` finds out.
    let _ = rustix::process::kill_process_group(group, signal);
}

/// Kills what the program left behind, in its group or out of it, and answers whether all of it is gone. Called when
/// the program itself has been waited for.
async fn sweep(group: Pid) -> bool {
    let until = Instant::now() + SWEEP_TIME;
    loop {
        signal_group(group, Signal::KILL);
        let is_group_left = reap_and_look(group);
        let orphans = children();
        if !is_group_left && orphans.is_empty() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        for orphan in orphans {
            // One that has just ended by itself is what was wanted.
            let _ = rustix::process::kill_process(orphan, Signal::KILL);
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Takes note of the ends of orphans, and answers whether anybody is left in the group.
fn reap_and_look(group: Pid) -> bool {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    rustix::process::test_kill_process_group(group).is_ok()
}

/// The processes that have become this one's children. None where the system does not say.
fn children() -> Vec<Pid> {
    let text = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// An output that is being read.
struct Output {
    capture: Arc<Mutex<Capture>>,
    reader: JoinHandle<()>,
}

impl Output {
    fn read(from: Option<impl AsyncRead + Unpin + Send + 'static>) -> Output {
        let capture = Arc::new(Mutex::new(Capture::default()));
        let kept = Arc::clone(&capture);
        let reader = tokio::spawn(async move {
            let Some(mut from) = from else { return };
            let mut piece = vec![0; 16 << 10];
            while let Ok(len @ 1..) = from.read(&mut piece).await {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(&piece[..len]);
            }
        });
        Output { capture, reader }
    }

    /// What was printed. Whoever still holds the output open then has not been killed, and is not waited for.
    async fn finish(self) -> Captured {
        let abort = self.reader.abort_handle();
        if tokio::time::timeout(OUTPUT_TIME, self.reader).await.is_err() {
            abort.abort();
        }
        self.capture.lock().unwrap_or_else(PoisonError::into_inner).finish()
    }
}
