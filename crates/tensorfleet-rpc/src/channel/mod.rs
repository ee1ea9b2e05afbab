//! [`Channel`]: calls to one peer over one HTTP/2 connection that is made when first needed, and made anew when lost.

mod call;
mod connection;
mod liveness;
mod patience;
mod request_head;
mod response_stream;
mod watched_stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::HeaderMap;
use http::uri::Authority;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use tensorfleet_core::clock::Clock;
use tensorfleet_core::{Code, Result, Status, notice};

use crate::frame::MAX_MESSAGE_BYTES;
use crate::incoming::{Incoming, MessageReader, Trust};
use crate::parts::Parts;
use crate::transport::network::Network;
use connection::{Connection, Failure, PendingCall};
use patience::Patience;
use watched_stream::Traffic;

pub use response_stream::ResponseStream;

/// Pauses between attempts to connect grow from this…
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … to this, as TensorFlow's do: a peer that starts is found within a second.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A peer that is silent for this long is given up, unless a channel's options say otherwise.
const PEER_TIMEOUT: Duration = Duration::from_secs(15);

/// How a channel connects, and after which silence it gives a peer up.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// How long resolving the name and connecting may take.
    pub connect_timeout: Duration,
    /// How long an accepted connection may take to show HTTP/2's first frame.
    pub handshake_timeout: Duration,
    /// While calls are pending, silence of this length is answered with a probe.
    pub probe_after: Duration,
    /// Silence of this length after a probe means that the peer is gone.
    pub probe_timeout: Duration,
    /// The method a probe calls, with an empty message; what it answers does not matter.
    pub probe_method: String,
    /// For how long a call that the peer refuses for now is made again, unless its deadline is earlier.
    pub busy_timeout: Duration,
    /// Headers that tell the peer who calls, sent with the first call of each connection.
    pub introduction: Arc<[(String, String)]>,
    /// Measures silence, and the pauses between attempts to connect.
    pub clock: Clock,
    /// Connects instead of the sockets of this machine.
    pub network: Option<Arc<dyn Network>>,
}

impl Default for ChannelOptions {
    fn default() -> ChannelOptions {
        ChannelOptions::with_peer_timeout(PEER_TIMEOUT)
    }
}

impl ChannelOptions {
    /// Gives a peer up after about this much silence, whether there was a connection before or not.
    pub fn with_peer_timeout(timeout: Duration) -> ChannelOptions {
        ChannelOptions {
            connect_timeout: timeout,
            handshake_timeout: timeout,
            probe_after: timeout / 3,
            probe_timeout: timeout - timeout / 3,
            probe_method: "/tensorflow.WorkerService/GetStatus".to_string(),
            busy_timeout: Duration::from_secs(60),
            introduction: Arc::default(),
            clock: Clock::system(),
            network: None,
        }
    }
}

/// How one call is made.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions<'a> {
    /// When to give up with DEADLINE_EXCEEDED; the peer is told.
    pub deadline: Option<Instant>,
    /// Whether to wait, up to the deadline, for a peer that cannot be reached, or to fail at once with UNAVAILABLE. A
    /// call that the peer has looked at is never sent again.
    pub wait_for_ready: bool,
    /// Additional request headers.
    pub metadata: &'a [(&'a str, &'a str)],
    /// The path of field numbers, in the answer, to the contents of its biggest tensor, which will be aligned in memory.
    pub align: &'static [u32],
    /// Longer answers are refused before memory is allocated for them.
    pub max_response_bytes: usize,
}

impl Default for CallOptions<'_> {
    fn default() -> Self {
        CallOptions {
            deadline: None,
            wait_for_ready: false,
            metadata: &[],
            align: &[],
            max_response_bytes: MAX_MESSAGE_BYTES,
        }
    }
}

/// An answer.
pub struct Response {
    /// The message.
    pub message: Incoming,
    /// The response's headers.
    pub metadata: HeaderMap,
}

