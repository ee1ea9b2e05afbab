//! Keeps the memory of received frames in the process.
//!
//! Every frame of up to 1 MiB is received into memory of its own, which is free again a moment later. The C library's
//! allocator gives freed memory of that size back to the system at once and takes it anew for the next frame, page fault
//! by page fault; for a tensor of 100 MB that costs as much processor time as moving it. The allocator adapts by itself,
//! but only after blocks of many megabytes have been freed; here it is told to start where it would end.

/// Tells the allocator, once per process.
pub(crate) fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(glibc::keep);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::c_int;

    // From <malloc.h>.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;

    /// Larger blocks are mapped, and unmapped when freed. The largest value the allocator itself would arrive at.
    const MAP_FROM_BYTES: c_int = 32 << 20;
    /// How much free memory at the end of a heap is kept; twice the above, as the allocator has it.
    const KEEP_BYTES: c_int = 64 << 20;

    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    pub(super) fn keep() {
        // SAFETY: the signature is that of <malloc.h>. `mallopt` takes two numbers and no pointer, holds the allocator's own
        // lock while it changes its settings, so that other threads may allocate meanwhile, and ignores what it does not
        // understand.
        unsafe {
            mallopt(M_MMAP_THRESHOLD, MAP_FROM_BYTES);
            mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
        }
    }
}
