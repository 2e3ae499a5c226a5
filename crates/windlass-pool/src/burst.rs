//! Dispatch to threads that sleep, with as few wakes as the work needs.
//!
//! A [`Burst`] has threads of its own, each with its own handler: a thing to do at once, several times a second, by
//! threads that sleep in between. What matters there is not the queue but the wake: it costs its caller more than ten
//! microseconds, and takes as long again to arrive. So a burst is written down as a whole, and then one sleeper after
//! the other is woken *while mail lies unread*: those who are awake go on with it meanwhile. Ten short items are all
//! done by the first who arrives; ten long ones find the other nine woken as fast as a loop of wakes can.
//!
//! # Mail
//! There is one list of mail that anybody may read, and one for each worker that only it reads
//! ([`Burst::dispatch_to`], [`Burst::broadcast`]). All lists, and who sleeps, lie behind one lock, which is never held
//! while something else is done: a wake is a thousand times dearer than the lock. So what a sender writes is there
//! before anybody is told of it, mail in a list is never lost, and a worker that looks and finds nothing is noted as
//! asleep in the same breath: whoever comes later sees it.
//!
//! | | worker | | sender |
//! |---|---|---|---|
//! | W1 | lock: nothing to read: note itself asleep | S1 | lock: write the mail; while more is unread than workers are on their way, take a sleeper off |
//! | W2 | park until its seat says *up* | S2 | its seat says *up*; unpark it |
//!
//! W1 and S1 are each one step. If W1 comes first, S1 sees the sleeper. If S1 comes first, W1 finds the mail.
//!
//! # Hot
//! While a [`Hot`] guard lives, workers that find nothing look again and again instead of sleeping, as many as there are
//! processors beside the caller's.
//!
//! The loom models are in `loom_tests/burst.rs`; their control has a worker look before it is noted as asleep.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;

use crate::config::{PanicHook, PoolConfig, validate_thread};
use crate::error::PoolError;
use crate::panic::{catch, tell_hook};
use crate::sync::{
    Arc, AtomicBool, AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, Padded, Thread, available_threads,
    lock, spin_loop, thread, wait_while,
};

/// How a burst is set up. Start from [`BurstConfig::default`] and change what differs.
#[derive(Clone)]
pub struct BurstConfig {
    /// What the threads are called, before their number. Default: `burst`.
    pub name: String,
    /// The stack of each worker in bytes, 64 KiB or more. Default: 2 MiB.
    pub stack_size: usize,
    /// Is told of the panic of a handler. Default: writes its message to standard error.
    pub panic_hook: PanicHook,
}

impl Default for BurstConfig {
    fn default() -> BurstConfig {
        let PoolConfig { stack_size, panic_hook, .. } = PoolConfig::default();
        BurstConfig { name: "burst".to_owned(), stack_size, panic_hook }
    }
}

impl fmt::Debug for BurstConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BurstConfig")
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

/// Nobody took it: what was to be sent, given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused<T>(pub T);

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no worker of the burst could take it: add workers, or try again when one is idle")
    }
}

impl<T: fmt::Debug> std::error::Error for Refused<T> {}

/// Threads that each have a handler, and sleep until something is sent to them.
///
/// May be shared between threads: any number of them may send. Dropping it has everything handled that was sent, and
/// then joins the threads; inside one of its own handlers it lets them end by themselves.
pub struct Burst<T: Send + 'static> {
    office: Arc<Office<T>>,
    config: BurstConfig,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<T: Send + 'static> fmt::Debug for Burst<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst").field("workers", &self.worker_count()).finish_non_exhaustive()
    }
}

/// What the workers and the senders share.
pub(crate) struct Office<T> {
    mail: Mutex<Mail<T>>,
    /// Counted up when there is new mail, for those who look without sleeping.
    news: Padded<AtomicU64>,
    /// Everything was handled, and everybody is idle.
    is_quiet: Condvar,
    panic_hook: PanicHook,
    /// Workers that may look without sleeping, at most.
    hot_max: usize,
}

