//! A slow node never keeps a task from answering: while a client's graph computes for long on a parameter server, the server
//! tells its status, opens sessions, runs other clients' steps, and keeps deadlines; and what nobody waits for ends.
#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tensorfleet_cluster::{RemoteRunOptions, RemoteSession};
use tensorfleet_core::{Code, DType, Result, Status, Tensor};
use tensorfleet_proto::tensorflow::GraphDef;
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};
use tensorfleet_proto::tensorflow::{AttrValue, TensorShapeProto};
use tensorfleet_tests::cluster::{self, Cluster, Job};
use tensorfleet_tests::graph_builder::GraphBuilder;
use tensorfleet_tests::stuck::{self, connect, eventually, fetch, run};

/// An answer takes a second at most; so much more on a machine that others use as well. A task whose sockets waited for these
/// nodes answered after ten seconds and more.
const AT_ONCE: Duration = Duration::from_secs(4);
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
const PS: &str = "/job:ps/task:0";

/// A graph that takes long, what it is fed, and the fetch.
struct Slow {
    graph: GraphDef,
    feeds: Vec<(&'static str, Tensor)>,
}

const RESULT: &str = "result:0";

/// `count` nodes on a ps, one after the other, made by `add(graph, name)`, which depend on what is fed, so that nothing is computed
/// while planning.
fn one_after_another(
    mut graph: GraphBuilder,
    feeds: Vec<(&'static str, Tensor)>,
    count: usize,
    dtype: DType,
    add: impl Fn(GraphBuilder, &str, &str) -> GraphBuilder,
) -> Slow {
    for (name, value) in &feeds {
        graph = graph.placeholder(name, value.dtype()).on(PS);
    }
    graph = graph.node("begin", "NoOp", &[], &[]).on(PS);
    let mut before = "begin".to_string();
    for index in 0..count {
        let name = format!("slow{index}");
        graph = add(graph, &name, &format!("^{before}")).on(PS);
        before = name;
    }
    let graph = graph.typed("result", "Size", &[&before], dtype).on(PS);
    Slow { graph: graph.build(), feeds }
}

fn text(text: &str) -> Tensor {
    Tensor::string(Bytes::copy_from_slice(text.as_bytes()))
}

fn texts(text: &str) -> Tensor {
    Tensor::from_strings(vec![Bytes::copy_from_slice(text.as_bytes())], &[1]).unwrap()
}

/// Minutes: there is a match at each byte, and each looks to the end of the text for a better one.
fn regex() -> Slow {
    let graph =
        GraphBuilder::new().constant("pattern", text("a(.*b)?")).on(PS).constant("rewrite", text("-")).on(PS);
    let feeds = vec![("text", text(&"a".repeat(1_000_000)))];
    one_after_another(graph, feeds, 1, DType::String, |graph, name, _| {
        graph.node(name, "RegexReplace", &["text", "pattern", "rewrite"], &[("replace_global", true.into())])
    })
}

fn lin_space() -> Slow {
    let graph = GraphBuilder::new().constant("start", 0.0f32).on(PS).constant("stop", 1.0f32).on(PS);
    one_after_another(
        graph,
        vec![("num", Tensor::scalar(1i32 << 24))],
        100,
        DType::Float,
        |graph, name, after| {
            let attrs = [("T", DType::Float.into()), ("Tidx", DType::Int32.into())];
            graph.node(name, "LinSpace", &["start", "stop", "num", after], &attrs)
        },
    )
}

fn histogram() -> Slow {
    let range = Tensor::vector(&[0.0f32, 1.0]).unwrap();
    let graph = GraphBuilder::new().constant("values", 0.5f32).on(PS).constant("range", range).on(PS);
    one_after_another(
        graph,
        vec![("bins", Tensor::scalar(1i32 << 23))],
        100,
        DType::Int32,
        |graph, name, after| {
            let attrs = [("T", DType::Float.into()), ("dtype", DType::Int32.into())];
            graph.node(name, "HistogramFixedWidth", &["values", "range", "bins", after], &attrs)
        },
    )
}

fn space_to_batch() -> Slow {
    let pixel = Tensor::from_slice(&[1.0f32], &[1, 1, 1, 1]).unwrap();
    let blocks = Tensor::vector(&[1i32, 1]).unwrap();
    let paddings = Tensor::from_slice(&[0i32, 4095, 0, 4095], &[2, 2]).unwrap();
    let graph = GraphBuilder::new().constant("pixel", pixel).on(PS).constant("blocks", blocks).on(PS);
    one_after_another(graph, vec![("paddings", paddings)], 60, DType::Float, |graph, name, after| {
        let attrs = [
            ("T", DType::Float.into()),
            ("Tblock_shape", DType::Int32.into()),
            ("Tpaddings", DType::Int32.into()),
        ];
        graph.node(name, "SpaceToBatchND", &["pixel", "blocks", "paddings", after], &attrs)
    })
}

fn string_doubling() -> Slow {
    let graph = GraphBuilder::new();
    one_after_another(
        graph,
        vec![("text", text(&"x".repeat(64)))],
        40,
        DType::String,
        |mut graph, name, after| {
            let mut half = "text".to_string();
            for doubling in 0..20 {
                let double = format!("{name}_{doubling}");
                graph =
                    graph.node(&double, "StringJoin", &[&half, &half, after], &[("N", 2i64.into())]).on(PS);
                half = double;
            }
            graph.node(name, "StringJoin", &[&half, &half], &[("N", 2i64.into())])
        },
    )
}

fn reduce_join() -> Slow {
    let graph = GraphBuilder::new().constant("text", texts(&"x".repeat(1000))).on(PS);
    let graph = graph.constant("axis", Tensor::vector(&[0i32]).unwrap()).on(PS);
    let feeds = vec![("times", Tensor::vector(&[50_000i32]).unwrap())];
    one_after_another(graph, feeds, 60, DType::String, |graph, name, after| {
        let many = format!("{name}_many");
        let graph = tiled(graph, &many, "text", after);
        graph.node(name, "ReduceJoin", &[&many, "axis"], &[])
    })
}

fn tiled(graph: GraphBuilder, name: &str, what: &str, after: &str) -> GraphBuilder {
    let attrs = [("T", DType::String.into()), ("Tmultiples", DType::Int32.into())];
    graph.node(name, "Tile", &[what, "times", after], &attrs).on(PS)
}

fn parse_example() -> Slow {
    let graph = GraphBuilder::new()
        .constant("record", Tensor::from_strings(vec![example()], &[1]).unwrap())
        .on(PS)
        .constant("names", Tensor::from_strings(Vec::new(), &[0]).unwrap())
        .on(PS)
        .constant("key", text("x"))
        .on(PS)
        .constant("default", Tensor::vector(&[0.0f32]).unwrap())
        .on(PS);
    let feeds = vec![("times", Tensor::vector(&[50_000i32]).unwrap())];
    let shape = TensorShapeProto::default();
    one_after_another(graph, feeds, 60, DType::Float, move |graph, name, after| {
        let many = format!("{name}_many");
        let parsed = format!("{name}_parsed");
        let shapes = AttrValue {
            value: Some(Value::List(Box::new(ListValue {
                shape: vec![shape.clone()],
                ..Default::default()
            }))),
        };
        let attrs = [
            ("Nsparse", 0i64.into()),
            ("Ndense", 1i64.into()),
            ("sparse_types", Vec::<DType>::new().into()),
            ("Tdense", vec![DType::Float].into()),
            ("dense_shapes", shapes.into()),
        ];
        let graph = tiled(graph, &many, "record", after);
        let inputs = [&many[..], "names", "key", "default"];
        let graph = graph.node(&parsed, "ParseExample", &inputs, &attrs).on(PS);
        graph.typed(name, "Identity", &[&parsed], DType::Float)
    })
}

/// An `Example` with one feature, "x", of one float.
fn example() -> Bytes {
    let float_list = b"\x0a\x04\x00\x00\x80\x3f";
    let field = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let feature = field(0x12, float_list);
    let entry = [field(0x0a, b"x"), field(0x12, &feature)].concat();
    field(0x0a, &field(0x0a, &entry)).into()
}

fn decode_csv() -> Slow {
    let graph = GraphBuilder::new().constant("line", texts("1.5,2.5,3.5,some text")).on(PS);
    let mut graph = graph.constant("no_text", texts("")).on(PS);
    graph = graph.constant("no_number", Tensor::vector(&[0.0f32]).unwrap()).on(PS);
    let feeds = vec![("times", Tensor::vector(&[300_000i32]).unwrap())];
    one_after_another(graph, feeds, 20, DType::Float, |graph, name, after| {
        let (many, decoded) = (format!("{name}_many"), format!("{name}_decoded"));
        let types = vec![DType::Float, DType::Float, DType::Float, DType::String];
        let graph = tiled(graph, &many, "line", after);
        let inputs = [&many[..], "no_number", "no_number", "no_number", "no_text"];
        let graph = graph.node(&decoded, "DecodeCSV", &inputs, &[("OUT_TYPE", types.into())]).on(PS);
        graph.typed(name, "Identity", &[&decoded], DType::Float)
    })
}

fn decode_png() -> Slow {
    let grey = Tensor::scalar(7u8);
    let graph = GraphBuilder::new().constant("grey", grey).on(PS);
    let feeds = vec![("dims", Tensor::vector(&[5000i32, 4000, 1]).unwrap())];
    one_after_another(graph, feeds, 12, DType::UInt8, |graph, name, after| {
        let (picture, encoded) = (format!("{name}_picture"), format!("{name}_encoded"));
        let graph = graph.typed(&picture, "Fill", &["dims", "grey", after], DType::UInt8).on(PS);
        let graph = graph.typed(&encoded, "EncodePng", &[&picture], DType::UInt8).on(PS);
        graph.node(name, "DecodePng", &[&encoded], &[("channels", 1i64.into())])
    })
}

impl Slow {
    fn run(&self, session: &RemoteSession, timeout: Option<Duration>) -> Result<Tensor> {
        let feeds: Vec<(&str, &Tensor)> = self.feeds.iter().map(|(name, value)| (*name, value)).collect();
        let options = RemoteRunOptions { timeout, ..Default::default() };
        Ok(session.run(&feeds, &[RESULT], &[], &options)?.0.remove(0))
    }
}

/// Clients that run something slow again and again, until the value is dropped.
struct Clients {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Clients {
    /// Starts them, and returns when the ps is at work for all of them.
    fn start(cluster: &Cluster, slow: &Arc<Slow>, count: usize) -> Clients {
        let stop = Arc::new(AtomicBool::new(false));
        let target = cluster.target(Job::Worker, 0).unwrap();
        let client = || {
            let (stop, slow) = (stop.clone(), slow.clone());
            let session = connect(&target, slow.graph.clone(), CONNECT_LIMIT).unwrap();
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    match slow.run(&session, Some(Duration::from_secs(8))) {
                        Ok(_) => {}
                        Err(status) => assert_eq!(status.code(), Code::DeadlineExceeded, "{status}"),
                    }
                }
            })
        };
        let clients = (0..count).map(|_| client()).collect();
        wait_for_steps(cluster, count);
        Clients { stop, clients }
    }

