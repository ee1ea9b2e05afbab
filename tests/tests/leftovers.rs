//! What the dead leave behind goes: clients and masters that are killed, connections that drop, sessions that end. Real
//! processes, whose memory is looked at.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tensorfleet_cluster::{RemoteSession, TaskStatus};
use tensorfleet_core::{Code, DType, PartialShape, Tensor};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_tests::cluster::{Cluster, Job};
use tensorfleet_tests::graph_builder::GraphBuilder;
use tensorfleet_tests::program::Program;
use tensorfleet_tests::stuck::{connect, eventually, fetch, run};

const CONNECT_LIMIT: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(25);
const PS: &str = "/job:ps/task:0";
const MEGABYTE: u64 = 1 << 20;

/// Sums over one table on the ps: a signature for each. The table is of its seed, so that no two are equal.
fn table_graph(seed: u32, megabytes: usize, sums: usize) -> GraphDef {
    let value = |index: usize| (seed.wrapping_mul(2_654_435_761) ^ index as u32) as i32;
    let values: Vec<i32> = (0..megabytes << 18).map(value).collect();
    let table = Tensor::from_slice(&values, &[values.len()]).unwrap();
    let reduction = |op: &str, name: &str, graph: GraphBuilder| {
        let attrs = [("T", DType::Int32.into()), ("Tidx", DType::Int32.into())];
        graph.node(name, op, &["table", "axis"], &attrs).on(PS)
    };
    let graph = GraphBuilder::new().constant("table", table).on(PS).constant("axis", 0i32).on(PS);
    (0..sums).fold(graph, |graph, number| reduction("Max", &format!("max{number}"), graph)).build()
}

/// A dataset whose elements of 4 MB are read ahead without end, on the ps; `element` takes one.
fn reading_ahead() -> GraphDef {
    let spec = |shape: PartialShape| {
        [("output_types", vec![DType::Int64].into()), ("output_shapes", vec![shape].into())]
    };
    let of_batches = || spec(PartialShape::vector(None));
    let number = |graph: GraphBuilder, name: &str, value: i64| graph.constant(name, value).on(PS);
    let numbers = [("zero", 0), ("far", 1i64 << 60), ("one", 1), ("rows", 1 << 19), ("ahead", 1 << 40)];
    let graph =
        numbers.into_iter().fold(GraphBuilder::new(), |graph, (name, value)| number(graph, name, value));
    let iterator = [("shared_name", "".into()), ("container", "".into())];
    graph
        .node("range", "RangeDataset", &["zero", "far", "one"], &spec(PartialShape::scalar()))
        .on(PS)
        .node("batches", "BatchDataset", &["range", "rows"], &of_batches())
        .on(PS)
        .node("prefetched", "PrefetchDataset", &["batches", "ahead"], &of_batches())
        .on(PS)
        .node("iterator", "IteratorV2", &[], &iterator.into_iter().chain(of_batches()).collect::<Vec<_>>())
        .on(PS)
        .node("begin", "MakeIterator", &["prefetched", "iterator"], &[])
        .on(PS)
        .node("element", "IteratorGetNext", &["iterator"], &of_batches())
        .on(PS)
        .build()
}

/// An unnamed queue on the ps, which nobody else can see.
fn private_queue() -> GraphDef {
    let floats = || vec![DType::Float];
    GraphBuilder::new()
        .node("queue", "FIFOQueueV2", &[], &[("component_types", floats().into())])
        .on(PS)
        .constant("seven", 7.0f32)
        .on(PS)
        .node("put", "QueueEnqueueV2", &["queue", "seven"], &[("Tcomponents", floats().into())])
        .on(PS)
        .node("size", "QueueSizeV2", &["queue"], &[])
        .on(PS)
        .build()
}

/// Not a test of its own: the client that other tests start as a process, to kill it. It says when it has done its work,
/// and waits.
#[test]
#[ignore = "started as a process by other tests"]
fn client_process() {
    let Ok(target) = std::env::var("TENSORFLEET_TEST_TARGET") else { return };
    let work = std::env::var("TENSORFLEET_TEST_WORK").unwrap();
    let _session = match work.split_once(' ') {
        Some(("tables", seed)) => {
            let session = connect(&target, table_graph(seed.parse().unwrap(), 8, 3), CONNECT_LIMIT).unwrap();
            for number in 0..3 {
                fetch(&session, &format!("max{number}:0")).unwrap();
            }
            session
        }
        _ => {
            let session = connect(&target, reading_ahead(), CONNECT_LIMIT).unwrap();
            run(&session, "begin").unwrap();
            fetch(&session, "element:0").unwrap();
            session
        }
    };
    println!("\ndone");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn client(target: &str, work: &str) -> Program {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "client_process", "--nocapture"])
        .env("TENSORFLEET_TEST_TARGET", target)
        .env("TENSORFLEET_TEST_WORK", work);
    Program::spawn(command).unwrap()
}

