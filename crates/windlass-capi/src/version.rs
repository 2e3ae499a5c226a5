//! Which library this is, and how large its structs are.

use std::ffi::{c_char, c_int, c_uint};

use crate::bursts::BurstConfig;
use crate::closures::{ClosureKind, INLINE_LEN};
use crate::graphs::GraphReport;
use crate::pools::{Counters, PoolConfig, ShutdownReport};
use crate::tasks::TaskOptions;

/// Counted up when a program compiled against an older header would not work any more.
const ABI: c_uint = 1;

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_abi_version() -> c_uint {
    ABI
}

/// See `windlass.h`.
#[unsafe(no_mangle)]
pub extern "C" fn windlass_struct_size(which: c_int) -> usize {
    match which {
        0 => size_of::<PoolConfig>(),
        1 => size_of::<Counters>(),
        2 => size_of::<ShutdownReport>(),
        3 => size_of::<TaskOptions>(),
        4 => size_of::<GraphReport>(),
        5 => size_of::<BurstConfig>(),
        6 => INLINE_LEN,
        7 => size_of::<ClosureKind>(),
        _ => 0,
    }
}
