//! [`WatchedStream`]: a connection that tells what arrived first, when something arrived last, and how much went by.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tensorfleet_core::clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::transport::socket::Socket;

/// The head of an HTTP/2 frame; the first one of a server is SETTINGS on stream 0.
const FRAME_HEAD_BYTES: usize = 9;
const SETTINGS: u8 = 4;

/// Bytes that went by, of all connections of a channel.
#[derive(Default)]
pub(super) struct Traffic {
    pub(super) sent_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
}

/// What is known about one connection's incoming bytes.
pub(super) struct Arrivals {
    clock: Clock,
    opened: Instant,
    last_micros: AtomicU64,
    is_classified: AtomicBool,
    first: Mutex<Vec<u8>>,
    /// Told once, when enough has arrived to classify the peer.
    pub(super) preface_arrived: Notify,
}

/// What the first bytes say about the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Preface {
    /// Too little has arrived.
    Incomplete,
    /// HTTP/2, as hoped.
    Http2,
    /// An HTTP/1 status line.
    Http1,
    /// Something else; its first bytes.
    Other(Vec<u8>),
}

impl Arrivals {
    /// Nothing has arrived yet. When something does is measured by `clock`.
    pub(super) fn new(clock: Clock) -> Arrivals {
        Arrivals {
            opened: clock.now(),
            clock,
            last_micros: AtomicU64::new(0),
            is_classified: AtomicBool::new(false),
            first: Mutex::new(Vec::new()),
            preface_arrived: Notify::new(),
        }
    }

    /// When bytes arrived last, or when the connection was opened.
    pub(super) fn last(&self) -> Instant {
        self.opened + Duration::from_micros(self.last_micros.load(Relaxed))
    }

    pub(super) fn preface(&self) -> Preface {
        classify(&self.first.lock())
    }

    fn record(&self, bytes: &[u8]) {
        self.last_micros.store(self.clock.since(self.opened).as_micros() as u64, Relaxed);
        if self.is_classified.load(Relaxed) {
            return;
        }
        let mut first = self.first.lock();
        let room = FRAME_HEAD_BYTES - first.len();
        first.extend_from_slice(&bytes[..room.min(bytes.len())]);
        if classify(&first) != Preface::Incomplete {
            self.is_classified.store(true, Relaxed);
            self.preface_arrived.notify_one();
        }
    }
}

fn classify(first: &[u8]) -> Preface {
    match first {
        _ if first.len() < FRAME_HEAD_BYTES => Preface::Incomplete,
        [_, _, _, SETTINGS, _, 0, 0, 0, 0] => Preface::Http2,
        _ if first.starts_with(b"HTTP/1") => Preface::Http1,
        _ => Preface::Other(first.to_vec()),
    }
}

/// A connection whose traffic is recorded.
pub(super) struct WatchedStream {
    pub(super) inner: Socket,
    pub(super) traffic: Arc<Traffic>,
    pub(super) arrivals: Arc<Arrivals>,
}

impl WatchedStream {
    fn sent(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = result {
            self.traffic.sent_bytes.fetch_add(count as u64, Relaxed);
        }
        result
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Some(arrived) = buf.filled().get(before..)
            && !arrived.is_empty()
        {
            self.traffic.received_bytes.fetch_add(arrived.len() as u64, Relaxed);
            self.arrivals.record(arrived);
        }
        result
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.sent(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.sent(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_classified_by_its_first_nine_bytes_however_they_arrive() {
        let cases: [(&[u8], Preface); 4] = [
            (&[0, 0, 18, 4, 0, 0, 0, 0, 0, 1], Preface::Http2),
            (b"HTTP/1.1 400 Bad Request", Preface::Http1),
            (b"SSH-2.0-OpenSSH", Preface::Other(b"SSH-2.0-O".to_vec())),
            (b"short", Preface::Incomplete),
        ];
        for (bytes, expected) in cases {
            for step in [1, 4, 100] {
                let arrivals = Arrivals::new(Clock::system());
                bytes.chunks(step).for_each(|chunk| arrivals.record(chunk));
                assert_eq!(arrivals.preface(), expected);
            }
        }
    }
}
