//! Who handles the items: the floor, the other pools, and the measured one.
//!
//! `burst-pool` is here in its 0.3, which has a queue for each thread. Its later form can crash: a receiver that is
//! awake for another reason may look for an item between the mark that there is one and the item itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use burst_pool::BurstPool;
use windlass_pool::Burst;

use super::round::{Item, Round};
use crate::pool::peers::{ChannelPool, Forte, MutexPool, RayonSpawn, TaskPool, Threadpool, Tokio};

/// Threads that handle items, and sleep in between.
pub trait Burster: 'static {
    const NAME: &'static str;

    fn start(workers: usize, round: &'static Round) -> Self;

    /// Sends every item of the round.
    fn send(&mut self, round: &'static Round);
}

/// A word and a thread that parks: the bits of the word are places of items.
struct RawSeat {
    word: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// The bit that ends the thread.
const END: u64 = 1 << 63;

impl RawSeat {
    fn start(round: &'static Round, pause: fn()) -> RawSeat {
        assert!(round.len() < 63, "a word has 64 bits");
        let word = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&word);
        RawSeat { word, thread: Some(thread::spawn(move || live(&own, round, pause))) }
    }

    fn put(&self, bit: u64) {
        // ORDER: Release; pairs with the swap in `live`.
        self.word.fetch_or(bit, Ordering::Release);
    }

    fn unpark(&self) {
        self.thread.as_ref().expect("the thread has not ended").thread().unpark();
    }
}

fn live(word: &AtomicU64, round: &'static Round, pause: fn()) {
    loop {
        // ORDER: Acquire; pairs with `put`.
        let mut bits = word.swap(0, Ordering::Acquire);
        if bits == END {
            return;
        }
        if bits == 0 {
            pause();
        }
        while bits != 0 {
            round.item(bits.trailing_zeros() as usize).handle();
            bits &= bits - 1;
        }
    }
}

impl Drop for RawSeat {
    fn drop(&mut self) {
        self.put(END);
        self.unpark();
        self.thread.take().expect("it ends once").join().expect("it does not panic");
    }
}

/// The floor: item by item, to one thread after the other.
pub struct RawUnparks {
    seats: Vec<RawSeat>,
}

impl Burster for RawUnparks {
    const NAME: &'static str = "raw loop of unparks";

    fn start(workers: usize, round: &'static Round) -> RawUnparks {
        RawUnparks { seats: (0..workers).map(|_| RawSeat::start(round, thread::park)).collect() }
    }

    fn send(&mut self, round: &'static Round) {
        for place in 0..round.len() {
            let seat = &self.seats[place % self.seats.len()];
            seat.put(1 << place);
            seat.unpark();
        }
    }
}

/// One thread that never sleeps: the floor of those that are hot.
pub struct RawSpin {
    seat: RawSeat,
}

impl Burster for RawSpin {
    const NAME: &'static str = "raw spin";

    fn start(_workers: usize, round: &'static Round) -> RawSpin {
        RawSpin { seat: RawSeat::start(round, std::hint::spin_loop) }
    }

    fn send(&mut self, round: &'static Round) {
        (0..round.len()).for_each(|place| self.seat.put(1 << place));
    }
}

/// One queue and one condition variable, and everybody is woken at once.
pub struct Broadcast {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    /// The items; nothing at the end.
    items: Mutex<Option<VecDeque<Item>>>,
    is_filled: Condvar,
}

impl Queue {
    fn handle_all(&self) {
        loop {
            let items = self.items.lock().unwrap();
            let is_waiting = |items: &mut Option<VecDeque<Item>>| items.as_ref().is_some_and(VecDeque::is_empty);
            let mut items = self.is_filled.wait_while(items, is_waiting).unwrap();
            let Some(item) = items.as_mut().map(|items| items.pop_front().expect("it was not empty")) else {
                return;
            };
            drop(items);
            item.handle();
        }
    }
}

impl Burster for Broadcast {
    const NAME: &'static str = "one condvar, notify_all";

    fn start(workers: usize, _round: &'static Round) -> Broadcast {
        let queue = Arc::new(Queue { items: Mutex::new(Some(VecDeque::new())), is_filled: Condvar::new() });
        let start = |_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.handle_all())
        };
        let threads = (0..workers).map(start).collect();
        Broadcast { queue, threads }
    }

    fn send(&mut self, round: &'static Round) {
        self.queue.items.lock().unwrap().as_mut().expect("it has not ended").extend(round.items());
        self.queue.is_filled.notify_all();
    }
}

impl Drop for Broadcast {
    fn drop(&mut self) {
        *self.queue.items.lock().unwrap() = None;
        self.queue.is_filled.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().expect("no item panics");
        }
    }
}