fn wait_until_done(client: &Program) {
    client.wait_for(|line| line.ends_with("done").then_some(())).unwrap();
}

fn resident(cluster: &Cluster, job: Job) -> u64 {
    cluster.status(job, 0).unwrap().resident_bytes
}

/// Waits until the tasks together take less than so many bytes more than before.
#[track_caller]
fn wait_for_memory(cluster: &Cluster, before: u64, most: u64, limit: Duration) {
    eventually("memory that is given back", limit, || {
        let statuses = cluster.statuses()?;
        let now: u64 = statuses.iter().map(|status| status.resident_bytes).sum();
        if now < before + most { Ok(()) } else { Err(format!("{} MB: {statuses:#?}", now / MEGABYTE)) }
    });
}

/// Whether no task has a session.
fn no_sessions(cluster: &Cluster) -> Result<(), String> {
    let statuses = cluster.statuses()?;
    let has_none =
        |status: &TaskStatus| status.master_sessions.is_empty() && status.worker_sessions.is_empty();
    if statuses.iter().all(has_none) { Ok(()) } else { Err(format!("{statuses:?}")) }
}

/// They left 961 MB for five minutes.
#[test]
fn thirty_killed_clients_with_graphs_of_8_mb_leave_little_after_ten_seconds() {
    for master in [Job::Ps, Job::Worker] {
        let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
        let target = cluster.target(master, 0).unwrap();
        let clients: Vec<Program> = (0..30).map(|seed| client(&target, &format!("tables {seed}"))).collect();
        clients.iter().for_each(wait_until_done);
        let statuses = cluster.statuses().unwrap();
        let peak: u64 = statuses.iter().map(|status| status.resident_bytes).sum();
        assert!(peak > 240 * MEGABYTE, "each has a table of its own: {} MB", peak / MEGABYTE);
        clients.into_iter().for_each(Program::kill);
        let killed = Instant::now();
        wait_for_memory(&cluster, 0, 100 * MEGABYTE, Duration::from_secs(10));
        println!("{} MB; {:?} after the kill less than 100", peak / MEGABYTE, killed.elapsed());
        eventually("the end of all sessions", SOON, || no_sessions(&cluster));
    }
}

/// It went on for five minutes: 331 MB became 1947 in a quarter of one.
#[test]
fn a_killed_client_reads_no_further_ahead() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let before: u64 = cluster.statuses().unwrap().iter().map(|status| status.resident_bytes).sum();
    let client = client(&cluster.target(Job::Worker, 0).unwrap(), "ahead");
    wait_until_done(&client);
    client.kill();
    let killed = Instant::now();
    // What it may still do in two seconds it does; from then on nothing.
    eventually("two seconds", SOON, || {
        if killed.elapsed().as_secs() >= 2 { Ok(()) } else { Err(String::new()) }
    });
    let at_rest = cluster.status(Job::Ps, 0).unwrap();
    let sessions = cluster.status(Job::Worker, 0).unwrap().master_sessions;
    assert!(sessions.iter().all(|session| session.orphaned_seconds.is_some()), "{sessions:?}");
    let later = eventually("another second", SOON, || {
        let status = cluster.status(Job::Ps, 0)?;
        assert!(status.memory_bytes <= at_rest.memory_bytes, "it still reads: {status:?}");
        if killed.elapsed().as_secs_f64() >= 3.5 { Ok(status) } else { Err(String::new()) }
    });
    assert!(later.resident_bytes < at_rest.resident_bytes + 8 * MEGABYTE, "{later:?}");
    wait_for_memory(&cluster, before, 40 * MEGABYTE, Duration::from_secs(30));
}

/// A ps had 2422 MB: the table, once or twice for each signature.
#[test]
fn three_hundred_signatures_over_one_constant_have_it_once_on_each_task() {
    for master in [Job::Worker, Job::Ps] {
        let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
        let target = cluster.target(master, 0).unwrap();
        let session = connect(&target, table_graph(1, 4, 300), CONNECT_LIMIT).unwrap();
        let expected = fetch(&session, "max0:0").unwrap();
        let before = [Job::Ps, Job::Worker].map(|job| resident(&cluster, job));
        for number in 1..300 {
            assert_eq!(fetch(&session, &format!("max{number}:0")).unwrap(), expected);
        }
        let after = [Job::Ps, Job::Worker].map(|job| resident(&cluster, job));
        println!("{before:?} -> {after:?}");
        for (before, after) in before.iter().zip(after) {
            assert!(after < before + 60 * MEGABYTE, "{} -> {} MB", before / MEGABYTE, after / MEGABYTE);
        }
        let status = cluster.status(Job::Ps, 0).unwrap();
        let constants = status.worker_sessions[0].constant_bytes;
        assert!((4 * MEGABYTE..5 * MEGABYTE).contains(&constants), "{constants}");
    }
}

