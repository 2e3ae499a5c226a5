//! Random lives against a pure model.
//!
//! The model below is written for itself, out of the contract: a list of jobs and a handful of rules, no indexes, no
//! shared code with any store. Random sequences of verbs are done to a store and to the model; after every step the
//! answers and every job must agree. `WINDLASS_MODEL_CASES` sets how many sequences are tried.
//!
//! The controls plant a fault in the model: then the comparison must object, or it would compare nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use windlass::blocking::block_on;
use windlass::job::{JobId, JobOptions, LeaseToken};
use windlass::state::State;
use windlass::store::{
    Changed, Finished, LeasePlan, MemberId, ProcessOrder, ProcessTarget, RECOVERIES_MAX, RECOVERIES_SUSPECT,
    RECOVERY_WINDOW, Take, Verdict, Vitals,
};

use crate::fixture::{Fixture, LEASE, Order, SECOND, error};

const QUEUES: [&str; 2] = ["default", "other"];

#[derive(Debug, Clone)]
enum Step {
    Insert { queue: usize, delay_s: u64, once: bool, expires: bool },
    Join,
    Lease { member: usize, first_queue: usize, max: usize },
    Finish { lease: usize, verdict: usize },
    Beat { member: usize },
    Order { member: Option<usize>, order: usize },
    Leave { member: usize },
    Reap { max: usize },
    Promote { max: usize },
    Advance { seconds: u64 },
    Change { verb: usize, job: usize },
    Pause { queue: usize },
    Resume { queue: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..2_usize, prop_oneof![Just(0_u64), 1..30_u64], any::<bool>(), 0..6_u8)
            .prop_map(|(queue, delay_s, once, e)| Step::Insert { queue, delay_s, once: once && e == 1, expires: e == 0 }),
        2 => Just(Step::Join),
        6 => (0..4_usize, 0..2_usize, 0..5_usize).prop_map(|(member, first_queue, max)| Step::Lease { member, first_queue, max }),
        6 => (0..20_usize, 0..7_usize).prop_map(|(lease, verdict)| Step::Finish { lease, verdict }),
        2 => (0..4_usize).prop_map(|member| Step::Beat { member }),
        1 => (prop::option::of(0..4_usize), 0..3_usize).prop_map(|(member, order)| Step::Order { member, order }),
        1 => (0..4_usize).prop_map(|member| Step::Leave { member }),
        3 => (0..4_usize).prop_map(|max| Step::Reap { max }),
        3 => (0..5_usize).prop_map(|max| Step::Promote { max }),
        3 => prop_oneof![1..20_u64, Just(RECOVERY_WINDOW.as_secs())].prop_map(|seconds| Step::Advance { seconds }),
        3 => (0..4_usize, 0..12_usize).prop_map(|(verb, job)| Step::Change { verb, job }),
        1 => (0..2_usize).prop_map(|queue| Step::Pause { queue }),
        1 => (0..2_usize).prop_map(|queue| Step::Resume { queue }),
    ];
    proptest::collection::vec(step, 1..80)
}

/// What the model gets wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    TakesStaleTokens,
    KeepsTheAttemptOfAReleasedJob,
    LeasesFromPausedQueues,
    ForgetsRecoveries,
    LeasesTheYoungestFirst,
    TellsOrdersAgain,
}

#[derive(Debug, Clone)]
struct Life {
    id: JobId,
    queue: &'static str,
    state: State,
    run_at: u64,
    arrival: usize,
    /// Its place in its queue, where that is a list.
    line: i64,
    /// When it began to wait for its time, among those of the same time.
    waits_since: usize,
    /// Which lease of all it was.
    lease: usize,
    attempt: u32,
    run: u64,
    recoveries: u32,
    window: Option<u64>,
    member: Option<usize>,
    once: bool,
    cancel_asked: bool,
    expires_at: Option<u64>,
}

#[derive(Debug)]
struct Member {
    id: MemberId,
    until: u64,
    is_there: bool,
    is_lost: bool,
    orders: BTreeSet<ProcessOrder>,
}

/// Seconds since the morning, jobs, members, leases given out.
struct Model {
    now: u64,
    jobs: Vec<Life>,
    members: Vec<Member>,
    leases: Vec<(usize, LeaseToken)>,
    paused: BTreeSet<&'static str>,
    fault: Fault,
    order: Order,
    arrivals: usize,
    front: i64,
    back: i64,
    waits: usize,
    leased: usize,
}

