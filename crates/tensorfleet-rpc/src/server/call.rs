//! One HTTP request from its head to its answer.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::FutureExt;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts as Head;
use http::{Method, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming as HttpBody;
use tokio::time::{timeout, timeout_at};

use tensorfleet_core::clock::{self, Clock};
use tensorfleet_core::{Result, Status, bail};

use super::admission::Admitted;
use super::pace::Pace;
use super::reply_body::ReplyBody;
use super::{Handler, MethodInfo, Reply, Request, ServedConnection, Service};
use crate::incoming::{Incoming, MessageReader, Need, Trust};
use crate::{grpc_status, grpc_timeout};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

type Answer = http::Response<ReplyBody>;

/// Answers a request of either kind. Never fails: a failure is an answer, too.
pub(super) async fn answer(service: Service, request: http::Request<HttpBody>) -> Result<Answer, Infallible> {
    let open = service.connection.activity.begin();
    let mut answer = answer_either(&service, request).await;
    answer.body_mut().keep_open(open);
    Ok(answer)
}

async fn answer_either(service: &Service, request: http::Request<HttpBody>) -> Answer {
    let Service { handler, admission, connection } = service;
    let content_type = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if !content_type.is_some_and(|value| value.starts_with(GRPC.as_bytes())) {
        connection.unread.room(true).await;
        return answer_page(connection, &**handler, request.method(), request.uri().path());
    }
    // Whatever a browser can be made to send comes by HTTP/1.
    if request.version() != Version::HTTP_2 {
        return plain_text(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "gRPC is spoken by HTTP/2 only\n");
    }
    let (head, body) = request.into_parts();
    let (method, peer) = (short_name(head.uri.path()), connection.connection.peer());
    if !connection.is_member.load(Relaxed) && handler.is_member(peer, &head.headers) {
        connection.is_member.store(true, Relaxed);
    }
    let outcome = async {
        let Some(info) = handler.method(&method) else { bail!(Unimplemented, "there is no method {method}") };
        let is_member = connection.is_member.load(Relaxed);
        // Held until the handler is done with the message.
        let mut admitted = admission.begin(&connection.share, is_member, info.is_vital)?;
        call(&**handler, connection, &method, info, head, body, &mut admitted).await
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
        Ok((ReplyBody::message(chunks, reply.more, &connection.unread), reply.metadata))
    });
    match body {
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
    }
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
    served: &ServedConnection,
    method: &str,
    info: MethodInfo,
    head: Head,
    body: HttpBody,
    admitted: &mut Admitted<'_>,
) -> Result<Reply> {
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
        served.unread.room(info.is_vital).await;
        let (metadata, connection) = (head.headers, served.connection.clone());
        let request = Request { method: method.to_string(), metadata, deadline, connection, message };
        // Whatever was refused on the way of a call that has begun: this one may not be sent again.
        handler.call(request).await.map_err(Status::not_busy)
    };
    match deadline {
        None => work.await,
        Some(deadline) => timeout_at(deadline.into(), work).await.unwrap_or_else(|_| {
            Err(Status::deadline_exceeded(format!("{method} was not done by its deadline")))
        }),
    }
}

async fn receive(mut body: HttpBody, info: MethodInfo, admitted: &mut Admitted<'_>) -> Result<Incoming> {
    let clock = Clock::system();
    let mut reader = MessageReader::new(info.max_message_bytes, info.align, Trust::Arrived);
    // Most messages are there as a whole: a clock is for those that are waited for.
    let mut pace: Option<Pace> = None;
    loop {
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                let pace = pace.get_or_insert_with(|| Pace::new(admitted.stall_timeout(), clock.now()));
                let Ok(frame) = timeout(pace.left(clock.now()), body.frame()).await else {
                    pace.look(admitted.bytes(), clock.now())?;
                    continue;
                };
                frame
            }
        };
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    if let Some(pace) = &mut pace {
                        pace.advanced(data.len(), clock.now());
                    }
                    reader.push(data, |need| match need {
                        Need::Announced(len) => admitted.announce(len),
                        Need::Memory(bytes) => admitted.hold(bytes),
                    })?;
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

fn plain_text(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = http::Response::new(ReplyBody::page(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

fn answer_page(served: &ServedConnection, handler: &dyn Handler, method: &Method, path: &str) -> Answer {
    if method != Method::GET {
        let mut answer = http::Response::new(ReplyBody::empty());
        *answer.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return answer;
    }
    let page = std::panic::catch_unwind(AssertUnwindSafe(|| handler.page(path)));
    match page {
        Ok(Some(page)) => {
            let mut answer = http::Response::new(ReplyBody::page(served.unread.count(page.body)));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
            answer
        }
        Ok(None) => plain_text(StatusCode::NOT_FOUND, "there is no such page\n"),
        Err(_) => plain_text(StatusCode::INTERNAL_SERVER_ERROR, "the page failed\n"),
    }
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
