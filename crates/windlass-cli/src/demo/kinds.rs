//! The kinds of job the demo runs, and their handlers.
//!
//! | kind | runs on | does |
//! |---|---|---|
//! | `demo.scan` | the CPU pool | walks the folder, enqueues one job a file, one a folder, and the sum |
//! | `demo.checksum` | the CPU pool | reads one file: its bytes, lines and CRC-32 |
//! | `demo.folder` | the I/O runtime | counts one folder's entries; the first and every fifth fail at first and are retried a second later |
//! | `demo.sum` | the I/O runtime | snoozes until the others have ended, then sums their kept results up |
//!
//! Being killed anywhere changes nothing in the end. The ids of a scan's jobs are made from the scan's own id and
//! the path, so a scan that runs again enqueues nothing twice; the sum reads each kept result once.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::job::{JobId, NewJob};
use windlass::outcome::{IntoOutcome, Json, Outcome};
use windlass::retry::RetryPolicy;
use windlass::state::State as JobState;
use windlass::store::{JobQuery, PAGE_LEN_MAX};
use windlass::{Client, Context, HandlerError, Handlers, Inspector, Job, JobOptions};

/// The queue of the demo's jobs.
pub(crate) const QUEUE: &str = "demo";
/// The queue of the scan and the sum, so that the sum does not wait behind a hundred thousand files.
pub(crate) const QUEUE_CONTROL: &str = "demo.control";
/// How long the demo's jobs and their results are kept.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// How long the sum sleeps between two looks.
const SNOOZE: Duration = Duration::from_millis(300);
/// Jobs enqueued in one step of the scan.
const BATCH_LEN: usize = 1_000;
/// Of so many folders, one fails at its first attempt.
const ONE_FAILS_IN: u64 = 5;

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "demo.scan", queue = "demo.control", keep_done = "24h", attempts = 3, retry = "fixed(200ms)")]
pub(crate) struct Scan {
    pub(crate) root: PathBuf,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "demo.checksum", queue = "demo", keep_done = "24h", attempts = 3, retry = "fixed(200ms)")]
pub(crate) struct Checksum {
    pub(crate) scan: JobId,
    pub(crate) path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "demo.folder", queue = "demo", keep_done = "24h", attempts = 5, retry = "fixed(1s)")]
pub(crate) struct Folder {
    pub(crate) scan: JobId,
    pub(crate) path: PathBuf,
    /// Whether the scan began here.
    #[serde(default)]
    pub(crate) is_root: bool,
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "demo.sum", queue = "demo.control", keep_done = "24h")]
pub(crate) struct Sum {
    pub(crate) scan: JobId,
}

/// What a scan found. Its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) files: u64,
    pub(crate) folders: u64,
    pub(crate) unreadable: u64,
}

/// One file. The result of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFacts {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) crc32: u32,
}

/// The sum over all files. The result of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    /// All checksums combined so that the order does not matter.
    pub(crate) checksum: u64,
    pub(crate) folders: u64,
    /// Jobs that ended among the dead: files that vanished or may not be read.
    pub(crate) dead: u64,
    /// Attempts beyond the first.
    pub(crate) retries: u64,
}

/// Every handler of the demo.
pub(crate) fn handlers() -> Handlers {
    Handlers::new().cpu(scan).cpu(checksum).on(folder).on(sum)
}

/// The id of the job for `path` in the scan `scan`: the same whenever it is asked for.
fn id_for(scan: JobId, path: &Path) -> JobId {
    let mut bytes = *scan.as_bytes();
    let digest = fnv1a(scan.as_bytes(), path.as_os_str().as_encoded_bytes());
    bytes[6..].copy_from_slice(&digest.to_be_bytes()[2..]);
    JobId::from_bytes(bytes)
}

/// Stands for the sum where paths stand for files; no path has this name.
const NAME_OF_THE_SUM: &str = "\0sum";

/// The id of the sum over a scan.
pub(crate) fn sum_id(scan: JobId) -> JobId {
    id_for(scan, Path::new(NAME_OF_THE_SUM))
}

