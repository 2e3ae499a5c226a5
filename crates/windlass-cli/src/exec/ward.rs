//! A program under guard, as the server sees it.
//!
//! Dropping a [`Ward`] closes the pipe, which the guard takes as the end of the server: it ends the program. So a
//! run whose handler is dropped, because it took longer than its grace, leaves nothing behind either.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::exec::request::{END, Report, Request};

/// The server's end of a guard.
#[derive(Debug)]
pub(super) struct Ward {
    guard: Child,
    control: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
    /// The program's process group, once it is known.
    group: Option<Pid>,
}

impl Ward {
    /// Starts a guard and tells it what to run.
    pub(super) async fn start(request: &Request) -> io::Result<Ward> {
        let mut guard = Command::new(own_image()?)
            .arg0("windlass")
            .arg(super::guard::COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let (control, reports) = (guard.stdin.take(), guard.stdout.take());
        let (Some(control), Some(reports)) = (control, reports) else { unreachable!("both were asked for") };
        let mut ward = Ward { guard, control, reports: BufReader::new(reports).lines(), group: None };
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        ward.control.write_all(&line).await?;
        Ok(ward)
    }

    /// Waits for the end of the program, and answers how it ended. May be dropped and called again.
    pub(super) async fn report(&mut self) -> io::Result<Report> {
        while let Some(line) = self.reports.next_line().await? {
            match serde_json::from_str(&line)? {
                Report::Started { group } => self.group = Pid::from_raw(group),
                report => return Ok(report),
            }
        }
        // The pipe has ended without a report. The guard cannot be asked any more to see to its program.
        if let Some(group) = self.group {
            // It may have ended by itself.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let status = self.guard.wait().await?;
        tracing::warn!(%status, "the guard of an exec job ended without a report");
        Ok(Report::GuardLost)
    }

    /// Tells the guard to end the program.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        match self.control.write_all(END).await {
            // It is about to report that there is nothing to end.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            told => told,
        }
    }
}

/// This program, as it was when it was started: the file may have been replaced or removed since.
pub(super) fn own_image() -> io::Result<PathBuf> {
    let image = PathBuf::from("/proc/self/exe");
    if image.exists() { Ok(image) } else { std::env::current_exe() }
}
