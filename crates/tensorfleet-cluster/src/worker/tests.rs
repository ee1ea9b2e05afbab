//! Tests of the worker: whose sessions and graphs are kept, and for how long.

use std::time::Duration;

use tensorfleet_core::Code;
use tensorfleet_rpc::{ChannelOptions, Peer};
use tokio::runtime::Handle;

use super::session::PATIENCE;
use super::*;
use crate::local_tasks::LocalTasks;
use crate::tasks::TaskOwner;

fn worker(clock: &Clock) -> Worker {
    let cluster = Arc::new(ClusterSpec::new([("worker", ["localhost:1"])]).unwrap());
    let spawner = TaskOwner::new(Handle::current()).spawner();
    let peers = Peers::new(cluster, ChannelOptions::default(), spawner, clock.clone(), LocalTasks::default());
    Worker::new(Task::local(), Arc::new(peers), clock.clone())
}

fn open(worker: &Worker, handle: &str, connection: Option<Connection>) {
    let new = NewWorkerSession { handle: handle.to_string(), connection, ..Default::default() };
    worker.create_session(new).unwrap();
}

#[tokio::test]
async fn a_session_is_kept_for_a_while_after_its_master_is_gone() {
    let hand = Clock::manual();
    let worker = worker(&hand.clock());
    let (connection, guard) = Connection::new(Peer::Process(None));
    open(&worker, "by wire", Some(connection));
    open(&worker, "in process", None);
    hand.advance(PATIENCE.after_closing * 100);
    worker.sweep();
    assert_eq!(worker.num_sessions(), 2, "a master that is silent is not gone");
    drop(guard);
    worker.sweep();
    hand.advance(PATIENCE.after_closing - Duration::from_millis(1));
    worker.sweep();
    assert_eq!(worker.num_sessions(), 2, "its master may come back");
    hand.advance(Duration::from_millis(1));
    worker.sweep();
    let left: Vec<String> = worker.report_sessions().into_iter().map(|session| session.handle).collect();
    assert_eq!(left, ["in process"]);
}

#[tokio::test]
async fn a_client_that_opens_another_session_ends_its_earlier_ones() {
    let worker = worker(&Clock::system());
    let first = ClientId::random().next();
    let of = |handle: &str, client| NewWorkerSession {
        handle: handle.to_string(),
        client: Some(client),
        ..Default::default()
    };
    worker.create_session(of("first", first)).unwrap();
    worker.create_session(of("another client's", ClientId::random())).unwrap();
    open(&worker, "nobody's", None);
    worker.create_session(of("second", first.next())).unwrap();
    let mut left: Vec<String> = worker.report_sessions().into_iter().map(|session| session.handle).collect();
    left.sort();
    assert_eq!(left, ["another client's", "nobody's", "second"]);
}

fn queue_and(op: &str, more: &str) -> GraphDef {
    use tensorfleet_core::DType;
    use tensorfleet_core::attr::IntoAttr;
    use tensorfleet_proto::tensorflow::NodeDef;
    let node = |name: &str, op: &str, input: Vec<String>, attr| NodeDef {
        name: name.into(),
        op: op.into(),
        input,
        device: "/device:CPU:0".into(),
        attr,
        ..Default::default()
    };
    // A TensorFlow master adds notes of its own, which differ from graph to graph.
    let attr = |name: &str, value| (name.to_string(), value);
    let queue = [attr("component_types", vec![DType::Float].into_attr()), attr("_note", more.into_attr())];
    let nodes = vec![
        node("queue", "FIFOQueueV2", vec![], queue.into()),
        node(more, op, vec!["queue".into()], Default::default()),
    ];
    GraphDef { node: nodes, ..Default::default() }
}

