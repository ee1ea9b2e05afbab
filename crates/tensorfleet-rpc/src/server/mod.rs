//! The server: accepts connections and hands gRPC calls, and plain HTTP requests, to a [`Handler`].
//!
//! One port serves both: HTTP/2 with prior knowledge, which is what gRPC speaks, and HTTP/1, which is what a browser or
//! `curl` speaks, are told apart by their first bytes. The future of a call is dropped as soon as nobody waits for its
//! answer: the client cancelled the call or went away, or the deadline passed.

mod admission;
mod authority_blanks;
mod call;
mod connection;
mod corked_stream;
mod listener;
mod open_connections;
mod pace;
mod reply_body;
mod unread;

use std::collections::HashSet;
use std::error::Error;
use std::future::{Future, pending};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
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
use tokio::time::{MissedTickBehavior, interval, timeout};

use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Result, Status};

use crate::frame::{
    CONNECTION_WINDOW_BYTES, FRAME_BYTES, MAX_MESSAGE_BYTES, MAX_RESETS, MAX_UNSEEN_RESETS,
    STREAM_WINDOW_BYTES,
};
use crate::incoming::Incoming;
use crate::parts::Parts;
use crate::transport::local_stream::LocalStream;
use crate::transport::network::Arrivals;
use crate::transport::socket::Socket;
use crate::transport::socket_options;
use admission::{Admission, Share};
use corked_stream::CorkedStream;
use listener::Source;
use open_connections::{Activity, OpenConnections};
use unread::{AllUnread, Unread};

pub use admission::Limits;
pub use connection::{Connection, ConnectionGuard, ConnectionId, Ending, Origin, Peer};
pub use listener::Listener;

/// Requests have a dozen short headers; more is no gRPC client.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// How much of an answer may be queued for a slow connection before its body is asked for more.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// How many idle connections are closed when descriptors have run out although there are not too many connections.
const SHORTAGE_STEP: usize = 16;

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

    /// Whether a client is a member of the cluster, for which some room is kept: by where it comes from, and by the headers of
    /// its requests. Asked with each request of a connection until the answer is yes.
    fn is_member(&self, peer: Peer, metadata: &HeaderMap) -> bool {
        let _ = (peer, metadata);
        false
    }

    /// The connections of clients for whom something is kept: these are not closed for being idle.
    fn connections_in_use(&self) -> HashSet<ConnectionId> {
        HashSet::new()
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
    /// Whether it is answered however busy the server is: it frees something or tells how the server is, its message is
    /// small, and it waits for nothing.
    pub is_vital: bool,
}

