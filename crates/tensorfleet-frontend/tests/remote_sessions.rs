//! Sessions on servers: the same programs as in this process, and what only servers have. A first run goes through a
//! socket; repeated ones take the short way to a server that lives in this process.

#![expect(clippy::disallowed_methods, reason = "tests wait in real time and start threads")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tensorfleet::{
    ClusterSpec, Code, DType, Graph, Output, Server, ServerOptions, Session, SessionOptions, Tensor,
    replica_device_setter,
};

/// A cluster in this process on free ports.
fn cluster(jobs: &[(&str, usize)]) -> Vec<Server> {
    // Held until all ports are known, so that they differ.
    let mut held = Vec::new();
    let spec = ClusterSpec::new(jobs.iter().map(|&(job, count)| {
        let addresses: Vec<String> = (0..count)
            .map(|_| {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap().to_string();
                held.push(listener);
                address
            })
            .collect();
        (job, addresses)
    }))
    .unwrap();
    drop(held);
    let start = |(job, index, _): (&str, u32, &str)| {
        let options = ServerOptions::new(spec.clone(), job, index);
        Server::start(ServerOptions { bind: Some("127.0.0.1".into()), ..options }).unwrap()
    };
    spec.tasks().map(start).collect()
}

#[test]
fn values_go_there_and_come_back() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let x = g.placeholder(DType::Float, [-1]);
    let y = &x * 2.0 + 1.0;
    let session = Session::connect(&server.target(), &g).unwrap();
    // The first run names what it wants, later ones use a callable on the server: both must agree.
    for n in 0..5 {
        let n = n as f32;
        let result = session.feed(&x, [n, 1.0]).run(&y).unwrap();
        assert_eq!(result.as_slice::<f32>().unwrap(), [2.0 * n + 1.0, 3.0]);
    }
    // A fed value is fetched as it is, and a value asked for twice comes twice.
    let (a, b, c) = session.feed(&x, [7.0f32]).run((&x, &y, &y)).unwrap();
    assert_eq!(a.as_slice::<f32>().unwrap(), [7.0]);
    assert_eq!((b.as_slice::<f32>().unwrap(), c.as_slice::<f32>().unwrap()), (&[15.0][..], &[15.0][..]));
    session.close().unwrap();
    assert_eq!(session.feed(&x, [1.0f32]).run(&y).unwrap_err().code(), Code::Cancelled);
}

#[test]
fn every_kind_of_tensor_survives_the_way() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let tensors = [
        Tensor::scalar(2.5f64),
        Tensor::zeros(DType::Int32, tensorfleet::Shape::new(&[3, 0]).unwrap()).unwrap(),
        Tensor::from_strings(vec!["a".into(), "".into(), vec![0u8; 10_000].into()], &[3]).unwrap(),
        Tensor::from_slice(&vec![true; 5000], &[5000]).unwrap(),
        Tensor::from_slice(&(0..1_000_000).collect::<Vec<i64>>(), &[1000, 1000]).unwrap(),
    ];
    let outputs: Vec<(Output, Output)> = tensors
        .iter()
        .map(|tensor| {
            let x = g.op("Placeholder").attr("dtype", tensor.dtype()).output().unwrap();
            let y = g.op("Identity").input(&x).output().unwrap();
            (x, y)
        })
        .collect();
    let session = Session::connect(&server.target(), &g).unwrap();
    for ((x, y), tensor) in outputs.iter().zip(&tensors) {
        for _ in 0..2 {
            assert_eq!(&session.feed(x, tensor.clone()).run(y).unwrap(), tensor);
        }
    }
}

