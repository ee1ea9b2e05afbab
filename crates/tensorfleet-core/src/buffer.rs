//! [`Buffer`]: the reference-counted bytes behind a tensor.
//!
//! A buffer is a view into storage that several buffers may share. Storage is one of four: a few bytes
//! inside the header itself (scalars cost one allocation), an aligned [`Block`], bytes that arrived from
//! the network and stay where they are, or a program's own memory, borrowed for a run. Only storage with a single owner can be written.
//!
//! A view is an offset and a length, not an address: every access goes through the storage and gets its pointer from
//! the very borrow that allows it ([`Storage::bytes`] from `&Storage`, [`Storage::bytes_mut`] from the `&mut Storage`
//! that [`Arc::get_mut`] grants). No pointer outlives the borrow it came from, so there is none that a later
//! `&mut Storage` could invalidate, be it under Stacked or under Tree Borrows, and this file needs `unsafe` only where
//! bytes become elements. The price is one predictable branch on the kind of storage, in a line of memory that the
//! access (inline) or the reference count (all others) touches anyway.

use std::sync::{Arc, Weak};

use bytes::Bytes;

use crate::dtype::Element;
use crate::memory::Block;
use crate::status::Result;

/// Data up to this size lives beside the reference count.
const INLINE_BYTES: usize = 64;

/// Reference-counted bytes; cloning shares them.
#[derive(Clone)]
pub struct Buffer {
    storage: Arc<Storage>,
    /// Where this view starts in the bytes of `storage`. Invariant: `offset + len` does not lie beyond them.
    offset: usize,
    len: usize,
}

/// A [`Buffer`] that keeps nothing alive. While there is one, nobody is the only owner of the bytes.
#[derive(Clone)]
pub struct WeakBuffer {
    storage: Weak<Storage>,
    offset: usize,
    len: usize,
}

impl WeakBuffer {
    /// The buffer, if somebody still has it.
    pub fn upgrade(&self) -> Option<Buffer> {
        Some(Buffer { storage: self.storage.upgrade()?, offset: self.offset, len: self.len })
    }

    /// Whether somebody still has it.
    pub fn is_used(&self) -> bool {
        self.storage.strong_count() > 0
    }
}

enum Storage {
    Inline(InlineBytes),
    Block(Block),
    Foreign(Bytes),
    /// Memory of a program that may write to it again when the run that reads it has ended.
    Borrowed(Bytes),
}

/// Aligned for every element type, but no more: wider alignment would make the allocator take its slow path, which
/// costs more than a scalar op.
#[repr(align(16))]
struct InlineBytes([u8; INLINE_BYTES]);

impl Storage {
    fn inline() -> Storage {
        Storage::Inline(InlineBytes([0; INLINE_BYTES]))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Inline(InlineBytes(bytes)) => bytes,
            Storage::Block(block) => block.bytes(),
            Storage::Foreign(bytes) | Storage::Borrowed(bytes) => bytes,
        }
    }

    /// The bytes for writing; `None` for foreign ones, since whoever made them may still hold them.
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Storage::Inline(InlineBytes(bytes)) => Some(bytes),
            Storage::Block(block) => Some(block.bytes_mut()),
            // Nobody sees a change of no bytes.
            Storage::Foreign(bytes) | Storage::Borrowed(bytes) => bytes.is_empty().then_some(&mut []),
        }
    }
}

impl Buffer {
    /// `len` bytes of unspecified, but initialised, content.
    pub fn new(len: usize) -> Result<Buffer> {
        let storage = if len <= INLINE_BYTES { Storage::inline() } else { Storage::Block(Block::new(len)?) };
        Ok(Buffer { storage: Arc::new(storage), offset: 0, len })
    }

