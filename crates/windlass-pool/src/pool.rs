//! The pool as its users see it: start, spawn, prepare, join, scope, loops, wait, stop.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::config::PoolConfig;
use crate::continuation::{Prepared, TaskOptions};
use crate::error::PoolError;
use crate::lane::{self, Lane, with_lane};
use crate::loops::{self, Parts};
use crate::metrics::WorkerMetrics;
use crate::panic::{catch, tell_hook, unwrap};
use crate::scope::{self, Batch, Scope};
use crate::shared::{Shared, SharedRef, flag};
use crate::sync::{Arc, Instant, JoinHandle, Mutex, lock, thread};
use crate::task::Task;
use crate::{affinity, join, trace, worker};

/// Threads that run tasks. May be shared by reference between threads, and used from inside its own tasks.
///
/// Dropping it runs everything that was spawned, and then joins the threads; inside one of its own tasks, where joining
/// would never end, it lets the threads end by themselves.
pub struct Pool {
    shared: SharedRef,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// A shutdown's time was over before the threads' tasks were: nobody waits for them any more.
    is_left_behind: bool,
}

/// What happens to the tasks of a pool that shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// All of them run, those that they spawn, too.
    Drain,
    /// Those that run are waited for; those that have not begun are cancelled.
    CancelQueued,
    /// As [`CancelQueued`](Shutdown::CancelQueued), but nobody waits.
    Abandon,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Threads that have ended.
    pub ended: usize,
    /// Threads that were still running tasks when the time was over. They end by themselves when those end.
    pub left: usize,
    /// Tasks that were queued, and neither run nor cancelled, when the time was over.
    pub queued: usize,
}

impl Pool {
    /// Starts a pool with as many threads as this process may run at a time.
    ///
    /// # Errors
    /// [`PoolError::Thread`] when the system gives no thread; those that had started are ended.
    pub fn new() -> Result<Pool, PoolError> {
        Pool::with(PoolConfig::default())
    }

    /// Starts a pool.
    ///
    /// # Errors
    /// [`PoolError::Config`] names the setting that cannot be used. [`PoolError::Thread`] when the system gives no
    /// thread; those that had started are ended.
    pub fn with(config: PoolConfig) -> Result<Pool, PoolError> {
        let pool = Pool::unstarted(config)?;
        pool.start()?;
        Ok(pool)
    }

    /// A pool whose threads are not started yet: tasks may be spawned, and wait for [`start`](Pool::start).
    ///
    /// # Errors
    /// [`PoolError::Config`] names the setting that cannot be used.
    pub fn unstarted(config: PoolConfig) -> Result<Pool, PoolError> {
        config.validate()?;
        Ok(Pool { shared: Arc::new(Shared::new(config)), threads: Mutex::new(Vec::new()), is_left_behind: false })
    }

    /// Starts the threads, for the first time or again after they were stopped and joined.
    ///
    /// # Errors
    /// [`PoolError::Started`] when they run. [`PoolError::Thread`] when the system gives no thread; those that had
    /// started are ended, and what was spawned waits for another start.
    pub fn start(&self) -> Result<(), PoolError> {
        let mut threads = lock(&self.threads);
        if !threads.is_empty() {
            return Err(PoolError::Started);
        }
        if self.shared.deterministic.is_some() {
            return Ok(());
        }
        self.shared.stop_sign.unset();
        self.shared.blocking.reset(self.shared.config.spare_threads_max);
        let wanted = self.shared.config.threads;
        for number in 0..wanted {
            match self.start_worker(number) {
                Ok(thread) => threads.push(thread),
                Err(cause) => {
                    // SC-14: those that did start are ended.
                    self.shared.stop(false);
                    threads.drain(..).for_each(join_thread);
                    return Err(PoolError::Thread { started: number, wanted, cause });
                }
            }
        }
        Ok(())
    }

