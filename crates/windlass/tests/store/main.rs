//! One suite, every store: what the contract promises, held against memory and SQLite.
//!
//! Every test is a function over a [`fixture::Fixture`]; the macro `for_every_store!` makes a test of it for each
//! store. A test for one store alone is in that store's own file and says why.

mod fixture;
mod jobs;
mod looking;
mod measurements;
mod members;
mod model;
mod moving;
mod restoring;
mod sqlite_alone;
mod sweeps;
