//! A burst of items, what each of them does, and the proof that all were handled once.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, LazyLock, Mutex};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::suite::measure::{Clock, cpu_time};

/// For all items of a burst to be handled: beyond it, one was lost.
const PATIENCE: Duration = Duration::from_secs(10);

static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);

fn nanoseconds() -> u64 {
    BASE.elapsed().as_nanos() as u64
}

/// What items do, after they have noted the time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Nothing,
    /// They hold their threads until all have begun.
    Hold,
    /// The first spins for so long.
    SpinFirst(Duration),
}

/// One burst after the other of the same items.
pub struct Round {
    work: Work,
    /// When each item was begun, or nothing yet.
    begun: Vec<AtomicU64>,
    /// Items to come.
    left: AtomicUsize,
    /// An item was handled for the second time.
    is_wrong: AtomicBool,
    /// Items that hold their threads.
    held: Mutex<usize>,
    all_held: Condvar,
    sender: Thread,
}

/// An item of a burst.
#[derive(Clone, Copy)]
pub struct Item {
    round: &'static Round,
    place: usize,
}

impl Round {
    /// A round of so many items, sent by this thread. It lives for ever, so that items need no count of who has it.
    pub fn start(items: usize, work: Work) -> &'static Round {
        LazyLock::force(&BASE);
        Box::leak(Box::new(Round {
            work,
            begun: (0..items).map(|_| AtomicU64::new(0)).collect(),
            left: AtomicUsize::new(0),
            is_wrong: AtomicBool::new(false),
            held: Mutex::new(0),
            all_held: Condvar::new(),
            sender: thread::current(),
        }))
    }

    pub fn len(&self) -> usize {
        self.begun.len()
    }

    pub fn item(&'static self, place: usize) -> Item {
        Item { round: self, place }
    }

    pub fn items(&'static self) -> impl Iterator<Item = Item> {
        (0..self.len()).map(|place| self.item(place))
    }

    /// Sends all items by `send`, and waits for them. Answers how long each took to begin.
    pub fn play(&'static self, send: impl FnOnce()) -> Vec<Duration> {
        self.play_until(send, thread::park_timeout)
    }

    /// As `play`, but the sender never sleeps: nobody has to wake it.
    pub fn play_awake(&'static self, send: impl FnOnce()) -> Vec<Duration> {
        self.play_until(send, |_| std::hint::spin_loop())
    }

    fn play_until(&'static self, send: impl FnOnce(), pause: fn(Duration)) -> Vec<Duration> {
        // ORDER: Relaxed; published by what sends the items.
        self.begun.iter().for_each(|begun| begun.store(0, Ordering::Relaxed));
        self.left.store(self.len(), Ordering::Relaxed);
        *self.held.lock().unwrap() = 0;
        let sent = nanoseconds();
        send();
        // ORDER: Acquire; pairs with the count in `Item::handle`.
        while self.left.load(Ordering::Acquire) > 0 {
            pause(PATIENCE);
            let waited = Duration::from_nanos(nanoseconds() - sent);
            assert!(waited < PATIENCE, "an item was lost, or is stuck behind another");
        }
        assert!(!self.is_wrong.load(Ordering::Relaxed), "an item was handled twice");
        let begun = self.begun.iter().map(|begun| begun.load(Ordering::Relaxed));
        begun.map(|begun| Duration::from_nanos(begun.saturating_sub(sent))).collect()
    }

    /// As `play`, and keeps what each item took, and what a burst cost of processor time, for each of its items.
    pub fn record(&'static self, clock: &mut Clock, send: impl FnOnce()) {
        let cpu = cpu_time();
        let taken = self.play(send);
        let cpu = (cpu_time() - cpu) / self.len() as u32;
        taken.into_iter().for_each(|taken| clock.record(taken, cpu));
    }

    fn hold(&self) {
        let mut held = self.held.lock().unwrap();
        *held += 1;
        if *held == self.len() {
            self.all_held.notify_all();
            return;
        }
        // Those who are stuck go home, and the sender finds out.
        drop(self.all_held.wait_timeout_while(held, PATIENCE, |held| *held < self.len()).unwrap());
    }
}

impl Item {
    pub fn handle(self) {
        let now = nanoseconds();
        // ORDER: Relaxed; published by the count below.
        if self.round.begun[self.place].swap(now, Ordering::Relaxed) != 0 {
            self.round.is_wrong.store(true, Ordering::Relaxed);
        }
        match self.round.work {
            Work::Hold => self.round.hold(),
            Work::SpinFirst(time) if self.place == 0 => spin(time),
            Work::Nothing | Work::SpinFirst(_) => {}
        }
        // ORDER: AcqRel; pairs with the load in `play_until`, through the other counts.
        if self.round.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.round.sender.unpark();
        }
    }
}

/// Spins for so long.
pub fn spin(time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        std::hint::spin_loop();
    }
}