/// FNV-1a over both texts, with a final mix so that its upper bits may be used. To tell ids apart, not to keep
/// anybody from guessing them.
fn fnv1a(salt: &[u8], text: &[u8]) -> u64 {
    let hash = salt
        .iter()
        .chain(text)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash ^ (hash >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn scan(scan: Scan, ctx: Context) -> Result<Json<Found>, HandlerError> {
    let mut found = Found { files: 0, folders: 0, unreadable: 0 };
    let mut batch = Vec::new();
    let mut folders = vec![scan.root.clone()];
    while let Some(path) = folders.pop() {
        if let Some(cause) = ctx.cancel_cause() {
            return Err(HandlerError::msg(format!("the scan was interrupted: {cause}")));
        }
        match read_folder(&path) {
            Err(_) => found.unreadable += 1,
            Ok((inner_folders, files)) => {
                found.folders += 1;
                found.files += files.len() as u64;
                folders.extend(inner_folders);
                for file in files {
                    batch.push(new_job(&ctx, &file, &Checksum { scan: ctx.id(), path: file.clone() })?);
                }
                batch.push(new_job(
                    &ctx,
                    &path,
                    &Folder { scan: ctx.id(), is_root: path == scan.root, path: path.clone() },
                )?);
            }
        }
        if batch.len() >= BATCH_LEN {
            insert(ctx.client(), &mut batch)?;
        }
    }
    batch.push(new_job(&ctx, Path::new(NAME_OF_THE_SUM), &Sum { scan: ctx.id() })?);
    insert(ctx.client(), &mut batch)?;
    Ok(Json(found))
}

fn new_job<J: Job>(ctx: &Context, path: &Path, job: &J) -> Result<NewJob, HandlerError> {
    Ok(Client::describe(id_for(ctx.id(), path), job, ctx.now(), JobOptions::new())?)
}

fn insert(client: &Client, batch: &mut Vec<NewJob>) -> Result<(), HandlerError> {
    while !batch.is_empty() {
        let slice = batch.drain(..batch.len().min(BATCH_LEN)).collect();
        client.blocking().insert(slice)?;
    }
    Ok(())
}

/// The folders and the plain files in a folder. Links are not followed: a ring of them would never end. Version
/// control's own files and the stores of this program are not looked at.
fn read_folder(path: &Path) -> std::io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let kind = entry.file_type()?;
        if kind.is_dir() && name != ".git" {
            folders.push(entry.path());
        } else if kind.is_file() && !name.starts_with(super::STORE_NAME) {
            files.push(entry.path());
        }
    }
    Ok((folders, files))
}

fn checksum(file: Checksum) -> Result<Json<FileFacts>, HandlerError> {
    let about = |error: std::io::Error| HandlerError::with_class("Io", format!("{}: {error}", file.path.display()));
    let reader = BufReader::new(File::open(&file.path).map_err(about)?);
    Ok(Json(facts(reader).map_err(about)?))
}

fn facts(mut reader: impl Read) -> std::io::Result<FileFacts> {
    let mut buffer = vec![0; 64 << 10];
    let mut hasher = crc32fast::Hasher::new();
    let (mut bytes, mut lines) = (0, 0);
    loop {
        let len = match reader.read(&mut buffer) {
            Ok(0) => return Ok(FileFacts { bytes, lines, crc32: hasher.finalize() }),
            Ok(len) => len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..len]);
        bytes += len as u64;
        lines += buffer[..len].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}

async fn folder(folder: Folder, ctx: Context) -> Result<Json<u64>, HandlerError> {
    let hash = fnv1a(&[], folder.path.as_os_str().as_encoded_bytes());
    // However few folders there are, there is a retry to see.
    let is_unlucky = folder.is_root || hash.is_multiple_of(ONE_FAILS_IN);
    if is_unlucky && ctx.attempt() == 1 {
        return Err(HandlerError::with_class("Unlucky", "fails at its first attempt, to show a retry"));
    }
    let entries = tokio::task::spawn_blocking(move || Ok::<_, std::io::Error>(std::fs::read_dir(folder.path)?.count()));
    Ok(Json(entries.await?? as u64))
}