/// Everything that is unread, and who could read it.
struct Mail<T> {
    /// For anybody.
    open: VecDeque<T>,
    /// For one worker each.
    own: Vec<VecDeque<T>>,
    seats: Vec<Arc<Seat>>,
    /// Workers that sleep, the longest first.
    sleepers: VecDeque<usize>,
    /// What each worker is about.
    posts: Vec<Post>,
    /// How many are [`Post::Arriving`].
    arriving: usize,
    /// How many are [`Post::Looking`].
    looking: usize,
    /// Workers that handle something.
    busy: usize,
    /// Guards that keep workers from sleeping.
    hot: usize,
    /// Threads that wait for quiet.
    watchers: usize,
    is_closing: bool,
}

/// What a worker is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Post {
    /// It handles something, or is about to look.
    Awake,
    /// It was woken for open mail, or has just started, and has not looked yet.
    Arriving,
    /// It has mail of its own, and has not looked yet: nobody counts on it for open mail.
    Summoned,
    /// It looks again and again.
    Looking,
    /// It is on the list of sleepers.
    Asleep,
}

impl<T> Mail<T> {
    /// More is unread than workers are on their way to it.
    fn needs_more(&self) -> bool {
        self.open.len() > self.arriving + self.looking
    }

    fn take(&mut self, worker: usize) -> Option<T> {
        self.own[worker].pop_front().or_else(|| self.open.pop_front())
    }

    /// Changes what a worker is about, and the counts with it.
    fn put(&mut self, worker: usize, post: Post) {
        let before = std::mem::replace(&mut self.posts[worker], post);
        for (counted, count) in [(Post::Arriving, &mut self.arriving), (Post::Looking, &mut self.looking)] {
            *count += usize::from(post == counted);
            *count -= usize::from(before == counted);
        }
    }

    /// Takes the worker that has slept longest off the list.
    fn rouse(&mut self) -> Option<Arc<Seat>> {
        let worker = self.sleepers.pop_front()?;
        self.put(worker, Post::Arriving);
        Some(Arc::clone(&self.seats[worker]))
    }

    /// A worker has mail of its own. Takes it off the list, if it sleeps.
    fn summon(&mut self, worker: usize) -> Option<Arc<Seat>> {
        if self.posts[worker] != Post::Awake {
            self.put(worker, Post::Summoned);
        }
        let place = self.sleepers.iter().position(|sleeper| *sleeper == worker)?;
        self.sleepers.remove(place);
        Some(Arc::clone(&self.seats[worker]))
    }

    fn is_quiet(&self) -> bool {
        self.busy == 0 && self.open.is_empty() && self.own.iter().all(VecDeque::is_empty)
    }
}

/// Where a worker sleeps.
pub(crate) struct Seat {
    is_up: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Seat {
    /// W2.
    fn sleep(&self) {
        // ORDER: Acquire; pairs with `wake`. The mail itself is ordered by the lock.
        while !self.is_up.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    /// S2.
    fn wake(&self) {
        // ORDER: Release; pairs with `sleep`. An exchange, as there: loom gives two exchanges one order.
        self.is_up.swap(true, Ordering::Release);
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }
}

impl<T: Send + 'static> Default for Burst<T> {
    fn default() -> Self {
        Burst::new()
    }
}

impl<T: Send + 'static> Burst<T> {
    /// A burst without workers.
    pub fn new() -> Burst<T> {
        Burst::with(BurstConfig::default())
    }

    /// A burst without workers, set up in another way than usual.
    pub fn with(config: BurstConfig) -> Burst<T> {
        let office = Office::new(config.panic_hook.clone());
        Burst { office: Arc::new(office), config, threads: Mutex::new(Vec::new()) }
    }

