//! Bursts: threads that sleep between mails.

use super::{Ledger, explore, join};
use crate::Burst;
use crate::sync::{Arc, thread};

#[test]
fn mail_from_several_threads_is_handled_once_and_the_end_waits_for_it() {
    explore(5_000, || {
        let ledger = Ledger::of(10);
        let burst = Arc::new(Burst::new());
        for _ in 0..3 {
            let ledger = ledger.clone();
            burst.add_worker(move |mail| ledger.note(mail)).unwrap();
        }

        let theirs = Arc::clone(&burst);
        let other = thread::spawn(move || {
            theirs.send_all(0..4).unwrap();
            theirs.dispatch_to(1, 4).unwrap();
        });
        burst.send_all(5..8).unwrap();
        burst.wait_idle();
        assert_eq!((5..8).map(|mail| ledger.count(mail)).sum::<u32>(), 3);
        burst.send(8).unwrap();
        burst.dispatch_to(2, 9).unwrap();
        drop(burst);
        join(other);

        // Whoever had it last has waited for its mail.
        ledger.assert_each_was_run_once();
    });
}