/// The crate `burst-pool`.
impl Burster for BurstPool<Item> {
    const NAME: &'static str = "burst-pool 0.3";

    fn start(workers: usize, _round: &'static Round) -> BurstPool<Item> {
        let mut pool = BurstPool::new();
        (0..workers).for_each(|_| pool.spawn(Item::handle));
        pool
    }

    fn send(&mut self, round: &'static Round) {
        // Not `unwrap`: its error is not one that says what it holds.
        round.items().for_each(|item| assert!(BurstPool::send(self, item).is_ok(), "the pool has threads"));
    }
}

impl Burster for ChannelPool {
    const NAME: &'static str = <ChannelPool as TaskPool>::NAME;

    fn start(workers: usize, _round: &'static Round) -> ChannelPool {
        TaskPool::start(workers)
    }

    fn send(&mut self, round: &'static Round) {
        round.items().for_each(|item| self.spawn(Box::new(move || item.handle())));
    }
}

impl Burster for MutexPool {
    const NAME: &'static str = "mutex + condvar pool, notify_one";

    fn start(workers: usize, _round: &'static Round) -> MutexPool {
        TaskPool::start(workers)
    }

    fn send(&mut self, round: &'static Round) {
        round.items().for_each(|item| self.spawn(Box::new(move || item.handle())));
    }
}

impl Burster for Threadpool {
    const NAME: &'static str = <Threadpool as TaskPool>::NAME;

    fn start(workers: usize, _round: &'static Round) -> Threadpool {
        TaskPool::start(workers)
    }

    fn send(&mut self, round: &'static Round) {
        round.items().for_each(|item| self.0.execute(move || item.handle()));
    }
}

impl Burster for RayonSpawn {
    const NAME: &'static str = <RayonSpawn as TaskPool>::NAME;

    fn start(workers: usize, _round: &'static Round) -> RayonSpawn {
        TaskPool::start(workers)
    }

    fn send(&mut self, round: &'static Round) {
        round.items().for_each(|item| self.0.spawn(move || item.handle()));
    }
}

impl Burster for Tokio {
    const NAME: &'static str = <Tokio as TaskPool>::NAME;

    fn start(workers: usize, _round: &'static Round) -> Tokio {
        TaskPool::start(workers)
    }

    fn send(&mut self, round: &'static Round) {
        // Without the handles: nobody waits for them here.
        round.items().for_each(|item| drop(self.0.spawn(async move { item.handle() })));
    }
}

impl Burster for Forte {
    const NAME: &'static str = "forte spawn";

    fn start(workers: usize, _round: &'static Round) -> Forte {
        // The sender is not one of them.
        Forte::start(workers + 1)
    }

    fn send(&mut self, round: &'static Round) {
        round.items().for_each(|item| self.0.spawn(move |_: &forte::Worker| item.handle()));
    }
}

pub fn windlass(workers: usize) -> Burst<Item> {
    let burst = Burst::new();
    for _ in 0..workers {
        burst.add_worker(Item::handle).expect("a thread can be had");
    }
    burst
}

/// All items at once, to whoever is free.
pub struct WindlassAll(Burst<Item>);

impl Burster for WindlassAll {
    const NAME: &'static str = "windlass send_all";

    fn start(workers: usize, _round: &'static Round) -> WindlassAll {
        WindlassAll(windlass(workers))
    }

    fn send(&mut self, round: &'static Round) {
        // An error gives the items back: nothing to look at in them.
        assert!(self.0.send_all(round.items()).is_ok(), "the burst has workers");
    }
}

/// Item by item, to whoever is free.
pub struct WindlassEach(Burst<Item>);

impl Burster for WindlassEach {
    const NAME: &'static str = "windlass send, one by one";

    fn start(workers: usize, _round: &'static Round) -> WindlassEach {
        WindlassEach(windlass(workers))
    }

    fn send(&mut self, round: &'static Round) {
        round.items().for_each(|item| assert!(self.0.send(item).is_ok(), "the burst has workers"));
    }
}

/// Item by item, to one worker after the other.
pub struct WindlassInTurn {
    burst: Burst<Item>,
    workers: usize,
}

impl Burster for WindlassInTurn {
    const NAME: &'static str = "windlass dispatch_to, in turn";

    fn start(workers: usize, _round: &'static Round) -> WindlassInTurn {
        WindlassInTurn { burst: windlass(workers), workers }
    }

    fn send(&mut self, round: &'static Round) {
        for (place, item) in round.items().enumerate() {
            assert!(self.burst.dispatch_to(place % self.workers, item).is_ok(), "there is such a worker");
        }
    }
}