    /// Starts a worker, and answers its number: they count from zero. When the handler panics, the hook is told, and the
    /// worker goes on with the next mail.
    ///
    /// # Errors
    /// [`PoolError::Config`] names the setting that cannot be used. [`PoolError::Thread`] when the system gives no
    /// thread.
    pub fn add_worker(&self, handler: impl FnMut(T) + Send + 'static) -> Result<usize, PoolError> {
        validate_thread(&self.config.name, self.config.stack_size)?;
        // One at a time, so that numbers follow each other also when a thread cannot be had.
        let mut threads = lock(&self.threads);
        let number = threads.len();
        let seat = self.office.add_seat();
        let office = Arc::clone(&self.office);
        let builder = thread::Builder::new().name(format!("{}-{number}", self.config.name));
        let live = move || office.live(number, &seat, handler);
        match builder.stack_size(self.config.stack_size).spawn(live) {
            Ok(thread) => {
                threads.push(thread);
                Ok(number)
            }
            Err(cause) => {
                let mut mail = lock(&self.office.mail);
                mail.remove_last();
                self.office.wake_for(mail);
                Err(PoolError::Thread { started: number, wanted: number + 1, cause })
            }
        }
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        lock(&self.office.mail).seats.len()
    }

    /// Sends something to whoever is free first; the worker that has slept longest is woken for it.
    ///
    /// # Errors
    /// [`Refused`] gives it back when there are no workers.
    pub fn send(&self, value: T) -> Result<(), Refused<T>> {
        self.office.send(value)
    }

    /// Sends many things. All are there before the first sleeper is woken, and no more are woken than it takes.
    ///
    /// # Errors
    /// [`Refused`] gives them back when there are no workers.
    pub fn send_all<I: IntoIterator<Item = T>>(&self, values: I) -> Result<(), Refused<I>> {
        if self.worker_count() == 0 {
            return Err(Refused(values));
        }
        // Not under the lock: the iterator may do anything.
        let mut values: VecDeque<T> = values.into_iter().collect();
        let mut mail = lock(&self.office.mail);
        mail.open.append(&mut values);
        self.office.wake_for(mail);
        Ok(())
    }

    /// Sends something if somebody is idle now: now or never.
    ///
    /// # Errors
    /// [`Refused`] gives it back when nobody is.
    pub fn offer(&self, value: T) -> Result<(), Refused<T>> {
        let mut mail = lock(&self.office.mail);
        let idle = mail.sleepers.len() + mail.looking + mail.arriving;
        if mail.open.len() >= idle {
            return Err(Refused(value));
        }
        mail.open.push_back(value);
        self.office.wake_for(mail);
        Ok(())
    }

    /// Sends something to this worker, and no other.
    ///
    /// # Errors
    /// [`Refused`] gives it back when there is no such worker.
    pub fn dispatch_to(&self, worker: usize, value: T) -> Result<(), Refused<T>> {
        let mut mail = lock(&self.office.mail);
        if worker >= mail.seats.len() {
            return Err(Refused(value));
        }
        mail.own[worker].push_back(value);
        let seat = mail.summon(worker);
        // It may have been on its way to open mail: somebody else is needed then.
        self.office.wake_for(mail);
        if let Some(seat) = seat {
            seat.wake();
        }
        Ok(())
    }

    /// Sends something to every worker.
    ///
    /// # Errors
    /// [`Refused`] gives it back when there are no workers.
    pub fn broadcast(&self, value: T) -> Result<(), Refused<T>>
    where
        T: Clone,
    {
        let count = self.worker_count();
        if count == 0 {
            return Err(Refused(value));
        }
        // Not under the lock: cloning may do anything.
        let values: Vec<T> = std::iter::repeat_n(value, count).collect();
        let mut mail = lock(&self.office.mail);
        for (own, value) in mail.own.iter_mut().zip(values) {
            own.push_back(value);
        }
        // One that was added meanwhile gets nothing, and sleeps on.
        let seats: Vec<Arc<Seat>> = (0..count).filter_map(|worker| mail.summon(worker)).collect();
        self.office.wake_for(mail);
        seats.iter().for_each(|seat| seat.wake());
        Ok(())
    }

