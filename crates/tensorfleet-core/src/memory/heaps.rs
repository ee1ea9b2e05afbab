//! The C library's heaps: keeping what is freed in them, and giving all of it back.
//!
//! glibc has a heap for about each thread. What lies free at the end of one is given back when a block is freed there and the
//! free end is longer than a threshold, which a program that moves big tensors sets high (`keep`). Its `malloc_trim` gives back
//! the free pages inside all heaps, but the end of the first one only: 64 MB of each other one stay, for as long as the program
//! has nothing to do. To make glibc shorten the end of a heap, somebody has to free a block in it while the threshold is low.
//! A thread allocates in its own heap only; but a block is freed, and grown and shrunk, in the heap it lies in, whoever does it.
//! So each heap has a mark, a small block that the first thread there has left, and `trim` grows and shrinks all marks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr::NonNull;

use parking_lot::Mutex;

// From <malloc.h>.
const M_TRIM_THRESHOLD: c_int = -1;
const M_MMAP_THRESHOLD: c_int = -3;

/// Larger blocks are mapped, and unmapped when freed. The largest value the allocator itself would arrive at.
const MAP_FROM_BYTES: c_int = 32 << 20;
/// How much free memory at the end of a heap is kept; twice the above, as the allocator has it.
const KEEP_BYTES: c_int = 64 << 20;

/// Larger than the blocks that each thread keeps for itself: those may lie in another heap than its own.
const MARK_BYTES: usize = 2 << 10;
/// Freeing as much as this makes the allocator look at the end of the heap; it does so from 64 KiB on.
const GROWN_BYTES: usize = 256 << 10;
/// Heaps are aligned to this. Were it otherwise, there would be more marks than heaps, or some heap without.
const HEAP_BYTES: usize = 64 << 20;
/// More heaps than this no machine has: there are eight for each core.
const MAX_MARKS: usize = 4096;

unsafe extern "C" {
    fn mallopt(parameter: c_int, value: c_int) -> c_int;
    fn malloc_trim(keep_bytes: usize) -> c_int;
}

static HEAPS: Mutex<Heaps> = Mutex::new(Heaps { keeps_ends: false, marks: BTreeMap::new() });

struct Heaps {
    /// Whether the program wants the ends of heaps to be kept. Otherwise the threshold is the allocator's own affair.
    keeps_ends: bool,
    /// By the number of the heap.
    marks: BTreeMap<usize, Mark>,
}

/// Sees to it that what is free at the end of heaps stays until [`trim`].
pub(super) fn keep() {
    HEAPS.lock().keeps_ends = true;
    set(M_MMAP_THRESHOLD, MAP_FROM_BYTES);
    set(M_TRIM_THRESHOLD, KEEP_BYTES);
}

/// Leaves a mark in the heap of this thread, unless there is one.
pub(super) fn mark() {
    let mut heaps = HEAPS.lock();
    if heaps.marks.len() < MAX_MARKS
        && let Some(mark) = Mark::new()
    {
        heaps.marks.entry(mark.heap()).or_insert(mark);
    }
}

/// Gives back to the system all pages of heaps that lie free.
pub(super) fn trim() {
    {
        let mut heaps = HEAPS.lock();
        if heaps.keeps_ends {
            set(M_TRIM_THRESHOLD, 0);
            // A mark may come to lie in another heap of the same thread.
            let marks = std::mem::take(&mut heaps.marks);
            heaps.marks = marks.into_values().map(Mark::stirred).map(|mark| (mark.heap(), mark)).collect();
            set(M_TRIM_THRESHOLD, KEEP_BYTES);
        }
    }
    // SAFETY: the signature is that of <malloc.h>. It takes a number and no pointer, and holds the lock of each heap while it
    // gives back pages of it that no allocated block lies in.
    unsafe { malloc_trim(0) };
}

fn set(parameter: c_int, value: c_int) {
    // SAFETY: the signature is that of <malloc.h>. `mallopt` takes two numbers and no pointer, holds the allocator's own lock
    // while it changes its settings, so that other threads may allocate meanwhile, and ignores what it does not understand.
    unsafe { mallopt(parameter, value) };
}

/// A small block of the C library's, whatever the program's own allocator is.
struct Mark(NonNull<u8>);

// SAFETY: it owns its memory, which the allocator lets any thread grow, shrink and free.
unsafe impl Send for Mark {}

impl Mark {
    const LAYOUT: Layout = Layout::new::<[u8; MARK_BYTES]>();
    const GROWN: Layout = Layout::new::<[u8; GROWN_BYTES]>();

    fn new() -> Option<Mark> {
        // SAFETY: the size is not zero.
        NonNull::new(unsafe { System.alloc(Mark::LAYOUT) }).map(Mark)
    }

    fn heap(&self) -> usize {
        self.0.as_ptr().addr() / HEAP_BYTES
    }

    /// Grows it and shrinks it again, which makes the allocator look at the end of its heap.
    fn stirred(mut self) -> Mark {
        // SAFETY: the block was allocated by `System` with this layout; the new size is not zero.
        let grown = unsafe { System.realloc(self.0.as_ptr(), Mark::LAYOUT, GROWN_BYTES) };
        // If there is no room, the block is as it was.
        let Some(grown) = NonNull::new(grown) else { return self };
        // SAFETY: it has just been given this layout; the new size is not zero.
        let shrunk = unsafe { System.realloc(grown.as_ptr(), Mark::GROWN, MARK_BYTES) };
        // To shrink a block never fails in glibc. Were it to, the larger one is freed as well by its start alone.
        self.0 = NonNull::new(shrunk).unwrap_or(grown);
        self
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: `System` has allocated it with this layout, and it is freed once.
        unsafe { System.dealloc(self.0.as_ptr(), Mark::LAYOUT) };
    }
}
