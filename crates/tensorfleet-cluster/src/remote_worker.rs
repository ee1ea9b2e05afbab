//! [`RemoteWorker`]: the worker service of another process, TensorFlow's or ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tensorfleet_core::{Code, RendezvousKey, Result, Status, Tensor};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{
    CleanupAllRequest, CleanupAllResponse, CleanupGraphRequest, CreateWorkerSessionRequest,
    DeleteWorkerSessionRequest, DeregisterGraphRequest, ExecutorOpts, GetStatusRequest, GetStatusResponse,
    GraphDef, MarkRecvFinishedRequest, RecvTensorRequest, RegisterGraphRequest, RegisterGraphResponse,
    RunGraphRequest, RunGraphResponse,
};
use tensorfleet_rpc::{
    CallOptions, Channel, HeaderMap, Incoming, Parts, ResponseStream, recv_tensor, tensors,
};

use crate::finished_steps::{self, FinishedSteps};
use crate::fleet_messages::{RECV_TENSORS_METHOD, RecvTensorsRequest, RecvTensorsResponse};
use crate::random;
use crate::service::CLUSTER_HEADER;
use crate::wire_status::check_body;
use crate::worker::{Part, RunGraph, RunGraphOutput};

/// Calls that only tidy up are given this long.
pub(crate) const CLEANUP_DEADLINE: Duration = Duration::from_secs(10);
/// Making a worker session and registering a graph are given this long: the peer answered a moment ago.
const SETUP_DEADLINE: Duration = Duration::from_secs(60);

/// Where the big payload of a `RunGraphResponse` is: recv, tensor, tensor_content.
const RUN_GRAPH_PAYLOAD: &[u32] = &[1, 2, 4];
/// Where that of a `RecvTensorsResponse` is.
const RECV_TENSORS_PAYLOAD: &[u32] = &[1, 2, 4];
/// `RunGraphRequest.send`.
const SEND_FIELD: u32 = 3;

/// A worker behind a channel.
#[derive(Clone)]
pub(crate) struct RemoteWorker {
    channel: Channel,
    /// Whether it has shown that it does not know our own methods: a TensorFlow server.
    is_foreign: Arc<AtomicBool>,
    /// Whether it has shown that it does.
    is_ours: Arc<AtomicBool>,
    /// Steps it has not been told to forget.
    finished: Arc<FinishedSteps>,
}

impl RemoteWorker {
    pub(crate) fn new(channel: Channel) -> RemoteWorker {
        RemoteWorker {
            channel,
            is_foreign: Arc::default(),
            is_ours: Arc::default(),
            finished: Arc::default(),
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        self.channel.address()
    }

    /// Bytes sent and received.
    pub(crate) fn traffic(&self) -> (u64, u64) {
        let stats = self.channel.stats();
        (stats.bytes_sent, stats.bytes_received)
    }

    /// Whether several tensors can be asked for at once, as far as is known.
    pub(crate) fn takes_batches(&self) -> bool {
        !self.is_foreign.load(Ordering::Relaxed)
    }

    async fn call<M: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
        patience: Option<Duration>,
    ) -> Result<M> {
        let options = CallOptions {
            deadline: patience.map(|patience| Instant::now() + patience),
            ..CallOptions::default()
        };
        self.channel.call(method, Parts::from_message(request), options).await?.message.decode()
    }

    /// The task's devices, and what else it says about itself.
    pub(crate) async fn get_status(
        &self,
        deadline: Instant,
        metadata: &[(&str, &str)],
    ) -> Result<(GetStatusResponse, HeaderMap)> {
        let options = CallOptions { deadline: Some(deadline), metadata, ..CallOptions::default() };
        let request = Parts::from_message(&GetStatusRequest {});
        let response = self.channel.call("/tensorflow.WorkerService/GetStatus", request, options).await?;
        self.is_ours.store(response.metadata.contains_key(CLUSTER_HEADER), Ordering::Relaxed);
        Ok((response.message.decode()?, response.metadata))
    }

    /// Calls one of our own methods, which takes and gives plain bytes.
    pub(crate) async fn ask(&self, method: &'static str, patience: Duration) -> Result<Incoming> {
        let options = CallOptions { deadline: Some(Instant::now() + patience), ..CallOptions::default() };
        Ok(self.channel.call(method, Parts::empty(), options).await?.message)
    }

    pub(crate) async fn create_session(&self, request: &CreateWorkerSessionRequest) -> Result<()> {
        self.call("/tensorflow.WorkerService/CreateWorkerSession", request, Some(SETUP_DEADLINE)).await
    }

    pub(crate) async fn delete_session(&self, handle: &str) -> Result<()> {
        let request = DeleteWorkerSessionRequest { session_handle: handle.to_string() };
        self.call("/tensorflow.WorkerService/DeleteWorkerSession", &request, Some(CLEANUP_DEADLINE)).await
    }

