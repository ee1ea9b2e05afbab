//! Requests that make no sense, straight at the port: each gets the error that a TensorFlow server gives, the server goes
//! on, and nothing is left of them.
#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tensorfleet_cluster::{ConnectOptions, RemoteSession};
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Code, DType, Result, Status, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::*;
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Parts};
use tensorfleet_tests::cluster::{self, Cluster, Job};
use tensorfleet_tests::graph_builder::GraphBuilder;
use tensorfleet_tests::stuck::eventually;

/// What waits for nobody's time-out is done by then, however busy the machine is: servers wait a minute for each other unless
/// told otherwise.
const SOON: Duration = Duration::from_secs(25);
/// For calls that wait for something that does not come.
const SHORT: Duration = Duration::from_millis(200);

/// A cluster and a bare channel to one of its tasks.
struct Raw {
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
    channel: Channel,
    device: String,
    incarnation: u64,
}

impl Raw {
    /// A cluster of a ps and a worker, with a channel to the worker.
    fn start() -> Raw {
        let cluster = Cluster::start_ours(1, 1, &["--session-timeout=2"]).unwrap();
        let address = cluster.address(Job::Worker, 0).unwrap().to_string();
        let status = cluster.status(Job::Worker, 0).unwrap();
        Raw {
            runtime: tokio::runtime::Runtime::new().unwrap(),
            channel: Channel::new(&address, ChannelOptions::default()).unwrap(),
            device: status.devices[0].clone(),
            incarnation: u64::from_str_radix(&status.incarnation, 16).unwrap(),
            cluster,
        }
    }

    fn send<M: Message + Default>(&self, method: &str, request: Parts, patience: Duration) -> Result<M> {
        let options = CallOptions { deadline: Some(Instant::now() + patience), ..Default::default() };
        let answer = self.runtime.block_on(async { self.channel.call(method, request, options).await })?;
        answer.message.decode()
    }

    fn worker<M: Message + Default>(&self, method: &str, request: &impl Message) -> Result<M> {
        self.send(&format!("/tensorflow.WorkerService/{method}"), Parts::from_message(request), SOON)
    }

    fn master<M: Message + Default>(&self, method: &str, request: &impl Message) -> Result<M> {
        self.send(&format!("/tensorflow.MasterService/{method}"), Parts::from_message(request), SOON)
    }

    fn create_worker_session(&self, handle: &str) -> Result<CreateWorkerSessionResponse> {
        let request = CreateWorkerSessionRequest { session_handle: handle.into(), ..Default::default() };
        self.worker("CreateWorkerSession", &request)
    }

    fn register(&self, session: &str, graph: GraphDef) -> Result<String> {
        let request = RegisterGraphRequest {
            session_handle: session.into(),
            create_worker_session_called: true,
            graph_def: Some(graph),
            ..Default::default()
        };
        self.worker("RegisterGraph", &request).map(|answer: RegisterGraphResponse| answer.graph_handle)
    }

    fn run_graph(&self, request: &RunGraphRequest, patience: Duration) -> Result<RunGraphResponse> {
        let method = "/tensorflow.WorkerService/RunGraph";
        let answer = self.send(method, Parts::from_message(request), patience);
        let answer: RunGraphResponse = answer?;
        match answer.status_code {
            0 => Ok(answer),
            code => Err(Status::new(Code::from_i32(code), answer.status_error_message)),
        }
    }

    fn recv_tensor(&self, step_id: i64, key: &str, request_id: i64) -> Result<RecvTensorResponse> {
        let request =
            RecvTensorRequest { step_id, rendezvous_key: key.into(), request_id, ..Default::default() };
        let method = "/tensorflow.WorkerService/RecvTensor";
        self.send(method, Parts::from_message(&request), SHORT)
    }

    fn create_session(&self, graph: GraphDef) -> Result<String> {
        let request = CreateSessionRequest { graph_def: Some(graph), ..Default::default() };
        self.master("CreateSession", &request).map(|answer: CreateSessionResponse| answer.session_handle)
    }

