//! Hears that jobs have become ready, also those that others have put there.
//!
//! While somebody waits, one connection of its own asks the server to say whenever a queue changes (client tracking in
//! broadcast mode): nothing is polled. It is switched off again when much news has come that nobody waited for, so
//! that a busy process is not told of every change of every queue. A job that came in between the last look and the switching on is
//! not missed: the first to wait is woken as soon as the ear is open, and looks again.
//!
//! Silence is news too: while the ear is open and hears nothing, a look that found nothing need not be repeated
//! ([`Bell::is_quiet`]), so an idle process asks the server next to nothing.
//!
//! A server or a proxy without tracking costs only time: then a wait ends when its time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, Value, cmd,
};
use tokio::sync::{Mutex, mpsc, watch};

use crate::clock::Stopwatch;
use crate::store::redis::address::Address;
use crate::store::redis::keys::Keys;
use crate::store::redis::link::{Link, login};

/// How long switching on may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// News in a row that nobody waited for, after which the ear is shut.
const UNWANTED_MAX: u32 = 256;

/// How long silence is taken for an answer.
const QUIET_TIME_MAX: Duration = Duration::from_secs(10);

/// How soon it is tried again to open the ear.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts the times that jobs became ready, as far as this process has heard.
#[derive(Debug)]
pub(super) struct Bell {
    address: Arc<Address>,
    /// What jobs become ready in.
    prefixes: Vec<String>,
    /// What jobs wait for their time in.
    waiting_rooms: Vec<String>,
    rings: watch::Sender<u64>,
    waiting: AtomicUsize,
    is_open: AtomicBool,
    /// Counts what was heard, and what was done here.
    news: AtomicU64,
    ear: Mutex<Ear>,
}

/// What had been heard at some moment, by an ear that was open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    news: u64,
    since: Stopwatch,
}

/// The connection that listens.
#[derive(Debug, Default)]
enum Ear {
    /// Nobody listens.
    #[default]
    Shut,
    /// It listens: dropping the connection ends that.
    Open(#[expect(dead_code, reason = "held so that it stays open")] MultiplexedConnection),
    /// It could not be opened a moment ago.
    Failed(Stopwatch),
}

impl Bell {
    pub(super) fn new(address: Arc<Address>, keys: &Keys, rings: watch::Sender<u64>) -> Bell {
        let prefixes = ["queue:", "wl:suspects:", "paused"].map(|name| keys.key(name)).to_vec();
        let waiting_rooms = vec![keys.schedule(), keys.retry()];
        let (waiting, is_open, news) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
        Bell { address, prefixes, waiting_rooms, rings, waiting, is_open, news, ear: Mutex::default() }
    }

    pub(super) fn ring(&self) {
        self.note();
        self.rings.send_modify(|rings| *rings += 1);
    }

    /// Notes that something has changed, without waking anybody.
    pub(super) fn note(&self) {
        // ORDER: SeqCst, with the load in `heard` and in `is_quiet`: what was looked at before is not taken for new.
        self.news.fetch_add(1, Ordering::SeqCst);
    }

    /// What has been heard so far. `None` while nobody listens. To be asked before one looks.
    pub(super) fn heard(&self) -> Option<Heard> {
        // ORDER: SeqCst, as in `note`.
        let is_open = self.is_open.load(Ordering::SeqCst);
        is_open.then(|| Heard { news: self.news.load(Ordering::SeqCst), since: Stopwatch::start() })
    }

    /// Whether nothing has changed since, as far as an open ear can tell: then another look would find the same. Never
    /// for longer than [`QUIET_TIME_MAX`], for an ear may have gone deaf.
    pub(super) fn is_quiet(&self, heard: &Heard) -> bool {
        // ORDER: SeqCst, as in `note`.
        let is_open = self.is_open.load(Ordering::SeqCst);
        is_open && self.news.load(Ordering::SeqCst) == heard.news && heard.since.elapsed() < QUIET_TIME_MAX
    }

    /// Makes sure that somebody listens while the caller waits.
    pub(super) async fn listen(self: &Arc<Bell>, link: &Link) -> Waiting {
        // ORDER: SeqCst, with the load in `hear`: either the listener sees us waiting, or we see that it has shut.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(Arc::clone(self));
        let mut ear = self.ear.lock().await;
        let is_due = match &*ear {
            Ear::Shut => true,
            Ear::Open(_) => false,
            Ear::Failed(since) => since.elapsed() > PAUSE,
        };
        if is_due {
            *ear = match self.open(link).await {
                Some(connection) => {
                    // What came in before we listened was not heard.
                    self.is_open.store(true, Ordering::SeqCst);
                    self.ring();
                    Ear::Open(connection)
                }
                None => Ear::Failed(Stopwatch::start()),
            };
        }
        waiting
    }

    /// Opens a connection and has the server tell it of changes. `None` when that does not work now.
    async fn open(self: &Arc<Bell>, link: &Link) -> Option<MultiplexedConnection> {
        let (news, heard) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_TIME_MAX))
            .set_response_timeout(Some(ANSWER_TIME_MAX))
            .set_push_sender(news);
        let place: ConnectionAddr = link.place().await?;
        let info = place.into_connection_info().ok()?;
        let info = info.set_redis_settings(login(&self.address).set_protocol(ProtocolVersion::RESP3));
        let client = Client::open(info).ok()?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
        let mut track = cmd("CLIENT");
        track.arg("TRACKING").arg("ON").arg("BCAST");
        for prefix in self.prefixes.iter().chain(&self.waiting_rooms) {
            track.arg("PREFIX").arg(prefix);
        }
        track.exec_async(&mut connection).await.ok()?;
        tokio::spawn(Arc::clone(self).hear(heard));
        Some(connection)
    }

    /// Whether the news is of anything but jobs that wait for their time.
    fn is_about_ready_jobs(&self, news: &PushInfo) -> bool {
        let is_waiting_room = |key: &Value| match key {
            Value::BulkString(key) => self.waiting_rooms.iter().any(|room| room.as_bytes() == key),
            _ => false,
        };
        !matches!(&news.data[..], [Value::Array(keys)] if keys.iter().all(is_waiting_room))
    }

    /// Rings for every change, until nobody waits for it or the connection ends.
    async fn hear(self: Arc<Bell>, mut heard: mpsc::UnboundedReceiver<PushInfo>) {
        let mut unwanted = 0;
        while unwanted < UNWANTED_MAX
            && let Some(news) = heard.recv().await
        {
            match news.kind {
                PushKind::Invalidate if self.is_about_ready_jobs(&news) => self.ring(),
                PushKind::Invalidate => self.note(),
                PushKind::Disconnection => break,
                _ => continue,
            }
            // ORDER: SeqCst, with the addition in `listen`.
            unwanted = if self.waiting.load(Ordering::SeqCst) == 0 { unwanted + 1 } else { 0 };
        }
        self.is_open.store(false, Ordering::SeqCst);
        *self.ear.lock().await = Ear::Shut;
        // Who began to wait in this very moment must not wait for an ear that is shut.
        self.ring();
    }
}

/// Somebody who waits. Counted until it is dropped.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Bell>);

impl Drop for Waiting {
    fn drop(&mut self) {
        // ORDER: SeqCst, as in `listen`.
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
