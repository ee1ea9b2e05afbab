//! [`Network`]: how connections come about, for those who have another way than the sockets of this machine.
//!
//! The simulation of a cluster (`crates/tensorfleet-simulation`) is such a one: its bytes stay in memory, and it decides
//! when they arrive, and whether. What a connection carries, and all that is made of it, is the same for both.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedReceiver;

/// Makes connections, takes those that others make, and knows where hosts are.
pub trait Network: Debug + Send + Sync {
    /// Connects to `address`, a `host:port`.
    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>>;

    /// The addresses of a host: those that its connections come from.
    fn resolve(&self, host: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// Listens on a port. Connections to it come out of what this gives, until that is dropped.
    fn listen(&self, port: u16) -> io::Result<Arrivals>;
}

/// A connection: bytes in order, both ways, until one side ends it.
pub trait ByteStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> ByteStream for S {}

/// Connections that others make, and where they come from.
pub type Arrivals = UnboundedReceiver<(Box<dyn ByteStream>, SocketAddr)>;