    /// Waits for the ends of the last steps.
    fn end(mut self) {
        self.stop.store(true, Relaxed);
        self.clients.drain(..).for_each(|client| client.join().unwrap());
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

#[track_caller]
fn within<T>(limit: Duration, what: &str, act: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let value = act();
    assert!(begin.elapsed() < limit, "{what} took {:?}", begin.elapsed());
    value
}

/// Everybody else is served: by HTTP, by the command, and in new sessions, from afar and on the spot.
#[track_caller]
fn assert_answers(cluster: &Cluster) {
    within(AT_ONCE, "GET /", || cluster.status(Job::Ps, 0).unwrap());
    within(AT_ONCE, "tensorfleet status", || {
        let mut command = Command::new(cluster::tensorfleet_program().unwrap());
        let asked =
            command.arg("status").arg(cluster.address(Job::Ps, 0).unwrap().to_string()).output().unwrap();
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    });
    for job in [Job::Worker, Job::Ps] {
        within(2 * AT_ONCE, "a session with two steps", || {
            let target = cluster.target(job, 0).unwrap();
            let session = connect(&target, stuck::graph(PS, "/job:worker/task:0"), CONNECT_LIMIT).unwrap();
            run(&session, "init").unwrap();
            assert_eq!(fetch(&session, "read:0").unwrap(), Tensor::scalar(7.0f32));
            session.close().unwrap();
        });
    }
}

fn check(slow: Slow) {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let clients = Clients::start(&cluster, &Arc::new(slow), 1);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        assert_answers(&cluster);
    }
    clients.end();
}

macro_rules! answers_during {
    ($($case:ident)*) => {
        $(#[test]
        fn $case() {
            check(super::$case());
        })*
    };
}

mod a_ps_answers_during {
    use super::check;

