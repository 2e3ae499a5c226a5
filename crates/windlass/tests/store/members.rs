//! Members, ledgers, fencing, recovery.

use std::time::Duration;

use windlass::StoreError;
use windlass::blocking::block_on;
use windlass::job::{JobId, JobOptions};
use windlass::state::State;
use windlass::store::{
    Finished, LEASE_MAX, LEASE_MIN, LeasePlan, MemberId, MemberInfo, ProcessOrder, ProcessTarget, RECOVERY_WINDOW,
    Take, Verdict, Vitals,
};

use crate::fixture::{Fixture, LEASE, MORNING, SECOND, done, for_every_store};

for_every_store!(
    strangers_may_not_lease_nor_beat_nor_finish,
    an_identity_is_used_once_and_a_lease_has_a_range,
    a_member_that_misses_its_lease_loses_its_ledger_and_every_late_write_is_refused,
    a_late_beat_revives_a_member_that_nobody_has_reaped,
    a_lost_member_has_no_rights_even_before_all_its_jobs_are_handed_on,
    a_job_that_loses_three_members_in_the_window_is_poison,
    recoveries_are_forgotten_after_their_window,
    a_member_holds_one_suspect_at_a_time,
    an_at_most_once_job_of_a_lost_member_is_dead_and_never_run_again,
    leaving_hands_back_the_ledger,
    a_job_asked_to_cancel_is_cancelled_when_its_member_is_lost,
    processes_show_what_they_said_and_what_they_run,
    an_order_is_told_once_to_whom_it_was_given,
    an_order_to_all_reaches_who_is_there_and_nobody_later,
    an_order_to_nobody_reaches_nobody,
);

/// Makes a member lose its lease with the jobs it holds.
fn lose(f: &Fixture, member: &str) {
    let member = f.join(member);
    f.lease(&member, 10);
    f.clock.advance(LEASE);
    assert_eq!(block_on(f.store.reap(100)).unwrap().members, [member]);
}

fn strangers_may_not_lease_nor_beat_nor_finish(f: &Fixture) {
    f.insert(JobOptions::new());
    let stranger = MemberId::new("stranger", 1, 1);
    let member = f.join("a");
    let token = f.lease_one(&member).token;

    let lease = block_on(f.store.lease(&stranger, Fixture::plan(1)));
    let beat = block_on(f.store.beat(&stranger, Vitals::default()));

    assert!(lease.unwrap_err().is_fenced());
    assert!(beat.unwrap_err().is_fenced());
    assert_eq!(f.finish(&stranger, token, done()), Finished::Fenced);
    assert_eq!(block_on(f.store.leave(&stranger)).unwrap(), 0);
}

fn an_identity_is_used_once_and_a_lease_has_a_range(f: &Fixture) {
    let id = f.join("a");
    let info = MemberInfo {
        id,
        host: "a".to_owned(),
        pid: 1,
        queues: Vec::new(),
        weights: Vec::new(),
        concurrency: 1,
        version: "0".to_owned(),
    };

    assert!(matches!(block_on(f.store.join(info.clone(), LEASE)), Err(StoreError::Invalid { .. })));
    let other = MemberInfo { id: MemberId::new("b", 1, 1), ..info };
    for lease in [LEASE_MIN - Duration::from_millis(1), LEASE_MAX + SECOND] {
        assert!(matches!(block_on(f.store.join(other.clone(), lease)), Err(StoreError::Invalid { .. })));
    }
    block_on(f.store.join(other, LEASE_MIN)).unwrap();
}

fn a_member_that_misses_its_lease_loses_its_ledger_and_every_late_write_is_refused(f: &Fixture) {
    let (late, other) = (f.join("late"), f.join("other"));
    let id = f.insert(JobOptions::new());
    let token = f.lease_one(&late).token;
    f.clock.advance(LEASE - SECOND);
    block_on(f.store.beat(&other, Vitals::default())).unwrap();
    assert_eq!(block_on(f.store.reap(100)).unwrap().members, []);

    f.clock.advance(SECOND);
    let reaped = block_on(f.store.reap(100)).unwrap();

    assert_eq!((reaped.members, reaped.recovered, reaped.more), (vec![late.clone()], 1, false));
    let job = f.get(id);
    assert_eq!((job.state, job.attempt, job.run, job.recoveries), (State::Ready, 0, 1, 1));
    let newer = f.lease_one(&other);
    assert_eq!((newer.attempt, newer.recoveries), (1, 1));
    assert_eq!(f.finish(&late, token, done()), Finished::Fenced);
    assert!(block_on(f.store.beat(&late, Vitals::default())).unwrap_err().is_fenced());
    assert!(block_on(f.store.lease(&late, Fixture::plan(1))).unwrap_err().is_fenced());
    assert_eq!(f.finish(&other, newer.token, done()), Finished::Landed);
    let totals = f.counts().totals;
    assert_eq!((totals.done, totals.recovered, totals.fenced), (1, 1, 1));
}

