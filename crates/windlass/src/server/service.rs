//! What a service is, and the only loops that wait.
//!
//! The server is a handful of services: fetcher, acker, poller, reaper, pruner, recorder, heartbeat. Each is a value with a
//! [`Service::tick`] that does a bounded piece of work and says when it wants to be called again. It neither sleeps
//! nor loops by itself, so a test can drive every service of a server in one thread, with a clock it moves by hand.
//!
//! In production [`drive`] calls the ticks of one service on the I/O runtime, and [`drive_on_thread`] does it on an
//! OS thread of its own, for the heartbeat, which no busy handler may starve. Both are supervisors: a tick that
//! panics is reported and tried again after [`RESTART_DELAY`], because a service that dies in silence is a queue
//! that is never polled again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::sync::watch;

use crate::blocking::block_on;
use crate::server::unwind;

/// How long a service that panicked is left alone.
pub(crate) const RESTART_DELAY: Duration = Duration::from_secs(1);

/// When a service wants its next tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// At once: there is more to do.
    Now,
    /// After this long, whatever happens.
    After(Duration),
    /// When its bell rings, or after this long.
    WhenRung(Duration),
}

/// An answer on its way, borrowed from the service.
pub(crate) type Ticking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A part of the server that does a little work again and again.
pub(crate) trait Service: Send {
    /// Its name, for logs and thread names.
    fn name(&self) -> &'static str;

    /// Does a bounded piece of work. Errors are handled inside, with a back-off told by the answer.
    fn tick(&mut self) -> Ticking<'_, Next>;

    /// Answers when there may be something to do before the time told by [`Next::WhenRung`].
    fn rung(&self) -> Ticking<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// How often services had to be restarted. Shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Supervision {
    restarts: AtomicU64,
}

impl Supervision {
    /// Ticks that panicked since the server started.
    pub(crate) fn restarts(&self) -> u64 {
        // ORDER: Relaxed; a counter for people.
        self.restarts.load(Ordering::Relaxed)
    }

    fn note_panic(&self, service: &str, message: &str) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        tracing::error!(service, message, "a service panicked; it is restarted in 1 s");
    }
}

/// Calls the ticks of a service until `stop` becomes true.
pub(crate) async fn drive(mut service: Box<dyn Service>, mut stop: watch::Receiver<bool>, watch: Arc<Supervision>) {
    while !*stop.borrow_and_update() {
        let next = supervised_tick(service.as_mut(), &watch).await;
        match next {
            Next::Now => tokio::task::yield_now().await,
            Next::After(delay) => tokio::select! {
                () = tokio::time::sleep(delay) => {}
                _ = stop.changed() => {}
            },
            Next::WhenRung(at_most) => tokio::select! {
                () = service.rung() => {}
                () = tokio::time::sleep(at_most) => {}
                _ = stop.changed() => {}
            },
        }
    }
}

/// Calls the ticks of a service on this thread until the sender of `stop` is dropped. The bell is not heard here:
/// the longest wait is waited.
pub(crate) fn drive_on_thread(mut service: Box<dyn Service>, stop: &Receiver<()>, watch: &Supervision) {
    loop {
        let delay = match block_on(supervised_tick(service.as_mut(), watch)) {
            Next::Now => Duration::ZERO,
            Next::After(delay) | Next::WhenRung(delay) => delay,
        };
        match stop.recv_timeout(delay) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

async fn supervised_tick(service: &mut dyn Service, watch: &Supervision) -> Next {
    let name = service.name();
    match unwind::catch(service.tick()).await {
        Ok(next) => next,
        Err(message) => {
            watch.note_panic(name, &message);
            Next::After(RESTART_DELAY)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Clumsy {
        ticks: Arc<AtomicU64>,
    }

    impl Service for Clumsy {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        fn tick(&mut self) -> Ticking<'_, Next> {
            Box::pin(async {
                let tick = self.ticks.fetch_add(1, Ordering::SeqCst);
                assert!(tick > 0, "the first tick stumbles");
                Next::After(Duration::from_secs(3_600))
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_panics_is_called_again() {
        let (ticks, watch) = (Arc::new(AtomicU64::new(0)), Arc::new(Supervision::default()));
        let (stop, stopped) = watch::channel(false);

        let service = Box::new(Clumsy { ticks: Arc::clone(&ticks) });
        let driven = tokio::spawn(drive(service, stopped, Arc::clone(&watch)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.send(true).unwrap();
        driven.await.unwrap();

        assert_eq!(ticks.load(Ordering::SeqCst), 2);
        assert_eq!(watch.restarts(), 1);
    }
}
