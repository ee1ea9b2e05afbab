//! Clients that take all they can get, one after the other or at once: everybody else is served meanwhile, and what they
//! took comes back.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tensorfleet_cluster::{RemoteRunOptions, RemoteSession};
use tensorfleet_core::{DType, Result, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{CreateSessionRequest, CreateWorkerSessionRequest, RecvTensorRequest};
use tensorfleet_tests::cluster::{self, Cluster, Job, status_of};
use tensorfleet_tests::graph_builder::GraphBuilder;
use tensorfleet_tests::raw_http2::{Answered, RawClient};
use tensorfleet_tests::stuck::{self, connect, eventually, fetch, run};

/// What waits for no time limit is done by then, however busy the machine is.
const SOON: Duration = Duration::from_secs(40);
const RUN_STEP: &str = "/tensorflow.MasterService/RunStep";
const MB: usize = 1 << 20;

fn session(cluster: &Cluster) -> Result<Arc<RemoteSession>> {
    let graph = stuck::graph("/job:ps/task:0", "/job:worker/task:0");
    connect(&cluster.target(Job::Worker, 0).unwrap(), graph, SOON)
}

/// Opens a session, runs a step and closes it: what a newcomer wants.
#[track_caller]
fn assert_newcomer_is_served(cluster: &Cluster) {
    let session = session(cluster).unwrap();
    run(&session, "init").unwrap();
    assert_eq!(fetch(&session, "read:0").unwrap(), Tensor::scalar(7.0f32));
    session.close().unwrap();
}

/// A program that runs step after step.
struct Training {
    stop: Arc<AtomicBool>,
    steps: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
}

impl Training {
    fn start(cluster: &Cluster) -> Training {
        let (stop, steps) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let session = session(cluster).unwrap();
        run(&session, "init").unwrap();
        let thread = std::thread::spawn({
            let (stop, steps) = (stop.clone(), steps.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    fetch(&session, "read:0")?;
                    steps.fetch_add(1, Ordering::Relaxed);
                }
                session.close()
            }
        });
        Training { stop, steps, thread: Some(thread) }
    }

    /// It does another hundred steps.
    #[track_caller]
    fn assert_goes_on(&self) {
        let before = self.steps.load(Ordering::Relaxed);
        eventually("a hundred steps", SOON, || {
            let steps = self.steps.load(Ordering::Relaxed) - before;
            if steps >= 100 { Ok(()) } else { Err(format!("{steps} steps")) }
        });
    }

    fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn resident_bytes(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Forty half-sent messages held all the room for as long as their clients liked, and ended trainings.
#[test]
fn half_sent_messages_shut_nobody_out_and_are_given_up() {
    let cluster = Cluster::start_ours(1, 1, &["--stall-timeout=5"]).unwrap();
    let pid = cluster.pid(Job::Worker, 0).unwrap();
    let training = Training::start(&cluster);
    training.assert_goes_on();
    let (descriptors_before, resident_before) = (descriptors(pid), resident_bytes(pid));
    let address = cluster.address(Job::Worker, 0).unwrap();
    let mut held = Vec::new();
    for (count, announced) in [(18, 1000 * MB), (7, 10 * MB), (8, MB), (7, 100_000)] {
        for _ in 0..count {
            let mut client = RawClient::connect(address).unwrap();
            client.call(RUN_STEP, announced, &[10; 17_000]).unwrap();
            held.push(client);
        }
    }
    let started = Instant::now();
    training.assert_goes_on();
    assert_newcomer_is_served(&cluster);
    cluster.status(Job::Worker, 0).unwrap();
    let told = Command::new(cluster::tensorfleet_program().unwrap())
        .args(["status", &cluster.target(Job::Worker, 0).unwrap()])
        .output()
        .unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let grown = resident_bytes(pid).saturating_sub(resident_before);
    println!("{} KB while they are held", grown >> 10);
    assert!(grown < 24 * MB, "grown by {grown} bytes");
    for client in &mut held {
        assert_eq!(client.answer(SOON).unwrap(), Answered::Error);
    }
    println!("given up after {:?}", started.elapsed());
    drop(held);
    eventually("descriptors come back", SOON, || {
        let now = descriptors(pid);
        if now <= descriptors_before + 4 { Ok(()) } else { Err(format!("{descriptors_before}, then {now}")) }
    });
    training.assert_goes_on();
    training.finish();
}

/// Each cost 1.7 to 2 MB of memory for 115 bytes sent.
#[test]
fn half_sent_messages_cost_a_few_kilobytes_each() {
    let cluster = Cluster::start_ours(1, 0, &[]).unwrap();
    let (pid, address) = (cluster.pid(Job::Ps, 0).unwrap(), cluster.address(Job::Ps, 0).unwrap());
    let before = resident_bytes(pid);
    const COUNT: usize = 300;
    let mut held = Vec::new();
    for _ in 0..COUNT {
        let mut client = RawClient::connect(address).unwrap();
        client.call(RUN_STEP, 15 * MB, &[10; 100]).unwrap();
        held.push(client);
    }
    eventually("all of them are there", SOON, || {
        let open = descriptors(pid);
        if open > COUNT { Ok(()) } else { Err(format!("{open} descriptors")) }
    });
    assert!(descriptors(pid) < COUNT + 60, "{} descriptors for {COUNT} connections", descriptors(pid));
    cluster.status(Job::Ps, 0).unwrap();
    let each = resident_bytes(pid).saturating_sub(before) / COUNT;
    println!("{each} bytes each");
    assert!(each < 64 << 10, "{each} bytes each");
}

/// A server whose process may have only so many descriptors.
struct Limited(Child);

impl Limited {
    fn start(address: SocketAddr, descriptors: usize, flags: &[&str]) -> Limited {
        let child = Command::new("bash")
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
            .arg(cluster::tensorfleet_program().unwrap())
            .args(["serve", &format!("--ps_hosts={address}"), "--job_name=ps", "--task_index=0"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Limited(child);
        eventually("the server is there", SOON, || status_of(address).map(drop));
        server
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// With 200 descriptors, 129 connections that said nothing kept everybody else out.
#[test]
fn idle_connections_make_room_when_descriptors_run_short() {
    let address = cluster::free_addresses(1).unwrap()[0];
    let _server = Limited::start(address, 200, &["--first-request-timeout=3600"]);
    let constant = || GraphBuilder::new().constant("c", 7.0f32).build();
    let target = format!("grpc://{address}");
    let early = connect(&target, constant(), SOON).unwrap();
    let (mut greeted, mut silent) = (Vec::new(), Vec::new());
    for number in 0..400 {
        match number % 2 {
            0 => greeted.push(RawClient::connect(address)),
            _ => silent.push(TcpStream::connect(address)),
        }
        if number % 100 == 99 {
            let session = connect(&target, constant(), SOON).unwrap();
            assert_eq!(fetch(&session, "c:0").unwrap(), Tensor::scalar(7.0f32));
            assert_eq!(fetch(&early, "c:0").unwrap(), Tensor::scalar(7.0f32));
        }
    }
}

/// Connections that say nothing were never closed.
#[test]
fn connections_without_a_request_are_closed_and_sessions_stay() {
    let flags = ["--first-request-timeout=1", "--idle-timeout=1"];
    let cluster = Cluster::start_ours(1, 1, &flags).unwrap();
    let (pid, address) = (cluster.pid(Job::Worker, 0).unwrap(), cluster.address(Job::Worker, 0).unwrap());
    let session = session(&cluster).unwrap();
    run(&session, "init").unwrap();
    let before = descriptors(pid);
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let greeted: Vec<RawClient> = (0..100).map(|_| RawClient::connect(address).unwrap()).collect();
    eventually("they are closed", SOON, || {
        let now = descriptors(pid);
        if now <= before + 4 { Ok(()) } else { Err(format!("{before}, then {now}")) }
    });
    drop((silent, greeted));
    // Idle for longer than connections may be, all of them: between the tasks, too.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(fetch(&session, "read:0").unwrap(), Tensor::scalar(7.0f32));
    std::thread::sleep(Duration::from_secs(3));
    assert_newcomer_is_served(&cluster);
    session.close().unwrap();
}

/// Sends the same call many times over one connection and counts the answers.
fn flood(
    address: SocketAddr,
    method: &str,
    messages: impl Iterator<Item = Vec<u8>>,
) -> (RawClient, usize, usize) {
    let mut client = RawClient::connect(address).unwrap();
    let (mut made, mut refused) = (0, 0);
    let messages: Vec<Vec<u8>> = messages.collect();
    for batch in messages.chunks(50) {
        for message in batch {
            client.call(method, message.len(), message).unwrap();
        }
        for _ in batch {
            match client.answer(SOON).unwrap() {
                Answered::Message => made += 1,
                Answered::Error => refused += 1,
                Answered::Closed => panic!("the connection was closed"),
            }
        }
    }
    (client, made, refused)
}

#[test]
fn a_client_with_a_thousand_sessions_leaves_some_for_others() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let address = cluster.address(Job::Worker, 0).unwrap();
    let request = CreateSessionRequest {
        graph_def: Some(GraphBuilder::new().constant("c", 1.0f32).build()),
        ..Default::default()
    };
    let messages = (0..1000).map(|_| request.encode_to_vec());
    let (hoarder, made, refused) = flood(address, "/tensorflow.MasterService/CreateSession", messages);
    assert_eq!((made, refused), (500, 500));
    assert_newcomer_is_served(&cluster);
    drop(hoarder);
}

/// Nobody could open a session with this task until a minute after such a client had left.
#[test]
fn a_client_with_ten_thousand_worker_sessions_leaves_some_for_others() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let messages = (0..10_000).map(|number| {
        let handle = format!("hoard{number}");
        CreateWorkerSessionRequest { session_handle: handle, ..Default::default() }.encode_to_vec()
    });
    let address = cluster.address(Job::Ps, 0).unwrap();
    let (hoarder, made, refused) = flood(address, "/tensorflow.WorkerService/CreateWorkerSession", messages);
    assert_eq!((made, refused), (5_000, 5_000));
    assert_newcomer_is_served(&cluster);
    drop(hoarder);
}

/// They left 437 MB: what had been freed stayed, since no session had ended.
#[test]
fn calls_that_are_withdrawn_at_once_leave_no_memory_behind() {
    let cluster = Cluster::start_ours(1, 0, &[]).unwrap();
    let (pid, address) = (cluster.pid(Job::Ps, 0).unwrap(), cluster.address(Job::Ps, 0).unwrap());
    let before = resident_bytes(pid);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let mut client = RawClient::connect(address).unwrap();
                    while client.calls() < 14_000 {
                        client.call_and_reset(RUN_STEP, 500).unwrap();
                    }
                    // When this is answered, the server has seen all the others.
                    client.call("/tensorflow.WorkerService/GetStatus", 0, &[]).unwrap();
                    eventually("an answer", SOON, || match client.answer(SOON) {
                        Ok(Answered::Message) => Ok(()),
                        other => Err(format!("{other:?}")),
                    });
                }
            });
        }
    });
    println!("{} KB right after", resident_bytes(pid).saturating_sub(before) >> 10);
    // A server that does nothing gives memory back once a minute at least.
    eventually("memory is given back", Duration::from_secs(80), || {
        let grown = resident_bytes(pid).saturating_sub(before);
        if grown < 16 * MB { Ok(()) } else { Err(format!("grown by {grown} bytes")) }
    });
    cluster.status(Job::Ps, 0).unwrap();
}