async fn sum(sum: Sum, ctx: Context) -> Outcome {
    match try_sum(&sum, &ctx).await {
        Ok(Some(summary)) => Json(summary).into_outcome(),
        Ok(None) => Outcome::Snooze { until: ctx.now() + SNOOZE },
        Err(error) => Outcome::Retry { after: SNOOZE, error },
    }
}

/// The sum, or `None` while jobs of the scan have not ended.
async fn try_sum(sum: &Sum, ctx: &Context) -> Result<Option<Summary>, HandlerError> {
    let inspector = Inspector::new(std::sync::Arc::clone(ctx.client().store()));
    let queues = inspector.queues().await?;
    let is_busy =
        |queue: &windlass::store::QueueInfo| queue.name == QUEUE && queue.ready + queue.running + queue.waiting > 0;
    if queues.iter().any(is_busy) {
        return Ok(None);
    }
    let mut summary = Summary::default();
    for state in [JobState::Done, JobState::Dead] {
        add_all(&mut summary, sum.scan, state, &inspector).await?;
    }
    Ok(Some(summary))
}

async fn add_all(
    summary: &mut Summary,
    scan: JobId,
    state: JobState,
    inspector: &Inspector,
) -> Result<(), HandlerError> {
    let queue = Some(QUEUE.to_owned());
    let mut query = JobQuery { state: Some(state), queue, limit: PAGE_LEN_MAX, ..JobQuery::default() };
    loop {
        let page = inspector.list(query.clone()).await?;
        for job in page.jobs.iter().filter(|job| is_of_scan(job.id, scan)) {
            summary.retries += u64::from(job.attempt.saturating_sub(1));
            let result = job.result.as_ref().map(|result| result.as_bytes());
            match (state, job.kind.as_str(), result) {
                (JobState::Dead, ..) => summary.dead += 1,
                (_, Checksum::KIND, Some(result)) => summary.add(serde_json::from_slice(result)?),
                _ => summary.folders += 1,
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(());
        }
    }
}

/// Whether a job's id was made by [`id_for`] this scan: they share the scan's instant, which no other scan of the
/// same store has.
fn is_of_scan(job: JobId, scan: JobId) -> bool {
    job.as_bytes()[..6] == scan.as_bytes()[..6]
}

impl Summary {
    fn add(&mut self, file: FileFacts) {
        self.files += 1;
        self.bytes += file.bytes;
        self.lines += file.lines;
        self.checksum = self.checksum.wrapping_add(u64::from(file.crc32));
    }
}

/// What a scan is enqueued with.
pub(crate) fn scan_options() -> JobOptions {
    JobOptions::new().keep_done(KEEP).retry(RetryPolicy::Fixed { delay_ms: 200 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_counted_in_bytes_and_lines_and_has_its_crc() {
        let facts = facts(&b"one\ntwo\n"[..]).unwrap();

        assert_eq!(facts, FileFacts { bytes: 8, lines: 2, crc32: crc32fast::hash(b"one\ntwo\n") });
    }

    #[test]
    fn a_scan_that_runs_again_gives_the_same_ids_and_another_scan_others() {
        let (one, two) = (JobId::from_bytes([1; 12]), JobId::from_bytes([2; 12]));
        let path = Path::new("/a/b");

        assert_eq!(id_for(one, path), id_for(one, path));
        assert_ne!(id_for(one, path), id_for(one, Path::new("/a/c")));
        assert!(is_of_scan(id_for(one, path), one));
        assert!(!is_of_scan(id_for(two, path), one));
    }

    #[test]
    fn what_cannot_be_a_file_of_the_demo_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(".git")).unwrap();
        std::fs::write(root.path().join(super::super::STORE_NAME), "").unwrap();
        std::fs::write(root.path().join("a.txt"), "").unwrap();

        let (folders, files) = read_folder(root.path()).unwrap();

        assert!(folders.is_empty());
        assert_eq!(files, [root.path().join("a.txt")]);
    }
}
