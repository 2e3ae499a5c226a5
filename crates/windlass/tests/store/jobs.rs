//! A job's life in a store: insert, lease, finish, promote, and what clients do to it.

use std::time::Duration;

use windlass::StoreError;
use windlass::blocking::block_on;
use windlass::job::{BATCH_LEN_MAX, JobId, JobOptions, NewJob, Payload};
use windlass::state::State;
use windlass::store::{Changed, ClearFilter, Finished, Inserted, Keep, LeasePlan, Take, VERB_LEN_MAX, Verdict};
use windlass::trace::Trace;

use crate::fixture::{Fixture, HOUR, MORNING, Order, SECOND, done, error, for_every_store};

for_every_store!(
    an_id_that_is_known_changes_nothing,
    a_batch_with_one_invalid_job_is_refused_whole,
    a_batch_beyond_the_limit_is_refused,
    payloads_come_back_byte_for_byte,
    a_trace_travels_with_its_job,
    jobs_are_leased_in_the_order_they_became_due,
    a_plan_is_followed_in_order_up_to_its_shares_and_its_maximum,
    a_paused_queue_gives_nothing_until_it_is_resumed,
    a_job_past_its_expiry_is_dead_and_not_leased,
    a_scheduled_job_becomes_ready_when_it_is_due_and_not_before,
    a_finished_job_is_removed_or_kept_with_its_result,
    a_failed_job_waits_for_its_retry_with_its_error,
    a_released_job_goes_to_the_front_and_gets_its_attempt_back,
    a_snoozed_job_gets_its_attempt_back_but_not_its_run,
    a_token_is_good_for_one_finish_of_one_run,
    one_fenced_verdict_does_not_keep_the_others_from_landing,
    cancelling_a_running_job_only_asks,
    killing_and_deleting_refuse_running_jobs,
    a_requeued_dead_job_starts_anew,
    clearing_removes_what_matches_in_slices_and_never_running_jobs,
    pruning_keeps_what_is_young_and_the_youngest_dead,
    an_unknown_id_is_not_found,
    a_wake_up_after_the_bell_was_read_is_not_missed,
);

fn an_id_that_is_known_changes_nothing(f: &Fixture) {
    let job = f.new_job(JobOptions::new());
    let other = NewJob { kind: "other".to_owned(), ..job.clone() };

    block_on(f.store.insert(vec![job.clone()])).unwrap();
    let again = block_on(f.store.insert(vec![other])).unwrap();

    assert_eq!(again, [Inserted::Duplicate(job.id)]);
    assert_eq!(f.get(job.id).kind, "kind");
    assert_eq!((f.counts().ready, f.counts().totals.enqueued), (1, 1));
}

fn a_batch_with_one_invalid_job_is_refused_whole(f: &Fixture) {
    let good = f.new_job(JobOptions::new());
    let bad = NewJob { queue: "no space".to_owned(), ..f.new_job(JobOptions::new()) };

    let error = block_on(f.store.insert(vec![good, bad])).unwrap_err();

    assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
    assert_eq!(f.counts().ready, 0);
}

fn a_batch_beyond_the_limit_is_refused(f: &Fixture) {
    let batch = vec![f.new_job(JobOptions::new()); BATCH_LEN_MAX + 1];

    assert!(block_on(f.store.insert(batch)).is_err());
    let member = f.join("a");
    assert!(block_on(f.store.lease(&member, Fixture::plan(VERB_LEN_MAX + 1))).is_err());
    assert!(block_on(f.store.promote(VERB_LEN_MAX + 1)).is_err());
}

fn payloads_come_back_byte_for_byte(f: &Fixture) {
    let member = f.join("a");
    let large = format!("[\"{}\"]", "x".repeat(1 << 18));
    for bytes in [
        &b"[]"[..],
        b"[\"\\u0000 \\\" '; DROP TABLE job; --\"]",
        "[\"žluť 🐎\"]".as_bytes(),
        b"[\xff\xfe\x00",
        large.as_bytes(),
    ] {
        let job = NewJob { payload: Payload::from_bytes(bytes), ..f.new_job(JobOptions::new()) };
        let id = job.id;
        block_on(f.store.insert(vec![job])).unwrap();

        assert_eq!(f.lease_one(&member).payload.as_bytes(), bytes);
        assert_eq!(f.get(id).payload.as_bytes(), bytes);
    }
}

fn a_trace_travels_with_its_job(f: &Fixture) {
    let member = f.join("a");
    let trace = Trace::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1").unwrap();

    let id = f.insert(JobOptions::new().trace(trace.clone()));

    assert_eq!(f.lease_one(&member).settings.trace, Some(trace.clone()));
    assert_eq!(f.get(id).settings.trace, Some(trace));
}

