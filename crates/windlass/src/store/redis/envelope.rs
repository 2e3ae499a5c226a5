//! A job as Sidekiq writes it, and what windlass adds.
//!
//! In Redis a job is one JSON object, and the same text is the element of a list, the member of a sorted set, the value
//! of a ledger. Its fields are Sidekiq's (`class`, `args`, `queue`, `jid`, `retry`, `created_at` …), so that Ruby
//! programs read what we write. What Sidekiq has no field for stands in one of our own, `wl`, and only what is not the
//! default. Fields that nobody here knows go through unchanged, byte for byte ([`Object`]).
//!
//! Instants are written as the cluster's Sidekiq reads them ([`Dialect`]): integer milliseconds since 8, seconds with a
//! fraction before. Reading needs no dialect: a number with a point is seconds.
//!
//! Arguments that are no JSON, which no other program could have written, are kept in `wl` as hexadecimal digits.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::Timestamp;
use crate::job::{ErrorInfo, JobId, JobRecord, NewJob, Payload, QUEUE_DEFAULT, Settings};
use crate::retry::ATTEMPTS_MAX;
use crate::state::State;
use crate::store::redis::object::{Object, quoted, unquoted};

/// How late a job may come in and still count as ready since its own time.
pub(super) const SAME_MOMENT: Duration = Duration::from_secs(1);

/// How instants are written, by Sidekiq's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Dialect {
    /// Sidekiq 6 and 7: seconds with a fraction.
    Seconds,
    /// Sidekiq 8: whole milliseconds.
    #[default]
    Millis,
}

impl Dialect {
    /// An instant as a JSON number.
    pub(super) fn write(self, at: Timestamp) -> String {
        match self {
            Dialect::Millis => at.as_millis().to_string(),
            Dialect::Seconds => {
                format!("{}.{:03}", at.as_millis().div_euclid(1_000), at.as_millis().rem_euclid(1_000))
            }
        }
    }
}

/// The instant of a JSON number, in either way of writing.
fn instant(number: &str) -> Option<Timestamp> {
    if number.contains(['.', 'e', 'E']) {
        let seconds: f64 = number.parse().ok()?;
        return Some(Timestamp::from_millis((seconds * 1_000.0).round() as i64));
    }
    number.parse().ok().map(Timestamp::from_millis)
}

/// What Sidekiq has no field for: our own field, `wl`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Own {
    /// Attempts begun beyond those that `retry_count` tells.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    pub(super) more_attempts: i64,
    /// Leases in its life.
    #[serde(rename = "run", skip_serializing_if = "is_default")]
    pub(super) run: u64,
    /// Members lost with it since `window`.
    #[serde(rename = "rec", skip_serializing_if = "is_default")]
    pub(super) recoveries: u32,
    #[serde(rename = "win", skip_serializing_if = "is_default")]
    pub(super) window: Option<Timestamp>,
    /// Never to be run twice.
    #[serde(rename = "once", skip_serializing_if = "is_default")]
    pub(super) at_most_once: bool,
    #[serde(rename = "exp", skip_serializing_if = "is_default")]
    pub(super) expires_at: Option<Timestamp>,
    /// When it became due, where `enqueued_at` does not say it.
    #[serde(rename = "due", skip_serializing_if = "is_default")]
    pub(super) run_at: Option<Timestamp>,
    #[serde(rename = "why", skip_serializing_if = "is_default")]
    pub(super) reason: Option<String>,
    #[serde(rename = "keep", skip_serializing_if = "is_default")]
    pub(super) keep_until: Option<Timestamp>,
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    error: Option<OwnError>,
    #[serde(rename = "res", skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    /// A result that is no JSON.
    #[serde(rename = "resx", skip_serializing_if = "is_default")]
    raw_result: Option<String>,
    /// Arguments that are no JSON.
    #[serde(rename = "argsx", skip_serializing_if = "is_default")]
    raw_args: Option<String>,
    #[serde(rename = "set", skip_serializing_if = "is_default")]
    settings: Settings,
}

