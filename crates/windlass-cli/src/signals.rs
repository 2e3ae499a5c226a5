//! Signals, as a server hears them.
//!
//! TERM and INT stop gracefully, a second one stops at once; TSTP makes quiet; TTIN prints what is running. Elsewhere
//! than on Unix there is Ctrl-C only. An order to stop that came through the store is obeyed as TERM is.

use windlass::server::RunningServer;

use crate::output;

/// Waits for a request to stop, obeying the other signals meanwhile.
#[cfg(unix)]
pub(crate) async fn until_stop(server: &RunningServer) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // SIGTSTP and SIGTTIN have no names in the library; their numbers are the same on every Unix.
    let mut quiet = signal(SignalKind::from_raw(20))?;
    let mut dump = signal(SignalKind::from_raw(21))?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = server.stop_asked() => {
                output::error("windlass: ordered to stop");
                return Ok(());
            }
            _ = quiet.recv() => {
                server.quiet();
                output::error("windlass: quiet: no more jobs are leased");
            }
            _ = dump.recv() => dump_running(server),
        }
    }
}

/// Waits for a request to stop.
#[cfg(not(unix))]
pub(crate) async fn until_stop(server: &RunningServer) -> std::io::Result<()> {
    tokio::select! {
        heard = tokio::signal::ctrl_c() => heard,
        () = server.stop_asked() => Ok(()),
    }
}

/// Waits for a signal to stop, and obeys no other: for a program without a server, and for one that is stopping already, to
/// which it means at once.
#[cfg(unix)]
pub(crate) async fn until_stop_signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

/// Waits for a signal to stop, and obeys no other: for a program without a server, and for one that is stopping already, to
/// which it means at once.
#[cfg(not(unix))]
pub(crate) async fn until_stop_signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

fn dump_running(server: &RunningServer) {
    let running = server.dump();
    output::error(&format!("windlass: {} jobs running", running.len()));
    for line in running {
        output::error(&output::printable(&line));
    }
}