    fn run_step(&self, request: &RunStepRequest) -> Result<RunStepResponse> {
        self.master("RunStep", request)
    }

    fn key(&self, name: &str) -> String {
        format!("{0};{1:016x};{0};{name};0:0", self.device, self.incarnation)
    }

    /// Nothing is left of what the test has done, and the server works.
    #[track_caller]
    fn assert_clean(&self) {
        eventually("a clean server", SOON, || {
            for status in self.cluster.statuses()? {
                let is_clean = status.steps.is_empty()
                    && status.worker_sessions.is_empty()
                    && status.master_sessions.is_empty();
                if !is_clean {
                    return Err(format!("{status:?}"));
                }
            }
            Ok(())
        });
        let session = self.create_session(GraphBuilder::new().constant("c", 7.0f32).build()).unwrap();
        let step = RunStepRequest {
            session_handle: session.clone(),
            fetch: vec!["c:0".into()],
            ..Default::default()
        };
        assert_eq!(self.run_step(&step).unwrap().tensor.len(), 1);
        let close = CloseSessionRequest { session_handle: session };
        let _: CloseSessionResponse = self.master("CloseSession", &close).unwrap();
    }
}

#[track_caller]
fn assert_code<T>(result: Result<T>, code: Code) -> Status {
    let status = result.map(|_| ()).expect_err("the request should have been refused");
    assert_eq!(status.code(), code, "{status}");
    assert!(status.text().len() > 10, "an error should say something: {status}");
    status
}

/// A partition that takes `x` from the caller and gives `y = x` back.
fn echo_partition(raw: &Raw) -> GraphDef {
    let ends = |name: &str, dtype: (&'static str, DType)| {
        [
            (dtype.0, dtype.1.into_attr()),
            ("tensor_name", name.into_attr()),
            ("send_device", raw.device.as_str().into_attr()),
            ("send_device_incarnation", (raw.incarnation as i64).into_attr()),
            ("recv_device", raw.device.as_str().into_attr()),
            ("client_terminated", true.into_attr()),
        ]
    };
    let recv = ends("x", ("tensor_type", DType::Float)).map(|(name, value)| (name, value.into()));
    let send = ends("y", ("T", DType::Float)).map(|(name, value)| (name, value.into()));
    GraphBuilder::new()
        .node("take", "_Recv", &[], &recv)
        .on(&raw.device)
        .node("give", "_Send", &["take"], &send)
        .on(&raw.device)
        .build()
}

fn named(key: &str, tensor: impl Into<Tensor>) -> NamedTensorProto {
    NamedTensorProto { name: key.into(), tensor: Some(tensor.into().to_proto()) }
}

#[test]
fn the_worker_answers_odd_registrations_as_tensorflow_does() {
    let raw = Raw::start();
    let graph = |device: &str| GraphBuilder::new().constant("c", 1.0f32).on(device).build();
    let status = assert_code(raw.register("unknown", graph(&raw.device)), Code::Aborted);
    assert!(status.text().contains("restarted"), "{status}");
    assert_code(raw.create_worker_session(""), Code::InvalidArgument);
    raw.create_worker_session("s").unwrap();
    raw.create_worker_session("s").unwrap();
    for device in ["", "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/task:0/device:CPU:0", "nonsense"]
    {
        assert_code(raw.register("s", graph(device)), Code::InvalidArgument);
    }
    let unknown = GraphBuilder::new().node("n", "NoSuchOp", &[], &[]).on(&raw.device).build();
    assert_code(raw.register("s", unknown), Code::NotFound);
    let broken = GraphBuilder::new().typed("n", "Neg", &["missing"], DType::Float).on(&raw.device).build();
    assert_code(raw.register("s", broken), Code::InvalidArgument);
    let deregister = DeregisterGraphRequest {
        session_handle: "s".into(),
        graph_handle: "unknown".into(),
        create_worker_session_called: true,
    };
    assert_code(raw.worker::<DeregisterGraphResponse>("DeregisterGraph", &deregister), Code::Aborted);
    let other_cluster = CreateWorkerSessionRequest {
        session_handle: "t".into(),
        server_def: Some(ServerDef {
            cluster: Some(ClusterDef {
                job: vec![JobDef { name: "a".into(), tasks: [(0, "h:1".to_string())].into() }],
            }),
            job_name: "a".into(),
            task_index: 5,
            ..Default::default()
        }),
        ..Default::default()
    };
    let outside = raw.worker::<CreateWorkerSessionResponse>("CreateWorkerSession", &other_cluster);
    assert_code(outside, Code::NotFound);
    for handle in ["s", "s", "unknown"] {
        let request = DeleteWorkerSessionRequest { session_handle: handle.into() };
        let _: DeleteWorkerSessionResponse = raw.worker("DeleteWorkerSession", &request).unwrap();
    }
    raw.assert_clean();
}