/// A server that was full refused requests of trainings, which ended them.
#[test]
fn a_step_that_is_refused_for_lack_of_room_is_made_again_when_there_is_some() {
    let cluster = Cluster::start_ours(1, 1, &["--max-pending-mb=16"]).unwrap();
    let address = cluster.address(Job::Worker, 0).unwrap();
    let status = cluster.status(Job::Worker, 0).unwrap();
    let (device, incarnation) = (&status.devices[0], &status.incarnation);
    let graph = GraphBuilder::new().placeholder("p", DType::Float).typed("n", "Neg", &["p"], DType::Float);
    let session = connect(&cluster.target(Job::Worker, 0).unwrap(), graph.build(), SOON).unwrap();
    let feed = Tensor::from_slice(&vec![1.0f32; MB], &[MB]).unwrap();
    let step = || session.run(&[("p:0", &feed)], &["n:0"], &[], &RemoteRunOptions::default());
    step().unwrap();
    // Receives of tensors that nobody makes, from many clients: each takes what is left for it.
    let mut hoarders = Vec::new();
    for hoarder in 0..12 {
        let mut client = RawClient::connect(address).unwrap();
        for number in 0..800 {
            let request = RecvTensorRequest {
                step_id: hoarder,
                rendezvous_key: format!("{device};{incarnation};{device};t{number};0:0"),
                ..Default::default()
            };
            let message = request.encode_to_vec();
            client.call("/tensorflow.WorkerService/RecvTensor", message.len(), &message).unwrap();
        }
        hoarders.push(client);
    }
    // Those beyond the room are refused: the first of them says that it is full.
    assert_eq!(hoarders.last_mut().unwrap().answer(SOON).unwrap(), Answered::Error);
    let left = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        drop(hoarders);
    });
    let started = Instant::now();
    step().unwrap();
    println!("it took {:?}", started.elapsed());
    left.join().unwrap();
    // What frees something gets through in any case.
    session.close().unwrap();
}

/// FleetService/Shutdown worked by HTTP/1.1, which is what a browser can be made to speak.
#[test]
fn a_server_cannot_be_stopped_by_http_1() {
    let cluster = Cluster::start_ours(1, 0, &[]).unwrap();
    let mut stream = TcpStream::connect(cluster.address(Job::Ps, 0).unwrap()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let request = "POST /tensorfleet.FleetService/Shutdown HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
                   content-type: application/grpc\r\ncontent-length: 5\r\n\r\n\0\0\0\0\0";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 505"), "{answer}");
    cluster.status(Job::Ps, 0).unwrap();
}
