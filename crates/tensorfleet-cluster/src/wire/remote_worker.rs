//! [`RemoteWorker`]: the worker service of another process, TensorFlow's or ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use tensorfleet_core::clock::{self, Clock};
use tensorfleet_core::{Code, RendezvousKey, Result, Status, Tensor};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{
    CleanupAllRequest, CleanupAllResponse, CleanupGraphRequest, CreateWorkerSessionRequest,
    DeleteWorkerSessionRequest, DeregisterGraphRequest, DeviceAttributes, ExecutorOpts, GetStatusRequest,
    GetStatusResponse, GraphDef, MarkRecvFinishedRequest, RecvTensorRequest, RegisterGraphRequest,
    RegisterGraphResponse, RunGraphRequest, RunGraphResponse,
};
use tensorfleet_rpc::{CallOptions, Channel, Parts, ResponseStream, recv_tensor, tensors};

use super::finished_steps::{self, FinishedSteps};
use super::fleet_messages::{RECV_TENSORS_METHOD, RecvTensorsRequest, RecvTensorsResponse, STATUS_METHOD};
use super::status_body::check_body;
use super::{headers, payloads};
use crate::random;
use crate::tasks::Spawner;
use crate::worker_api::{NewWorkerSession, Part, RunGraph, RunGraphOutput};

/// Calls that only tidy up are given this long.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Making a worker session and registering a graph are given this long: the peer answered a moment ago.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);
/// A task that is too busy to hear that a step is over is told again.
const CLEANUP_ATTEMPTS: usize = 3;

/// A worker behind a channel.
#[derive(Clone)]
pub(crate) struct RemoteWorker(Arc<Inner>);

struct Inner {
    channel: Channel,
    /// Whether it has shown that it does not know our own methods: a TensorFlow server.
    is_foreign: AtomicBool,
    /// Whether it has shown that it does.
    is_ours: AtomicBool,
    /// Steps it has not been told to forget.
    finished: FinishedSteps,
    /// Sends what nobody waits for.
    spawner: Spawner,
}

impl RemoteWorker {
    pub(crate) fn new(channel: Channel, spawner: Spawner, clock: Clock) -> RemoteWorker {
        RemoteWorker(Arc::new(Inner {
            channel,
            is_foreign: AtomicBool::new(false),
            is_ours: AtomicBool::new(false),
            finished: FinishedSteps::new(clock),
            spawner,
        }))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        self.0.channel.address()
    }