fn jobs_are_leased_in_the_order_they_became_due(f: &Fixture) {
    let member = f.join("a");
    let later = f.insert(JobOptions::new());
    let overdue = f.new_job_at(MORNING - HOUR, JobOptions::new());
    let first = overdue.id;
    block_on(f.store.insert(vec![overdue])).unwrap();
    let last = f.insert(JobOptions::new());

    let expected = match f.order {
        Order::Due => [first, later, last],
        Order::Ready => [later, first, last],
    };
    assert_eq!(Fixture::ids(&f.lease(&member, 10)), expected);
}

fn a_plan_is_followed_in_order_up_to_its_shares_and_its_maximum(f: &Fixture) {
    let member = f.join("a");
    for queue in ["a", "b"] {
        for _ in 0..5 {
            f.insert(JobOptions::new().queue(queue));
        }
    }
    let take = |queue: &str, max| Take { queue: queue.to_owned(), max, at_most_once: false };
    let plan = LeasePlan { takes: vec![take("b", 2), take("a", 1), take("nobody", 9), take("b", 9)], max: 4 };

    let leased = block_on(f.store.lease(&member, plan)).unwrap();

    let queues: Vec<&str> = leased.iter().map(|job| job.queue.as_str()).collect();
    assert_eq!(queues, ["b", "b", "a", "b"]);
}

fn a_paused_queue_gives_nothing_until_it_is_resumed(f: &Fixture) {
    let member = f.join("a");
    f.insert(JobOptions::new());

    assert!(block_on(f.store.pause("default")).unwrap());
    assert!(!block_on(f.store.pause("default")).unwrap());
    f.insert(JobOptions::new());
    assert_eq!(f.lease(&member, 10), []);
    assert!(block_on(f.store.queues()).unwrap()[0].paused);

    assert!(block_on(f.store.resume("default")).unwrap());
    assert!(!block_on(f.store.resume("default")).unwrap());
    assert_eq!(f.lease(&member, 10).len(), 2);
}

fn a_job_past_its_expiry_is_dead_and_not_leased(f: &Fixture) {
    let member = f.join("a");
    let expiring = f.insert(JobOptions::new().expires_in(SECOND));
    let lasting = f.insert(JobOptions::new());
    let scheduled = f.new_job_at(f.now() + SECOND, JobOptions::new().expires_in(SECOND));
    let late = scheduled.id;
    block_on(f.store.insert(vec![scheduled])).unwrap();

    f.clock.advance(10 * SECOND);
    let promoted = block_on(f.store.promote(10)).unwrap();
    let leased = f.lease(&member, 1);

    assert_eq!((promoted.ready, promoted.expired), (0, 1));
    assert_eq!(Fixture::ids(&leased), [lasting]);
    for id in [expiring, late] {
        let job = f.get(id);
        assert_eq!((job.state, job.reason.as_deref()), (State::Dead, Some("expired")));
    }
    assert_eq!((f.counts().totals.expired, f.counts().totals.dead), (2, 2));
}

fn a_scheduled_job_becomes_ready_when_it_is_due_and_not_before(f: &Fixture) {
    let job = f.new_job_at(f.now() + SECOND, JobOptions::new());
    let (id, due) = (job.id, job.run_at);
    block_on(f.store.insert(vec![job])).unwrap();
    assert_eq!(f.state(id), Some(State::Scheduled));

    f.clock.advance(SECOND - Duration::from_millis(1));
    let early = block_on(f.store.promote(10)).unwrap();
    f.clock.advance(Duration::from_millis(1));
    let on_time = block_on(f.store.promote(10)).unwrap();

    assert_eq!((early.ready, early.next_due), (0, Some(due)));
    assert_eq!((on_time.ready, on_time.next_due), (1, None));
    assert_eq!(f.state(id), Some(State::Ready));
}

fn a_finished_job_is_removed_or_kept_with_its_result(f: &Fixture) {
    let member = f.join("a");
    let (gone, kept) = (f.insert(JobOptions::new()), f.insert(JobOptions::new()));
    let leased = f.lease(&member, 2);
    let result = Some(Payload::from_bytes("{\"x\":1}"));
    let keep = Verdict::Done { result: result.clone(), keep: HOUR };

    assert_eq!(f.finish(&member, leased[0].token, done()), Finished::Landed);
    assert_eq!(f.finish(&member, leased[1].token, keep), Finished::Landed);

    assert_eq!(f.state(gone), None);
    let job = f.get(kept);
    assert_eq!((job.state, job.result, job.keep_until), (State::Done, result, Some(MORNING + HOUR)));
    assert_eq!((job.finished_at, job.member, job.leased_at), (Some(MORNING), None, None));
    assert_eq!((f.counts().done, f.counts().totals.done), (1, 2));
}

