//! `tensorflow.MasterService`: sessions of clients, and their steps.

use tensorfleet_core::{Result, Tensor};
use tensorfleet_proto::tensorflow::{
    CloseSessionRequest, CloseSessionResponse, CreateSessionRequest, CreateSessionResponse,
    ExtendSessionRequest, ExtendSessionResponse, ListDevicesRequest, ListDevicesResponse,
    MakeCallableRequest, MakeCallableResponse, PartialRunSetupRequest, PartialRunSetupResponse,
    ReleaseCallableRequest, ReleaseCallableResponse, ResetRequest, ResetResponse, RunCallableRequest,
    RunCallableResponse, RunStepRequest, RunStepResponse,
};
use tensorfleet_rpc::{Parts, Reply, tensors};
use tensorfleet_runtime::plan::Signature;

use super::{
    Call, Method, SMALL, Services, VITAL, client_id, graph_method, method, named_tensors, numbered_request,
    received_graph, reply, tensors_at,
};
use crate::master::{RunStep, SessionClient};
use crate::wire::payloads;

/// The methods, those of every step first.
pub(super) static METHODS: &[Method] = &[
    method!("/tensorflow.MasterService/RunStep", tensors_at(payloads::RUN_STEP_REQUEST), run_step),
    method!(
        "/tensorflow.MasterService/RunCallable",
        tensors_at(payloads::RUN_CALLABLE_REQUEST),
        run_callable
    ),
    graph_method!("/tensorflow.MasterService/CreateSession", create_session),
    graph_method!("/tensorflow.MasterService/ExtendSession", extend_session),
    method!("/tensorflow.MasterService/PartialRunSetup", SMALL, partial_run_setup),
    method!("/tensorflow.MasterService/CloseSession", VITAL, close_session),
    method!("/tensorflow.MasterService/ListDevices", SMALL, list_devices),
    method!("/tensorflow.MasterService/Reset", SMALL, reset),
    method!("/tensorflow.MasterService/MakeCallable", SMALL, make_callable),
    method!("/tensorflow.MasterService/ReleaseCallable", VITAL, release_callable),
];

/// Runs a step; the error goes into the body if the client can read it there.
async fn run_step(services: &Services, call: Call<RunStepRequest>) -> Result<Reply> {
    let numbered = numbered_request(&call.metadata)?;
    let Call { message: request, connection, .. } = call;
    let in_body = request.store_errors_in_response_body;
    services.master.touch(&request.session_handle, Some(&connection));
    let run = async {
        let step = RunStep {
            session: request.session_handle,
            feeds: named_tensors(request.feed)?,
            fetches: request.fetch,
            targets: request.target,
            options: request.options.unwrap_or_default(),
            partial_run: request.partial_run_handle,
            request_id: request.request_id,
            numbered,
        };
        services.master.run_step(step).await
    };
    match run.await {
        Ok(output) => {
            let rest = RunStepResponse { metadata: Some(output.metadata), ..Default::default() };
            let fetches: Vec<(&str, &Tensor)> =
                output.fetches.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
            Ok(Reply::from(tensors::with_named_tensors(payloads::RUN_STEP_FETCH, &fetches, &rest)))
        }
        Err(status) if in_body => {
            services.request_log.note_failed_step(connection.peer(), &status);
            reply(&RunStepResponse {
                status_code: status.code() as i32,
                status_error_message: status.message(),
                ..Default::default()
            })
        }
        Err(status) => Err(status),
    }
}

async fn run_callable(services: &Services, call: Call<RunCallableRequest>) -> Result<Reply> {
    let numbered = numbered_request(&call.metadata)?;
    let request = call.message;
    services.master.touch(&request.session_handle, Some(&call.connection));
    let feeds = request.feed.iter().map(Tensor::from_proto).collect::<Result<_>>()?;
    let (session, number) = (&request.session_handle, request.request_id);
    let run = services.master.run_callable(session, request.handle, feeds, number, numbered);
    let (fetches, metadata) = run.await?;
    let rest = RunCallableResponse { metadata: Some(metadata), ..Default::default() };
    let fetches: Vec<&Tensor> = fetches.iter().collect();
    let message: Parts = tensors::with_tensors(payloads::RUN_CALLABLE_FETCH, &fetches, &rest);
    Ok(Reply::from(message))
}

async fn create_session(services: &Services, call: Call<CreateSessionRequest>) -> Result<Reply> {
    let id = client_id(&call.metadata)?;
    let CreateSessionRequest { graph_def, config, target } = call.message;
    let graph = received_graph(services, graph_def).await?;
    let client = SessionClient { id, connection: Some(call.connection) };
    let created = services.master.create_session(graph, config, &target, client, call.deadline);
    reply(&CreateSessionResponse { session_handle: created.await?, graph_version: 0 })
}

async fn extend_session(services: &Services, call: Call<ExtendSessionRequest>) -> Result<Reply> {
    let request = call.message;
    services.master.touch(&request.session_handle, Some(&call.connection));
    let version = request.current_graph_version;
    let graph = received_graph(services, request.graph_def).await?;
    let new_graph_version = services.master.extend_session(&request.session_handle, graph, version).await?;
    reply(&ExtendSessionResponse { new_graph_version })
}

async fn partial_run_setup(services: &Services, call: Call<PartialRunSetupRequest>) -> Result<Reply> {
    let request = call.message;
    services.master.touch(&request.session_handle, Some(&call.connection));
    let signature = Signature { feeds: request.feed, fetches: request.fetch, targets: request.target };
    let set_up = services.master.set_up_partial_run(&request.session_handle, signature, request.request_id);
    reply(&PartialRunSetupResponse { partial_run_handle: set_up.await? })
}

async fn close_session(services: &Services, call: Call<CloseSessionRequest>) -> Result<Reply> {
    services.master.close_session(&call.message.session_handle).await?;
    reply(&CloseSessionResponse {})
}

async fn list_devices(services: &Services, call: Call<ListDevicesRequest>) -> Result<Reply> {
    let (local_device, remote_device) = services.master.list_devices(&call.message.session_handle).await?;
    reply(&ListDevicesResponse { local_device, remote_device })
}

async fn reset(services: &Services, call: Call<ResetRequest>) -> Result<Reply> {
    services.master.reset(&call.message.container, &call.message.device_filters).await?;
    reply(&ResetResponse {})
}

async fn make_callable(services: &Services, call: Call<MakeCallableRequest>) -> Result<Reply> {
    let request = call.message;
    services.master.touch(&request.session_handle, Some(&call.connection));
    let options = request.options.unwrap_or_default();
    let handle = services.master.make_callable(&request.session_handle, &options, request.request_id).await?;
    reply(&MakeCallableResponse { handle })
}

async fn release_callable(services: &Services, call: Call<ReleaseCallableRequest>) -> Result<Reply> {
    services.master.release_callable(&call.message.session_handle, call.message.handle)?;
    reply(&ReleaseCallableResponse {})
}