    /// `len` bytes of a block that lies ready, with unspecified content; `None` if there is none. Takes no new memory from
    /// the system.
    pub fn recycled(len: usize) -> Option<Buffer> {
        let storage = Storage::Block(Block::recycled(len)?);
        Some(Buffer { storage: Arc::new(storage), offset: 0, len })
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Result<Buffer> {
        let storage =
            if len <= INLINE_BYTES { Storage::inline() } else { Storage::Block(Block::zeroed(len)?) };
        Ok(Buffer { storage: Arc::new(storage), offset: 0, len })
    }

    /// Shares `bytes` without copying.
    pub fn from_foreign(bytes: Bytes) -> Buffer {
        let len = bytes.len();
        Buffer { storage: Arc::new(Storage::Foreign(bytes)), offset: 0, len }
    }

    /// Reads `bytes` without copying while a run lasts; whoever keeps them longer takes a copy
    /// ([`Tensor::kept`](crate::Tensor::kept)).
    pub fn borrowed(bytes: Bytes) -> Buffer {
        let len = bytes.len();
        Buffer { storage: Arc::new(Storage::Borrowed(bytes)), offset: 0, len }
    }

    /// Whether the bytes may change when the run that reads them has ended.
    pub fn is_borrowed(&self) -> bool {
        matches!(&*self.storage, Storage::Borrowed(_))
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// What the buffer takes besides bytes that are charged to the account.
    pub(crate) fn header_bytes(&self) -> usize {
        2 * size_of::<usize>() + size_of::<Storage>()
    }

    /// The bytes as a value that shares them. Bytes that came as such leave as such: they are not wrapped again each time a value
    /// goes through a message, since what is wrapped a hundred thousand times cannot be dropped.
    pub fn to_shared_bytes(&self) -> Bytes {
        match &*self.storage {
            Storage::Foreign(bytes) | Storage::Borrowed(bytes) => {
                bytes.slice(self.offset..self.offset + self.len)
            }
            _ => Bytes::from_owner(self.clone()),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.storage.bytes()[self.offset..][..self.len]
    }

    /// A view of `len` bytes from `offset`, sharing the storage; `None` if it does not lie inside.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Buffer> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        Some(Buffer { storage: self.storage.clone(), offset: self.offset + offset, len })
    }

    /// The same view, without a share in the bytes.
    pub fn downgrade(&self) -> WeakBuffer {
        WeakBuffer { storage: Arc::downgrade(&self.storage), offset: self.offset, len: self.len }
    }

    /// Whether this is the only owner of writable storage.
    #[inline]
    pub fn is_unique(&mut self) -> bool {
        self.as_bytes_mut().is_some()
    }

    /// The bytes for writing, if this is the only owner.
    #[inline]
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let bytes = Arc::get_mut(&mut self.storage)?.bytes_mut()?;
        Some(&mut bytes[self.offset..][..self.len])
    }

    /// Whether the data is aligned for elements of `alignment` bytes.
    pub(crate) fn is_aligned_to(&self, alignment: usize) -> bool {
        self.as_bytes().as_ptr().addr().is_multiple_of(alignment)
    }

    /// The data as elements.
    ///
    /// # Safety
    /// Every `size_of::<T>()` bytes of the data are a valid `T`. (All bit patterns of a number are; a `bool` is 0 or 1.)
    ///
    /// # Panics
    /// If the data is not aligned for `T`, or its length is no multiple of `T`'s: both are an invariant of tensors.
    #[inline]
    pub(crate) unsafe fn as_elements<T: Element>(&self) -> &[T] {
        let bytes = self.as_bytes();
        check_layout::<T>(bytes);
        // SAFETY: the pointer comes from a borrow of these bytes that lives as long as the result, is aligned for `T`,
        // and the count times the size is exactly their length (`check_layout`); the bytes are initialised, and that
        // they are valid for `T` is what the caller promises.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>()) }
    }

    /// The data as elements for writing, if this is the only owner.
    ///
    /// # Safety
    /// Every `size_of::<T>()` bytes of the data are a valid `T`, and whoever reads the data as another type than `T`
    /// later takes what a `T` leaves there: any bytes, or 0 and 1 if `T` is `bool`.
    ///
    /// # Panics
    /// If the data is not aligned for `T`, or its length is no multiple of `T`'s: both are an invariant of tensors.
    #[inline]
    pub(crate) unsafe fn as_elements_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let bytes = self.as_bytes_mut()?;
        check_layout::<T>(bytes);
        // SAFETY: the pointer comes from the exclusive borrow of these bytes, which the result prolongs, is aligned for
        // `T`, and the count times the size is exactly their length (`check_layout`). Validity of the bytes as `T` is
        // what the caller promises; writing a `T` leaves initialised bytes, since an `Element` has no padding.
        Some(unsafe {
            std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<T>(), bytes.len() / size_of::<T>())
        })
    }
}

