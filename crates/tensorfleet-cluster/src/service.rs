//! Both services of a server: from methods and messages to calls of its master and worker, and back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tensorfleet_core::{RendezvousKey, Result, Status, Tensor};
use tensorfleet_kernel::rendezvous::Transfer;
use tensorfleet_proto::tensorflow::{
    CleanupAllRequest, CleanupAllResponse, CleanupGraphRequest, CleanupGraphResponse, CloseSessionRequest,
    CloseSessionResponse, CreateSessionRequest, CreateSessionResponse, CreateWorkerSessionRequest,
    CreateWorkerSessionResponse, DeleteWorkerSessionRequest, DeleteWorkerSessionResponse,
    DeregisterGraphRequest, DeregisterGraphResponse, ExtendSessionRequest, ExtendSessionResponse,
    GetStatusRequest, GetStatusResponse, GetStepSequenceRequest, GetStepSequenceResponse, ListDevicesRequest,
    ListDevicesResponse, LoggingRequest, LoggingResponse, MakeCallableRequest, MakeCallableResponse,
    MarkRecvFinishedRequest, MarkRecvFinishedResponse, NamedTensorProto, PartialRunSetupRequest,
    PartialRunSetupResponse, RecvTensorRequest, RegisterGraphRequest, RegisterGraphResponse,
    ReleaseCallableRequest, ReleaseCallableResponse, ResetRequest, ResetResponse, RunCallableRequest,
    RunCallableResponse, RunGraphRequest, RunGraphResponse, RunStepRequest, RunStepResponse, StepSequence,
    TensorProto,
};
use tensorfleet_rpc::{Handler, HeaderMap, MethodInfo, Page, Parts, Peer, Reply, Request, tensors};
use tensorfleet_runtime::plan::Signature;

use crate::finished_steps;
use crate::fleet_messages::{
    RECV_TENSORS_METHOD, RecvTensorsRequest, RecvTensorsResponse, SHUTDOWN_METHOD, STATUS_METHOD,
};
use crate::master::RunStep;
use crate::random;
use crate::server::ServerCore;
use crate::wire_status::body_text;
use crate::worker::{Arrivals, Master as MasterName, NewWorkerSession, Part, RunGraph, SessionRef};

/// Says which task calls; stock TensorFlow ignores it.
pub(crate) const TASK_HEADER: &str = "tensorfleet-task";
/// Says which cluster specification a task was started with; stock TensorFlow ignores it.
pub(crate) const CLUSTER_HEADER: &str = "tensorfleet-cluster";

/// Requests that carry neither graphs nor tensors are no bigger than this.
const SMALL_BYTES: usize = 16 << 20;

/// Tensors up to this size share a message with others.
const SMALL_TENSOR_BYTES: usize = 16 << 10;

/// `RunStepRequest.feed`, `NamedTensorProto.tensor`, `TensorProto.tensor_content`.
const RUN_STEP_PAYLOAD: &[u32] = &[2, 2, 4];
/// `RunGraphRequest.send` and so on.
const RUN_GRAPH_PAYLOAD: &[u32] = &[3, 2, 4];
/// `RunCallableRequest.feed` and so on.
const RUN_CALLABLE_PAYLOAD: &[u32] = &[3, 4];

/// `RunStepResponse.tensor`, `RunGraphResponse.recv` and `RunCallableResponse.fetch` have this number.
const RESULT_FIELD: u32 = 1;

impl Handler for ServerCore {
    fn method(&self, method: &str) -> Option<MethodInfo> {
        let any_size = |align: &'static [u32]| MethodInfo { align, ..MethodInfo::default() };
        let small = MethodInfo { max_message_bytes: SMALL_BYTES, ..MethodInfo::default() };
        let (service, name) = method.strip_prefix('/')?.split_once('/')?;
        Some(match (service, name) {
            ("tensorflow.MasterService", "RunStep") => any_size(RUN_STEP_PAYLOAD),
            ("tensorflow.MasterService", "RunCallable") => any_size(RUN_CALLABLE_PAYLOAD),
            ("tensorflow.MasterService", "CreateSession" | "ExtendSession") => any_size(&[]),
            ("tensorflow.WorkerService", "RunGraph") => any_size(RUN_GRAPH_PAYLOAD),
            ("tensorflow.WorkerService", "RegisterGraph") => any_size(&[]),
            ("tensorflow.MasterService" | "tensorflow.WorkerService" | "tensorfleet.FleetService", _) => {
                small
            }
            _ => return None,
        })
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let method = request.method.clone();
            if let Some(name) = method.strip_prefix("/tensorflow.WorkerService/") {
                return self.worker_call(name, request).await;
            }
            if let Some(name) = method.strip_prefix("/tensorflow.MasterService/") {
                return self.master_call(name, request).await.map(Reply::from);
            }
            match &*method {
                STATUS_METHOD => Ok(Reply::from(Parts::from_message(&Bytes::from(self.status_json())))),
                RECV_TENSORS_METHOD => self.recv_tensors(request.message.decode()?).await,
                SHUTDOWN_METHOD => {
                    self.request_stop();
                    Ok(Reply::from(Parts::empty()))
                }
                _ => Err(unknown(&method)),
            }
        }
        .boxed()
    }

    fn failed(&self, method: &str, peer: Peer, status: &Status) {
        self.request_log().note(method, peer, status);
    }

    fn page(&self, path: &str) -> Option<Page> {
        let is_status = matches!(path, "/" | "/status");
        is_status.then(|| Page { content_type: "application/json", body: self.status_json().into() })
    }
}

