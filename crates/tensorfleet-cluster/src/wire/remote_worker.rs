//! [`RemoteWorker`]: the worker service of another process, TensorFlow's or ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
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
use super::fleet_messages::{
    PAUSE_SESSION_METHOD, PauseSessionRequest, RECV_TENSORS_METHOD, RecvTensorsRequest, RecvTensorsResponse,
    STATUS_METHOD,
};
use super::owed_ends::OwedEnds;
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
    /// What it has not acknowledged the end of.
    owed: Mutex<OwedEnds>,
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
            owed: Mutex::default(),
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

    /// Makes a session there. What ended while the task could not be reached ends there first, and takes nothing from the new
    /// session.
    pub(crate) async fn create_session(&self, new: NewWorkerSession) -> Result<()> {
        self.settle().await?;
        let client = new.client.map(|client| client.to_string());
        let metadata = [(headers::CLIENT, client.as_deref().unwrap_or_default())];
        let options = CallOptions {
            deadline: clock::deadline_in(SETUP_TIMEOUT),
            metadata: if client.is_some() { &metadata } else { &[] },
            ..CallOptions::default()
        };
        let request = CreateWorkerSessionRequest {
            session_handle: new.handle,
            server_def: new.server,
            isolate_session_state: new.isolate_state,
            master_task: new.master.task,
            master_incarnation: new.master.incarnation,
            ..Default::default()
        };
        let method = "/tensorflow.WorkerService/CreateWorkerSession";
        self.0.channel.call(method, Parts::from_message(&request), options).await?.message.decode()
    }

    /// Tells the task of all ends that it has not acknowledged.
    async fn settle(&self) -> Result<()> {
        let (sessions, steps) = {
            let mut owed = self.0.owed.lock();
            (owed.sessions(), owed.take_steps())
        };
        for handle in sessions {
            self.send_session_end(handle).await?;
        }
        self.send_cleanups(steps).await;
        Ok(())
    }

    /// Notes that a session is over there, whether or not the task can be told now.
    pub(crate) fn owe_session_end(&self, handle: &str) {
        self.0.owed.lock().owe_session(handle);
    }

    async fn send_session_end(&self, handle: String) -> Result<()> {
        let request = DeleteWorkerSessionRequest { session_handle: handle };
        let method = "/tensorflow.WorkerService/DeleteWorkerSession";
        let told: Result<()> = self.call(method, &request, CLEANUP_TIMEOUT).await;
        let is_lost = |status: &Status| {
            matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled)
        };
        if !told.as_ref().is_err_and(is_lost) {
            self.0.owed.lock().settle_session(&request.session_handle);
        }
        told
    }

    /// Ends a session there. Steps that wait to be forgotten are so first.
    pub(crate) async fn delete_session(&self, handle: String) -> Result<()> {
        loop {
            let steps = self.0.finished.take();
            if steps.is_empty() || !self.send_cleanups(steps).await {
                break;
            }
        }
        self.send_session_end(handle).await
    }

    /// Lets what a session does there between its steps rest, if the task is one of ours.
    pub(crate) async fn pause_session(&self, handle: String) -> Result<()> {
        if !self.0.is_ours.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.call(PAUSE_SESSION_METHOD, &PauseSessionRequest { session_handle: handle }, CLEANUP_TIMEOUT)
            .await
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
        let finished = finished_steps::write(&cleanups.steps);
        let numbered = request.numbered.map(|numbered| numbered.to_string());
        let mut metadata: SmallVec<[(&str, &str); 2]> = SmallVec::new();
        if !finished.is_empty() {
            metadata.push((headers::FINISHED_STEPS, finished.as_str()));
        }
        metadata.extend(numbered.as_deref().map(|numbered| (headers::REQUEST, numbered)));
        let options = CallOptions {
            align: payloads::RUN_GRAPH_RESPONSE,
            metadata: &metadata,
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
                    // A task that is gone has forgotten the step; one that is cut off has not, and is told when it is back.
                    Err(status) if status.code() == Code::Unavailable => {
                        return worker.0.owed.lock().owe_step(step_id);
                    }
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
        let mut steps = steps.into_iter();
        while let Some(step) = steps.next() {
            if let Err(status) = self.send_cleanup(step).await {
                tracing::debug!("cleaning up step {step} on {}: {status}", self.address());
                let mut owed = self.0.owed.lock();
                std::iter::once(step).chain(steps).for_each(|step| owed.owe_step(step));
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