fn a_failed_job_waits_for_its_retry_with_its_error(f: &Fixture) {
    let member = f.join("a");
    let id = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;
    f.clock.advance(SECOND);
    let at = f.now() + HOUR;

    assert_eq!(f.finish(&member, token, Verdict::Retry { at, error: error(f.now()) }), Finished::Landed);

    let job = f.get(id);
    assert_eq!((job.state, job.run_at, job.attempt), (State::Retry, at, 1));
    assert_eq!((job.error, job.failed_at), (Some(error(f.now())), Some(f.now())));
    f.clock.advance(HOUR);
    assert_eq!(block_on(f.store.promote(10)).unwrap().ready, 1);
    let again = f.lease_one(&member);
    assert_eq!((again.attempt, again.failed_at), (2, Some(MORNING + SECOND)));
    let dead = Verdict::Dead { reason: "why".to_owned(), error: None };
    assert_eq!(f.finish(&member, again.token, dead), Finished::Landed);
    assert_eq!(f.get(id).reason.as_deref(), Some("why"));
    assert_eq!((f.counts().totals.failed, f.counts().totals.dead), (2, 1));
}

fn a_released_job_goes_to_the_front_and_gets_its_attempt_back(f: &Fixture) {
    let member = f.join("a");
    let first = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;
    f.clock.advance(SECOND);
    let second = f.insert(JobOptions::new());

    assert_eq!(f.finish(&member, token, Verdict::Release), Finished::Landed);

    assert_eq!(f.get(first).attempt, 0);
    let leased = f.lease(&member, 2);
    assert_eq!(Fixture::ids(&leased), [first, second]);
    assert_eq!((leased[0].attempt, leased[0].token.run()), (1, 2));
}

fn a_snoozed_job_gets_its_attempt_back_but_not_its_run(f: &Fixture) {
    let member = f.join("a");
    let id = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;

    assert_eq!(f.finish(&member, token, Verdict::Snooze { until: f.now() + SECOND }), Finished::Landed);

    let job = f.get(id);
    assert_eq!((job.state, job.attempt, job.run, job.run_at), (State::Scheduled, 0, 1, MORNING + SECOND));
}

fn a_token_is_good_for_one_finish_of_one_run(f: &Fixture) {
    let (member, other) = (f.join("a"), f.join("b"));
    let id = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;

    assert_eq!(f.finish(&other, token, done()), Finished::Fenced);
    assert_eq!(f.finish(&member, token, Verdict::Release), Finished::Landed);
    assert_eq!(f.finish(&member, token, done()), Finished::Fenced);
    let newer = f.lease_one(&member).token;
    assert_eq!(f.finish(&member, token, done()), Finished::Fenced);

    assert_eq!(f.state(id), Some(State::Running));
    assert_eq!(f.finish(&member, newer, done()), Finished::Landed);
    assert_eq!((f.counts().totals.fenced, f.counts().totals.done), (3, 1));
}

fn one_fenced_verdict_does_not_keep_the_others_from_landing(f: &Fixture) {
    let member = f.join("a");
    f.insert_many(3);
    let tokens: Vec<_> = f.lease(&member, 3).iter().map(|job| job.token).collect();
    let _ = f.finish(&member, tokens[1], done());

    let answers = block_on(f.store.finish(&member, tokens.iter().map(|token| (*token, done())).collect())).unwrap();

    assert_eq!(answers, [Finished::Landed, Finished::Fenced, Finished::Landed]);
    assert_eq!(f.counts().running, 0);
}

fn cancelling_a_running_job_only_asks(f: &Fixture) {
    let member = f.join("a");
    let running = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;
    let waiting = f.insert(JobOptions::new());

    let changed = block_on(f.store.cancel(vec![running, waiting])).unwrap();

    assert_eq!(changed, [Changed::Asked, Changed::From(State::Ready)]);
    assert_eq!((f.state(running), f.state(waiting)), (Some(State::Running), Some(State::Cancelled)));
    for _ in 0..2 {
        let orders = block_on(f.store.beat(&member, Default::default())).unwrap();
        assert_eq!(orders.cancel.iter().map(|token| token.job()).collect::<Vec<_>>(), [running]);
    }
    assert_eq!(f.finish(&member, token, Verdict::Cancelled { reason: "asked".to_owned() }), Finished::Landed);
    assert_eq!(block_on(f.store.beat(&member, Default::default())).unwrap().cancel, []);
    assert!(!f.get(running).cancel_asked);
}

