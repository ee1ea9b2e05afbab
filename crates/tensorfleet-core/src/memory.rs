//! Memory that graphs take: an account with a limit (`account`), and the aligned blocks that the bytes of tensors live in.
//!
//! Two facts shape the blocks. Fresh pages are expensive: a kernel that writes its result into memory the
//! operating system has just mapped runs several times slower than into memory used a moment ago, and a
//! training step allocates the same sizes again and again. So freed blocks of some size are kept, up to a
//! bound, and handed out again. And sizes come from graphs that anyone may send, so all live blocks are charged
//! to the account; beyond its limit an allocation is an error, not an abort.
//!
//! Every block is initialised memory: zeroed when it is new, holding old values when it is recycled. Large blocks are mapped
//! (`pages`): their zeros cost nothing, and pages nobody writes to, such as those a size was rounded up by, take no memory.

mod account;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod heaps;
mod pages;
mod reading;
mod system;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

pub use account::{
    Charge, Kept, append, check_fits, collect, copy_of, limit_bytes, live_bytes, make_room, set_limit_bytes,
    vec_of, vec_with_room,
};

pub use reading::{read_file, read_to_end, read_until};
pub use system::save_address_space;

use crate::status::{Result, Status};

/// Alignment of every block: a cache line, and the widest vector register.
pub const ALIGNMENT: usize = 64;

/// Smaller blocks are left to the allocator, which is good at them.
const RECYCLE_FROM: usize = 4 << 10;
/// Larger blocks go back to the system at once, so that one huge tensor does not stay resident for ever.
const RECYCLE_UP_TO: usize = 128 << 20;
/// Blocks of this size and above are mapped. The allocator would write zeros into all of them.
const MAP_FROM: usize = 4 << 20;
/// How many bytes of freed blocks are kept at most.
const KEEP_BYTES: usize = 256 << 20;
/// Quarter steps between powers of two, so that rounding a size up wastes at most a fifth.
const CLASSES: usize = 4 * usize::BITS as usize;

/// How many blocks of a size that is recycled have been asked for.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static FREED: Mutex<FreeLists> = Mutex::new(FreeLists::new());

/// How many blocks have been asked for, those aside that are too small to be kept: it stands still while nothing is computed.
pub fn block_requests() -> u64 {
    REQUESTS.load(Relaxed)
}

/// Gives the blocks that are kept for reuse back to the system.
pub fn release_freed() {
    let freed = std::mem::replace(&mut *FREED.lock(), FreeLists::new());
    drop(freed);
}

/// Tells the C library's allocator to keep what is freed for the next use, until [`trim_heaps`]. This is a setting of the whole
/// process, so it is for programs to call. It does nothing where the allocator is another one than glibc's; nor do the next two.
pub fn keep_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    heaps::keep();
}

/// To be called by threads that allocate much, once, at their start: what lies free at the end of their heaps can then be given
/// back by others.
pub fn mark_heap_of_thread() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    heaps::mark();
}

/// Gives pages of the C library's heaps that lie free back to the system. Other threads may allocate meanwhile, and wait for it.
pub fn trim_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    heaps::trim();
}

/// An owned, aligned, initialised block of bytes.
pub(crate) struct Block {
    start: NonNull<u8>,
    /// For exactly what was allocated, which is at least what was asked for; it stays as it is.
    charge: Charge,
}

// SAFETY: a block owns its memory, which the allocator lets any thread use and free.
unsafe impl Send for Block {}
// SAFETY: `&Block` gives out only `&[u8]`, which threads may share; writing and freeing take `&mut Block`.
unsafe impl Sync for Block {}

impl Block {
    /// A block of at least `len` bytes with unspecified (but initialised) content.
    pub(crate) fn new(len: usize) -> Result<Block> {
        Block::obtain(len).map(|(block, _)| block)
    }

    /// A block of at least `len` zero bytes.
    pub(crate) fn zeroed(len: usize) -> Result<Block> {
        let (mut block, is_zero) = Block::obtain(len)?;
        if !is_zero && let Some(bytes) = block.bytes_mut().get_mut(..len) {
            bytes.fill(0);
        }
        Ok(block)
    }

    /// A block of at least `len` bytes that was freed and kept; `None` if there is none of that size, or no room below the
    /// limit.
    pub(crate) fn recycled(len: usize) -> Option<Block> {
        if len < RECYCLE_FROM {
            return None;
        }
        let (class, capacity) = size_class(len)?;
        let charge = Charge::new(capacity).ok()?;
        let start = FREED.lock().take(class, capacity)?;
        Some(Block { start, charge })
    }

    /// A recycled or a fresh block, and whether it is known to be zero.
    fn obtain(len: usize) -> Result<(Block, bool)> {
        if len < RECYCLE_FROM {
            return Ok((Block::fresh(len.max(1))?, true));
        }
        let (class, capacity) = size_class(len).ok_or_else(|| exhausted(len))?;
        let charge = Charge::new(capacity)?;
        REQUESTS.fetch_add(1, Relaxed);
        let recycled = FREED.lock().take(class, capacity);
        match recycled {
            Some(start) => Ok((Block { start, charge }, false)),
            None => Ok((Block::allocate(charge)?, true)),
        }
    }

    fn fresh(capacity: usize) -> Result<Block> {
        Block::allocate(Charge::new(capacity)?)
    }

