//! The complaints of users of distributed TensorFlow about programs that hang without a word, one test each: the symptom
//! does not occur, or the message names the cause. `docs/complaints.md` has the list; a test begins with its number there.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tensorfleet_cluster::{
    ClusterSpec, ConnectOptions, RemoteRunOptions, RemoteSession, Server, ServerOptions,
};
use tensorfleet_core::{Code, DType, Status, Tensor};
use tensorfleet_proto::tensorflow::{ConfigProto, GraphDef, RecvTensorRequest};
use tensorfleet_rpc::{CallOptions, Channel, ChannelOptions, Parts};
use tensorfleet_tests::cluster::{self, Cluster, Job};
use tensorfleet_tests::graph_builder::GraphBuilder;
use tensorfleet_tests::stuck::{self, connect, eventually, fetch, fetch_in_background, run};

/// What waits for nobody's time-out is done by then, however busy the machine is: servers wait a minute for each other unless
/// told otherwise.
const SOON: Duration = Duration::from_secs(25);
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// `tensorfleet serve` with any arguments; killed when dropped.
struct Serve(Child);

impl Serve {
    fn start(arguments: &[String]) -> Serve {
        Serve(serve_command(arguments).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve_command(arguments: &[String]) -> Command {
    let mut command = Command::new(cluster::tensorfleet_program().unwrap());
    command.arg("serve").args(arguments).env_remove("TF_CONFIG").env_remove("RUST_LOG");
    command
}

fn task(cluster: &str, job: &str, index: usize, more: &[&str]) -> Vec<String> {
    let own = [format!("--cluster={cluster}"), format!("--job_name={job}"), format!("--task_index={index}")];
    own.into_iter().chain(more.iter().map(|flag| flag.to_string())).collect()
}

fn free_address() -> String {
    cluster::free_addresses(1).unwrap()[0].to_string()
}

/// A constant on a device.
fn constant_on(device: &str) -> GraphDef {
    GraphBuilder::new().constant("c", 1.0f32).on(device).build()
}

fn failure_within(
    limit: Duration,
    create: impl FnOnce() -> tensorfleet_core::Result<RemoteSession>,
) -> Status {
    let started = Instant::now();
    let status = create().map(|_| ()).unwrap_err();
    assert!(started.elapsed() < limit, "it took {:?}: {status}", started.elapsed());
    assert!(!status.text().contains('\n'), "one line: {status}");
    status
}

#[track_caller]
fn assert_words(status: &Status, words: &[&str]) {
    for word in words {
        assert!(status.text().contains(word), "'{word}' is not in: {status}");
    }
}

/// Complaint 1: "CreateSession still waiting for response from worker", for ever.
#[test]
fn b1_a_session_that_misses_a_task_ends_and_lists_who_answered_and_who_did_not() {
    // Long enough to tell whose time-out it was that ended a wait.
    let session_timeout = Duration::from_secs(8);
    let mut cluster = Cluster::start_ours(2, 1, &["--session-timeout=8"]).unwrap();
    cluster.kill(Job::Ps, 1).unwrap();
    let missing = cluster.address(Job::Ps, 1).unwrap().to_string();
    let target = cluster.target(Job::Worker, 0).unwrap();
    let graph = || {
        let on = |builder: GraphBuilder, name: &str, device: &str| builder.constant(name, 1.0f32).on(device);
        on(on(GraphBuilder::new(), "a", "/job:ps/task:0"), "b", "/job:ps/task:1").build()
    };
    let status = failure_within(SOON, || RemoteSession::create(&target, graph(), ConnectOptions::default()));
    assert_eq!(status.code(), Code::Unavailable);
    assert_words(&status, &["/job:ps/task:1", &missing, "refused", "answered: /job:ps/task:0"]);
    // A client with less patience than the server gets the same list, not a bare time-out.
    let impatient = ConnectOptions { timeout: Duration::from_millis(900), ..Default::default() };
    let status = failure_within(session_timeout, || RemoteSession::create(&target, graph(), impatient));
    assert_words(&status, &["/job:ps/task:1", &missing, "refused", "answered: /job:ps/task:0"]);
    // As does one that says so in its configuration.
    let config = ConfigProto { operation_timeout_in_ms: 500, ..Default::default() };
    let options = ConnectOptions { config, ..Default::default() };
    let status = failure_within(session_timeout, || RemoteSession::create(&target, graph(), options));
    assert_words(&status, &["/job:ps/task:1", "refused"]);
    // A graph that does not need the task does not wait for it.
    let started = Instant::now();
    let session = connect(&target, constant_on("/job:ps/task:0"), CONNECT_LIMIT).unwrap();
    assert_eq!(fetch(&session, "c:0").unwrap(), Tensor::scalar(1.0f32));
    assert!(started.elapsed() < session_timeout, "it took {:?}", started.elapsed());
    session.close().unwrap();
    // What was begun for the sessions that failed is gone.
    assert!(cluster.status(Job::Ps, 0).unwrap().worker_sessions.is_empty());
}

/// A peer that answers every connection with `answer` and reads on.
fn strange_peer(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(answer);
            kept.push(stream);
        }
    });
    address
}