fn killing_and_deleting_refuse_running_jobs(f: &Fixture) {
    let member = f.join("a");
    let id = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;
    let before = f.get(id);

    assert_eq!(block_on(f.store.kill(vec![id])).unwrap(), [Changed::Refused(State::Running)]);
    assert_eq!(block_on(f.store.delete(vec![id])).unwrap(), [Changed::Refused(State::Running)]);
    assert_eq!(block_on(f.store.requeue(vec![id])).unwrap(), [Changed::Refused(State::Running)]);

    assert_eq!(f.get(id), before);
    assert_eq!(f.finish(&member, token, Verdict::Release), Finished::Landed);
    assert_eq!(block_on(f.store.kill(vec![id])).unwrap(), [Changed::From(State::Ready)]);
    assert_eq!(f.get(id).reason.as_deref(), Some("killed"));
    assert_eq!(block_on(f.store.delete(vec![id])).unwrap(), [Changed::From(State::Dead)]);
    assert_eq!(f.state(id), None);
}

fn a_requeued_dead_job_starts_anew(f: &Fixture) {
    let member = f.join("a");
    let id = f.insert(JobOptions::new().expires_in(HOUR));
    let token = f.lease_one(&member).token;
    let dead = Verdict::Dead { reason: "why".to_owned(), error: Some(error(f.now())) };
    assert_eq!(f.finish(&member, token, dead), Finished::Landed);
    f.clock.advance(2 * HOUR);

    assert_eq!(block_on(f.store.requeue(vec![id])).unwrap(), [Changed::From(State::Dead)]);

    let job = f.get(id);
    assert_eq!((job.state, job.attempt, job.recoveries, job.run_at), (State::Ready, 0, 0, f.now()));
    assert_eq!((job.reason, job.failed_at, job.finished_at), (None, None, None));
    assert_eq!(f.lease_one(&member).attempt, 1);
}

fn clearing_removes_what_matches_in_slices_and_never_running_jobs(f: &Fixture) {
    let member = f.join("a");
    f.insert_many(1);
    f.lease_one(&member);
    f.insert_many(5);
    f.insert(JobOptions::new().queue("other"));

    let filter = ClearFilter { state: Some(State::Ready), queue: Some("default".to_owned()) };
    assert_eq!(block_on(f.store.clear(filter.clone(), 3)).unwrap(), 3);
    assert_eq!(block_on(f.store.clear(filter.clone(), 3)).unwrap(), 2);
    assert_eq!(block_on(f.store.clear(filter, 3)).unwrap(), 0);
    assert_eq!(block_on(f.store.clear(ClearFilter::default(), 9)).unwrap(), 1);

    assert_eq!((f.counts().running, f.counts().ready), (1, 0));
    let running = ClearFilter { state: Some(State::Running), queue: None };
    assert!(block_on(f.store.clear(running, 9)).is_err());
}

fn pruning_keeps_what_is_young_and_the_youngest_dead(f: &Fixture) {
    let member = f.join("a");
    let dead: Vec<JobId> = f.insert_many(4);
    for id in &dead {
        block_on(f.store.kill(vec![*id])).unwrap();
        f.clock.advance(SECOND);
    }
    let kept = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;
    let _ = f.finish(&member, token, Verdict::Done { result: None, keep: HOUR });
    let cancelled = f.insert(JobOptions::new());
    block_on(f.store.cancel(vec![cancelled])).unwrap();
    let keep = Keep { dead: 100 * HOUR, dead_count_max: 2, cancelled: 2 * HOUR };

    assert_eq!(block_on(f.store.prune(keep, 100)).unwrap(), 2);
    assert_eq!(dead.iter().map(|id| f.state(*id).is_some()).collect::<Vec<_>>(), [false, false, true, true]);
    f.clock.advance(HOUR);
    assert_eq!(block_on(f.store.prune(keep, 100)).unwrap(), 1);
    assert_eq!(f.state(kept), None);
    f.clock.advance(HOUR);
    assert_eq!(block_on(f.store.prune(keep, 100)).unwrap(), 1);
    assert_eq!(f.state(cancelled), None);
    f.clock.advance(100 * HOUR);
    assert_eq!(block_on(f.store.prune(keep, 1)).unwrap(), 1);
    assert_eq!(f.counts().dead, 1);
}

fn an_unknown_id_is_not_found(f: &Fixture) {
    let id = JobId::from_bytes([9; 12]);

    assert_eq!(f.state(id), None);
    for changed in
        [f.store.cancel(vec![id]), f.store.kill(vec![id]), f.store.requeue(vec![id]), f.store.delete(vec![id])]
    {
        assert_eq!(block_on(changed).unwrap(), [Changed::NotFound]);
    }
}

fn a_wake_up_after_the_bell_was_read_is_not_missed(f: &Fixture) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let since = f.store.ring();

    f.insert(JobOptions::new());

    // Without the wake-up this would take an hour.
    let woken = async { tokio::time::timeout(20 * SECOND, f.store.wait(since, HOUR)).await };
    assert!(runtime.block_on(woken).is_ok());
}