#[test]
fn the_worker_answers_odd_runs_as_tensorflow_does() {
    let raw = Raw::start();
    raw.create_worker_session("s").unwrap();
    let graph = raw.register("s", echo_partition(&raw)).unwrap();
    let run = |step_id: i64| RunGraphRequest {
        session_handle: "s".into(),
        create_worker_session_called: true,
        graph_handle: graph.clone(),
        step_id,
        send: vec![named(&raw.key("x"), 3.0f32)],
        recv_key: vec![raw.key("y")],
        store_errors_in_response_body: step_id % 2 == 0,
        ..Default::default()
    };
    let answer = raw.run_graph(&RunGraphRequest { request_id: 77, ..run(1) }, SOON).unwrap();
    assert_eq!(answer.recv.len(), 1);
    for step in [2, 3] {
        let unknown_graph = RunGraphRequest { graph_handle: "unknown".into(), ..run(step) };
        assert_code(raw.run_graph(&unknown_graph, SOON), Code::Aborted);
        let unknown_session = RunGraphRequest { session_handle: "unknown".into(), ..run(step) };
        assert_code(raw.run_graph(&unknown_session, SOON), Code::Aborted);
        assert_code(raw.run_graph(&RunGraphRequest { request_id: 77, ..run(step) }, SOON), Code::Aborted);
    }
    // What is not sent is waited for until the caller gives up.
    let without_feed = RunGraphRequest { send: Vec::new(), ..run(4) };
    assert_code(raw.run_graph(&without_feed, SHORT), Code::DeadlineExceeded);
    // TensorFlow waits for ever for a key that nothing sends; we know that nothing does.
    let without_sender = RunGraphRequest { recv_key: vec![raw.key("z")], ..run(5) };
    assert_code(raw.run_graph(&without_sender, SOON), Code::InvalidArgument);
    let wrong_dtype = RunGraphRequest { send: vec![named(&raw.key("x"), 3i32)], ..run(6) };
    assert_code(raw.run_graph(&wrong_dtype, SOON), Code::Internal);
    let no_tensor = NamedTensorProto { name: raw.key("x"), tensor: None };
    assert_code(
        raw.run_graph(&RunGraphRequest { send: vec![no_tensor], ..run(8) }, SOON),
        Code::InvalidArgument,
    );
    let mut repeated = named(&raw.key("x"), 3.0f32);
    let proto = repeated.tensor.as_mut().unwrap();
    proto.tensor_content = Bytes::new();
    proto.float_val = vec![3.0];
    let dim = tensor_shape_proto::Dim { size: 2, ..Default::default() };
    proto.tensor_shape = Some(TensorShapeProto { dim: vec![dim], ..Default::default() });
    let answer = raw.run_graph(&RunGraphRequest { send: vec![repeated], ..run(10) }, SOON).unwrap();
    let tensor = Tensor::from_proto(answer.recv[0].tensor.as_ref().unwrap()).unwrap();
    assert_eq!(tensor, Tensor::from_slice(&[3.0f32, 3.0], &[2]).unwrap());
    // The same step twice, which would use the rendezvous of the first.
    assert_code(raw.run_graph(&run(10), SOON), Code::Aborted);
    for step_id in (1..=10).chain([i64::MIN, -1, i64::MAX]) {
        let _: CleanupGraphResponse = raw.worker("CleanupGraph", &CleanupGraphRequest { step_id }).unwrap();
    }
    let request = DeleteWorkerSessionRequest { session_handle: "s".into() };
    let _: DeleteWorkerSessionResponse = raw.worker("DeleteWorkerSession", &request).unwrap();
    raw.assert_clean();
}

