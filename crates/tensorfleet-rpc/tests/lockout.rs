//! Clients that take what they can: the others are served, and what is taken comes back.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

mod harness;

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use h2::client::SendRequest;
use harness::{TestServer, channel, echo_server};
use tensorfleet_core::Code;
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Ending, Limits, Parts, PartsBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ECHO: &str = "/tensorflow.WorkerService/Echo";
const WAIT: &str = "/tensorflow.WorkerService/Wait";
const VITAL: &str = "/tensorflow.WorkerService/Vital";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const MB: usize = 1 << 20;
const SOON: Duration = Duration::from_secs(20);

async fn tcp(server: &TestServer) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.port)).await.unwrap()
}

/// Reads until the server closes the connection.
async fn until_closed(mut stream: TcpStream) {
    let read = async { while stream.read(&mut [0; 1000]).await.is_ok_and(|count| count > 0) {} };
    tokio::time::timeout(SOON, read).await.expect("the server closes the connection");
}

async fn h2(server: &TestServer) -> SendRequest<Bytes> {
    let (send, driver) = h2::client::handshake(tcp(server).await).await.unwrap();
    tokio::spawn(driver);
    send
}

async fn echo(channel: &Channel, len: usize) -> tensorfleet_core::Result<usize> {
    let mut message = PartsBuilder::with_capacity(0);
    message.put_shared(Bytes::from(vec![7; len]));
    channel.call(ECHO, message.finish(), CallOptions::default()).await.map(|answer| answer.message.len())
}

/// Eventually holds, or the test fails.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn connections_without_any_request_are_closed_and_others_stay() {
    let timeout = Duration::from_millis(300);
    let server = TestServer::limited(Limits { first_request_timeout: timeout, ..Limits::default() });
    let used = channel(&server);
    echo(&used, 10).await.unwrap();
    let silent = tcp(&server).await;
    let mut preface_only = tcp(&server).await;
    preface_only.write_all(PREFACE).await.unwrap();
    tokio::join!(until_closed(silent), until_closed(preface_only));
    echo(&used, 10).await.unwrap();
    assert_eq!(server.connections_seen(), 1, "the one in use was not closed");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_no_call_notices() {
    let idle_timeout = Duration::from_millis(200);
    let server = TestServer::limited(Limits { idle_timeout, ..Limits::default() });
    let channel = channel(&server);
    echo(&channel, 10).await.unwrap();
    let first = server.last_connection();
    eventually("the connection is closed", || !channel.is_connected()).await;
    first.closed().await;
    assert_eq!(first.ending(), Some(Ending::ByServer), "its client is not taken for dead");
    // Calls at all moments around the next ends of connections: each is answered.
    for pause in (0..30).map(|step| idle_timeout.mul_f64(0.8 + f64::from(step) * 0.02)) {
        echo(&channel, 10).await.unwrap();
        tokio::time::sleep(pause).await;
    }
    assert!(server.connections_seen() > 2);
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { channel.call(WAIT, Parts::empty(), CallOptions::default()).await.map(|_| ()) }
    });
    server.calls_wait(1).await;
    tokio::time::sleep(idle_timeout * 3).await;
    server.release();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn when_connections_are_too_many_the_idle_ones_make_room() {
    let server = TestServer::limited(Limits { max_connections: 8, ..Limits::default() });
    let busy = channel(&server);
    let waiting = tokio::spawn({
        let busy = busy.clone();
        async move { busy.call(WAIT, Parts::empty(), CallOptions::default()).await.map(|_| ()) }
    });
    server.calls_wait(1).await;
    let idle: Vec<TcpStream> = futures_util::future::join_all((0..40).map(|_| tcp(&server))).await;
    let mut closed = tokio::task::JoinSet::new();
    for stream in idle {
        closed.spawn(until_closed(stream));
    }
    for _ in 0..30 {
        closed.join_next().await.unwrap().unwrap();
    }
    echo(&channel(&server), 10).await.unwrap();
    server.release();
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_has_one_descriptor_on_each_side() {
    let server = echo_server();
    echo(&channel(&server), 10).await.unwrap();
    // By TCP: by the shorter way it was one already.
    let mut first = h2(&server).await;
    drop(first.send_request(http::Request::get("http://x/status").body(()).unwrap(), true).unwrap());
    eventually("descriptors are at rest", || descriptors() == descriptors()).await;
    let before = descriptors();
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut client = h2(&server).await;
        let request = http::Request::get("http://x/status").body(()).unwrap();
        client.send_request(request, true).unwrap().0.await.unwrap();
        clients.push(client);
    }
    let each = (descriptors() - before) as f64 / 50.0;
    // Tests of this file run beside each other.
    assert!(each < 2.7, "{each} descriptors for the two ends of a connection");
}