/// Passes bytes on to a server, until told to drop all connections.
struct Proxy {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = connections.clone();
        // Ends with the process, like the threads it starts.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || pass_on(from, to));
                }
                kept.lock().unwrap().extend([client, server]);
            }
        });
        Proxy { address, connections }
    }

    fn drop_connections(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn size(session: &RemoteSession) -> Result<Tensor, String> {
    fetch(session, "size:0").map_err(|status| status.to_string())
}

#[test]
fn a_client_that_comes_back_finds_its_session_and_one_that_is_late_is_told() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let proxy = Proxy::to(cluster.address(Job::Worker, 0).unwrap());
    let session = connect(&format!("grpc://{}", proxy.address), private_queue(), CONNECT_LIMIT).unwrap();
    run(&session, "put").unwrap();
    run(&session, "put").unwrap();
    for _ in 0..3 {
        proxy.drop_connections();
        eventually("a session whose client is gone", SOON, || {
            let sessions = cluster.status(Job::Worker, 0)?.master_sessions;
            let is_orphaned = sessions.iter().any(|session| session.orphaned_seconds.is_some());
            if is_orphaned { Ok(()) } else { Err(format!("{sessions:?}")) }
        });
        let found = eventually("the session as it was", Duration::from_secs(3), || size(&session));
        assert_eq!(found, Tensor::scalar(2i32), "nothing is lost");
        let sessions = cluster.status(Job::Worker, 0).unwrap().master_sessions;
        assert!(sessions[0].orphaned_seconds.is_none(), "{sessions:?}");
    }
    proxy.drop_connections();
    eventually("the end of the session on all tasks", SOON, || no_sessions(&cluster));
    let late = eventually("an answer", SOON, || match fetch(&session, "size:0") {
        Err(status) if status.code() == Code::Unavailable => Err(status.to_string()),
        outcome => Ok(outcome),
    });
    assert_eq!(late.unwrap_err().code(), Code::Aborted);
}

#[test]
fn a_killed_master_leaves_nothing_on_a_ps_after_thirty_seconds() {
    let mut cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let before = resident(&cluster, Job::Ps);
    let target = cluster.target(Job::Worker, 0).unwrap();
    let session = connect(&target, table_graph(1, 64, 1), CONNECT_LIMIT).unwrap();
    fetch(&session, "max0:0").unwrap();
    assert!(resident(&cluster, Job::Ps) > before + 60 * MEGABYTE);
    cluster.kill(Job::Worker, 0).unwrap();
    let killed = Instant::now();
    eventually("a session whose master is gone", Duration::from_secs(5), || {
        let sessions = cluster.status(Job::Ps, 0)?.worker_sessions;
        let is_orphaned = sessions.iter().any(|session| session.orphaned_seconds.is_some());
        if is_orphaned { Ok(()) } else { Err(format!("{sessions:?}")) }
    });
    eventually("the end of what the master had", Duration::from_secs(40), || {
        let status = cluster.status(Job::Ps, 0)?;
        let has_nothing = status.worker_sessions.is_empty() && status.steps.is_empty();
        let is_gone = has_nothing && status.resident_bytes < before + 20 * MEGABYTE;
        if is_gone { Ok(()) } else { Err(format!("{status:?}")) }
    });
    println!("gone {:?} after the kill", killed.elapsed());
}

#[test]
fn memory_of_a_step_goes_back_to_the_system_when_nothing_runs() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let before: u64 = cluster.statuses().unwrap().iter().map(|status| status.resident_bytes).sum();
    let at_first = resident(&cluster, Job::Ps);
    let shape = Tensor::from_slice(&[16i32 << 20], &[1]).unwrap();
    let graph = GraphBuilder::new()
        .placeholder("shape", DType::Int32)
        .constant("one", 1.0f32)
        .node(
            "filled",
            "Fill",
            &["shape", "one"],
            &[("T", DType::Float.into()), ("index_type", DType::Int32.into())],
        )
        .typed("doubled", "Exp", &["filled"], DType::Float)
        .constant("axis", 0i32)
        .node(
            "sum",
            "Sum",
            &["doubled", "axis"],
            &[("T", DType::Float.into()), ("Tidx", DType::Int32.into())],
        )
        .build();
    let session = connect(&cluster.target(Job::Ps, 0).unwrap(), graph, CONNECT_LIMIT).unwrap();
    let options = tensorfleet_cluster::RemoteRunOptions::default();
    session.run(&[("shape:0", &shape)], &["sum:0"], &[], &options).unwrap();
    assert!(
        resident(&cluster, Job::Ps) > at_first + 50 * MEGABYTE,
        "blocks of a step are kept for the next one"
    );
    wait_for_memory(&cluster, before, 20 * MEGABYTE, Duration::from_secs(30));
    assert_eq!(cluster.status(Job::Ps, 0).unwrap().master_sessions.len(), 1, "the session is still there");
    drop(session);
}