/// Seed 003, both programs, on five servers in one process; the session is on a ps.
#[test]
fn the_programs_of_seed_003_give_their_values() {
    let servers = cluster(&[("ps", 2), ("worker", 3)]);
    let g = Graph::new();
    let a = g.device("/job:ps", || g.variable("a", 1.0f32));
    let b = g.device("/job:worker", || &a + 2.0);
    let c = g.device("/job:worker/task:1", || &a + &b);
    let session = Session::connect(&servers[0].target(), &g).unwrap();
    session.run(a.initializer()).unwrap();
    assert_eq!(session.run(&c).unwrap().to_scalar::<f32>().unwrap(), 4.0);
    assert_eq!(session.list_devices().unwrap().len(), 5);

    let g = Graph::new();
    let (s, p1, p2) = g.device(replica_device_setter().ps_tasks(2), || {
        let (v1, v2) = (g.variable("v1", 1.0f32), g.variable("v2", 2.0f32));
        g.variable("v3", 3.0f32);
        let s = &v1 + &v2;
        let (p1, p2) = g.device("/task:1", || (2.0 * &s, g.device("/cpu:0", || 3.0 * &s)));
        (s, p1, p2)
    });
    let init = g.global_variables_initializer().unwrap();
    let session = Session::connect(&servers[0].target(), &g).unwrap();
    session.run(&init).unwrap();
    let (s, p1, p2) = session.run((&s, &p1, &p2)).unwrap();
    let value = |tensor: Tensor| tensor.to_scalar::<f32>().unwrap();
    assert_eq!((value(s), value(p1), value(p2)), (3.0, 6.0, 9.0));
}

#[test]
fn the_graph_may_grow_and_threads_may_run_at_once() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let counter = g.variable("counter", 0i64);
    let session = Arc::new(Session::connect(&server.target(), &g).unwrap());
    session.run(counter.initializer()).unwrap();
    let add = counter.assign_add(1).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| drop(session.run(&add).unwrap())));
        }
    });
    assert_eq!(session.run(&counter).unwrap().to_scalar::<i64>().unwrap(), 100);
}

#[test]
fn variables_live_in_the_server_until_a_reset() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let v = g.variable("v", 5i32);
    Session::connect(&server.target(), &g).unwrap().run(v.initializer()).unwrap();
    let second = Session::connect(&server.target(), &g).unwrap();
    assert_eq!(second.run(&v).unwrap().to_scalar::<i32>().unwrap(), 5);
    let isolated = SessionOptions { isolate_session_state: true, ..SessionOptions::default() };
    let alone = Session::connect_with(&server.target(), &g, isolated).unwrap();
    assert_eq!(alone.run(&v).unwrap_err().code(), Code::FailedPrecondition);
    Session::reset(&server.target(), &[]).unwrap();
    let third = Session::connect(&server.target(), &g).unwrap();
    assert_eq!(third.run(&v).unwrap_err().code(), Code::FailedPrecondition);
    assert!(Session::reset("", &[]).is_err());
}

#[test]
fn errors_come_back_with_code_and_node() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let v = g.variable("v", 5i32);
    let queue_like = g.op("FIFOQueueV2").attr("component_types", vec![DType::Float]).output().unwrap();
    let dequeue = g
        .op("QueueDequeueV2")
        .input(&queue_like)
        .attr("component_types", vec![DType::Float])
        .output()
        .unwrap();
    let session = Session::connect(&server.target(), &g).unwrap();
    for _ in 0..3 {
        let status = session.run(&v).unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("{{node v"), "{status}");
    }
    let started = Instant::now();
    let status = session.step().timeout(Duration::from_millis(100)).run(&dequeue).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(started.elapsed() < Duration::from_secs(25));
    // The session is as good as before.
    session.run(v.initializer()).unwrap();
    assert_eq!(session.run(&v).unwrap().to_scalar::<i32>().unwrap(), 5);
}

#[test]
fn a_traced_run_tells_what_ran() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let product = g.constant([[1.0f32, 2.0]]).matmul([[3.0f32], [4.0]]).unwrap();
    let session = Session::connect(&server.target(), &g).unwrap();
    let (value, metadata) = session.step().run_traced(&product).unwrap();
    assert_eq!(value.as_slice::<f32>().unwrap(), [11.0]);
    let devices = metadata.step_stats.unwrap().dev_stats;
    assert!(
        devices.iter().any(|device| device.device.contains("/job:local") && !device.node_stats.is_empty())
    );
    assert_eq!(metadata.partition_graphs.len(), 1);
    let (_, metadata) = Session::new(&g).step().run_traced(&product).unwrap();
    let nodes = &metadata.step_stats.unwrap().dev_stats[0].node_stats;
    assert!(nodes.iter().any(|node| node.node_name == "MatMul"), "a session in this process tells as well");
}

