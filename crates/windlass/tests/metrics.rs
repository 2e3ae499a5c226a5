//! The text of a scrape, read as strictly as the OpenMetrics specification 1.0 allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use windlass::blocking::block_on;
use windlass::metrics::{LABELS_MAX, render};
use windlass::store::measure::OTHER;
use windlass::store::memory::MemoryStore;
use windlass::store::{Measure, MemberId, MemberInfo, Sample, Store};
use windlass::{Client, Inspector, JobOptions};

type Labels = BTreeMap<String, String>;

/// One line that is no comment.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    name: String,
    labels: Labels,
    value: f64,
}

/// A scrape: the type of each family, and every line.
#[derive(Debug, Default)]
struct Scrape {
    types: BTreeMap<String, String>,
    lines: Vec<Line>,
}

impl Scrape {
    /// Reads a text, and fails on whatever the specification forbids.
    fn read(text: &str) -> Result<Scrape, String> {
        let body = text.strip_suffix("# EOF\n").ok_or("no # EOF at the end")?;
        let (mut scrape, mut helped, mut family) = (Scrape::default(), BTreeSet::new(), String::new());
        for line in body.split_terminator('\n') {
            let fail = |why: &str| Err(format!("{why}: {line:?}"));
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.splitn(3, ' ');
                let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next()) else {
                    return fail("a short comment");
                };
                if name != family && (scrape.types.contains_key(name) || helped.contains(name)) {
                    return fail("a family in two places");
                }
                family = name.to_owned();
                match word {
                    "HELP" if !helped.insert(family.clone()) => return fail("a second HELP"),
                    "HELP" => {}
                    "TYPE" if !["counter", "gauge", "histogram"].contains(&rest) => return fail("an odd TYPE"),
                    "TYPE" if scrape.types.insert(family.clone(), rest.to_owned()).is_some() => {
                        return fail("a second TYPE");
                    }
                    "TYPE" => {}
                    "UNIT" if !family.ends_with(&format!("_{rest}")) => return fail("a UNIT that is not in the name"),
                    "UNIT" => {}
                    _ => return fail("an odd comment"),
                }
                continue;
            }
            let parsed = parse(line).ok_or(format!("no metric line: {line:?}"))?;
            let Some(suffix) = parsed.name.strip_prefix(family.as_str()) else { return fail("outside its family") };
            let allowed: &[&str] = match scrape.types.get(&family).map(String::as_str) {
                Some("counter") => &["_total"],
                Some("gauge") => &[""],
                Some("histogram") => &["_bucket", "_count", "_sum"],
                _ => return fail("before its TYPE"),
            };
            if !allowed.contains(&suffix) || !helped.contains(&family) {
                return fail("a suffix its type does not have, or no HELP");
            }
            if (!suffix.is_empty() && parsed.value < 0.0) || parsed.value.is_nan() {
                return fail("a count below 0");
            }
            if scrape.lines.iter().any(|other| other.name == parsed.name && other.labels == parsed.labels) {
                return fail("the same twice");
            }
            scrape.lines.push(parsed);
        }
        scrape.check_histograms()?;
        Ok(scrape)
    }

    /// Buckets grow, end at infinity, and agree with the count.
    fn check_histograms(&self) -> Result<(), String> {
        let mut series: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for line in &self.lines {
            let Some(family) = line.name.strip_suffix("_bucket") else { continue };
            let mut labels = line.labels.clone();
            let le = labels.remove("le").ok_or("a bucket without le")?;
            let le = if le == "+Inf" { f64::INFINITY } else { le.parse().map_err(|_| format!("le {le:?}"))? };
            series.entry((family.to_owned(), labels)).or_default().push((le, line.value));
        }
        for ((family, labels), buckets) in series {
            let count = self.value(&format!("{family}_count"), &labels).ok_or(format!("{family} without a count"))?;
            self.value(&format!("{family}_sum"), &labels).ok_or(format!("{family} without a sum"))?;
            let is_rising = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            if !is_rising || buckets.last() != Some(&(f64::INFINITY, count)) {
                return Err(format!("{family} {labels:?}: {buckets:?}, count {count}"));
            }
        }
        Ok(())
    }

    fn value(&self, name: &str, labels: &Labels) -> Option<f64> {
        self.lines.iter().find(|line| line.name == name && line.labels == *labels).map(|line| line.value)
    }

    fn of(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.value(name, &labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }
}

fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// `name{label="value",…} number`, with nothing before, between or after.
fn parse(line: &str) -> Option<Line> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while let Some((label, after)) = rest.split_once("=\"") {
            let (value, after) = unescaped(after)?;
            if !is_name(label) || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = after;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.strip_prefix(' ')?;
    let is_number = value.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | '-' | '+'));
    (is_name(name) && is_number).then_some(Line { name: name.to_owned(), labels, value: value.parse().ok()? })
}

/// A label's value up to its closing quote, and what follows.
fn unescaped(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\n' => return None,
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn join(store: &dyn Store) -> MemberId {
    let id = MemberId::new("host", 1, 1);
    let (host, queues) = ("host".to_owned(), vec!["default".to_owned()]);
    let version = "0".to_owned();
    let info = MemberInfo { id: id.clone(), host, pid: 1, queues, weights: Vec::new(), concurrency: 7, version };
    block_on(store.join(info, Duration::from_secs(15))).unwrap();
    id
}

fn sample(kind: &str, queue: &str, took_ms: &[u64]) -> Sample {
    let mut measure = Measure { processed: took_ms.len() as u64 + 1, failed: 1, ..Measure::default() };
    for ms in took_ms {
        measure.run.note(*ms);
        measure.start.note(*ms);
        (measure.run_ms, measure.start_ms) = (measure.run_ms + ms, measure.start_ms + ms);
    }
    Sample { kind: kind.to_owned(), queue: queue.to_owned(), measure }
}

fn scrape(store: Arc<dyn Store>) -> Scrape {
    let text = block_on(render(&Inspector::new(store))).unwrap();
    Scrape::read(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

#[test]
fn an_empty_store_is_told_without_a_fault() {
    let scrape = scrape(store());

    assert_eq!(scrape.of("windlass_jobs_enqueued_total", &[]), Some(0.0));
    assert_eq!(scrape.of("windlass_jobs", &[("state", "dead")]), Some(0.0));
    assert_eq!(scrape.types["windlass_run_duration_seconds"], "histogram");
}

#[test]
fn jobs_queues_processes_and_runs_are_told() {
    let store = store();
    let member = join(&*store);
    let client = Client::new(Arc::clone(&store));
    let dead = block_on(client.raw("mail", "[]")).unwrap();
    block_on(client.kill(dead)).unwrap();
    block_on(client.with(JobOptions::new().queue("slow")).raw("mail", "[]")).unwrap();
    let later = store.now() + Duration::from_secs(3_600);
    block_on(client.with(JobOptions::new()).raw_at(later, "mail", "[]")).unwrap();
    block_on(client.pause("paused")).unwrap();
    block_on(store.record(&member, vec![sample("mail", "slow", &[10, 25, 400_000])])).unwrap();

    let scrape = scrape(store);

    assert_eq!(scrape.of("windlass_jobs_enqueued_total", &[]), Some(3.0));
    assert_eq!(scrape.of("windlass_jobs", &[("state", "scheduled")]), Some(1.0));
    assert_eq!(scrape.of("windlass_jobs_dead_total", &[]), Some(1.0));
    assert_eq!(scrape.of("windlass_queue_jobs", &[("queue", "slow"), ("state", "ready")]), Some(1.0));
    assert_eq!(scrape.of("windlass_queue_paused", &[("queue", "paused")]), Some(1.0));
    assert!(scrape.of("windlass_queue_latency_seconds", &[("queue", "slow")]).is_some());
    assert_eq!(scrape.of("windlass_processes", &[("state", "active")]), Some(1.0));
    assert_eq!(scrape.of("windlass_process_slots", &[]), Some(7.0));
    let mail = [("kind", "mail"), ("queue", "slow")];
    assert_eq!(scrape.of("windlass_runs_total", &mail), Some(4.0));
    assert_eq!(scrape.of("windlass_run_failures_total", &mail), Some(1.0));
    assert_eq!(scrape.of("windlass_run_duration_seconds_sum", &mail), Some(400.035));
    let below = |le| scrape.of("windlass_run_duration_seconds_bucket", &[mail[0], mail[1], ("le", le)]);
    assert_eq!(
        (below("0.02"), below("0.03"), below("335.0"), below("+Inf")),
        (Some(1.0), Some(2.0), Some(2.0), Some(3.0))
    );
    assert_eq!(scrape.of("windlass_start_latency_seconds_count", &mail), Some(3.0));
}

#[test]
fn hostile_names_stay_within_their_quotes() {
    let store = store();
    let member = join(&*store);
    let hostile = ["a\"} 1\nwindlass_jobs 7", "back\\slash\\", "\\n", "žluť\u{202e}\u{1b}[2J", "", "# EOF"];
    let samples = hostile.map(|name| sample(name, name, &[1])).to_vec();
    block_on(store.record(&member, samples)).unwrap();

    let scrape = scrape(store);

    for name in hostile {
        assert_eq!(scrape.of("windlass_runs_total", &[("kind", name), ("queue", name)]), Some(2.0), "{name:?}");
    }
}

#[test]
fn many_kinds_and_queues_are_summed_up_as_other_and_nothing_is_lost() {
    let store = store();
    let member = join(&*store);
    let client = Client::new(Arc::clone(&store));
    let count = 3 * LABELS_MAX;
    for number in 0..count {
        block_on(client.with(JobOptions::new().queue(format!("q{number}"))).raw("kind", "[]")).unwrap();
    }
    block_on(store.record(&member, (0..count).map(|n| sample(&format!("k{n}"), "q", &[1])).collect())).unwrap();

    let scrape = scrape(store);

    let sum = |name: &str| scrape.lines.iter().filter(|line| line.name == name).map(|line| line.value).sum::<f64>();
    let lines = |name: &str| scrape.lines.iter().filter(|line| line.name == name).count();
    assert_eq!((sum("windlass_runs_total"), lines("windlass_runs_total")), (2.0 * count as f64, LABELS_MAX + 1));
    assert_eq!((sum("windlass_queue_jobs"), lines("windlass_queue_paused")), (count as f64, LABELS_MAX + 1));
    let rest = (count - LABELS_MAX) as f64;
    assert_eq!(scrape.of("windlass_runs_total", &[("kind", OTHER), ("queue", OTHER)]), Some(2.0 * rest));
    assert_eq!(scrape.of("windlass_runs_total", &[("kind", "k0"), ("queue", "q")]), Some(2.0));
}

/// The controls: what a reader this strict must refuse.
#[test]
fn the_reader_refuses_what_the_specification_forbids() {
    let good = "# HELP a b.\n# TYPE a gauge\na{x=\"1\"} 2\n# EOF\n";
    assert!(Scrape::read(good).is_ok());
    for (what, instead) in [
        ("# EOF\n", ""),
        ("a{x=\"1\"} 2\n", "b 2\n"),
        ("a{x=\"1\"} 2\n", "a{x=\"1\"} 2\na{x=\"1\"} 3\n"),
        ("a{x=\"1\"} 2", "a{x=\"1\"}  2"),
        ("a{x=\"1\"} 2", "a{x=\"\\q\"} 2"),
        ("a{x=\"1\"} 2", "a{x=\"1\"} two"),
        ("gauge", "counter"),
        ("# TYPE a gauge\n", ""),
        ("# HELP a b.\n", ""),
    ] {
        assert!(Scrape::read(&good.replace(what, instead)).is_err(), "{what:?} → {instead:?}");
    }
    let histogram = "# HELP h b.\n# TYPE h histogram\nh_sum 1.0\nh_count 2\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 2\n# EOF\n";
    assert!(Scrape::read(histogram).is_ok());
    assert!(Scrape::read(&histogram.replace("h_count 2", "h_count 3")).is_err());
    assert!(Scrape::read(&histogram.replace("} 1\n", "} 3\n")).is_err());
}