#[inline]
fn check_layout<T>(bytes: &[u8]) {
    assert!(
        bytes.as_ptr().cast::<T>().is_aligned() && bytes.len().is_multiple_of(size_of::<T>()),
        "the data of a tensor does not have the layout of its elements"
    );
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_owner_may_write() {
        for len in [8, 1000, 100_000] {
            let mut first = Buffer::zeroed(len).unwrap();
            first.as_bytes_mut().unwrap()[len - 1] = 9;
            let mut second = first.clone();
            assert!(first.as_bytes_mut().is_none() && second.as_bytes_mut().is_none());
            drop(first);
            second.as_bytes_mut().unwrap()[0] = 1;
            assert_eq!((second.as_bytes()[0], second.as_bytes()[len - 1]), (1, 9));
        }
    }

    #[test]
    fn foreign_bytes_are_shared_and_never_written() {
        let bytes = Bytes::from(vec![1u8; 100]);
        let mut buffer = Buffer::from_foreign(bytes.clone());
        assert_eq!(buffer.as_bytes().as_ptr(), bytes.as_ptr());
        assert!(buffer.as_bytes_mut().is_none());
    }

    /// A value that is sent and received over and over in one process stays one step away from its memory.
    #[test]
    fn bytes_that_go_round_in_circles_do_not_pile_up() {
        let buffer = Buffer::zeroed(1000).unwrap();
        let address = buffer.as_bytes().as_ptr();
        let mut bytes = buffer.to_shared_bytes();
        for _ in 0..300_000 {
            bytes = Buffer::from_foreign(bytes).slice(0, 1000).unwrap().to_shared_bytes();
        }
        drop(buffer);
        assert_eq!((bytes.as_ptr(), bytes.len()), (address, 1000));
    }

    #[test]
    fn a_view_writes_its_own_part_once_it_is_the_last() {
        for len in [8, 1000] {
            let whole = Buffer::zeroed(len).unwrap();
            let mut part = whole.slice(4, 4).unwrap().slice(1, 2).unwrap();
            assert!(!part.is_unique());
            drop(whole);
            // Twice, with a look in between: the second write must not rest on what the first one borrowed.
            part.as_bytes_mut().unwrap()[0] = 1;
            assert_eq!(part.as_bytes(), [1, 0]);
            assert!(part.is_unique());
            part.as_bytes_mut().unwrap()[1] = 2;
            assert_eq!(part.as_bytes(), [1, 2]);
        }
    }

    #[test]
    #[should_panic(expected = "layout")]
    fn bytes_that_are_not_aligned_are_no_elements() {
        let buffer = Buffer::zeroed(16).unwrap().slice(1, 8).unwrap();
        // SAFETY: all bits of a number are valid; that the bytes are not aligned for one is found before they are read.
        let _ = unsafe { buffer.as_elements::<f32>() };
    }

    #[test]
    fn a_recycled_buffer_is_one_that_was_freed() {
        // A size that no other test uses.
        const LEN: usize = 5_000_011;
        assert!(Buffer::recycled(LEN).is_none() && Buffer::recycled(0).is_none());
        drop(Buffer::new(LEN).unwrap());
        let mut buffer = Buffer::recycled(LEN).unwrap();
        assert_eq!(buffer.as_bytes_mut().unwrap().len(), LEN);
    }

    #[test]
    fn slices_stay_inside() {
        let buffer = Buffer::zeroed(10).unwrap();
        assert_eq!(buffer.slice(4, 6).unwrap().len(), 6);
        assert!(buffer.slice(4, 7).is_none());
        assert!(buffer.slice(usize::MAX, 2).is_none());
    }
}
