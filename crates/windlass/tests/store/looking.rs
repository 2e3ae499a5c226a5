//! Pages, counts, queues, history.

use windlass::blocking::block_on;
use windlass::job::{JobId, JobOptions, NewJob, Payload};
use windlass::state::State;
use windlass::store::{JobQuery, PAGE_LEN_MAX, SEARCH_LEN_MAX, Severity, Verdict};

use crate::fixture::{Fixture, HOUR, MORNING, SECOND, done, error, for_every_store};

for_every_store!(
    pages_show_everything_once_in_order,
    a_filter_shows_what_matches_and_nothing_else,
    a_search_finds_a_text_wherever_people_look_for_it,
    a_search_through_many_pages_finds_each_job_once,
    a_page_outside_its_limits_is_refused,
    queues_tell_their_counts_and_their_latency,
    history_is_told_by_day,
    a_closed_store_says_so,
    an_examination_finds_nothing_wrong,
);

fn pages_show_everything_once_in_order(f: &Fixture) {
    let mut ready = f.insert_many(7);
    f.clock.advance(SECOND);
    ready.push(f.insert(JobOptions::new().queue("other")));
    let mut dead: Vec<JobId> = f.insert_many(5);
    for id in &dead {
        f.clock.advance(SECOND);
        block_on(f.store.kill(vec![*id])).unwrap();
    }
    dead.reverse();

    for limit in [1, 2, 3, 100] {
        let list = |state| {
            let jobs = f.all(JobQuery { state, limit, ..JobQuery::default() });
            jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
        };
        assert_eq!(list(Some(State::Ready)), ready, "limit {limit}");
        assert_eq!(list(Some(State::Dead)), dead, "limit {limit}");
        assert_eq!(list(Some(State::Retry)), []);
        assert_eq!(list(None).len(), 13);
        assert_eq!(list(None)[12], ready[0]);
    }
}

