//! The job: a stored record with a name and a life.
//!
//! A program describes work as a type that implements [`Job`]; a client turns a value of it into a [`NewJob`];
//! a store keeps it as a [`JobRecord`] until it ends; a member that leases it holds a [`LeasedJob`], whose
//! [`LeaseToken`] is the right to report its outcome. Arguments travel as a JSON array, the way Sidekiq's do: a
//! struct as one object in it, a tuple as its positions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::entropy::Entropy;
use crate::error::InvalidJob;
use crate::retry::{ATTEMPTS_DEFAULT, ATTEMPTS_MAX, LIST_LEN_MAX, RetryPolicy};
use crate::state::State;
use crate::trace::Trace;

/// The longest name of a kind or a queue, in bytes.
pub const NAME_LEN_MAX: usize = 128;
/// The longest payload, in bytes of JSON: 1 MiB.
pub const PAYLOAD_LEN_MAX: usize = 1 << 20;
/// Payloads beyond this many bytes work, but belong in a file or an object store: 32 KiB.
pub const PAYLOAD_LEN_ADVISED: usize = 32 << 10;
/// The most jobs one store call may insert; `enqueue_many` splits longer lists.
pub const BATCH_LEN_MAX: usize = 5_000;
/// The queue of jobs that name none.
pub const QUEUE_DEFAULT: &str = "default";
/// The longest error message that is kept, in characters.
pub const ERROR_MESSAGE_LEN_MAX: usize = 10_000;

const _: () = assert!(PAYLOAD_LEN_ADVISED < PAYLOAD_LEN_MAX);

/// Names one job for ever: 24 lower-case hexadecimal digits.
///
/// 48 bits of Unix milliseconds, then 48 random bits: ids sort by the time they were made. The client makes the
/// id before it enqueues, so that a push whose answer was lost can be repeated safely. Not a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId([u8; 12]);

impl JobId {
    /// Makes an id for a job enqueued at `now`.
    pub fn new(now: Timestamp, entropy: &Entropy) -> JobId {
        let mut bytes = [0; 12];
        bytes[..6].copy_from_slice(&now.as_millis().max(0).to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&entropy.next_u64().to_be_bytes()[2..]);
        JobId(bytes)
    }

    /// The id of 12 stored bytes.
    pub const fn from_bytes(bytes: [u8; 12]) -> JobId {
        JobId(bytes)
    }

    /// The 12 bytes that stores keep.
    pub const fn as_bytes(&self) -> &[u8; 12] {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// A text that is no job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a job id: expected 24 lower-case hexadecimal digits")]
pub struct InvalidJobId(pub String);

impl FromStr for JobId {
    type Err = InvalidJobId;

    fn from_str(text: &str) -> Result<JobId, InvalidJobId> {
        let invalid = || InvalidJobId(text.chars().take(64).collect());
        let digits = text.as_bytes();
        if digits.len() != 24 || !digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(invalid());
        }
        let mut bytes = [0; 12];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(JobId(bytes))
    }
}

impl Serialize for JobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The arguments of a job, as bytes of JSON: an array.
///
/// Kept byte for byte from push to handler, also when the bytes are no JSON at all: such a job goes to the dead
/// unchanged.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// Takes bytes as they are; they are checked when a job is enqueued, not here.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Payload {
        Payload(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is not even an empty array.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text to show a person: bytes that are no UTF-8 are replaced.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Whether the text stands in it, letter by letter, as the bytes are: a letter that JSON wrote as an escape is not
    /// found by the letter.
    pub fn contains(&self, text: &str) -> bool {
        match std::str::from_utf8(&self.0) {
            Ok(payload) => payload.contains(text),
            Err(_) => self.to_text().contains(text),
        }
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({:?})", self.to_text())
    }
}

/// How a job type looks in the JSON array of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgsShape {
    /// The value is the one element: `[{"to": "ann"}]`. For structs with named fields, enums and newtypes.
    Single,
    /// The value's own array is the arguments: `["ann", 3]`. For tuples; what Ruby programs expect.
    Positional,
    /// No arguments: `[]`. For unit structs.
    Empty,
}

