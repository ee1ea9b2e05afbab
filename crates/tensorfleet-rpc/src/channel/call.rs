//! One call on an established connection. It runs in its caller's task; dropping it resets the stream.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, TE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri, Version};
use smallvec::SmallVec;

use tensorfleet_core::{Result, Status, bail};

use super::connection::Connection;
use super::{Address, CallOptions, Response};
use crate::incoming::MessageReader;
use crate::{grpc_status, grpc_timeout};

/// The head of a request to `method`.
pub(super) fn request_head(
    address: &Address,
    method: &str,
    timeout: Option<Duration>,
    metadata: &[(&str, &str)],
) -> Result<http::Request<()>> {
    let path = PathAndQuery::try_from(method)
        .map_err(|error| Status::invalid_argument(format!("'{method}' is no method path: {error}")))?;
    let uri = Uri::builder().scheme(Scheme::HTTP).authority(address.authority.clone()).path_and_query(path);
    let mut head = http::Request::new(());
    *head.method_mut() = Method::POST;
    *head.version_mut() = Version::HTTP_2;
    *head.uri_mut() = uri
        .build()
        .map_err(|error| Status::invalid_argument(format!("'{method}' is no method path: {error}")))?;
    let headers = head.headers_mut();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity"));
    if let Some(timeout) = timeout
        && let Ok(value) = HeaderValue::try_from(grpc_timeout::format(timeout))
    {
        headers.insert("grpc-timeout", value);
    }
    for (name, value) in metadata {
        let (Ok(header), Ok(content)) = (HeaderName::try_from(*name), HeaderValue::try_from(*value)) else {
            bail!(InvalidArgument, "'{name}: {value}' cannot be sent as metadata");
        };
        headers.append(header, content);
    }
    Ok(head)
}

/// Sends the message and waits for the answer.
pub(super) async fn run(
    connection: &Connection,
    sender: SendRequest<Bytes>,
    method: &str,
    chunks: SmallVec<[Bytes; 2]>,
    options: &CallOptions<'_>,
) -> Result<Response> {
    let (metadata, body) = send(connection, sender, method, chunks, options).await?;
    receive(connection, method, metadata, body, options).await
}

/// Sends the message and waits for the beginning of the answer.
pub(super) async fn send(
    connection: &Connection,
    mut sender: SendRequest<Bytes>,
    method: &str,
    chunks: SmallVec<[Bytes; 2]>,
    options: &CallOptions<'_>,
) -> Result<(HeaderMap, RecvStream)> {
    let failure = |error: h2::Error| connection.failure(method, &error);
    let timeout = options.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let head = request_head(connection.address(), method, timeout, options.metadata)?;
    let (response, mut body) = sender.send_request(head, false).map_err(failure)?;
    // All slices are queued at once: they are in memory anyway, and the peer's window holds them back.
    let last = chunks.len().saturating_sub(1);
    for (index, chunk) in chunks.into_iter().enumerate() {
        // A server may refuse a call before it has read the message; the answer tells why.
        if body.send_data(chunk, index == last).is_err() {
            break;
        }
    }
    let (head, body) = response.await.map_err(failure)?.into_parts();
    if let Some(Err(status)) = grpc_status::get(&head.headers) {
        return Err(status);
    }
    if head.status != StatusCode::OK {
        let (code, address) = (grpc_status::from_http(head.status), &connection.address().text);
        return Err(Status::new(
            code,
            format!("{address} answers {method} with HTTP status {}", head.status),
        ));
    }
    Ok((head.headers, body))
}

async fn receive(
    connection: &Connection,
    method: &str,
    metadata: HeaderMap,
    mut body: RecvStream,
    options: &CallOptions<'_>,
) -> Result<Response> {
    let address = &connection.address().text;
    let mut reader = MessageReader::new(options.max_response_bytes, options.align);
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(|error| connection.failure(method, &error))?;
        reader
            .push(&chunk, |_| Ok(()))
            .map_err(|status| status.context(format_args!("the answer of {address} to {method}")))?;
        // Fails only on a stream that has ended meanwhile, which the next read reports.
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    outcome(connection, method, &mut body).await?;
    let message = reader.finish().map_err(|status| status.context(format_args!("{address}: {method}")))?;
    Ok(Response { message, metadata })
}

/// How a call has ended, after its last message.
pub(super) async fn outcome(connection: &Connection, method: &str, body: &mut RecvStream) -> Result<()> {
    let trailers = body.trailers().await.map_err(|error| connection.failure(method, &error))?;
    trailers.as_ref().and_then(grpc_status::get).unwrap_or_else(|| {
        let address = &connection.address().text;
        Err(Status::internal(format!("{address} ended {method} without a status: it is no gRPC server")))
    })
}