    answers_during! { regex lin_space histogram space_to_batch string_doubling reduce_join parse_example decode_csv decode_png }
}

/// The processor time that a task has used.
fn cpu_time(cluster: &Cluster, job: Job) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", cluster.pid(job, 0).unwrap())).unwrap();
    // The name of the program may contain anything; user and system time are the 12th and 13th field after it.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Waits until a task has no steps and does nothing any more.
#[track_caller]
fn wait_until_idle(cluster: &Cluster, job: Job) {
    eventually("a task without steps", Duration::from_secs(10), || {
        match cluster.status(job, 0)?.steps.len() {
            0 => Ok(()),
            steps => Err(format!("{steps} steps")),
        }
    });
    eventually("a task that is idle", Duration::from_secs(10), || {
        let (before, begin) = (cpu_time(cluster, job), Instant::now());
        thread::sleep(Duration::from_millis(300));
        let (used, passed) = (cpu_time(cluster, job) - before, begin.elapsed());
        if used < passed / 3 { Ok(()) } else { Err(format!("{used:?} of processor time in {passed:?}")) }
    });
}

#[test]
fn a_deadline_is_kept_and_what_nobody_waits_for_ends() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let slow = regex();
    for job in [Job::Worker, Job::Ps] {
        let session = connect(&cluster.target(job, 0).unwrap(), slow.graph.clone(), CONNECT_LIMIT).unwrap();
        let status = within(AT_ONCE, "a step with half a second", || {
            slow.run(&session, Some(Duration::from_millis(500))).unwrap_err()
        });
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        wait_until_idle(&cluster, Job::Ps);
        within(AT_ONCE, "closing the session", || session.close().unwrap());
    }
}

