//! [`LocalStream`]: a Unix socket that wakes its two ends no more often than it must.
//!
//! Waking a thread takes about as long as copying a hundred kilobytes, so between processes of one machine the number
//! of wake-ups decides. Two things would make needless ones. A Unix socket tells its writer each time that the reader
//! has made room; so this one asks only to be told of bytes that arrive, and for room only when there is none. And what
//! is written in small pieces would wake the reader for each; so small pieces are kept until there is a big one, or
//! until they are flushed.

use std::io::{self, IoSlice, Write};
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use smallvec::SmallVec;
use socket2::SockRef;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, ReadBuf};

/// How much may be on its way: the tensors of a small model, or as much as the system allows.
const BUFFER_BYTES: usize = 1 << 20;
/// What is written in pieces is kept up to this size.
const HELD_BYTES: usize = 16 << 10;

/// A connected Unix socket.
#[derive(Debug)]
pub(crate) struct LocalStream {
    /// Registered for bytes that arrive, not for room.
    socket: AsyncFd<UnixStream>,
    outgoing: Mutex<Outgoing>,
}

#[derive(Debug, Default)]
struct Outgoing {
    held: Vec<u8>,
    /// The same socket, registered for room while there is none.
    room: Option<AsyncFd<UnixStream>>,
}

impl LocalStream {
    /// Takes a socket that does not block.
    pub(crate) fn new(socket: UnixStream) -> io::Result<LocalStream> {
        let _ = SockRef::from(&socket).set_send_buffer_size(BUFFER_BYTES);
        let socket = registered(socket, Interest::READABLE)?;
        Ok(LocalStream { socket, outgoing: Mutex::default() })
    }

    /// Reads what has arrived.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            // SAFETY: whoever has these bytes must not make initialised ones uninitialised. They go to `recv` alone, which
            // lets the system write what has arrived and leaves the others as they are.
            let free = unsafe { buf.unfilled_mut() };
            let wanted = free.len();
            match SockRef::from(self.socket.get_ref()).recv(free) {
                Ok(count) => {
                    // All that there was: bytes that arrive from now on are announced.
                    if count > 0 && count < wanted {
                        ready.clear_ready();
                    }
                    // SAFETY: `recv` has returned how many bytes the system has written, from the first free one on.
                    unsafe { buf.assume_init(count) };
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Writes some of `slices`, or keeps them.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let outgoing = &mut *self.outgoing.lock();
        let more: usize = slices.iter().map(|slice| slice.len()).sum();
        if outgoing.held.len() + more <= HELD_BYTES {
            slices.iter().for_each(|slice| outgoing.held.extend_from_slice(slice));
            return Poll::Ready(Ok(more));
        }
        loop {
            let held = outgoing.held.len();
            let count = ready!(self.write_once(cx, outgoing, slices))?;
            match count.checked_sub(held) {
                None | Some(0) if count > 0 => drop(outgoing.held.drain(..count)),
                taken => {
                    outgoing.held.clear();
                    return Poll::Ready(Ok(taken.unwrap_or(0)));
                }
            }
        }
    }

    /// Writes what has been kept.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outgoing = &mut *self.outgoing.lock();
        while !outgoing.held.is_empty() {
            let count = ready!(self.write_once(cx, outgoing, &[]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            drop(outgoing.held.drain(..count));
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what has been kept, and says that nothing follows.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Poll::Ready(self.socket.get_ref().shutdown(std::net::Shutdown::Write))
    }

    /// Writes some of what has been kept and what follows it, as soon as there is room.
    fn write_once(
        &self,
        cx: &mut Context<'_>,
        outgoing: &mut Outgoing,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut socket = self.socket.get_ref();
        loop {
            if let Some(room) = &outgoing.room {
                drop(ready!(room.poll_write_ready(cx))?);
                outgoing.room = None;
            }
            let mut all: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
            all.push(IoSlice::new(&outgoing.held));
            all.extend_from_slice(slices);
            match socket.write_vectored(&all) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    outgoing.room = Some(registered(socket.try_clone()?, Interest::WRITABLE)?);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// A socket about which the runtime tells.
fn registered(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: the descriptor must stay open, and be the same, while it is registered. It is that of `socket`, which
    // `AsyncFd` takes over and closes only after it has deregistered it; nothing takes it out or replaces it.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Read;

    use super::*;

    fn pair() -> (LocalStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (LocalStream::new(ours).unwrap(), theirs)
    }

    #[tokio::test]
    async fn small_pieces_leave_together_when_they_are_flushed() {
        let (stream, mut peer) = pair();
        peer.set_nonblocking(true).unwrap();
        for piece in [&b"one "[..], b"two ", b"three"] {
            let count = poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(piece)])).await.unwrap();
            assert_eq!(count, piece.len());
        }
        let mut bytes = [0; 100];
        assert_eq!(peer.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        poll_fn(|cx| stream.poll_flush(cx)).await.unwrap();
        let count = peer.read(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"one two three");
    }

    #[tokio::test]
    async fn more_than_fits_arrives_in_order_and_so_does_the_answer() {
        let (stream, mut peer) = pair();
        let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        let expected = sent.clone();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            peer.write_all(&all).unwrap();
            all
        });
        let mut rest = &sent[..];
        // Pieces of all sizes, small ones before and after big ones.
        for size in [1, 100, 200_000, 5, 16 << 10, 1_000_000].into_iter().cycle() {
            let mut piece = &rest[..size.min(rest.len())];
            rest = &rest[piece.len()..];
            while !piece.is_empty() {
                let (head, tail) = piece.split_at(piece.len() / 2);
                let slices = [IoSlice::new(head), IoSlice::new(tail)];
                let count = poll_fn(|cx| stream.poll_write(cx, &slices)).await.unwrap();
                piece = &piece[count..];
            }
            if rest.is_empty() {
                break;
            }
        }
        poll_fn(|cx| stream.poll_shutdown(cx)).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let mut chunk = Vec::with_capacity(100_000);
            let mut buf = ReadBuf::uninit(chunk.spare_capacity_mut());
            poll_fn(|cx| stream.poll_read(cx, &mut buf)).await.unwrap();
            if buf.filled().is_empty() {
                break;
            }
            answer.extend_from_slice(buf.filled());
        }
        assert!(reader.join().unwrap() == expected && answer == expected);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_an_error() {
        let (stream, peer) = pair();
        drop(peer);
        let big = vec![0; 100_000];
        assert!(poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(&big)])).await.is_err());
        assert_eq!(poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(b"x")])).await.unwrap(), 1);
        assert!(poll_fn(|cx| stream.poll_flush(cx)).await.is_err());
    }
}