#[cold]
fn unknown(method: &str) -> Status {
    Status::unimplemented(format!("{method} is not supported by this server"))
}

impl ServerCore {
    async fn master_call(&self, name: &str, request: Request) -> Result<Parts> {
        let master = self.master();
        let (message, connection) = (&request.message, &request.connection);
        match name {
            "RunStep" => self.run_step(message.decode()?, connection).await,
            "RunCallable" => {
                let request: RunCallableRequest = message.decode()?;
                master.touch(&request.session_handle, Some(connection));
                let feeds = request.feed.iter().map(Tensor::from_proto).collect::<Result<_>>()?;
                let (fetches, metadata) = master
                    .run_callable(&request.session_handle, request.handle, feeds, request.request_id)
                    .await?;
                let rest = RunCallableResponse { metadata: Some(metadata), ..Default::default() };
                Ok(tensors::with_tensors(RESULT_FIELD, &fetches.iter().collect::<Vec<_>>(), &rest))
            }
            "CreateSession" => {
                let deadline = request.deadline;
                let CreateSessionRequest { graph_def, config, target } = message.decode()?;
                let client = Some(connection.clone());
                let graph = graph_def.unwrap_or_default();
                let session_handle = master.create_session(graph, config, &target, client, deadline).await?;
                Ok(Parts::from_message(&CreateSessionResponse { session_handle, graph_version: 0 }))
            }
            "ExtendSession" => {
                let request: ExtendSessionRequest = message.decode()?;
                master.touch(&request.session_handle, Some(connection));
                let graph = request.graph_def.unwrap_or_default();
                let version = request.current_graph_version;
                let new_graph_version =
                    master.extend_session(&request.session_handle, graph, version).await?;
                Ok(Parts::from_message(&ExtendSessionResponse { new_graph_version }))
            }
            "PartialRunSetup" => {
                let request: PartialRunSetupRequest = message.decode()?;
                master.touch(&request.session_handle, Some(connection));
                let signature =
                    Signature { feeds: request.feed, fetches: request.fetch, targets: request.target };
                let partial_run_handle =
                    master.set_up_partial_run(&request.session_handle, signature, request.request_id).await?;
                Ok(Parts::from_message(&PartialRunSetupResponse { partial_run_handle }))
            }
            "CloseSession" => {
                let request: CloseSessionRequest = message.decode()?;
                master.close_session(&request.session_handle).await?;
                Ok(Parts::from_message(&CloseSessionResponse {}))
            }
            "ListDevices" => {
                let request: ListDevicesRequest = message.decode()?;
                let (local_device, remote_device) = master.list_devices(&request.session_handle).await?;
                Ok(Parts::from_message(&ListDevicesResponse { local_device, remote_device }))
            }
            "Reset" => {
                let request: ResetRequest = message.decode()?;
                master.reset(&request.container, &request.device_filters).await?;
                Ok(Parts::from_message(&ResetResponse {}))
            }
            "MakeCallable" => {
                let request: MakeCallableRequest = message.decode()?;
                master.touch(&request.session_handle, Some(connection));
                let options = request.options.unwrap_or_default();
                let handle =
                    master.make_callable(&request.session_handle, &options, request.request_id).await?;
                Ok(Parts::from_message(&MakeCallableResponse { handle }))
            }
            "ReleaseCallable" => {
                let request: ReleaseCallableRequest = message.decode()?;
                master.release_callable(&request.session_handle, request.handle)?;
                Ok(Parts::from_message(&ReleaseCallableResponse {}))
            }
            _ => Err(unknown(&request.method)),
        }
    }

