//! A disk that fills up while jobs are running, and has room again later.
//!
//! The store lies on a small file system in memory, which only root may mount; elsewhere the scenario says that it
//! was skipped.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use windlass::server::Server;
use windlass::state::State as JobState;
use windlass::{Client, Error, Handlers, Inspector, Job, JobOptions, ServerConfig, State, StoreError};

use serde::{Deserialize, Serialize};

/// A job that ends when it is let go.
#[derive(Serialize, Deserialize, Job)]
#[job(kind = "gated", keep_done = "1h")]
struct Gated {
    filling: String,
}

struct Gate {
    begun: AtomicU32,
    open: Semaphore,
}

async fn gated(_: Gated, gate: State<Gate>) {
    gate.begun.fetch_add(1, Ordering::SeqCst);
    gate.open.acquire().await.expect("the gate is never closed").forget();
}

pub(crate) fn fills_and_drains() {
    let dir = tempfile::tempdir().expect("a folder to mount on");
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        println!("skipped: only root may mount the small file system this needs");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(fill_and_drain(&disk));
}

async fn fill_and_drain(disk: &SmallDisk<'_>) {
    let store = windlass::open(&format!("sqlite:{}", disk.path.join("jobs.db").display())).expect("the store");
    let (client, inspector) = (Client::new(Arc::clone(&store)), Inspector::new(Arc::clone(&store)));
    let gate = Arc::new(Gate { begun: AtomicU32::new(0), open: Semaphore::new(0) });
    let handlers = Handlers::new().on(gated).shared_state(Arc::clone(&gate));
    let config = ServerConfig { lease: Duration::from_secs(1), ..ServerConfig::default() };
    let server = Server::new(Arc::clone(&store), handlers, config).expect("a server").start().await.expect("a start");
    let filling = "x".repeat(1_000);
    for _ in 0..20 {
        client.enqueue(&Gated { filling: filling.clone() }).await.expect("room for twenty jobs");
    }
    until("twenty jobs are running", async || gate.begun.load(Ordering::SeqCst) == 20).await;

    // The disk fills; enqueueing says so; what was accepted until then is counted.
    disk.fill();
    let mut accepted = 20;
    let refusal = loop {
        match client.with(JobOptions::new().queue("other")).enqueue(&Gated { filling: filling.clone() }).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 10_000, "the disk does not fill");
    };
    assert!(matches!(refusal, Error::Store(StoreError::Full { .. })), "{refusal}");
    assert!(refusal.to_string().contains("space"), "{refusal}");

    // The handlers end while there is no room, for longer than the lease; then there is room again.
    gate.open.add_permits(20);
    until("the handlers have ended", async || server.stats().running == 0).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    disk.make_room();
    until("the acks of the running jobs have landed", async || {
        inspector.counts().await.is_ok_and(|counts| counts.done == 20)
    })
    .await;

    let counts = inspector.counts().await.expect("counts");
    assert_eq!(counts.of(JobState::Done) + counts.of(JobState::Ready), accepted, "{counts:?}");
    assert_eq!(gate.begun.load(Ordering::SeqCst), 20, "a job ran twice");
    assert!(server.stop().await.is_clean);
    store.close().await.expect("the store closes");
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let since = Instant::now();
    while !holds().await {
        assert!(since.elapsed() < Duration::from_secs(30), "still not true: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A file system of two mebibytes in memory. Unmounted when it is dropped.
struct SmallDisk<'a> {
    path: &'a Path,
}

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path) -> Option<SmallDisk<'a>> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "windlass-test"]).arg(path).output();
        mounted.ok()?.status.success().then_some(SmallDisk { path })
    }

    /// Takes all the room there is.
    fn fill(&self) {
        // The write fails when nothing is left: that is what it is for.
        let _ = std::fs::write(self.path.join("filler"), vec![0_u8; 4 << 20]);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path.join("filler")).expect("the filler");
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "cannot unmount {:?}", self.path);
    }
}