    fn start_worker(&self, number: usize) -> std::io::Result<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        shared.count_in(false);
        let config = &self.shared.config;
        let thread = thread::Builder::new()
            .name(format!("{}-{number}", config.name))
            .stack_size(config.stack_size)
            .spawn(move || live(&shared, number));
        if thread.is_err() {
            self.shared.count_out(false);
        }
        thread
    }

    pub(crate) fn shared(&self) -> &SharedRef {
        &self.shared
    }

    // Tasks.

    /// Spawns a task: it runs on a worker, or on whoever waits for it first.
    ///
    /// When the pool has no slot left, a task that waits in this thread's queue runs here first, or else this one does.
    ///
    /// # Cost
    /// No allocation for a closure of up to 80 bytes and a result of up to 72, once the slots have grown.
    #[inline]
    pub fn spawn<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        with_lane(&self.shared, |lane| {
            let mut f = f;
            loop {
                match lane.spawn(f) {
                    Ok(task) => return task,
                    Err(given_back) if lane.make_room() => f = given_back,
                    Err(given_back) => {
                        let outcome = lane.for_want_of_a_slot(|| catch(given_back));
                        return Task::run_already(outcome, lane.hold());
                    }
                }
            }
        })
    }

    /// Spawns a task, or gives the closure back when the pool has no slot left.
    ///
    /// # Errors
    /// The closure.
    pub fn try_spawn<F, T>(&self, f: F) -> Result<Task<T>, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        with_lane(&self.shared, |lane| lane.spawn(f))
    }

    /// Spawns a task that nobody will ask for the result of: a panic of it is told to the pool's hook. Costs less than
    /// [`spawn`](Pool::spawn).
    ///
    /// When the pool has no slot left, as [`spawn`](Pool::spawn).
    #[inline]
    pub fn spawn_detached(&self, f: impl FnOnce() + Send + 'static) {
        with_lane(&self.shared, |lane| {
            // SAFETY: the closure borrows nothing, and has no parent.
            if let Err(f) = unsafe { lane.spawn_alone_or_work(f, std::ptr::null()) } {
                drop(self.spawn(f));
            }
        });
    }

    /// Spawns many tasks that nobody will ask for the results of, and shows them to the workers together.
    pub fn spawn_many<F>(&self, tasks: impl IntoIterator<Item = F>)
    where
        F: FnOnce() + Send + 'static,
    {
        with_lane(&self.shared, |lane| {
            let mut batch = Batch::new(lane);
            for f in tasks {
                // SAFETY: the closures borrow nothing, and have no parent.
                if let Err(f) = unsafe { batch.add(f, std::ptr::null()) } {
                    drop(self.spawn(f));
                }
            }
        });
    }

    /// Prepares a task: it has its place and its closure, and runs when it is scheduled. Before that it can be tied to
    /// others; see [`Prepared`].
    ///
    /// When the pool has no slot left, tasks that wait in this thread's queue run here first.
    ///
    /// # Panics
    /// When the pool has no slot left, and this thread has nothing queued that would free one.
    ///
    /// # Cost
    /// As [`spawn`](Pool::spawn).
    pub fn prepare<F, T>(&self, f: F) -> Prepared<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.prepare_with(TaskOptions::default(), f)
    }

    /// Prepares a task, with a priority or a token that cancels it.
    ///
    /// # Panics
    /// As [`prepare`](Pool::prepare).
    pub fn prepare_with<F, T>(&self, options: TaskOptions, f: F) -> Prepared<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match options.cancel {
            None => self.write_prepared(options.priority, f),
            Some(token) => self.write_prepared(options.priority, move || token.guard(f)),
        }
    }

    fn write_prepared<F, T>(&self, priority: crate::Priority, f: F) -> Prepared<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        with_lane(&self.shared, |lane| {
            let mut f = f;
            loop {
                match lane.write_prepared(f, priority) {
                    Ok(slot) => return Prepared::new(slot, lane.hold()),
                    Err(given_back) => {
                        lane.ensure_slot();
                        f = given_back;
                    }
                }
            }
        })
    }

    /// Sees to it that what this thread does next in the pool, a task or a tie, finds a slot. When the pool has none left,
    /// tasks that wait in this thread's queue run here. For those who are about to tie tasks with a lock held that such a
    /// task might ask for.
    ///
    /// # Panics
    /// As [`prepare`](Pool::prepare).
    pub fn ensure_slot(&self) {
        with_lane(&self.shared, Lane::ensure_slot);
    }

    /// As [`ensure_slot`](Pool::ensure_slot), but runs nothing and waits for nothing. `false` if the pool has no slot left.
    pub fn try_ensure_slot(&self) -> bool {
        with_lane(&self.shared, Lane::try_ensure_slot)
    }

    // Structured work.

    /// Runs both closures, at the same time if somebody is free, and answers both values. May be called from anywhere,
    /// also inside tasks, and nested to any depth.
    ///
    /// # Panics
    /// With the panic of `a`, else with that of `b`; not before both have ended. When `a` panics before `b` has begun,
    /// `b` is not run.
    #[inline]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        join::join(&self.shared, a, b)
    }

    /// Runs `f` with a scope in which tasks may be spawned that borrow from the caller, and waits for all of them. The
    /// calling thread runs them, too, wherever it is called.
    ///
    /// # Panics
    /// With the panic of `f`, else with the first one of a task; not before all tasks have ended.
    #[doc(alias = "in_place_scope")]
    pub fn scope<'scope, R>(&self, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        scope::scope(&self.shared, f)
    }

    /// Lends the calling thread's own place in the pool to `f`: what is done through it needs not ask which thread it is
    /// on. See [`Lane::join`].
    pub fn attach<R>(&self, f: impl FnOnce(&Lane) -> R) -> R {
        with_lane(&self.shared, |lane| {
            lane.enter_call();
            let outcome = catch(|| f(lane));
            lane.leave_call();
            unwrap(outcome)
        })
    }

    /// Calls `f` with every index of the range, on all threads that are free.
    ///
    /// # Panics
    /// With a panic of `f`; not before all calls that have begun have ended. Others may not have begun.
    ///
    /// # Cost
    /// That of a plain loop when nobody is free; some 100 ns for each half that somebody takes.
    pub fn for_each(&self, range: Range<usize>, f: impl Fn(usize) + Sync) {
        let run = |piece: Range<usize>| piece.for_each(&f);
        with_lane(&self.shared, |lane| loops::for_pieces(lane, range, &run));
    }

    /// Calls `f` with every item of the slice, on all threads that are free.
    ///
    /// # Panics
    /// As [`for_each`](Pool::for_each).
    pub fn for_each_mut<T: Send>(&self, slice: &mut [T], f: impl Fn(&mut T) + Sync) {
        let len = slice.len();
        let parts = Parts::of(slice);
        let run = |piece: Range<usize>| {
            // SAFETY: the pieces of a loop are within its range, and each comes once.
            unsafe { parts.get(piece) }.iter_mut().for_each(&f);
        };
        with_lane(&self.shared, |lane| loops::for_pieces(lane, 0..len, &run));
    }

    /// Calls `f` with every chunk of `chunk_len` items of the slice, the last one maybe shorter, and its number.
    ///
    /// # Panics
    /// When `chunk_len` is zero. As [`for_each`](Pool::for_each).
    pub fn for_each_chunk<T: Send>(&self, slice: &mut [T], chunk_len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
        assert!(chunk_len > 0, "chunks of no items have no end");
        let len = slice.len();
        let parts = Parts::of(slice);
        let run = |piece: Range<usize>| {
            for number in piece {
                let start = number * chunk_len;
                // SAFETY: chunks do not overlap, and each number comes once.
                f(number, unsafe { parts.get(start..len.min(start + chunk_len)) });
            }
        };
        with_lane(&self.shared, |lane| loops::for_pieces(lane, 0..len.div_ceil(chunk_len), &run));
    }

    /// Maps every index of the range and joins the values in order, on all threads that are free. `reduce` must be
    /// associative, and `identity` must give what changes nothing.
    ///
    /// # Panics
    /// As [`for_each`](Pool::for_each).
    pub fn map_reduce<T: Send>(
        &self,
        range: Range<usize>,
        identity: impl Fn() -> T + Sync,
        map: impl Fn(usize) -> T + Sync,
        reduce: impl Fn(T, T) -> T + Sync,
    ) -> T {
        let fold = |value: T, piece: Range<usize>| piece.fold(value, |value, index| reduce(value, map(index)));
        with_lane(&self.shared, |lane| loops::fold_pieces(lane, range, &identity, &fold, &reduce))
    }

    // Waiting.

    /// Runs `f`; the waits inside it run nothing but what was spawned inside it. So a lock that is held across a wait is
    /// not asked for again by a task that the wait happened to run.
    pub fn isolate<R>(&self, f: impl FnOnce() -> R) -> R {
        with_lane(&self.shared, |lane| {
            let floor = lane.floor.replace(lane.desk().ring.tail());
            let was_isolated = lane.is_isolated.replace(true);
            let outcome = catch(f);
            lane.restore_floor(floor);
            lane.is_isolated.set(was_isolated);
            unwrap(outcome)
        })
    }

    /// Runs tasks, or sleeps, until the predicate holds. It is asked after every task that this thread runs, and at least
    /// every millisecond; it should be cheap, and must not wait.
    ///
    /// # Blocking
    /// Until the predicate holds.
    pub fn wait_until(&self, predicate: impl Fn() -> bool) {
        with_lane(&self.shared, |lane| lane.wait_until(&predicate));
    }

    /// Waits until nothing is queued and no worker runs anything. Tasks that others spawn meanwhile are waited for, too.
    /// In a pool with a seed, and in one that was not started, the calling thread runs what is queued.
    ///
    /// # Panics
    /// Inside a task of the pool: it would wait for itself.
    ///
    /// # Blocking
    /// Until then.
    pub fn wait_idle(&self) {
        assert!(!lane::is_in_task_of(&self.shared), "a task waits for its own pool to be idle, which would never end");
        with_lane(&self.shared, Lane::wait_idle);
    }

    // Seeing.

    /// How many threads it has, spare ones not counted.
    pub fn thread_count(&self) -> usize {
        self.shared.config.threads
    }

    /// What each worker has done since the pool was made.
    pub fn metrics(&self) -> Vec<WorkerMetrics> {
        self.shared.metrics()
    }

    /// Spare threads that are there now (see [`blocking`](fn@crate::blocking)).
    pub fn spare_thread_count(&self) -> usize {
        self.shared.spare_count()
    }

    /// Begins to note which task runs when. At most 65,536 tasks are noted for each thread.
    pub fn start_trace(&self) {
        self.shared.set_flag(flag::TRACE);
    }

    /// Ends the noting, and answers what was noted in the JSON that Perfetto and Chromium's trace viewer open. Forks are
    /// not noted: they are part of the task they belong to.
    pub fn take_trace(&self) -> String {
        self.shared.clear_flag(flag::TRACE);
        let name_of = |index: usize| {
            let name = &self.shared.config.name;
            if index < self.thread_count() { format!("{name}-{index}") } else { format!("other thread {index}") }
        };
        let spans_of = |index: u32| (name_of(index as usize), self.shared.desk(index).trace.take());
        let threads: Vec<_> = (0..self.shared.desk_count()).map(spans_of).collect();
        trace::to_chrome_json(&threads)
    }

    // Stopping.

    /// Has the workers end after the task each has in hand; what is queued stays so. May be called from inside a task.
    /// [`join_threads`](Pool::join_threads) waits for them; afterwards the pool may be started again.
    pub fn stop(&self) {
        self.shared.stop(false);
    }

    /// Waits until the threads have ended after [`stop`](Pool::stop). Any thread may do so, several too.
    ///
    /// # Panics
    /// Inside a task of the pool: it would wait for itself.
    ///
    /// # Blocking
    /// Until they have ended: for ever if nobody stops the pool.
    pub fn join_threads(&self) {
        assert!(!lane::is_worker_of(&self.shared), "a task joins its own pool's threads, which would never end");
        self.shared.wait_for_end(None);
        let threads: Vec<_> = lock(&self.threads).drain(..).chain(self.shared.blocking.take_threads()).collect();
        threads.into_iter().for_each(join_thread);
    }

    /// Ends the pool as `mode` says, and waits for the threads for up to `timeout`. What still runs then goes on, and its
    /// thread ends after it.
    ///
    /// # Panics
    /// Inside one of the pool's own tasks: it would wait for itself.
    ///
    /// # Blocking
    /// Until every thread has ended, or for `timeout`.
    pub fn shutdown(mut self, mode: Shutdown, timeout: Duration) -> ShutdownReport {
        assert!(!lane::is_worker_of(&self.shared), "a task shuts its own pool down, which would never end");
        let deadline = Instant::now().checked_add(timeout);
        let count = lock(&self.threads).len() + self.shared.spare_count();
        if mode != Shutdown::Drain {
            self.shared.set_flag(flag::CANCEL);
        }
        self.shared.stop(true);
        let timeout = if mode == Shutdown::Abandon { Duration::ZERO } else { timeout };
        self.run_what_no_thread_will(deadline);
        let left = self.shared.wait_for_end(Some(timeout));
        if left > 0 {
            // Dropping the handles lets the threads go.
            self.is_left_behind = true;
            lock(&self.threads).clear();
            drop(self.shared.blocking.take_threads());
        }
        let shared = Arc::clone(&self.shared);
        let queued_before = shared.queued_count();
        drop(self);
        // Nobody is left: the end of the pool has run what a thread that ended at the same time has left behind after the
        // workers had looked.
        let queued = if left == 0 { shared.queued_count() } else { queued_before };
        ShutdownReport { ended: count.saturating_sub(left), left, queued }
    }

    /// In a pool without threads, what is queued is run here, until the deadline.
    fn run_what_no_thread_will(&self, deadline: Option<Instant>) {
        let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if lock(&self.threads).is_empty() {
            with_lane(&self.shared, |lane| while !is_over() && lane.run_one_left() {});
        }
    }
}