    fn allocate(charge: Charge) -> Result<Block> {
        let capacity = charge.bytes();
        let start = system_bytes(capacity).or_else(|| {
            // What is kept for reuse may be what is missing.
            release_freed();
            system_bytes(capacity)
        });
        Ok(Block { start: start.ok_or_else(|| exhausted(capacity))?, charge })
    }

    /// All bytes of the block: at least as many as were asked for.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the block owns the allocation at `start`, which has as many bytes as were reserved, all initialised
        // (zeroed when it was new); nobody writes them while `self` is borrowed, since that takes `&mut self`. `start` is
        // the allocator's own pointer, so borrows of the block, which holds only the address, do not invalidate it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.charge.bytes()) }
    }

    /// All bytes of the block, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block owns the allocation at `start`, which has as many bytes as were reserved, all initialised
        // (zeroed when it was new), and nobody else reaches them while `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.charge.bytes()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let capacity = self.charge.bytes();
        if capacity >= RECYCLE_FROM && FREED.lock().keep(self.start, capacity) {
            return;
        }
        free(self.start, capacity);
    }
}

/// Zeroed bytes from the system, if it has as many.
fn system_bytes(capacity: usize) -> Option<NonNull<u8>> {
    if capacity >= MAP_FROM {
        return pages::map(capacity);
    }
    // SAFETY: the layout's size is not zero (`len.max(1)`, or a size class).
    NonNull::new(unsafe { alloc_zeroed(layout(capacity)?) })
}

fn layout(capacity: usize) -> Option<Layout> {
    Layout::from_size_align(capacity, ALIGNMENT).ok()
}

fn free(start: NonNull<u8>, capacity: usize) {
    if capacity >= MAP_FROM {
        // SAFETY: a block of this size was mapped in `Block::allocate`, with this capacity, and is freed once.
        unsafe { pages::unmap(start, capacity) };
    } else if let Some(layout) = layout(capacity) {
        // SAFETY: a smaller block was allocated in `Block::allocate` with this very layout and is freed once.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

#[cold]
fn exhausted(bytes: usize) -> Status {
    account::exhausted(bytes, limit_bytes())
}

/// The class of a size, and the size rounded up to the class.
fn size_class(len: usize) -> Option<(usize, usize)> {
    let power = len.checked_next_power_of_two()?.trailing_zeros() as usize;
    let half = 1usize << power.saturating_sub(1);
    let quarter = (half / 4).max(1);
    let steps = (len - half).div_ceil(quarter);
    Some((4 * power + steps.saturating_sub(1), half + steps * quarter))
}

/// Freed blocks by size class.
struct FreeLists {
    kept_bytes: usize,
    classes: [Vec<FreedBlock>; CLASSES],
}

struct FreedBlock {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: it owns unused memory, which the allocator lets any thread use and free; whoever takes it out owns it.
unsafe impl Send for FreedBlock {}

impl Drop for FreedBlock {
    fn drop(&mut self) {
        free(self.start, self.capacity);
    }
}

impl FreeLists {
    const fn new() -> FreeLists {
        FreeLists { kept_bytes: 0, classes: [const { Vec::new() }; CLASSES] }
    }

    fn take(&mut self, class: usize, capacity: usize) -> Option<NonNull<u8>> {
        let block = self.classes.get_mut(class)?.pop()?;
        self.kept_bytes -= capacity;
        let start = block.start;
        // Its memory has a new owner.
        std::mem::forget(block);
        Some(start)
    }

    /// Keeps the block if there is room; returns whether it did.
    fn keep(&mut self, start: NonNull<u8>, capacity: usize) -> bool {
        let Some((class, rounded)) = size_class(capacity) else { return false };
        debug_assert_eq!(rounded, capacity, "blocks of this size are allocated by class");
        if capacity > RECYCLE_UP_TO || self.kept_bytes + capacity > KEEP_BYTES {
            return false;
        }
        self.kept_bytes += capacity;
        self.classes[class].push(FreedBlock { start, capacity });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn size_classes_round_up_by_at_most_a_quarter_and_are_stable() {
        let mut last = (0, 0);
        for len in (RECYCLE_FROM..RECYCLE_FROM * 40).step_by(123) {
            let (class, capacity) = size_class(len).unwrap();
            assert!(capacity >= len && capacity <= len + len / 4, "{len} -> {capacity}");
            assert_eq!(size_class(capacity).unwrap(), (class, capacity));
            assert!((class, capacity) >= last);
            last = (class, capacity);
        }
    }

    #[test]
    fn a_size_beyond_the_limit_is_an_error() {
        let status = Block::new(1 << 50).map(|_| ()).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        let status = Block::new(usize::MAX - 5).map(|_| ()).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    #[test]
    fn blocks_that_are_kept_for_reuse_can_be_given_back() {
        let before = block_requests();
        drop(Block::new(RECYCLE_FROM * 5).unwrap());
        release_freed();
        let block = Block::new(RECYCLE_FROM * 5).unwrap();
        assert!(block.bytes().len() >= RECYCLE_FROM * 5);
        assert!(block_requests() >= before + 2);
    }

    #[test]
    fn zeroed_blocks_are_zero_even_when_recycled() {
        for len in [RECYCLE_FROM * 3, MAP_FROM + 12_345, RECYCLE_UP_TO + 1] {
            for _ in 0..3 {
                let mut block = Block::zeroed(len).unwrap();
                assert!(block.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
                assert!(block.bytes_mut()[..len].iter().all(|&byte| byte == 0));
                block.bytes_mut().fill(7);
            }
        }
    }
}