/// What went through a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// Bytes written to sockets.
    pub bytes_sent: u64,
    /// Bytes read from sockets.
    pub bytes_received: u64,
    /// Calls that wait for their answer, or for a connection.
    pub calls_outstanding: u32,
}

/// Calls to one peer. Clones share the connection, which is closed when the last one is dropped.
///
/// Connections live in the runtime of the call that made them. Proxy settings of the environment are not honoured.
#[derive(Clone)]
pub struct Channel {
    shared: Arc<Shared>,
    /// What makes and drives connections; aborted when the last clone goes. Usually one, two while a connection that the
    /// peer is closing still has calls.
    tasks: Arc<Mutex<JoinSet<()>>>,
}

struct Shared {
    address: Arc<Address>,
    options: ChannelOptions,
    state: watch::Sender<State>,
    traffic: Arc<Traffic>,
    calls: AtomicU32,
    /// Whether it was said that the peer refuses calls, and none has succeeded since.
    is_busy: AtomicBool,
}

/// Where the peer is.
struct Address {
    /// As given: `host:port`.
    text: String,
    authority: Authority,
}

impl Address {
    fn host(&self) -> &str {
        self.authority.host()
    }
}

#[derive(Clone)]
enum State {
    /// Not connected, and not to blame for it: never used, or lost. Says how it was lost.
    Idle(Option<Failure>),
    /// A task is connecting; says how the attempt before failed and how many have.
    Connecting {
        last: Option<Failure>,
        failures: u32,
    },
    Ready(Arc<Connection>),
    /// The last attempt failed; the next may be made at `retry_at`.
    Failed {
        reason: Failure,
        failures: u32,
        retry_at: Instant,
    },
}

impl Channel {
    /// A channel to `address`, a `host:port`. Connects when it is first used.
    pub fn new(address: &str, options: ChannelOptions) -> Result<Channel> {
        let authority = Authority::try_from(address).ok().filter(|authority| authority.port_u16().is_some());
        let Some(authority) = authority.filter(|authority| !authority.as_str().contains('@')) else {
            return Err(Status::invalid_argument(format!("'{address}' is no address: expected host:port")));
        };
        let shared = Shared {
            address: Arc::new(Address { text: address.to_string(), authority }),
            options,
            state: watch::channel(State::Idle(None)).0,
            traffic: Arc::default(),
            calls: AtomicU32::new(0),
            is_busy: AtomicBool::new(false),
        };
        Ok(Channel { shared: Arc::new(shared), tasks: Arc::default() })
    }

    /// The address as it was given.
    pub fn address(&self) -> &str {
        &self.shared.address.text
    }

    /// Calls `method`, e.g. `/tensorflow.WorkerService/GetStatus`. Dropping the future cancels the call.
    pub async fn call(&self, method: &str, message: Parts, options: CallOptions<'_>) -> Result<Response> {
        let chunks = message.into_chunks(method)?;
        let _outstanding = Outstanding::new(&self.shared.calls);
        let work = async {
            let call = self.begin(method, &chunks, &options).await?;
            call::receive(&call.connection, method, call.metadata, call.body, &options).await
        };
        let Some(deadline) = options.deadline else { return work.await };
        match timeout_at(deadline.into(), work).await {
            Ok(result) => result,
            Err(_) => Err(self.missed_deadline(method)),
        }
    }

    /// Calls a `method` that answers with several messages. Resolves once the first of them is on its way.
    pub async fn call_for_many(
        &self,
        method: &'static str,
        message: Parts,
        options: CallOptions<'_>,
    ) -> Result<ResponseStream> {
        let chunks = message.into_chunks(method)?;
        let _outstanding = Outstanding::new(&self.shared.calls);
        let call = self.begin(method, &chunks, &options).await?;
        Ok(ResponseStream {
            connection: call.connection,
            method,
            body: call.body,
            reader: MessageReader::new(options.max_response_bytes, options.align, Trust::Announced),
            arrived: Bytes::new(),
            _pending: call.pending,
        })
    }

