//! One HTTP/2 connection of a channel: how it is made, who drives it, and how its death is noticed.
//!
//! A peer whose machine has vanished sends nothing, not even a refusal, and the kernel takes many minutes to say so.
//! HTTP/2 has pings for this, but gRPC servers close connections that ping without their consent. So while calls are
//! pending on a silent connection, a cheap call is made; if not a single byte comes back, the peer is gone.

use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{MissedTickBehavior, interval, timeout};

use tensorfleet_core::Status;

use super::call::request_head;
use super::watched_stream::{Arrivals, Greeting, Traffic, WatchedStream};
use super::{Address, ChannelOptions};
use crate::frame::{CONNECTION_WINDOW_BYTES, FRAME_BYTES, MAX_RESETS, PREFIX_BYTES, STREAM_WINDOW_BYTES};
use crate::grpc_status;
use crate::local_stream::LocalStream;
use crate::socket::Socket;
use crate::{same_machine, socket_options};

/// An error's message may take three bytes per byte, and servers add details.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// An established connection.
pub(super) struct Connection {
    send: SendRequest<Bytes>,
    address: Arc<Address>,
    arrivals: Arc<Arrivals>,
    pending_calls: AtomicUsize,
    /// Why it was given up, if we did that.
    verdict: OnceLock<String>,
}

/// What drives an established connection.
pub(super) type Driver = h2::client::Connection<WatchedStream, Bytes>;

impl Connection {
    /// A handle to make one call with, or `None` if the connection takes no more calls.
    pub(super) async fn sender(&self) -> Option<SendRequest<Bytes>> {
        self.send.clone().ready().await.ok()
    }

    /// The peer.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Counts a call as pending for as long as the guard lives.
    pub(super) fn begin_call(self: &Arc<Self>) -> PendingCall {
        self.pending_calls.fetch_add(1, Relaxed);
        PendingCall(self.clone())
    }

    /// The status of a call that failed with `error`.
    pub(super) fn failure(&self, method: &str, error: &h2::Error) -> Status {
        let address = &self.address.text;
        if let Some(verdict) = self.verdict.get() {
            return Status::unavailable(format!("{address}: {verdict} ({method})"));
        }
        if error.is_reset()
            && let Some(reason) = error.reason()
        {
            let code = grpc_status::from_reset(reason);
            return Status::new(code, format!("{address} broke {method} off: {reason}"));
        }
        Status::unavailable(format!("{address}: {} ({method})", loss(error)))
    }
}

/// A call that waits for its answer.
pub(super) struct PendingCall(Arc<Connection>);

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.0.pending_calls.fetch_sub(1, Relaxed);
    }
}

/// Why a connection was lost.
fn loss(error: &h2::Error) -> String {
    if error.is_go_away() {
        let reason = error.reason().unwrap_or(h2::Reason::NO_ERROR);
        let who = if error.is_remote() { "the peer" } else { "this side" };
        return format!("the connection was shut down by {who}: {reason}");
    }
    match error.get_io().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset) => {
            "the connection was reset: the task has crashed, or was stopped or restarted".to_string()
        }
        _ => "the connection was closed: the task has stopped or restarted".to_string(),
    }
}

/// Connects and waits until the peer has shown that it speaks HTTP/2. The error says why not, without the address.
pub(super) async fn connect(
    address: &Arc<Address>,
    options: &ChannelOptions,
    traffic: &Arc<Traffic>,
) -> Result<(Arc<Connection>, Driver), String> {
    let stream = match timeout(options.connect_timeout, dial(address)).await {
        Ok(stream) => stream?,
        Err(_) => {
            return Err(format!(
                "no answer to the attempt to connect for {}: the machine is down or a firewall is in between",
                seconds(options.connect_timeout)
            ));
        }
    };
    socket_options::prepare(&stream);
    let arrivals = Arc::new(Arrivals::new());
    let stream = WatchedStream { inner: stream, traffic: traffic.clone(), arrivals: arrivals.clone() };
    match timeout(options.handshake_timeout, greet(stream, &arrivals)).await {
        Ok(Ok((send, driver))) => {
            let connection = Connection {
                send,
                address: address.clone(),
                arrivals,
                pending_calls: AtomicUsize::new(0),
                verdict: OnceLock::new(),
            };
            Ok((Arc::new(connection), driver))
        }
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err(format!(
            "it accepts connections but has been silent for {}: the process hangs, or does not speak HTTP/2",
            seconds(options.handshake_timeout)
        )),
    }
}

