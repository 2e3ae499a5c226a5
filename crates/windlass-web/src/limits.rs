//! Where a dashboard stops waiting: the bounds of time and number, in one place.

use std::time::Duration;

/// The longest body of a request: 64 KiB.
pub const BODY_LEN_MAX: usize = 64 << 10;

/// The bounds of a dashboard and of its socket. The defaults are meant to be kept; tests wait less.
///
/// A plain value: cheap to clone, shared by copying.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Streams of live figures at a time. Default: 64.
    pub viewers_max: usize,
    /// How long one stream of live figures lasts. Default: 5 min; a browser opens the next by itself, while one that
    /// never reads loses its seat.
    pub stream_life: Duration,
    /// How long an answer may take, but for the stream. Default: 30 s.
    pub answer_time: Duration,
    /// How long one request goes on changing many jobs. Default: 5 s; the answer says whether there are more.
    pub change_time: Duration,
    /// Connections at a time. Default: 256.
    pub connections_max: usize,
    /// How long a client may take to send its headers, and may wait between two requests. Default: 10 s.
    pub header_time: Duration,
    /// The longest headers of a request, in bytes. Default: 32 KiB.
    pub header_len_max: usize,
    /// How long a client may leave unread what was sent to it. Default: 20 s.
    pub write_time: Duration,
    /// How long connections have to end once the server is told to stop. Default: 2 s.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            viewers_max: 64,
            stream_life: Duration::from_secs(5 * 60),
            answer_time: Duration::from_secs(30),
            change_time: Duration::from_secs(5),
            connections_max: 256,
            header_time: Duration::from_secs(10),
            header_len_max: 32 << 10,
            write_time: Duration::from_secs(20),
            grace: Duration::from_secs(2),
        }
    }
}