    /// Sends a message and waits for the beginning of its answer. A peer that refuses it for now is asked again.
    async fn begin(
        &self,
        method: &str,
        chunks: &SmallVec<[Bytes; 2]>,
        options: &CallOptions<'_>,
    ) -> Result<BegunCall> {
        let mut patience = Patience::new(self.shared.options.busy_timeout, options.deadline);
        loop {
            let (connection, sender) = self.connected(options.wait_for_ready).await?;
            let pending = connection.begin_call();
            match call::send(&connection, sender, method, chunks.clone(), options).await {
                Ok((metadata, body)) => {
                    if patience.was_refused() {
                        self.shared.is_busy.store(false, Relaxed);
                    }
                    return Ok(BegunCall { connection, pending, metadata, body });
                }
                Err(status) => {
                    let refusal = Some(&status).filter(|status| status.code() == Code::ResourceExhausted);
                    let reason = refusal.map(|status| status.text().to_string());
                    let pause = patience.pause(status, self.shared.options.clock.now())?;
                    self.say_busy(method, reason.as_deref());
                    drop(pending);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Says that the peer refuses calls, once.
    #[cold]
    fn say_busy(&self, method: &str, reason: Option<&str>) {
        // A connection that is closed in peace is nobody's concern.
        let Some(reason) = reason else { return };
        if !self.shared.is_busy.swap(true, Relaxed) {
            notice::warn(format!(
                "{} refuses {method} for now, and is asked again for up to {} s: {reason}",
                self.address(),
                self.shared.options.busy_timeout.as_secs()
            ));
        }
    }

    /// Why there is no connection, if the last attempt failed or the last connection was lost. Without the address.
    pub fn last_error(&self) -> Option<String> {
        self.last_failure().map(|failure| failure.to_string())
    }

    fn last_failure(&self) -> Option<Failure> {
        match &*self.shared.state.borrow() {
            State::Idle(reason) | State::Connecting { last: reason, .. } => reason.clone(),
            State::Failed { reason, .. } => Some(reason.clone()),
            State::Ready(_) => None,
        }
    }

    /// Whether there is a connection at the moment.
    pub fn is_connected(&self) -> bool {
        matches!(*self.shared.state.borrow(), State::Ready(_))
    }

    /// What went through so far.
    pub fn stats(&self) -> ChannelStats {
        ChannelStats {
            bytes_sent: self.shared.traffic.sent_bytes.load(Relaxed),
            bytes_received: self.shared.traffic.received_bytes.load(Relaxed),
            calls_outstanding: self.shared.calls.load(Relaxed),
        }
    }

    #[cold]
    fn missed_deadline(&self, method: &str) -> Status {
        let address = self.address();
        let reason = match (self.is_connected(), self.last_failure()) {
            (true, _) => "it did not answer in time".to_string(),
            (false, Some(reason)) => format!("there was no connection in time: {reason}"),
            (false, None) => "there was no connection in time".to_string(),
        };
        let why = self.last_failure().and_then(|failure| failure.unreachable());
        Status::deadline_exceeded(format!("{address}: {reason} ({method})")).with_unreachable(why)
    }

    /// A connection that takes calls, made now if there is none.
    async fn connected(&self, wait_for_ready: bool) -> Result<(Arc<Connection>, SendRequest<Bytes>)> {
        loop {
            let state = self.shared.state.borrow().clone();
            match state {
                State::Ready(connection) => match connection.sender().await {
                    Some(sender) => return Ok((connection, sender)),
                    // The peer takes no more calls on it; those that run may finish.
                    None => {
                        self.shared
                            .forget(&connection, Failure::new("the connection was closed by the peer"));
                    }
                },
                State::Idle(_) => self.start_connecting(),
                State::Failed { retry_at, .. } if retry_at <= self.shared.options.clock.now() => {
                    self.start_connecting()
                }
                State::Failed { reason, .. } if !wait_for_ready => {
                    let status = Status::unavailable(format!("{}: {reason}", self.address()));
                    return Err(status.with_unreachable(reason.unreachable()));
                }
                State::Failed { retry_at, .. } => {
                    let now = self.shared.options.clock.now();
                    tokio::time::sleep(retry_at.saturating_duration_since(now)).await;
                }
                State::Connecting { .. } => {
                    let mut states = self.shared.state.subscribe();
                    // Cannot fail: the sender is in `self`.
                    let _ = states.wait_for(|state| !matches!(state, State::Connecting { .. })).await;
                }
            }
        }
    }

    /// Starts an attempt to connect, unless one is under way.
    fn start_connecting(&self) {
        let started = self.shared.state.send_if_modified(|state| {
            let (last, failures) = match state {
                State::Idle(reason) => (reason.take(), 0),
                State::Failed { reason, failures, .. } => (Some(reason.clone()), *failures),
                State::Connecting { .. } | State::Ready(_) => return false,
            };
            *state = State::Connecting { last, failures };
            true
        });
        if started {
            let mut tasks = self.tasks.lock();
            while tasks.try_join_next().is_some() {}
            tasks.spawn(keep_connected(self.shared.clone()));
        }
    }
}

/// A call whose answer has begun.
struct BegunCall {
    connection: Arc<Connection>,
    pending: PendingCall,
    metadata: HeaderMap,
    body: RecvStream,
}

/// Connects, then drives the connection to its end.
async fn keep_connected(shared: Arc<Shared>) {
    let abandoned = AbandonedAttempt(&shared);
    let outcome = {
        let unanswered = |reason| shared.unanswered(reason);
        connection::connect(&shared.address, &shared.options, &shared.traffic, unanswered).await
    };
    std::mem::forget(abandoned);
    match outcome {
        Err(reason) => {
            tracing::debug!("{}: {reason}", shared.address.text);
            shared.failed(reason);
        }
        Ok((connection, driver)) => {
            shared.state.send_replace(State::Ready(connection.clone()));
            let reason = connection::drive(driver, &connection, &shared.options).await;
            tracing::debug!("{}: {reason}", shared.address.text);
            shared.forget(&connection, reason);
        }
    }
}

impl Shared {
    /// Notes that nobody has answered so far: those who ask what is wrong want to know before the attempt is given up.
    fn unanswered(&self, reason: Failure) {
        self.state.send_if_modified(|state| {
            if let State::Connecting { last, .. } = state {
                *last = Some(reason);
            }
            // It is still connecting: nobody waits for this.
            false
        });
    }

    /// Notes that an attempt to connect has failed.
    fn failed(&self, reason: Failure) {
        self.state.send_modify(|state| {
            let failures = match state {
                State::Connecting { failures, .. } => *failures,
                _ => 0,
            };
            let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE);
            *state = State::Failed {
                reason,
                failures: failures.saturating_add(1),
                retry_at: self.options.clock.now() + pause,
            };
        });
    }

    /// Makes no more calls on this connection.
    fn forget(&self, connection: &Arc<Connection>, reason: Failure) {
        self.state.send_if_modified(move |state| match state {
            State::Ready(current) if Arc::ptr_eq(current, connection) => {
                *state = State::Idle(Some(reason));
                true
            }
            _ => false,
        });
    }
}

/// Dropped only if the attempt to connect goes with its runtime: whoever waits for it must not wait for ever.
struct AbandonedAttempt<'a>(&'a Shared);

impl Drop for AbandonedAttempt<'_> {
    fn drop(&mut self) {
        self.0.failed(Failure::new("the attempt to connect was abandoned"));
    }
}

/// Counts a call for as long as it lives.
struct Outstanding<'a>(&'a AtomicU32);

impl<'a> Outstanding<'a> {
    fn new(calls: &'a AtomicU32) -> Outstanding<'a> {
        calls.fetch_add(1, Relaxed);
        Outstanding(calls)
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
