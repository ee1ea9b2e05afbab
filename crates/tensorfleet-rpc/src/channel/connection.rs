//! One HTTP/2 connection of a channel: how it is made, who drives it, and how its death is noticed.
//!
//! A peer whose machine has vanished sends nothing, not even a refusal, and the kernel takes many minutes to say so.
//! HTTP/2 has pings for this, but gRPC servers close connections that ping without their consent. So while calls are
//! pending on a silent connection, a cheap call is made; if not a single byte comes back, the peer is gone.

use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::HeaderMap;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{MissedTickBehavior, interval, timeout};

use tensorfleet_core::{Result, Status, Unreachable};

use super::liveness::{Liveness, Silence};
use super::request_head::{self, request_head};
use super::watched_stream::{Arrivals, Preface, Traffic, WatchedStream};
use super::{Address, ChannelOptions};
use crate::frame::{CONNECTION_WINDOW_BYTES, FRAME_BYTES, MAX_RESETS, PREFIX_BYTES, STREAM_WINDOW_BYTES};
use crate::grpc_status;
use crate::transport::local_stream::LocalStream;
use crate::transport::network::Network;
use crate::transport::socket::Socket;
use crate::transport::{same_machine, socket_options};

/// An error's message may take three bytes per byte, and servers add details.
const MAX_HEADER_BYTES: u32 = 64 << 10;
/// An attempt to connect that nobody answers makes room for another after this long. Within one the system asks less and less
/// often, and would be late to find a peer that is back.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);

/// An established connection.
pub(super) struct Connection {
    send: SendRequest<Bytes>,
    address: Arc<Address>,
    arrivals: Arc<Arrivals>,
    pending_calls: AtomicUsize,
    /// Headers that tell who calls, and whether they have been sent.
    introduction: Arc<[(String, String)]>,
    is_introduced: AtomicBool,
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

    /// Adds the headers that tell who calls to those of the first call.
    pub(super) fn introduce(&self, headers: &mut HeaderMap) -> Result<()> {
        if self.is_introduced.load(Relaxed) || self.is_introduced.swap(true, Relaxed) {
            return Ok(());
        }
        for (name, value) in &*self.introduction {
            request_head::put(headers, name, value)?;
        }
        Ok(())
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
        let status = Status::unavailable(format!("{address}: {} ({method})", loss(error)));
        // A peer that closes a connection in peace names the last call that it has looked at; only those after it, and
        // those that were not sent, fail with this.
        let is_untouched =
            error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
        if is_untouched { status.busy() } else { status }
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

/// Connects and waits until the peer has shown that it speaks HTTP/2. The error says why not, without the address; `unanswered`
/// hears of attempts that nobody has answered so far.
pub(super) async fn connect(
    address: &Arc<Address>,
    options: &ChannelOptions,
    traffic: &Arc<Traffic>,
    unanswered: impl Fn(Failure),
) -> Result<(Arc<Connection>, Driver), Failure> {
    let dial = || dial(address, options.network.as_deref());
    let stream = dial_patiently(options.connect_timeout, LONGEST_ATTEMPT, dial, &unanswered).await?;
    socket_options::prepare(&stream);
    let arrivals = Arc::new(Arrivals::new(options.clock.clone()));
    let stream = WatchedStream { inner: stream, traffic: traffic.clone(), arrivals: arrivals.clone() };
    let greeted =
        greet_patiently(options.handshake_timeout, handshake(stream, &arrivals), unanswered).await?;
    let (send, driver) = greeted.map_err(Failure::new)?;
    let connection = Connection {
        send,
        address: address.clone(),
        arrivals,
        pending_calls: AtomicUsize::new(0),
        introduction: options.introduction.clone(),
        is_introduced: AtomicBool::new(options.introduction.is_empty()),
        given_up: OnceLock::new(),
    };
    Ok((Arc::new(connection), driver))
}

/// Waits for the other end's greeting for `patience`.
async fn greet_patiently<T>(
    patience: Duration,
    greeting: impl Future<Output = T>,
    unanswered: impl Fn(Failure),
) -> Result<T, Failure> {
    let mut greeting = pin!(greeting);
    let mut waited = Duration::ZERO;
    loop {
        let part = LONGEST_ATTEMPT.min(patience.saturating_sub(waited));
        if let Ok(greeted) = timeout(part, &mut greeting).await {
            return Ok(greeted);
        }
        waited += part;
        let silence = seconds(waited);
        let text = format!(
            "it accepts connections but has been silent for {silence}: the process hangs, or does not speak HTTP/2"
        );
        let failure = Failure::with(text, Unreachable::Silent);
        if waited >= patience {
            return Err(failure);
        }
        unanswered(failure);
    }
}

/// Dials until somebody answers, be it with a refusal, or for `patience`.
async fn dial_patiently<T, D: Future<Output = Result<T, Failure>>>(
    patience: Duration,
    longest_attempt: Duration,
    dial: impl Fn() -> D,
    unanswered: impl Fn(Failure),
) -> Result<T, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let attempt = longest_attempt.min(patience.saturating_sub(waited));
        if let Ok(answer) = timeout(attempt, dial()).await {
            return answer;
        }
        waited += attempt;
        let failure = Failure::new(format!(
            "no answer to the attempt to connect for {}: the machine is down or a firewall is in between",
            seconds(waited)
        ));
        if waited >= patience {
            return Err(failure);
        }
        unanswered(failure);
    }
}