impl Default for MethodInfo {
    fn default() -> MethodInfo {
        MethodInfo { max_message_bytes: MAX_MESSAGE_BYTES, align: &[], is_vital: false }
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
    let mut acceptor =
        Acceptor::open(listener).map_err(|error| Status::internal(format!("cannot listen: {error}")))?;
    let builder = Arc::new(http_settings(limits));
    let admission = Admission::new(limits);
    let all_unread = AllUnread::new(limits.max_pending_bytes);
    let (clock, mut open) = (Clock::system(), OpenConnections::new(limits));
    let in_use = || handler.connections_in_use();
    let (stop, stopping) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut sweeps = interval(sweep_interval(limits));
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = acceptor.accept() => match accepted {
                Ok((socket, peer)) => {
                    let (connection, guard) = Connection::new(peer);
                    let served = ServedConnection {
                        activity: open.add(connection.id(), clock.now()),
                        share: admission.share(connection.origin()),
                        unread: all_unread.connection(),
                        is_member: AtomicBool::new(false),
                        connection,
                    };
                    open.make_room(clock.now(), 0, in_use);
                    let service = Service {
                        handler: handler.clone(),
                        admission: admission.clone(),
                        connection: Arc::new(served),
                    };
                    connections.spawn(serve_connection(
                        builder.clone(),
                        socket,
                        guard,
                        service,
                        stopping.clone(),
                    ));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be closed.
                    tracing::warn!("cannot accept a connection: {error}");
                    open.make_room(clock.now(), SHORTAGE_STEP, in_use);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(ended) = connections.join_next() => {
                // A task that panicked, which none does, leaves its entry; the entry ends nothing.
                if let Ok(id) = ended {
                    open.remove(id);
                }
            }
            _ = sweeps.tick() => open.sweep(clock.now(), in_use),
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

/// How often to look for connections that are idle: often enough to be in time.
fn sweep_interval(limits: Limits) -> Duration {
    let shortest = limits.first_request_timeout.min(limits.idle_timeout);
    (shortest / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// Accepts connections, by TCP and from processes of this machine, or by another network.
enum Acceptor {
    Sockets { network: TcpListener, same_machine: Option<UnixListener> },
    Network(Arrivals),
}

impl Acceptor {
    fn open(listener: Listener) -> io::Result<Acceptor> {
        match listener.source {
            Source::Sockets(network, same_machine) => Ok(Acceptor::Sockets {
                same_machine: same_machine.map(UnixListener::from_std).transpose()?,
                network: TcpListener::from_std(network)?,
            }),
            Source::Network(arrivals) => Ok(Acceptor::Network(arrivals)),
        }
    }

    async fn accept(&mut self) -> io::Result<(Socket, Peer)> {
        let (network, same_machine) = match self {
            Acceptor::Sockets { network, same_machine } => (network, same_machine),
            Acceptor::Network(arrivals) => {
                return match arrivals.recv().await {
                    Some((stream, address)) => Ok((Socket::Other(stream), Peer::Address(address))),
                    None => pending().await,
                };
            }
        };
        let same_machine = async {
            match same_machine {
                Some(listener) => listener.accept().await,
                None => pending().await,
            }
        };
        tokio::select! {
            accepted = network.accept() => {
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
        .max_pending_accept_reset_streams(MAX_UNSEEN_RESETS)
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

/// What all requests of a connection share.
#[derive(Clone)]
struct Service {
    handler: Arc<dyn Handler>,
    admission: Arc<Admission>,
    connection: Arc<ServedConnection>,
}

/// A connection, and what its requests have and take.
struct ServedConnection {
    connection: Connection,
    activity: Arc<Activity>,
    share: Arc<Share>,
    unread: Arc<Unread>,
    /// Whether its client has shown that it is a member of the cluster.
    is_member: AtomicBool,
}

async fn serve_connection(
    builder: Arc<auto::Builder<TokioExecutor>>,
    socket: Socket,
    // Ended at the end of this function, which is how calls learn that the connection has closed.
    open: ConnectionGuard,
    service: Service,
    mut stopping: watch::Receiver<bool>,
) -> ConnectionId {
    socket_options::prepare(&socket);
    let connection = service.connection.clone();
    let (id, peer) = (connection.connection.id(), connection.connection.peer());
    let service = service_fn(|request| call::answer(service.clone(), request));
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
            grace = connection.activity.told_to_end() => {
                serving.as_mut().graceful_shutdown();
                loop {
                    match timeout(grace, &mut serving).await {
                        Ok(result) => break result,
                        // A call that came before its client heard of it is answered.
                        Err(_) if connection.activity.has_open_calls() => {}
                        // A client that reads nothing never hears of it.
                        Err(_) => break Ok(()),
                    }
                }
            }
        }
    };
    let result = cork.pull_at_each_pause(served).await;
    if let Err(error) = &result {
        tracing::debug!("the connection from {peer} failed: {error}");
    }
    let ending = match result {
        // It was idle, and its client may not have noticed.
        _ if connection.activity.is_ending() => Ending::ByServer,
        Ok(()) => Ending::ByPeer,
        Err(error) => ending_of(&*error),
    };
    open.end(ending);
    id
}

/// What a failure says about the client: whether its system has spoken, or has fallen silent.
fn ending_of(failure: &(dyn Error + 'static)) -> Ending {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    let mut causes = std::iter::successors(Some(failure), |&cause| cause.source());
    let is_silence = |error: &io::Error| {
        matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown)
    };
    let is_lost = causes.any(|cause| cause.downcast_ref().is_some_and(is_silence));
    if is_lost { Ending::Lost } else { Ending::ByPeer }
}
