//! The services of a server: TensorFlow's master and worker service, and our own beside them.
//!
//! Each service is a table of its methods: name, how the message is received, and the function that answers it. Here the
//! method of a call is looked up and its message decoded; the functions turn messages into calls of the master and the
//! worker, and their results into messages.

mod fleet_service;
mod master_service;
mod worker_service;

use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tensorfleet_core::{Result, Status, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{NamedTensorProto, TensorProto};
use tensorfleet_rpc::{
    Connection, Handler, HeaderMap, MAX_MESSAGE_BYTES, MethodInfo, Page, Parts, Peer, Reply, Request,
};

use crate::cluster_spec::ClusterSpec;
use crate::master::Master;
use crate::request_log::RequestLog;
use crate::status::TaskStatus;
use crate::worker::Worker;

/// Requests that carry neither graphs nor tensors are no bigger than this.
const SMALL_BYTES: usize = 16 << 20;

/// What all services of a server work with.
pub(crate) struct Services {
    pub(crate) worker: Arc<Worker>,
    pub(crate) master: Arc<Master>,
    pub(crate) cluster: Arc<ClusterSpec>,
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
                Box::pin(async move { $function(services, crate::service::decoded(request)?).await })
            },
        }
    };
}
use method;

/// Messages without graphs and tensors.
const SMALL: MethodInfo = MethodInfo { max_message_bytes: SMALL_BYTES, align: &[] };
/// Messages with graphs.
const GRAPH: MethodInfo = MethodInfo { max_message_bytes: MAX_MESSAGE_BYTES, align: &[] };

/// Messages with tensors, the contents of which are at the end of `path`.
const fn tensors_at(path: &'static [u32]) -> MethodInfo {
    MethodInfo { max_message_bytes: MAX_MESSAGE_BYTES, align: path }
}

fn decoded<M: Message + Default>(request: Request) -> Result<Call<M>> {
    let Request { metadata, deadline, connection, message, .. } = request;
    Ok(Call { message: message.decode()?, metadata, connection, deadline })
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
