//! Clients that stop in the middle, compress, or announce what they do not send: the server answers and lives on.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

mod harness;

use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use harness::{TestServer, channel, echo_server, impatient_server};
use tensorfleet_rpc::{CallOptions, HeaderMap, Parts};
use tokio::net::TcpStream;

const ECHO: &str = "/tensorflow.WorkerService/Echo";

async fn connect(server: &TestServer) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    let (send, driver) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(driver);
    send
}

fn begin(send: &mut SendRequest<Bytes>, headers: &[(&str, &str)]) -> (ResponseFuture, SendStream<Bytes>) {
    let mut request = http::Request::post(format!("http://server{ECHO}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send.send_request(request.body(()).unwrap(), false).unwrap()
}

/// The headers of the answer to these bytes; `ends` says whether the stream ends after them.
async fn answer(
    server: &TestServer,
    bytes: &'static [u8],
    ends: bool,
    headers: &[(&str, &str)],
) -> HeaderMap {
    let mut send = connect(server).await;
    let (response, mut body) = begin(&mut send, headers);
    body.send_data(Bytes::from_static(bytes), ends).unwrap();
    let response = response.await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers().clone()
}

const GRPC: (&str, &str) = ("content-type", "application/grpc+proto");

async fn lives(server: &TestServer) {
    channel(server).call(ECHO, Parts::empty(), CallOptions::default()).await.unwrap();
}

#[tokio::test]
async fn half_a_message_and_then_silence_is_given_up() {
    let server = impatient_server(Duration::from_millis(250));
    let headers = answer(&server, &[0, 0, 0, 1, 0, 1, 2, 3], false, &[GRPC]).await;
    assert_eq!(headers["grpc-status"], "4");
    assert!(headers["grpc-message"].to_str().unwrap().contains("came in 0.25 s"));
}

#[tokio::test]
async fn a_message_that_trickles_is_given_up_as_well() {
    let server = impatient_server(Duration::from_millis(250));
    let mut send = connect(&server).await;
    let (response, mut body) = begin(&mut send, &[GRPC]);
    body.send_data(Bytes::from_static(&[0, 0, 1, 0, 0]), false).unwrap();
    let mut response = std::pin::pin!(response);
    let refused = loop {
        tokio::select! {
            response = &mut response => break response.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(20)) => {
                // Fails once the server has answered.
                let _ = body.send_data(Bytes::from_static(&[7; 100]), false);
            }
        }
    };
    assert_eq!(refused.headers()["grpc-status"], "4");
    lives(&server).await;
}

#[tokio::test]
async fn a_compressed_message_is_refused_with_what_is_accepted() {
    let server = echo_server();
    let headers = answer(&server, &[1, 0, 0, 0, 1, 5], true, &[GRPC, ("grpc-encoding", "gzip")]).await;
    assert_eq!(headers["grpc-status"], "12");
    assert_eq!(headers["grpc-accept-encoding"], "identity");
    lives(&server).await;
}

#[tokio::test]
async fn a_message_that_does_not_fit_its_prefix_is_refused() {
    let server = echo_server();
    for (bytes, code) in [
        (&[0, 0, 0, 0, 3, 1][..], "13"),
        (&[0, 0, 0, 0, 0, 1], "13"),
        (&[0, 0], "13"),
        (&[], "13"),
        (&[0, 0xff, 0xff, 0xff, 0xff, 1], "8"),
    ] {
        assert_eq!(answer(&server, bytes, true, &[GRPC]).await["grpc-status"], code, "{bytes:?}");
    }
    lives(&server).await;
}

#[tokio::test]
async fn a_malformed_timeout_is_refused() {
    let server = echo_server();
    let headers = answer(&server, &[0; 5], true, &[GRPC, ("grpc-timeout", "soon")]).await;
    assert_eq!(headers["grpc-status"], "3");
}

#[tokio::test]
async fn a_connection_cut_in_the_middle_of_a_message_does_no_harm() {
    let server = echo_server();
    let mut send = connect(&server).await;
    let (response, mut body) = begin(&mut send, &[GRPC]);
    body.send_data(Bytes::from_static(&[0, 0, 1, 0, 0, 1]), false).unwrap();
    drop((response, body, send));
    lives(&server).await;
}

#[tokio::test]
async fn pages_are_served_over_http_2_as_well() {
    let server = echo_server();
    let mut send = connect(&server).await;
    let request = http::Request::get("http://server/status").body(()).unwrap();
    let (response, _) = send.send_request(request, true).unwrap();
    let mut response = response.await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.body_mut().data().await.unwrap().unwrap(), "{\"ok\":true}");
}
