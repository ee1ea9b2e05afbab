//! [`Incoming`]: a received message in one buffer, its big payload aligned; and the reader that fills it.
//!
//! gRPC announces a message's length before its first byte, so the buffer is allocated once and frames are copied into
//! it as they arrive: one copy between socket buffer and tensor. The reader does no I/O; whoever has the stream pushes
//! what arrives.

use bytes::Bytes;
use prost::Message;

use tensorfleet_core::memory::ALIGNMENT;
use tensorfleet_core::{Buffer, Result, Status, bail, ensure};

use crate::frame::PREFIX_BYTES;
use crate::payload_scan::{Scan, find_payload};

/// How many bytes are set aside, waiting for the payload to begin, before its alignment is given up.
const HEAD_BYTES: usize = 16 << 10;

/// A received message.
pub struct Incoming {
    buffer: Buffer,
    /// Where in the buffer the message begins; the bytes before are padding.
    start: usize,
}

impl Incoming {
    /// A message from bytes in memory, placed as if it had been received.
    pub fn from_bytes(message: &[u8], align: &[u32]) -> Result<Incoming> {
        let mut destination = Destination::new(message, message.len(), align)?;
        destination.write(message)?;
        destination.finish()
    }

    /// The encoded message.
    pub fn as_bytes(&self) -> &[u8] {
        self.buffer.as_bytes().get(self.start..).unwrap_or_default()
    }

    /// Length of the message in bytes.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Decodes the message. Its `bytes` fields, tensor contents above all, share this buffer.
    pub fn decode<M: Message + Default>(&self) -> Result<M> {
        M::decode(self.to_bytes())
            .map_err(|error| Status::invalid_argument(format!("a message that cannot be read: {error}")))
    }

    /// The message as shared bytes.
    pub fn to_bytes(&self) -> Bytes {
        if self.is_empty() {
            Bytes::new()
        } else {
            Bytes::from_owner(self.buffer.clone()).slice(self.start..)
        }
    }

    /// The bytes from `offset`, as a view that shares the buffer.
    pub(crate) fn slice(&self, offset: usize, len: usize) -> Option<Buffer> {
        self.buffer.slice(self.start.checked_add(offset)?, len)
    }
}

/// Puts a message together from the chunks in which it arrives.
pub(crate) struct MessageReader {
    max_bytes: usize,
    align: &'static [u32],
    state: State,
}

enum State {
    /// The prefix, and what arrived of the message while its payload had not begun.
    Head(Vec<u8>),
    Body(Destination),
}

impl MessageReader {
    /// A reader of one message of up to `max_bytes`, whose payload at the field path `align` is to be aligned.
    pub(crate) fn new(max_bytes: usize, align: &'static [u32]) -> MessageReader {
        MessageReader { max_bytes, align, state: State::Head(Vec::new()) }
    }

    /// Takes the next bytes of a stream with one message. The length of the message is passed to `admit`, which may refuse
    /// it, before memory is allocated.
    pub(crate) fn push(&mut self, chunk: &[u8], admit: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let taken = self.push_some(chunk, admit)?;
        ensure!(taken == chunk.len(), Internal, "a stream has more bytes than the message it announced");
        Ok(())
    }

    /// Takes the next bytes of a stream of messages, up to the end of one, and says how many it took.
    pub(crate) fn push_some(
        &mut self,
        chunk: &[u8],
        mut admit: impl FnMut(usize) -> Result<()>,
    ) -> Result<usize> {
        let head = match &mut self.state {
            State::Body(destination) => {
                let taken = chunk.len().min(destination.missing());
                destination.write(&chunk[..taken])?;
                return Ok(taken);
            }
            State::Head(head) => head,
        };
        let set_aside = head.len();
        // The common case: the first chunk has all that is needed, and need not be set aside.
        let gathered;
        let arrived: &[u8] = if head.is_empty() {
            chunk
        } else {
            head.extend_from_slice(chunk);
            gathered = std::mem::take(head);
            &gathered
        };
        let Some(destination) = begin(arrived, self.max_bytes, self.align, &mut admit)? else {
            self.state = State::Head(arrived.to_vec());
            return Ok(chunk.len());
        };
        // What had been set aside was not a whole message, so that all of it was taken.
        let taken = PREFIX_BYTES + destination.filled - destination.start - set_aside;
        self.state = State::Body(destination);
        Ok(taken)
    }

    /// The message, if all of it has arrived; the next one may follow.
    pub(crate) fn take(&mut self) -> Option<Result<Incoming>> {
        let is_whole = matches!(&self.state, State::Body(destination) if destination.missing() == 0);
        if !is_whole {
            return None;
        }
        let reader = MessageReader::new(self.max_bytes, self.align);
        Some(std::mem::replace(self, reader).finish())
    }

    /// Whether nothing of a message has arrived.
    pub(crate) fn is_between_messages(&self) -> bool {
        matches!(&self.state, State::Head(head) if head.is_empty())
    }

    /// The message, after the stream's end.
    pub(crate) fn finish(self) -> Result<Incoming> {
        match self.state {
            State::Body(destination) => destination.finish(),
            State::Head(head) => {
                bail!(Internal, "the stream ended after {} bytes, before a message began", head.len())
            }
        }
    }
}