/// The life of a worker thread.
fn live(shared: &SharedRef, number: usize) {
    /// Counts the worker out however its thread ends.
    struct CountOut<'a>(&'a Shared);
    impl Drop for CountOut<'_> {
        fn drop(&mut self) {
            self.0.count_out(false);
        }
    }
    let count_out = CountOut(shared);
    let config = &shared.config;
    if let Some(processor) = config.pinned_to.get(number) {
        // A wish: a processor that is not there, or not allowed, leaves the thread where it is.
        affinity::pin_to(*processor);
    }
    if let Some(hook) = &config.on_thread_start {
        // A hook that panics is told to the panic hook, like a task.
        tell(config, catch(|| hook(number)));
    }
    worker::main(shared, number as u32, false);
    if let Some(hook) = &config.on_thread_end {
        tell(config, catch(|| hook(number)));
    }
    drop(count_out);
    lane::see_to_what_came_last(shared);
}

fn tell(config: &PoolConfig, outcome: crate::panic::Outcome<()>) {
    if let Err(panic) = outcome {
        tell_hook(&config.panic_hook, panic);
    }
}

fn join_thread(thread: JoinHandle<()>) {
    // The threads catch every panic of a task; one of the engine itself has been printed by its thread.
    let _ = thread.join();
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop(true);
        // C-7: a worker that drops its own pool cannot join itself.
        if !lane::is_worker_of(&self.shared) && !self.is_left_behind {
            self.run_what_no_thread_will(None);
            self.join_threads();
        }
        // Before the end: what this thread has queued is left to threads that go on, even beyond a shutdown's time.
        lane::detach(&self.shared);
        self.shared.end();
        with_lane(&self.shared, Lane::run_what_came_last);
        lane::detach(&self.shared);
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.thread_count()).finish_non_exhaustive()
    }
}