#[test]
fn the_worker_answers_odd_receives_as_tensorflow_does() {
    let raw = Raw::start();
    let (device, incarnation) = (&raw.device, raw.incarnation);
    let stale = format!("{device};{:016x};{device};x;0:0", incarnation ^ 1);
    let status = assert_code(raw.recv_tensor(1, &stale, 0), Code::Aborted);
    assert!(status.text().contains("different device incarnation"), "{status}");
    let long = "x".repeat(100_000);
    for key in [
        "",
        ";",
        ";;;;",
        "nonsense",
        device,
        &format!("{device};{incarnation:016x}"),
        &format!("{device};{incarnation:016x};;;"),
        &format!("{device};{incarnation:016x};{device};x"),
        &format!("{device};{incarnation:016x};{device};x;0:0;more"),
        &format!("/job:worker/replica:0/task:0/device:GPU:0;{incarnation:016x};{device};x;0:0"),
        &format!("/job:{long};{incarnation:016x};{device};x;0:0"),
        "/job:\u{1F600}/replica:0/task:0/device:CPU:0;00;\0;\n;0:0",
    ] {
        let code = raw.recv_tensor(1, key, 0).unwrap_err().code();
        assert!(matches!(code, Code::InvalidArgument | Code::Aborted), "{code:?} for {key}");
    }
    // A step that nobody runs is waited for.
    assert_code(raw.recv_tensor(9, &raw.key("x"), 55), Code::DeadlineExceeded);
    assert_code(raw.recv_tensor(9, &raw.key("x"), 55), Code::Aborted);
    raw.assert_clean();
}

#[test]
fn the_worker_answers_the_rest_as_tensorflow_does() {
    let raw = Raw::start();
    assert_code(raw.worker::<TracingResponse>("Tracing", &TracingRequest::default()), Code::Unimplemented);
    let _: LoggingResponse = raw.worker("Logging", &LoggingRequest::default()).unwrap();
    let unknown = MarkRecvFinishedRequest { request_id: 5 };
    let _: MarkRecvFinishedResponse = raw.worker("MarkRecvFinished", &unknown).unwrap();
    let sequence: GetStepSequenceResponse =
        raw.worker("GetStepSequence", &GetStepSequenceRequest { graph_key: vec![5] }).unwrap();
    assert!(sequence.step_sequence[0].next_step_id != 0);
    for method in [
        "/tensorflow.WorkerService/NoSuchMethod",
        "/tensorflow.WorkerService/RecvBuf",
        "/tensorflow.MasterService/NoSuchMethod",
        "/tensorflow.NoSuchService/RunStep",
        "/nonsense",
        "/",
        "/a/b/c",
    ] {
        assert_code(raw.send::<()>(method, Parts::empty(), SOON), Code::Unimplemented);
    }
    let oversized = Parts::from_message(&Bytes::from(vec![b'x'; 17 << 20]));
    let status = assert_code(
        raw.send::<()>("/tensorflow.WorkerService/CreateWorkerSession", oversized, SOON),
        Code::ResourceExhausted,
    );
    assert!(status.text().contains("bytes"), "{status}");
    raw.assert_clean();
}

