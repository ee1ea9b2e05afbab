//! [`Connection`]: what a call may know about the connection it came by.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

/// A connection of a client. Outlives it: whoever keeps one can ask later whether the client is still there.
#[derive(Clone, Debug)]
pub struct Connection {
    id: u64,
    peer: Peer,
    open: watch::Receiver<()>,
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process that came through the network.
    Address(SocketAddr),
    /// A process of this machine that came by the shorter way; its id, if the system tells it.
    Process(Option<i32>),
}

impl Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::Process(Some(id)) => write!(f, "process {id}"),
            Peer::Process(None) => f.write_str("a process of this machine"),
        }
    }
}

/// Held by whoever serves a connection: it is open until this is dropped.
#[derive(Debug)]
pub struct ConnectionGuard {
    _open: watch::Sender<()>,
}

impl Connection {
    /// A connection, and what must be dropped when it closes.
    pub fn new(peer: Peer) -> (Connection, ConnectionGuard) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (sender, open) = watch::channel(());
        (Connection { id: NEXT.fetch_add(1, Relaxed), peer, open }, ConnectionGuard { _open: sender })
    }

    /// A number no other connection of this process has or had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The client.
    pub fn peer(&self) -> Peer {
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
