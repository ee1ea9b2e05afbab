//! One call on an established connection. It runs in its caller's task; dropping it resets the stream.

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{HeaderMap, StatusCode};
use smallvec::SmallVec;

use tensorfleet_core::{Result, Status, clock};

use super::connection::Connection;
use super::request_head::request_head;
use super::{CallOptions, Response};
use crate::grpc_status;
use crate::incoming::{MessageReader, Trust};

/// Sends the message and waits for the beginning of the answer.
pub(super) async fn send(
    connection: &Connection,
    mut sender: SendRequest<Bytes>,
    method: &str,
    chunks: SmallVec<[Bytes; 2]>,
    options: &CallOptions<'_>,
) -> Result<(HeaderMap, RecvStream)> {
    let failure = |error: h2::Error| connection.failure(method, &error);
    let timeout = options.deadline.map(clock::time_left);
    let mut head = request_head(connection.address(), method, timeout, options.metadata)?;
    connection.introduce(head.headers_mut())?;
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

/// Receives the answer.
pub(super) async fn receive(
    connection: &Connection,
    method: &str,
    metadata: HeaderMap,
    mut body: RecvStream,
    options: &CallOptions<'_>,
) -> Result<Response> {
    let address = &connection.address().text;
    let mut reader = MessageReader::new(options.max_response_bytes, options.align, Trust::Announced);
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