impl Model {
    fn put_last(&mut self, index: usize) {
        self.back += 1;
        self.jobs[index].line = self.back;
    }

    /// The first of them comes first.
    fn put_first(&mut self, indexes: &[usize]) {
        for index in indexes.iter().rev() {
            self.front -= 1;
            self.jobs[*index].line = self.front;
        }
    }

    fn put_to_wait(&mut self, index: usize) {
        self.waits += 1;
        self.jobs[index].waits_since = self.waits;
    }

    /// What a member holds, in the order in which it is handed back.
    fn held_by(&self, member: usize) -> Vec<usize> {
        let mut held: Vec<usize> = (0..self.jobs.len()).filter(|i| self.jobs[*i].member == Some(member)).collect();
        match self.order {
            Order::Due => held.sort_by_key(|i| self.jobs[*i].arrival),
            Order::Ready => held.sort_by_key(|i| self.jobs[*i].lease),
        }
        held
    }

    fn live(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|m| m.is_there && !m.is_lost)
    }

    fn end(job: &mut Life, to: State) {
        job.state = to;
        job.member = None;
        job.cancel_asked = false;
    }

    fn hand_back(job: &mut Life, to: State) {
        job.attempt -= 1;
        Model::end(job, to);
    }

    fn lease(&mut self, member: usize, queues: [&'static str; 2], max: usize) -> Vec<JobId> {
        let mut taken = Vec::new();
        for queue in queues {
            if self.paused.contains(queue) && self.fault != Fault::LeasesFromPausedQueues {
                continue;
            }
            let now = self.now;
            let mut order: Vec<usize> = (0..self.jobs.len())
                .filter(|i| self.jobs[*i].state == State::Ready && self.jobs[*i].queue == queue)
                .collect();
            let is_suspect = |job: &Life| job.recoveries >= RECOVERIES_SUSPECT;
            match self.order {
                Order::Due => order.sort_by_key(|i| (self.jobs[*i].run_at, self.jobs[*i].arrival)),
                Order::Ready => order.sort_by_key(|i| (!is_suspect(&self.jobs[*i]), self.jobs[*i].line)),
            }
            if self.fault == Fault::LeasesTheYoungestFirst {
                order.reverse();
            }
            for index in order {
                if taken.len() == max {
                    break;
                }
                let holds_suspect =
                    self.jobs.iter().any(|j| j.member == Some(member) && j.recoveries >= RECOVERIES_SUSPECT);
                let job = &mut self.jobs[index];
                if job.run == 0 && job.expires_at.is_some_and(|at| at <= now) {
                    Model::end(job, State::Dead);
                } else if job.recoveries < RECOVERIES_SUSPECT || !holds_suspect {
                    job.state = State::Running;
                    job.attempt += 1;
                    job.run += 1;
                    job.member = Some(member);
                    self.leased += 1;
                    job.lease = self.leased;
                    taken.push(job.id);
                }
            }
        }
        taken
    }

    fn finish(&mut self, member: usize, token: LeaseToken, verdict: usize) -> Finished {
        let is_live = self.live(member);
        let fault = self.fault;
        let is_good = |job: &Life| {
            job.id == token.job()
                && job.state == State::Running
                && ((is_live && job.member == Some(member) && job.run == token.run())
                    || fault == Fault::TakesStaleTokens)
        };
        let Some(index) = self.jobs.iter().position(is_good) else { return Finished::Fenced };
        let now = self.now;
        let job = &mut self.jobs[index];
        match verdict {
            0 | 6 => {
                self.jobs.remove(index);
            }
            1 => Model::end(job, State::Done),
            2 => {
                Model::end(job, State::Retry);
                job.run_at = now + 7;
                self.put_to_wait(index);
            }
            3 => Model::end(job, State::Dead),
            4 => {
                Model::hand_back(job, State::Scheduled);
                job.run_at = now + 3;
                self.put_to_wait(index);
            }
            _ => {
                Model::hand_back(job, State::Ready);
                job.attempt += u32::from(fault == Fault::KeepsTheAttemptOfAReleasedJob);
                self.put_first(&[index]);
            }
        }
        Finished::Landed
    }

    fn reap(&mut self, max: usize) -> (usize, usize, usize) {
        let now = self.now;
        for member in self.members.iter_mut().filter(|m| m.is_there && m.until <= now) {
            member.is_lost = true;
        }
        let (mut recovered, mut dead, mut cancelled) = (0, 0, 0);
        for member in 0..self.members.len() {
            if !self.members[member].is_there || !self.members[member].is_lost {
                continue;
            }
            let mut ready = Vec::new();
            for index in self.held_by(member) {
                if recovered + dead + cancelled == max {
                    break;
                }
                let fault = self.fault;
                let job = &mut self.jobs[index];
                if job.cancel_asked {
                    cancelled += 1;
                    Model::end(job, State::Cancelled);
                    continue;
                }
                if job.window.is_none_or(|began| now - began >= RECOVERY_WINDOW.as_secs()) {
                    (job.window, job.recoveries) = (Some(now), 0);
                }
                job.recoveries += u32::from(fault != Fault::ForgetsRecoveries);
                if job.once {
                    dead += 1;
                    Model::end(job, State::Dead);
                } else if job.recoveries >= RECOVERIES_MAX {
                    dead += 1;
                    Model::hand_back(job, State::Dead);
                } else {
                    recovered += 1;
                    Model::hand_back(job, State::Ready);
                    ready.push(index);
                }
            }
            self.put_first(&ready);
            if !self.jobs.iter().any(|job| job.member == Some(member)) {
                self.members[member].is_there = false;
            }
        }
        (recovered, dead, cancelled)
    }

    fn promote(&mut self, max: usize) -> (usize, usize) {
        let now = self.now;
        let is_due = |job: &Life| matches!(job.state, State::Scheduled | State::Retry) && job.run_at <= now;
        let mut order: Vec<usize> = (0..self.jobs.len()).filter(|i| is_due(&self.jobs[*i])).collect();
        match self.order {
            Order::Due => order.sort_by_key(|i| (self.jobs[*i].run_at, self.jobs[*i].arrival)),
            Order::Ready => order.sort_by_key(|i| (self.jobs[*i].run_at, self.jobs[*i].waits_since)),
        }
        let (mut ready, mut expired) = (0, 0);
        for index in order.into_iter().take(max) {
            let job = &mut self.jobs[index];
            if job.state == State::Scheduled && job.run == 0 && job.expires_at.is_some_and(|at| at <= now) {
                expired += 1;
                Model::end(job, State::Dead);
            } else {
                ready += 1;
                job.state = State::Ready;
                self.put_last(index);
            }
        }
        (ready, expired)
    }

    fn change(&mut self, verb: usize, id: JobId) -> Changed {
        let now = self.now;
        let Some(index) = self.jobs.iter().position(|job| job.id == id) else { return Changed::NotFound };
        let job = &mut self.jobs[index];
        let from = job.state;
        let is_ended = matches!(from, State::Done | State::Dead | State::Cancelled);
        match verb {
            0 if from == State::Running => {
                job.cancel_asked = true;
                return Changed::Asked;
            }
            0 if is_ended => return Changed::Refused(from),
            0 => Model::end(job, State::Cancelled),
            1 | 3 if from == State::Running => return Changed::Refused(from),
            1 => Model::end(job, State::Dead),
            2 if matches!(from, State::Running | State::Ready | State::Done) => return Changed::Refused(from),
            2 => {
                if is_ended {
                    (job.attempt, job.recoveries, job.window) = (0, 0, None);
                }
                (job.state, job.run_at, job.expires_at) = (State::Ready, now, None);
                self.put_last(index);
            }
            _ => {
                self.jobs.remove(index);
            }
        }
        Changed::From(from)
    }
}

