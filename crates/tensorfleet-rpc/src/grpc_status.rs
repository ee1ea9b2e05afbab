//! [`Status`] to and from gRPC's `grpc-status` and `grpc-message`, in one place.
//!
//! TensorFlow's codes are gRPC's codes. A status that is a mere consequence of another error carries a marker in its
//! message, which TensorFlow 1.15 introduced; it survives the way there and back. A refusal for now ([`Status::busy`])
//! carries gRPC's own header for it, which says after how many milliseconds to come again.

use http::{HeaderMap, HeaderValue, StatusCode};

use tensorfleet_core::{Code, Status};

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";

const RETRY_AFTER: &str = "grpc-retry-pushback-ms";

/// When to come again: about as long as a request of a busy server takes.
const RETRY_AFTER_MS: HeaderValue = HeaderValue::from_static("50");

/// TensorFlow cuts messages at this length, because headers have limits.
const MAX_MESSAGE_BYTES: usize = 3072;

/// How TensorFlow marks errors that are consequences of others.
const DERIVED: &str = "[_Derived_]";

/// Writes a status, or success, into headers or trailers.
pub(crate) fn put(headers: &mut HeaderMap, outcome: Result<(), &Status>) {
    let number = outcome.map_or_else(|status| status.code() as i32, |()| 0);
    headers.insert(GRPC_STATUS, HeaderValue::from(number));
    if let Err(status) = outcome {
        if status.is_busy() {
            headers.insert(RETRY_AFTER, RETRY_AFTER_MS);
        }
        let mut message = status.message();
        if status.is_derived() && !message.contains(DERIVED) {
            message.insert_str(0, DERIVED);
        }
        if let Ok(value) = HeaderValue::try_from(percent_encoded(truncated(&message))) {
            headers.insert(GRPC_MESSAGE, value);
        }
    }
}

/// The outcome in headers or trailers; `None` if they have none.
pub(crate) fn get(headers: &HeaderMap) -> Option<Result<(), Status>> {
    let number =
        headers.get(GRPC_STATUS)?.to_str().ok().and_then(|text| text.parse::<i32>().ok()).unwrap_or(2);
    if number == 0 {
        return Some(Ok(()));
    }
    let message =
        headers.get(GRPC_MESSAGE).map(|value| percent_decoded(value.as_bytes())).unwrap_or_default();
    let is_derived = message.contains(DERIVED);
    let mut status = Status::new(Code::from_i32(number), message);
    if headers.contains_key(RETRY_AFTER) {
        status = status.busy();
    }
    Some(Err(if is_derived { status.derived() } else { status }))
}

/// What an HTTP status without a gRPC status means, as gRPC defines it.
pub(crate) fn from_http(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// What a stream reset means, as gRPC defines it.
pub(crate) fn from_reset(reason: h2::Reason) -> Code {
    match reason {
        h2::Reason::REFUSED_STREAM => Code::Unavailable,
        h2::Reason::CANCEL => Code::Cancelled,
        h2::Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        h2::Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        _ => Code::Internal,
    }
}

fn truncated(message: &str) -> &str {
    // A character has at most four bytes, so one of these is a boundary.
    let mut ends = (0..=MAX_MESSAGE_BYTES.min(message.len())).rev();
    ends.find_map(|end| message.get(..end)).unwrap_or_default()
}

fn percent_encoded(message: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(message.len());
    for &byte in message.as_bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

/// Decodes `%XX`; anything that is no such escape stands for itself.
fn percent_decoded(mut bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    while let Some((&byte, rest)) = bytes.split_first() {
        let escaped = match rest {
            [high, low, ..] if byte == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push(high << 4 | low);
                bytes = &rest[2..];
            }
            None => {
                out.push(byte);
                bytes = rest;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(status: &Status) -> Status {
        let mut headers = HeaderMap::new();
        put(&mut headers, Err(status));
        get(&headers).unwrap().unwrap_err()
    }

    #[test]
    fn every_code_and_any_text_survives() {
        for number in 1..=16 {
            let status = Status::new(Code::from_i32(number), "50% of\n\t [[{{node a}}]] größer %2 %zz %");
            assert_eq!(round_trip(&status), status);
        }
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let status = Status::internal("ü".repeat(2000) + "x");
        assert_eq!(round_trip(&status).text(), "ü".repeat(1536));
        let status = Status::internal("x".to_string() + &"ü".repeat(2000));
        assert_eq!(round_trip(&status).text().len(), 3071);
    }

    #[test]
    fn consequences_stay_consequences() {
        let status = Status::cancelled("step was cancelled").derived();
        let received = round_trip(&status);
        assert!(received.is_derived());
        assert_eq!(received.text(), "[_Derived_]step was cancelled");
        assert_eq!(round_trip(&received).text(), "[_Derived_]step was cancelled", "marked once");
        assert!(!round_trip(&Status::cancelled("on its own")).is_derived());
    }

    #[test]
    fn a_refusal_for_now_stays_one() {
        assert!(round_trip(&Status::resource_exhausted("no room").busy()).is_busy());
        assert!(!round_trip(&Status::resource_exhausted("too long")).is_busy());
    }

    #[test]
    fn success_and_nonsense_are_told_apart() {
        let mut headers = HeaderMap::new();
        assert!(get(&headers).is_none());
        put(&mut headers, Ok(()));
        assert_eq!(get(&headers), Some(Ok(())));
        headers.insert(GRPC_STATUS, HeaderValue::from_static("many"));
        assert_eq!(get(&headers).unwrap().unwrap_err().code(), Code::Unknown);
    }
}
