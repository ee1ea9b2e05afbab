//! The server: accepts connections and hands gRPC calls, and plain HTTP requests, to a [`Handler`].
//!
//! One port serves both: HTTP/2 with prior knowledge, which is what gRPC speaks, and HTTP/1, which is what a browser or
//! `curl` speaks, are told apart by their first bytes. The future of a call is dropped as soon as nobody waits for its
//! answer: the client cancelled the call or went away, or the deadline passed.

mod admission;
mod call;
mod connection;
mod corked_stream;
mod listener;
mod reply_body;

use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::HeaderMap;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinSet;

use tensorfleet_core::{Result, Status};

use crate::frame::{
    CONNECTION_WINDOW_BYTES, FRAME_BYTES, MAX_MESSAGE_BYTES, MAX_RESETS, STREAM_WINDOW_BYTES,
};
use crate::incoming::Incoming;
use crate::parts::Parts;
use crate::transport::local_stream::LocalStream;
use crate::transport::socket::Socket;
use crate::transport::socket_options;
use admission::Admission;
use corked_stream::CorkedStream;

pub use admission::Limits;
pub use connection::{Connection, ConnectionGuard, Peer};
pub use listener::Listener;

/// Requests have a dozen short headers; more is no gRPC client.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// How much of an answer may be queued for a slow connection before its body is asked for more.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// What a server does with calls.
pub trait Handler: Send + Sync + 'static {
    /// What to know about a method before its message is read; `None` if there is no such method.
    fn method(&self, method: &str) -> Option<MethodInfo>;

    /// Answers a call. The future is dropped when the caller no longer waits.
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>>;

    /// Hears of a call that was answered with an error, so that it can be logged.
    fn failed(&self, method: &str, peer: Peer, status: &Status) {
        let _ = (method, peer, status);
    }

    /// Answers a plain HTTP GET of `path`; `None` means that there is no such page.
    fn page(&self, path: &str) -> Option<Page> {
        let _ = path;
        None
    }
}

/// How the message of a method is received.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Longer messages are refused before memory is allocated for them.
    pub max_message_bytes: usize,
    /// The path of field numbers to the contents of the biggest tensor, which will be aligned in memory; empty if there
    /// is none.
    pub align: &'static [u32],
}

impl Default for MethodInfo {
    fn default() -> MethodInfo {
        MethodInfo { max_message_bytes: MAX_MESSAGE_BYTES, align: &[] }
    }
}

/// A call as it arrived.
pub struct Request {
    /// The method's path, e.g. `/tensorflow.WorkerService/GetStatus`. The package name `tensorflow.grpc`, which some
    /// clients use, is shortened to `tensorflow`.
    pub method: String,
    /// The request's headers.
    pub metadata: HeaderMap,
    /// When the caller gives up, if it said so. The call ends by itself then.
    pub deadline: Option<Instant>,
    /// The connection it came by.
    pub connection: Connection,
    /// The message.
    pub message: Incoming,
}

/// An answer.
pub struct Reply {
    /// The message, or the first of several.
    pub message: Parts,
    /// The messages that follow it, sent as they come.
    pub more: Option<Messages>,
    /// Response headers, in addition to those of gRPC.
    pub metadata: HeaderMap,
}

/// Messages that come one after the other. An error ends them.
pub type Messages = BoxStream<'static, Result<Parts>>;

impl From<Parts> for Reply {
    fn from(message: Parts) -> Reply {
        Reply { message, more: None, metadata: HeaderMap::new() }
    }
}

/// A page for a plain HTTP request.
pub struct Page {
    /// E.g. `application/json`.
    pub content_type: &'static str,
    /// The page.
    pub body: Bytes,
}

/// Serves until `shutdown` completes; then accepts no more, lets running calls finish for up to `stop_timeout`, and closes what
/// is left. Dropping the future closes everything at once.
pub async fn serve(
    listener: Listener,
    handler: Arc<dyn Handler>,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
    stop_timeout: Duration,
) -> Result<()> {
    let acceptor =
        Acceptor::open(listener).map_err(|error| Status::internal(format!("cannot listen: {error}")))?;
    let builder = Arc::new(http_settings(limits));
    let admission = Admission::new(limits);
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = acceptor.accept() => match accepted {
                Ok((socket, peer)) => {
                    let service = Service { handler: handler.clone(), admission: admission.clone() };
                    connections.spawn(serve_connection(
                        builder.clone(),
                        socket,
                        peer,
                        service,
                        stopping.clone(),
                    ));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be closed.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(acceptor);
    stop.send_replace(true);
    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(stop_timeout, finished).await.is_err() {
        tracing::info!("{} connections are closed with calls unfinished", connections.len());
    }
    connections.shutdown().await;
    Ok(())
}

/// Accepts connections, by TCP and from processes of this machine.
struct Acceptor {
    network: TcpListener,
    same_machine: Option<UnixListener>,
}

impl Acceptor {
    fn open(listener: Listener) -> io::Result<Acceptor> {
        let (network, same_machine) = listener.into_std();
        let same_machine = same_machine.map(UnixListener::from_std).transpose()?;
        Ok(Acceptor { network: TcpListener::from_std(network)?, same_machine })
    }

    async fn accept(&self) -> io::Result<(Socket, Peer)> {
        let same_machine = async {
            match &self.same_machine {
                Some(listener) => listener.accept().await,
                None => pending().await,
            }
        };
        tokio::select! {
            accepted = self.network.accept() => {
                accepted.map(|(stream, address)| (Socket::Tcp(stream), Peer::Address(address)))
            }
            accepted = same_machine => {
                let (stream, _) = accepted?;
                let process = stream.peer_cred().ok().and_then(|owner| owner.pid());
                let stream = LocalStream::new(stream.into_std()?)?;
                Ok((Socket::SameMachine(Arc::new(stream)), Peer::Process(process)))
            }
        }
    }
}

fn http_settings(limits: Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_frame_size(FRAME_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(limits.max_streams())
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(MAX_RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .auto_date_header(false);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10))
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
}

/// What all connections share.
#[derive(Clone)]
struct Service {
    handler: Arc<dyn Handler>,
    admission: Arc<Admission>,
}

async fn serve_connection(
    builder: Arc<auto::Builder<TokioExecutor>>,
    socket: Socket,
    peer: Peer,
    service: Service,
    mut stopping: watch::Receiver<bool>,
) {
    socket_options::prepare(&socket);
    // Held until the end of this function: its end is how calls learn that the connection has closed.
    let (connection, _open) = Connection::new(peer);
    let service = service_fn(|request| call::answer(service.clone(), connection.clone(), request));
    let (stream, cork) = CorkedStream::new(socket);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async { drop(stopping.wait_for(|&stopping| stopping).await) };
    let served = async {
        tokio::select! {
            result = &mut serving => result,
            () = stopped => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        }
    };
    let result = cork.pull_at_each_pause(served).await;
    if let Err(error) = result {
        tracing::debug!("the connection from {peer} failed: {error}");
    }
}
