//! One HTTP request from its head to its answer.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts as Head;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming as HttpBody;
use tokio::time::{timeout, timeout_at};

use tensorfleet_core::{Result, Status, bail, clock};

use super::admission::Admitted;
use super::reply_body::ReplyBody;
use super::{Connection, Handler, MethodInfo, Reply, Request, Service};
use crate::incoming::{Incoming, MessageReader};
use crate::{grpc_status, grpc_timeout};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

type Answer = http::Response<ReplyBody>;

/// Answers a request of either kind. Never fails: a failure is an answer, too.
pub(super) async fn answer(
    service: Service,
    connection: Connection,
    request: http::Request<HttpBody>,
) -> Result<Answer, Infallible> {
    let Service { handler, admission } = service;
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !content_type.is_some_and(|value| value.starts_with(GRPC.as_bytes())) {
        return Ok(answer_page(&*handler, request.method(), request.uri().path()));
    }
    let (head, body) = request.into_parts();
    let (method, peer) = (short_name(head.uri.path()), connection.peer());
    let outcome = async {
        // Held until the handler is done with the message.
        let mut admitted = admission.begin()?;
        call(&*handler, connection, &method, head, body, &mut admitted).await
    };
    let outcome = AssertUnwindSafe(outcome).catch_unwind().await;
    let outcome = outcome.unwrap_or_else(|_| {
        tracing::error!("the handler of {method} panicked");
        Err(Status::internal(format!(
            "internal error in {method} (the handler panicked); see the server log"
        )))
    });
    let body = outcome.and_then(|reply| {
        let chunks = reply.message.into_chunks(&method)?;
        Ok((ReplyBody::message(chunks, reply.more), reply.metadata))
    });
    Ok(match body {
        Ok((body, metadata)) => {
            let mut answer = http::Response::new(body);
            *answer.headers_mut() = metadata;
            answer.headers_mut().insert(CONTENT_TYPE, GRPC);
            answer
        }
        Err(status) => {
            handler.failed(&method, peer, &status);
            answer_error(&status)
        }
    })
}

/// TensorFlow's services are declared in package `tensorflow.grpc` and live on the wire without it; some builds did not
/// know that.
fn short_name(path: &str) -> String {
    match path.strip_prefix("/tensorflow.grpc.") {
        Some(rest) => format!("/tensorflow.{rest}"),
        None => path.to_string(),
    }
}

async fn call(
    handler: &dyn Handler,
    connection: Connection,
    method: &str,
    head: Head,
    body: HttpBody,
    admitted: &mut Admitted<'_>,
) -> Result<Reply> {
    let Some(info) = handler.method(method) else { bail!(Unimplemented, "there is no method {method}") };
    let deadline = match head.headers.get("grpc-timeout") {
        None => None,
        Some(value) => match value.to_str().ok().and_then(grpc_timeout::parse) {
            // A deadline beyond what the clock can express is none.
            Some(timeout) => clock::deadline_in(timeout),
            None => bail!(InvalidArgument, "the grpc-timeout {value:?} of {method} is malformed"),
        },
    };
    let work = async {
        let message = receive(body, info, admitted).await.map_err(|status| status.context(method))?;
        let metadata = head.headers;
        handler.call(Request { method: method.to_string(), metadata, deadline, connection, message }).await
    };
    match deadline {
        None => work.await,
        Some(deadline) => timeout_at(deadline.into(), work).await.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(format!("{method} was not done by its deadline")))
        }),
    }
}

async fn receive(mut body: HttpBody, info: MethodInfo, admitted: &mut Admitted<'_>) -> Result<Incoming> {
    let mut reader = MessageReader::new(info.max_message_bytes, info.align);
    let stall_timeout = admitted.stall_timeout();
    loop {
        let Ok(frame) = timeout(stall_timeout, body.frame()).await else {
            bail!(
                DeadlineExceeded,
                "no bytes for {} s in the middle of a message",
                stall_timeout.as_secs_f64()
            );
        };
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    reader.push(data, |len| admitted.grow(len))?;
                }
            }
            Some(Err(error)) => bail!(Cancelled, "the client went away in the middle of a message: {error}"),
            None => return reader.finish(),
        }
    }
}

fn answer_error(status: &Status) -> Answer {
    let mut answer = http::Response::new(ReplyBody::empty());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    // Tells a client that compressed its message what to do instead.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    grpc_status::put(headers, Err(status));
    answer
}

fn answer_page(handler: &dyn Handler, method: &Method, path: &str) -> Answer {
    if method != Method::GET {
        let mut answer = http::Response::new(ReplyBody::empty());
        *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return answer;
    }
    let page = std::panic::catch_unwind(AssertUnwindSafe(|| handler.page(path)));
    let (status, content_type, body) = match page {
        Ok(Some(page)) => (StatusCode::OK, page.content_type, page.body),
        Ok(None) => (StatusCode::NOT_FOUND, "text/plain", "there is no such page\n".into()),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "the page failed\n".into()),
    };
    let mut answer = http::Response::new(ReplyBody::page(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_package_names_mean_the_same_method() {
        assert_eq!(short_name("/tensorflow.grpc.MasterService/RunStep"), "/tensorflow.MasterService/RunStep");
        assert_eq!(short_name("/tensorflow.MasterService/RunStep"), "/tensorflow.MasterService/RunStep");
    }
}
