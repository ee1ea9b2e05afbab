//! Keeping the memory of received frames in the process, and giving it back: choices that a program makes, not this library.
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
    tensorfleet_core::memory::keep_heaps();
}

/// Tells the C library's allocator to give back to the system what it keeps of freed memory: for a program that has been
/// idle for a while. Other threads may allocate meanwhile, and wait for it.
///
/// It is the whole process's memory, so this too is for programs to call. It does nothing where the allocator is another
/// one than glibc's.
pub fn release_freed_memory() {
    tensorfleet_core::memory::trim_heaps();
}
