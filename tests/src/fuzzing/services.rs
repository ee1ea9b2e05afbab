//! Calls of both gRPC services, from their bytes through the service tables to the master and the worker of a server.
//!
//! An input is a list of calls: a byte for the method and a piece for the message. No input could guess the handles that a
//! server gives out, so a message may name them by a letter: what `Live` puts in its place is what the calls before have
//! opened, or something opened for it. Calls that wait are left waiting while the next ones run, as those of several clients
//! are, and dropped in the end, as those of clients that leave.

use std::cell::{Cell, RefCell};
use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tensorfleet_cluster::{ClusterSpec, Server, ServerOptions};
use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{DType, Result};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::*;
use tensorfleet_rpc::{Connection, Handler, HeaderMap, Incoming, Peer, Reply, Request};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::pieces::Pieces;
use super::sandbox;
use crate::graph_builder::GraphBuilder;

/// The methods of the master, by the byte that chooses them.
pub(super) const MASTER_METHODS: &[&str] = &[
    "/tensorflow.MasterService/CreateSession",
    "/tensorflow.MasterService/ExtendSession",
    "/tensorflow.MasterService/RunStep",
    "/tensorflow.MasterService/PartialRunSetup",
    "/tensorflow.MasterService/MakeCallable",
    "/tensorflow.MasterService/RunCallable",
    "/tensorflow.MasterService/ReleaseCallable",
    "/tensorflow.MasterService/ListDevices",
    "/tensorflow.MasterService/Reset",
    "/tensorflow.MasterService/CloseSession",
];
/// Those of the worker. `Shutdown`, which ends the server, is left out.
pub(super) const WORKER_METHODS: &[&str] = &[
    "/tensorflow.WorkerService/RegisterGraph",
    "/tensorflow.WorkerService/RunGraph",
    "/tensorflow.WorkerService/RecvTensor",
    "/tensorfleet.FleetService/RecvTensors",
    "/tensorflow.WorkerService/CreateWorkerSession",
    "/tensorflow.WorkerService/DeleteWorkerSession",
    "/tensorflow.WorkerService/DeregisterGraph",
    "/tensorflow.WorkerService/CleanupGraph",
    "/tensorflow.WorkerService/CleanupAll",
    "/tensorflow.WorkerService/GetStatus",
    "/tensorflow.WorkerService/Logging",
    "/tensorflow.WorkerService/MarkRecvFinished",
    "/tensorflow.WorkerService/GetStepSequence",
    "/tensorfleet.FleetService/Status",
];

/// The task of the server, and its only device.
pub(super) const DEVICE: &str = "/job:worker/replica:0/task:0/device:CPU:0";
/// The worker session that `W` stands for.
const WORKER_SESSION: &str = "w";
/// How long a call is waited for before the next one begins.
const PATIENCE: Duration = Duration::from_millis(2);
/// Calls of one input.
pub(super) const MAX_CALLS: usize = 8;
/// Inputs after which a new server takes over: what hostile clients leave behind is swept after minutes only.
const INPUTS_PER_SERVER: u32 = 500;

/// Calls of the master.
pub fn master_service(data: &[u8]) {
    run(MASTER_METHODS, data);
}

/// Calls of the worker, and those of our own tasks' service that belong to steps.
pub fn worker_service(data: &[u8]) {
    run(WORKER_METHODS, data);
}