/// What Sidekiq does not keep of an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OwnError {
    #[serde(rename = "n")]
    attempt: u32,
    at: Timestamp,
    /// `retry_count` when it was written: when Ruby has failed the job again, this is not about that error.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    retry_count: Option<u32>,
    #[serde(rename = "bt", default, skip_serializing_if = "Option::is_none")]
    backtrace: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Own {
    fn is_default(&self) -> bool {
        // What is all default writes nothing.
        serde_json::to_string(self).is_ok_and(|json| json == "{}")
    }
}

/// A job's text, opened.
#[derive(Debug, Clone)]
pub(super) struct Envelope<'a> {
    object: Object<'a>,
    pub(super) own: Own,
    pub(super) id: JobId,
}

impl<'a> Envelope<'a> {
    /// Opens a text. `None` when it is no job: no JSON object, or one without a class or arguments.
    pub(super) fn open(text: &'a [u8]) -> Option<Envelope<'a>> {
        let object = Object::cut(text)?;
        unquoted(object.get("class")?)?;
        if !object.get("args")?.starts_with('[') {
            return None;
        }
        let own = match object.get("wl") {
            Some(json) => serde_json::from_str(json).ok()?,
            None => Own::default(),
        };
        let id = id_of(&unquoted(object.get("jid")?)?);
        Some(Envelope { object, own, id })
    }

    /// The text of one of Sidekiq's fields.
    fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        unquoted(self.object.get(name)?)
    }

    fn instant(&self, name: &str) -> Option<Timestamp> {
        instant(self.object.get(name)?)
    }

    fn retry_count(&self) -> Option<u32> {
        self.object.get("retry_count")?.parse().ok()
    }

    pub(super) fn kind(&self) -> String {
        self.text("class").unwrap_or_default().into_owned()
    }

    pub(super) fn queue(&self) -> String {
        self.text("queue").filter(|name| !name.is_empty()).map_or_else(|| QUEUE_DEFAULT.to_owned(), Cow::into_owned)
    }

