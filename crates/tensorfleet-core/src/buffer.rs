//! [`Buffer`]: the reference-counted bytes behind a tensor.
//!
//! A buffer is a view into storage that several buffers may share. Storage is one of three: a few bytes
//! inside the header itself (scalars cost one allocation), an aligned [`Block`], or bytes that arrived from
//! the network and stay where they are. Only storage with a single owner can be written.

use std::ptr::NonNull;
use std::sync::Arc;

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
    /// Start of this view. Points into `storage`, which never moves while the `Arc` lives.
    start: NonNull<u8>,
    len: usize,
}

enum Storage {
    Inline(InlineBytes),
    Block(#[expect(dead_code, reason = "owns the memory")] Block),
    Foreign(Bytes),
}

/// Aligned for every element type, but no more: wider alignment would make the allocator take its slow path, which
/// costs more than a scalar op.
#[repr(align(16))]
struct InlineBytes([u8; INLINE_BYTES]);

// SAFETY: `start` points into `storage`, which is Send and Sync; writes need unique ownership of `storage`.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes of unspecified, but initialised, content.
    pub fn new(len: usize) -> Result<Buffer> {
        if len <= INLINE_BYTES { Ok(Buffer::inline(len)) } else { Ok(Buffer::block(Block::new(len)?, len)) }
    }

    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Result<Buffer> {
        if len <= INLINE_BYTES {
            Ok(Buffer::inline(len))
        } else {
            Ok(Buffer::block(Block::zeroed(len)?, len))
        }
    }

    /// Shares `bytes` without copying.
    pub fn from_foreign(bytes: Bytes) -> Buffer {
        let start = NonNull::from(&*bytes).cast();
        let len = bytes.len();
        Buffer { storage: Arc::new(Storage::Foreign(bytes)), start, len }
    }

    fn inline(len: usize) -> Buffer {
        let mut storage = Arc::new(Storage::Inline(InlineBytes([0; INLINE_BYTES])));
        let start = match Arc::get_mut(&mut storage) {
            Some(Storage::Inline(InlineBytes(bytes))) => NonNull::from(bytes).cast(),
            _ => unreachable!("the storage was made inline one line above and has one owner"),
        };
        Buffer { storage, start, len }
    }

    fn block(block: Block, len: usize) -> Buffer {
        let start = block.start();
        Buffer { storage: Arc::new(Storage::Block(block)), start, len }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: `start..start+len` lies inside `storage`, is initialised, and nobody writes it while this
        // borrow lives: writing needs `&mut` on the only buffer that owns the storage.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// A view of `len` bytes from `offset`, sharing the storage; `None` if it does not lie inside.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Buffer> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: `offset <= self.len`, so the address stays inside (or one past) the same allocation.
        let start = unsafe { self.start.add(offset) };
        Some(Buffer { storage: self.storage.clone(), start, len })
    }

    /// Whether this is the only owner of writable storage.
    pub fn is_unique(&mut self) -> bool {
        match Arc::get_mut(&mut self.storage) {
            Some(Storage::Inline(_) | Storage::Block(_)) => true,
            // Whoever made the bytes may still hold them.
            Some(Storage::Foreign(bytes)) => bytes.is_empty(),
            None => false,
        }
    }

    /// The bytes for writing, if this is the only owner.
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.is_unique() {
            return None;
        }
        // SAFETY: the storage is owned by this buffer alone (checked above, and `&mut self` keeps it so),
        // writable (not foreign), and the range lies inside it.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }

    /// Whether the data is aligned for elements of `alignment` bytes.
    pub(crate) fn is_aligned_to(&self, alignment: usize) -> bool {
        self.start.as_ptr().addr().is_multiple_of(alignment)
    }

    /// The data as elements.
    ///
    /// The caller ([`crate::Tensor`]) has checked at construction that length, alignment and content fit `T`.
    pub(crate) fn as_elements<T: Element>(&self) -> &[T] {
        debug_assert!(self.is_aligned_to(align_of::<T>()) && self.len.is_multiple_of(size_of::<T>()));
        // SAFETY: alignment and length are an invariant of tensors; `Element` promises that any content a
        // tensor of that dtype holds is valid.
        unsafe { std::slice::from_raw_parts(self.start.cast::<T>().as_ptr(), self.len / size_of::<T>()) }
    }

    /// The data as elements for writing, if this is the only owner.
    pub(crate) fn as_elements_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let bytes = self.as_bytes_mut()?;
        debug_assert!(bytes.as_ptr().addr().is_multiple_of(align_of::<T>()));
        // SAFETY: as in `as_elements`, and the access is exclusive.
        Some(unsafe {
            std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<T>(), bytes.len() / size_of::<T>())
        })
    }
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

    #[test]
    fn slices_stay_inside() {
        let buffer = Buffer::zeroed(10).unwrap();
        assert_eq!(buffer.slice(4, 6).unwrap().len(), 6);
        assert!(buffer.slice(4, 7).is_none());
        assert!(buffer.slice(usize::MAX, 2).is_none());
    }
}