fn run(methods: &[&'static str], data: &[u8]) {
    thread_local! {
        static SERVER: RefCell<Option<(Server, u64)>> = const { RefCell::new(None) };
        static AGE: Cell<u32> = const { Cell::new(0) };
    }
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
    sandbox::bound_memory();
    SERVER.with_borrow_mut(|server| {
        if AGE.replace((AGE.get() + 1) % INPUTS_PER_SERVER) == 0 {
            *server = None;
        }
        let (server, incarnation) = server.get_or_insert_with(start);
        let (handler, incarnation) = (server.handler(), *incarnation);
        RUNTIME.block_on(answer_all(handler.as_ref(), incarnation, methods, Pieces::of(data)));
    });
}

/// A cluster of one task, and the task's incarnation.
fn start() -> (Server, u64) {
    let cluster = ClusterSpec::new([("worker", ["localhost:0"])]).unwrap();
    let options = ServerOptions {
        bind: Some("127.0.0.1".to_string()),
        session_timeout: Duration::from_millis(100),
        file_roots: vec![sandbox::graph_directory()],
        config: ConfigProto {
            intra_op_parallelism_threads: 1,
            inter_op_parallelism_threads: 1,
            ..Default::default()
        },
        ..ServerOptions::new(cluster, "worker", 0)
    };
    let server = Server::start(options).unwrap();
    let incarnation = u64::from_str_radix(&server.status().incarnation, 16).unwrap();
    (server, incarnation)
}

async fn answer_all(
    handler: &dyn Handler,
    incarnation: u64,
    methods: &[&'static str],
    mut pieces: Pieces<'_>,
) {
    let (connection, _open) = Connection::new(Peer::Process(None));
    let mut live = Live::new(handler, connection, incarnation);
    let mut waiting = FuturesUnordered::new();
    for _ in 0..MAX_CALLS {
        let method = methods[usize::from(pieces.byte()) % methods.len()];
        let Some(message) = pieces.piece() else { break };
        let message = live.put_in(method, message).await;
        let Ok(mut call) = live.call(method, &message) else { continue };
        match timeout(PATIENCE, &mut call).await {
            Ok(reply) => live.note(method, read(reply).await),
            Err(_) => waiting.push(call),
        }
    }
    let _ = timeout(PATIENCE, async { while waiting.next().await.is_some() {} }).await;
    drop(waiting);
    live.close().await;
}

/// Takes what is there of an answer, and gives its first message.
async fn read(reply: Result<Reply>) -> Option<Bytes> {
    let Reply { message, more, .. } = reply.ok()?;
    if let Some(more) = more {
        let _ = timeout(PATIENCE, more.for_each(async |_| ())).await;
    }
    Some(message.to_bytes())
}

/// What an input has opened, and what its letters stand for.
struct Live<'a> {
    handler: &'a dyn Handler,
    connection: Connection,
    incarnation: u64,
    /// All sessions that were opened, the one that `S` stands for last.
    sessions: Vec<String>,
    has_worker_session: bool,
    graph: Option<String>,
    partial_run: Option<String>,
    callable: Option<i64>,
}

impl<'a> Live<'a> {
    fn new(handler: &'a dyn Handler, connection: Connection, incarnation: u64) -> Live<'a> {
        Live {
            handler,
            connection,
            incarnation,
            sessions: Vec::new(),
            has_worker_session: false,
            graph: None,
            partial_run: None,
            callable: None,
        }
    }

    /// Remembers what a call has opened.
    fn note(&mut self, method: &str, answer: Option<Bytes>) {
        let Some(answer) = answer else { return };
        match method.rsplit('/').next() {
            Some("CreateSession") => {
                self.sessions.extend(CreateSessionResponse::decode(answer).map(|made| made.session_handle));
                (self.partial_run, self.callable) = (None, None);
            }
            Some("RegisterGraph") => {
                self.graph = RegisterGraphResponse::decode(answer).ok().map(|made| made.graph_handle);
            }
            Some("PartialRunSetup") => {
                let made = PartialRunSetupResponse::decode(answer).ok();
                self.partial_run = made.map(|made| made.partial_run_handle);
            }
            Some("MakeCallable") => {
                self.callable = MakeCallableResponse::decode(answer).ok().map(|made| made.handle);
            }
            _ => {}
        }
    }

    fn call(&self, method: &str, message: &[u8]) -> Result<BoxFuture<'a, Result<Reply>>> {
        let align = self.handler.method(method).map_or(&[][..], |info| info.align);
        Ok(self.handler.call(Request {
            method: method.to_string(),
            metadata: HeaderMap::new(),
            deadline: None,
            connection: self.connection.clone(),
            message: Incoming::from_bytes(message, align)?,
        }))
    }

    /// Calls a method with a message that makes sense.
    async fn ask<M: Message + Default>(&self, method: &str, request: &impl Message) -> Option<M> {
        let reply = self.call(method, &request.encode_to_vec()).ok()?.await.ok()?;
        M::decode(reply.message.to_bytes()).ok()
    }

    /// The message with live handles in place of letters: `S` a session, `W` a worker session, `G` a graph registered in
    /// it, `P` a partial run, `K…` a rendezvous key.
    async fn put_in(&mut self, method: &str, message: &[u8]) -> Vec<u8> {
        let message = match method.rsplit('/').next() {
            Some("RunGraph") => self.with_send_keys(message),
            Some("RegisterGraph") => self.with_incarnation(message),
            Some("RunCallable") => self.with_callable(message).await,
            _ => message.to_vec(),
        };
        let mut fields = Fields(&message);
        let mut replaced = Vec::with_capacity(message.len());
        while let Some((head, value)) = fields.next() {
            replaced.extend_from_slice(head);
            let Some(value) = value else { continue };
            let value = match value {
                b"S" => self.session().await.into_bytes(),
                b"W" => self.worker_session().await.into_bytes(),
                b"G" => self.graph().await.into_bytes(),
                b"P" => self.partial_run().await.into_bytes(),
                [b'K', name @ ..] => self.key(&String::from_utf8_lossy(name)).into_bytes(),
                _ => value.to_vec(),
            };
            super::forged::put_varint(&mut replaced, value.len());
            replaced.extend_from_slice(&value);
        }
        replaced.extend_from_slice(fields.0);
        replaced
    }

    fn key(&self, name: &str) -> String {
        format!("{DEVICE};{:016x};{DEVICE};{name};0:0", self.incarnation)
    }

    fn with_send_keys(&self, message: &[u8]) -> Vec<u8> {
        let Ok(mut request) = RunGraphRequest::decode(message) else { return message.to_vec() };
        for named in &mut request.send {
            if let Some(name) = named.name.strip_prefix('K') {
                named.name = self.key(name);
            }
        }
        request.encode_to_vec()
    }

    /// Transfers inside this task are between its present selves.
    fn with_incarnation(&self, message: &[u8]) -> Vec<u8> {
        let Ok(mut request) = RegisterGraphRequest::decode(message) else { return message.to_vec() };
        let nodes = request.graph_def.iter_mut().flat_map(|graph| &mut graph.node);
        for value in nodes.filter_map(|node| node.attr.get_mut("send_device_incarnation")) {
            if i64::from_attr(value) == Ok(1) {
                *value = (self.incarnation as i64).into_attr();
            }
        }
        request.encode_to_vec()
    }

    /// A callable of the session in place of number 1.
    async fn with_callable(&mut self, message: &[u8]) -> Vec<u8> {
        let Ok(mut request) = RunCallableRequest::decode(message) else { return message.to_vec() };
        if request.handle != 1 {
            return message.to_vec();
        }
        if self.callable.is_none() {
            let session_handle = self.session().await;
            let options = CallableOptions {
                feed: vec!["x:0".to_string()],
                fetch: vec!["y:0".to_string()],
                ..Default::default()
            };
            let make = MakeCallableRequest { session_handle, options: Some(options), request_id: 0 };
            let made: Option<MakeCallableResponse> = self.ask(MASTER_METHODS[4], &make).await;
            self.callable = made.map(|made| made.handle);
        }
        request.handle = self.callable.unwrap_or(1);
        request.encode_to_vec()
    }

    async fn session(&mut self) -> String {
        if self.sessions.is_empty() {
            let request = CreateSessionRequest { graph_def: Some(session_graph()), ..Default::default() };
            let created: Option<CreateSessionResponse> = self.ask(MASTER_METHODS[0], &request).await;
            self.sessions.push(created.unwrap_or_default().session_handle);
        }
        self.sessions.last().cloned().unwrap_or_default()
    }

    async fn partial_run(&mut self) -> String {
        if let Some(handle) = &self.partial_run {
            return handle.clone();
        }
        let request = PartialRunSetupRequest {
            session_handle: self.session().await,
            feed: vec!["x:0".to_string()],
            fetch: vec!["y:0".to_string(), "z:0".to_string()],
            ..Default::default()
        };
        let set_up: Option<PartialRunSetupResponse> = self.ask(MASTER_METHODS[3], &request).await;
        set_up.unwrap_or_default().partial_run_handle
    }

    async fn worker_session(&mut self) -> String {
        if !self.has_worker_session {
            self.has_worker_session = true;
            let session_handle = WORKER_SESSION.to_string();
            let request = CreateWorkerSessionRequest { session_handle, ..Default::default() };
            let _: Option<CreateWorkerSessionResponse> = self.ask(WORKER_METHODS[4], &request).await;
        }
        WORKER_SESSION.to_string()
    }

    async fn graph(&mut self) -> String {
        if let Some(handle) = &self.graph {
            return handle.clone();
        }
        let request = RegisterGraphRequest {
            session_handle: self.worker_session().await,
            create_worker_session_called: true,
            graph_def: Some(echo_partition(self.incarnation)),
            ..Default::default()
        };
        let registered: Option<RegisterGraphResponse> = self.ask(WORKER_METHODS[0], &request).await;
        registered.unwrap_or_default().graph_handle
    }

    async fn close(self) {
        for session_handle in &self.sessions {
            let request = CloseSessionRequest { session_handle: session_handle.clone() };
            let _: Option<CloseSessionResponse> = self.ask(MASTER_METHODS[9], &request).await;
        }
        if self.has_worker_session {
            let request = DeleteWorkerSessionRequest { session_handle: WORKER_SESSION.to_string() };
            let _: Option<DeleteWorkerSessionResponse> = self.ask(WORKER_METHODS[5], &request).await;
        }
    }
}

/// The fields of a message, one after the other: the bytes before a field's value, and the value of one that has a length.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// What does not have the form of a field is left in `self`.
    fn next(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let (tag, after) = varint(self.0)?;
        let head = |rest: &[u8]| &self.0[..self.0.len() - rest.len()];
        let (field, rest) = match tag & 7 {
            0 => {
                let (_, rest) = varint(after)?;
                ((head(rest), None), rest)
            }
            1 => {
                let rest = after.get(8..)?;
                ((head(rest), None), rest)
            }
            2 => {
                let (length, rest) = varint(after)?;
                let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                ((head(after), Some(value)), rest)
            }
            5 => {
                let rest = after.get(4..)?;
                ((head(rest), None), rest)
            }
            _ => return None,
        };
        self.0 = rest;
        Some(field)
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = 1 + bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at(length);
    let number = number.iter().rev().fold(0u64, |number, byte| number << 7 | u64::from(byte & 0x7f));
    Some((number, rest))
}

/// The graph of the session that `S` stands for: `x` is fed, `y` and `z` are made of it, `v` is a variable and `q` a queue.
pub(super) fn session_graph() -> GraphDef {
    let float = || ("T", DType::Float.into());
    let scalar = AttrValue { value: Some(attr_value::Value::Shape(TensorShapeProto::default())) };
    GraphBuilder::new()
        .placeholder("x", DType::Float)
        .constant("two", 2.0f32)
        .node("y", "Mul", &["x", "two"], &[float()])
        .node("z", "AddV2", &["y", "x"], &[float()])
        .node("v", "VariableV2", &[], &[("dtype", DType::Float.into()), ("shape", scalar.into())])
        .node("init", "Assign", &["v", "two"], &[float()])
        .node("add", "AssignAdd", &["v", "x"], &[float()])
        .node(
            "q",
            "FIFOQueueV2",
            &[],
            &[("component_types", vec![DType::Float].into()), ("capacity", 2i64.into())],
        )
        .node("put", "QueueEnqueueV2", &["q", "x"], &[("Tcomponents", vec![DType::Float].into())])
        .node("take", "QueueDequeueV2", &["q"], &[("component_types", vec![DType::Float].into())])
        .build()
}

/// A partition that takes `x` from the caller and gives `y = x` back.
pub(super) fn echo_partition(incarnation: u64) -> GraphDef {
    let ends = |name: &str, dtype: &'static str| {
        [
            (dtype, DType::Float.into()),
            ("tensor_name", name.into()),
            ("send_device", DEVICE.into()),
            ("send_device_incarnation", (incarnation as i64).into()),
            ("recv_device", DEVICE.into()),
            ("client_terminated", true.into()),
        ]
    };
    GraphBuilder::new()
        .node("take", "_Recv", &[], &ends("x", "tensor_type"))
        .on(DEVICE)
        .node("give", "_Send", &["take"], &ends("y", "T"))
        .on(DEVICE)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_that_may_be_called_is_there_and_letters_become_handles_that_work() {
        let (server, incarnation) = start();
        let handler = server.handler();
        for method in MASTER_METHODS.iter().chain(WORKER_METHODS) {
            assert!(handler.method(method).is_some(), "{method}");
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let (connection, _open) = Connection::new(Peer::Process(None));
            let handler = handler.as_ref();
            let mut live = Live::new(handler, connection, incarnation);
            let x = tensorfleet_core::Tensor::scalar(3.0f32).to_proto();
            let named = |name: &str| NamedTensorProto { name: name.to_string(), tensor: Some(x.clone()) };
            let step = RunStepRequest {
                session_handle: "S".to_string(),
                feed: vec![named("x:0")],
                fetch: vec!["z:0".to_string()],
                ..Default::default()
            };
            let message = live.put_in(MASTER_METHODS[2], &step.encode_to_vec()).await;
            let answer = live.call(MASTER_METHODS[2], &message).unwrap().await.unwrap();
            let answer = RunStepResponse::decode(answer.message.to_bytes()).unwrap();
            assert_eq!(answer.tensor.len(), 1);
            let run = RunGraphRequest {
                session_handle: "W".to_string(),
                create_worker_session_called: true,
                graph_handle: "G".to_string(),
                step_id: 7,
                send: vec![named("Kx")],
                recv_key: vec!["Ky".to_string()],
                ..Default::default()
            };
            let message = live.put_in(WORKER_METHODS[1], &run.encode_to_vec()).await;
            let answer = live.call(WORKER_METHODS[1], &message).unwrap().await.unwrap();
            let answer = RunGraphResponse::decode(answer.message.to_bytes()).unwrap();
            assert_eq!((answer.status_code, answer.recv.len()), (0, 1), "{answer:?}");
            live.close().await;
        });
    }
}
