//! What a job of the load test does.
//!
//! | body | runs on | does |
//! |---|---|---|
//! | `noop` | the I/O runtime | nothing |
//! | `sleep:SPAN` | the I/O runtime | waits, as for an answer |
//! | `http:URL` | the I/O runtime | gets a page |
//! | `append:FILE` | the I/O runtime | opens the file, appends a line, closes it |
//! | `fib:N` | the CPU pool | the Fibonacci number by the slow recursion |

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use hyper::Uri;
use serde::{Deserialize, Serialize};
use windlass::config::parse_duration;
use windlass::job::NewJob;
use windlass::{Client, Context, HandlerError, Handlers, Job, JobId, JobOptions, State, Timestamp};

use super::http;
use super::meter::Meter;

/// The most different bodies in one test.
pub(super) const SHARES_MAX: usize = 9;

/// What one job does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    Noop,
    Sleep(Duration),
    Http(Uri),
    Append(PathBuf),
    Fib(u32),
}

/// A body, and how many of the jobs have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    /// As it was written.
    text: String,
    count: u32,
    body: Body,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let (count, body) = match text.split_once('*') {
            Some((count, body)) if count.parse::<u32>().is_ok_and(|count| count > 0) => {
                (count.parse().map_err(|error| format!("{error}"))?, body)
            }
            _ => (1, text),
        };
        Ok(Share { text: text.to_owned(), count, body: parse_body(body)? })
    }
}

fn parse_body(text: &str) -> Result<Body, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    match (name, rest) {
        ("noop", "") => Ok(Body::Noop),
        ("sleep", span) if !span.is_empty() => Ok(Body::Sleep(parse_duration(span)?)),
        ("http", _) => parse_url(if rest.starts_with("//") { text } else { rest }).map(Body::Http),
        ("append", path) if !path.is_empty() => Ok(Body::Append(PathBuf::from(path))),
        ("fib", number) => match number.parse() {
            Ok(number @ 0..=45) => Ok(Body::Fib(number)),
            _ => Err(format!("{number:?} is no place in the Fibonacci numbers: expected 0 to 45")),
        },
        _ => Err(format!(
            "{text:?} is no work: expected noop, sleep:SPAN, http:URL, append:FILE or fib:N, with a share before it if there are several, such as 9*sleep:5ms"
        )),
    }
}

fn parse_url(text: &str) -> Result<Uri, String> {
    let uri: Uri =
        text.parse().map_err(|error| format!("{text:?} is no address: {error}; expected http://HOST:PORT/PATH"))?;
    if uri.scheme_str() == Some("http") && uri.host().is_some() {
        return Ok(uri);
    }
    Err(format!("{text:?} is no address for this test: expected http://HOST:PORT/PATH, without TLS"))
}

/// The bodies of a test, dealt out in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mix {
    shares: Vec<Share>,
}

impl Mix {
    pub(super) fn new(shares: Vec<Share>) -> Mix {
        Mix { shares }
    }

    /// Every body as it was written.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.shares.iter().map(|share| share.text.as_str())
    }

    /// The body of the job with this number, as a place in the list.
    fn turn(&self, number: u32) -> usize {
        let round: u64 = self.shares.iter().map(|share| u64::from(share.count)).sum();
        let mut place = u64::from(number) % round;
        for (index, share) in self.shares.iter().enumerate() {
            match place.checked_sub(u64::from(share.count)) {
                Some(rest) => place = rest,
                None => return index,
            }
        }
        unreachable!("a place within a round is within a share")
    }

    fn body(&self, index: u8) -> Result<&Body, HandlerError> {
        let share = self.shares.get(usize::from(index));
        share.map(|share| &share.body).ok_or_else(|| HandlerError::msg(format!("this test has no body {index}")))
    }
}

/// What travels in the arguments of each job. Instants are Unix microseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Parcel {
    body: u8,
    /// When the push was due.
    pub(super) due_us: u64,
    /// When it was begun.
    pub(super) called_us: u64,
    /// Makes the arguments as long as they were asked for.
    filling: String,
}

impl Parcel {
    /// Which body it is for.
    pub(super) fn share(&self) -> usize {
        usize::from(self.body)
    }
}

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "windlass.load.async", attempts = 1)]
struct Waiting(Parcel);

