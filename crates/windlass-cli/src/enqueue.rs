//! `windlass enqueue KIND [ARGS…]`: puts a job into the store.
//!
//! Two kinds are written in words of their own, for they are what `windlass serve` can run by itself:
//! `enqueue exec -- PROGRAM [ARGS…]` and `enqueue http URL`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;

use windlass::config::parse_duration;
use windlass::retry::RetryPolicy;
use windlass::trace::Trace;
use windlass::{Job, JobId, JobOptions, Timestamp};

use crate::exit::Usage;
use crate::http::{self, Http};
use crate::store::Opened;
use crate::{Common, output, store, time};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind: the name that selects the handler
    kind: String,
    /// The arguments: each a JSON value, or a word that stands for itself. For `exec`: -- PROGRAM [ARGS…]; for
    /// `http`: the URL
    args: Vec<String>,
    /// Run it after this long, such as 90s or 1h30m
    #[arg(long = "in", value_name = "DELAY", conflicts_with = "at", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Run it at this instant, such as 2026-11-21T12:00:00Z
    #[arg(long, value_name = "INSTANT", value_parser = time::parse_instant)]
    at: Option<Timestamp>,
    /// The queue
    #[arg(long)]
    queue: Option<String>,
    /// Runs allowed, the first included
    #[arg(long, value_name = "COUNT")]
    attempts: Option<u32>,
    /// Retry after this fixed delay instead of the growing default
    #[arg(long, value_name = "DELAY", value_parser = parse_duration)]
    retry: Option<Duration>,
    /// The longest one run may take
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Keep the finished job and its result for this long
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    keep: Option<Duration>,
    /// Give up when it has not started this long after its time
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    expires: Option<Duration>,
    /// Never run it twice, whatever happens
    #[arg(long)]
    at_most_once: bool,
    #[command(flatten)]
    own: OwnKinds,
}

/// What only the kinds `exec` and `http` understand.
#[derive(Debug, clap::Args)]
struct OwnKinds {
    /// For `exec` and `http`: JSON that the program finds in the job it reads, or that is posted
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// For `exec`: the folder to run in
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// For `exec`: a variable of the program's environment; may be given several times
    #[arg(long = "setenv", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    /// For `exec`: nothing on the program's standard input, instead of the job as JSON
    #[arg(long)]
    no_stdin: bool,
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let id = match arguments.kind.as_str() {
        #[cfg(unix)]
        crate::exec::Exec::KIND => put(common, arguments, &exec_job(arguments)?),
        Http::KIND => put(common, arguments, &http_job(arguments)?),
        kind => {
            arguments.own.refuse(kind)?;
            let (args, opened) = (json_array(&arguments.args)?, store::open(common)?);
            let at = start(arguments, &opened);
            opened.wait(opened.client().with(options(arguments)).raw_at(at, kind, &args))
        }
    }?;
    if common.json {
        return output::json(&serde_json::json!({ "id": id }));
    }
    output::line(&id.to_string())
}

fn put<J: Job>(common: &Common, arguments: &Arguments, job: &J) -> anyhow::Result<JobId> {
    let opened = store::open(common)?;
    let at = start(arguments, &opened);
    opened.wait(opened.client().with(options(arguments)).enqueue_at(at, job))
}

/// When it is to run.
fn start(arguments: &Arguments, opened: &Opened) -> Timestamp {
    arguments.at.unwrap_or_else(|| opened.now() + arguments.delay.unwrap_or_default())
}

/// The words are the program and its arguments, as they stand.
#[cfg(unix)]
fn exec_job(arguments: &Arguments) -> anyhow::Result<crate::exec::Exec> {
    if arguments.args.first().is_none_or(String::is_empty) {
        return Err(Usage("no program: write windlass enqueue exec -- PROGRAM [ARGS…]".to_owned()).into());
    }
    let own = &arguments.own;
    Ok(crate::exec::Exec {
        argv: arguments.args.clone(),
        env: variables(&own.variables)?,
        cwd: own.cwd.clone(),
        data: own.data()?,
        no_stdin: own.no_stdin,
    })
}

fn http_job(arguments: &Arguments) -> anyhow::Result<Http> {
    let own = &arguments.own;
    if own.cwd.is_some() || !own.variables.is_empty() || own.no_stdin {
        return Err(Usage("--cwd, --setenv and --no-stdin are for jobs of kind exec".to_owned()).into());
    }
    let [url] = &arguments.args[..] else {
        return Err(Usage("one address: write windlass enqueue http URL [--data JSON]".to_owned()).into());
    };
    http::parse_url(url).map_err(Usage)?;
    Ok(Http { url: url.clone(), data: own.data()? })
}

#[cfg(unix)]
fn variables(texts: &[String]) -> Result<BTreeMap<String, String>, Usage> {
    let variable = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Usage(format!("--setenv {text:?} must be NAME=VALUE"))),
    };
    texts.iter().map(variable).collect()
}

/// The trace that this command is part of, as tools hand it on. What is no trace context is not passed on.
fn trace() -> Option<Trace> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    Trace::new(&variable("TRACEPARENT"), &variable("TRACESTATE")).ok()
}

impl OwnKinds {
    fn data(&self) -> Result<Option<Box<RawValue>>, Usage> {
        let read = |text: &String| {
            serde_json::from_str(text).map_err(|error| Usage(format!("--data is broken JSON: {error}")))
        };
        self.data.as_ref().map(read).transpose()
    }

    /// For a kind that understands none of it.
    fn refuse(&self, kind: &str) -> Result<(), Usage> {
        let is_given = self.data.is_some() || self.cwd.is_some() || !self.variables.is_empty() || self.no_stdin;
        if is_given {
            let what = "--data, --cwd, --setenv and --no-stdin are for jobs of kind exec or http";
            return Err(Usage(format!("{what}, not {kind:?}: write the arguments after the kind")));
        }
        Ok(())
    }
}

fn options(arguments: &Arguments) -> JobOptions {
    let mut options = JobOptions::new();
    options.queue.clone_from(&arguments.queue);
    options.attempts_max = arguments.attempts;
    options.retry = arguments.retry.map(|delay| RetryPolicy::Fixed { delay_ms: delay.as_millis() as u64 });
    options.timeout = arguments.timeout;
    options.keep_done = arguments.keep;
    options.expires_in = arguments.expires;
    options.at_most_once = arguments.at_most_once.then_some(true);
    options.trace = trace();
    options
}

/// One JSON array out of the words of the command line. A word that is no JSON is a string; one that looks like an
/// object, an array or a quoted string and is broken is refused, for it was surely not meant as a string.
fn json_array(words: &[String]) -> anyhow::Result<String> {
    let mut values = Vec::new();
    for word in words {
        match serde_json::from_str::<serde_json::Value>(word) {
            Ok(value) => values.push(value),
            Err(error) if word.starts_with(['{', '[', '"']) => {
                return Err(Usage(format!("argument {word:?} is broken JSON: {error}")).into());
            }
            Err(_) => values.push(serde_json::Value::String(word.clone())),
        }
    }
    Ok(serde_json::to_string(&values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(words: &[&str]) -> anyhow::Result<String> {
        json_array(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_are_json_values_or_stand_for_themselves() {
        assert_eq!(array(&["7", "true", "ann", r#"{"a":[1]}"#]).unwrap(), r#"[7,true,"ann",{"a":[1]}]"#);
        assert_eq!(array(&[]).unwrap(), "[]");
    }

    #[test]
    fn broken_json_is_refused_and_not_taken_for_a_word() {
        assert!(array(&["{\"a\":"]).unwrap_err().to_string().contains("broken JSON"));
    }
}
