//! One HTTP/2 connection of a channel: how it is made, who drives it, and how its death is noticed.
//!
//! A peer whose machine has vanished sends nothing, not even a refusal, and the kernel takes many minutes to say so.
//! HTTP/2 has pings for this, but gRPC servers close connections that ping without their consent. So while calls are
//! pending on a silent connection, a cheap call is made; if not a single byte comes back, the peer is gone.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{MissedTickBehavior, interval, timeout};

use tensorfleet_core::{Status, Unreachable};

use super::liveness::{Liveness, Silence};
use super::request_head::request_head;
use super::watched_stream::{Arrivals, Preface, Traffic, WatchedStream};
use super::{Address, ChannelOptions};
use crate::frame::{CONNECTION_WINDOW_BYTES, FRAME_BYTES, MAX_RESETS, PREFIX_BYTES, STREAM_WINDOW_BYTES};
use crate::grpc_status;
use crate::transport::local_stream::LocalStream;
use crate::transport::socket::Socket;
use crate::transport::{same_machine, socket_options};

/// An error's message may take three bytes per byte, and servers add details.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// An established connection.
pub(super) struct Connection {
    send: SendRequest<Bytes>,
    address: Arc<Address>,
    arrivals: Arc<Arrivals>,
    pending_calls: AtomicUsize,
    /// Why it was given up, if we did that.
    given_up: OnceLock<Failure>,
}

/// Why there is no connection, for people and for programs.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    text: Arc<str>,
    unreachable: Option<Unreachable>,
}

impl Failure {
    pub(super) fn new(text: impl Into<Arc<str>>) -> Failure {
        Failure { text: text.into(), unreachable: None }
    }

    fn with(text: impl Into<Arc<str>>, why: Unreachable) -> Failure {
        Failure { text: text.into(), unreachable: Some(why) }
    }

    /// What it says about the peer, if that is known.
    pub(super) fn unreachable(&self) -> Option<Unreachable> {
        self.unreachable
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
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

    fn send_probe(&self, method: &str) -> Option<ResponseFuture> {
        let head = request_head(&self.address, method, None, &[]).ok()?;
        let (answer, mut body) = self.send.clone().send_request(head, false).ok()?;
        body.send_data(Bytes::from_static(&[0; PREFIX_BYTES]), true).ok()?;
        Some(answer)
    }

    /// The status of a call that failed with `error`.
    pub(super) fn failure(&self, method: &str, error: &h2::Error) -> Status {
        let address = &self.address.text;
        if let Some(failure) = self.given_up.get() {
            return Status::unavailable(format!("{address}: {failure} ({method})"));
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
) -> Result<(Arc<Connection>, Driver), Failure> {
    let stream = match timeout(options.connect_timeout, dial(address)).await {
        Ok(stream) => stream?,
        Err(_) => {
            return Err(Failure::new(format!(
                "no answer to the attempt to connect for {}: the machine is down or a firewall is in between",
                seconds(options.connect_timeout)
            )));
        }
    };
    socket_options::prepare(&stream);
    let arrivals = Arc::new(Arrivals::new(options.clock.clone()));
    let stream = WatchedStream { inner: stream, traffic: traffic.clone(), arrivals: arrivals.clone() };
    match timeout(options.handshake_timeout, handshake(stream, &arrivals)).await {
        Ok(Ok((send, driver))) => {
            let connection = Connection {
                send,
                address: address.clone(),
                arrivals,
                pending_calls: AtomicUsize::new(0),
                given_up: OnceLock::new(),
            };
            Ok((Arc::new(connection), driver))
        }
        Ok(Err(reason)) => Err(Failure::new(reason)),
        Err(_) => {
            let silence = seconds(options.handshake_timeout);
            let text = format!(
                "it accepts connections but has been silent for {silence}: the process hangs, or does not speak HTTP/2"
            );
            Err(Failure::with(text, Unreachable::Silent))
        }
    }
}

async fn dial(address: &Address) -> Result<Socket, Failure> {
    let found = match lookup_host(&address.text).await {
        Ok(found) => found,
        Err(error) => {
            let text = format!("the name '{}' does not resolve: {error}", address.host());
            return Err(Failure::with(text, Unreachable::Unresolved));
        }
    };
    let mut reason = Failure::new(format!("the name '{}' has no address", address.host()));
    for socket in found {
        if let Some(stream) = same_machine::dial(socket).and_then(|stream| LocalStream::new(stream).ok()) {
            return Ok(Socket::SameMachine(Arc::new(stream)));
        }
        match TcpStream::connect(socket).await {
            Ok(stream) => return Ok(stream.into()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let text =
                    "connection refused: nothing listens there; is the task started, and the port right?";
                reason = Failure::with(text, Unreachable::Refused);
            }
            Err(error) => reason = Failure::new(format!("cannot connect: {error}")),
        }
    }
    Err(reason)
}

/// Exchanges HTTP/2's prefaces.
async fn handshake(
    stream: WatchedStream,
    arrivals: &Arrivals,
) -> Result<(SendRequest<Bytes>, Driver), String> {
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
        () = arrivals.preface_arrived.notified() => false,
    };
    match arrivals.preface() {
        Preface::Http2 if !ended => Ok((send, driver)),
        Preface::Http2 | Preface::Incomplete => Err(closed.to_string()),
        Preface::Http1 => {
            Err("it answers in HTTP/1, not in HTTP/2: is this a web server or a proxy?".to_string())
        }
        Preface::Other(first) => {
            Err(format!("it answers, but not in HTTP/2 (first bytes: {:?})", String::from_utf8_lossy(&first)))
        }
    }
}

/// Drives a connection to its end and says how it ended.
pub(super) async fn drive(mut driver: Driver, connection: &Connection, options: &ChannelOptions) -> Failure {
    let mut liveness = Liveness::new(options.probe_after, options.probe_timeout);
    // Kept so that the probe is not cancelled; its answer is of no interest.
    let mut _probe = None;
    let mut ticks =
        interval((options.probe_after.min(options.probe_timeout) / 4).max(Duration::from_millis(5)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // First, so that after a pause of this process what has arrived is seen before silence is looked at.
            biased;
            result = &mut driver => return match result {
                Ok(()) => Failure::new("the connection was closed by the peer"),
                Err(error) => Failure::new(loss(&error)),
            },
            _ = ticks.tick() => {
                let is_waiting = connection.pending_calls.load(Relaxed) > 0;
                match liveness.look(options.clock.now(), connection.arrivals.last(), is_waiting) {
                    Silence::Bearable => {}
                    Silence::NeedsProbe => _probe = connection.send_probe(&options.probe_method),
                    Silence::TooLong(silence) => {
                        let silence = seconds(silence);
                        let text = format!("not a byte for {silence}: the machine or the network is down");
                        return connection.given_up.get_or_init(|| Failure::new(text)).clone();
                    }
                }
            }
        }
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
