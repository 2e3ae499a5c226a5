//! Prepared tasks, and the order between tasks.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use windlass_pool::{AlreadyDone, CancelToken, Pool, PoolConfig, Prepared, Priority, Task, TaskError, TaskOptions};

fn pool_of(threads: usize) -> Pool {
    Pool::with(PoolConfig { threads, ..PoolConfig::default() }).unwrap()
}

/// A list that tasks write their names to.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<usize>>>);

impl Log {
    fn note(&self, number: usize) -> impl FnOnce() + Send + 'static {
        let log = self.clone();
        move || log.0.lock().unwrap().push(number)
    }

    fn read(&self) -> Vec<usize> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn a_prepared_task_runs_when_it_is_scheduled_and_gives_its_value() {
    let pool = pool_of(2);
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_run);
    let task = pool.prepare(move || {
        flag.store(true, Ordering::SeqCst);
        6 * 7
    });
    pool.wait_idle();
    assert!(!has_run.load(Ordering::SeqCst));

    assert_eq!(task.schedule().wait(), 42);
}

#[test]
fn a_prepared_task_can_be_run_by_its_builder_at_once() {
    let pool = pool_of(1);
    let here = std::thread::current().id();

    assert_eq!(pool.prepare(|| std::thread::current().id()).run(), here);
}