    /// Bytes sent and received.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let stats = self.0.channel.stats();
        (stats.bytes_sent, stats.bytes_received)
    }

    /// Whether several tensors can be asked for at once, as far as is known.
    pub(crate) fn takes_batches(&self) -> bool {
        !self.0.is_foreign.load(Ordering::Relaxed)
    }

    async fn call<M: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        timeout: Duration,
    ) -> Result<M> {
        let options = CallOptions { deadline: clock::deadline_in(timeout), ..CallOptions::default() };
        self.0.channel.call(method, Parts::from_message(request), options).await?.message.decode()
    }

    /// Asks for its devices and the fingerprint of its cluster; `task` and `fingerprint` are those of the caller.
    pub(crate) async fn get_status(
        &self,
        task: &str,
        fingerprint: &str,
        deadline: Instant,
    ) -> Result<(Vec<DeviceAttributes>, Option<String>)> {
        let metadata = [(headers::TASK, task), (headers::CLUSTER, fingerprint)];
        let options = CallOptions { deadline: Some(deadline), metadata: &metadata, ..CallOptions::default() };
        let request = Parts::from_message(&GetStatusRequest {});
        let response = self.0.channel.call("/tensorflow.WorkerService/GetStatus", request, options).await?;
        let theirs = response.metadata.get(headers::CLUSTER);
        self.0.is_ours.store(theirs.is_some(), Ordering::Relaxed);
        let theirs = theirs.and_then(|value| value.to_str().ok()).map(String::from);
        let response: GetStatusResponse = response.message.decode()?;
        Ok((response.device_attributes, theirs))
    }

    /// The status document of a task of ours.
    pub(crate) async fn status_document(&self, deadline: Instant) -> Result<Bytes> {
        let options = CallOptions { deadline: Some(deadline), ..CallOptions::default() };
        self.0.channel.call(STATUS_METHOD, Parts::empty(), options).await?.message.decode()
    }

    pub(crate) async fn create_session(&self, new: NewWorkerSession) -> Result<()> {
        let request = CreateWorkerSessionRequest {
            session_handle: new.handle,
            server_def: new.server,
            isolate_session_state: new.isolate_state,
            master_task: new.master.task,
            master_incarnation: new.master.incarnation,
            ..Default::default()
        };
        self.call("/tensorflow.WorkerService/CreateWorkerSession", &request, SETUP_TIMEOUT).await
    }

    /// Ends a session there. Steps that wait to be forgotten are so first.
    pub(crate) async fn delete_session(&self, handle: String) -> Result<()> {
        loop {
            let steps = self.0.finished.take();
            if steps.is_empty() || !self.send_cleanups(steps).await {
                break;
            }
        }
        let request = DeleteWorkerSessionRequest { session_handle: handle };
        self.call("/tensorflow.WorkerService/DeleteWorkerSession", &request, CLEANUP_TIMEOUT).await
    }

    pub(crate) async fn register_graph(&self, session: &str, graph: GraphDef) -> Result<String> {
        let request = RegisterGraphRequest {
            session_handle: session.to_string(),
            graph_def: Some(graph),
            create_worker_session_called: true,
            ..Default::default()
        };
        let response: RegisterGraphResponse =
            self.call("/tensorflow.WorkerService/RegisterGraph", &request, SETUP_TIMEOUT).await?;
        Ok(response.graph_handle)
    }

    pub(crate) async fn deregister_graph(&self, session: String, graph: String) -> Result<()> {
        let request = DeregisterGraphRequest {
            graph_handle: graph,
            session_handle: session,
            create_worker_session_called: true,
        };
        self.call("/tensorflow.WorkerService/DeregisterGraph", &request, CLEANUP_TIMEOUT).await
    }

    /// Runs a partition there. Dropping the future cancels it.
    pub(crate) async fn run_graph(&self, request: RunGraph) -> Result<RunGraphOutput> {
        let rest = RunGraphRequest {
            graph_handle: request.graph,
            step_id: request.step_id,
            recv_key: request.receives.iter().map(RendezvousKey::to_string).collect(),
            exec_opts: Some(ExecutorOpts {
                record_timeline: request.wants_trace,
                record_partition_graphs: request.wants_graph,
                ..Default::default()
            }),
            is_partial: request.part != Part::Whole,
            is_last_partial_run: request.part == Part::Last,
            session_handle: request.session,
            store_errors_in_response_body: true,
            create_worker_session_called: request.session_is_created,
            request_id: random::request_id(),
            ..Default::default()
        };
        let names: Vec<String> = request.sends.iter().map(|(key, _)| key.to_string()).collect();
        let values = request.sends.iter().map(|(_, tensor)| tensor);
        let sends: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(values).collect();
        let message = tensors::with_named_tensors(payloads::RUN_GRAPH_SEND, &sends, &rest);
        let mut cleanups = PiggybackedCleanups { worker: self, steps: self.0.finished.take() };
        let header = finished_steps::write(&cleanups.steps);
        let metadata = [(headers::FINISHED_STEPS, header.as_str())];
        let options = CallOptions {
            align: payloads::RUN_GRAPH_RESPONSE,
            metadata: if cleanups.steps.is_empty() { &[] } else { &metadata },
            ..CallOptions::default()
        };
        let response = self.0.channel.call("/tensorflow.WorkerService/RunGraph", message, options).await?;
        cleanups.steps.clear();
        let response: RunGraphResponse = response.message.decode()?;
        check_body(response.status_code, &response.status_error_message)?;
        let received = response.recv.into_iter().enumerate().map(|(position, named)| {
            // Our own workers answer in the order of the request.
            let is_meant = |key: &&RendezvousKey| key.is_spelled(&named.name);
            let expected = request.receives.get(position).filter(is_meant);
            let key = expected.or_else(|| request.receives.iter().find(is_meant)).ok_or_else(|| {
                Status::internal(format!("a value was returned that nobody asked for: {}", named.name))
            })?;
            let proto = named.tensor.ok_or_else(|| Status::internal("a returned tensor is missing"))?;
            Ok((key.clone(), Tensor::from_proto(&proto)?))
        });
        Ok(RunGraphOutput {
            received: received.collect::<Result<_>>()?,
            step_stats: response.step_stats,
            graphs: response.partition_graph,
        })
    }

    /// Tells the task that it can forget a step. One that went well it is told of with the next step, or else soon;
    /// a TensorFlow server, and a task where something may still run, at once.
    pub(crate) fn cleanup_step(&self, step_id: i64, went_well: bool) {
        if went_well && self.0.is_ours.load(Ordering::Relaxed) {
            return self.cleanup_soon(vec![step_id]);
        }
        let worker = self.clone();
        self.0.spawner.spawn(async move {
            for _ in 0..CLEANUP_ATTEMPTS {
                match worker.send_cleanup(step_id).await {
                    Ok(()) => return,
                    // A task that is gone has forgotten the step.
                    Err(status) if status.code() == Code::Unavailable => return,
                    Err(status) => {
                        tracing::debug!("cleaning up step {step_id} on {}: {status}", worker.address());
                    }
                }
            }
        });
    }

    fn cleanup_soon(&self, steps: Vec<i64>) {
        if !self.0.finished.add(steps) {
            return;
        }
        let worker = self.clone();
        self.0.spawner.spawn(async move {
            while let Some(pause) = worker.0.finished.next_look() {
                tokio::time::sleep(pause).await;
                worker.send_cleanups(worker.0.finished.take_overdue()).await;
            }
        });
    }

    /// Tells the task to forget some steps; whether it has heard of all.
    async fn send_cleanups(&self, steps: Vec<i64>) -> bool {
        for step in steps {
            // A task that is gone has forgotten it, any other forgets it in time.
            if let Err(status) = self.send_cleanup(step).await {
                tracing::debug!("cleaning up step {step} on {}: {status}", self.address());
                return false;
            }
        }
        true
    }

    async fn send_cleanup(&self, step_id: i64) -> Result<()> {
        self.call("/tensorflow.WorkerService/CleanupGraph", &CleanupGraphRequest { step_id }, CLEANUP_TIMEOUT)
            .await
    }

    pub(crate) async fn cleanup_all(&self, containers: &[String]) -> Result<()> {
        let request = CleanupAllRequest { container: containers.to_vec() };
        let _: CleanupAllResponse =
            self.call("/tensorflow.WorkerService/CleanupAll", &request, CLEANUP_TIMEOUT).await?;
        Ok(())
    }

    /// Waits for a tensor of a step there. Dropping the future withdraws the request.
    pub(crate) async fn recv_tensor(&self, step_id: i64, key: &RendezvousKey) -> Result<Transfer> {
        let request = RecvTensorRequest {
            step_id,
            rendezvous_key: key.to_string(),
            request_id: random::request_id(),
            ..Default::default()
        };
        let options = CallOptions { align: recv_tensor::ALIGN, ..CallOptions::default() };
        let message = Parts::from_message(&request);
        let response = self.0.channel.call("/tensorflow.WorkerService/RecvTensor", message, options).await?;
        let received = recv_tensor::parse(response.message)?;
        if received.require_ack {
            self.acknowledge(request.request_id);
        }
        Ok(received.value)
    }

    /// Asks for several tensors of a step there. Dropping what it gives withdraws the request.
    pub(crate) async fn recv_tensors(
        &self,
        step_id: i64,
        keys: impl Iterator<Item = &RendezvousKey>,
    ) -> Result<TensorStream> {
        let request = RecvTensorsRequest { step_id, keys: keys.map(RendezvousKey::to_string).collect() };
        let options = CallOptions { align: payloads::RECV_TENSORS_RESPONSE, ..CallOptions::default() };
        let message = Parts::from_message(&request);
        let asked = self.0.channel.call_for_many(RECV_TENSORS_METHOD, message, options).await;
        if asked.as_ref().is_err_and(|status| status.code() == Code::Unimplemented) {
            self.0.is_foreign.store(true, Ordering::Relaxed);
        }
        let places = request.keys.into_iter().zip(0..).collect();
        asked.map(|messages| TensorStream { messages, places })
    }

    /// Tells a peer that keeps a tensor until it has arrived that it has.
    fn acknowledge(&self, request_id: i64) {
        let worker = self.clone();
        self.0.spawner.spawn(async move {
            let request = MarkRecvFinishedRequest { request_id };
            let method = "/tensorflow.WorkerService/MarkRecvFinished";
            // At worst the peer keeps the tensor until the step is cleaned up.
            let _: Result<()> = worker.call(method, &request, CLEANUP_TIMEOUT).await;
        });
    }
}