#[test]
fn the_master_answers_unknown_sessions_as_tensorflow_does() {
    let raw = Raw::start();
    let session_handle = String::from("unknown");
    let step = RunStepRequest {
        session_handle: session_handle.clone(),
        fetch: vec!["c:0".into()],
        ..Default::default()
    };
    assert_code(raw.run_step(&step), Code::Aborted);
    let answer = raw.run_step(&RunStepRequest { store_errors_in_response_body: true, ..step }).unwrap();
    assert_eq!(answer.status_code, Code::Aborted as i32);
    let extend = ExtendSessionRequest { session_handle: session_handle.clone(), ..Default::default() };
    assert_code(raw.master::<ExtendSessionResponse>("ExtendSession", &extend), Code::Aborted);
    let setup = PartialRunSetupRequest { session_handle: session_handle.clone(), ..Default::default() };
    assert_code(raw.master::<PartialRunSetupResponse>("PartialRunSetup", &setup), Code::Aborted);
    let make = MakeCallableRequest { session_handle: session_handle.clone(), ..Default::default() };
    assert_code(raw.master::<MakeCallableResponse>("MakeCallable", &make), Code::Aborted);
    let call = RunCallableRequest { session_handle: session_handle.clone(), ..Default::default() };
    assert_code(raw.master::<RunCallableResponse>("RunCallable", &call), Code::Aborted);
    let close = CloseSessionRequest { session_handle: session_handle.clone() };
    assert_code(raw.master::<CloseSessionResponse>("CloseSession", &close), Code::Aborted);
    let list = ListDevicesRequest { session_handle };
    assert_code(raw.master::<ListDevicesResponse>("ListDevices", &list), Code::InvalidArgument);
    raw.assert_clean();
}

#[test]
fn the_master_answers_odd_steps_as_tensorflow_does() {
    let raw = Raw::start();
    let graph = GraphBuilder::new()
        .placeholder("p", DType::Float)
        .typed("n", "Neg", &["p"], DType::Float)
        .typed("m", "Neg", &["n"], DType::Float)
        .node("nothing", "NoOp", &[], &[])
        .build();
    let session_handle = raw.create_session(graph.clone()).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let feed = |name: &str| NamedTensorProto { name: name.into(), tensor: named(name, 2.0f32).tensor };
    let step = |feeds: &[&str], fetch: &[&str], target: &[&str]| RunStepRequest {
        session_handle: session_handle.clone(),
        feed: feeds.iter().map(|name| feed(name)).collect(),
        fetch: names(fetch),
        target: names(target),
        ..Default::default()
    };
    for (request, code) in [
        (step(&[], &[], &[]), Code::InvalidArgument),
        (step(&[], &["unknown:0"], &[]), Code::NotFound),
        (step(&["unknown:0"], &["n:0"], &[]), Code::NotFound),
        (step(&[], &[], &["unknown"]), Code::NotFound),
        (step(&["p:0"], &["n:1"], &[]), Code::InvalidArgument),
        (step(&["p:0"], &["nothing:0"], &[]), Code::InvalidArgument),
        (step(&["p:0", "p:0"], &["n:0"], &[]), Code::InvalidArgument),
        (step(&["p:0"], &["p:0"], &[]), Code::InvalidArgument),
        (step(&[], &["n:0"], &[]), Code::InvalidArgument),
        (step(&[], &["n:99999999999999999999"], &[]), Code::InvalidArgument),
    ] {
        let status = raw.run_step(&request).map(|_| ()).unwrap_err();
        let is_expected = status.code() == code
            || (request.fetch.iter().any(|name| name.len() > 20) && status.code() == Code::NotFound);
        assert!(is_expected, "{request:?}: {status}");
    }
    let answer = raw.run_step(&step(&["p:0"], &["n:0", "n:0"], &[])).unwrap();
    assert_eq!(answer.tensor.len(), 1, "duplicate fetches are answered once");
    let numbered = RunStepRequest { request_id: 91, ..step(&["p:0"], &["n:0"], &[]) };
    raw.run_step(&numbered).unwrap();
    assert_code(raw.run_step(&numbered), Code::Aborted);

    let extend = |graph: GraphDef, version: i64| ExtendSessionRequest {
        session_handle: session_handle.clone(),
        graph_def: Some(graph),
        current_graph_version: version,
    };
    let extended = |request| raw.master::<ExtendSessionResponse>("ExtendSession", &request);
    assert_code(extended(extend(GraphDef::default(), 17)), Code::Aborted);
    assert_code(extended(extend(graph, 0)), Code::InvalidArgument);

    let setup = PartialRunSetupRequest {
        session_handle: session_handle.clone(),
        feed: names(&["p:0"]),
        fetch: names(&["n:0", "m:0"]),
        ..Default::default()
    };
    let setup: PartialRunSetupResponse = raw.master("PartialRunSetup", &setup).unwrap();
    let part = |handle: &str, feeds: &[&str], fetch: &[&str]| RunStepRequest {
        partial_run_handle: handle.to_string(),
        ..step(feeds, fetch, &[])
    };
    let handle = &setup.partial_run_handle;
    assert_code(raw.run_step(&part("unknown", &[], &["n:0"])), Code::InvalidArgument);
    assert_code(raw.run_step(&part(handle, &[], &["p:0"])), Code::InvalidArgument);
    assert_code(raw.run_step(&part(handle, &[], &["n:0"])), Code::InvalidArgument);
    raw.run_step(&part(handle, &["p:0"], &["n:0", "m:0"])).unwrap();
    assert_code(raw.run_step(&part(handle, &[], &["n:0"])), Code::InvalidArgument);

    let call = |handle: i64| RunCallableRequest {
        session_handle: session_handle.clone(),
        handle,
        ..Default::default()
    };
    assert_code(raw.master::<RunCallableResponse>("RunCallable", &call(12345)), Code::InvalidArgument);
    let options = CallableOptions { fetch: names(&["n:0"]), feed: names(&["p:0"]), ..Default::default() };
    let make = MakeCallableRequest {
        session_handle: session_handle.clone(),
        options: Some(options),
        ..Default::default()
    };
    let made: MakeCallableResponse = raw.master("MakeCallable", &make).unwrap();
    assert_code(raw.master::<RunCallableResponse>("RunCallable", &call(made.handle)), Code::InvalidArgument);
    let release = ReleaseCallableRequest { session_handle: session_handle.clone(), handle: made.handle };
    let _: ReleaseCallableResponse = raw.master("ReleaseCallable", &release).unwrap();
    assert_code(raw.master::<RunCallableResponse>("RunCallable", &call(made.handle)), Code::InvalidArgument);

    let close = CloseSessionRequest { session_handle: session_handle.clone() };
    let _: CloseSessionResponse = raw.master("CloseSession", &close).unwrap();
    assert_code(raw.run_step(&step(&["p:0"], &["n:0"], &[])), Code::Aborted);
    raw.assert_clean();
}

