//! What every socket is set to: small messages at once, and a peer whose machine has vanished is noticed.
//!
//! A server learns that a client is gone when the connection closes. A machine that loses power or its network closes
//! nothing, and by default the system asks after it only after two hours; the steps and sessions of its clients would
//! stay. Unlike a question in HTTP/2 this one is answered by the peer's system, so a client that is merely stopped, or
//! busy for minutes, is not taken for dead.

use std::time::Duration;

use crate::socket::Socket;
use socket2::{SockRef, TcpKeepalive};

/// Silence after which the peer's system is asked.
const ASK_AFTER: Duration = Duration::from_secs(15);
/// Pause between two questions.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// Questions without an answer before the connection is given up.
const QUESTIONS: u32 = 4;

/// Prepares a socket. What the system does not support is left out: it only makes the rest slower.
pub(crate) fn prepare(socket: &Socket) {
    let Socket::Tcp(stream) = socket else { return };
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(ASK_AFTER).with_interval(ASK_EVERY);
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let keepalive = keepalive.with_retries(QUESTIONS);
    let socket = SockRef::from(stream);
    let _ = socket.set_tcp_keepalive(&keepalive);
    // The same for bytes that nobody acknowledges, for which the system does not ask.
    #[cfg(target_os = "linux")]
    let _ = socket.set_tcp_user_timeout(Some(ASK_AFTER + ASK_EVERY * QUESTIONS));
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
