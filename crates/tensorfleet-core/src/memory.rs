//! Where the bytes of tensors come from: aligned blocks, counted against a limit, recycled when freed.
//!
//! Two facts shape this module. Fresh pages are expensive: a kernel that writes its result into memory the
//! operating system has just mapped runs several times slower than into memory used a moment ago, and a
//! training step allocates the same sizes again and again. So freed blocks of some size are kept, up to a
//! bound, and handed out again. And sizes come from graphs that anyone may send, so all live blocks count
//! against one limit; beyond it an allocation is an error, not an abort.
//!
//! Every block is initialised memory: zeroed when it is new, holding old values when it is recycled. Large blocks are mapped
//! (`pages`): their zeros cost nothing, and pages nobody writes to, such as those a size was rounded up by, take no memory.

mod pages;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

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

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static LIMIT_BYTES: AtomicUsize = AtomicUsize::new(0);
static FREED: Mutex<FreeLists> =
    Mutex::new(FreeLists { kept_bytes: 0, classes: [const { Vec::new() }; CLASSES] });

/// Sets how many bytes all live tensors of this process may hold together. The default is four fifths of
/// the machine's memory.
pub fn set_limit_bytes(limit: usize) {
    LIMIT_BYTES.store(limit.max(1), Relaxed);
}

/// The limit in force.
pub fn limit_bytes() -> usize {
    match LIMIT_BYTES.load(Relaxed) {
        0 => {
            let limit = machine_bytes().map_or(8 << 30, |bytes| bytes / 5 * 4);
            LIMIT_BYTES.store(limit, Relaxed);
            limit
        }
        limit => limit,
    }
}

/// Whether `bytes` more would fit below the limit, for what holds tensors and is big by itself.
pub fn check_fits(bytes: usize) -> Result<()> {
    Reservation::new(bytes).map(drop)
}

/// Bytes held by live tensors now (small ones, which live inside their header, not counted).
pub fn live_bytes() -> usize {
    LIVE_BYTES.load(Relaxed)
}

fn machine_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// An owned, aligned, initialised block of bytes.
pub(crate) struct Block {
    start: NonNull<u8>,
    /// Counts what was allocated, which is at least what was asked for.
    reservation: Reservation,
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

    /// A recycled or a fresh block, and whether it is known to be zero.
    fn obtain(len: usize) -> Result<(Block, bool)> {
        if len < RECYCLE_FROM {
            return Ok((Block::fresh(len.max(1))?, true));
        }
        let (class, capacity) = size_class(len).ok_or_else(|| exhausted(len))?;
        let reservation = Reservation::new(capacity)?;
        match FREED.lock().take(class, capacity) {
            Some(start) => Ok((Block { start, reservation }, false)),
            None => Ok((Block::allocate(reservation)?, true)),
        }
    }

    fn fresh(capacity: usize) -> Result<Block> {
        Block::allocate(Reservation::new(capacity)?)
    }

    fn allocate(reservation: Reservation) -> Result<Block> {
        let capacity = reservation.0;
        if capacity >= MAP_FROM {
            let start = pages::map(capacity).ok_or_else(|| exhausted(capacity))?;
            return Ok(Block { start, reservation });
        }
        let layout = layout(capacity).ok_or_else(|| exhausted(capacity))?;
        // SAFETY: the layout's size is not zero (`len.max(1)`, or a size class).
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| exhausted(capacity))?;
        Ok(Block { start, reservation })
    }

    /// All bytes of the block: at least as many as were asked for.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the block owns the allocation at `start`, which has as many bytes as were reserved, all initialised
        // (zeroed when it was new); nobody writes them while `self` is borrowed, since that takes `&mut self`. `start` is
        // the allocator's own pointer, so borrows of the block, which holds only the address, do not invalidate it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.reservation.0) }
    }

    /// All bytes of the block, for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block owns the allocation at `start`, which has as many bytes as were reserved, all initialised
        // (zeroed when it was new), and nobody else reaches them while `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.reservation.0) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let capacity = self.reservation.0;
        if capacity >= RECYCLE_FROM && FREED.lock().keep(self.start, capacity) {
            return;
        }
        free(self.start, capacity);
    }
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

/// Bytes counted against the limit as long as this lives.
pub(crate) struct Reservation(usize);

impl Reservation {
    pub(crate) fn new(bytes: usize) -> Result<Reservation> {
        let live = LIVE_BYTES.fetch_add(bytes, Relaxed);
        if live.checked_add(bytes).is_none_or(|total| total > limit_bytes()) {
            LIVE_BYTES.fetch_sub(bytes, Relaxed);
            return Err(exhausted(bytes));
        }
        Ok(Reservation(bytes))
    }
}

impl Reservation {
    /// Counts nothing.
    pub(crate) fn none() -> Reservation {
        Reservation(0)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        LIVE_BYTES.fetch_sub(self.0, Relaxed);
    }
}

#[cold]
fn exhausted(bytes: usize) -> Status {
    Status::resource_exhausted(format!(
        "OOM when allocating {bytes} bytes for a tensor: {} bytes are in use and the limit is {} bytes",
        live_bytes(),
        limit_bytes()
    ))
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

struct FreedBlock(NonNull<u8>);
// SAFETY: it owns unused memory, which the allocator lets any thread use and free; whoever takes it out owns it.
unsafe impl Send for FreedBlock {}

impl FreeLists {
    fn take(&mut self, class: usize, capacity: usize) -> Option<NonNull<u8>> {
        let FreedBlock(start) = self.classes.get_mut(class)?.pop()?;
        self.kept_bytes -= capacity;
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
        self.classes[class].push(FreedBlock(start));
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
