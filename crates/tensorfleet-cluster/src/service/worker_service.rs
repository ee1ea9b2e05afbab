//! `tensorflow.WorkerService`: this task's part of other tasks' steps.
//!
//! `Tracing` is unimplemented in TensorFlow as well; the other methods of the service that are missing here serve
//! collective ops.

use tensorfleet_core::clock;
use tensorfleet_core::{RendezvousKey, Result, Tensor};
use tensorfleet_proto::tensorflow::{
    CleanupAllRequest, CleanupAllResponse, CleanupGraphRequest, CleanupGraphResponse,
    CreateWorkerSessionRequest, CreateWorkerSessionResponse, DeleteWorkerSessionRequest,
    DeleteWorkerSessionResponse, DeregisterGraphRequest, DeregisterGraphResponse, GetStatusRequest,
    GetStatusResponse, GetStepSequenceRequest, GetStepSequenceResponse, LoggingRequest, LoggingResponse,
    MarkRecvFinishedRequest, MarkRecvFinishedResponse, NamedTensorProto, RecvTensorRequest,
    RegisterGraphRequest, RegisterGraphResponse, RunGraphRequest, RunGraphResponse, StepSequence,
};
use tensorfleet_rpc::{HeaderMap, Parts, Reply, tensors};

use super::{
    Call, Method, SMALL, Services, VITAL, client_id, graph_method, method, named_tensors, numbered_request,
    reply, tensors_at,
};
use crate::random;
use crate::wire::status_body::body_text;
use crate::wire::{finished_steps, headers, payloads};
use crate::worker_api::{MasterId, NewWorkerSession, Part, RunGraph, SessionRef, WorkerApi};

/// The methods, those of every step first.
pub(super) static METHODS: &[Method] = &[
    method!("/tensorflow.WorkerService/RecvTensor", SMALL, recv_tensor),
    method!("/tensorflow.WorkerService/RunGraph", tensors_at(payloads::RUN_GRAPH_REQUEST), run_graph),
    method!("/tensorflow.WorkerService/CleanupGraph", VITAL, cleanup_graph),
    method!("/tensorflow.WorkerService/GetStatus", VITAL, get_status),
    method!("/tensorflow.WorkerService/CreateWorkerSession", SMALL, create_worker_session),
    method!("/tensorflow.WorkerService/DeleteWorkerSession", VITAL, delete_worker_session),
    graph_method!("/tensorflow.WorkerService/RegisterGraph", register_graph),
    method!("/tensorflow.WorkerService/DeregisterGraph", VITAL, deregister_graph),
    method!("/tensorflow.WorkerService/CleanupAll", SMALL, cleanup_all),
    method!("/tensorflow.WorkerService/Logging", SMALL, logging),
    method!("/tensorflow.WorkerService/MarkRecvFinished", VITAL, mark_recv_finished),
    method!("/tensorflow.WorkerService/GetStepSequence", SMALL, get_step_sequence),
];

async fn recv_tensor(services: &Services, call: Call<RecvTensorRequest>) -> Result<Reply> {
    let RecvTensorRequest { step_id, rendezvous_key, request_id, .. } = call.message;
    let value = services.worker.recv_tensor(step_id, rendezvous_key.parse()?, request_id).await?;
    let now = clock::since_epoch().as_micros() as i64;
    Ok(Reply::from(tensors::recv_tensor_response(&value, now)))
}

/// Runs a partition; the error goes into the body if the master can read it there.
async fn run_graph(services: &Services, call: Call<RunGraphRequest>) -> Result<Reply> {
    let finished = call.metadata.get(headers::FINISHED_STEPS).and_then(|value| value.to_str().ok());
    finished_steps::read(finished.unwrap_or_default()).for_each(|step| services.worker.cleanup_step(step));
    let numbered = numbered_request(&call.metadata)?;
    let request = call.message;
    let in_body = request.store_errors_in_response_body;
    let options = request.exec_opts.unwrap_or_default();
    let run = async {
        let run = RunGraph {
            session: request.session_handle,
            session_is_created: request.create_worker_session_called,
            graph: request.graph_handle,
            step_id: request.step_id,
            sends: sends(request.send)?,
            receives: request.recv_key.iter().map(|key| key.parse()).collect::<Result<_>>()?,
            part: match (request.is_partial, request.is_last_partial_run) {
                (false, _) => Part::Whole,
                (true, false) => Part::Some,
                (true, true) => Part::Last,
            },
            wants_trace: options.record_timeline,
            wants_graph: options.record_partition_graphs,
            request_id: request.request_id,
            numbered,
            connection: Some(call.connection),
        };
        services.worker.run_graph(run).await
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
            let message: Parts = tensors::with_named_tensors(payloads::RUN_GRAPH_RECV, &received, &rest);
            Ok(Reply::from(message))
        }
        Err(status) if in_body => reply(&RunGraphResponse {
            status_code: status.code() as i32,
            status_error_message: body_text(&status),
            ..Default::default()
        }),
        Err(status) => Err(status),
    }
}

