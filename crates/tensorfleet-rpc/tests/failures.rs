//! Peers that are absent, silent, strange or killed: every failure has a name, and nothing waits for ever.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

mod harness;

use std::time::{Duration, Instant};

use harness::{TestServer, channel, echo_server};
use tensorfleet_core::{Code, Status};
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Parts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ECHO: &str = "/tensorflow.WorkerService/Echo";
const WAIT: &str = "/tensorflow.WorkerService/Wait";

fn impatient() -> ChannelOptions {
    ChannelOptions {
        connect_timeout: Duration::from_secs(5),
        handshake_timeout: Duration::from_millis(300),
        probe_after: Duration::from_millis(200),
        probe_timeout: Duration::from_millis(300),
        ..Default::default()
    }
}

async fn failure(channel: &Channel, method: &str, options: CallOptions<'_>) -> Status {
    channel.call(method, Parts::empty(), options).await.map(|_| ()).unwrap_err()
}

/// Calls a peer and expects UNAVAILABLE with these words, in the status and as the channel's last error.
async fn check_unavailable(address: &str, words: &str) {
    let channel = Channel::new(address, impatient()).unwrap();
    let status = failure(&channel, ECHO, CallOptions::default()).await;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.text().contains(words) && status.text().contains(address), "{status}");
    assert!(channel.last_error().unwrap().contains(words));
    assert!(!channel.is_connected());
}

/// A peer that does `behave` with every connection.
async fn peer<F: Future<Output = ()> + Send>(
    behave: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            behave(stream).await;
        }
    });
    address
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn a_port_without_listener_refuses() {
    check_unavailable(&format!("127.0.0.1:{}", free_port()), "connection refused").await;
}

#[tokio::test]
async fn an_unknown_name_does_not_resolve() {
    check_unavailable("no-such-host.invalid:2222", "does not resolve").await;
}

#[tokio::test]
async fn nonsense_is_no_address() {
    for address in ["", "host", "host:", "host:port", "a b:1", "grpc://host:1", "user@host:1"] {
        assert!(Channel::new(address, ChannelOptions::default()).is_err(), "{address}");
    }
    assert!(Channel::new("[::1]:2222", ChannelOptions::default()).is_ok());
}

#[tokio::test]
async fn a_web_server_is_recognised() {
    let address = peer(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    check_unavailable(&address.await, "HTTP/1").await;
}

#[tokio::test]
async fn garbage_is_recognised() {
    let address = peer(|mut stream| async move {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").await;
        let _ = stream.read(&mut [0; 1000]).await;
    });
    check_unavailable(&address.await, "not in HTTP/2").await;
}

#[tokio::test]
async fn a_peer_that_hangs_up_is_recognised() {
    check_unavailable(&peer(|stream| async move { drop(stream) }).await, "before a greeting").await;
}

#[tokio::test]
async fn a_silent_peer_is_recognised() {
    let address = peer(|mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    check_unavailable(&address.await, "silent").await;
}

#[tokio::test]
async fn a_peer_that_vanishes_during_a_call_is_declared_dead() {
    // Greets like an HTTP/2 server, then never sends a byte again.
    let address = peer(|mut stream| async move {
        let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let channel = Channel::new(&address, impatient()).unwrap();
    let started = Instant::now();
    let status = failure(&channel, WAIT, CallOptions::default()).await;
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.text().contains("not a byte for") && status.text().contains(&address), "{status}");
    assert!(started.elapsed() < Duration::from_secs(25));
}

#[tokio::test]
async fn a_slow_call_to_a_living_peer_is_not_declared_dead() {
    let server = echo_server();
    let address = format!("127.0.0.1:{}", server.port);
    let options = ChannelOptions { probe_method: ECHO.to_string(), ..impatient() };
    let channel = Channel::new(&address, options).unwrap();
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let status = failure(&channel, WAIT, CallOptions { deadline, ..Default::default() }).await;
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert_eq!(server.connections_seen(), 1);
}

#[tokio::test]
async fn a_server_killed_during_a_call_makes_it_fail_and_a_new_one_is_found() {
    let server = echo_server();
    let (port, channel) = (server.port, channel(&server));
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { failure(&channel, WAIT, CallOptions::default()).await }
    });
    server.calls_wait(1).await;
    server.kill().await;
    let status = waiting.await.unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.text().contains("closed") || status.text().contains("reset"), "{status}");

    assert_eq!(failure(&channel, ECHO, CallOptions::default()).await.code(), Code::Unavailable, "fails fast");
    let server = TestServer::start(port, Vec::new());
    let options = CallOptions {
        wait_for_ready: true,
        deadline: Some(Instant::now() + Duration::from_secs(10)),
        ..Default::default()
    };
    channel.call(ECHO, Parts::empty(), options).await.unwrap();
    assert_eq!(channel.last_error(), None);
    drop(server);
}

#[tokio::test]
async fn a_waiting_call_finds_a_server_that_starts_late() {
    let port = free_port();
    let channel = Channel::new(&format!("127.0.0.1:{port}"), ChannelOptions::default()).unwrap();
    let waiting = tokio::spawn({
        let channel = channel.clone();
        let options = CallOptions { wait_for_ready: true, ..Default::default() };
        async move { channel.call(ECHO, Parts::empty(), options).await.map(|_| ()) }
    });
    while channel.last_error().is_none() {
        tokio::task::yield_now().await;
    }
    assert!(channel.last_error().unwrap().contains("connection refused"));
    let _server = TestServer::start(port, Vec::new());
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_waiting_call_gives_up_at_its_deadline_and_says_what_it_waited_for() {
    let channel = Channel::new(&format!("127.0.0.1:{}", free_port()), ChannelOptions::default()).unwrap();
    let deadline = Some(Instant::now() + Duration::from_millis(200));
    let options = CallOptions { wait_for_ready: true, deadline, ..Default::default() };
    let status = failure(&channel, ECHO, options).await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.text().contains("connection refused"), "{status}");
}

#[tokio::test]
async fn a_server_that_stops_lets_running_calls_finish_and_takes_no_new_ones() {
    let mut server = echo_server();
    let channel = channel(&server);
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { channel.call(WAIT, Parts::empty(), CallOptions::default()).await.map(|_| ()) }
    });
    server.calls_wait(1).await;
    server.begin_stop();
    let deadline = Instant::now() + Duration::from_secs(10);
    while channel.is_connected() && Instant::now() < deadline {
        let _ = channel.call(ECHO, Parts::empty(), CallOptions::default()).await;
    }
    assert_eq!(failure(&channel, ECHO, CallOptions::default()).await.code(), Code::Unavailable);
    server.release();
    waiting.await.unwrap().unwrap();
    server.stopped().await;
}

#[tokio::test]
async fn the_same_port_serves_pages_over_http_1() {
    let server = echo_server();
    let get = async |request: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let page = get("GET /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.ends_with("\r\n\r\n{\"ok\":true}"), "{page}");
    let missing = get("GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
    let post =
        get("POST /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
    assert!(post.starts_with("HTTP/1.1 405"), "{post}");
}