async fn dial(address: &Address, network: Option<&dyn Network>) -> Result<Socket, Failure> {
    match network {
        Some(network) => network.connect(&address.text).await.map(Socket::Other).map_err(not_connected),
        None => dial_socket(address).await,
    }
}

async fn dial_socket(address: &Address) -> Result<Socket, Failure> {
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
            Err(error) => reason = not_connected(error),
        }
    }
    Err(reason)
}

fn not_connected(error: io::Error) -> Failure {
    if error.kind() != io::ErrorKind::ConnectionRefused {
        return Failure::new(format!("cannot connect: {error}"));
    }
    let text = "connection refused: nothing listens there; is the task started, and the port right?";
    Failure::with(text, Unreachable::Refused)
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const ATTEMPT: Duration = Duration::from_millis(20);

    /// Dials a peer that answers this attempt with `answer` and none before; what came of it, how many attempts were made, and
    /// what was heard meanwhile.
    async fn dialled(
        patience: Duration,
        answered: u32,
        answer: Result<(), Failure>,
    ) -> (Result<(), String>, u32, Vec<String>) {
        let (attempts, heard) = (Cell::new(0), RefCell::new(Vec::new()));
        let dial = || {
            attempts.set(attempts.get() + 1);
            let answer = (attempts.get() == answered).then(|| answer.clone());
            async move {
                match answer {
                    Some(answer) => answer,
                    None => std::future::pending().await,
                }
            }
        };
        let hear = |failure: Failure| heard.borrow_mut().push(failure.to_string());
        let result = dial_patiently(patience, ATTEMPT, dial, hear).await;
        (result.map_err(|failure| failure.to_string()), attempts.get(), heard.into_inner())
    }

    #[tokio::test]
    async fn a_peer_that_is_silent_for_a_while_is_dialled_again() {
        let (result, attempts, heard) = dialled(ATTEMPT * 10, 3, Ok(())).await;
        assert_eq!((result, attempts, heard.len()), (Ok(()), 3, 2));
        assert!(heard[0].contains("no answer"), "{heard:?}");
    }

    #[tokio::test]
    async fn a_refusal_ends_it_at_once_and_silence_when_patience_does() {
        let (result, attempts, _) = dialled(ATTEMPT * 10, 1, Err(Failure::new("refused"))).await;
        assert_eq!((result, attempts), (Err("refused".to_string()), 1));
        let (result, attempts, heard) = dialled(ATTEMPT * 5 / 2, 9, Ok(())).await;
        assert!(result.as_ref().is_err_and(|reason| reason.contains("no answer")), "{result:?}");
        assert_eq!((attempts, heard.len()), (3, 2));
    }
}
