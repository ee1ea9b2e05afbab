//! Pages straight from the system, for large blocks.
//!
//! Fresh pages are zero without anybody writing zeros, and exist only once they are touched: a table that is filled is touched
//! once, not twice, and what a size was rounded up by is never touched. For the largest, the system is asked for huge pages: rows of a
//! table are read at random places, and with small pages finding the page takes longer than reading the row.

use std::ptr::NonNull;

/// Huge pages are dear when memory is in pieces, since others are moved out of their way: for tables, which stay, and not for what
/// a step computes.
#[cfg(target_os = "linux")]
const HUGE_FROM: usize = 16 << 20;

#[cfg(target_os = "linux")]
pub(super) fn map(len: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address that the system chooses touches no other memory.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) }.ok()?;
    if len >= HUGE_FROM {
        // SAFETY: the range is the mapping just made, and the advice changes no content. Without huge pages all works as well.
        let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
    }
    NonNull::new(start.cast())
}

/// # Safety
///
/// `start` came from [`map`] with the same `len`, and nobody uses the range any more.
#[cfg(target_os = "linux")]
pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller promises that this range is a mapping of ours, as a whole, and that nobody uses it any more, so
    // no reference dangles afterwards. It fails only for ranges that were never mapped.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn map(len: usize) -> Option<NonNull<u8>> {
    let layout = super::layout(len)?;
    // SAFETY: only large blocks are mapped, so the size is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// # Safety
///
/// `start` came from [`map`] with the same `len`, and nobody uses the range any more.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
    if let Some(layout) = super::layout(len) {
        // SAFETY: the caller promises that `map` returned `start` for this `len`, so it was allocated with this layout,
        // and that nobody uses it any more.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
    }
}
