//! The headers of a gRPC request.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, TE};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, Method, Uri, Version};

use tensorfleet_core::{Result, Status, bail};

use super::Address;
use crate::grpc_timeout;

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
        put(headers, name, value)?;
    }
    Ok(head)
}

/// Adds a header.
pub(super) fn put(headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    let (Ok(header), Ok(content)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
        bail!(InvalidArgument, "'{name}: {value}' cannot be sent as metadata");
    };
    headers.append(header, content);
    Ok(())
}