/// Complaint 2: one message for five causes.
#[test]
fn b2_the_reasons_why_a_task_does_not_answer_are_told_apart() {
    let (refused, other, worker) = (free_address(), free_address(), free_address());
    let unresolved = "no-such-host.invalid:2222".to_string();
    let http1 = strange_peer(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let silent = strange_peer(b"");
    let ps = [&refused, &unresolved, &http1, &silent, &other].map(|address| format!("\"{address}\""));
    let spec = format!(r#"{{"ps": [{}], "worker": ["{worker}"]}}"#, ps.join(", "));
    // Somebody else's task: it says that it is worker 3.
    let others = format!(r#"{{"worker": {{"3": "{other}"}}}}"#);
    let _servers = [
        Serve::start(&task(&spec, "worker", 0, &["--peer-timeout=1"])),
        Serve::start(&task(&others, "worker", 3, &[])),
    ];
    let config = ConfigProto { operation_timeout_in_ms: 3000, ..Default::default() };
    let causes = [
        (0, &refused, "connection refused"),
        (1, &unresolved, "does not resolve"),
        (2, &http1, "answers in HTTP/1"),
        (3, &silent, "silent"),
        (4, &other, "says it is /job:worker/replica:0/task:3"),
    ];
    std::thread::scope(|scope| {
        for (index, address, words) in causes {
            let (config, worker) = (config.clone(), &worker);
            scope.spawn(move || {
                let graph = constant_on(&format!("/job:ps/task:{index}"));
                let options = ConnectOptions { config, timeout: CONNECT_LIMIT, client: None };
                let status = failure_within(SOON, || RemoteSession::create(worker, graph, options));
                assert_words(&status, &[&format!("/job:ps/task:{index}"), address, words]);
            });
        }
    });
}

/// Complaints 2 and 12: a task that was started with another idea of the cluster.
#[test]
fn b2_a_specification_that_differs_between_tasks_is_named() {
    let [ps, worker, elsewhere] = [(); 3].map(|()| free_address());
    let spec = |worker1: &str| format!(r#"{{"ps": ["{ps}"], "worker": ["{worker}", "{worker1}"]}}"#);
    let _servers = [
        Serve::start(&task(&spec("localhost:1"), "worker", 0, &[])),
        Serve::start(&task(&spec(&elsewhere), "ps", 0, &[])),
    ];
    let create = || RemoteSession::create(&worker, constant_on("/job:ps/task:0"), ConnectOptions::default());
    let status = failure_within(SOON, create);
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_words(&status, &["/job:ps/task:0", "another cluster specification", "localhost:1", &elsewhere]);
}

/// What the steps of a task wait for.
fn waits(cluster: &Cluster, job: Job, index: usize) -> Result<String, String> {
    let steps = cluster.status(job, index)?.steps;
    Ok(steps.iter().flat_map(|step| step.waiting_for.clone()).collect::<Vec<_>>().join("; "))
}

/// Complaint 9: "Waiting for model to be ready. Variables not initialized: …" for an hour.
#[test]
fn b9_who_waits_for_the_chief_reads_which_variable_and_status_tells_what_the_chief_does() {
    let cluster = Cluster::start_ours(1, 2, &[]).unwrap();
    let mut graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    // The chief's initialiser waits for something that does not come.
    let init = graph.node.iter_mut().find(|node| node.name == "init").unwrap();
    init.input[1] = "result".to_string();
    let chief = connect(&cluster.target(Job::Worker, 0).unwrap(), graph.clone(), CONNECT_LIMIT).unwrap();
    let stuck = fetch_in_background(&chief, "init:0");
    eventually("what the chief waits for", SOON, || {
        let (ps, worker) = (waits(&cluster, Job::Ps, 0)?, waits(&cluster, Job::Worker, 0)?);
        let is_named = ps.contains("node taken (QueueDequeueV2)")
            && worker.contains("taken from /job:ps/replica:0/task:0/device:CPU:0")
            && worker.contains("to /job:worker/replica:0/task:0/device:CPU:0");
        if is_named { Ok(()) } else { Err(format!("ps: {ps}\nworker: {worker}")) }
    });
    let other = connect(&cluster.target(Job::Worker, 1).unwrap(), graph, CONNECT_LIMIT).unwrap();
    let status = fetch(&other, "read:0").unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_words(&status, &["uninitialized value", "v"]);
    // The queue is fed, and everybody goes on.
    run(&other, "put").unwrap();
    stuck.outcome(SOON).0.unwrap();
    assert_eq!(fetch(&other, "read:0").unwrap(), Tensor::scalar(7.0f32));
}

/// Complaints 14 and 15: sync training that stops after thousands of steps, with no error.
#[test]
fn b14_b15_a_stalled_step_tells_node_tensor_and_tasks_it_waits_for() {
    let cluster = Cluster::start_ours(1, 2, &[]).unwrap();
    let sessions: Vec<_> = [0, 1]
        .map(|index| {
            let graph = stuck::graph("/job:ps/task:0", &format!("/job:worker/task:{index}"));
            connect(&cluster.target(Job::Worker, index).unwrap(), graph, CONNECT_LIMIT).unwrap()
        })
        .into();
    let stalled: Vec<_> = sessions.iter().map(|session| fetch_in_background(session, "result:0")).collect();
    eventually("both workers' steps explained", SOON, || {
        for index in [0, 1] {
            let text = waits(&cluster, Job::Worker, index)?;
            let to = format!("to /job:worker/replica:0/task:{index}/device:CPU:0");
            if !(text.contains("from /job:ps/replica:0/task:0/device:CPU:0") && text.contains(&to)) {
                return Err(text);
            }
        }
        let text = waits(&cluster, Job::Ps, 0)?;
        let count = text.matches("node taken (QueueDequeueV2)").count();
        if count == 2 { Ok(()) } else { Err(text) }
    });
    // The command shows steps that take long.
    let target = cluster.target(Job::Worker, 0).unwrap();
    let program = cluster::tensorfleet_program().unwrap();
    eventually("the step in the output of `tensorfleet status`", SOON, || {
        let output = Command::new(&program).args(["status", &target]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).to_string();
        if text.contains("taken (QueueDequeueV2)") { Ok(()) } else { Err(text) }
    });
    // One token each.
    for session in &sessions {
        run(session, "put").unwrap();
    }
    stalled.into_iter().for_each(|step| assert!(step.outcome(SOON).0.is_ok()));
}

/// Complaint 21: the ps process that never ends.
#[test]
fn b21_a_server_ends_on_a_signal_even_with_a_stuck_step() {
    let mut cluster = Cluster::start_ours(1, 1, &["--grace=1"]).unwrap();
    let graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    let session = connect(&cluster.target(Job::Worker, 0).unwrap(), graph, CONNECT_LIMIT).unwrap();
    let stuck = fetch_in_background(&session, "result:0");
    eventually("a stuck step", SOON, || match waits(&cluster, Job::Ps, 0)?.contains("taken") {
        true => Ok(()),
        false => Err("not yet".to_string()),
    });
    let asked = Instant::now();
    cluster.signal(Job::Ps, 0, "TERM").unwrap();
    let status = cluster.wait_for_end(Job::Ps, 0, SOON).unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    assert_eq!(stuck.outcome(SOON).0.unwrap_err().code(), Code::Unavailable);
    cluster.signal(Job::Worker, 0, "TERM").unwrap();
    assert_eq!(cluster.wait_for_end(Job::Worker, 0, SOON).unwrap().code(), Some(0));
}

/// Complaint 21, without a signal.
#[test]
fn b21_a_ps_until_done_ends_when_all_sessions_are_over_and_not_before() {
    let mut cluster = Cluster::start_ours(1, 1, &["--until-done=0.5"]).unwrap();
    let graph = || stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    let target = cluster.target(Job::Worker, 0).unwrap();
    let sessions = [(); 2].map(|()| connect(&target, graph(), CONNECT_LIMIT).unwrap());
    run(&sessions[0], "init").unwrap();
    sessions[0].close().unwrap();
    assert!(cluster.wait_for_end(Job::Ps, 0, Duration::from_secs(2)).is_err(), "a session is still open");
    assert_eq!(fetch(&sessions[1], "read:0").unwrap(), Tensor::scalar(7.0f32));
    sessions[1].close().unwrap();
    for job in [Job::Ps, Job::Worker] {
        assert_eq!(cluster.wait_for_end(job, 0, SOON).unwrap().code(), Some(0));
    }
}

/// Complaint 21, in a program: `join()` that blocks for ever.
#[test]
fn b21_join_returns_when_the_server_is_stopped() {
    let server = Arc::new(Server::local().unwrap());
    let joined = {
        let server = server.clone();
        std::thread::spawn(move || server.join())
    };
    let session = connect(&server.target(), constant_on(""), CONNECT_LIMIT).unwrap();
    fetch(&session, "c:0").unwrap();
    server.stop(Duration::from_secs(1)).unwrap();
    eventually("join", SOON, || if joined.is_finished() { Ok(()) } else { Err("not yet".to_string()) });
    joined.join().unwrap().unwrap();
}

/// Complaint 22: "Could not start gRPC server", as nested JSON.
#[test]
fn b22_a_port_in_use_is_one_line_with_the_port_and_the_process() {
    let cluster = Cluster::start_ours(1, 0, &[]).unwrap();
    let address = cluster.address(Job::Ps, 0).unwrap();
    let pid = cluster.status(Job::Ps, 0).unwrap().pid;
    let Output { status, stderr, .. } =
        serve_command(&task(&format!(r#"{{"ps": ["{address}"]}}"#), "ps", 0, &[])).output().unwrap();
    let text = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(&format!("port {} is in use", address.port())), "{text}");
    assert!(text.contains(&format!("process {pid} (tensorfleet)")), "{text}");
}

/// Complaint 22: a second server in one process, or a restarted one, that does not get its port.
#[test]
fn b22_a_stopped_server_gives_its_port_back_at_once() {
    let address = free_address();
    let spec = ClusterSpec::new([("ps", [address.as_str()])]).unwrap();
    for _ in 0..3 {
        let options = ServerOptions::new(spec.clone(), "ps", 0);
        let server = Server::start(ServerOptions { bind: Some("127.0.0.1".into()), ..options }).unwrap();
        // Connections from this process, left open; the server closes them first.
        let session = connect(&format!("grpc://{address}"), constant_on(""), CONNECT_LIMIT).unwrap();
        fetch(&session, "c:0").unwrap();
        server.stop(Duration::ZERO).unwrap();
    }
    // The same with processes that are killed while clients are connected.
    let mut cluster = Cluster::start_ours(1, 0, &[]).unwrap();
    for _ in 0..2 {
        let session = connect(&cluster.target(Job::Ps, 0).unwrap(), constant_on(""), CONNECT_LIMIT).unwrap();
        fetch(&session, "c:0").unwrap();
        cluster.restart(Job::Ps, 0).unwrap();
    }
}

/// Complaint 23: a worker that hangs in close because another one is gone.
#[test]
fn b23_closing_a_session_does_not_wait_for_dead_or_frozen_tasks() {
    let mut cluster = Cluster::start_ours(1, 2, &[]).unwrap();
    let target = cluster.target(Job::Worker, 0).unwrap();
    let graph = || stuck::graph("/job:ps/task:0", "/job:worker/task:1");
    let sessions = [(); 2].map(|()| connect(&target, graph(), CONNECT_LIMIT).unwrap());
    let stuck = fetch_in_background(&sessions[0], "result:0");
    eventually("a stuck step", SOON, || match waits(&cluster, Job::Ps, 0)?.contains("taken") {
        true => Ok(()),
        false => Err("not yet".to_string()),
    });
    cluster.signal(Job::Ps, 0, "STOP").unwrap();
    let asked = Instant::now();
    sessions[0].close().unwrap();
    assert!(asked.elapsed() < SOON, "with a frozen task it took {:?}", asked.elapsed());
    assert_eq!(stuck.outcome(SOON).0.unwrap_err().code(), Code::Cancelled);
    // The frozen task hears of it as soon as it listens.
    cluster.signal(Job::Ps, 0, "CONT").unwrap();
    eventually("one session left on the ps", SOON, || {
        let status = cluster.status(Job::Ps, 0)?;
        let (sessions, steps) = (status.worker_sessions.len(), status.steps.len());
        if (sessions, steps) == (1, 0) { Ok(()) } else { Err(format!("{status:?}")) }
    });
    cluster.kill(Job::Ps, 0).unwrap();
    let asked = Instant::now();
    sessions[1].close().unwrap();
    assert!(asked.elapsed() < SOON, "with a dead task it took {:?}", asked.elapsed());
    assert!(cluster.status(Job::Worker, 1).unwrap().worker_sessions.is_empty());
}

/// Complaint 41: a ps that grows until it is killed.
#[test]
fn b41_requests_beyond_the_limit_are_refused_and_memory_stays() {
    let cluster = Cluster::start_ours(1, 0, &["--max-pending-mb=32"]).unwrap();
    let address = cluster.address(Job::Ps, 0).unwrap().to_string();
    let before = cluster.status(Job::Ps, 0).unwrap();
    let (name, incarnation) = (before.devices[0].clone(), before.incarnation.clone());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        // A channel would ask again and again.
        let impatient = ChannelOptions { busy_timeout: Duration::ZERO, ..ChannelOptions::default() };
        let channel = Channel::new(&address, impatient).unwrap();
        let mut pending = tokio::task::JoinSet::new();
        for number in 0..12_000i64 {
            let request = RecvTensorRequest {
                step_id: number % 100,
                rendezvous_key: format!("{name};{incarnation};{name};t{number};0:0"),
                ..Default::default()
            };
            let channel = channel.clone();
            pending.spawn(async move {
                let method = "/tensorflow.WorkerService/RecvTensor";
                let call = channel.call(method, Parts::from_message(&request), CallOptions::default());
                call.await.map(|_| ()).unwrap_err()
            });
        }
        // Nobody makes these tensors: who is answered is refused.
        let first = tokio::time::timeout(SOON, pending.join_next()).await.unwrap().unwrap().unwrap();
        assert_eq!(first.code(), Code::ResourceExhausted, "{first}");
        let refused = Parts::from_message(&bytes::Bytes::from(vec![0; 33 << 20]));
        let huge = channel.call("/tensorflow.MasterService/RunStep", refused, CallOptions::default()).await;
        let huge = huge.map(|_| ()).unwrap_err();
        assert_eq!(huge.code(), Code::ResourceExhausted, "{huge}");
    });
    // All of them were dropped with their connection, and the server serves as before.
    eventually("no requests left", SOON, || {
        let steps = cluster.status(Job::Ps, 0)?.steps.len();
        if steps == 0 { Ok(()) } else { Err(format!("{steps} steps")) }
    });
    let session = connect(&format!("grpc://{address}"), constant_on(""), CONNECT_LIMIT).unwrap();
    fetch(&session, "c:0").unwrap();
    let after = cluster.status(Job::Ps, 0).unwrap();
    let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
    println!("grown by {} KB", grown >> 10);
    assert!(grown < 96 << 20, "grown by {grown} bytes");
}

/// Complaint 41: slow growth per run.
#[test]
fn b41_ten_thousand_runs_do_not_grow_the_servers() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    let session = connect(&cluster.target(Job::Worker, 0).unwrap(), graph, CONNECT_LIMIT).unwrap();
    run(&session, "init").unwrap();
    let runs = |count: usize| (0..count).for_each(|_| drop(fetch(&session, "read:0").unwrap()));
    runs(2_000);
    let before = cluster.statuses().unwrap();
    runs(10_000);
    for (before, after) in before.iter().zip(cluster.statuses().unwrap()) {
        let grown = after.resident_bytes.saturating_sub(before.resident_bytes);
        println!("{}: grown by {} KB", after.task, grown >> 10);
        assert!(grown < 4 << 20, "{} has grown by {grown} bytes", after.task);
    }
}

/// Complaint 42: a timed-out run leaks, and later saves hang.
#[test]
fn b42_runs_that_time_out_leave_nothing_and_later_runs_work() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let mut graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    // A second step that wants the same mutex-like resource afterwards: the queue's size.
    graph.node.extend(
        GraphBuilder::new()
            .node("size", "QueueSizeV2", &["queue"], &[])
            .on("/job:ps/task:0")
            .typed("shown", "Identity", &["size"], DType::Int32)
            .on("/job:worker/task:0")
            .build()
            .node,
    );
    let session = connect(&cluster.target(Job::Worker, 0).unwrap(), graph, CONNECT_LIMIT).unwrap();
    let options = RemoteRunOptions { timeout: Some(Duration::from_millis(20)), ..Default::default() };
    for _ in 0..20 {
        let started = Instant::now();
        let status = session.run(&[], &["result:0"], &[], &options).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_words(&status, &["20 ms"]);
        assert!(started.elapsed() < SOON);
    }
    run(&session, "put").unwrap();
    run(&session, "put").unwrap();
    assert_eq!(fetch(&session, "shown:0").unwrap(), Tensor::scalar(2i32), "no dead step has taken a value");
    assert_eq!(fetch(&session, "result:0").unwrap(), Tensor::scalar(7.0f32));
    eventually("no steps", SOON, || {
        let steps: Vec<_> = cluster.statuses()?.into_iter().flat_map(|status| status.steps).collect();
        if steps.is_empty() { Ok(()) } else { Err(format!("{steps:?}")) }
    });
}