fn a_late_beat_revives_a_member_that_nobody_has_reaped(f: &Fixture) {
    let member = f.join("a");
    f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;

    f.clock.advance(10 * LEASE);
    block_on(f.store.beat(&member, Vitals::default())).unwrap();

    assert_eq!(block_on(f.store.reap(100)).unwrap().members, []);
    assert_eq!(f.finish(&member, token, done()), Finished::Landed);
}

fn a_lost_member_has_no_rights_even_before_all_its_jobs_are_handed_on(f: &Fixture) {
    let member = f.join("a");
    f.insert_many(5);
    let leased = f.lease(&member, 5);
    f.clock.advance(LEASE);

    let first = block_on(f.store.reap(2)).unwrap();
    assert_eq!((first.recovered, first.more), (2, true));
    for job in &leased {
        assert_eq!(f.finish(&member, job.token, done()), Finished::Fenced);
    }
    assert_eq!(block_on(f.store.reap(2)).unwrap().recovered, 2);
    let last = block_on(f.store.reap(2)).unwrap();

    assert_eq!((last.recovered, last.more, f.counts().ready), (1, false, 5));
    assert_eq!(block_on(f.store.processes()).unwrap(), []);
}

fn a_job_that_loses_three_members_in_the_window_is_poison(f: &Fixture) {
    let id = f.insert(JobOptions::new());

    for name in ["a", "b", "c"] {
        lose(f, name);
    }

    let job = f.get(id);
    assert_eq!((job.state, job.reason.as_deref()), (State::Dead, Some("poison")));
    assert_eq!((job.recoveries, job.attempt, job.run), (3, 0, 3));
}

fn recoveries_are_forgotten_after_their_window(f: &Fixture) {
    let id = f.insert(JobOptions::new());
    lose(f, "a");
    lose(f, "b");

    f.clock.advance(RECOVERY_WINDOW);
    lose(f, "c");

    assert_eq!((f.state(id), f.get(id).recoveries), (Some(State::Ready), 1));
}