/// A kind of work: a type whose values are the arguments of one job.
///
/// Usually derived:
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use serde::{Deserialize, Serialize};
/// use windlass::Job;
///
/// #[derive(Job, Serialize, Deserialize)]
/// #[job(kind = "mail.send", queue = "mail", attempts = 5)]
/// struct SendMail {
///     to: String,
/// }
/// assert_eq!(SendMail::KIND, "mail.send");
/// # }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The stable name that selects the handler: 1 to [`NAME_LEN_MAX`] bytes. Never derived from the type's name,
    /// so that renaming a type cannot orphan stored jobs.
    const KIND: &'static str;
    /// How the value looks in the arguments.
    const SHAPE: ArgsShape = ArgsShape::Single;
    /// The version of the payload's format. A server that knows a lower version leaves the job to a newer one.
    const VERSION: u32 = 0;

    /// What jobs of this kind want unless a call says otherwise.
    fn options() -> JobOptions {
        JobOptions::new()
    }
}

/// What one job wants: each field overrides the kind's default, which overrides the engine's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JobOptions {
    /// The queue. Default: [`QUEUE_DEFAULT`].
    pub queue: Option<String>,
    /// Runs allowed before the job is dead, 1 to [`ATTEMPTS_MAX`]. Default: [`ATTEMPTS_DEFAULT`].
    pub attempts_max: Option<u32>,
    /// The delays between attempts. Default: [`RetryPolicy::Sidekiq`].
    pub retry: Option<RetryPolicy>,
    /// No retry is planned later than this after the first failure. Default: no such limit.
    pub retry_window: Option<Duration>,
    /// The longest one attempt may take; then it is cancelled and counts as failed. Default: the server's.
    pub timeout: Option<Duration>,
    /// How long a finished job, and its result, is kept. Default: not at all.
    pub keep_done: Option<Duration>,
    /// The job is dead, not run, when it has not started this long after its time. Default: it waits for ever.
    pub expires_in: Option<Duration>,
    /// Never run twice: a crash or a failure leaves it dead. Default: false, at least once.
    pub at_most_once: Option<bool>,
    /// The trace that the job is part of. Default: what the client's [`TraceContext`](crate::trace::TraceContext) says.
    pub trace: Option<Trace>,
}

impl JobOptions {
    /// Overrides nothing.
    pub fn new() -> JobOptions {
        JobOptions::default()
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> JobOptions {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the number of runs allowed, the first included.
    #[must_use]
    pub fn attempts(mut self, attempts_max: u32) -> JobOptions {
        self.attempts_max = Some(attempts_max);
        self
    }

    /// Sets the delays between attempts.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> JobOptions {
        self.retry = Some(policy);
        self
    }

    /// Sets how long after the first failure retries may still be planned.
    #[must_use]
    pub fn retry_window(mut self, window: Duration) -> JobOptions {
        self.retry_window = Some(window);
        self
    }

    /// Sets the longest time one attempt may take.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> JobOptions {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long the finished job and its result are kept.
    #[must_use]
    pub fn keep_done(mut self, keep: Duration) -> JobOptions {
        self.keep_done = Some(keep);
        self
    }

    /// Sets how late the job may still start.
    #[must_use]
    pub fn expires_in(mut self, delay: Duration) -> JobOptions {
        self.expires_in = Some(delay);
        self
    }

    /// Says whether the job must never run twice.
    #[must_use]
    pub fn at_most_once(mut self, at_most_once: bool) -> JobOptions {
        self.at_most_once = Some(at_most_once);
        self
    }

    /// Sets the trace that the job is part of.
    #[must_use]
    pub fn trace(mut self, trace: Trace) -> JobOptions {
        self.trace = Some(trace);
        self
    }

    /// These options where they say something, `defaults` elsewhere.
    #[must_use]
    pub fn or(self, defaults: JobOptions) -> JobOptions {
        JobOptions {
            queue: self.queue.or(defaults.queue),
            attempts_max: self.attempts_max.or(defaults.attempts_max),
            retry: self.retry.or(defaults.retry),
            retry_window: self.retry_window.or(defaults.retry_window),
            timeout: self.timeout.or(defaults.timeout),
            keep_done: self.keep_done.or(defaults.keep_done),
            expires_in: self.expires_in.or(defaults.expires_in),
            at_most_once: self.at_most_once.or(defaults.at_most_once),
            trace: self.trace.or(defaults.trace),
        }
    }
}

/// What the runner must know of a job and the store never looks at. Kept as one JSON object, and not at all when
/// everything is the default. Durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// Runs allowed; the default is [`ATTEMPTS_DEFAULT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// Delays between attempts; the default is [`RetryPolicy::Sidekiq`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long after the first failure a retry may still be planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_window_ms: Option<u64>,
    /// The longest one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the finished job is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_done_ms: Option<u64>,
    /// The version of the payload's format, when it is not 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u32,
    /// The trace it is part of. One that cannot be read is left out.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "trace_or_none")]
    pub trace: Option<Trace>,
}

