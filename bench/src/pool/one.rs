//! `one`: one task from an outside thread, from its spawn until its value is there; the pool awake, or asleep.
//!
//! A pool may let the waiting thread run the task itself: that is an answer, too, and the cheapest one.
//!
//! A wake on the same core costs a tenth of one across, and where a worker sleeps is the scheduler's choice, which may
//! last for a whole run: look at the floor first. On one core there is no choice, and what is left is the pools' own.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::peers::{ChannelPool, MutexPool, RayonScope, RayonSpawn, ScopedThreadpool, TaskPool, Threadpool, Tokio};
use super::windlass::{Windlass, WindlassDetached, WindlassPrepared, WindlassWithin};
use crate::suite::measure::{Panel, Role, Suite, Unit};

const THREADS: usize = 2;
const HOT_SAMPLES: usize = 2_000;
const COLD_SAMPLES: usize = 300;
const COLD_PAUSE: Duration = Duration::from_millis(2);

pub fn run(suite: &mut Suite) {
    let (turns, share) = (suite.effort.turns(), |count| suite.effort.share(count));
    let [hot, cold] = [share(HOT_SAMPLES), share(COLD_SAMPLES)].map(|count| count.div_ceil(turns) as u32);
    suite.measure(panel("one task from outside, back to back, 2 threads", hot, Duration::ZERO));
    let title = "one task from outside, back to back, 2 threads, all on one core";
    on_one_core(|| suite.measure(panel(title, hot, Duration::ZERO)));
    suite.measure(panel("one task from outside, 2 ms after the last, 2 threads", cold, COLD_PAUSE));
}

/// Runs `f` with this thread, and those it starts, on the first core it may use.
fn on_one_core<R>(f: impl FnOnce() -> R) -> R {
    let all = sched_getaffinity(None).unwrap();
    let first = (0..CpuSet::MAX_CPU).find(|core| all.is_set(*core)).expect("this thread runs somewhere");
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).unwrap();
    let value = f();
    sched_setaffinity(None, &all).unwrap();
    value
}

fn panel(title: &str, samples: u32, pause: Duration) -> Panel {
    let mut panel = Panel::new("one", title, Unit::Microseconds).p99();
    add::<Call>(&mut panel, Role::Floor, samples, pause);
    add::<RawThread>(&mut panel, Role::Floor, samples, pause);
    add::<RayonScope>(&mut panel, Role::Peer, samples, pause);
    add::<RayonSpawn>(&mut panel, Role::Peer, samples, pause);
    add::<Tokio>(&mut panel, Role::Peer, samples, pause);
    add::<ChannelPool>(&mut panel, Role::Peer, samples, pause);
    add::<MutexPool>(&mut panel, Role::Peer, samples, pause);
    add::<Threadpool>(&mut panel, Role::Peer, samples, pause);
    add::<ScopedThreadpool>(&mut panel, Role::Peer, samples, pause);
    add::<Windlass>(&mut panel, Role::Windlass, samples, pause);
    add::<WindlassPrepared>(&mut panel, Role::Windlass, samples, pause);
    add::<WindlassWithin>(&mut panel, Role::Windlass, samples, pause);
    add::<WindlassDetached>(&mut panel, Role::Windlass, samples, pause);
    panel
}

fn add<P: TaskPool>(panel: &mut Panel, role: Role, samples: u32, pause: Duration) {
    let mut pool = P::start(THREADS);
    let mut value = 0;
    panel.add(role, P::NAME_OF_ONE, move |clock| {
        clock.time_each(samples, pause, || {
            let answer = pool.one(value);
            assert_eq!(answer, value + 1, "the answer of another task");
            value = answer;
        });
    });
}

/// No task at all: what the clock, and caches that have gone cold, cost by themselves.
struct Call;

impl TaskPool for Call {
    const NAME: &'static str = "plain call";

    fn start(_threads: usize) -> Call {
        Call
    }

    fn flat(&mut self, count: usize, task: fn()) {
        (0..count).for_each(|_| task());
    }

    fn one(&mut self, value: u64) -> u64 {
        black_box(value) + 1
    }
}

/// One parked thread that is handed a number and hands back the next: the least that a task of another thread costs.
struct RawThread {
    shared: Arc<Exchange>,
    thread: Option<JoinHandle<()>>,
}

/// A number from one thread to the other, and back. Odd numbers are questions, even ones answers.
struct Exchange {
    word: AtomicU64,
    asker: Thread,
}

/// The question that ends the thread.
const END: u64 = u64::MAX;

impl Exchange {
    /// Parks until the word satisfies.
    fn wait(&self, is_wanted: impl Fn(u64) -> bool) -> u64 {
        loop {
            // ORDER: Acquire; pairs with the stores of the other side.
            let word = self.word.load(Ordering::Acquire);
            if is_wanted(word) {
                return word;
            }
            thread::park();
        }
    }

    fn answer_all(&self) {
        loop {
            let question = self.wait(|word| word % 2 == 1);
            if question == END {
                return;
            }
            // ORDER: Release; pairs with the load in `wait`.
            self.word.store(question + 1, Ordering::Release);
            self.asker.unpark();
        }
    }

    fn ask(&self, question: u64, thread: &Thread) {
        // ORDER: Release; pairs with the load in `wait`.
        self.word.store(question, Ordering::Release);
        thread.unpark();
    }
}

impl TaskPool for RawThread {
    const NAME: &'static str = "raw park and unpark";

    fn start(_threads: usize) -> RawThread {
        let shared = Arc::new(Exchange { word: AtomicU64::new(0), asker: thread::current() });
        let own = Arc::clone(&shared);
        RawThread { shared, thread: Some(thread::spawn(move || own.answer_all())) }
    }

    fn flat(&mut self, count: usize, task: fn()) {
        for value in 0..count as u64 {
            self.one(value);
            task();
        }
    }

    fn one(&mut self, value: u64) -> u64 {
        let question = value * 2 + 1;
        let thread = self.thread.as_ref().expect("the thread has not ended").thread();
        self.shared.ask(question, thread);
        self.shared.wait(|word| word == question + 1) / 2
    }
}

impl Drop for RawThread {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.ask(END, thread.thread());
            thread.join().expect("it does not panic");
        }
    }
}
