//! What every socket is set to: small messages at once, and a peer whose machine has vanished is noticed.
//!
//! A server learns that a client is gone when the connection closes. A machine that loses power or its network closes
//! nothing, and by default the system asks after it only after two hours; the steps and sessions of its clients would
//! stay. Unlike a question in HTTP/2 this one is answered by the peer's system, so a client that is merely stopped, or
//! busy for minutes, is not taken for dead.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::socket::Socket;

/// Silence after which the peer's system is probed.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);
/// Pause between two probes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// Probes without an answer before the connection is given up.
const KEEPALIVE_PROBES: u32 = 4;

/// Prepares a socket. What the system does not support is left out: it only makes the rest slower.
pub(crate) fn prepare(socket: &Socket) {
    let Socket::Tcp(stream) = socket else { return };
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let keepalive = keepalive.with_retries(KEEPALIVE_PROBES);
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&keepalive);
    // The same for bytes that nobody acknowledges, for which the system does not ask.
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(KEEPALIVE_AFTER + KEEPALIVE_EVERY * KEEPALIVE_PROBES));
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn sockets_ask_after_a_silent_peer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap().into();
        prepare(&socket);
        let Socket::Tcp(stream) = socket else { panic!("it is TCP") };
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && stream.nodelay().unwrap());
    }
}
