//! The services of a server: TensorFlow's master and worker service, and our own beside them.
//!
//! Each service is a table of its methods: name, how the message is received, and the function that answers it. Here the
//! method of a call is looked up and its message decoded; the functions turn messages into calls of the master and the
//! worker, and their results into messages.

mod fleet_service;
mod master_service;
mod worker_service;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tensorfleet_core::{Result, Status, Tensor, memory};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{GraphDef, NamedTensorProto, TensorProto};
use tensorfleet_rpc::{
    Connection, ConnectionId, Handler, HeaderMap, MAX_MESSAGE_BYTES, MethodInfo, Page, Parts, Peer, Reply,
    Request,
};

use crate::client_id::ClientId;
use crate::cluster_spec::ClusterSpec;
use crate::master::Master;
use crate::members::Members;
use crate::numbered_request::NumberedRequest;
use crate::request_log::RequestLog;
use crate::status::TaskStatus;
use crate::wire::headers;
use crate::worker::Worker;

/// Requests that carry neither graphs nor tensors are no bigger than this.
const SMALL_BYTES: usize = 16 << 20;
/// Those that are never refused name a session, a graph or a step.
const VITAL_BYTES: usize = 64 << 10;

/// From this size on a message is decoded where that may take long.
const LONG_MESSAGE_BYTES: usize = 1 << 20;

/// What all services of a server work with.
pub(crate) struct Services {
    pub(crate) worker: Arc<Worker>,
    pub(crate) master: Arc<Master>,
    pub(crate) cluster: Arc<ClusterSpec>,
    pub(crate) members: Arc<Members>,
    pub(crate) request_log: RequestLog,
    pub(crate) server: Arc<dyn ServerControl>,
}

/// What a service may ask of the server as a whole.
pub(crate) trait ServerControl: Send + Sync {
    /// What the server tells about itself.
    fn status(&self) -> TaskStatus;

    /// Begins the end: a call that asks for it is answered first.
    fn request_stop(&self);
}

/// A method of a service.
struct Method {
    /// As it stands in a request: `/tensorflow.WorkerService/GetStatus`.
    path: &'static str,
    info: MethodInfo,
    answer: for<'a> fn(&'a Services, Request) -> BoxFuture<'a, Result<Reply>>,
}

/// A call with its message decoded.
struct Call<M> {
    message: M,
    metadata: HeaderMap,
    connection: Connection,
    deadline: Option<Instant>,
}

/// A row of a table: the path, how the message is received, and an async function from `&Services` and a [`Call`] to a
/// [`Reply`].
macro_rules! method {
    ($path:expr, $info:expr, $function:path) => {
        crate::service::Method {
            path: $path,
            info: $info,
            answer: |services, request| {
                Box::pin(async move {
                    $function(services, crate::service::decoded(services, request).await?).await
                })
            },
        }
    };
}
use method;

/// Messages without graphs and tensors.
const SMALL: MethodInfo = MethodInfo { max_message_bytes: SMALL_BYTES, align: &[], is_vital: false };
/// Small messages that free something or ask how the server is: answered however busy it is.
const VITAL: MethodInfo = MethodInfo { max_message_bytes: VITAL_BYTES, align: &[], is_vital: true };
/// Messages with graphs.
const GRAPH: MethodInfo = MethodInfo { max_message_bytes: MAX_MESSAGE_BYTES, align: &[], is_vital: false };

/// Messages with tensors, the contents of which are at the end of `path`.
const fn tensors_at(path: &'static [u32]) -> MethodInfo {
    MethodInfo { max_message_bytes: MAX_MESSAGE_BYTES, align: path, is_vital: false }
}

/// A row for a message with a graph: its bytes are kept as long as the graph, so they must not keep the message.
macro_rules! graph_method {
    ($path:expr, $function:path) => {
        crate::service::Method {
            path: $path,
            info: crate::service::GRAPH,
            answer: |services, request| {
                Box::pin(async move { $function(services, crate::service::decoded_apart(request)?).await })
            },
        }
    };
}
use graph_method;