    pub(crate) async fn register_graph(&self, session: &str, graph: GraphDef) -> Result<String> {
        let request = RegisterGraphRequest {
            session_handle: session.to_string(),
            graph_def: Some(graph),
            create_worker_session_called: true,
            ..Default::default()
        };
        let response: RegisterGraphResponse =
            self.call("/tensorflow.WorkerService/RegisterGraph", &request, Some(SETUP_DEADLINE)).await?;
        Ok(response.graph_handle)
    }

    pub(crate) async fn deregister_graph(&self, session: &str, graph: &str) -> Result<()> {
        let request = DeregisterGraphRequest {
            graph_handle: graph.to_string(),
            session_handle: session.to_string(),
            create_worker_session_called: true,
        };
        self.call("/tensorflow.WorkerService/DeregisterGraph", &request, Some(CLEANUP_DEADLINE)).await
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
        let message = tensors::with_named_tensors(SEND_FIELD, &sends, &rest);
        let mut news = News { worker: self, finished: self.finished.take() };
        let header = finished_steps::write(&news.finished);
        let metadata = [(finished_steps::HEADER, header.as_str())];
        let options = CallOptions {
            align: RUN_GRAPH_PAYLOAD,
            metadata: if news.finished.is_empty() { &[] } else { &metadata },
            ..CallOptions::default()
        };
        let response = self.channel.call("/tensorflow.WorkerService/RunGraph", message, options).await?;
        news.finished.clear();
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

    /// Tells the task, with the next step or else soon, that it can forget a step that went well. Whether that is possible:
    /// a TensorFlow server must be told by [`RemoteWorker::cleanup_step`].
    pub(crate) fn cleanup_soon(&self, step_id: i64) -> bool {
        let is_ours = self.is_ours.load(Ordering::Relaxed);
        if is_ours {
            self.forget_soon(vec![step_id]);
        }
        is_ours
    }

    fn forget_soon(&self, steps: Vec<i64>) {
        if steps.is_empty() || !self.finished.add(steps) {
            return;
        }
        let worker = self.clone();
        crate::io::handle().spawn(async move {
            loop {
                tokio::time::sleep(finished_steps::WAIT).await;
                worker.forget_now().await;
                if !worker.finished.stop_watching() {
                    return;
                }
            }
        });
    }

    /// Tells the task about all steps that it can forget.
    pub(crate) async fn forget_now(&self) {
        loop {
            let steps = self.finished.take();
            if steps.is_empty() {
                return;
            }
            for step in steps {
                // A task that is gone has forgotten it, any other forgets it in time.
                if let Err(status) = self.cleanup_step(step).await {
                    tracing::debug!("cleaning up step {step} on {}: {status}", self.address());
                    return;
                }
            }
        }
    }

    pub(crate) async fn cleanup_step(&self, step_id: i64) -> Result<()> {
        let request = CleanupGraphRequest { step_id };
        self.call("/tensorflow.WorkerService/CleanupGraph", &request, Some(CLEANUP_DEADLINE)).await
    }

    pub(crate) async fn cleanup_all(&self, containers: &[String]) -> Result<()> {
        let request = CleanupAllRequest { container: containers.to_vec() };
        let _: CleanupAllResponse =
            self.call("/tensorflow.WorkerService/CleanupAll", &request, Some(CLEANUP_DEADLINE)).await?;
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
        let response = self.channel.call("/tensorflow.WorkerService/RecvTensor", message, options).await?;
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
        let options = CallOptions { align: RECV_TENSORS_PAYLOAD, ..CallOptions::default() };
        let message = Parts::from_message(&request);
        let asked = self.channel.call_for_many(RECV_TENSORS_METHOD, message, options).await;
        if asked.as_ref().is_err_and(|status| status.code() == Code::Unimplemented) {
            self.is_foreign.store(true, Ordering::Relaxed);
        }
        let places = request.keys.into_iter().zip(0..).collect();
        asked.map(|messages| TensorStream { messages, places })
    }

    /// Tells a peer that keeps a tensor until it has arrived that it has.
    fn acknowledge(&self, request_id: i64) {
        let worker = self.clone();
        crate::io::handle().spawn(async move {
            let request = MarkRecvFinishedRequest { request_id };
            let method = "/tensorflow.WorkerService/MarkRecvFinished";
            // At worst the peer keeps the tensor until the step is cleaned up.
            let _: Result<()> = worker.call(method, &request, Some(CLEANUP_DEADLINE)).await;
        });
    }
}

/// Steps to forget that travel with a call. If the call fails or is given up, nobody knows whether they have arrived, and they
/// are told again.
struct News<'a> {
    worker: &'a RemoteWorker,
    finished: Vec<i64>,
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        self.worker.forget_soon(std::mem::take(&mut self.finished));
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