    /// Runs a step; the error goes into the body if the client can read it there.
    async fn run_step(
        &self,
        request: RunStepRequest,
        connection: &tensorfleet_rpc::Connection,
    ) -> Result<Parts> {
        let in_body = request.store_errors_in_response_body;
        self.master().touch(&request.session_handle, Some(connection));
        let run = async {
            let step = RunStep {
                session: request.session_handle,
                feeds: named_tensors(request.feed)?,
                fetches: request.fetch,
                targets: request.target,
                options: request.options.unwrap_or_default(),
                partial_run: request.partial_run_handle,
                request_id: request.request_id,
            };
            self.master().run_step(step).await
        };
        match run.await {
            Ok(output) => {
                let rest = RunStepResponse { metadata: Some(output.metadata), ..Default::default() };
                let fetches: Vec<(&str, &Tensor)> =
                    output.fetches.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
                Ok(tensors::with_named_tensors(RESULT_FIELD, &fetches, &rest))
            }
            Err(status) if in_body => {
                self.request_log().note_failed_step(connection.peer(), &status);
                Ok(Parts::from_message(&RunStepResponse {
                    status_code: status.code() as i32,
                    status_error_message: status.message(),
                    ..Default::default()
                }))
            }
            Err(status) => Err(status),
        }
    }

    async fn worker_call(&self, name: &str, request: Request) -> Result<Reply> {
        let worker = self.worker();
        let (message, connection) = (&request.message, &request.connection);
        let reply = match name {
            "RecvTensor" => {
                let request: RecvTensorRequest = message.decode()?;
                let key = request.rendezvous_key.parse()?;
                let value = worker.recv_tensor(request.step_id, key, request.request_id).await?;
                tensors::recv_tensor_response(&value, micros_now())
            }
            "RunGraph" => {
                let finished =
                    request.metadata.get(finished_steps::HEADER).and_then(|value| value.to_str().ok());
                finished_steps::read(finished.unwrap_or_default()).for_each(|step| worker.cleanup_step(step));
                self.run_graph(message.decode()?, connection).await?
            }
            "CleanupGraph" => {
                let request: CleanupGraphRequest = message.decode()?;
                worker.cleanup_step(request.step_id);
                Parts::from_message(&CleanupGraphResponse {})
            }
            "GetStatus" => {
                let _: GetStatusRequest = message.decode()?;
                return Ok(self.get_status());
            }
            "CreateWorkerSession" => {
                let request: CreateWorkerSessionRequest = message.decode()?;
                worker.create_session(NewWorkerSession {
                    handle: request.session_handle,
                    server: request.server_def,
                    isolate_state: request.isolate_session_state,
                    master: MasterName { task: request.master_task, incarnation: request.master_incarnation },
                    connection: Some(connection.clone()),
                })?;
                Parts::from_message(&CreateWorkerSessionResponse {})
            }
            "DeleteWorkerSession" => {
                let request: DeleteWorkerSessionRequest = message.decode()?;
                worker.delete_session(&request.session_handle);
                Parts::from_message(&DeleteWorkerSessionResponse {})
            }
            "RegisterGraph" => {
                let graph_handle = self.register_graph(message.decode()?, connection.clone()).await?;
                Parts::from_message(&RegisterGraphResponse { graph_handle })
            }
            "DeregisterGraph" => {
                let request: DeregisterGraphRequest = message.decode()?;
                let session = SessionRef {
                    handle: &request.session_handle,
                    is_created: request.create_worker_session_called,
                    connection: Some(connection),
                };
                worker.deregister_graph(&session, &request.graph_handle)?;
                Parts::from_message(&DeregisterGraphResponse {})
            }
            "CleanupAll" => {
                let request: CleanupAllRequest = message.decode()?;
                worker.cleanup_all(&request.container);
                Parts::from_message(&CleanupAllResponse {})
            }
            // Transfers are part of the step's own record, so there is nothing to switch or to fetch.
            "Logging" => {
                let _: LoggingRequest = message.decode()?;
                Parts::from_message(&LoggingResponse::default())
            }
            "MarkRecvFinished" => {
                let _: MarkRecvFinishedRequest = message.decode()?;
                Parts::from_message(&MarkRecvFinishedResponse {})
            }
            "GetStepSequence" => {
                let request: GetStepSequenceRequest = message.decode()?;
                let sequence = |&graph_key: &i64| StepSequence { graph_key, next_step_id: random::step_id() };
                let step_sequence = request.graph_key.iter().map(sequence).collect();
                Parts::from_message(&GetStepSequenceResponse { step_sequence })
            }
            // Tracing is unimplemented in TensorFlow as well; the others serve collective ops.
            _ => return Err(unknown(&request.method)),
        };
        Ok(Reply::from(reply))
    }