/// Makes the destination and writes what has arrived into it; `None` if more must arrive first.
fn begin(
    arrived: &[u8],
    max_bytes: usize,
    align: &[u32],
    admit: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Option<Destination>> {
    let Some((prefix, message)) = arrived.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let [flag, length @ ..] = *prefix;
    if flag != 0 {
        bail!(
            Unimplemented,
            "a message is compressed (flag {flag}), which is not supported: send it uncompressed"
        );
    }
    let len = u32::from_be_bytes(length) as usize;
    ensure!(
        len <= max_bytes,
        ResourceExhausted,
        "a message of {len} bytes is longer than the {max_bytes} bytes this method accepts"
    );
    let message = &message[..message.len().min(len)];
    if message.len() < HEAD_BYTES.min(len) && find_payload(message, len, align) == Scan::MoreBytes {
        return Ok(None);
    }
    admit(len)?;
    let mut destination = Destination::new(message, len, align)?;
    destination.write(message)?;
    Ok(Some(destination))
}

/// The buffer of a message and how much of it is filled.
struct Destination {
    buffer: Buffer,
    start: usize,
    filled: usize,
}

impl Destination {
    fn new(head: &[u8], len: usize, align: &[u32]) -> Result<Destination> {
        let start = match find_payload(head, len, align) {
            Scan::Begins(offset) => offset.next_multiple_of(ALIGNMENT) - offset,
            Scan::Nothing | Scan::MoreBytes => 0,
        };
        Ok(Destination { buffer: Buffer::new(len + start)?, start, filled: start })
    }

    fn write(&mut self, chunk: &[u8]) -> Result<()> {
        let end = self.filled + chunk.len();
        let Some(room) = self.buffer.as_bytes_mut().and_then(|bytes| bytes.get_mut(self.filled..end)) else {
            bail!(Internal, "a stream has more bytes than the message it announced");
        };
        room.copy_from_slice(chunk);
        self.filled = end;
        Ok(())
    }

    fn missing(&self) -> usize {
        self.buffer.len() - self.filled
    }

    fn finish(self) -> Result<Incoming> {
        ensure!(
            self.missing() == 0,
            Internal,
            "the stream ended {} bytes before the end of a message of {} bytes",
            self.missing(),
            self.buffer.len() - self.start
        );
        Ok(Incoming { buffer: self.buffer, start: self.start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors;
    use tensorfleet_core::{Code, Tensor};
    use tensorfleet_proto::tensorflow::RecvTensorResponse;

    fn wire(parts: crate::Parts) -> Vec<u8> {
        parts.into_chunks("M").unwrap().concat()
    }

    fn read(wire: &[u8], chunk: usize, align: &'static [u32]) -> Result<Incoming> {
        let mut reader = MessageReader::new(1 << 20, align);
        for piece in wire.chunks(chunk) {
            reader.push(piece, |_| Ok(()))?;
        }
        reader.finish()
    }

    #[test]
    fn however_a_message_is_cut_its_payload_is_aligned_and_shared() {
        for rank_one in 100..120 {
            let tensor = Tensor::from_slice(&vec![1.5f64; rank_one], &[rank_one]).unwrap();
            let wire = wire(tensors::recv_tensor_response(&Some(tensor.clone()), 99));
            for chunk in [1, 2, 7, 31, 100, wire.len()] {
                let incoming = read(&wire, chunk, &[1, 4]).unwrap();
                let message: RecvTensorResponse = incoming.decode().unwrap();
                let proto = message.tensor.unwrap();
                assert!(proto.tensor_content.as_ptr().addr().is_multiple_of(ALIGNMENT));
                let received = Tensor::from_proto(&proto).unwrap();
                assert_eq!(received, tensor);
                assert_eq!(received.as_bytes().unwrap().as_ptr(), proto.tensor_content.as_ptr());
            }
        }
    }

    #[test]
    fn messages_that_follow_one_another_are_told_apart_however_they_are_cut() {
        let tensors = [3usize, 0, 2000, 1].map(|len| Tensor::from_slice(&vec![1.5f32; len], &[len]).unwrap());
        let messages =
            tensors.each_ref().map(|tensor| tensors::recv_tensor_response(&Some(tensor.clone()), 99));
        let wire = messages.map(wire).concat();
        for size in [1, 2, 7, 31, 100, wire.len()] {
            let mut reader = MessageReader::new(1 << 20, &[1, 4]);
            let mut received = Vec::new();
            for mut piece in wire.chunks(size) {
                while !piece.is_empty() {
                    piece = &piece[reader.push_some(piece, |_| Ok(())).unwrap()..];
                    received.extend(reader.take().map(|message| message.unwrap().decode().unwrap()));
                }
            }
            assert!(reader.is_between_messages());
            let received: Vec<RecvTensorResponse> = received;
            let received =
                received.iter().map(|message| Tensor::from_proto(message.tensor.as_ref().unwrap()));
            assert_eq!(received.collect::<Result<Vec<_>>>().unwrap(), tensors);
        }
    }

    #[test]
    fn wrong_lengths_and_flags_are_errors() {
        let code = |wire: &[u8]| read(wire, 3, &[]).map(|_| ()).unwrap_err().code();
        assert_eq!(code(&[0, 0, 0, 0, 3, 1, 2]), Code::Internal);
        assert_eq!(code(&[0, 0, 0, 0, 1, 1, 2]), Code::Internal);
        assert_eq!(code(&[0, 0, 0]), Code::Internal);
        assert_eq!(code(&[1, 0, 0, 0, 1, 1]), Code::Unimplemented);
        assert_eq!(code(&[0, 0x7f, 0xff, 0xff, 0xff, 1]), Code::ResourceExhausted);
        assert!(read(&[0; 5], 1, &[1, 4]).unwrap().is_empty());
    }
}