fn a_member_holds_one_suspect_at_a_time(f: &Fixture) {
    f.insert_many(3);
    lose(f, "a");
    lose(f, "b");
    let fresh = f.insert(JobOptions::new());
    let (one, two) = (f.join("one"), f.join("two"));

    let leased = f.lease(&one, 10);

    assert_eq!(leased.iter().map(|job| job.recoveries).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(leased[1].token.job(), fresh);
    assert_eq!(f.lease(&one, 10), []);
    assert_eq!(f.lease(&two, 10).len(), 1);
    let _ = f.finish(&one, leased[0].token, done());
    assert_eq!(f.lease(&one, 10).len(), 1);
}

fn an_at_most_once_job_of_a_lost_member_is_dead_and_never_run_again(f: &Fixture) {
    let by_job = f.insert(JobOptions::new().at_most_once(true));
    let by_queue = f.insert(JobOptions::new().queue("once"));
    let member = f.join("a");
    let take = |queue: &str, at_most_once| Take { queue: queue.to_owned(), max: 9, at_most_once };
    let plan = LeasePlan { takes: vec![take("default", false), take("once", true)], max: 9 };
    let leased = block_on(f.store.lease(&member, plan)).unwrap();
    assert!(leased.iter().all(|job| job.at_most_once));

    f.clock.advance(LEASE);
    let reaped = block_on(f.store.reap(100)).unwrap();

    assert_eq!((reaped.recovered, reaped.dead), (0, 2));
    for id in [by_job, by_queue] {
        let job = f.get(id);
        assert_eq!((job.state, job.reason.as_deref(), job.attempt), (State::Dead, Some("interrupted"), 1));
    }
}

fn leaving_hands_back_the_ledger(f: &Fixture) {
    let member = f.join("a");
    let plain = f.insert(JobOptions::new());
    let once = f.insert(JobOptions::new().at_most_once(true));
    let tokens: Vec<_> = f.lease(&member, 2).iter().map(|job| job.token).collect();

    assert_eq!(block_on(f.store.leave(&member)).unwrap(), 2);
    assert_eq!(block_on(f.store.leave(&member)).unwrap(), 0);

    let job = f.get(plain);
    assert_eq!((job.state, job.attempt, job.recoveries), (State::Ready, 0, 0));
    assert_eq!(f.get(once).reason.as_deref(), Some("interrupted"));
    assert_eq!(f.finish(&member, tokens[0], done()), Finished::Fenced);
    assert_eq!(block_on(f.store.processes()).unwrap(), []);
}

fn a_job_asked_to_cancel_is_cancelled_when_its_member_is_lost(f: &Fixture) {
    let member = f.join("a");
    let id = f.insert(JobOptions::new());
    f.lease_one(&member);
    block_on(f.store.cancel(vec![id])).unwrap();

    f.clock.advance(LEASE);

    assert_eq!(block_on(f.store.reap(100)).unwrap().cancelled, 1);
    assert_eq!(f.state(id), Some(State::Cancelled));
}

fn processes_show_what_they_said_and_what_they_run(f: &Fixture) {
    let member = f.join("a");
    let id: JobId = f.insert(JobOptions::new());
    f.lease_one(&member);
    f.clock.advance(SECOND);
    let vitals = Vitals { rss_bytes: 5, busy: 1, quiet: true, fenced: 2, stuck: 3 };
    block_on(f.store.beat(&member, vitals)).unwrap();
    let released = f.insert(JobOptions::new());
    let token = f.lease_one(&member).token;
    let _ = f.finish(&member, token, Verdict::Release);

    let processes = block_on(f.store.processes()).unwrap();

    assert_eq!(processes.len(), 1);
    let process = &processes[0];
    assert_eq!((&process.info.id, process.vitals, process.running), (&member, vitals, 1));
    assert_eq!((process.joined_at, process.beat_at), (MORNING, MORNING + SECOND));
    assert_eq!(process.lease_until, MORNING + SECOND + LEASE);
    assert_eq!((process.jobs[0].id, process.jobs[0].leased_at), (id, MORNING));
    assert_eq!(f.state(released), Some(State::Ready));
}

/// What a member is told at its next beat.
fn told(f: &Fixture, member: &MemberId) -> Vec<ProcessOrder> {
    block_on(f.store.beat(member, Vitals::default())).unwrap().process
}

fn order(f: &Fixture, member: &MemberId, order: ProcessOrder) -> usize {
    block_on(f.store.order(ProcessTarget::One(member.clone()), order)).unwrap()
}

fn an_order_is_told_once_to_whom_it_was_given(f: &Fixture) {
    let (member, other) = (f.join("a"), f.join("b"));
    assert_eq!(told(f, &member), []);

    for wanted in [ProcessOrder::Stop, ProcessOrder::Quiet, ProcessOrder::Dump, ProcessOrder::Quiet] {
        assert_eq!(order(f, &member, wanted), 1);
    }

    assert_eq!(told(f, &member), ProcessOrder::ALL);
    assert_eq!((told(f, &member), told(f, &other)), (vec![], vec![]));
    assert_eq!(order(f, &member, ProcessOrder::Dump), 1);
    assert_eq!(told(f, &member), [ProcessOrder::Dump]);
}

fn an_order_to_all_reaches_who_is_there_and_nobody_later(f: &Fixture) {
    let (member, other) = (f.join("a"), f.join("b"));

    assert_eq!(block_on(f.store.order(ProcessTarget::All, ProcessOrder::Quiet)).unwrap(), 2);

    let later = f.join("c");
    assert_eq!(told(f, &member), [ProcessOrder::Quiet]);
    assert_eq!(told(f, &later), []);
    assert_eq!(told(f, &other), [ProcessOrder::Quiet]);
}

fn an_order_to_nobody_reaches_nobody(f: &Fixture) {
    assert_eq!(block_on(f.store.order(ProcessTarget::All, ProcessOrder::Stop)).unwrap(), 0);
    assert_eq!(order(f, &MemberId::new("stranger", 1, 1), ProcessOrder::Stop), 0);

    let (left, lost) = (f.join("left"), f.join("lost"));
    f.insert_many(2);
    f.lease(&lost, 2);
    block_on(f.store.leave(&left)).unwrap();
    f.clock.advance(LEASE);
    assert!(block_on(f.store.reap(1)).unwrap().more);

    assert_eq!((order(f, &left, ProcessOrder::Stop), order(f, &lost, ProcessOrder::Stop)), (0, 0));
    assert_eq!(block_on(f.store.order(ProcessTarget::All, ProcessOrder::Stop)).unwrap(), 0);
}