fn verdict_of(number: usize, f: &Fixture) -> Verdict {
    match number {
        0 => Verdict::Done { result: None, keep: Duration::ZERO },
        1 => Verdict::Done { result: None, keep: 1_000 * RECOVERY_WINDOW },
        2 => Verdict::Retry { at: f.now() + 7 * SECOND, error: error(f.now()) },
        3 => Verdict::Dead { reason: "dead".to_owned(), error: None },
        4 => Verdict::Snooze { until: f.now() + 3 * SECOND },
        5 => Verdict::Release,
        _ => Verdict::Discard,
    }
}

/// Does the steps to both, and compares.
fn compare(f: &Fixture, steps: &[Step], fault: Fault) -> Result<(), TestCaseError> {
    let mut model = Model {
        now: 0,
        jobs: Vec::new(),
        members: Vec::new(),
        leases: Vec::new(),
        paused: BTreeSet::new(),
        fault,
        order: f.order,
        arrivals: 0,
        front: 0,
        back: 0,
        waits: 0,
        leased: 0,
    };
    for step in steps {
        do_both(f, &mut model, step)?;
        compare_jobs(f, &model)?;
    }
    Ok(())
}

fn do_both(f: &Fixture, model: &mut Model, step: &Step) -> Result<(), TestCaseError> {
    match *step {
        Step::Insert { queue, delay_s, once, expires } => {
            let queue = QUEUES[queue];
            let mut options = JobOptions::new().queue(queue).at_most_once(once);
            options.expires_in = expires.then_some(5 * SECOND);
            let job = f.new_job_at(f.now() + delay_s as u32 * SECOND, options);
            let run_at = model.now + delay_s;
            model.arrivals += 1;
            model.jobs.push(Life {
                id: job.id,
                queue,
                state: if delay_s > 0 { State::Scheduled } else { State::Ready },
                run_at,
                arrival: model.arrivals,
                line: 0,
                waits_since: 0,
                lease: 0,
                attempt: 0,
                run: 0,
                recoveries: 0,
                window: None,
                member: None,
                once,
                cancel_asked: false,
                expires_at: expires.then_some(run_at + 5),
            });
            let last = model.jobs.len() - 1;
            if delay_s > 0 {
                model.put_to_wait(last)
            } else {
                model.put_last(last)
            }
            block_on(f.store.insert(vec![job])).unwrap();
        }
        Step::Join => {
            let id = f.join(&format!("m{}", model.members.len()));
            let until = model.now + LEASE.as_secs();
            model.members.push(Member { id, until, is_there: true, is_lost: false, orders: BTreeSet::new() });
        }
        Step::Lease { member, first_queue, max } => {
            let Some(id) = model.members.get(member).map(|m| m.id.clone()) else { return Ok(()) };
            let queues = [QUEUES[first_queue], QUEUES[1 - first_queue]];
            let take = |queue: &str| Take { queue: queue.to_owned(), max, at_most_once: false };
            let plan = LeasePlan { takes: queues.iter().map(|queue| take(queue)).collect(), max };
            match block_on(f.store.lease(&id, plan)) {
                Err(error) => prop_assert!(error.is_fenced() && !model.live(member)),
                Ok(leased) => {
                    prop_assert!(model.live(member));
                    let expected = model.lease(member, queues, max);
                    prop_assert_eq!(Fixture::ids(&leased), expected);
                    model.leases.extend(leased.iter().map(|job| (member, job.token)));
                }
            }
        }
        Step::Finish { lease, verdict } => {
            let Some(&(member, token)) = model.leases.iter().rev().nth(lease) else { return Ok(()) };
            let id = model.members[member].id.clone();
            let expected = model.finish(member, token, verdict);
            prop_assert_eq!(f.finish(&id, token, verdict_of(verdict, f)), expected);
        }
        Step::Beat { member } => {
            let Some(id) = model.members.get(member).map(|m| m.id.clone()) else { return Ok(()) };
            match block_on(f.store.beat(&id, Vitals::default())) {
                Err(error) => prop_assert!(error.is_fenced() && !model.live(member)),
                Ok(orders) => {
                    prop_assert!(model.live(member));
                    let asked = model.jobs.iter().filter(|job| job.member == Some(member) && job.cancel_asked);
                    let asked: BTreeSet<JobId> = asked.map(|job| job.id).collect();
                    prop_assert_eq!(orders.cancel.iter().map(|token| token.job()).collect::<BTreeSet<_>>(), asked);
                    let fault = model.fault;
                    let told = &mut model.members[member];
                    prop_assert_eq!(orders.process, told.orders.iter().copied().collect::<Vec<_>>());
                    if fault != Fault::TellsOrdersAgain {
                        told.orders.clear();
                    }
                    told.until = model.now + LEASE.as_secs();
                }
            }
        }
        Step::Order { member, order } => {
            let order = ProcessOrder::ALL[order];
            let to = match member {
                None => ProcessTarget::All,
                Some(member) => match model.members.get(member) {
                    Some(found) => ProcessTarget::One(found.id.clone()),
                    None => return Ok(()),
                },
            };
            let mut reached = 0;
            for index in 0..model.members.len() {
                if model.live(index) && member.is_none_or(|wanted| wanted == index) {
                    model.members[index].orders.insert(order);
                    reached += 1;
                }
            }
            prop_assert_eq!(block_on(f.store.order(to, order)).unwrap(), reached);
        }
        Step::Leave { member } => {
            let Some(id) = model.members.get(member).map(|m| m.id.clone()) else { return Ok(()) };
            let answered = block_on(f.store.leave(&id)).unwrap();
            let mut left = 0;
            if model.live(member) {
                model.members[member].is_there = false;
                let mut ready = Vec::new();
                for index in model.held_by(member) {
                    left += 1;
                    let job = &mut model.jobs[index];
                    if job.once {
                        Model::end(job, State::Dead);
                    } else {
                        Model::hand_back(job, State::Ready);
                        ready.push(index);
                    }
                }
                model.put_first(&ready);
            }
            prop_assert_eq!(answered, left);
        }
        Step::Reap { max } => {
            let reaped = block_on(f.store.reap(max)).unwrap();
            prop_assert_eq!((reaped.recovered, reaped.dead, reaped.cancelled), model.reap(max));
        }
        Step::Promote { max } => {
            let promoted = block_on(f.store.promote(max)).unwrap();
            prop_assert_eq!((promoted.ready, promoted.expired), model.promote(max));
        }
        Step::Advance { seconds } => {
            f.clock.advance(Duration::from_secs(seconds));
            model.now += seconds;
        }
        Step::Change { verb, job } => {
            let Some(id) = model.jobs.get(job).map(|job| job.id) else { return Ok(()) };
            let changed = match verb {
                0 => f.store.cancel(vec![id]),
                1 => f.store.kill(vec![id]),
                2 => f.store.requeue(vec![id]),
                _ => f.store.delete(vec![id]),
            };
            prop_assert_eq!(block_on(changed).unwrap(), [model.change(verb, id)]);
        }
        Step::Pause { queue } => {
            prop_assert_eq!(block_on(f.store.pause(QUEUES[queue])).unwrap(), model.paused.insert(QUEUES[queue]));
        }
        Step::Resume { queue } => {
            prop_assert_eq!(block_on(f.store.resume(QUEUES[queue])).unwrap(), model.paused.remove(QUEUES[queue]));
        }
    }
    Ok(())
}