#[test]
fn the_master_refuses_graphs_and_configurations_that_make_no_sense() {
    let raw = Raw::start();
    let constant = |name: &str| GraphBuilder::new().constant(name, 1.0f32);
    let refused = |graph: GraphDef, code| {
        let status = raw.create_session(graph.clone()).map(|_| ()).expect_err(&format!("{:?}", graph.node));
        assert_eq!(status.code(), code, "{status}: {:?}", graph.node);
        status
    };
    refused(constant("illegal name!").build(), Code::InvalidArgument);
    refused(constant("").build(), Code::InvalidArgument);
    refused(constant("c").constant("c", 2.0f32).build(), Code::InvalidArgument);
    refused(constant("c").typed("n", "Neg", &["missing"], DType::Float).build(), Code::InvalidArgument);
    let from_the_future = VersionDef { producer: 1, min_consumer: 1_000_000, ..Default::default() };
    refused(GraphDef { versions: Some(from_the_future), ..constant("c").build() }, Code::InvalidArgument);
    // Devices that do not exist, are malformed, or contradict each other. Some are found only after tasks have joined.
    for device in
        ["/job:ps/task:9", "/job:nobody", "/device:GPU:0", "/job:ps/task:0/device:TPU:3", "what?", "/task:x"]
    {
        let status = refused(constant("c").on(device).build(), Code::InvalidArgument);
        assert!(status.text().contains('c'), "{status}");
    }
    let scalar = AttrValue { value: Some(attr_value::Value::Shape(TensorShapeProto::default())) };
    let variable = GraphBuilder::new()
        .node("v", "VariableV2", &[], &[("dtype", DType::Float.into()), ("shape", scalar.into())])
        .on("/job:ps/task:0")
        .constant("one", 1.0f32);
    let class = vec![bytes::Bytes::from_static(b"loc:@v")];
    let list = AttrValue {
        value: Some(attr_value::Value::List(Box::new(attr_value::ListValue {
            s: class,
            ..Default::default()
        }))),
    };
    let colocated = variable
        .node("w", "Identity", &["one"], &[("T", DType::Float.into()), ("_class", list.into())])
        .on("/job:worker/task:0");
    refused(colocated.build(), Code::InvalidArgument);
    for config in [
        ConfigProto { use_per_session_threads: true, ..Default::default() },
        ConfigProto { device_filters: vec!["what?".into()], ..Default::default() },
        ConfigProto {
            cluster_def: Some(ClusterDef {
                job: vec![JobDef { name: "a".into(), tasks: [(0, "elsewhere:1".to_string())].into() }],
            }),
            ..Default::default()
        },
    ] {
        let request = CreateSessionRequest {
            graph_def: Some(constant("c").build()),
            config: Some(config),
            ..Default::default()
        };
        assert_code(raw.master::<CreateSessionResponse>("CreateSession", &request), Code::InvalidArgument);
    }
    raw.assert_clean();
}

