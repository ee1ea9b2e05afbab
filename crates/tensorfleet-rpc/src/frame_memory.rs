//! Keeping the memory of received frames in the process: a choice that a program makes, not this library.
//!
//! Every frame of up to 1 MiB is received into memory of its own, which is free again a moment later. The C library's
//! allocator gives freed memory of that size back to the system at once and takes it anew for the next frame, page fault
//! by page fault; for a tensor of 100 MB that costs as much processor time as moving it. The allocator adapts by itself,
//! but only after blocks of many megabytes have been freed. The frames are made inside the HTTP/2 library, so they cannot
//! be recycled here.

/// Tells the C library's allocator to keep up to 64 MiB of freed memory for the next use, and to serve blocks of up to
/// 32 MiB from it: where it would arrive by itself in a program that frees such blocks.
///
/// This is a setting of the whole process (`mallopt`), so it is for programs to call, at their start, and never called by
/// a library. The `tensorfleet` program does. It does nothing where the allocator is another one than glibc's.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::keep_freed_memory();
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

    pub(super) fn keep_freed_memory() {
        // SAFETY: the signature is that of <malloc.h>. `mallopt` takes two numbers and no pointer, holds the allocator's own
        // lock while it changes its settings, so that other threads may allocate meanwhile, and ignores what it does not
        // understand.
        unsafe {
            mallopt(M_MMAP_THRESHOLD, MAP_FROM_BYTES);
            mallopt(M_TRIM_THRESHOLD, KEEP_BYTES);
        }
    }
}
