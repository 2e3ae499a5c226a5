//! Binding a thread to a processor, where the system offers it. Without a library: one call of the C library, which the
//! standard library is linked to anyway.

/// Processors the mask has room for, as the C library's own type has.
#[cfg(target_os = "linux")]
const MASK_BITS: usize = 1_024;

/// Binds the calling thread to a processor. `false` if the system refused, or offers no such thing.
#[cfg(target_os = "linux")]
pub(crate) fn pin_to(processor: usize) -> bool {
    unsafe extern "C" {
        fn sched_setaffinity(pid: i32, mask_len: usize, mask: *const u64) -> i32;
    }
    if processor >= MASK_BITS {
        return false;
    }
    let mut mask = [0_u64; MASK_BITS / 64];
    mask[processor / 64] = 1 << (processor % 64);
    // SAFETY: process 0 is the calling thread; the mask is as long as we say, and only read.
    unsafe { sched_setaffinity(0, size_of_val(&mask), mask.as_ptr()) == 0 }
}

/// Binds the calling thread to a processor. `false` if the system refused, or offers no such thing.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_to(_processor: usize) -> bool {
    false
}
