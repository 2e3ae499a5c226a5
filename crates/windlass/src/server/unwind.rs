//! Catching panics of futures and closures, as text.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Polls `future` to its end, or to its panic, whose message is the error.
pub(crate) async fn catch<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(|task| {
        // The future is not polled again after a panic, so nobody sees what the panic left behind in it.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(message(panic.as_ref()))),
        }
    })
    .await
}

/// Runs `f` to its end, or to its panic, whose message is the error.
pub(crate) fn catch_call<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    // The closure is consumed: nobody sees what the panic left behind in it.
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_after_an_await_is_an_error_with_its_message() {
        let caught = catch(async {
            tokio::task::yield_now().await;
            if true {
                panic!("lost {}", 3);
            }
        });

        assert_eq!(caught.await, Err("lost 3".to_owned()));
    }

    #[test]
    fn a_value_passes() {
        assert_eq!(catch_call(|| 7), Ok(7));
    }
}
