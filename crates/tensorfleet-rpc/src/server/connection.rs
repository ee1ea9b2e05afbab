//! [`Connection`]: what a call may know about the connection it came by.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

/// A connection of a client. Outlives it: whoever keeps one can ask later whether the client is still there.
#[derive(Clone, Debug)]
pub struct Connection {
    id: u64,
    peer: SocketAddr,
    open: watch::Receiver<()>,
}

impl Connection {
    /// A connection, and what must be dropped when it closes.
    pub(crate) fn new(peer: SocketAddr) -> (Connection, watch::Sender<()>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (sender, open) = watch::channel(());
        (Connection { id: NEXT.fetch_add(1, Relaxed), peer, open }, sender)
    }

    /// A number no other connection of this process has or had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Whether the connection is still there.
    pub fn is_open(&self) -> bool {
        self.open.has_changed().is_ok()
    }

    /// Completes when the connection has closed.
    pub async fn closed(&self) {
        // Nothing is ever sent: the only change is the end.
        while self.open.clone().changed().await.is_ok() {}
    }
}