#[tokio::test]
async fn half_sent_messages_take_next_to_nothing_and_are_given_up() {
    let limits = Limits { stall_timeout: Duration::from_millis(1500), ..Limits::pending_bytes(256 * MB) };
    let server = TestServer::limited(limits);
    let mut held = Vec::new();
    for announced in [150 * MB as u32, 10 * MB as u32, MB as u32] {
        for _ in 0..15 {
            let mut send = h2(&server).await;
            let request = http::Request::post(format!("http://server{ECHO}"))
                .header("content-type", "application/grpc")
                .body(())
                .unwrap();
            let (response, mut body) = send.send_request(request, false).unwrap();
            let mut bytes = vec![0];
            bytes.extend(announced.to_be_bytes());
            bytes.extend([7; 17_000]);
            body.send_data(bytes.into(), false).unwrap();
            held.push((response, body, send));
        }
    }
    // All that was announced would be ten times the limit.
    let channel = Channel::new(
        &format!("127.0.0.1:{}", server.port),
        ChannelOptions { busy_timeout: Duration::ZERO, ..ChannelOptions::default() },
    )
    .unwrap();
    assert_eq!(echo(&channel, 10).await.unwrap(), 10);
    assert_eq!(echo(&channel, 100 * MB).await.unwrap(), 100 * MB);
    for (response, _body, _send) in held {
        let answer = tokio::time::timeout(SOON, response).await.unwrap().unwrap();
        assert_eq!(answer.headers()["grpc-status"], "4");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_for_now_is_made_again_until_there_is_room() {
    let server = TestServer::limited(Limits::pending_bytes(4 * MB));
    let (hoarder, other) = (channel(&server), channel(&server));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let hoarder = hoarder.clone();
        waiting.spawn(
            async move { hoarder.call(WAIT, Parts::empty(), CallOptions::default()).await.map(|_| ()) },
        );
    }
    // Each takes 16 KiB: not all of them fit.
    eventually("the server is full", || server.waiting() > 150).await;
    let refused = {
        let options = ChannelOptions { busy_timeout: Duration::ZERO, ..ChannelOptions::default() };
        let impatient = Channel::new(&format!("127.0.0.1:{}", server.port), options).unwrap();
        echo(&impatient, MB).await.unwrap_err()
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    other.call(VITAL, Parts::empty(), CallOptions::default()).await.unwrap();
    let asked_again = tokio::spawn(async move { echo(&other, MB).await });
    server.release();
    assert_eq!(asked_again.await.unwrap().unwrap(), MB);
    while let Some(answer) = waiting.join_next().await {
        answer.unwrap().unwrap();
    }
}

#[tokio::test]
async fn what_can_never_fit_is_refused_at_once() {
    let server = TestServer::limited(Limits::pending_bytes(4 * MB));
    let started = Instant::now();
    let refused = echo(&channel(&server), 5 * MB).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.text().contains("--max-pending-mb"), "{refused}");
    assert!(started.elapsed() < SOON);
}

#[tokio::test]
async fn grpc_is_refused_by_http_1_and_pages_are_not() {
    let server = echo_server();
    let ask = async |request: String| {
        let mut stream = tcp(&server).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let call = format!(
        "POST {ECHO} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/grpc\r\n\
         content-length: 5\r\n\r\n\0\0\0\0\0"
    );
    let refused = ask(call).await;
    assert!(refused.starts_with("HTTP/1.1 505"), "{refused}");
    assert_eq!(server.connections_seen(), 0, "no handler has seen it");
    let page = ask("GET /status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_string()).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

/// How many of `calls` answers of `len` bytes come to a client that reads none of them.
async fn answers_to_one_who_does_not_read(server: &TestServer, len: usize, calls: usize) -> usize {
    // A window of next to nothing: answers stay where they are.
    let (mut send, driver) = h2::client::Builder::new()
        .initial_window_size(1000)
        .handshake::<_, Bytes>(tcp(server).await)
        .await
        .unwrap();
    tokio::spawn(driver);
    let mut unread = Vec::new();
    for _ in 0..calls {
        let request = http::Request::post(format!("http://server{ECHO}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        send = send.ready().await.unwrap();
        let (response, mut body) = send.send_request(request, false).unwrap();
        let mut bytes = vec![0];
        bytes.extend((len as u32).to_be_bytes());
        bytes.resize(5 + len, 7);
        body.send_data(bytes.into(), true).unwrap();
        unread.push(response);
    }
    let mut unread: FuturesUnordered<_> = unread.into_iter().collect();
    let mut held = Vec::new();
    let quiet = Duration::from_secs(3);
    while !unread.is_empty() {
        let patience = if held.is_empty() { SOON } else { quiet };
        match tokio::time::timeout(patience, unread.next()).await {
            Ok(answer) => held.push(answer.unwrap().unwrap()),
            Err(_) => break,
        }
    }
    held.len()
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_waits_and_others_do_not() {
    let server = echo_server();
    // Sixteen of them are the share of a connection; the others wait.
    let count = answers_to_one_who_does_not_read(&server, 4 * MB, 40).await;
    assert!((8..=20).contains(&count), "{count} answers are held");
    // Small ones count as well.
    let count = answers_to_one_who_does_not_read(&server, 60 << 10, 1500).await;
    assert!((500..1200).contains(&count), "{count} small answers are held");
    echo(&channel(&server), 10 * MB).await.unwrap();
}
