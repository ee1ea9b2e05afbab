//! [`Parts`]: an outgoing message as a list of byte slices, so that tensors are sent from where they are.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use smallvec::SmallVec;

use tensorfleet_core::{Result, ensure};

use crate::frame::{MAX_MESSAGE_BYTES, PREFIX_BYTES};

/// Slices up to this size are copied into their neighbour: a copy of 4 KiB costs less than one more frame.
const COPY_UP_TO: usize = 4 << 10;

/// A message to send: slices that follow one another, the first of which begins with gRPC's prefix.
#[derive(Clone)]
pub struct Parts {
    chunks: SmallVec<[Bytes; 2]>,
    len: usize,
}

impl Parts {
    /// A message encoded in one piece.
    pub fn from_message(message: &impl Message) -> Parts {
        let mut builder = PartsBuilder::with_capacity(message.encoded_len());
        builder.put_message(message);
        builder.finish()
    }

    /// The empty message.
    pub fn empty() -> Parts {
        PartsBuilder::with_capacity(0).finish()
    }

    /// Length of the message in bytes, without the prefix.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The message in one piece; copies it.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(PREFIX_BYTES + self.len);
        self.chunks.iter().for_each(|chunk| out.put_slice(chunk));
        out.freeze().slice(PREFIX_BYTES..)
    }

    /// The slices in order, prefix included, if the message may cross at all.
    pub(crate) fn into_chunks(self, method: &str) -> Result<SmallVec<[Bytes; 2]>> {
        ensure!(
            self.len <= MAX_MESSAGE_BYTES,
            ResourceExhausted,
            "a message of {} bytes for {method} is too long: gRPC peers accept up to {MAX_MESSAGE_BYTES} bytes; split the \
             tensor",
            self.len
        );
        Ok(self.chunks)
    }
}

/// Writes a message piece by piece; big pieces are kept by reference.
pub struct PartsBuilder {
    chunks: SmallVec<[Bytes; 2]>,
    /// Bytes of the message in `chunks`, prefix included.
    done_bytes: usize,
    open: BytesMut,
}

impl PartsBuilder {
    /// A builder with room for `capacity` bytes of small fields.
    pub fn with_capacity(capacity: usize) -> PartsBuilder {
        let mut open = BytesMut::with_capacity(PREFIX_BYTES + capacity);
        open.put_bytes(0, PREFIX_BYTES);
        PartsBuilder { chunks: SmallVec::new(), done_bytes: 0, open }
    }

    /// Appends the encoding of `message`. Encodings that follow one another are merged by the receiver.
    pub fn put_message(&mut self, message: &impl Message) {
        message.encode_raw(&mut self.open);
    }

    /// Where small fields are written.
    pub(crate) fn small(&mut self) -> &mut BytesMut {
        &mut self.open
    }

    /// Whether [`PartsBuilder::put_shared`] would copy a slice of `len` bytes.
    pub(crate) fn copies(len: usize) -> bool {
        len <= COPY_UP_TO
    }

    /// Appends bytes, by reference unless they are few.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if PartsBuilder::copies(bytes.len()) {
            self.open.put_slice(&bytes);
            return;
        }
        self.close_chunk();
        self.push(bytes);
    }

    fn close_chunk(&mut self) {
        if !self.open.is_empty() {
            let chunk = self.open.split().freeze();
            self.push(chunk);
        }
    }

    fn push(&mut self, chunk: Bytes) {
        self.done_bytes += chunk.len();
        self.chunks.push(chunk);
    }

    /// The message, with its length written into the prefix.
    pub fn finish(mut self) -> Parts {
        let len = self.done_bytes + self.open.len() - PREFIX_BYTES;
        // A length beyond 32 bits is refused by `into_chunks` before anything is sent.
        let prefix = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        if self.chunks.is_empty() {
            self.open[1..PREFIX_BYTES].copy_from_slice(&prefix);
            self.close_chunk();
            return Parts { chunks: self.chunks, len };
        }
        self.close_chunk();
        if let Some(first) = self.chunks.first_mut() {
            // The first chunk was just frozen and has one owner, so this does not copy.
            let mut bytes = BytesMut::from(std::mem::take(first));
            bytes[1..PREFIX_BYTES].copy_from_slice(&prefix);
            *first = bytes.freeze();
        }
        Parts { chunks: self.chunks, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_proto::tensorflow::CleanupGraphRequest;

    #[test]
    fn the_prefix_counts_all_parts() {
        let message = CleanupGraphRequest { step_id: 300 };
        let big = Bytes::from(vec![7u8; 100_000]);
        let mut builder = PartsBuilder::with_capacity(0);
        builder.put_message(&message);
        builder.put_shared(big.clone());
        builder.put_shared(Bytes::from_static(b"end"));
        let parts = builder.finish();
        assert_eq!(parts.len(), message.encoded_len() + 100_003);
        let chunks = parts.into_chunks("M").unwrap();
        assert_eq!(chunks.len(), 3);
        assert_eq!(chunks[0][..5], [0, 0, 1, 0x86, 0xa6]);
        assert_eq!(chunks[1].as_ptr(), big.as_ptr(), "big slices are not copied");
    }

    #[test]
    fn a_small_message_is_one_chunk() {
        let parts = Parts::from_message(&CleanupGraphRequest { step_id: 1 });
        assert_eq!(parts.to_bytes(), [8u8, 1][..]);
        assert_eq!(parts.into_chunks("M").unwrap()[0][..], [0, 0, 0, 0, 2, 8, 1]);
        assert!(Parts::empty().is_empty());
    }
}
