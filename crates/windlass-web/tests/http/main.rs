//! The dashboard from outside: what it lets through, what it shows, what it costs. See `windlass_web::ROUTES` for the
//! routes that these walk.

mod access;
mod cost;
mod hostile;
mod mounted;
mod sockets;
mod support;