    /// What a paid edition of Sidekiq must do with the job, if anything: run by others it would go wrong in silence.
    pub(super) fn paid_feature(&self) -> Option<&'static str> {
        let is_set = |name| self.object.get(name).is_some_and(|value| !matches!(value, "null" | "false"));
        ["bid", "encrypt"].into_iter().find(|name| is_set(name))
    }

    pub(super) fn payload(&self) -> Payload {
        match self.own.raw_args.as_deref().and_then(bytes_of_hex) {
            Some(bytes) => Payload::from_bytes(bytes),
            None => Payload::from_bytes(self.object.get("args").unwrap_or("[]")),
        }
    }

    /// Attempts begun and not given back.
    pub(super) fn attempt(&self) -> u32 {
        let told = self.retry_count().map_or(0, |count| i64::from(count) + 1);
        (told + self.own.more_attempts).clamp(0, i64::from(u32::MAX)) as u32
    }

    fn set_attempt(&mut self, attempt: u32) {
        let told = self.retry_count().map_or(0, |count| i64::from(count) + 1);
        self.own.more_attempts = i64::from(attempt) - told;
    }

    /// When the store took it in.
    pub(super) fn created_at(&self) -> Timestamp {
        self.instant("created_at").or_else(|| self.instant("enqueued_at")).unwrap_or_default()
    }

    /// When it became due, for a job that waits for nothing.
    pub(super) fn run_at(&self) -> Timestamp {
        self.own.run_at.or_else(|| self.instant("enqueued_at")).unwrap_or_else(|| self.created_at())
    }

    /// When it was put into its queue.
    pub(super) fn ready_since(&self) -> Timestamp {
        self.instant("enqueued_at").unwrap_or_else(|| self.created_at())
    }

    pub(super) fn failed_at(&self) -> Option<Timestamp> {
        self.instant("failed_at")
    }

    /// Whether it is too late to start it.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        // What has run before has started in time.
        self.own.run == 0 && self.own.expires_at.is_some_and(|at| at <= now)
    }

    pub(super) fn settings(&self) -> Settings {
        let attempts_max = match self.object.get("retry") {
            Some("false") => Some(1),
            Some(number) => number.parse::<u32>().ok().map(|retries| retries.saturating_add(1).min(ATTEMPTS_MAX)),
            None => None,
        };
        Settings { attempts_max, ..self.own.settings.clone() }
    }

    fn error(&self) -> Option<ErrorInfo> {
        let class = self.text("error_class")?.into_owned();
        let message = self.text("error_message").unwrap_or_default().into_owned();
        if let Some(own) = self.own.error.as_ref().filter(|own| own.retry_count == self.retry_count()) {
            let (attempt, at, backtrace) = (own.attempt, own.at, own.backtrace.clone());
            return Some(ErrorInfo { class, message, backtrace, attempt, at });
        }
        let at = self.instant("retried_at").or_else(|| self.failed_at()).unwrap_or_default();
        Some(ErrorInfo { class, message, backtrace: None, attempt: self.attempt(), at })
    }

    fn result(&self) -> Option<Payload> {
        match &self.own.result {
            Some(json) => Some(Payload::from_bytes(json.get())),
            None => self.own.raw_result.as_deref().and_then(bytes_of_hex).map(Payload::from_bytes),
        }
    }

    /// Everything the text tells. `at` is the score of the set it lies in.
    pub(super) fn record(&self, state: State, at: Option<Timestamp>) -> JobRecord {
        JobRecord {
            id: self.id,
            kind: self.kind(),
            queue: self.queue(),
            state,
            payload: self.payload(),
            attempt: self.attempt(),
            run: self.own.run,
            recoveries: self.own.recoveries,
            enqueued_at: self.created_at(),
            run_at: at.filter(|_| matches!(state, State::Scheduled | State::Retry)).unwrap_or_else(|| self.run_at()),
            expires_at: self.own.expires_at,
            failed_at: self.failed_at(),
            leased_at: None,
            member: None,
            finished_at: at.filter(|_| state.is_final()),
            keep_until: self.own.keep_until,
            at_most_once: self.own.at_most_once,
            cancel_asked: false,
            reason: self.own.reason.clone(),
            error: self.error(),
            result: self.result(),
            settings: self.settings(),
        }
    }

    /// Notes a run that has begun.
    pub(super) fn begin_run(&mut self, at_most_once: bool) {
        self.own.run += 1;
        self.own.more_attempts += 1;
        self.own.at_most_once |= at_most_once;
    }

    /// Takes back the attempt of a run that is not to count.
    pub(super) fn give_attempt_back(&mut self) {
        self.own.more_attempts -= 1;
    }

    /// Notes when it became due, where its own fields would not tell.
    pub(super) fn note_run_at(&mut self, run_at: Timestamp) {
        self.own.run_at = None;
        self.own.run_at = (self.run_at() != run_at).then_some(run_at);
    }

    /// Notes that it becomes ready.
    pub(super) fn make_ready(&mut self, run_at: Timestamp, now: Timestamp, dialect: Dialect) {
        self.object.set("enqueued_at", dialect.write(now));
        self.note_run_at(run_at);
    }

    /// Notes a failed attempt.
    pub(super) fn fail(&mut self, error: Option<ErrorInfo>, now: Timestamp, dialect: Dialect) {
        let attempt = self.attempt();
        match self.failed_at() {
            None => self.object.set("failed_at", dialect.write(now)),
            Some(_) => self.object.set("retried_at", dialect.write(now)),
        }
        self.object.set("retry_count", attempt.saturating_sub(1).to_string());
        self.set_attempt(attempt);
        self.set_error(error);
    }

    fn set_error(&mut self, error: Option<ErrorInfo>) {
        let Some(ErrorInfo { class, message, backtrace, attempt, at }) = error else {
            self.object.remove("error_class");
            self.object.remove("error_message");
            self.own.error = None;
            return;
        };
        self.object.set("error_message", quoted(&message));
        self.object.set("error_class", quoted(&class));
        self.own.error = Some(OwnError { attempt, at, retry_count: self.retry_count(), backtrace });
    }

    /// Notes what the handler returned.
    pub(super) fn set_result(&mut self, result: Option<Payload>) {
        (self.own.result, self.own.raw_result) = (None, None);
        let Some(result) = result else { return };
        match whole_json(result.as_bytes()) {
            Some(json) => self.own.result = RawValue::from_string(json.to_owned()).ok(),
            None => self.own.raw_result = Some(hex_of_bytes(result.as_bytes())),
        }
    }

    /// Forgets what happened before: the job starts anew.
    pub(super) fn start_again(&mut self) {
        for name in ["retry_count", "failed_at", "retried_at"] {
            self.object.remove(name);
        }
        if let Some(error) = &mut self.own.error {
            error.retry_count = None;
        }
        self.set_attempt(0);
        (self.own.recoveries, self.own.window, self.own.reason) = (0, None, None);
    }

    /// The text to store.
    pub(super) fn seal(mut self) -> Vec<u8> {
        if self.own.is_default() {
            self.object.remove("wl");
        } else {
            let own = serde_json::to_string(&self.own).expect("our own field is always JSON");
            self.object.set("wl", own);
        }
        self.object.to_json()
    }
}