/// Every job in the same state with the same numbers, and the counts equal to a recount.
fn compare_jobs(f: &Fixture, model: &Model) -> Result<(), TestCaseError> {
    let counts = f.counts();
    for state in State::ALL {
        let expected = model.jobs.iter().filter(|job| job.state == state).count() as u64;
        prop_assert_eq!(counts.of(state), expected, "count of {}", state);
    }
    for job in &model.jobs {
        let found = f.get(job.id);
        let member = job.member.map(|member| model.members[member].id.to_string());
        prop_assert_eq!(
            (found.state, found.attempt, found.run, found.recoveries, found.member, found.cancel_asked),
            (job.state, job.attempt, job.run, job.recoveries, member, job.cancel_asked),
            "job {}",
            job.id
        );
    }
    Ok(())
}

fn cases(default: u32) -> u32 {
    std::env::var("WINDLASS_MODEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn run(cases: u32, fault: Fault, fixture: fn() -> Fixture) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner = TestRunner::new(config);
    runner.run(&steps(), |steps| compare(&fixture(), &steps, fault)).map_err(|error| error.to_string())
}

#[test]
fn the_memory_store_lives_as_the_model_says() {
    run(cases(2_000), Fault::None, Fixture::memory).unwrap();
}

#[test]
fn the_sqlite_store_lives_as_the_model_says() {
    run(cases(300), Fault::None, Fixture::sqlite).unwrap();
}

#[cfg(feature = "redis")]
#[test]
fn the_redis_store_lives_as_the_model_says() {
    run(cases(60), Fault::None, Fixture::redis).unwrap();
}

#[test]
fn a_model_with_a_planted_fault_is_found_out() {
    for fault in [
        Fault::TakesStaleTokens,
        Fault::KeepsTheAttemptOfAReleasedJob,
        Fault::LeasesFromPausedQueues,
        Fault::ForgetsRecoveries,
        Fault::LeasesTheYoungestFirst,
        Fault::TellsOrdersAgain,
    ] {
        assert!(run(2_000, fault, Fixture::memory).is_err(), "{fault:?} went unnoticed");
    }
}