#[test]
fn a_server_that_is_not_there_is_waited_for_and_then_named() {
    let g = Graph::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let target = format!("grpc://127.0.0.1:{port}");
    let options = SessionOptions { connect_timeout: Duration::from_millis(300), ..SessionOptions::default() };
    let status = Session::connect_with(&target, &g, options).err().unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.text().contains(&target) && status.text().contains("refused"), "{status}");
    for target in ["http://localhost:1", "local", "grpc://nonsense"] {
        let status = Session::connect(target, &g).err().unwrap();
        assert!(status.text().contains("grpc://HOST:PORT"), "{status}");
    }
}

#[test]
fn a_server_that_goes_away_is_unavailable_not_silent() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let one = g.constant(1.0f32);
    let session = Session::connect(&server.target(), &g).unwrap();
    session.run(&one).unwrap();
    server.stop(Duration::ZERO).unwrap();
    drop(server);
    let started = Instant::now();
    let status = session.run(&one).unwrap_err();
    assert!(matches!(status.code(), Code::Unavailable | Code::Aborted), "{status}");
    assert!(started.elapsed() < Duration::from_secs(25));
    session.close().unwrap();
}

#[test]
fn a_repeated_run_that_waits_ends_with_its_server() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let queue = g.fifo_queue(10, &[DType::Int32]).unwrap();
    let enqueue = queue.enqueue(vec![g.constant(7)]).unwrap();
    let element = queue.dequeue().unwrap();
    let session = Arc::new(Session::connect(&server.target(), &g).unwrap());
    for _ in 0..3 {
        session.run(&enqueue).unwrap();
        session.run(&element[0]).unwrap();
    }
    let waiting = {
        let (session, element) = (session.clone(), element[0].clone());
        std::thread::spawn(move || session.run(&element).unwrap_err())
    };
    while server.status().steps.is_empty() {
        std::thread::yield_now();
    }
    server.stop(Duration::ZERO).unwrap();
    let status = waiting.join().unwrap();
    assert!(matches!(status.code(), Code::Unavailable | Code::Aborted | Code::Cancelled), "{status}");
}

#[test]
fn a_partial_run_gives_results_as_their_feeds_come() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let (x, y) = (g.placeholder(DType::Float, ()), g.placeholder(DType::Float, ()));
    let first = &x + 1.0;
    let second = &first * &y;
    let session = Session::connect(&server.target(), &g).unwrap();
    let run = session.partial_run(&[&x, &y], (&first, &second)).unwrap();
    assert_eq!(run.feed(&x, 1.0).run(&first).unwrap().to_scalar::<f32>().unwrap(), 2.0);
    let wrong = run.feed(&y, [1.0f32, 2.0]).run(&second).unwrap_err();
    assert!(wrong.text().contains("Cannot feed value of shape"), "{wrong}");
    assert_eq!(run.feed(&y, 10.0).run(&second).unwrap().to_scalar::<f32>().unwrap(), 20.0);
    let over = run.step().run(&second).unwrap_err();
    assert_eq!(over.code(), Code::InvalidArgument, "{over}");
    let local = Session::new(&g);
    let run = local.partial_run(&[&x, &y], (&first, &second)).unwrap();
    assert_eq!(run.feed(&x, 1.0).run(&first).unwrap().to_scalar::<f32>().unwrap(), 2.0);
    assert_eq!(run.feed(&y, 10.0).run(&second).unwrap().to_scalar::<f32>().unwrap(), 20.0);
}

#[test]
fn a_prepared_run_outlives_the_plans_that_a_server_forgets() {
    let server = Server::local().unwrap();
    let g = Graph::new();
    let x = g.placeholder(DType::Int32, ());
    let double = &x * 2;
    // More signatures than a session keeps plans.
    let others: Vec<Output> = (0..1100).map(|index| g.constant(index)).collect();
    let session = Session::connect(&server.target(), &g).unwrap();
    let prepared = session.prepare(&[&x], double).unwrap();
    for input in 0..3 {
        assert_eq!(prepared.run([input]).unwrap().to_scalar::<i32>().unwrap(), 2 * input);
    }
    for (index, other) in others.iter().enumerate() {
        assert_eq!(session.run(other).unwrap().to_scalar::<i32>().unwrap(), index as i32);
    }
    assert_eq!(prepared.run([21]).unwrap().to_scalar::<i32>().unwrap(), 42);
}