fn sends(protos: Vec<NamedTensorProto>) -> Result<Vec<(RendezvousKey, Tensor)>> {
    named_tensors(protos)?.into_iter().map(|(key, tensor)| Ok((key.parse()?, tensor))).collect()
}

async fn cleanup_graph(services: &Services, call: Call<CleanupGraphRequest>) -> Result<Reply> {
    services.worker.cleanup_step(call.message.step_id);
    reply(&CleanupGraphResponse {})
}

async fn get_status(services: &Services, _: Call<GetStatusRequest>) -> Result<Reply> {
    let mut metadata = HeaderMap::new();
    if let Ok(value) = format!("{:016x}", services.cluster.fingerprint()).parse() {
        metadata.insert(headers::CLUSTER, value);
    }
    let response = GetStatusResponse { device_attributes: services.worker.devices() };
    Ok(Reply { metadata, ..reply(&response)? })
}

async fn create_worker_session(services: &Services, call: Call<CreateWorkerSessionRequest>) -> Result<Reply> {
    let client = client_id(&call.metadata)?;
    let request = call.message;
    services.worker.create_session(NewWorkerSession {
        handle: request.session_handle,
        server: request.server_def,
        isolate_state: request.isolate_session_state,
        master: MasterId { task: request.master_task, incarnation: request.master_incarnation },
        client,
        connection: Some(call.connection),
    })?;
    reply(&CreateWorkerSessionResponse {})
}

async fn delete_worker_session(services: &Services, call: Call<DeleteWorkerSessionRequest>) -> Result<Reply> {
    services.worker.delete_session(&call.message.session_handle);
    reply(&DeleteWorkerSessionResponse {})
}

async fn register_graph(services: &Services, call: Call<RegisterGraphRequest>) -> Result<Reply> {
    let (worker, request) = (services.worker.clone(), call.message);
    let register = move || {
        let session = SessionRef {
            handle: &request.session_handle,
            is_created: request.create_worker_session_called,
            connection: Some(&call.connection),
        };
        worker.register_graph(&session, request.graph_def.unwrap_or_default())
    };
    // Compiling a big graph takes long; other calls must not wait for it.
    let graph_handle = services.worker.spawner().do_long_work("registering a graph", register).await?;
    reply(&RegisterGraphResponse { graph_handle })
}

async fn deregister_graph(services: &Services, call: Call<DeregisterGraphRequest>) -> Result<Reply> {
    let session = SessionRef {
        handle: &call.message.session_handle,
        is_created: call.message.create_worker_session_called,
        connection: Some(&call.connection),
    };
    services.worker.deregister_graph(&session, &call.message.graph_handle)?;
    reply(&DeregisterGraphResponse {})
}

async fn cleanup_all(services: &Services, call: Call<CleanupAllRequest>) -> Result<Reply> {
    services.worker.cleanup_all(&call.message.container);
    reply(&CleanupAllResponse {})
}

/// Transfers are part of the step's own record, so there is nothing to switch or to fetch.
async fn logging(_: &Services, _: Call<LoggingRequest>) -> Result<Reply> {
    reply(&LoggingResponse::default())
}

/// No tensor is kept for an acknowledgement, so there is none to let go.
async fn mark_recv_finished(_: &Services, _: Call<MarkRecvFinishedRequest>) -> Result<Reply> {
    reply(&MarkRecvFinishedResponse {})
}

async fn get_step_sequence(_: &Services, call: Call<GetStepSequenceRequest>) -> Result<Reply> {
    let sequence = |&graph_key: &i64| StepSequence { graph_key, next_step_id: random::step_id() };
    let step_sequence = call.message.graph_key.iter().map(sequence).collect();
    reply(&GetStepSequenceResponse { step_sequence })
}
