//! [`Recorder`]: calls of real clients, kept as inputs of the fuzzers.
//!
//! It stands in front of a server, on the port that the cluster knows, and hands everything on. What it has seen becomes
//! lists of calls with letters in place of handles, as `services` reads them. `cargo run -p tensorfleet-tests --bin conformance --
//! record-calls` starts one, for programs such as those in `tests/python`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tensorfleet_core::{Result, Status};
use tensorfleet_rpc::{Handler, MethodInfo, Page, Peer, Reply, Request};

use super::pieces::join;
use super::services::{MASTER_METHODS, MAX_CALLS, WORKER_METHODS};

/// Longer lists of calls are not kept.
const MAX_INPUT_BYTES: usize = 4096;

/// A call and its answer.
struct Recorded {
    method: String,
    message: Bytes,
    answer: Bytes,
}

/// Hands calls on to a server, and keeps them.
pub struct Recorder {
    server: Arc<dyn Handler>,
    calls: Mutex<Vec<Recorded>>,
}

impl Recorder {
    /// In front of what answers for `server`.
    pub fn new(server: Arc<dyn Handler>) -> Recorder {
        Recorder { server, calls: Mutex::default() }
    }

    /// Writes what was recorded as inputs, into a directory for each of the two targets; says how many.
    pub fn write(&self, directory: &Path) -> io::Result<usize> {
        let calls = self.calls.lock();
        let mut written = 0;
        for (target, methods) in [("master_service", MASTER_METHODS), ("worker_service", WORKER_METHODS)] {
            let directory = directory.join(target);
            std::fs::create_dir_all(&directory)?;
            let inputs = inputs(&calls, methods);
            for (name, input) in &inputs {
                std::fs::write(directory.join(name), input)?;
            }
            written += inputs.len();
        }
        Ok(written)
    }
}

impl Handler for Recorder {
    fn method(&self, method: &str) -> Option<MethodInfo> {
        self.server.method(method)
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let (method, message) = (request.method.clone(), request.message.to_bytes());
        async move {
            let reply = self.server.call(request).await?;
            let answer = reply.message.to_bytes();
            self.calls.lock().push(Recorded { method, message, answer });
            Ok(reply)
        }
        .boxed()
    }

    fn failed(&self, method: &str, peer: Peer, status: &Status) {
        self.server.failed(method, peer, status);
    }

    fn page(&self, path: &str) -> Option<Page> {
        self.server.page(path)
    }
}

/// The calls of these methods in lists of a few, each from another beginning.
fn inputs(calls: &[Recorded], methods: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let ours: Vec<(u8, &Recorded)> = calls
        .iter()
        .filter_map(|call| {
            let method = methods.iter().position(|method| **method == call.method)?;
            Some((u8::try_from(method).ok()?, call))
        })
        .collect();
    // Every handle that was given out, and its letter.
    let mut letters: Vec<(Bytes, u8)> = Vec::new();
    for (_, call) in &ours {
        let letter = match call.method.rsplit('/').next() {
            Some("CreateSession") => b'S',
            Some("RegisterGraph") => b'G',
            Some("PartialRunSetup") => b'P',
            Some("CreateWorkerSession") => {
                letters.extend(first_text(&call.message).map(|handle| (handle, b'W')));
                continue;
            }
            _ => continue,
        };
        letters.extend(first_text(&call.answer).map(|handle| (handle, letter)));
    }
    let encoded: Vec<Vec<u8>> = ours
        .iter()
        .map(|(method, call)| join(&[*method], &[&lettered(&call.message, &letters)], &[]))
        .collect();
    let mut inputs = BTreeMap::new();
    for at in 0..encoded.len() {
        let mut input = Vec::new();
        for call in encoded[at..].iter().take(MAX_CALLS) {
            if input.len() + call.len() > MAX_INPUT_BYTES {
                break;
            }
            input.extend_from_slice(call);
        }
        if !input.is_empty() {
            inputs.insert(format!("recorded-{at:04}"), input);
        }
    }
    inputs
}

/// The first field of a message, if it is a text.
fn first_text(message: &[u8]) -> Option<Bytes> {
    let (&[0x0a, length], rest) = message.split_first_chunk::<2>()? else { return None };
    rest.get(..usize::from(length)).filter(|text| !text.is_empty()).map(Bytes::copy_from_slice)
}

/// The message with letters for handles, wherever they stand: handles are unlike anything else.
fn lettered(message: &[u8], letters: &[(Bytes, u8)]) -> Vec<u8> {
    let mut result = message.to_vec();
    for (handle, letter) in letters {
        let Ok(length) = u8::try_from(handle.len()) else { continue };
        let field = [&[length], &handle[..]].concat();
        // From the end, so that places before stay what they are.
        let places: Vec<usize> = (0..result.len().saturating_sub(handle.len()))
            .filter(|&at| result[at..].starts_with(&field))
            .collect();
        for at in places.into_iter().rev() {
            result.splice(at..at + field.len(), [1, *letter]);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_proto::Message;
    use tensorfleet_proto::tensorflow::{CloseSessionRequest, CreateSessionRequest, CreateSessionResponse};

    #[test]
    fn handles_become_letters() {
        let session_handle = "0123456789abcdef".to_string();
        let recorded = |method: &str, message: Vec<u8>, answer: Vec<u8>| Recorded {
            method: method.to_string(),
            message: message.into(),
            answer: answer.into(),
        };
        let answer = CreateSessionResponse { session_handle: session_handle.clone(), graph_version: 0 };
        let calls = [
            recorded(
                MASTER_METHODS[0],
                CreateSessionRequest::default().encode_to_vec(),
                answer.encode_to_vec(),
            ),
            recorded(MASTER_METHODS[9], CloseSessionRequest { session_handle }.encode_to_vec(), Vec::new()),
        ];
        let inputs = inputs(&calls, MASTER_METHODS);
        assert_eq!(inputs["recorded-0000"], [0, 0, 0, 9, 3, 0, 0x0a, 1, b'S']);
        assert_eq!(inputs["recorded-0001"], [9, 3, 0, 0x0a, 1, b'S']);
    }
}
