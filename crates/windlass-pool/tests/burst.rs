//! Bursts: nothing that was accepted is lost, nobody sleeps while mail lies unread, and nobody is woken for nothing.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::ThreadId;

use windlass_pool::{Burst, BurstConfig, PoolError, Refused};

/// A burst whose workers add what they get to a sum.
fn summing(workers: usize) -> (Burst<usize>, Arc<AtomicUsize>) {
    let (burst, sum) = (Burst::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..workers {
        let sum = Arc::clone(&sum);
        burst
            .add_worker(move |number| {
                sum.fetch_add(number, Ordering::SeqCst);
            })
            .unwrap();
    }
    (burst, sum)
}

#[test]
fn without_workers_everything_comes_back() {
    let burst: Burst<u8> = Burst::new();

    assert_eq!(burst.send(1), Err(Refused(1)));
    assert_eq!(burst.offer(2), Err(Refused(2)));
    assert_eq!(burst.dispatch_to(0, 3), Err(Refused(3)));
    assert_eq!(burst.broadcast(4), Err(Refused(4)));
    assert_eq!(burst.send_all(vec![5, 6]).unwrap_err().0, [5, 6]);
    burst.wait_idle();
}

/// BP-6: what was sent before the end is handled before the end.
#[test]
fn everything_sent_is_handled_before_the_drop_returns() {
    for workers in [1, 2, 10] {
        let (burst, sum) = summing(workers);
        burst.send_all(1..=500).unwrap();
        for number in 501..=1_000 {
            burst.send(number).unwrap();
        }
        drop(burst);
        assert_eq!(sum.load(Ordering::SeqCst), 500_500);
    }
}

#[test]
fn many_threads_may_send() {
    let (burst, sum) = summing(3);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..1_000).for_each(|number| burst.send(number).unwrap()));
            s.spawn(|| burst.send_all(0..1_000).unwrap());
        }
    });
    burst.wait_idle();
    assert_eq!(sum.load(Ordering::SeqCst), 8 * 499_500);
}

/// BP-1: what lies behind a panic is not lost, and the worker is not either.
#[test]
fn a_panic_is_told_and_nothing_behind_it_is_lost() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    let burst = Burst::with(BurstConfig {
        panic_hook: Arc::new(move |panic| hook.lock().unwrap().push(*panic.downcast::<usize>().unwrap())),
        ..BurstConfig::default()
    });
    let sum = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&sum);
    burst
        .add_worker(move |number: usize| {
            if number.is_multiple_of(2) {
                std::panic::resume_unwind(Box::new(number));
            }
            own.fetch_add(number, Ordering::SeqCst);
        })
        .unwrap();
    burst.send_all(1..=9).unwrap();
    burst.wait_idle();

    assert_eq!(*told.lock().unwrap(), [2, 4, 6, 8]);
    assert_eq!(sum.load(Ordering::SeqCst), 25);
    assert_eq!(burst.worker_count(), 1);
}

/// BP-2: mail does not wait behind a long item while somebody is idle.
#[test]
fn mail_behind_a_long_item_is_read_by_somebody_else() {
    let burst = Burst::new();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let (done, is_done) = mpsc::channel();
    for _ in 0..2 {
        let (wait, done) = (Arc::clone(&wait), done.clone());
        burst
            .add_worker(move |is_long| {
                if is_long {
                    wait.lock().unwrap().recv().unwrap();
                }
                done.send(is_long).unwrap();
            })
            .unwrap();
    }
    for _ in 0..100 {
        burst.send(true).unwrap();
        burst.send_all([false; 20]).unwrap();
        for _ in 0..20 {
            assert!(!is_done.recv().unwrap());
        }
        go.send(()).unwrap();
        assert!(is_done.recv().unwrap());
    }
}

/// BP-3, BP-8: as many are awake as items hold a worker.
#[test]
fn items_that_hold_their_workers_all_get_one() {
    let burst = Burst::new();
    let barrier = Arc::new(Barrier::new(11));
    for _ in 0..10 {
        burst
            .add_worker(|barrier: Arc<Barrier>| {
                barrier.wait();
            })
            .unwrap();
    }
    for _ in 0..100 {
        burst.send_all((0..10).map(|_| Arc::clone(&barrier))).unwrap();
        barrier.wait();
    }
}