/// A trace is not worth losing a job's other settings.
fn trace_or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Trace>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|json| serde_json::from_value(json).ok()))
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Settings {
    /// Runs allowed, the first included.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max.unwrap_or(ATTEMPTS_DEFAULT)
    }

    /// How long the finished job is kept; zero means it is removed.
    pub fn keep_done(&self) -> Duration {
        Duration::from_millis(self.keep_done_ms.unwrap_or(0))
    }

    /// Whether everything is the default, so that nothing need be stored.
    pub fn is_default(&self) -> bool {
        *self == Settings::default()
    }
}

/// A job on its way into a store: complete, checked, with its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Made by the client.
    pub id: JobId,
    /// Selects the handler.
    pub kind: String,
    /// The line it waits in.
    pub queue: String,
    /// The arguments: a JSON array.
    pub payload: Payload,
    /// When it may run. At or before the store's present: ready at once.
    pub run_at: Timestamp,
    /// When it is too late to start.
    pub expires_at: Option<Timestamp>,
    /// Whether it must never run twice.
    pub at_most_once: bool,
    /// What the runner must know.
    pub settings: Settings,
}

impl NewJob {
    /// Describes a job of `kind` with JSON arguments and `options`, to run at `run_at`, and checks all of it.
    ///
    /// # Errors
    /// [`InvalidJob`] names the field, what was found and what is allowed.
    pub fn new(
        id: JobId,
        kind: &str,
        payload: Payload,
        run_at: Timestamp,
        version: u32,
        options: JobOptions,
    ) -> Result<NewJob, InvalidJob> {
        let job = NewJob {
            id,
            kind: kind.to_owned(),
            queue: options.queue.unwrap_or_else(|| QUEUE_DEFAULT.to_owned()),
            payload,
            run_at,
            expires_at: options.expires_in.map(|delay| run_at + delay),
            at_most_once: options.at_most_once.unwrap_or(false),
            settings: Settings {
                attempts_max: options.attempts_max,
                retry: options.retry,
                retry_window_ms: options.retry_window.map(whole_millis),
                timeout_ms: options.timeout.map(whole_millis),
                keep_done_ms: options.keep_done.map(whole_millis),
                version,
                trace: options.trace,
            },
        };
        job.validate()?;
        Ok(job)
    }

    /// Checks names, sizes and ranges. Stores rely on it.
    ///
    /// # Errors
    /// [`InvalidJob`] names the field, what was found and what is allowed.
    pub fn validate(&self) -> Result<(), InvalidJob> {
        check_name("kind", &self.kind)?;
        check_name("queue", &self.queue)?;
        check_payload(&self.payload)?;
        let attempts = self.settings.attempts_max();
        if !(1..=ATTEMPTS_MAX).contains(&attempts) {
            let allowed = format!("1 to {ATTEMPTS_MAX}");
            return Err(InvalidJob::new("attempts_max", attempts.to_string(), allowed));
        }
        if let Some(RetryPolicy::List { delays_ms }) = &self.settings.retry
            && delays_ms.len() > LIST_LEN_MAX
        {
            let allowed = format!("at most {LIST_LEN_MAX} delays");
            return Err(InvalidJob::new("retry", format!("{} delays", delays_ms.len()), allowed));
        }
        if self.settings.timeout_ms == Some(0) {
            return Err(InvalidJob::new("timeout", "0 ms".to_owned(), "1 ms or more".to_owned()));
        }
        Ok(())
    }
}