#[test]
fn a_session_that_is_closed_ends_its_slow_steps() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let slow = Arc::new(regex());
    let target = cluster.target(Job::Worker, 0).unwrap();
    let session = connect(&target, slow.graph.clone(), CONNECT_LIMIT).unwrap();
    let step = thread::spawn({
        let (session, slow) = (session.clone(), slow.clone());
        move || slow.run(&session, None)
    });
    wait_for_steps(&cluster, 1);
    within(AT_ONCE, "closing the session", || session.close().unwrap());
    let ended: Result<Tensor, Status> = within(AT_ONCE, "the end of the step", || step.join().unwrap());
    assert!(ended.is_err());
    wait_until_idle(&cluster, Job::Ps);
}

#[track_caller]
fn wait_for_steps(cluster: &Cluster, count: usize) {
    eventually("steps on the ps", Duration::from_secs(30), || {
        match cluster.status(Job::Ps, 0)?.steps.len() {
            steps if steps >= count => Ok(()),
            steps => Err(format!("{steps} steps")),
        }
    });
}

/// Not a test of its own: the client that another test starts as a process, to kill it.
#[test]
#[ignore = "started as a process by another test"]
fn client_process() {
    let Ok(target) = std::env::var("TENSORFLEET_TEST_TARGET") else { return };
    let slow = regex();
    let _ = slow.run(&connect(&target, slow.graph.clone(), CONNECT_LIMIT).unwrap(), None);
}

struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_client_takes_its_slow_step_along() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command =
        command.args(["--ignored", "--exact", "client_process", "--nocapture"]).stdout(Stdio::null());
    let command = command.env("TENSORFLEET_TEST_TARGET", cluster.target(Job::Worker, 0).unwrap());
    let client = Client(command.spawn().unwrap());
    wait_for_steps(&cluster, 1);
    drop(client);
    wait_until_idle(&cluster, Job::Ps);
}

#[test]
fn a_signal_ends_a_ps_with_a_slow_step() {
    let mut cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let clients = Clients::start(&cluster, &Arc::new(regex()), 1);
    clients.stop.store(true, Relaxed);
    cluster.signal(Job::Ps, 0, "TERM").unwrap();
    // Five seconds; so much more on a machine that others use as well.
    let ended = cluster.wait_for_end(Job::Ps, 0, Duration::from_secs(5) + AT_ONCE).unwrap();
    assert!(ended.success(), "{ended}");
}

#[test]
fn more_slow_steps_than_threads_keep_nobody_waiting() {
    let cluster = Cluster::start_ours(1, 1, &[]).unwrap();
    let cores = thread::available_parallelism().unwrap().get();
    let clients = Clients::start(&cluster, &Arc::new(regex()), cores + 2);
    assert_answers(&cluster);
    // A step whose nodes do not run on threads that serve sockets, because nothing tells how long they take.
    let graph = GraphBuilder::new()
        .placeholder("half", DType::String)
        .on(PS)
        .node("whole", "StringJoin", &["half", "half"], &[("N", 2i64.into())])
        .on(PS);
    let session = connect(&cluster.target(Job::Worker, 0).unwrap(), graph.build(), CONNECT_LIMIT).unwrap();
    for _ in 0..3 {
        let joined = within(AT_ONCE, "a short step that needs a thread", || {
            session.run(&[("half", &text("ab"))], &["whole:0"], &[], &RemoteRunOptions::default()).unwrap()
        });
        assert_eq!(joined.0, [text("abab")]);
    }
    clients.end();
}

#[test]
fn a_training_on_the_same_ps_goes_on() {
    // Less than the steps of the others take: a task that computed was taken for dead.
    let cluster = Cluster::start_ours(1, 1, &["--peer-timeout=2"]).unwrap();
    let clients = Clients::start(&cluster, &Arc::new(regex()), 2);
    let scalar = AttrValue { value: Some(Value::Shape(TensorShapeProto::default())) };
    let graph = GraphBuilder::new()
        .node("v", "VariableV2", &[], &[("dtype", DType::Float.into()), ("shape", scalar.into())])
        .on(PS)
        .constant("zero", 0.0f32)
        .on(PS)
        .typed("init", "Assign", &["v", "zero"], DType::Float)
        .on(PS)
        .placeholder("gradient", DType::Float)
        .on("/job:worker/task:0")
        .typed("train", "AssignAdd", &["v", "gradient"], DType::Float)
        .on(PS);
    let session = connect(&cluster.target(Job::Worker, 0).unwrap(), graph.build(), CONNECT_LIMIT).unwrap();
    run(&session, "init").unwrap();
    let (begin, mut steps) = (Instant::now(), 0.0f32);
    while begin.elapsed() < Duration::from_secs(8) {
        let one = Tensor::scalar(1.0f32);
        let trained = within(AT_ONCE, "a training step", || {
            session.run(&[("gradient", &one)], &["train:0"], &[], &RemoteRunOptions::default()).unwrap()
        });
        steps += 1.0;
        assert_eq!(trained.0, [Tensor::scalar(steps)]);
    }
    clients.end();
}