    /// Keeps workers awake until the guard is dropped, at most as many as there are processors beside the caller's: what
    /// is sent meanwhile is begun within a microsecond. They use their processors all the time.
    pub fn hot(&self) -> Hot<'_, T> {
        let mut mail = lock(&self.office.mail);
        mail.hot += 1;
        let missing = self.office.hot_max.saturating_sub(mail.looking + mail.arriving);
        let seats: Vec<Arc<Seat>> = (0..missing).map_while(|_| mail.rouse()).collect();
        drop(mail);
        seats.iter().for_each(|seat| seat.wake());
        Hot { burst: self }
    }

    /// Waits until everything was handled that was sent.
    ///
    /// # Panics
    /// Inside one of its own handlers: it would wait for itself.
    ///
    /// # Blocking
    /// Until then.
    pub fn wait_idle(&self) {
        assert!(!self.is_own_thread(), "a handler waits for its own burst to be idle, which would never end");
        let mut mail = lock(&self.office.mail);
        mail.watchers += 1;
        wait_while(&self.office.is_quiet, mail, None, |mail| !mail.is_quiet()).watchers -= 1;
    }

    fn is_own_thread(&self) -> bool {
        let here = thread::current().id();
        lock(&self.threads).iter().any(|thread| thread.thread().id() == here)
    }
}

/// Keeps workers of a burst awake; made by [`Burst::hot`].
#[must_use = "workers sleep again when the guard is dropped"]
pub struct Hot<'a, T: Send + 'static> {
    burst: &'a Burst<T>,
}

impl<T: Send + 'static> fmt::Debug for Hot<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hot")
    }
}

impl<T: Send + 'static> Drop for Hot<'_, T> {
    fn drop(&mut self) {
        lock(&self.burst.office.mail).hot -= 1;
        // Those who look see that it is over.
        self.burst.office.tell_news();
    }
}

impl<T: Send + 'static> Drop for Burst<T> {
    fn drop(&mut self) {
        self.office.close();
        if self.is_own_thread() {
            // A handler that drops its own burst cannot join itself.
            return;
        }
        for thread in lock(&self.threads).drain(..) {
            // Handlers' panics are caught; one of the engine itself has been printed by its thread.
            let _ = thread.join();
        }
    }
}

impl<T> Mail<T> {
    fn add(&mut self, seat: Arc<Seat>) {
        self.own.push(VecDeque::new());
        self.seats.push(seat);
        // It looks when it has started, like one that was woken.
        self.posts.push(Post::Awake);
        self.put(self.seats.len() - 1, Post::Arriving);
    }

    fn remove_last(&mut self) {
        self.put(self.seats.len() - 1, Post::Awake);
        self.posts.pop();
        self.seats.pop();
        // What somebody has sent to it meanwhile is for anybody.
        self.open.extend(self.own.pop().unwrap_or_default());
    }
}

impl<T: Send> Office<T> {
    pub(crate) fn new(panic_hook: PanicHook) -> Office<T> {
        let mail = Mail {
            open: VecDeque::new(),
            own: Vec::new(),
            seats: Vec::new(),
            sleepers: VecDeque::new(),
            arriving: 0,
            posts: Vec::new(),
            looking: 0,
            busy: 0,
            hot: 0,
            watchers: 0,
            is_closing: false,
        };
        Office {
            mail: Mutex::new(mail),
            news: Padded(AtomicU64::new(0)),
            is_quiet: Condvar::new(),
            panic_hook,
            hot_max: available_threads().saturating_sub(1).max(1),
        }
    }

    /// Called under the lock, so that nobody looks in between.
    fn tell_news(&self) {
        // ORDER: Release; pairs with the load in `look`. The mail itself is ordered by the lock.
        self.news.fetch_add(1, Ordering::Release);
    }

