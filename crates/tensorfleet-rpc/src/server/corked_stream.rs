//! [`CorkedStream`]: a connection that sends what it has to say at one moment together.
//!
//! `h2` writes a message and the trailers after it with two calls. Each would become a packet of its own, and wake the
//! thread of a peer on the same machine: half of all the packets of a training step were ten bytes of trailers. So the
//! connection is corked when a message is written, and uncorked when it has nothing more to do for now.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::authority_blanks::AuthorityBlanks;
use crate::transport::local_stream::LocalStream;
use crate::transport::socket::Socket;

/// A connection's cork.
pub(super) enum Cork {
    Tcp(Arc<TcpCork>),
    /// This one keeps what is written by itself.
    SameMachine(Arc<LocalStream>),
    /// A network that knows of none.
    None,
}

/// A cork that the system knows: while it is in, only full packets are sent.
pub(super) struct TcpCork {
    /// The half that writes, shared with the stream: a descriptor of its own for the cork would be one more for each
    /// connection. Only the connection's own task touches it, so nobody ever waits for the lock.
    writer: Mutex<OwnedWriteHalf>,
    /// Only the connection's own task touches it.
    is_in: AtomicBool,
}

impl TcpCork {
    fn put_in(&self) {
        if !self.is_in.swap(true, Relaxed) {
            self.set(true);
        }
    }

    fn pull(&self) {
        if self.is_in.swap(false, Relaxed) {
            self.set(false);
        }
    }

    /// What the system does not support is left out: it only makes more packets.
    fn set(&self, is_in: bool) {
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(self.writer.lock().as_ref()).set_tcp_cork(is_in);
        #[cfg(not(target_os = "linux"))]
        let _ = is_in;
    }
}

impl Cork {
    fn pull(&self, context: &mut Context<'_>) {
        match self {
            Cork::Tcp(cork) => cork.pull(),
            // What finds no room now is written when there is some: the task is woken then. An error is one that the
            // connection meets as well.
            Cork::SameMachine(stream) => drop(stream.poll_flush(context)),
            Cork::None => {}
        }
    }

    /// Waits for the end of `connection`, and lets out what it has written each time it pauses.
    pub(super) async fn pull_at_each_pause<F: Future>(&self, connection: F) -> F::Output {
        let mut connection = pin!(connection);
        std::future::poll_fn(|context| {
            let progress = connection.as_mut().poll(context);
            self.pull(context);
            progress
        })
        .await
    }
}

/// A connection with a cork.
pub(super) struct CorkedStream {
    socket: CorkedSocket,
    /// As long as it is looked for.
    authority_blanks: Option<AuthorityBlanks>,
}

enum CorkedSocket {
    Tcp { reader: OwnedReadHalf, cork: Arc<TcpCork> },
    Other(Socket),
}

impl CorkedStream {
    pub(super) fn new(socket: Socket) -> (CorkedStream, Cork) {
        let (socket, cork) = match socket {
            Socket::Tcp(stream) => {
                let (reader, writer) = stream.into_split();
                let cork = TcpCork { writer: Mutex::new(writer), is_in: AtomicBool::new(false) };
                let cork = Arc::new(cork);
                (CorkedSocket::Tcp { reader, cork: cork.clone() }, Cork::Tcp(cork))
            }
            Socket::SameMachine(stream) => {
                (CorkedSocket::Other(Socket::SameMachine(stream.clone())), Cork::SameMachine(stream))
            }
            Socket::Other(stream) => (CorkedSocket::Other(Socket::Other(stream)), Cork::None),
        };
        (CorkedStream { socket, authority_blanks: Some(AuthorityBlanks::new()) }, cork)
    }
}

impl AsyncRead for CorkedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let progress = match &mut self.socket {
            CorkedSocket::Tcp { reader, .. } => Pin::new(reader).poll_read(context, buffer),
            CorkedSocket::Other(socket) => Pin::new(socket).poll_read(context, buffer),
        };
        if let (Some(blanks), true) = (&mut self.authority_blanks, progress.is_ready())
            && !blanks.overwrite(&mut buffer.filled_mut()[before..])
        {
            self.authority_blanks = None;
        }
        progress
    }
}

impl AsyncWrite for CorkedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            CorkedSocket::Tcp { cork, .. } => Pin::new(&mut *cork.writer.lock()).poll_write(context, bytes),
            CorkedSocket::Other(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            CorkedSocket::Tcp { cork, .. } => {
                // A message that is not small has a slice of its own; what is small, `h2` writes together by itself.
                if slices.len() > 1 {
                    cork.put_in();
                }
                Pin::new(&mut *cork.writer.lock()).poll_write_vectored(context, slices)
            }
            CorkedSocket::Other(socket) => Pin::new(socket).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            CorkedSocket::Tcp { .. } => true,
            CorkedSocket::Other(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // At the pause that follows.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            CorkedSocket::Tcp { cork, .. } => Pin::new(&mut *cork.writer.lock()).poll_shutdown(context),
            CorkedSocket::Other(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    use super::*;

    #[tokio::test]
    async fn what_is_written_before_a_pause_arrives_at_the_pause() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        write_and_pause(accepted.unwrap().0.into(), client.unwrap()).await;

        let (client, accepted) = UnixStream::pair().unwrap();
        let accepted = LocalStream::new(accepted.into_std().unwrap()).unwrap();
        write_and_pause(Socket::SameMachine(Arc::new(accepted)), client).await;
    }

    async fn write_and_pause(socket: Socket, mut client: impl AsyncRead + Unpin) {
        let (mut stream, cork) = CorkedStream::new(socket);
        let (pause, paused) = tokio::sync::oneshot::channel::<()>();
        let write = cork.pull_at_each_pause(async {
            let slices = [IoSlice::new(b"mess"), IoSlice::new(b"age ")];
            assert_eq!(stream.write_vectored(&slices).await.unwrap(), 8);
            stream.write_all(b"trailers").await.unwrap();
            stream.flush().await.unwrap();
            // Nobody has read yet, so this is a pause, and the bytes leave.
            paused.await.unwrap();
        });
        let read = async {
            let mut bytes = [0; 16];
            client.read_exact(&mut bytes).await.unwrap();
            pause.send(()).unwrap();
            bytes
        };
        let ((), bytes) = tokio::join!(write, read);
        assert_eq!(&bytes, b"message trailers");
        assert!(!matches!(&cork, Cork::Tcp(cork) if cork.is_in.load(Relaxed)));
    }
}
