//! What others wrote: jobs of Ruby programs, jobs with fields nobody here knows, and what is no job at all.

use windlass::blocking::block_on;
use windlass::job::ErrorInfo;
use windlass::state::State;
use windlass::store::{Changed, Finished, JobQuery, Store, Verdict};
use windlass_testbed::{RedisServer, Reply};

use crate::{insert, join, lease, open};

/// As Sidekiq 8 writes it, with fields of other gems.
const RUBY: &str = r#"{"retry":5,"queue":"default","args":[1.50,{"to":"ž","big":12345678901234567890}],"class":"HardWorker","jid":"b4a577edbccf1d805744efa9","created_at":1760000000123,"enqueued_at":1760000000124,"cattr":{"locale":"cs","n":1e2},"tags":["a"]}"#;

const JID: &str = "b4a577edbccf1d805744efa9";

#[test]
fn a_job_that_ruby_pushed_keeps_every_field_through_a_failure() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url());
    server.cli(&["SADD", "queues", "default"]).unwrap();
    server.cli(&["LPUSH", "queue:default", RUBY]).unwrap();
    let member = join(&store, "a");

    let job = lease(&store, &member, 9).pop().unwrap();
    assert_eq!((job.kind.as_str(), job.attempt, job.settings.attempts_max()), ("HardWorker", 1, 6));
    assert_eq!(job.payload.to_text(), r#"[1.50,{"to":"ž","big":12345678901234567890}]"#);
    assert_eq!((job.token.job().to_string().as_str(), job.enqueued_at.as_millis()), (JID, 1_760_000_000_123));
    let now = store.now();
    let error = ErrorInfo { class: "E".into(), message: "no".into(), backtrace: None, attempt: 1, at: now };
    let verdict = Verdict::Retry { at: now, error };
    assert_eq!(block_on(store.finish(&member, vec![(job.token, verdict)])).unwrap(), [Finished::Landed]);

    let member = server.cli(&["ZRANGE", "retry", "0", "-1"]).unwrap().texts().pop().unwrap();
    let head = RUBY.trim_end_matches('}');
    assert!(member.starts_with(head), "{member}");
    assert!(member[head.len()..].starts_with(r#","failed_at":"#), "{member}");
    for field in [r#""retry_count":0"#, r#""error_class":"E""#, r#""error_message":"no""#] {
        assert!(member.contains(field), "{field} in {member}");
    }
}

#[test]
fn a_jid_that_is_no_24_digits_works_and_is_kept() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url());
    let own = RUBY.replace(JID, "order-17/a");
    server.cli(&["SADD", "queues", "default"]).unwrap();
    server.cli(&["LPUSH", "queue:default", &own]).unwrap();

    let job = block_on(store.list(JobQuery::default())).unwrap().jobs.pop().unwrap();
    assert_eq!(block_on(store.get(job.id)).unwrap().unwrap().kind, "HardWorker");
    assert_eq!(block_on(store.kill(vec![job.id])).unwrap(), [Changed::From(State::Ready)]);
    assert_eq!(block_on(store.requeue(vec![job.id])).unwrap(), [Changed::From(State::Dead)]);

    let element = server.cli(&["LINDEX", "queue:default", "0"]).unwrap().text();
    assert!(element.contains(r#""jid":"order-17/a""#), "{element}");
    let member = join(&store, "a");
    assert_eq!(lease(&store, &member, 9)[0].token.job(), job.id);
}

#[test]
fn what_is_no_job_goes_to_the_dead_unchanged_and_keeps_nobody_from_working() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url());
    let id = insert(&store);
    let rubbish: [&[u8]; 3] = [b"not json", b"{\"class\":1}", b"\xff\x00\xfe"];
    for element in rubbish {
        server.cli(&[&b"RPUSH"[..], b"queue:default", element]).unwrap();
    }
    let member = join(&store, "a");

    let leased = lease(&store, &member, 1);

    assert_eq!(leased.iter().map(|job| job.token.job()).collect::<Vec<_>>(), [id]);
    for element in rubbish {
        assert!(matches!(server.cli(&[&b"ZSCORE"[..], b"dead", element]).unwrap(), Reply::Bytes(_)), "{element:?}");
    }
    let dead = block_on(store.list(JobQuery { state: Some(State::Dead), ..JobQuery::default() })).unwrap().jobs;
    assert_eq!(dead.iter().map(|job| job.reason.as_deref()).collect::<Vec<_>>(), [Some("undecodable"); 3]);
    assert_eq!(
        block_on(store.delete(dead.iter().map(|job| job.id).collect())).unwrap(),
        [Changed::From(State::Dead); 3]
    );
    assert_eq!(block_on(store.counts()).unwrap().dead, 0);
}

#[test]
fn a_job_for_a_paid_edition_of_sidekiq_is_kept_and_not_run() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url());
    server.cli(&["SADD", "queues", "default"]).unwrap();
    server.cli(&["LPUSH", "queue:default", &RUBY.replace("\"tags\"", "\"bid\":\"B-1\",\"tags\"")]).unwrap();
    let member = join(&store, "a");

    assert_eq!(lease(&store, &member, 9), []);

    let kept = block_on(store.list(JobQuery { state: Some(State::Retry), ..JobQuery::default() })).unwrap().jobs;
    let error = kept[0].error.as_ref().unwrap();
    assert!(error.class == "Unsupported" && error.message.contains("bid"), "{error:?}");
}

#[test]
fn what_is_pushed_is_what_sidekiq_reads() {
    let server = RedisServer::start().unwrap();
    for (url, instants) in [(server.url(), ""), (format!("{}?namespace=old&dialect=7", server.url()), ".")] {
        let store = open(&url);
        let id = insert(&store);
        let prefix = if instants.is_empty() { "" } else { "old:" };
        let element = server.cli(&["LINDEX", &format!("{prefix}queue:default"), "0"]).unwrap().text();
        let job: serde_json::Value = serde_json::from_str(&element).unwrap();
        assert_eq!((job["class"].as_str(), job["jid"].as_str()), (Some("kind"), Some(id.to_string().as_str())));
        assert_eq!(
            (job["queue"].as_str(), &job["retry"], job["args"][0].as_i64()),
            (Some("default"), &true.into(), Some(1))
        );
        assert_eq!(job["created_at"].to_string().contains('.'), !instants.is_empty(), "{element}");
        assert_eq!(job.get("wl"), None, "{element}");
        assert_eq!(server.cli(&["SISMEMBER", &format!("{prefix}queues"), "default"]).unwrap(), Reply::Integer(1));
    }
}