/// The text of a job that a client hands in.
pub(super) fn new_job(job: &NewJob, is_ready: bool, now: Timestamp, dialect: Dialect) -> Vec<u8> {
    // A client that knows the time a little differently need not be told apart: its word for "now" is ours.
    let ready_since = if job.run_at <= now && now.since(job.run_at) < SAME_MOMENT { job.run_at } else { now };
    let mut own = Own {
        at_most_once: job.at_most_once,
        expires_at: job.expires_at,
        run_at: (is_ready && job.run_at != ready_since).then_some(job.run_at),
        ..Own::default()
    };
    let is_plain = !job.at_most_once && own.run_at.is_none() && own.expires_at.is_none();
    let mut json = Vec::with_capacity(job.payload.len() + 224);
    let args = write_head(&mut json, &job.id, &job.kind, &job.queue, &job.payload, &job.settings);
    own.raw_args = args;
    own.settings = Settings { attempts_max: None, ..job.settings.clone() };
    write_instant(&mut json, "created_at", now, dialect);
    if is_ready {
        write_instant(&mut json, "enqueued_at", ready_since, dialect);
    }
    if !is_plain || own.raw_args.is_some() || own.settings != Settings::default() {
        json.extend_from_slice(b",\"wl\":");
        serde_json::to_writer(&mut json, &own).expect("our own field is always JSON");
    }
    json.push(b'}');
    json
}

/// The text of a job that comes from another store.
pub(super) fn restored_job(job: JobRecord, now: Timestamp, dialect: Dialect) -> Vec<u8> {
    let mut json = Vec::with_capacity(job.payload.len() + 256);
    let raw_args = write_head(&mut json, &job.id, &job.kind, &job.queue, &job.payload, &job.settings);
    write_instant(&mut json, "created_at", job.enqueued_at, dialect);
    if job.state == State::Ready {
        write_instant(&mut json, "enqueued_at", now, dialect);
    }
    json.push(b'}');
    let mut envelope = Envelope::open(&json).expect("a text written here can be opened");
    if let Some(at) = job.failed_at {
        envelope.object.set("failed_at", dialect.write(at));
        envelope.object.set("retry_count", job.attempt.saturating_sub(1).to_string());
    }
    envelope.own.run = job.run;
    envelope.own.recoveries = job.recoveries;
    envelope.own.window = (job.recoveries > 0).then_some(now);
    envelope.own.at_most_once = job.at_most_once;
    envelope.own.expires_at = job.expires_at;
    envelope.own.reason = job.reason;
    envelope.own.keep_until = job.keep_until;
    envelope.own.raw_args = raw_args;
    envelope.own.settings = Settings { attempts_max: None, ..job.settings };
    if !matches!(job.state, State::Scheduled | State::Retry) {
        envelope.note_run_at(job.run_at);
    }
    envelope.set_attempt(job.attempt);
    envelope.set_error(job.error);
    envelope.set_result(job.result);
    envelope.seal()
}