#[derive(Debug, Serialize, Deserialize, Job)]
#[job(kind = "windlass.load.cpu", attempts = 1)]
struct Computing(Parcel);

/// The shortest arguments, in bytes: those without a filling.
pub(super) const PAYLOAD_LEN_MIN: u32 = 88;

/// A complete job.
pub(super) fn new_job(
    mix: &Mix,
    (number, id): (u32, JobId),
    (due_us, called_us): (u64, u64),
    payload_len: u32,
    (at, options): (Timestamp, JobOptions),
) -> Result<NewJob, windlass::Error> {
    let index = mix.turn(number);
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) + 1;
    // [{"body":0,"due_us":,"called_us":,"filling":""}] and the digits of the two instants.
    let bare = 48 + digits(due_us) + digits(called_us);
    let filling = "x".repeat(payload_len.saturating_sub(bare) as usize);
    let parcel = Parcel { body: index as u8, due_us, called_us, filling };
    match mix.shares[index].body {
        Body::Fib(_) => Client::describe(id, &Computing(parcel), at, options),
        _ => Client::describe(id, &Waiting(parcel), at, options),
    }
}

/// The handlers of both kinds.
pub(super) fn handlers() -> Handlers {
    Handlers::new().on(wait).cpu(compute)
}

async fn wait(Waiting(parcel): Waiting, meter: State<Meter>, ctx: Context) -> Result<(), HandlerError> {
    let since = meter.begin(&parcel, &ctx)?;
    match meter.mix().body(parcel.body)? {
        Body::Noop => {}
        Body::Sleep(span) => tokio::time::sleep(*span).await,
        Body::Http(uri) => http::get(meter.requests(), uri).await?,
        Body::Append(path) => append(path, &ctx)?,
        Body::Fib(_) => return Err(HandlerError::msg("numbers are computed on the CPU pool")),
    }
    meter.end(&parcel, since, &ctx)
}

fn compute(Computing(parcel): Computing, meter: State<Meter>, ctx: Context) -> Result<(), HandlerError> {
    let since = meter.begin(&parcel, &ctx)?;
    if let Body::Fib(number) = meter.mix().body(parcel.body)? {
        std::hint::black_box(fib(std::hint::black_box(*number)));
    }
    meter.end(&parcel, since, &ctx)
}

/// A few microseconds on a local file system: not worth another thread.
fn append(path: &Path, ctx: &Context) -> Result<(), HandlerError> {
    let failed =
        |error: std::io::Error| HandlerError::with_class("Io", format!("cannot append to {}: {error}", path.display()));
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(format!("{}\n", ctx.id()).as_bytes()).map_err(failed)
}

fn fib(number: u32) -> u64 {
    if number < 2 { u64::from(number) } else { fib(number - 1) + fib(number - 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(texts: &[&str]) -> Mix {
        Mix::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn bodies_are_read_and_dealt_out_by_their_shares() {
        let mix = mix(&["noop", "2*sleep:5ms", "http://127.0.0.1:9/x", "append:/tmp/a", "fib:25"]);

        let turns: Vec<usize> = (0..7).map(|number| mix.turn(number)).collect();

        assert_eq!(turns, [0, 1, 1, 2, 3, 4, 0]);
        assert_eq!(mix.shares[1].body, Body::Sleep(Duration::from_millis(5)));
    }

    #[test]
    fn what_is_no_body_is_refused_with_those_that_are() {
        for text in ["", "nap", "sleep", "sleep:5", "fib:x", "fib:46", "append:", "http:", "https://a/", "0*noop"] {
            assert!(text.parse::<Share>().unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn arguments_are_as_long_as_they_were_asked_for() {
        let mix = mix(&["noop"]);
        let now = 1_763_727_000_000_000;
        for len in [PAYLOAD_LEN_MIN, 200, 10_000] {
            let id = JobId::from_bytes([1; 12]);
            let job = new_job(&mix, (0, id), (now, now), len, (Timestamp::EPOCH, JobOptions::new())).unwrap();
            assert_eq!(job.payload.len(), len as usize);
        }
    }

    #[test]
    fn the_slow_recursion_is_right() {
        assert_eq!(fib(25), 75_025);
    }
}
