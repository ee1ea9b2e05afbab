//! [`Incoming`]: a received message in one buffer, its big payload aligned; and the reader that fills it.
//!
//! gRPC announces a message's length before its first byte. The answer of a server that we called is believed: its buffer
//! is allocated once, and frames are copied into it as they arrive, which is one copy between socket buffer and tensor. A
//! request of a stranger is not: announcing costs nothing. Its buffer has a few times the room of what has arrived, and
//! becomes a bigger one when that is full. In the normal case this is the same one copy: messages of up to 16 MiB from our
//! own clients, whose first frame has up to a mebibyte; and all that come again, as those of a training do, because a
//! buffer of the whole size lies ready then, freed by the one before. Otherwise some sixteenth of the message is copied
//! twice. Reserving the announced size as addresses, without memory, was the other way: under a limit on addresses it
//! would let a few bytes of traffic take all of them, and a page that is touched may be one of 2 MiB.
//!
//! The reader does no I/O; whoever has the stream pushes what arrives.

use bytes::Bytes;
use prost::Message;

use tensorfleet_core::memory::ALIGNMENT;
use tensorfleet_core::{Buffer, Result, Status, bail, ensure};

use crate::decoded_size::check_decoded_size;
use crate::frame::PREFIX_BYTES;
use crate::payload_scan::{Scan, find_payload};

/// How many bytes are set aside, waiting for the payload to begin, before its alignment is given up.
const HEAD_BYTES: usize = 16 << 10;

/// A request begins in this much memory, ...
const FIRST_BYTES: usize = 4 << 10;
/// ... then has this many times what has arrived of it, ...
const GROWTH: usize = 4;
/// ... and when so much has, ...
const PROVEN_BYTES: usize = 256 << 10;
/// ... this many times.
const PROVEN_GROWTH: usize = 16;

/// A received message.
pub struct Incoming {
    buffer: Buffer,
    /// Where in the buffer the message begins; the bytes before are padding.
    start: usize,
}

impl Incoming {
    /// A message from bytes in memory, placed as if it had been received.
    pub fn from_bytes(message: &[u8], align: &[u32]) -> Result<Incoming> {
        let mut destination =
            Destination::new(message, message.len(), align, Trust::Announced, &mut |_| Ok(()))?;
        destination.write(message, &mut |_| Ok(()))?;
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
        check_decoded_size(self.as_bytes())?;
        M::decode(self.to_bytes())
            .map_err(|error| Status::invalid_argument(format!("a message that cannot be read: {error}")))
    }

    /// Decodes the message into memory of its own: what is kept of it does not keep this buffer.
    pub fn decode_apart<M: Message + Default>(&self) -> Result<M> {
        M::decode(self.as_bytes())
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

/// How much memory a message is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// As much as it has announced.
    Announced,
    /// In proportion to what has arrived.
    Arrived,
}

/// What a message needs; whoever counts may refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It has announced this length.
    Announced(usize),
    /// It is about to take this much memory in all.
    Memory(usize),
}

/// Asked before a message takes memory.
type Admit<'a> = dyn FnMut(Need) -> Result<()> + 'a;

/// Puts a message together from the chunks in which it arrives.
pub(crate) struct MessageReader {
    max_bytes: usize,
    align: &'static [u32],
    trust: Trust,
    state: State,
}

enum State {
    /// The prefix, and what arrived of the message while its payload had not begun.
    Head(Vec<u8>),
    Body(Destination),
}

impl MessageReader {
    /// A reader of one message of up to `max_bytes`, whose payload at the field path `align` is to be aligned.
    pub(crate) fn new(max_bytes: usize, align: &'static [u32], trust: Trust) -> MessageReader {
        MessageReader { max_bytes, align, trust, state: State::Head(Vec::new()) }
    }