fn decoded_apart<M: Message + Default>(request: Request) -> Result<Call<M>> {
    let Request { metadata, deadline, connection, message, .. } = request;
    // The copy is made by the decoder, which knows no limit.
    memory::check_fits(message.len())?;
    Ok(Call { message: message.decode_apart()?, metadata, connection, deadline })
}

/// A message of a million strings takes longer to decode than others may wait for their answers.
async fn decoded<M: Message + Default + 'static>(services: &Services, request: Request) -> Result<Call<M>> {
    let Request { metadata, deadline, connection, message, .. } = request;
    let message = match message.len() {
        0..LONG_MESSAGE_BYTES => message.decode()?,
        _ => services.worker.spawner().do_long_work("decoding a message", move || message.decode()).await?,
    };
    Ok(Call { message, metadata, connection, deadline })
}

/// Who opens a session, if it has said so.
fn client_id(metadata: &HeaderMap) -> Result<Option<ClientId>> {
    metadata.get(headers::CLIENT).and_then(|value| value.to_str().ok()).map(str::parse).transpose()
}

/// The number of a run, if its client repeats runs.
fn numbered_request(metadata: &HeaderMap) -> Result<Option<NumberedRequest>> {
    metadata.get(headers::REQUEST).and_then(|value| value.to_str().ok()).map(str::parse).transpose()
}

/// An answer without tensors.
fn reply(message: &impl Message) -> Result<Reply> {
    Ok(Reply::from(Parts::from_message(message)))
}

fn find(path: &str) -> Option<&'static Method> {
    let mut methods =
        worker_service::METHODS.iter().chain(master_service::METHODS).chain(fleet_service::METHODS);
    methods.find(|method| method.path == path)
}

impl Handler for Services {
    fn method(&self, path: &str) -> Option<MethodInfo> {
        find(path).map(|method| method.info)
    }

    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        match find(&request.method) {
            Some(method) => (method.answer)(self, request),
            None => async move {
                Err(Status::unimplemented(format!("{} is not supported by this server", request.method)))
            }
            .boxed(),
        }
    }

    fn failed(&self, method: &str, peer: Peer, status: &Status) {
        self.request_log.note(method, peer, status);
    }

    fn is_member(&self, peer: Peer, metadata: &HeaderMap) -> bool {
        self.members.is_member(peer, metadata)
    }

    fn connections_in_use(&self) -> HashSet<ConnectionId> {
        self.master.connections_in_use().chain(self.worker.connections_in_use()).collect()
    }

    fn page(&self, path: &str) -> Option<Page> {
        let is_status = matches!(path, "/" | "/status");
        is_status.then(|| Page { content_type: "application/json", body: self.status_json().into() })
    }
}

impl Services {
    fn status_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.server.status()).unwrap_or_default()
    }
}

/// A graph that came with a call, its constants those that the task has already.
async fn received_graph(services: &Services, graph: Option<GraphDef>) -> Result<GraphDef> {
    let (worker, mut graph) = (services.worker.clone(), graph.unwrap_or_default());
    // Reading big constants takes long; other calls must not wait for it.
    let share = move || {
        worker.task().constants().share(&mut graph)?;
        Ok(graph)
    };
    services.worker.spawner().do_long_work("reading a graph", share).await
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

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use super::*;

    #[test]
    fn every_method_has_one_row_under_the_name_of_its_service() {
        let tables = [
            ("/tensorflow.WorkerService/", worker_service::METHODS),
            ("/tensorflow.MasterService/", master_service::METHODS),
            ("/tensorfleet.FleetService/", fleet_service::METHODS),
        ];
        let mut seen = FxHashSet::default();
        for (prefix, table) in tables {
            for method in table {
                assert!(method.path.starts_with(prefix), "{}", method.path);
                assert!(seen.insert(method.path), "{} is there twice", method.path);
            }
        }
        assert!(find("/tensorflow.WorkerService/RecvBuf").is_none());
    }
}