    async fn recv_tensors(&self, request: RecvTensorsRequest) -> Result<Reply> {
        let arrivals = self.worker().recv_tensors(request.step_id, keys(&request.keys)?)?;
        let mut messages = TensorMessages { keys: request.keys, arrivals, ready: VecDeque::new() };
        // The answer begins with the first of them: its head alone would only wake the caller up for nothing.
        let message = messages.next().await.unwrap_or_else(|| Ok(Parts::empty()))?;
        let more =
            stream::unfold(messages, |mut messages| async { Some((messages.next().await?, messages)) });
        Ok(Reply { message, more: Some(more.boxed()), metadata: HeaderMap::new() })
    }

    fn get_status(&self) -> Reply {
        let response = GetStatusResponse { device_attributes: self.worker().devices() };
        let mut metadata = HeaderMap::new();
        if let Ok(value) = format!("{:016x}", self.cluster().fingerprint()).parse() {
            metadata.insert(CLUSTER_HEADER, value);
        }
        Reply { metadata, ..Reply::from(Parts::from_message(&response)) }
    }

    async fn register_graph(
        &self,
        request: RegisterGraphRequest,
        connection: tensorfleet_rpc::Connection,
    ) -> Result<String> {
        let worker = self.worker().clone();
        let register = move || {
            let session = SessionRef {
                handle: &request.session_handle,
                is_created: request.create_worker_session_called,
                connection: Some(&connection),
            };
            worker.register_graph(&session, request.graph_def.unwrap_or_default())
        };
        // Compiling a big graph takes long; other calls must not wait for it.
        match tokio::task::spawn_blocking(register).await {
            Ok(result) => result,
            Err(error) => Err(Status::internal(format!("registering a graph failed: {error}"))),
        }
    }

    async fn run_graph(
        &self,
        request: RunGraphRequest,
        connection: &tensorfleet_rpc::Connection,
    ) -> Result<Parts> {
        let in_body = request.store_errors_in_response_body;
        let options = request.exec_opts.unwrap_or_default();
        let run = async {
            let run = RunGraph {
                session: request.session_handle,
                session_is_created: request.create_worker_session_called,
                graph: request.graph_handle,
                step_id: request.step_id,
                sends: sends(request.send)?,
                receives: keys(&request.recv_key)?,
                part: match (request.is_partial, request.is_last_partial_run) {
                    (false, _) => Part::Whole,
                    (true, false) => Part::Some,
                    (true, true) => Part::Last,
                },
                wants_trace: options.record_timeline,
                wants_graph: options.record_partition_graphs,
                request_id: request.request_id,
                connection: Some(connection.clone()),
            };
            self.worker().run_graph(run).await
        };
        match run.await {
            Ok(output) => {
                let rest = RunGraphResponse {
                    step_stats: output.step_stats,
                    partition_graph: output.graphs,
                    ..Default::default()
                };
                let names: Vec<String> = output.received.iter().map(|(key, _)| key.to_string()).collect();
                let values = output.received.iter().map(|(_, tensor)| tensor);
                let received: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(values).collect();
                Ok(tensors::with_named_tensors(RESULT_FIELD, &received, &rest))
            }
            Err(status) if in_body => Ok(Parts::from_message(&RunGraphResponse {
                status_code: status.code() as i32,
                status_error_message: body_text(&status),
                ..Default::default()
            })),
            Err(status) => Err(status),
        }
    }
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
        Some(Ok(tensors::with_named_tensors(RESULT_FIELD, &live, &rest)))
    }
}

fn is_small((_, value): &(usize, Transfer)) -> bool {
    value.as_ref().is_none_or(|tensor| tensor.byte_size() <= SMALL_TENSOR_BYTES)
}

fn named_tensors(protos: Vec<NamedTensorProto>) -> Result<Vec<(String, Tensor)>> {
    let tensor = |named: NamedTensorProto| {
        let proto: TensorProto = named
            .tensor
            .ok_or_else(|| Status::invalid_argument(format!("no tensor is given for '{}'", named.name)))?;
        let tensor = Tensor::from_proto(&proto).map_err(|status| status.context(&named.name))?;
        Ok((named.name, tensor))
    };
    protos.into_iter().map(tensor).collect()
}

fn keys(texts: &[String]) -> Result<Vec<RendezvousKey>> {
    texts.iter().map(|text| text.parse()).collect()
}

fn sends(protos: Vec<NamedTensorProto>) -> Result<Vec<(RendezvousKey, Tensor)>> {
    named_tensors(protos)?.into_iter().map(|(key, tensor)| Ok((key.parse()?, tensor))).collect()
}

fn micros_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}

/// The handler as the server's port wants it.
pub(crate) fn handler(core: Arc<ServerCore>) -> Arc<dyn Handler> {
    core
}