#[test]
fn a_prepared_task_that_is_dropped_never_runs_and_drops_its_closure() {
    let pool = pool_of(2);
    let witness = Arc::new(());
    let held = Arc::clone(&witness);

    drop(pool.prepare(move || drop(held)));

    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn a_successor_runs_after_its_predecessor() {
    let pool = pool_of(4);
    for _ in 0..200 {
        let log = Log::default();
        let (first, second) = (pool.prepare(log.note(1)), pool.prepare(log.note(2)));
        first.continue_with(&second);
        let second = second.schedule();
        first.schedule_detached();
        second.wait();
        assert_eq!(log.read(), [1, 2]);
    }
}

/// LZ-11: those that follow one task are begun in the order in which they were tied.
#[test]
fn successors_of_one_task_are_begun_first_in_first_out() {
    let pool = pool_of(1);
    let log = Log::default();
    let first = pool.prepare(log.note(0));
    let last = pool.prepare(|| ());
    for number in 1..=40 {
        let next = pool.prepare(log.note(number));
        first.continue_with(&next);
        next.continue_with(&last);
        next.schedule_detached();
    }
    let last = last.schedule();
    // On the one worker: nothing is taken by this thread meanwhile.
    first.schedule_detached();
    last.wait_blocking();
    assert_eq!(log.read(), (0..=40).collect::<Vec<_>>());
}

/// LZ-12: any number may follow, also more than sixteen, and also one that has ended already.
#[test]
fn a_task_tied_to_one_that_has_ended_runs_at_once() {
    let pool = pool_of(2);
    let first = pool.spawn(|| 1);
    while !first.is_done() {
        std::thread::yield_now();
    }
    let seconds: Vec<Task<i32>> = (0..100)
        .map(|number| {
            let second = pool.prepare(move || number);
            first.continue_with(&second);
            second.schedule()
        })
        .collect();

    let sum: i32 = seconds.into_iter().map(Task::wait).sum();
    assert_eq!((sum, first.wait()), (4_950, 1));
}

/// LZ-13: a task with several predecessors runs once, after the last of them.
#[test]
fn a_task_with_many_predecessors_runs_once_after_all() {
    let pool = pool_of(4);
    for _ in 0..100 {
        let ended = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&ended);
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let last = pool.prepare(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            seen.load(Ordering::SeqCst)
        });
        let firsts: Vec<Prepared<()>> = (0..20)
            .map(|_| {
                let ended = Arc::clone(&ended);
                pool.prepare(move || {
                    ended.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        firsts.iter().for_each(|first| first.continue_with(&last));
        let last = last.schedule();
        firsts.into_iter().for_each(Prepared::schedule_detached);
        assert_eq!(last.wait(), 20);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

/// Edges to tasks that run meanwhile are neither lost nor followed twice.
#[test]
fn ties_to_tasks_under_way_are_never_lost() {
    let pool = pool_of(3);
    let total = Arc::new(AtomicU64::new(0));
    for _ in 0..3_000 {
        let first = pool.spawn(std::thread::yield_now);
        let seconds: Vec<Task<()>> = (0..4)
            .map(|number| {
                let total = Arc::clone(&total);
                let second = pool.prepare(move || {
                    total.fetch_add(number, Ordering::SeqCst);
                });
                first.continue_with(&second);
                second.schedule()
            })
            .collect();
        drop(first);
        seconds.into_iter().for_each(Task::wait);
    }
    assert_eq!(total.load(Ordering::SeqCst), 6 * 3_000);
}

#[test]
fn a_chain_of_successors_does_not_grow_the_stack() {
    let config = PoolConfig { threads: 1, stack_size: 64 << 10, slot_count_max: 1 << 18, ..PoolConfig::default() };
    let pool = Pool::with(config).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let step = |count: &Arc<AtomicUsize>| {
        let count = Arc::clone(count);
        pool.prepare(move || {
            count.fetch_add(1, Ordering::Relaxed);
        })
    };
    let first = step(&count);
    let mut last = step(&count);
    first.continue_with(&last);
    for _ in 2..50_000 {
        let next = step(&count);
        last.continue_with(&next);
        std::mem::replace(&mut last, next).schedule_detached();
    }
    let last = last.schedule();
    first.schedule_detached();
    last.wait_blocking();
    assert_eq!(count.load(Ordering::Relaxed), 50_000);
}

/// LZ-14, LZ-15: a parent has ended only when its children have, whatever the order in which they and it run.
#[test]
fn a_parent_ends_after_its_children_and_theirs() {
    let pool = pool_of(4);
    for round in 0..200 {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = |ended: &Arc<AtomicUsize>| {
            let ended = Arc::clone(ended);
            pool.prepare(move || {
                ended.fetch_add(1, Ordering::SeqCst);
            })
        };
        let root = count(&ended);
        for _ in 0..10 {
            let child = count(&ended);
            child.finish_with(&root).unwrap();
            for _ in 0..3 {
                let grandchild = count(&ended);
                grandchild.finish_with(&child).unwrap();
                grandchild.schedule_detached();
            }
            child.schedule_detached();
        }
        if round % 2 == 0 {
            // The children may all have ended before the root's own closure runs.
            std::thread::yield_now();
        }
        root.schedule().wait();
        assert_eq!(ended.load(Ordering::SeqCst), 41);
    }
}

#[test]
fn a_child_keeps_several_parents_open() {
    let pool = pool_of(2);
    let (go, wait) = mpsc::channel::<()>();
    let (left, right) = (pool.prepare(|| ()), pool.prepare(|| ()));
    let child = pool.prepare(move || wait.recv().unwrap());
    child.finish_with(&left).unwrap();
    child.finish_with(&right).unwrap();
    child.schedule_detached();
    let (left, right) = (left.schedule(), right.schedule());

    let left = left.wait_timeout(std::time::Duration::from_millis(20)).unwrap_err();
    assert!(!right.is_done());
    go.send(()).unwrap();

    left.wait();
    right.wait();
}

/// Whether the task ends while this thread does nothing for the pool.
fn ends_by_itself<T>(task: &Task<T>) -> bool {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while !task.is_done() && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    task.is_done()
}

/// The end of the last child ends its parent, which ends the parent's parent, and so on: nobody else comes by to see to it.
#[test]
fn the_end_of_a_child_reaches_the_eldest_at_once() {
    let pool = pool_of(1);
    let eldest = pool.prepare(|| ());
    let mut generations: Vec<Prepared<()>> = Vec::new();
    for _ in 0..8 {
        let child = pool.prepare(|| ());
        child.finish_with(generations.last().unwrap_or(&eldest)).unwrap();
        generations.push(child);
    }
    let eldest = eldest.schedule();
    for child in generations {
        child.schedule_detached();
    }

    assert!(ends_by_itself(&eldest));
}

/// A thread that is no worker runs the last child, and does not come back to the pool.
#[test]
fn a_child_run_by_its_builder_ends_its_parent_at_once() {
    let pool = pool_of(1);
    let (parent, child) = (pool.prepare(|| ()), pool.prepare(|| ()));
    child.finish_with(&parent).unwrap();
    let parent = parent.schedule();
    pool.wait_idle();
    child.run();

    assert!(ends_by_itself(&parent));
}

/// LZ-14: a child that comes too late is told so, and the parent's end is not repeated.
#[test]
fn a_child_cannot_be_tied_to_a_parent_that_has_ended() {
    let pool = pool_of(2);
    let parent = pool.spawn(|| ());
    while !parent.is_done() {
        std::thread::yield_now();
    }
    let child = pool.prepare(|| 3);

    assert_eq!(child.finish_with(&parent), Err(AlreadyDone));

    assert_eq!(child.schedule().wait(), 3);
}

#[test]
fn children_tied_to_parents_under_way_keep_them_open_or_are_refused() {
    let pool = pool_of(3);
    for _ in 0..3_000 {
        let parent = pool.spawn(std::thread::yield_now);
        let has_ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&has_ended);
        let child = pool.prepare(move || flag.store(true, Ordering::SeqCst));
        let is_tied = child.finish_with(&parent).is_ok();
        let child = child.schedule();
        parent.wait();
        assert!(has_ended.load(Ordering::SeqCst) || !is_tied);
        child.wait();
    }
}

#[test]
fn a_task_that_panics_lets_its_successors_and_its_parent_go_on() {
    let pool = pool_of(2);
    let root = pool.prepare(|| 1);
    let bad = pool.prepare(|| panic!("bad child"));
    let next = pool.prepare(|| 2);
    bad.finish_with(&root).unwrap();
    bad.continue_with(&next);
    let (next, root) = (next.schedule(), root.schedule());
    let bad: Task<()> = bad.schedule();

    assert!(matches!(bad.wait_result(), Err(TaskError::Panicked(_))));
    assert_eq!((next.wait(), root.wait()), (2, 1));
}

#[test]
fn a_cancelled_task_does_not_run_and_its_successor_does() {
    let pool = pool_of(1);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let blocker = pool.spawn(move || {
        begun.send(()).unwrap();
        wait.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let log = Log::default();
    let (first, second) = (pool.prepare(log.note(1)), pool.prepare(log.note(2)));
    first.continue_with(&second);
    let (first, second) = (first.schedule(), second.schedule());

    assert!(first.cancel());
    assert!(!first.cancel());
    go.send(()).unwrap();

    assert!(matches!(first.wait_result(), Err(TaskError::Cancelled)));
    second.wait();
    blocker.wait();
    assert_eq!(log.read(), [2]);
}

#[test]
fn a_task_that_waits_for_predecessors_can_be_cancelled() {
    let pool = pool_of(2);
    let (first, second) = (pool.prepare(|| 1), pool.prepare(|| 2));
    first.continue_with(&second);
    let second = second.schedule();

    assert!(second.cancel());
    assert!(matches!(second.wait_result(), Err(TaskError::Cancelled)));

    assert_eq!(first.schedule().wait(), 1);
    pool.wait_idle();
}

/// Either the canceller has the task, or the pool: never both, never none.
#[test]
fn cancelling_races_with_running_and_one_of_them_wins() {
    let pool = pool_of(3);
    let (mut cancelled, mut run) = (0, 0);
    let runs = Arc::new(AtomicUsize::new(0));
    for _ in 0..20_000 {
        let counted = Arc::clone(&runs);
        let task = pool.spawn(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        if task.cancel() {
            cancelled += 1
        } else {
            run += 1
        }
        drop(task);
    }
    pool.wait_idle();
    assert_eq!((runs.load(Ordering::SeqCst), cancelled + run), (run, 20_000));
}

#[test]
fn a_token_keeps_tasks_from_beginning() {
    let pool = pool_of(2);
    let token = CancelToken::new();
    let options = || TaskOptions { cancel: Some(token.clone()), ..TaskOptions::default() };
    assert_eq!(pool.prepare_with(options(), || 1).run(), 1);

    token.cancel();

    let refused = pool.prepare_with(options(), || 2).schedule();
    assert!(matches!(refused.wait_result(), Err(TaskError::Cancelled)));
}

#[test]
fn high_tasks_come_before_normal_ones_and_low_ones_last() {
    let pool = Pool::unstarted(PoolConfig { threads: 1, ..PoolConfig::default() }).unwrap();
    let log = Log::default();
    let queue = |priority, number| {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        pool.prepare_with(options, log.note(number)).schedule_detached();
    };
    for (priority, number) in [(Priority::Low, 3), (Priority::Normal, 2), (Priority::High, 1)] {
        queue(priority, number);
    }

    pool.start().unwrap();
    pool.wait_idle();

    assert_eq!(log.read(), [1, 2, 3]);
}

/// Ageing: a worker that feeds itself with high tasks for ever still comes to the low one.
#[test]
fn a_low_task_is_not_starved_by_high_ones() {
    let pool = Arc::new(pool_of(1));
    let is_over = Arc::new(AtomicBool::new(false));
    fn feed(pool: &Arc<Pool>, is_over: &Arc<AtomicBool>) {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let (next_pool, next_is_over) = (Arc::clone(pool), Arc::clone(is_over));
        let options = TaskOptions { priority: Priority::High, ..TaskOptions::default() };
        pool.prepare_with(options, move || feed(&next_pool, &next_is_over)).schedule_detached();
    }
    feed(&pool, &is_over);
    let flag = Arc::clone(&is_over);
    let options = TaskOptions { priority: Priority::Low, ..TaskOptions::default() };
    pool.prepare_with(options, move || flag.store(true, Ordering::SeqCst)).schedule().wait_blocking();

    assert!(is_over.load(Ordering::SeqCst));
    pool.wait_idle();
}