async fn dial(address: &Address) -> Result<Socket, String> {
    let found = match lookup_host(&address.text).await {
        Ok(found) => found,
        Err(error) => return Err(format!("the name '{}' does not resolve: {error}", address.host())),
    };
    let mut reason = format!("the name '{}' has no address", address.host());
    for socket in found {
        if let Some(stream) = same_machine::dial(socket).and_then(|stream| LocalStream::new(stream).ok()) {
            return Ok(Socket::SameMachine(Arc::new(stream)));
        }
        match TcpStream::connect(socket).await {
            Ok(stream) => return Ok(stream.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                reason =
                    "connection refused: nothing listens there; is the task started, and the port right?"
                        .into();
            }
            Err(error) => reason = format!("cannot connect: {error}"),
        }
    }
    Err(reason)
}

/// Exchanges HTTP/2's first frames.
async fn greet(stream: WatchedStream, arrivals: &Arrivals) -> Result<(SendRequest<Bytes>, Driver), String> {
    let closed = "it closed the connection before a greeting: it does not speak HTTP/2, or is shutting down";
    let handshake = h2::client::Builder::new()
        .max_frame_size(FRAME_BYTES)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_concurrent_reset_streams(MAX_RESETS)
        .max_local_error_reset_streams(Some(MAX_RESETS))
        .enable_push(false)
        .handshake(stream);
    let (send, mut driver) = handshake.await.map_err(|_| closed.to_string())?;
    let ended = tokio::select! {
        // First, so that what has arrived is known before the end of the connection.
        biased;
        _ = &mut driver => true,
        () = arrivals.greeting.notified() => false,
    };
    match arrivals.greeting() {
        Greeting::Http2 if !ended => Ok((send, driver)),
        Greeting::Http2 | Greeting::Incomplete => Err(closed.to_string()),
        Greeting::Http1 => {
            Err("it answers in HTTP/1, not in HTTP/2: is this a web server or a proxy?".to_string())
        }
        Greeting::Other(first) => {
            Err(format!("it answers, but not in HTTP/2 (first bytes: {:?})", String::from_utf8_lossy(&first)))
        }
    }
}

/// Drives a connection to its end and says how it ended.
pub(super) async fn drive(mut driver: Driver, connection: &Connection, options: &ChannelOptions) -> String {
    let mut liveness = Liveness { connection, options, probe: None };
    let mut ticks =
        interval((options.probe_after.min(options.probe_timeout) / 4).max(Duration::from_millis(5)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // First, so that after a pause of this process what has arrived is seen before silence is judged.
            biased;
            result = &mut driver => return match result {
                Ok(()) => "the connection was closed by the peer".to_string(),
                Err(error) => loss(&error),
            },
            _ = ticks.tick() => if let Some(verdict) = liveness.check(Instant::now()) {
                return connection.verdict.get_or_init(|| verdict).clone();
            },
        }
    }
}

/// Watches a connection's silence.
struct Liveness<'a> {
    connection: &'a Connection,
    options: &'a ChannelOptions,
    probe: Option<Probe>,
}

struct Probe {
    sent: Instant,
    /// Kept so that the call is not cancelled; its answer is of no interest.
    _answer: Option<ResponseFuture>,
}

impl Liveness<'_> {
    /// Sends a probe if it is time for one; the verdict if the peer is gone.
    fn check(&mut self, now: Instant) -> Option<String> {
        let last = self.connection.arrivals.last();
        if let Some(probe) = &self.probe {
            if last <= probe.sent {
                let silence = now.saturating_duration_since(last);
                return (now.saturating_duration_since(probe.sent) >= self.options.probe_timeout).then(
                    || format!("not a byte for {}: the machine or the network is down", seconds(silence)),
                );
            }
            self.probe = None;
        }
        let is_waiting = self.connection.pending_calls.load(Relaxed) > 0;
        if is_waiting && now.saturating_duration_since(last) >= self.options.probe_after {
            self.probe = Some(Probe { sent: now, _answer: self.send_probe() });
        }
        None
    }

    fn send_probe(&self) -> Option<ResponseFuture> {
        let head = request_head(&self.connection.address, &self.options.probe_method, None, &[]).ok()?;
        let (answer, mut body) = self.connection.send.clone().send_request(head, false).ok()?;
        body.send_data(Bytes::from_static(&[0; PREFIX_BYTES]), true).ok()?;
        Some(answer)
    }
}

/// A duration for people.
fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(10) && duration.subsec_millis() != 0 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} s", duration.as_secs())
    }
}
