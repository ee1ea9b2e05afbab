//! [`WatchedStream`]: a connection that tells what arrived first, when something arrived last, and how much went by.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use crate::socket::Socket;

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
    opened: Instant,
    last_micros: AtomicU64,
    greeted: AtomicBool,
    first: Mutex<Vec<u8>>,
    /// Told once, when enough has arrived to judge the peer by.
    pub(super) greeting: Notify,
}

/// What the first bytes say about the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
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
    pub(super) fn new() -> Arrivals {
        Arrivals {
            opened: Instant::now(),
            last_micros: AtomicU64::new(0),
            greeted: AtomicBool::new(false),
            first: Mutex::new(Vec::new()),
            greeting: Notify::new(),
        }
    }

    /// When bytes arrived last, or when the connection was opened.
    pub(super) fn last(&self) -> Instant {
        self.opened + Duration::from_micros(self.last_micros.load(Relaxed))
    }

    pub(super) fn greeting(&self) -> Greeting {
        judge(&self.first.lock())
    }

    fn record(&self, bytes: &[u8]) {
        self.last_micros.store(self.opened.elapsed().as_micros() as u64, Relaxed);
        if self.greeted.load(Relaxed) {
            return;
        }
        let mut first = self.first.lock();
        let room = FRAME_HEAD_BYTES - first.len();
        first.extend_from_slice(&bytes[..room.min(bytes.len())]);
        if judge(&first) != Greeting::Incomplete {
            self.greeted.store(true, Relaxed);
            self.greeting.notify_one();
        }
    }
}

fn judge(first: &[u8]) -> Greeting {
    match first {
        _ if first.len() < FRAME_HEAD_BYTES => Greeting::Incomplete,
        [_, _, _, SETTINGS, _, 0, 0, 0, 0] => Greeting::Http2,
        _ if first.starts_with(b"HTTP/1") => Greeting::Http1,
        _ => Greeting::Other(first.to_vec()),
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
    fn a_peer_is_judged_by_its_first_nine_bytes_however_they_arrive() {
        let cases: [(&[u8], Greeting); 4] = [
            (&[0, 0, 18, 4, 0, 0, 0, 0, 0, 1], Greeting::Http2),
            (b"HTTP/1.1 400 Bad Request", Greeting::Http1),
            (b"SSH-2.0-OpenSSH", Greeting::Other(b"SSH-2.0-O".to_vec())),
            (b"short", Greeting::Incomplete),
        ];
        for (bytes, expected) in cases {
            for step in [1, 4, 100] {
                let arrivals = Arrivals::new();
                bytes.chunks(step).for_each(|chunk| arrivals.record(chunk));
                assert_eq!(arrivals.greeting(), expected);
            }
        }
    }
}
