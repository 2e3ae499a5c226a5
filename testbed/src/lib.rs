//! Real servers, real peers and bad networks, for the tests of windlass.
//!
//! A test that wants a Redis server starts one here: the program of the system's package, on a port that nobody else
//! has, with its data in a folder of its own. It ends with the test, by its process id, whatever way the test ends.
//! Nothing here depends on a server that is already running, and nothing is ended by name.
//!
//! The parts, in reading order: waiting with an end ([`wait`]), a started program and who ends it ([`program`]), ports
//! that stay ours ([`port`]), the protocol of Redis ([`resp`]), and the server itself ([`redis`]); servers that know of
//! each other ([`sentinel`], [`cluster`]); a network that misbehaves ([`proxy`]);
//! the real Sidekiq ([`ruby`]), and somebody to look at its page ([`http`]).
//!
//! Only std threads are used, so that these parts can stand beside any runtime that a test brings.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod http;
pub mod port;
pub mod program;
pub mod proxy;
pub mod redis;
pub mod resp;
pub mod ruby;
pub mod sentinel;
pub mod wait;

pub use cluster::Cluster;
pub use proxy::{Direction, Fault, Proxy};
pub use redis::{Flavor, Persistence, RedisOptions, RedisServer};
pub use resp::{Link, Reply};
pub use ruby::Ruby;
pub use sentinel::SentinelSet;