/// Steps to forget that travel with a call. If the call fails or is given up, nobody knows whether they have arrived, and
/// they are told again.
struct PiggybackedCleanups<'a> {
    worker: &'a RemoteWorker,
    steps: Vec<i64>,
}

impl Drop for PiggybackedCleanups<'_> {
    fn drop(&mut self) {
        self.worker.cleanup_soon(std::mem::take(&mut self.steps));
    }
}

/// Tensors from another task, as they come.
pub(crate) struct TensorStream {
    messages: ResponseStream,
    /// Where in the request each key stands.
    places: FxHashMap<String, usize>,
}

impl TensorStream {
    /// Those that come next, each with its place in the request; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<(usize, Transfer)>>> {
        let Some(message) = self.messages.next().await? else { return Ok(None) };
        let response: RecvTensorsResponse = message.decode()?;
        let mut came = Vec::with_capacity(response.tensor.len() + response.dead.len());
        for named in response.tensor {
            let proto = named.tensor.ok_or_else(|| Status::internal("a received tensor is missing"))?;
            let tensor = Tensor::from_proto(&proto)?;
            came.extend(self.places.get(&named.name).map(|&place| (place, Some(tensor))));
        }
        came.extend(response.dead.iter().filter_map(|key| Some((*self.places.get(key)?, None))));
        Ok(Some(came))
    }
}
