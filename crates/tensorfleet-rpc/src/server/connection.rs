//! [`Connection`]: what a call may know about the connection it came by.
//!
//! A client is known by its connection alone: TensorFlow's clients say nothing of themselves. So whoever keeps something for
//! a client keeps its connection, and can ask ([`Connection::is_open`]) or hear ([`Connection::closed`]) whether it is
//! gone. A client that comes back has another connection.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

/// A connection of a client. Outlives it: whoever keeps one can ask later whether the client is still there.
#[derive(Clone, Debug)]
pub struct Connection {
    id: ConnectionId,
    peer: Peer,
    /// How it has ended; the sender goes with the connection.
    open: watch::Receiver<Ending>,
}

/// Names a connection: no other one of this process has or had the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// Whose share of a server's room a connection uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// All that comes from another machine.
    Host(IpAddr),
    /// All connections of a process of this machine.
    Process(i32),
    /// This connection alone: behind a loopback address there are many processes.
    Connection(ConnectionId),
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

/// How a connection has ended, which tells what to expect of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The client's system closed or reset it: the client has ended, or has let it go.
    ByPeer,
    /// Nothing was heard from the client's system for too long: its machine or the network is down.
    Lost,
    /// This server closed it; the client may not have noticed.
    ByServer,
}

/// Held by whoever serves a connection: it is open until this is dropped, which by itself means that the client has closed
/// it.
#[derive(Debug)]
pub struct ConnectionGuard {
    open: watch::Sender<Ending>,
}

impl ConnectionGuard {
    /// Closes the connection and says how it has ended.
    pub fn end(self, ending: Ending) {
        self.open.send_replace(ending);
    }
}

impl Connection {
    /// A connection, and what must be dropped when it closes.
    pub fn new(peer: Peer) -> (Connection, ConnectionGuard) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (sender, open) = watch::channel(Ending::ByPeer);
        let id = ConnectionId(NEXT.fetch_add(1, Relaxed));
        (Connection { id, peer, open }, ConnectionGuard { open: sender })
    }

    /// Its name.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// With whom it shares what a client may take of a server.
    pub fn origin(&self) -> Origin {
        match self.peer {
            Peer::Address(address) if !address.ip().to_canonical().is_loopback() => {
                Origin::Host(address.ip().to_canonical())
            }
            // A process of another namespace has the number 0.
            Peer::Process(Some(id)) if id != 0 => Origin::Process(id),
            Peer::Address(_) | Peer::Process(_) => Origin::Connection(self.id),
        }
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
        let mut open = self.open.clone();
        // What is sent last is how it has ended.
        while open.changed().await.is_ok() {}
    }

    /// How the connection has ended, if it has.
    pub fn ending(&self) -> Option<Ending> {
        (!self.is_open()).then(|| *self.open.borrow())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_processes_share_and_loopback_addresses_do_not() {
        let origin = |peer| Connection::new(peer).0.origin();
        let address = |text: &str| Peer::Address(text.parse().unwrap());
        assert_eq!(origin(address("10.0.0.7:1")), origin(address("10.0.0.7:2")));
        assert_eq!(origin(address("10.0.0.7:1")), origin(address("[::ffff:10.0.0.7]:1")));
        assert_ne!(origin(address("10.0.0.7:1")), origin(address("10.0.0.8:1")));
        assert_ne!(origin(address("127.0.0.1:1")), origin(address("127.0.0.1:1")));
        assert_eq!(origin(Peer::Process(Some(7))), origin(Peer::Process(Some(7))));
        assert_ne!(origin(Peer::Process(None)), origin(Peer::Process(None)));
    }

    #[tokio::test]
    async fn a_connection_tells_when_it_has_closed() {
        let (connection, guard) = Connection::new(Peer::Process(None));
        assert!(connection.is_open());
        drop(guard);
        connection.closed().await;
        assert!(!connection.is_open());
    }
}
