//! The other pools, behind one trait for the work that comes from outside, and the two simplest pools there are.
//!
//! Joins and scopes from inside differ too much for a trait: the workloads call the peers' own functions.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle, Thread};

use crossbeam_channel::{Sender, unbounded};

use crate::suite::tally;

/// A pool that an outside thread gives tasks to.
pub trait TaskPool: 'static {
    /// What it is called where it runs many tasks.
    const NAME: &'static str;
    /// What it is called where it runs one.
    const NAME_OF_ONE: &'static str = Self::NAME;

    fn start(threads: usize) -> Self;

    /// Runs `task` `count` times, a task each, and waits for all of them.
    fn flat(&mut self, count: usize, task: fn());

    /// Runs one task that answers the value after `value`, and waits for it.
    fn one(&mut self, value: u64) -> u64;
}

/// A pool that has run `warm_up` tasks.
///
/// One for each turn, and ended after it: the allocator shares its arenas out among the threads that there are, so that
/// pools which only exist would slow the others down.
pub fn started<P: TaskPool>(threads: usize, warm_up: usize) -> P {
    let mut pool = P::start(threads);
    tally::verify(warm_up as u64, || pool.flat(warm_up, tally::add_one));
    pool
}

/// How many tasks are to come, and who waits for the last.
pub struct Countdown {
    left: AtomicUsize,
    waiter: Thread,
}

impl Countdown {
    pub fn new(count: usize) -> Arc<Countdown> {
        Arc::new(Countdown { left: AtomicUsize::new(count), waiter: thread::current() })
    }

    pub fn count_down(&self) {
        // ORDER: AcqRel; pairs with the load in `wait`, through the other counts.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    pub fn wait(&self) {
        // ORDER: Acquire; pairs with `count_down`.
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
    }
}

/// Gives `count` tasks to a pool that cannot wait by itself, and waits.
fn counted(count: usize, task: fn(), spawn: impl Fn(Box<dyn FnOnce() + Send>)) {
    let countdown = Countdown::new(count);
    for _ in 0..count {
        let countdown = Arc::clone(&countdown);
        spawn(Box::new(move || {
            task();
            countdown.count_down();
        }));
    }
    countdown.wait();
}

/// Gives one task to a pool whose tasks answer nothing, and waits for its value at a channel.
pub fn answered(value: u64, spawn: impl FnOnce(Box<dyn FnOnce() + Send>)) -> u64 {
    let (send, receive) = mpsc::sync_channel(1);
    spawn(Box::new(move || send.send(value + 1).expect("the spawner waits")));
    receive.recv().expect("the task answers")
}

/// How a row is called in which so many workers run everything, and the caller waits.
pub fn all_workers(name: &str, threads: usize) -> String {
    match threads {
        1 => format!("{name}, 1 worker"),
        _ => format!("{name}, {threads} workers"),
    }
}

/// How a row is called in which the caller takes part, and is one of so many threads.
pub fn with_caller(name: &str, threads: usize) -> String {
    match threads {
        1 => format!("{name}, caller"),
        2 => format!("{name}, caller + 1 worker"),
        _ => format!("{name}, caller + {} workers", threads - 1),
    }
}