/// BP-7: mail for one worker is read by that one, whoever else is awake.
#[test]
fn mail_for_one_worker_is_read_by_that_worker() {
    let burst = Burst::new();
    let (say, said) = mpsc::channel();
    let numbers: Vec<usize> = (0..4)
        .map(|expected| {
            let say = say.clone();
            burst.add_worker(move |number: usize| say.send((expected, number)).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    for _ in 0..200 {
        for worker in numbers.iter().rev() {
            burst.dispatch_to(*worker, *worker).unwrap();
        }
        for _ in 0..4 {
            let (worker, number) = said.recv().unwrap();
            assert_eq!(worker, number);
        }
    }
    assert_eq!(burst.dispatch_to(4, 4), Err(Refused(4)));
}

/// A worker that was woken for open mail may read its own first: the open mail must not wait for it.
#[test]
fn open_mail_does_not_wait_behind_mail_for_one_worker() {
    let burst = Burst::new();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let (done, is_done) = mpsc::channel();
    for _ in 0..2 {
        let (wait, done) = (Arc::clone(&wait), done.clone());
        let handler = move |is_long| {
            if is_long {
                wait.lock().unwrap().recv().unwrap();
            }
            done.send(is_long).unwrap();
        };
        burst.add_worker(handler).unwrap();
    }
    for round in 0..500 {
        burst.send(false).unwrap();
        burst.dispatch_to(round % 2, true).unwrap();
        assert!(!is_done.recv().unwrap());
        go.send(()).unwrap();
        assert!(is_done.recv().unwrap());
    }
}

#[test]
fn everybody_gets_a_broadcast() {
    let burst = Burst::new();
    let seen: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    for _ in 0..5 {
        let seen = Arc::clone(&seen);
        burst.add_worker(move |()| assert!(seen.lock().unwrap().insert(std::thread::current().id()))).unwrap();
    }
    for _ in 0..100 {
        burst.broadcast(()).unwrap();
        burst.wait_idle();
        assert_eq!(std::mem::take(&mut *seen.lock().unwrap()).len(), 5);
    }
}

#[test]
fn an_offer_is_taken_at_once_or_comes_back() {
    let burst = Burst::new();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    burst
        .add_worker(move |number: u32| {
            begun.send(number).unwrap();
            wait.recv().unwrap();
        })
        .unwrap();
    for number in 0..100 {
        burst.wait_idle();
        burst.offer(number).unwrap();
        assert_eq!(burst.offer(1_000), Err(Refused(1_000)), "one worker takes one offer");
        assert_eq!(has_begun.recv().unwrap(), number);
        assert_eq!(burst.offer(1_000), Err(Refused(1_000)), "it is busy");
        go.send(()).unwrap();
    }
}

/// A worker that was woken for its own mail is not idle any more.
#[test]
fn an_offer_does_not_count_on_a_worker_that_has_mail_of_its_own() {
    let burst = Burst::new();
    let (go, wait) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    burst
        .add_worker(move |number: u32| {
            begun.send(number).unwrap();
            wait.recv().unwrap();
        })
        .unwrap();
    for number in 0..200 {
        burst.wait_idle();
        burst.dispatch_to(0, number).unwrap();
        assert_eq!(burst.offer(1_000), Err(Refused(1_000)));
        assert_eq!(has_begun.recv().unwrap(), number);
        go.send(()).unwrap();
    }
}

#[test]
fn hot_workers_handle_what_is_sent_and_sleep_again() {
    let (burst, sum) = summing(2);
    {
        let _hot = burst.hot();
        let _hotter = burst.hot();
        for _ in 0..1_000 {
            burst.send(1).unwrap();
        }
        burst.wait_idle();
        assert_eq!(sum.load(Ordering::SeqCst), 1_000);
    }
    burst.send_all([1; 10]).unwrap();
    burst.wait_idle();
    assert_eq!(sum.load(Ordering::SeqCst), 1_010);
}

/// BP-9: workers may come at any time, and what was sent meanwhile is handled.
#[test]
fn workers_are_added_while_things_are_sent() {
    let (burst, sum) = summing(1);
    std::thread::scope(|s| {
        s.spawn(|| (0..2_000).for_each(|_| burst.send(1).unwrap()));
        for _ in 0..5 {
            let sum = Arc::clone(&sum);
            burst
                .add_worker(move |number| {
                    sum.fetch_add(number, Ordering::SeqCst);
                })
                .unwrap();
        }
    });
    assert_eq!(burst.worker_count(), 6);
    drop(burst);
    assert_eq!(sum.load(Ordering::SeqCst), 2_000);
}

#[test]
fn a_handler_may_send_and_may_drop_its_own_burst() {
    let burst: Arc<Mutex<Option<Burst<u32>>>> = Arc::new(Mutex::new(Some(Burst::new())));
    let (done, is_done) = mpsc::channel();
    let inner = Arc::clone(&burst);
    let handler = move |number| {
        if number > 0 {
            inner.lock().unwrap().as_ref().unwrap().send(number - 1).unwrap();
        } else {
            drop(inner.lock().unwrap().take());
            done.send(()).unwrap();
        }
    };
    burst.lock().unwrap().as_ref().unwrap().add_worker(handler).unwrap();
    burst.lock().unwrap().as_ref().unwrap().send(50).unwrap();
    is_done.recv().unwrap();
    assert!(burst.lock().unwrap().is_none());
}

#[test]
fn a_handler_that_waits_for_its_own_burst_is_told() {
    let (told, is_told) = mpsc::channel();
    let told = Mutex::new(told);
    let hook = move |panic: Box<dyn std::any::Any + Send>| {
        told.lock().unwrap().send(panic.downcast_ref::<&str>().unwrap().to_string()).unwrap();
    };
    let burst: Arc<Burst<()>> =
        Arc::new(Burst::with(BurstConfig { panic_hook: Arc::new(hook), ..BurstConfig::default() }));
    let inner = Arc::downgrade(&burst);
    burst.add_worker(move |()| inner.upgrade().unwrap().wait_idle()).unwrap();
    burst.send(()).unwrap();

    assert!(is_told.recv().unwrap().contains("waits for its own burst"));
}

#[test]
fn a_setting_that_cannot_be_used_is_named() {
    let burst: Burst<()> = Burst::with(BurstConfig { stack_size: 1, ..BurstConfig::default() });

    let error = burst.add_worker(|()| ()).unwrap_err();

    assert!(matches!(error, PoolError::Config { field: "stack_size", .. }), "{error}");
    assert_eq!(burst.worker_count(), 0);
}