const WORKER_METHODS: [&str; 14] = [
    "GetStatus",
    "CreateWorkerSession",
    "DeleteWorkerSession",
    "RegisterGraph",
    "DeregisterGraph",
    "RunGraph",
    "CleanupGraph",
    "CleanupAll",
    "RecvTensor",
    "Logging",
    "Tracing",
    "MarkRecvFinished",
    "GetStepSequence",
    "RecvBuf",
];
const MASTER_METHODS: [&str; 11] = [
    "CreateSession",
    "ExtendSession",
    "PartialRunSetup",
    "RunStep",
    "CloseSession",
    "ListDevices",
    "Reset",
    "MakeCallable",
    "RunCallable",
    "ReleaseCallable",
    "NoSuchMethod",
];

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.next() as usize % most;
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// A message in pieces, each complete in itself, so that a cut or a flipped bit hits something that means something.
fn valid_messages(raw: &Raw) -> Vec<Vec<u8>> {
    let session_handle = String::from("s");
    vec![
        CreateSessionRequest { graph_def: Some(echo_partition(raw)), ..Default::default() }.encode_to_vec(),
        RunStepRequest {
            session_handle: session_handle.clone(),
            feed: vec![named("x:0", Tensor::from_slice(&[1.0f32; 64], &[64]).unwrap())],
            fetch: vec!["y:0".into()],
            ..Default::default()
        }
        .encode_to_vec(),
        RegisterGraphRequest { session_handle, graph_def: Some(echo_partition(raw)), ..Default::default() }
            .encode_to_vec(),
        RecvTensorRequest { step_id: 3, rendezvous_key: raw.key("x"), ..Default::default() }.encode_to_vec(),
    ]
}

fn raw_bytes(bytes: Vec<u8>) -> Parts {
    let mut parts = tensorfleet_rpc::PartsBuilder::with_capacity(0);
    parts.put_shared(Bytes::from(bytes));
    parts.finish()
}