    /// S1 and S2, after the mail was written: wakes one sleeper after the other while more is unread than workers are on
    /// their way.
    fn wake_for<'a>(&'a self, mut mail: MutexGuard<'a, Mail<T>>) {
        self.tell_news();
        while mail.needs_more() {
            let Some(seat) = mail.rouse() else {
                return;
            };
            drop(mail);
            seat.wake();
            mail = lock(&self.mail);
        }
    }

    /// Has every worker end when nothing is left to read.
    pub(crate) fn close(&self) {
        let mut mail = lock(&self.mail);
        mail.is_closing = true;
        self.tell_news();
        let seats: Vec<Arc<Seat>> = std::iter::from_fn(|| mail.rouse()).collect();
        drop(mail);
        seats.iter().for_each(|seat| seat.wake());
    }

    /// A seat for another worker, which is about to start.
    pub(crate) fn add_seat(&self) -> Arc<Seat> {
        let seat = Arc::new(Seat { is_up: AtomicBool::new(false), thread: Mutex::new(None) });
        lock(&self.mail).add(Arc::clone(&seat));
        seat
    }

    /// Writes something for anybody, unless there are no workers, and wakes somebody if need be.
    pub(crate) fn send(&self, value: T) -> Result<(), Refused<T>> {
        let mut mail = lock(&self.mail);
        if mail.seats.is_empty() {
            return Err(Refused(value));
        }
        mail.open.push_back(value);
        self.wake_for(mail);
        Ok(())
    }

    /// The life of a worker.
    pub(crate) fn live(&self, worker: usize, seat: &Seat, mut handler: impl FnMut(T)) {
        *lock(&seat.thread) = Some(thread::current());
        let mut mail = lock(&self.mail);
        loop {
            mail.put(worker, Post::Awake);
            mail = match mail.take(worker) {
                Some(value) => self.handle(mail, value, &mut handler),
                None if mail.is_closing => return,
                None if mail.hot > 0 && mail.looking < self.hot_max => self.look(mail, worker),
                None => self.sleep(mail, worker, seat),
            };
        }
    }

    fn handle<'a>(
        &'a self,
        mut mail: MutexGuard<'a, Mail<T>>,
        value: T,
        handler: &mut impl FnMut(T),
    ) -> MutexGuard<'a, Mail<T>> {
        mail.busy += 1;
        drop(mail);
        if let Err(panic) = catch(|| handler(value)) {
            self.tell_panic(panic);
        }
        let mut mail = lock(&self.mail);
        mail.busy -= 1;
        if mail.watchers > 0 && mail.is_quiet() {
            self.is_quiet.notify_all();
        }
        mail
    }

    #[cold]
    fn tell_panic(&self, panic: Box<dyn Any + Send>) {
        tell_hook(&self.panic_hook, panic);
    }

    /// W1 and W2.
    fn sleep<'a>(&'a self, mut mail: MutexGuard<'a, Mail<T>>, worker: usize, seat: &Seat) -> MutexGuard<'a, Mail<T>> {
        #[cfg(windlass_weaken = "burst")]
        {
            // The control of the model: what comes between the look and the note is missed.
            drop(mail);
            mail = lock(&self.mail);
        }
        mail.put(worker, Post::Asleep);
        mail.sleepers.push_back(worker);
        drop(mail);
        seat.sleep();
        lock(&self.mail)
    }

    /// Looks for news without sleeping.
    fn look<'a>(&'a self, mut mail: MutexGuard<'a, Mail<T>>, worker: usize) -> MutexGuard<'a, Mail<T>> {
        mail.put(worker, Post::Looking);
        // ORDER: Acquire; under the lock, as in `tell_news`.
        let last = self.news.load(Ordering::Acquire);
        drop(mail);
        // ORDER: Acquire; pairs with `tell_news`.
        while self.news.load(Ordering::Acquire) == last {
            spin_loop();
        }
        lock(&self.mail)
    }
}
