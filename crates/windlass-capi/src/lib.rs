//! The pool for C and C++: what stands behind `pool.h`, `windlass.h` and `windlass.hpp`.
//!
//! The headers in `include/` are the manual: what each function means is said there and not repeated here. This crate
//! sees to three things that C cannot. No argument crashes it: handles are numbers that are looked up in tables, never
//! addresses that are followed (`life.rs`, `object.rs`, `record.rs`, `pools.rs`), so one that was destroyed, or never
//! existed, is told apart. No panic leaves it: every function is run inside `status::guard`. And no call meets a pool
//! that is being taken down: calls pin the pool they use, and the end waits for the pins (`pools.rs`).
//!
//! A C callback is called as `extern "C-unwind"`: one that throws ends the process with a message, at the boundary.

mod life;
mod status;

mod here;
mod object;
mod pools;
mod record;

mod bursts;
mod closures;
mod graphs;
mod groups;
mod loops;
mod plain;
mod tasks;
mod tokens;
mod traces;
mod version;

pub use bursts::{
    BurstConfig, Handler, windlass_burst_add_worker, windlass_burst_broadcast, windlass_burst_create,
    windlass_burst_destroy, windlass_burst_dispatch_to, windlass_burst_offer, windlass_burst_send,
    windlass_burst_send_all, windlass_burst_wait_idle, windlass_burst_while_hot,
};
pub use closures::{ClosureKind, windlass_spawn_bytes, windlass_spawn_closure};
pub use graphs::{
    Edge, GraphReport, windlass_graph_add, windlass_graph_add_all, windlass_graph_add_condition, windlass_graph_cancel,
    windlass_graph_cancel_run, windlass_graph_create, windlass_graph_destroy, windlass_graph_name,
    windlass_graph_precede, windlass_graph_precede_all, windlass_graph_reset, windlass_graph_run, windlass_graph_seal,
};
pub use groups::{
    windlass_group_cancel, windlass_group_create, windlass_group_destroy, windlass_group_spawn, windlass_group_wait,
};
pub use here::windlass_worker_index;
pub use loops::{
    windlass_blocking, windlass_for, windlass_isolate, windlass_join, windlass_wait_idle, windlass_wait_until,
};
pub use plain::{thread_pool_create, thread_pool_destroy, thread_pool_submit};
pub use pools::{
    Counters, PoolConfig, ShutdownReport, windlass_pool_counters, windlass_pool_create, windlass_pool_destroy,
    windlass_pool_shutdown, windlass_pool_thread_count,
};
pub use status::{Status, windlass_last_error, windlass_status_name};
pub use tasks::{
    TaskOptions, windlass_prepare, windlass_spawn, windlass_task_cancel, windlass_task_continue_with,
    windlass_task_finish_with, windlass_task_is_done, windlass_task_release, windlass_task_schedule,
    windlass_task_wait, windlass_task_wait_timeout,
};
pub use tokens::{windlass_token_cancel, windlass_token_create, windlass_token_destroy, windlass_token_is_cancelled};
pub use traces::{Write, windlass_graph_dot, windlass_trace_start, windlass_trace_take};
pub use version::{windlass_abi_version, windlass_struct_size, windlass_version};