/// Checks the name of a kind or a queue: 1 to [`NAME_LEN_MAX`] bytes of letters, digits and `_ - . : / @`.
///
/// # Errors
/// [`InvalidJob`] with `field` as its field.
pub fn check_name(field: &'static str, name: &str) -> Result<(), InvalidJob> {
    let allowed = || format!("1 to {NAME_LEN_MAX} letters, digits or any of _ - . : / @");
    let is_allowed = |c: char| c.is_alphanumeric() || "_-.:/@".contains(c);
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_allowed) {
        let found: String = name.chars().take(64).collect();
        return Err(InvalidJob::new(field, format!("{found:?} ({} bytes)", name.len()), allowed()));
    }
    Ok(())
}

fn check_payload(payload: &Payload) -> Result<(), InvalidJob> {
    if payload.len() > PAYLOAD_LEN_MAX {
        let allowed = format!("at most {PAYLOAD_LEN_MAX} bytes of JSON; keep large data elsewhere and pass its name");
        return Err(InvalidJob::new("payload", format!("{} bytes", payload.len()), allowed));
    }
    if payload.as_bytes().first() != Some(&b'[') {
        return Err(InvalidJob::new("payload", "no JSON array".to_owned(), "a JSON array of arguments".to_owned()));
    }
    Ok(())
}

fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The right to report the outcome of one run of one job. Given out by `lease`, good for one `finish`.
///
/// It names the run, not only the job: when the job is given to somebody else, or to the same member again, the
/// old token is worth nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    pub(crate) job: JobId,
    /// How often the job has been leased in its life; never given back.
    pub(crate) run: u64,
    /// Where the store keeps the record; a hint that is checked against `job`.
    pub(crate) row: i64,
}

impl LeaseToken {
    /// The job it is for.
    pub fn job(&self) -> JobId {
        self.job
    }

    /// Which lease of the job's life it is, from 1. Grows with every lease: pass it to other systems as a fencing
    /// token.
    pub fn run(&self) -> u64 {
        self.run
    }
}

/// A job in the hands of the member that leased it. Possession is the permission to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedJob {
    /// The right to finish it.
    pub token: LeaseToken,
    /// Selects the handler.
    pub kind: String,
    /// The line it waited in.
    pub queue: String,
    /// The arguments.
    pub payload: Payload,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How often a member was lost with it lately.
    pub recoveries: u32,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it became due.
    pub run_at: Timestamp,
    /// When it failed for the first time, if it has.
    pub failed_at: Option<Timestamp>,
    /// Whether it must never run twice.
    pub at_most_once: bool,
    /// What the runner must know.
    pub settings: Settings,
}

/// Everything a store knows of one job: what people see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobRecord {
    /// Its name for ever.
    pub id: JobId,
    /// Selects the handler.
    pub kind: String,
    /// The line it waits in.
    pub queue: String,
    /// Where it stands.
    pub state: State,
    /// The arguments, as text to show.
    #[serde(serialize_with = "payload_as_json")]
    pub payload: Payload,
    /// Attempts begun and not given back.
    pub attempt: u32,
    /// Leases in its life; never given back.
    pub run: u64,
    /// Members lost with it in the present window.
    pub recoveries: u32,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it was, or will be, due.
    pub run_at: Timestamp,
    /// When it is too late to start.
    pub expires_at: Option<Timestamp>,
    /// When it failed for the first time.
    pub failed_at: Option<Timestamp>,
    /// When the present lease began, while running.
    pub leased_at: Option<Timestamp>,
    /// Who runs it.
    pub member: Option<String>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Until when a done job is kept.
    pub keep_until: Option<Timestamp>,
    /// Whether it must never run twice.
    pub at_most_once: bool,
    /// Whether somebody asked the running job to give way.
    pub cancel_asked: bool,
    /// Why it is dead or cancelled: a short, stable word or phrase.
    pub reason: Option<String>,
    /// The last error.
    pub error: Option<ErrorInfo>,
    /// What the handler returned, if it is kept.
    #[serde(serialize_with = "result_as_json")]
    pub result: Option<Payload>,
    /// What the runner must know.
    pub settings: Settings,
}

