//! The client for programs without an async runtime, and the few lines that make it one.
//!
//! Every verb of a store answers by a future that needs no particular runtime, so waiting for it takes a thread that
//! parks until it is woken: [`block_on`].

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use crate::client::Client;
use crate::clock::Timestamp;
use crate::error::Error;
use crate::job::{Job, JobId, JobOptions, NewJob};
use crate::store::{Changed, Inserted, ProcessOrder, ProcessTarget};

/// Waits on this thread for the end of `future`.
///
/// # Blocking
/// Parks the thread. Must not be called on a thread of an async runtime: it would stand still.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut task = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut task) {
            Poll::Ready(output) => return output,
            // A wake between the poll and the park makes the park return at once.
            Poll::Pending => std::thread::park(),
        }
    }
}

/// A [`Client`] whose calls wait. Cheap to clone.
///
/// # Blocking
/// Every call parks the thread until the store has answered: about one commit.
#[derive(Debug, Clone)]
pub struct BlockingClient {
    client: Client,
}

impl BlockingClient {
    pub(crate) fn new(client: Client) -> BlockingClient {
        BlockingClient { client }
    }

    /// See [`Client::enqueue`].
    ///
    /// # Errors
    /// As there.
    pub fn enqueue<J: Job>(&self, job: &J) -> Result<JobId, Error> {
        block_on(self.client.enqueue(job))
    }

    /// See [`Client::enqueue_in`].
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_in<J: Job>(&self, delay: Duration, job: &J) -> Result<JobId, Error> {
        block_on(self.client.enqueue_in(delay, job))
    }

    /// See [`Client::enqueue_at`].
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_at<J: Job>(&self, at: Timestamp, job: &J) -> Result<JobId, Error> {
        block_on(self.client.enqueue_at(at, job))
    }

    /// See [`Client::enqueue_many`].
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_many<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> Result<Vec<JobId>, Error> {
        block_on(self.client.enqueue_many(jobs))
    }

    /// Enqueues one job with `options`. See [`Client::with`].
    ///
    /// # Errors
    /// As there.
    pub fn enqueue_with<J: Job>(&self, options: JobOptions, job: &J) -> Result<JobId, Error> {
        block_on(self.client.with(options).enqueue(job))
    }

    /// See [`Client::raw`].
    ///
    /// # Errors
    /// As there.
    pub fn raw(&self, kind: &str, args: &str) -> Result<JobId, Error> {
        block_on(self.client.raw(kind, args))
    }

    /// See [`Client::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert(&self, jobs: Vec<NewJob>) -> Result<Vec<Inserted>, Error> {
        block_on(self.client.insert(jobs))
    }

    /// See [`Client::cancel`].
    ///
    /// # Errors
    /// As there.
    pub fn cancel(&self, id: JobId) -> Result<Changed, Error> {
        block_on(self.client.cancel(id))
    }

    /// See [`Client::kill`].
    ///
    /// # Errors
    /// As there.
    pub fn kill(&self, id: JobId) -> Result<Changed, Error> {
        block_on(self.client.kill(id))
    }

    /// See [`Client::requeue`].
    ///
    /// # Errors
    /// As there.
    pub fn requeue(&self, id: JobId) -> Result<Changed, Error> {
        block_on(self.client.requeue(id))
    }

    /// See [`Client::delete`].
    ///
    /// # Errors
    /// As there.
    pub fn delete(&self, id: JobId) -> Result<Changed, Error> {
        block_on(self.client.delete(id))
    }

    /// See [`Client::pause`].
    ///
    /// # Errors
    /// As there.
    pub fn pause(&self, queue: &str) -> Result<bool, Error> {
        block_on(self.client.pause(queue))
    }

    /// See [`Client::resume`].
    ///
    /// # Errors
    /// As there.
    pub fn resume(&self, queue: &str) -> Result<bool, Error> {
        block_on(self.client.resume(queue))
    }

    /// See [`Client::order`].
    ///
    /// # Errors
    /// As there.
    pub fn order(&self, to: ProcessTarget, order: ProcessOrder) -> Result<usize, Error> {
        block_on(self.client.order(to, order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_woken_by_another_thread_is_waited_for() {
        let (send, receive) = tokio::sync::oneshot::channel();

        let sender = std::thread::spawn(move || send.send(7));

        assert_eq!(block_on(receive), Ok(7));
        sender.join().unwrap().unwrap();
    }
}