pub fn rayon(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// rayon, the outside thread spawning into a scope itself.
pub struct RayonInPlace(rayon::ThreadPool);

impl TaskPool for RayonInPlace {
    const NAME: &'static str = "rayon in_place_scope";

    fn start(threads: usize) -> RayonInPlace {
        RayonInPlace(rayon(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        self.0.in_place_scope(|scope| (0..count).for_each(|_| scope.spawn(move |_| task())));
    }

    fn one(&mut self, value: u64) -> u64 {
        let mut answer = 0;
        self.0.in_place_scope(|scope| scope.spawn(|_| answer = value + 1));
        answer
    }
}

/// rayon, a worker spawning into a scope.
pub struct RayonScope(rayon::ThreadPool);

impl TaskPool for RayonScope {
    const NAME: &'static str = "rayon scope, from a worker";
    const NAME_OF_ONE: &'static str = "rayon install";

    fn start(threads: usize) -> RayonScope {
        RayonScope(rayon(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        self.0.scope(|scope| (0..count).for_each(|_| scope.spawn(move |_| task())));
    }

    fn one(&mut self, value: u64) -> u64 {
        self.0.install(|| value + 1)
    }
}

/// rayon, tasks that nobody's scope waits for.
pub struct RayonSpawn(pub rayon::ThreadPool);

impl TaskPool for RayonSpawn {
    const NAME: &'static str = "rayon spawn";
    const NAME_OF_ONE: &'static str = "rayon spawn + channel";

    fn start(threads: usize) -> RayonSpawn {
        RayonSpawn(rayon(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let countdown = Countdown::new(count);
        for _ in 0..count {
            let countdown = Arc::clone(&countdown);
            self.0.spawn(move || {
                task();
                countdown.count_down();
            });
        }
        countdown.wait();
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| self.0.spawn(task))
    }
}

/// `threads` counts the caller, who takes part.
pub fn chili(threads: usize) -> chili::ThreadPool {
    chili::ThreadPool::with_config(chili::Config { thread_count: NonZero::new(threads), ..Default::default() })
}

/// A pool of forte, which wants to live for ever; its threads end with this handle.
pub struct Forte(pub &'static forte::ThreadPool);

impl Forte {
    /// `threads` counts the caller, who takes part.
    pub fn start(threads: usize) -> Forte {
        let pool: &'static forte::ThreadPool = Box::leak(Box::new(forte::ThreadPool::new()));
        pool.resize_to(threads - 1);
        Forte(pool)
    }
}

impl Drop for Forte {
    fn drop(&mut self) {
        self.0.depopulate();
    }
}

/// The multi-thread runtime.
pub struct Tokio(pub tokio::runtime::Runtime);

impl TaskPool for Tokio {
    const NAME: &'static str = "tokio spawn";
    const NAME_OF_ONE: &'static str = "tokio spawn + block_on";

    fn start(threads: usize) -> Tokio {
        Tokio(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build().unwrap())
    }

    fn flat(&mut self, count: usize, task: fn()) {
        let countdown = Countdown::new(count);
        for _ in 0..count {
            let countdown = Arc::clone(&countdown);
            self.0.spawn(async move {
                task();
                countdown.count_down();
            });
        }
        countdown.wait();
    }

    fn one(&mut self, value: u64) -> u64 {
        let task = self.0.spawn(async move { value + 1 });
        self.0.block_on(task).unwrap()
    }
}

/// The crate `threadpool`.
pub struct Threadpool(pub threadpool::ThreadPool);

impl TaskPool for Threadpool {
    const NAME: &'static str = "threadpool";

    fn start(threads: usize) -> Threadpool {
        Threadpool(threadpool::ThreadPool::new(threads))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        for _ in 0..count {
            self.0.execute(task);
        }
        self.0.join();
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| self.0.execute(task))
    }
}

/// The crate `scoped_threadpool`.
pub struct ScopedThreadpool(scoped_threadpool::Pool);

impl TaskPool for ScopedThreadpool {
    const NAME: &'static str = "scoped_threadpool";

    fn start(threads: usize) -> ScopedThreadpool {
        ScopedThreadpool(scoped_threadpool::Pool::new(threads as u32))
    }

    fn flat(&mut self, count: usize, task: fn()) {
        self.0.scoped(|scope| (0..count).for_each(|_| scope.execute(task)));
    }

    fn one(&mut self, value: u64) -> u64 {
        let mut answer = 0;
        self.0.scoped(|scope| scope.execute(|| answer = value + 1));
        answer
    }
}

type Boxed = Box<dyn FnOnce() + Send>;

/// Threads that receive boxed closures from one channel.
pub struct ChannelPool {
    /// `None` when the pool ends.
    send: Option<Sender<Boxed>>,
    threads: Vec<JoinHandle<()>>,
}

impl TaskPool for ChannelPool {
    const NAME: &'static str = "crossbeam channel pool";

    fn start(threads: usize) -> ChannelPool {
        let (send, receive) = unbounded::<Boxed>();
        let start = |_| {
            let receive = receive.clone();
            thread::spawn(move || receive.iter().for_each(|task| task()))
        };
        ChannelPool { send: Some(send), threads: (0..threads).map(start).collect() }
    }

    fn flat(&mut self, count: usize, task: fn()) {
        counted(count, task, |task| self.spawn(task));
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| self.spawn(task))
    }
}

impl ChannelPool {
    pub fn spawn(&self, task: Boxed) {
        self.send.as_ref().expect("the pool has not ended").send(task).expect("the threads receive");
    }
}

impl Drop for ChannelPool {
    fn drop(&mut self) {
        self.send = None;
        join_all(&mut self.threads);
    }
}

fn join_all(threads: &mut Vec<JoinHandle<()>>) {
    for thread in threads.drain(..) {
        thread.join().expect("no task panics");
    }
}

/// Threads that take boxed closures from one queue behind a mutex, and wait at a condition variable.
pub struct MutexPool {
    shared: Arc<MutexQueue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct MutexQueue {
    state: Mutex<MutexState>,
    is_filled: Condvar,
    is_finished: Condvar,
}

#[derive(Default)]
struct MutexState {
    queue: VecDeque<Boxed>,
    /// Queued or running.
    unfinished: usize,
    is_ending: bool,
}

impl MutexQueue {
    fn push(&self, task: Boxed) {
        let mut state = self.state.lock().unwrap();
        state.queue.push_back(task);
        state.unfinished += 1;
        drop(state);
        self.is_filled.notify_one();
    }

    fn wait(&self) {
        let state = self.state.lock().unwrap();
        drop(self.is_finished.wait_while(state, |state| state.unfinished > 0).unwrap());
    }

    fn work(&self) {
        let mut state = self.state.lock().unwrap();
        loop {
            if let Some(task) = state.queue.pop_front() {
                drop(state);
                task();
                state = self.state.lock().unwrap();
                state.unfinished -= 1;
                if state.unfinished == 0 {
                    self.is_finished.notify_all();
                }
            } else if state.is_ending {
                return;
            } else {
                state = self.is_filled.wait(state).unwrap();
            }
        }
    }
}

impl TaskPool for MutexPool {
    const NAME: &'static str = "mutex + condvar pool";

    fn start(threads: usize) -> MutexPool {
        let shared = Arc::new(MutexQueue::default());
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work())
        };
        let threads = (0..threads).map(start).collect();
        MutexPool { shared, threads }
    }

    fn flat(&mut self, count: usize, task: fn()) {
        for _ in 0..count {
            self.shared.push(Box::new(task));
        }
        self.shared.wait();
    }

    fn one(&mut self, value: u64) -> u64 {
        answered(value, |task| self.shared.push(task))
    }
}

impl MutexPool {
    pub fn spawn(&self, task: Boxed) {
        self.shared.push(task);
    }
}

impl Drop for MutexPool {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().is_ending = true;
        self.shared.is_filled.notify_all();
        join_all(&mut self.threads);
    }
}