fn payload_as_json<S: serde::Serializer>(payload: &Payload, serializer: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_slice::<&serde_json::value::RawValue>(payload.as_bytes()) {
        Ok(json) => json.serialize(serializer),
        Err(_) => serializer.serialize_str(&payload.to_text()),
    }
}

fn result_as_json<S: serde::Serializer>(result: &Option<Payload>, serializer: S) -> Result<S::Ok, S::Error> {
    match result {
        Some(payload) => payload_as_json(payload, serializer),
        None => serializer.serialize_none(),
    }
}

/// Why an attempt failed, as kept with the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// The type of the error, or one of the engine's words: `Panic`, `Timeout`, `UnknownKind`, `Undecodable`.
    pub class: String,
    /// What it said, with its causes; at most [`ERROR_MESSAGE_LEN_MAX`] characters.
    pub message: String,
    /// Where it came from, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backtrace: Option<String>,
    /// The attempt that failed.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_job(kind: &str, payload: &str, options: JobOptions) -> Result<NewJob, InvalidJob> {
        let id = JobId::new(Timestamp::EPOCH, &Entropy::seeded(1));
        NewJob::new(id, kind, Payload::from_bytes(payload), Timestamp::EPOCH, 0, options)
    }

    #[test]
    fn ids_are_24_hexadecimal_digits_that_sort_by_time() {
        let entropy = Entropy::seeded(3);
        let older = JobId::new(Timestamp::from_millis(1_000), &entropy);
        let newer = JobId::new(Timestamp::from_millis(1_001), &entropy);

        assert!(older.to_string() < newer.to_string());
        assert_eq!(older.to_string().parse(), Ok(older));
        assert_eq!(older.to_string().len(), 24);
    }

    #[test]
    fn a_text_that_is_no_id_is_refused() {
        for text in ["", "12", "00000000000000000000000G", "0123456789ABCDEF01234567", "ééééééééé123456"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_outside_their_alphabet_are_refused_with_the_field() {
        for kind in ["", "a b", "tab\t", "null\0", &"x".repeat(NAME_LEN_MAX + 1)] {
            let error = new_job(kind, "[]", JobOptions::new()).unwrap_err();
            assert_eq!(error.field, "kind");
        }
        let error = new_job("ok", "[]", JobOptions::new().queue("no spaces")).unwrap_err();
        assert_eq!(error.field, "queue");
    }

    #[test]
    fn an_oversized_payload_is_refused_and_the_limit_itself_is_not() {
        let fitting = format!("[{}]", " ".repeat(PAYLOAD_LEN_MAX - 2));

        assert!(new_job("ok", &fitting, JobOptions::new()).is_ok());
        assert!(new_job("ok", &(fitting + " "), JobOptions::new()).is_err());
    }

    #[test]
    fn attempts_outside_their_range_are_refused() {
        assert!(new_job("ok", "[]", JobOptions::new().attempts(0)).is_err());
        assert!(new_job("ok", "[]", JobOptions::new().attempts(ATTEMPTS_MAX + 1)).is_err());
    }

    #[test]
    fn options_of_a_call_win_over_those_of_the_kind() {
        let kind = JobOptions::new().queue("slow").attempts(3);

        let merged = JobOptions::new().queue("fast").or(kind);

        assert_eq!((merged.queue.as_deref(), merged.attempts_max), (Some("fast"), Some(3)));
    }

    #[test]
    fn default_settings_are_an_empty_object() {
        assert_eq!(serde_json::to_string(&Settings::default()).unwrap(), "{}");
        assert!(Settings::default().is_default());
    }
}
