//! [`Unread`]: what the answers that a client has not read yet hold.
//!
//! An answer holds its tensors, by reference, until the last byte has left. A client that calls and does not read would
//! make a server hold as much as it likes. So what waits to be read is counted, chunk by chunk, until the socket has taken
//! it; and while a connection has more than its share, its further calls wait before they begin. They wait for nothing but
//! their own client to read. Small answers count as well: a connection may have a quarter of a million calls open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use tokio::sync::Notify;

/// What a chunk takes besides its bytes: its answer has a stream, a head and trailers.
const CHUNK_BYTES: usize = 2 << 10;
/// With this many chunks unread even calls wait that are answered however much there is.
const MOST_CHUNKS: usize = 4096;
/// A connection may always have this much unread, ...
const LEAST_SHARE: usize = 1 << 20;
/// ... and never more than this before further calls wait: enough to keep any network busy.
const LARGEST_SHARE: usize = 64 << 20;
/// Besides, it may have this part of what the others have left.
const SHARE: usize = 4;

/// The unread answers of all connections of a server.
pub(super) struct AllUnread {
    limit: usize,
    bytes: AtomicUsize,
}

/// The unread answers of one connection.
pub(super) struct Unread {
    bytes: AtomicUsize,
    chunks: AtomicUsize,
    read: Notify,
    all: Arc<AllUnread>,
}

impl AllUnread {
    /// For a server whose answers should hold no more than `limit` bytes together.
    pub(super) fn new(limit: usize) -> Arc<AllUnread> {
        Arc::new(AllUnread { limit, bytes: AtomicUsize::new(0) })
    }

    /// For one more connection.
    pub(super) fn connection(self: &Arc<Self>) -> Arc<Unread> {
        let (bytes, chunks) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Unread { bytes, chunks, read: Notify::new(), all: self.clone() })
    }
}

impl Unread {
    /// Counts a chunk of an answer for as long as anybody holds it.
    pub(super) fn count(self: &Arc<Self>, chunk: Bytes) -> Bytes {
        let bytes = chunk.len() + CHUNK_BYTES;
        self.chunks.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.all.bytes.fetch_add(bytes, Relaxed);
        Bytes::from_owner(Counted { chunk, unread: self.clone() })
    }

    /// Completes when the client has read enough for another call. One that `is_vital` waits only for a client that has very
    /// many answers to read.
    pub(super) async fn room(&self, is_vital: bool) {
        while !self.has_room(is_vital) {
            let read = self.read.notified();
            // What was read before this began to wait is seen here.
            if self.has_room(is_vital) {
                return;
            }
            read.await;
        }
    }

    fn has_room(&self, is_vital: bool) -> bool {
        if is_vital && self.chunks.load(Relaxed) <= MOST_CHUNKS {
            return true;
        }
        let own = self.bytes.load(Relaxed);
        let left = self.all.limit.saturating_sub(self.all.bytes.load(Relaxed));
        own <= (left / SHARE).clamp(LEAST_SHARE, LARGEST_SHARE)
    }
}

/// A chunk that is counted.
struct Counted {
    chunk: Bytes,
    unread: Arc<Unread>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.chunk
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.chunk.len() + CHUNK_BYTES;
        self.unread.all.bytes.fetch_sub(bytes, Relaxed);
        self.unread.bytes.fetch_sub(bytes, Relaxed);
        self.unread.chunks.fetch_sub(1, Relaxed);
        self.unread.read.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn chunk(len: usize) -> Bytes {
        Bytes::from(vec![0; len])
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_waits_and_others_do_not() {
        let all = AllUnread::new(1 << 30);
        let (reader, hoarder) = (all.connection(), all.connection());
        let answers: Vec<Bytes> = (0..9).map(|_| hoarder.count(chunk(8 << 20))).collect();
        assert!(hoarder.room(false).now_or_never().is_none());
        assert!(reader.room(false).now_or_never().is_some());
        let waiting = hoarder.room(false);
        let read = async { drop(answers) };
        tokio::join!(waiting, read);
        assert_eq!(all.bytes.load(Relaxed), 0);
    }

    #[test]
    fn a_slice_is_held_as_long_as_any_part_of_it() {
        let all = AllUnread::new(0);
        let connection = all.connection();
        let mut whole = connection.count(chunk(2 << 20));
        let rest = whole.split_off(1);
        drop(whole);
        assert!(connection.room(false).now_or_never().is_none());
        drop(rest);
        assert!(connection.room(false).now_or_never().is_some());
        assert_eq!(connection.count(chunk(100)).len(), 100);
        assert_eq!(all.bytes.load(Relaxed), 0);
    }

    #[test]
    fn small_answers_count_and_vital_calls_wait_only_for_very_many() {
        let connection = AllUnread::new(0).connection();
        let mut answers = Vec::new();
        while connection.room(false).now_or_never().is_some() {
            answers.push(connection.count(chunk(100)));
        }
        assert!((100..1000).contains(&answers.len()), "{}", answers.len());
        assert!(connection.room(true).now_or_never().is_some());
        while connection.room(true).now_or_never().is_some() {
            answers.push(connection.count(chunk(100)));
        }
        assert_eq!(answers.len(), MOST_CHUNKS + 1);
        answers.pop();
        assert!(connection.room(true).now_or_never().is_some());
    }
}
