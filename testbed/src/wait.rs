//! Waiting for something that another process does, with an end.
//!
//! There is no event to wait for when a server opens its port or a replica follows its master, so these are asked for
//! again and again. Every such wait has a limit, and says what did not come true.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// How long a server of the test bed may take for anything.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Looks until `look` answers `Some`.
///
/// # Errors
/// What `look` answered as an error, at once; or that `what` did not come true within `limit`.
pub fn until<T>(what: &str, limit: Duration, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    until_every(PAUSE, what, limit, look)
}

/// As [`until`], with another time between two looks: a longer one where looking would disturb what is measured.
///
/// # Errors
/// As [`until`].
pub fn until_every<T>(
    pause: Duration,
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let since = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if since.elapsed() > limit {
            bail!("waited {limit:?} for: {what}");
        }
        std::thread::sleep(pause);
    }
}

/// Looks until `holds`.
///
/// # Errors
/// That `what` did not come true within `limit`.
pub fn until_true(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Result<()> {
    until(what, limit, || Ok(holds().then_some(())))
}