    /// Takes the next bytes of a stream with one message. What the message needs is passed to `admit`, which may refuse it,
    /// before memory is allocated.
    pub(crate) fn push(&mut self, chunk: &[u8], admit: impl FnMut(Need) -> Result<()>) -> Result<()> {
        let taken = self.push_some(chunk, admit)?;
        ensure!(taken == chunk.len(), Internal, "a stream has more bytes than the message it announced");
        Ok(())
    }

    /// Takes the next bytes of a stream of messages, up to the end of one, and says how many it took.
    pub(crate) fn push_some(
        &mut self,
        chunk: &[u8],
        mut admit: impl FnMut(Need) -> Result<()>,
    ) -> Result<usize> {
        let head = match &mut self.state {
            State::Body(destination) => {
                let taken = chunk.len().min(destination.missing());
                destination.write(&chunk[..taken], &mut admit)?;
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
        let Some(destination) = begin(arrived, self.max_bytes, self.align, self.trust, &mut admit)? else {
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
        let reader = MessageReader::new(self.max_bytes, self.align, self.trust);
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
    trust: Trust,
    admit: &mut Admit<'_>,
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
    admit(Need::Announced(len))?;
    let mut destination = Destination::new(message, len, align, trust, admit)?;
    destination.write(message, admit)?;
    Ok(Some(destination))
}

/// The buffer of a message and how much of it is filled.
struct Destination {
    buffer: Buffer,
    start: usize,
    filled: usize,
    /// Where the message ends. The buffer may be shorter until then.
    end: usize,
}

impl Destination {
    fn new(
        head: &[u8],
        len: usize,
        align: &[u32],
        trust: Trust,
        admit: &mut Admit<'_>,
    ) -> Result<Destination> {
        let start = match find_payload(head, len, align) {
            Scan::Begins(offset) => offset.next_multiple_of(ALIGNMENT) - offset,
            Scan::Nothing | Scan::MoreBytes => 0,
        };
        let end = start + len;
        let ready = if trust == Trust::Arrived { Buffer::recycled(end) } else { None };
        let size = if trust == Trust::Announced || ready.is_some() { end } else { room(head.len(), end) };
        admit(Need::Memory(size))?;
        let buffer = ready.map_or_else(|| Buffer::new(size), Ok)?;
        Ok(Destination { buffer, start, filled: start, end })
    }

    fn write(&mut self, chunk: &[u8], admit: &mut Admit<'_>) -> Result<()> {
        let end = self.filled + chunk.len();
        if self.buffer.len() < self.end {
            self.make_room(end, admit)?;
        }
        let Some(room) = self.buffer.as_bytes_mut().and_then(|bytes| bytes.get_mut(self.filled..end)) else {
            bail!(Internal, "a stream has more bytes than the message it announced");
        };
        room.copy_from_slice(chunk);
        self.filled = end;
        Ok(())
    }

    /// Moves into a bigger buffer if this one is too small for what comes up to `end`, or if so much has come that the whole
    /// message may have its memory: moving later would only be more to copy.
    fn make_room(&mut self, end: usize, admit: &mut Admit<'_>) -> Result<()> {
        let size = room(end - self.start, self.end);
        if end <= self.buffer.len() && size < self.end {
            return Ok(());
        }
        admit(Need::Memory(size))?;
        let mut bigger = Buffer::new(size)?;
        let filled = self.buffer.as_bytes().get(..self.filled);
        let Some((to, from)) =
            bigger.as_bytes_mut().and_then(|bytes| bytes.get_mut(..self.filled)).zip(filled)
        else {
            bail!(Internal, "the buffer of a message lost its place");
        };
        to.copy_from_slice(from);
        self.buffer = bigger;
        Ok(())
    }

    fn missing(&self) -> usize {
        self.end - self.filled
    }

    fn finish(self) -> Result<Incoming> {
        ensure!(
            self.missing() == 0,
            Internal,
            "the stream ended {} bytes before the end of a message of {} bytes",
            self.missing(),
            self.end - self.start
        );
        Ok(Incoming { buffer: self.buffer, start: self.start })
    }
}

/// How much memory a message has of which `arrived` bytes have arrived, and which needs `whole` in the end.
fn room(arrived: usize, whole: usize) -> usize {
    let growth = if arrived < PROVEN_BYTES { GROWTH } else { PROVEN_GROWTH };
    arrived.saturating_mul(growth).max(FIRST_BYTES).min(whole)
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
        read_trusting(Trust::Arrived, wire, chunk, align)
    }

    fn read_trusting(trust: Trust, wire: &[u8], chunk: usize, align: &'static [u32]) -> Result<Incoming> {
        let mut reader = MessageReader::new(64 << 20, align, trust);
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
            let trusts = [Trust::Arrived, Trust::Announced].into_iter().cycle();
            for (chunk, trust) in [1, 2, 7, 31, 100, wire.len()].into_iter().zip(trusts) {
                let incoming = read_trusting(trust, &wire, chunk, &[1, 4]).unwrap();
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
            let mut reader = MessageReader::new(1 << 20, &[1, 4], Trust::Announced);
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
    fn a_message_takes_memory_as_it_arrives_and_is_whole_in_the_end() {
        let content: Vec<u8> = (0..9_000_000u32).map(|number| (number / 3) as u8).collect();
        let tensor = Tensor::from_slice(&content, &[content.len()]).unwrap();
        let wire = wire(tensors::recv_tensor_response(&Some(tensor.clone()), 99));
        for chunk in [10_000, 16 << 10, 1 << 20] {
            let mut reader = MessageReader::new(64 << 20, &[1, 4], Trust::Arrived);
            let (mut arrived, mut copied, mut held) = (0, 0, 0);
            for piece in wire.chunks(chunk) {
                let before = arrived;
                arrived += piece.len();
                let admit = |need| {
                    if let Need::Memory(bytes) = need {
                        let lies_ready = bytes >= content.len() && before == 0;
                        assert!(bytes <= (arrived * PROVEN_GROWTH).max(FIRST_BYTES) || lies_ready);
                        copied += if held == 0 { 0 } else { before };
                        held = bytes;
                    }
                    Ok(())
                };
                reader.push(piece, admit).unwrap();
            }
            assert!(copied <= content.len() / 4, "{copied} bytes were copied twice");
            let message: RecvTensorResponse = reader.finish().unwrap().decode().unwrap();
            let proto = message.tensor.unwrap();
            assert!(proto.tensor_content.as_ptr().addr().is_multiple_of(ALIGNMENT));
            assert_eq!(Tensor::from_proto(&proto).unwrap(), tensor);
        }
    }

    #[test]
    fn a_message_that_only_announces_takes_next_to_nothing() {
        let mut reader = MessageReader::new(1 << 30, &[], Trust::Arrived);
        let mut needs = Vec::new();
        let mut wire = vec![0, 0x3f, 0, 0, 0];
        wire.extend([7; 100]);
        let admit = |need| {
            needs.push(need);
            Ok(())
        };
        reader.push(&wire, admit).unwrap();
        assert_eq!(needs, [Need::Announced(0x3f00_0000), Need::Memory(FIRST_BYTES)]);
    }

    #[test]
    fn wrong_lengths_and_flags_are_errors() {
        let code = |wire: &[u8]| read(wire, 3, &[]).map(|_| ()).unwrap_err().code();
        assert_eq!(code(&[0, 0, 0, 0, 3, 1, 2]), Code::Internal);
        assert_eq!(code(&[0, 0, 0, 0, 1, 1, 2]), Code::Internal);
        assert_eq!(code(&[0, 0, 0]), Code::Internal);
        assert_eq!(code(&[1, 0, 0, 0, 1, 1]), Code::Unimplemented);
        assert_eq!(
            code(&[0, 0x7f, 0xff, 0xff, 0xff, 1]),
            Code::ResourceExhausted,
            "beyond the limit of the method"
        );
        assert!(read(&[0; 5], 1, &[1, 4]).unwrap().is_empty());
    }
}
