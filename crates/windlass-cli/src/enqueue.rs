//! `windlass enqueue KIND [ARGS…]`: puts a job into the store.

use std::time::Duration;

use windlass::config::parse_duration;
use windlass::retry::RetryPolicy;
use windlass::{JobOptions, Timestamp};

use crate::exit::Usage;
use crate::{Common, output, store, time};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind: the name that selects the handler
    kind: String,
    /// The arguments: each a JSON value, or a word that stands for itself
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
}

pub(crate) fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<()> {
    let opened = store::open(common)?;
    let args = json_array(&arguments.args)?;
    let client = opened.client();
    let at = arguments.at.or(arguments.delay.map(|delay| opened.now() + delay));
    let options = options(arguments);
    let enqueue = client.with(options);
    let id = match at {
        None => opened.wait(enqueue.raw(&arguments.kind, &args))?,
        Some(at) => opened.wait(enqueue.raw_at(at, &arguments.kind, &args))?,
    };
    if common.json {
        return output::json(&serde_json::json!({ "id": id }));
    }
    output::line(&id.to_string())
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