fn a_filter_shows_what_matches_and_nothing_else(f: &Fixture) {
    let wanted = NewJob { kind: "rare".to_owned(), ..f.new_job(JobOptions::new().queue("q")) };
    let scheduled = NewJob { kind: "rare".to_owned(), ..f.new_job_at(f.now() + HOUR, JobOptions::new().queue("q")) };
    let ids = [wanted.id, scheduled.id];
    f.insert_many(5);
    block_on(f.store.insert(vec![wanted, scheduled])).unwrap();
    f.insert(JobOptions::new().queue("q"));

    let found = |state, queue: Option<&str>, kind: Option<&str>| {
        let (queue, kind) = (queue.map(str::to_owned), kind.map(str::to_owned));
        let jobs = f.all(JobQuery { state, queue, kind, limit: 2, ..JobQuery::default() });
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(found(Some(State::Ready), Some("q"), Some("rare")), [ids[0]]);
    assert_eq!(found(Some(State::Scheduled), Some("q"), None), [ids[1]]);
    assert_eq!(found(Some(State::Scheduled), None, Some("kind")), []);
    assert_eq!(found(None, None, Some("rare")), [ids[1], ids[0]]);
    assert_eq!(found(Some(State::Ready), Some("q"), None).len(), 2);
}

fn a_search_finds_a_text_wherever_people_look_for_it(f: &Fixture) {
    let member = f.join("a");
    let by_payload =
        NewJob { payload: Payload::from_bytes("[{\"to\":\"žluť 100%_\"}]"), ..f.new_job(JobOptions::new()) };
    let by_kind = NewJob { kind: "mail.urgent".to_owned(), ..f.new_job(JobOptions::new()) };
    let by_bytes = NewJob { payload: Payload::from_bytes(b"[\xffneedle\xfe"), ..f.new_job(JobOptions::new()) };
    let by_error = f.new_job(JobOptions::new());
    let ids = [by_payload.id, by_kind.id, by_bytes.id, by_error.id];
    block_on(f.store.insert(vec![by_error])).unwrap();
    let leased = f.lease_one(&member);
    let dead = Verdict::Dead { reason: "why".to_owned(), error: Some(error(f.now())) };
    let _ = f.finish(&member, leased.token, dead);
    block_on(f.store.insert(vec![by_payload, by_kind, by_bytes])).unwrap();

    let found = |text: &str, state| {
        let jobs = f.all(JobQuery { search: Some(text.to_owned()), state, limit: 2, ..JobQuery::default() });
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(found("luť 100%_", None), [ids[0]]);
    assert_eq!(found("l.urg", None), [ids[1]]);
    assert_eq!(found("needle", None), [ids[2]]);
    assert_eq!(found("štěstí\"\n", None), [ids[3]]);
    assert_eq!(found(&ids[3].to_string(), Some(State::Dead)), [ids[3]]);
    assert_eq!(found(&ids[3].to_string()[12..], None), [ids[3]]);
    assert_eq!(found("štěstí", Some(State::Ready)), []);
    assert_eq!(found("NEEDLE", None), []);
    assert_eq!(found("", None).len(), 4);
    for state in [None, Some(State::Ready)] {
        assert_eq!(found("%", state), [ids[0]], "no wildcards");
    }
}

fn a_search_through_many_pages_finds_each_job_once(f: &Fixture) {
    let mut wanted = Vec::new();
    for slice in 0..3 {
        let mut batch: Vec<NewJob> =
            (0..4_000).map(|n| f.new_job(JobOptions::new().queue(format!("q{}", n % 3)))).collect();
        batch[slice * 1_900].payload = Payload::from_bytes("[\"rare\"]");
        wanted.push(batch[slice * 1_900].id);
        block_on(f.store.insert(batch)).unwrap();
    }

    for state in [None, Some(State::Ready)] {
        let mut found: Vec<JobId> = f
            .all(JobQuery { search: Some("rare".to_owned()), state, limit: 1, ..JobQuery::default() })
            .into_iter()
            .map(|job| job.id)
            .collect();
        found.sort_by_key(|id| wanted.iter().position(|w| w == id));
        assert_eq!(found, wanted, "{state:?}");
    }
}

fn a_page_outside_its_limits_is_refused(f: &Fixture) {
    let long = JobQuery { search: Some("x".repeat(SEARCH_LEN_MAX + 1)), ..JobQuery::default() };
    assert!(block_on(f.store.list(long)).is_err());
    for limit in [0, PAGE_LEN_MAX + 1] {
        assert!(block_on(f.store.list(JobQuery { limit, ..JobQuery::default() })).is_err());
    }
    assert!(block_on(f.store.history(0)).is_err());
    assert!(block_on(f.store.history(91)).is_err());
}

fn queues_tell_their_counts_and_their_latency(f: &Fixture) {
    let member = f.join("a");
    f.insert_many(3);
    f.lease_one(&member);
    block_on(f.store.insert(vec![f.new_job_at(f.now() + HOUR, JobOptions::new())])).unwrap();
    block_on(f.store.pause("empty")).unwrap();
    f.clock.advance(5 * SECOND);

    let queues = block_on(f.store.queues()).unwrap();

    let shown: Vec<_> =
        queues.iter().map(|q| (q.name.as_str(), q.ready, q.running, q.waiting, q.latency_ms, q.paused)).collect();
    assert_eq!(shown, [("default", 2, 1, 1, 5_000, false), ("empty", 0, 0, 0, 0, true)]);
}

fn history_is_told_by_day(f: &Fixture) {
    let member = f.join("a");
    f.insert(JobOptions::new());
    f.clock.advance(24 * HOUR);
    block_on(f.store.beat(&member, Default::default())).unwrap();
    let token = f.lease_one(&member).token;
    let _ = f.finish(&member, token, done());

    let days = block_on(f.store.history(7)).unwrap();

    let shown: Vec<_> = days.iter().map(|day| (day.totals.enqueued, day.totals.done)).collect();
    assert_eq!(shown, [(0, 1), (1, 0)]);
    assert!(days[1].day <= MORNING && MORNING.since(days[1].day) < 24 * HOUR);
    assert_eq!(block_on(f.store.history(1)).unwrap().len(), 1);
}

fn a_closed_store_says_so(f: &Fixture) {
    block_on(f.store.close()).unwrap();

    let error = block_on(f.store.insert(vec![f.new_job(JobOptions::new())])).unwrap_err();

    assert!(error.to_string().contains("closed"), "{error}");
    assert!(block_on(f.store.counts()).is_err());
    block_on(f.store.close()).unwrap();
}

fn an_examination_finds_nothing_wrong(f: &Fixture) {
    f.insert_many(3);

    let findings = block_on(f.store.check()).unwrap();

    assert!(findings.iter().all(|finding| finding.severity < Severity::Problem), "{findings:?}");
}