/// As TensorFlow's masters do it: no worker session, graphs under the handle of the master's session.
#[tokio::test]
async fn graphs_of_a_session_that_nobody_made_share_their_kernels_until_the_last_is_gone() {
    let hand = Clock::manual();
    let worker = worker(&hand.clock());
    let (connection, guard) = Connection::new(Peer::Process(None));
    let of = |handle| SessionRef { handle, is_created: false, connection: Some(&connection) };
    let register = |handle, more| worker.register_graph(&of(handle), queue_and("QueueSizeV2", more)).unwrap();
    let (first, second) = (register("a", "one"), register("a", "two"));
    let other = register("b", "one");
    assert_eq!(worker.num_sessions(), 2);
    let kernels = |handle| worker.session(&of(handle)).unwrap().num_kernels();
    assert_eq!((kernels("a"), kernels("b")), (3, 2), "one queue, and a node for each graph");
    worker.deregister_graph(&of("a"), &first).unwrap();
    assert_eq!(worker.num_sessions(), 2);
    worker.deregister_graph(&of("a"), &second).unwrap();
    assert_eq!(worker.num_sessions(), 1, "with the last graph the session goes");
    assert_eq!(worker.deregister_graph(&of("a"), &second).unwrap_err().code(), Code::Aborted);
    assert!(worker.register_graph(&of("c"), queue_and("NoSuchOp", "one")).is_err());
    assert_eq!(worker.num_sessions(), 1, "a graph that is refused leaves no session");
    assert!(worker.deregister_graph(&of("b"), &other).is_ok());
    // A master that is gone, and one that names no session.
    register("", "one");
    register("d", "one");
    assert_eq!(worker.num_sessions(), 2);
    drop(guard);
    worker.sweep();
    hand.advance(PATIENCE.after_closing);
    worker.sweep();
    assert_eq!(worker.num_sessions(), 0);
    let made = SessionRef { handle: "e", is_created: true, connection: None };
    let status = worker.register_graph(&made, queue_and("QueueSizeV2", "one")).unwrap_err();
    assert_eq!(status.code(), Code::Aborted, "{status}");
}

/// One client could fill the account of the whole task with them.
#[tokio::test]
async fn graphs_without_a_session_are_bounded_for_each_client() {
    let worker = worker(&Clock::system());
    let (connection, _guard) = Connection::new(Peer::Process(None));
    let (other, _other_guard) = Connection::new(Peer::Process(None));
    let nameless = |connection| SessionRef { handle: "", is_created: false, connection: Some(connection) };
    let register = |connection, more: &str| {
        worker.register_graph(&nameless(connection), queue_and("QueueSizeV2", more)).unwrap()
    };
    let others = register(&other, "one");
    let first = register(&connection, "one");
    let second = register(&connection, "two");
    let session = worker.session(&nameless(&connection)).unwrap();
    for number in 2..nameless_graphs::MOST_GRAPHS {
        session.graph(&first).unwrap();
        register(&connection, &format!("n{number}"));
    }
    assert!(session.graph(&second).is_ok(), "as many as there may be");
    session.graph(&first).unwrap();
    register(&connection, "last");
    let gone = worker.deregister_graph(&nameless(&connection), "0000000000000003").unwrap_err();
    assert_eq!(gone.code(), Code::Aborted, "it was used least recently: {gone}");
    assert!(session.graph(&first).is_ok() && session.graph(&second).is_ok(), "these were used");
    assert_eq!(session.report().graphs, nameless_graphs::MOST_GRAPHS);
    assert_eq!(session.num_kernels(), nameless_graphs::MOST_GRAPHS + 1, "a queue, and a node for each");
    assert!(worker.session(&nameless(&other)).unwrap().graph(&others).is_ok(), "another client's");
}

#[tokio::test]
async fn a_session_rests_while_its_master_is_gone_and_goes_on_when_it_comes_back() {
    let hand = Clock::manual();
    let worker = worker(&hand.clock());
    let (connection, guard) = Connection::new(Peer::Process(None));
    open(&worker, "s", Some(connection));
    let session = SessionRef { handle: "s", is_created: true, connection: None };
    let is_paused = || worker.sessions.read()["s"].context.background.is_paused();
    worker.sweep();
    assert!(!is_paused());
    drop(guard);
    worker.sweep();
    assert!(is_paused());
    worker.session(&session).unwrap();
    assert!(!is_paused(), "somebody has come back");
    worker.pause_session("s");
    assert!(is_paused(), "its master says that its client is gone");
    worker.pause_session("no such session");
}

#[tokio::test]
async fn a_master_that_has_restarted_loses_the_sessions_of_its_earlier_life() {
    let worker = worker(&Clock::system());
    let of = |handle: &str, incarnation| NewWorkerSession {
        handle: handle.to_string(),
        master: MasterId { task: "/job:worker/replica:0/task:0".to_string(), incarnation },
        ..Default::default()
    };
    worker.create_session(of("first", 1)).unwrap();
    worker.create_session(of("second", 1)).unwrap();
    assert_eq!(worker.num_sessions(), 2);
    worker.create_session(of("third", 2)).unwrap();
    assert_eq!((worker.num_sessions(), worker.sessions_made()), (1, 3));
}
