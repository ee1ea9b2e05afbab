//! [`ReplyBody`]: the body of an answer — slices in order, then gRPC's trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use smallvec::SmallVec;

/// Slices still to be sent (in reverse), then trailers if there are any.
pub(crate) struct ReplyBody {
    chunks: SmallVec<[Bytes; 2]>,
    trailers: Option<HeaderMap>,
}

impl ReplyBody {
    pub(crate) fn empty() -> ReplyBody {
        ReplyBody { chunks: SmallVec::new(), trailers: None }
    }

    pub(crate) fn page(body: Bytes) -> ReplyBody {
        ReplyBody { chunks: SmallVec::from_iter([body]), trailers: None }
    }

    pub(crate) fn message(mut chunks: SmallVec<[Bytes; 2]>, trailers: HeaderMap) -> ReplyBody {
        chunks.reverse();
        ReplyBody { chunks, trailers: Some(trailers) }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.chunks.pop().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // A content-length is for pages only; gRPC's answers do not have one.
        match (&self.chunks[..], &self.trailers) {
            ([page], None) => SizeHint::with_exact(page.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
