//! [`ReplyBody`]: the body of an answer: slices in order, then gRPC's trailers; perhaps more messages before these.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use smallvec::SmallVec;

use tensorfleet_core::{Result, Status};

use super::Messages;
use super::open_connections::OpenCall;
use super::unread::Unread;
use crate::grpc_status;

/// Slices still to be sent (in reverse), and what follows them.
pub(crate) struct ReplyBody {
    chunks: SmallVec<[Bytes; 2]>,
    rest: Rest,
    /// The request, which is open until this is done.
    _open: Option<OpenCall>,
}

enum Rest {
    Nothing,
    Trailers(HeaderMap),
    /// Messages, then trailers that say how they ended.
    Messages(Messages, Arc<Unread>),
}

impl ReplyBody {
    pub(crate) fn empty() -> ReplyBody {
        ReplyBody { chunks: SmallVec::new(), rest: Rest::Nothing, _open: None }
    }

    pub(crate) fn page(body: Bytes) -> ReplyBody {
        ReplyBody { chunks: SmallVec::from_iter([body]), rest: Rest::Nothing, _open: None }
    }

    /// A message and those that follow it, counted as `unread` until they have left.
    pub(super) fn message(
        chunks: SmallVec<[Bytes; 2]>,
        more: Option<Messages>,
        unread: &Arc<Unread>,
    ) -> ReplyBody {
        let rest = match more {
            None => Rest::Trailers(trailers(Ok(()))),
            Some(messages) => Rest::Messages(messages, unread.clone()),
        };
        ReplyBody { chunks: in_reverse(chunks, unread), rest, _open: None }
    }

    /// Keeps a request open until all of its answer is given.
    pub(super) fn keep_open(&mut self, request: OpenCall) {
        self._open = Some(request);
    }

    /// Gets the next message ready to be sent; the end if there is none.
    fn poll_message(
        messages: &mut Messages,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<SmallVec<[Bytes; 2]>>>> {
        let poll = AssertUnwindSafe(|| messages.as_mut().poll_next(context));
        let Ok(next) = catch_unwind(poll) else {
            tracing::error!("making an answer panicked");
            return Poll::Ready(Some(Err(Status::internal(
                "the answer failed; the server's log tells more",
            ))));
        };
        next.map(|next| next.map(|message| message.and_then(|message| message.into_chunks("the caller"))))
    }
}

fn in_reverse(chunks: SmallVec<[Bytes; 2]>, unread: &Arc<Unread>) -> SmallVec<[Bytes; 2]> {
    chunks.into_iter().rev().map(|chunk| unread.count(chunk)).collect()
}

fn trailers(status: std::result::Result<(), &Status>) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    grpc_status::put(&mut trailers, status);
    trailers
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(chunk) = self.chunks.pop() {
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            let end = match std::mem::replace(&mut self.rest, Rest::Nothing) {
                Rest::Nothing => return Poll::Ready(None),
                Rest::Trailers(trailers) => trailers,
                Rest::Messages(mut messages, unread) => {
                    match ReplyBody::poll_message(&mut messages, context) {
                        Poll::Pending => {
                            self.rest = Rest::Messages(messages, unread);
                            return Poll::Pending;
                        }
                        Poll::Ready(Some(Ok(chunks))) => {
                            self.chunks = in_reverse(chunks, &unread);
                            self.rest = Rest::Messages(messages, unread);
                            continue;
                        }
                        Poll::Ready(Some(Err(status))) => trailers(Err(&status.not_busy())),
                        Poll::Ready(None) => trailers(Ok(())),
                    }
                }
            };
            return Poll::Ready(Some(Ok(Frame::trailers(end))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty() && matches!(self.rest, Rest::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        // A content-length is for pages only; gRPC's answers do not have one.
        match (&self.chunks[..], &self.rest) {
            ([page], Rest::Nothing) => SizeHint::with_exact(page.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