#[test]
fn malformed_messages_are_refused_by_every_method_and_leave_nothing() {
    let raw = Raw::start();
    let methods: Vec<String> = WORKER_METHODS
        .iter()
        .map(|name| format!("/tensorflow.WorkerService/{name}"))
        .chain(MASTER_METHODS.iter().map(|name| format!("/tensorflow.MasterService/{name}")))
        .collect();
    // Wire type 7 does not exist: no decoder may accept it.
    for method in &methods {
        let refused = raw.send::<()>(method, raw_bytes(vec![0xff; 9]), SOON);
        let status = refused.expect_err(method);
        assert!(
            matches!(status.code(), Code::InvalidArgument | Code::Internal | Code::Unimplemented),
            "{method}: {status}"
        );
    }
    let mut random = Random(0x5eed_1234_5678_9abc);
    let valid = valid_messages(&raw);
    for _ in 0..40 {
        for method in &methods {
            let bytes = match random.next() % 3 {
                0 => random.bytes(300),
                1 => {
                    let whole = &valid[random.next() as usize % valid.len()];
                    whole[..random.next() as usize % whole.len()].to_vec()
                }
                _ => {
                    let mut flipped = valid[random.next() as usize % valid.len()].clone();
                    let at = random.next() as usize % flipped.len();
                    flipped[at] ^= 1 << (random.next() % 8);
                    flipped
                }
            };
            // Any answer will do, as long as it is one: bytes may happen to mean something.
            let _ = raw.send::<()>(method, raw_bytes(bytes), SHORT);
        }
    }
    // What did make sense and stayed is taken away; nothing else may be left.
    for status in raw.cluster.statuses().unwrap() {
        for session in status.worker_sessions {
            let request = DeleteWorkerSessionRequest { session_handle: session.handle };
            let _: DeleteWorkerSessionResponse = raw.worker("DeleteWorkerSession", &request).unwrap();
        }
        for session in status.master_sessions {
            let request = CloseSessionRequest { session_handle: session.handle };
            let _: CloseSessionResponse = raw.master("CloseSession", &request).unwrap();
        }
        for step in status.steps {
            let request = CleanupGraphRequest { step_id: step.step_id };
            let _: CleanupGraphResponse = raw.worker("CleanupGraph", &request).unwrap();
        }
    }
    raw.assert_clean();
    let log = raw.cluster.log(Job::Worker, 0).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    // One line about what was refused, and not one for each of a thousand.
    assert!(log.contains("is refused"), "{log}");
    assert!(log.lines().count() < 300, "{} lines", log.lines().count());
}

#[test]
fn a_refused_request_is_one_line_in_the_log_with_method_peer_and_reason() {
    let raw = Raw::start();
    assert_code(raw.create_worker_session(""), Code::InvalidArgument);
    let log = raw.cluster.log(Job::Worker, 0).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("is refused")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let own_id = format!("process {}", std::process::id());
    for word in ["WARN", "CreateWorkerSession", &own_id, "a worker session needs a session handle"] {
        assert!(lines[0].contains(word), "{log}");
    }
}

#[test]
fn a_task_outside_the_cluster_does_not_start() {
    let serve = |arguments: &[&str]| {
        let mut command = Command::new(cluster::tensorfleet_program().unwrap());
        command.arg("serve").args(arguments).env_remove("TF_CONFIG").output().unwrap()
    };
    for (arguments, words) in [
        (["--ps_hosts=localhost:1", "--job_name=ps", "--task_index=1"], "No task with index 1"),
        (["--ps_hosts=localhost:1", "--job_name=chief", "--task_index=0"], "No such job"),
    ] {
        let output = serve(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_partial_run_reports_the_failure_of_a_target_and_counts_a_fetch_once() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let graph = GraphBuilder::new()
        .placeholder("p", DType::Float)
        .node("bad", "CheckNumerics", &["p"], &[("T", DType::Float.into()), ("message", "poisoned".into())])
        .on("/job:ps/task:0")
        .build();
    let target = cluster.target(Job::Worker, 0).unwrap();
    let session = RemoteSession::create(&target, graph, ConnectOptions::default()).unwrap();
    let nan = Tensor::scalar(f32::NAN);
    let run = session.begin_partial_run(&["p:0"], &[], &["bad"]).unwrap();
    let status = run.run(&[("p:0", &nan)], &[]).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.text().contains("poisoned"), "{status}");
    let one = Tensor::scalar(1.0f32);
    let run = session.begin_partial_run(&["p:0"], &["bad:0", "bad"], &[]).unwrap();
    assert_eq!(run.run(&[("p:0", &one)], &["bad:0"]).unwrap(), [Tensor::scalar(1.0f32)]);
    eventually("the run is over on all tasks", SOON, || {
        let statuses = cluster.statuses()?;
        let left = statuses.iter().map(|status| status.steps.len()).sum::<usize>();
        if left == 0 { Ok(()) } else { Err(format!("{left} steps are left")) }
    });
}
