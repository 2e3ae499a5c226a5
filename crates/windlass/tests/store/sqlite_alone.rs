//! What only a file can do: be foreign, damaged, too new, shared, private, full. Not for the other stores, which have
//! no file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass::blocking::block_on;
use windlass::entropy::Entropy;
use windlass::job::{JobId, JobOptions, NewJob, Payload};
use windlass::store::sqlite::{SqliteOptions, SqliteStore};
use windlass::store::{Severity, Store};
use windlass::{StoreError, Timestamp};

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn new_job(store: &dyn Store, entropy: &Entropy) -> NewJob {
    let now = store.now();
    NewJob::new(JobId::new(now, entropy), "kind", Payload::from_bytes("[1]"), now, 0, JobOptions::new()).unwrap()
}

/// A file that must be refused, and must be the same afterwards to the byte.
fn assert_refused(path: &Path, expected: &str) {
    let before = std::fs::read(path).unwrap();
    let error = open(path).unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(std::fs::read(path).unwrap(), before);
}

/// A store's file with some bytes of its header changed.
fn with_header(change: impl Fn(&mut [u8])) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    drop(open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[test]
fn foreign_damaged_and_newer_files_are_refused_and_not_touched() {
    let (_dir, foreign) = with_header(|bytes| bytes[68..72].copy_from_slice(b"else"));
    assert_refused(&foreign, "another program");
    let (_dir, newer) = with_header(|bytes| bytes[60..64].copy_from_slice(&99_i32.to_be_bytes()));
    assert_refused(&newer, "version 99");
    let (_dir, damaged) = with_header(|bytes| bytes[..16].copy_from_slice(b"0123456789abcdef"));
    assert_refused(&damaged, "no SQLite database");
    let (_dir, torn) = with_header(|bytes| bytes[100..].fill(0xa5));
    assert_refused(&torn, "check the file");
}

#[test]
fn jobs_are_there_after_the_store_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let entropy = Entropy::seeded(1);
    let first = open(&path).unwrap();
    let job = new_job(&first, &entropy);
    block_on(first.insert(vec![job.clone()])).unwrap();
    drop(first);

    let second = open(&path).unwrap();

    assert_eq!(block_on(second.get(job.id)).unwrap().unwrap().id, job.id);
    assert_eq!(block_on(second.counts()).unwrap().ready, 1);
}

#[test]
fn several_connections_write_to_one_file_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    drop(open(&path).unwrap());

    let writers: Vec<_> = (0..4)
        .map(|seed| {
            let path = path.clone();
            std::thread::spawn(move || {
                let (store, entropy) = (open(&path).unwrap(), Entropy::seeded(seed));
                for _ in 0..50 {
                    block_on(store.insert(vec![new_job(&store, &entropy)])).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }

    let store = open(&path).unwrap();
    assert_eq!(block_on(store.counts()).unwrap().ready, 200);
    assert!(block_on(store.check()).unwrap().iter().all(|finding| finding.severity == Severity::Good));
}

#[test]
fn a_job_enqueued_through_another_connection_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let (here, there) = (open(&path).unwrap(), open(&path).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    let since = here.ring();
    let waiting = async {
        tokio::join!(here.wait(since, Duration::from_secs(3_600)), async {
            there.insert(vec![new_job(&there, &Entropy::seeded(1))]).await.unwrap();
        })
    };

    // Without the notice this would take an hour.
    assert!(runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), waiting).await }).is_ok());
}

#[cfg(unix)]
#[test]
fn the_file_and_its_companions_may_be_read_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("jobs.db")).unwrap();
    block_on(store.insert(vec![new_job(&store, &Entropy::seeded(1))])).unwrap();

    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap).collect();
    assert!(files.len() >= 2, "the log is missing");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", file.path());
    }
}

#[test]
fn a_row_that_somebody_spoiled_by_hand_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(open(&dir.path().join("jobs.db")).unwrap());
    let job = NewJob { payload: Payload::from_bytes("[not json"), ..new_job(&*store, &Entropy::seeded(1)) };
    let id = job.id;

    block_on(store.insert(vec![job, new_job(&*store, &Entropy::seeded(2))])).unwrap();

    assert_eq!(block_on(store.get(id)).unwrap().unwrap().payload.as_bytes(), b"[not json");
    assert_eq!(block_on(store.counts()).unwrap().ready, 2);
    assert!(store.now() > Timestamp::EPOCH);
}
