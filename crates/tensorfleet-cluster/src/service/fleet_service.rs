//! `tensorfleet.FleetService`: what our own tasks and tools ask each other beyond TensorFlow's protocol.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tensorfleet_core::Result;
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_rpc::{HeaderMap, Parts, Reply, tensors};

use super::{Call, Method, SMALL, Services, VITAL, method, reply};
use crate::wire::fleet_messages::{
    PAUSE_SESSION_METHOD, PauseSessionRequest, RECV_TENSORS_METHOD, RecvTensorsRequest, RecvTensorsResponse,
    SHUTDOWN_METHOD, STATUS_METHOD,
};
use crate::wire::payloads;
use crate::worker::Arrivals;

/// Tensors up to this size share a message with others.
const SMALL_TENSOR_BYTES: usize = 16 << 10;

/// The methods, that of every step first.
pub(super) static METHODS: &[Method] = &[
    method!(RECV_TENSORS_METHOD, SMALL, recv_tensors),
    method!(STATUS_METHOD, VITAL, status),
    method!(PAUSE_SESSION_METHOD, VITAL, pause_session),
    method!(SHUTDOWN_METHOD, VITAL, shutdown),
];

async fn status(services: &Services, _: Call<()>) -> Result<Reply> {
    reply(&Bytes::from(services.status_json()))
}

async fn pause_session(services: &Services, call: Call<PauseSessionRequest>) -> Result<Reply> {
    services.worker.pause(&call.message.session_handle);
    Ok(Reply::from(Parts::empty()))
}

async fn shutdown(services: &Services, _: Call<()>) -> Result<Reply> {
    services.server.request_stop();
    Ok(Reply::from(Parts::empty()))
}

async fn recv_tensors(services: &Services, call: Call<RecvTensorsRequest>) -> Result<Reply> {
    let RecvTensorsRequest { step_id, keys } = call.message;
    let parsed = keys.iter().map(|key| key.parse()).collect::<Result<_>>()?;
    let arrivals = services.worker.recv_tensors(step_id, parsed)?;
    let mut messages = TensorMessages { keys, arrivals, ready: VecDeque::new() };
    // The answer begins with the first of them: its head alone would only wake the caller up for nothing.
    let message = messages.next().await.unwrap_or_else(|| Ok(Parts::empty()))?;
    let more = stream::unfold(messages, |mut messages| async { Some((messages.next().await?, messages)) });
    Ok(Reply { message, more: Some(more.boxed()), metadata: HeaderMap::new() })
}

/// Tensors on their way to a peer that asked for several.
struct TensorMessages {
    keys: Vec<String>,
    arrivals: Arrivals,
    /// What was there together with the last one that was waited for.
    ready: VecDeque<(usize, Transfer)>,
}

impl TensorMessages {
    /// The next message: small tensors that are there together, or a single big one, whose bytes then are aligned where
    /// they arrive.
    async fn next(&mut self) -> Option<Result<Parts>> {
        if self.ready.is_empty() {
            match self.arrivals.next().await? {
                Ok(first) => self.ready.push_back(first),
                Err(status) => return Some(Err(status)),
            }
            while let Some(next) = self.arrivals.next_ready() {
                match next {
                    Ok(next) => self.ready.push_back(next),
                    Err(status) => return Some(Err(status)),
                }
            }
            // Small ones first: a message of them is kept back until there is a big one, and both leave with one call.
            self.ready.make_contiguous().sort_by_key(|value| !is_small(value));
        }
        let small = self.ready.iter().take_while(|value| is_small(value)).count();
        let batch: Vec<(usize, Transfer)> = self.ready.drain(..small.max(1)).collect();
        let mut rest = RecvTensorsResponse::default();
        let mut live = Vec::with_capacity(batch.len());
        for (index, value) in &batch {
            match value {
                Some(tensor) => live.push((self.keys[*index].as_str(), tensor)),
                None => rest.dead.push(self.keys[*index].clone()),
            }
        }
        Some(Ok(tensors::with_named_tensors(payloads::RECV_TENSORS_TENSOR, &live, &rest)))
    }
}

fn is_small((_, value): &(usize, Transfer)) -> bool {
    value.as_ref().is_none_or(|tensor| tensor.byte_size() <= SMALL_TENSOR_BYTES)
}
