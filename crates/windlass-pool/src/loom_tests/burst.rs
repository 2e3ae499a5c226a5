//! A burst's mail against its sleepers, and against the end: what was sent is handled, once, and nobody sleeps beside it.

use loom::thread::{self, JoinHandle};

use super::Watched;
use crate::burst::Office;
use crate::sync::{Arc, AtomicU32, Ordering};

/// What is sent: the payload, and where it is counted.
struct Parcel {
    payload: Watched,
    count: Arc<AtomicU32>,
}

fn office() -> Arc<Office<Parcel>> {
    Arc::new(Office::new(std::sync::Arc::new(|_| ())))
}

fn hire(office: &Arc<Office<Parcel>>, number: usize) -> JoinHandle<()> {
    let (office, seat) = (Arc::clone(office), office.add_seat());
    thread::spawn(move || {
        office.live(number, &seat, |parcel| {
            assert_eq!(parcel.payload.read(), 7);
            parcel.count.fetch_add(1, Ordering::Relaxed);
        });
    })
}

fn send(office: &Office<Parcel>, count: &Arc<AtomicU32>) {
    let payload = Watched::new(0);
    payload.write(7);
    assert!(office.send(Parcel { payload, count: Arc::clone(count) }).is_ok());
}

/// BP-5, BP-6. If the worker sleeps for ever, loom reports a deadlock.
#[test]
fn what_was_sent_before_the_end_is_handled_before_the_end() {
    loom::model(|| {
        let (office, count) = (office(), Arc::new(AtomicU32::new(0)));
        let worker = hire(&office, 0);
        send(&office, &count);
        office.close();
        worker.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 1);
    });
}

/// Nobody closes the office before both have been handled: a worker that sleeps beside mail is never joined.
#[test]
fn nobody_sleeps_while_mail_lies_unread() {
    loom::model(|| {
        let (office, count) = (office(), Arc::new(AtomicU32::new(0)));
        let worker = hire(&office, 0);
        let sender = {
            let (office, count) = (Arc::clone(&office), Arc::clone(&count));
            thread::spawn(move || send(&office, &count))
        };
        while count.load(Ordering::Relaxed) < 1 {
            thread::yield_now();
        }
        office.close();
        sender.join().unwrap();
        worker.join().unwrap();
    });
}

#[test]
fn two_workers_handle_two_parcels_once_each() {
    loom::model(|| {
        let (office, count) = (office(), Arc::new(AtomicU32::new(0)));
        let workers = [hire(&office, 0), hire(&office, 1)];
        send(&office, &count);
        send(&office, &count);
        office.close();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(count.load(Ordering::Relaxed), 2);
    });
}