/// Writes the fields that every job has. Answers the arguments in hexadecimal digits when they are no JSON.
fn write_head(
    json: &mut Vec<u8>,
    id: &JobId,
    kind: &str,
    queue: &str,
    payload: &Payload,
    settings: &Settings,
) -> Option<String> {
    let args = whole_json(payload.as_bytes());
    // Names have an alphabet without quotes and escapes: they are written as they are.
    json.extend_from_slice(b"{\"class\":\"");
    json.extend_from_slice(kind.as_bytes());
    json.extend_from_slice(b"\",\"args\":");
    json.extend_from_slice(args.unwrap_or("[]").as_bytes());
    json.extend_from_slice(b",\"queue\":\"");
    json.extend_from_slice(queue.as_bytes());
    json.extend_from_slice(b"\",\"jid\":\"");
    json.extend_from_slice(&hex_digits(id));
    json.extend_from_slice(b"\",\"retry\":");
    match settings.attempts_max {
        None => json.extend_from_slice(b"true"),
        Some(attempts) => {
            json.extend_from_slice(itoa::Buffer::new().format(attempts.saturating_sub(1)).as_bytes());
        }
    }
    if args.is_none() { Some(hex_of_bytes(payload.as_bytes())) } else { None }
}

fn write_instant(json: &mut Vec<u8>, name: &str, at: Timestamp, dialect: Dialect) {
    json.extend_from_slice(b",\"");
    json.extend_from_slice(name.as_bytes());
    json.extend_from_slice(b"\":");
    match dialect {
        Dialect::Millis => json.extend_from_slice(itoa::Buffer::new().format(at.as_millis()).as_bytes()),
        Dialect::Seconds => json.extend_from_slice(dialect.write(at).as_bytes()),
    }
}

/// The bytes as text, when they are one JSON value with nothing around it.
fn whole_json(bytes: &[u8]) -> Option<&str> {
    let json = serde_json::from_slice::<&RawValue>(bytes).ok()?.get();
    (json.len() == bytes.len()).then_some(json)
}

fn hex_digits(id: &JobId) -> [u8; 24] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 24];
    for (pair, byte) in text.chunks_exact_mut(2).zip(id.as_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

fn hex_of_bytes(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing into a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if digits.len().is_multiple_of(2) { digits.chunks_exact(2).map(pair).collect() } else { None }
}

/// The id of a job as Sidekiq names it. A name that is no 24 hexadecimal digits, which is legal there, gets an id
/// that follows from it: always the same, and far in the future, where no id of ours is.
pub(super) fn id_of(jid: &str) -> JobId {
    jid.parse().unwrap_or_else(|_| derived_id(jid.as_bytes()))
}

/// An id that follows from bytes: FNV-1a over 88 bits, behind a first byte that no id made by a clock has.
pub(super) fn derived_id(bytes: &[u8]) -> JobId {
    let hash =
        |seed: u64| bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let (first, second) = (hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4));
    let mut id = [0xff; 12];
    id[1..9].copy_from_slice(&first.to_be_bytes());
    id[9..].copy_from_slice(&second.to_be_bytes()[..3]);
    JobId::from_bytes(id)
}

/// What is shown of an element that is no job.
pub(super) fn unreadable(text: &[u8], state: State, queue: &str, at: Option<Timestamp>) -> JobRecord {
    JobRecord {
        id: derived_id(text),
        kind: "unreadable".to_owned(),
        queue: queue.to_owned(),
        state,
        payload: Payload::from_bytes(text),
        attempt: 0,
        run: 0,
        recoveries: 0,
        enqueued_at: at.unwrap_or_default(),
        run_at: at.unwrap_or_default(),
        expires_at: None,
        failed_at: None,
        leased_at: None,
        member: None,
        finished_at: at.filter(|_| state.is_final()),
        keep_until: None,
        at_most_once: false,
        cancel_asked: false,
        reason: Some("undecodable".to_owned()),
        error: None,
        result: None,
        settings: Settings::default(),
    }
}
