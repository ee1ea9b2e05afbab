//! Graphs that ask for more memory than there is, or nest deeper than a stack is, sent to real servers: each is refused with an
//! error that says so, the server goes on with its variables, and what the graph took comes back.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use tensorfleet_cluster::{ConnectOptions, RemoteRunOptions, RemoteSession, reset};
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{Code, DType, PartialShape, Result, Status, Tensor};
use tensorfleet_proto::tensorflow::op_def::ArgDef;
use tensorfleet_proto::tensorflow::{
    AttrValue, FunctionDef, FunctionDefLibrary, GraphDef, NameAttrList, NodeDef, OpDef,
};
use tensorfleet_tests::cluster::{Cluster, Job, Server};
use tensorfleet_tests::graph_builder::GraphBuilder;
use tensorfleet_tests::stuck::eventually;

/// What an operator gives a process that shares its machine.
const ADDRESS_SPACE: u64 = 4_000_000_000;
/// For graphs that grow in small steps: the limit is soon reached.
const SMALL_LIMIT: &str = "--max-memory-mb=128";
/// How long any of these graphs may take to be refused, on a busy machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// How long what a graph took may stay.
const RETURN_LIMIT: Duration = Duration::from_secs(30);
/// Where queues live that a test clears.
const CONTAINER: &str = "hostile";

/// A server with a variable on it.
struct Victim {
    cluster: Cluster,
    pid: u32,
    memory: u64,
}

fn variable() -> GraphBuilder {
    let shape = AttrValue {
        value: Some(tensorfleet_proto::tensorflow::attr_value::Value::Shape(Default::default())),
    };
    let attrs = [("dtype", DType::Float.into()), ("shape", shape.into()), ("shared_name", "precious".into())];
    GraphBuilder::new()
        .node("v", "VariableV2", &[], &attrs)
        .constant("forty_two", 42.0f32)
        .typed("set", "Assign", &["v", "forty_two"], DType::Float)
        .typed("read", "Identity", &["v"], DType::Float)
}

impl Victim {
    fn new(cluster: Cluster) -> Victim {
        let session = connect(&cluster, variable().build()).unwrap();
        session.run(&[], &[], &["set"], &options()).unwrap();
        drop(session);
        let pid = cluster.pid(Job::Ps, 0).unwrap();
        let mut victim = Victim { cluster, pid, memory: 0 };
        victim.memory = victim.memory();
        victim
    }

    fn with_address_space() -> Victim {
        Victim::new(Cluster::start(&[Server::WithAddressSpace(ADDRESS_SPACE)], &[]).unwrap())
    }

    fn with_small_limit() -> Victim {
        Victim::new(Cluster::start_ours(1, 0, &[SMALL_LIMIT]).unwrap())
    }

    fn target(&self) -> String {
        self.cluster.target(Job::Ps, 0).unwrap()
    }

    /// What the server says that it uses.
    fn memory(&self) -> u64 {
        self.cluster.status(Job::Ps, 0).unwrap().memory_bytes
    }

    /// Runs a hostile graph, which must end with `code`, and looks what is left of it.
    #[track_caller]
    fn survives(&self, what: &str, graph: GraphDef, fetch: &str, code: Code) -> Status {
        let begin = Instant::now();
        let outcome = connect(&self.cluster, graph)
            .and_then(|session| session.run(&[], &[fetch], &[], &options()).map(drop));
        let status = outcome.expect_err(what);
        assert_eq!(status.code(), code, "{what}: {status}");
        println!("{what}: refused after {:?}: {}", begin.elapsed(), status.text());
        self.is_well(what);
        status
    }

    /// The same process answers, has its variable, and uses what it used before.
    #[track_caller]
    fn is_well(&self, what: &str) {
        assert_eq!(self.cluster.pid(Job::Ps, 0), Some(self.pid), "{what}: {}", self.cluster.logs());
        eventually(what, RETURN_LIMIT, || {
            let session = connect(&self.cluster, variable().build()).map_err(|status| status.to_string())?;
            let values = session.run(&[], &["read"], &[], &options()).map_err(|status| status.to_string())?.0;
            drop(session);
            assert_eq!(values[0].to_scalar::<f32>().unwrap(), 42.0, "{what}");
            let (before, after) = (self.memory, self.memory());
            if after <= before + (1 << 20) {
                return Ok(());
            }
            Err(format!("{after} bytes are in use, before it were {before}"))
        });
    }

    /// Bytes of pages that the process has touched.
    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }
}

fn connect(cluster: &Cluster, graph: GraphDef) -> Result<RemoteSession> {
    let options = ConnectOptions { timeout: ANSWER_LIMIT, ..ConnectOptions::default() };
    RemoteSession::create(&cluster.target(Job::Ps, 0).unwrap(), graph, options)
}

fn options() -> RemoteRunOptions {
    RemoteRunOptions { timeout: Some(ANSWER_LIMIT), ..RemoteRunOptions::default() }
}

type Attrs<'a> = Vec<(&'a str, AttrValue)>;

fn node(name: &str, op: &str, inputs: &str, attrs: Attrs<'_>) -> NodeDef {
    let input = inputs.split_whitespace().map(str::to_string).collect();
    let attr = attrs.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
    NodeDef { name: name.into(), op: op.into(), input, attr, ..Default::default() }
}

fn constant(name: &str, value: impl Into<Tensor>) -> NodeDef {
    let value = value.into();
    node(name, "Const", "", vec![("dtype", value.dtype().into_attr()), ("value", value.into_attr())])
}

fn typed(name: &str, op: &str, inputs: &str, dtype: DType) -> NodeDef {
    node(name, op, inputs, vec![("T", dtype.into_attr())])
}

fn function_attr(name: &str) -> AttrValue {
    NameAttrList { name: name.into(), ..Default::default() }.into_attr()
}

/// A function; arguments and results are `name`, dtype, and for results the source.
fn function(
    name: &str,
    arguments: &[(&str, DType)],
    results: &[(&str, DType, &str)],
    nodes: Vec<NodeDef>,
) -> FunctionDef {
    let arg =
        |name: &str, dtype: DType| ArgDef { name: name.into(), r#type: dtype.number(), ..Default::default() };
    FunctionDef {
        signature: Some(OpDef {
            name: name.into(),
            input_arg: arguments.iter().map(|&(name, dtype)| arg(name, dtype)).collect(),
            output_arg: results.iter().map(|&(name, dtype, _)| arg(name, dtype)).collect(),
            ..Default::default()
        }),
        node_def: nodes,
        ret: results.iter().map(|&(name, _, source)| (name.to_string(), source.to_string())).collect(),
        ..Default::default()
    }
}

/// A loop of `count` iterations over `x`, which `body` makes `x` of the next iteration from (`source`); `before` are nodes outside,
/// one of which is called `first` and gives the first `x`.
fn loop_over(dtype: DType, count: i64, before: Vec<NodeDef>, body: Vec<NodeDef>, source: &str) -> GraphDef {
    let arguments = [("i", DType::Int64), ("x", dtype)];
    let condition = function(
        "condition",
        &arguments,
        &[("goes_on", DType::Bool, "less:z:0")],
        vec![constant("count", count), typed("less", "Less", "i count:output:0", DType::Int64)],
    );
    let mut nodes = vec![constant("one", 1i64), typed("next", "AddV2", "i one:output:0", DType::Int64)];
    nodes.extend(body);
    let results = [("i_next", DType::Int64, "next:z:0"), ("x_next", dtype, source)];
    let body = function("body", &arguments, &results, nodes);
    let mut nodes = before;
    nodes.push(constant("zero", 0i64));
    let attrs = vec![
        ("T", vec![DType::Int64, dtype].into_attr()),
        ("cond", function_attr("condition")),
        ("body", function_attr("body")),
        ("parallel_iterations", 10i64.into_attr()),
    ];
    nodes.push(node("loop", "While", "zero first", attrs));
    let library = FunctionDefLibrary { function: vec![condition, body], ..Default::default() };
    GraphDef { node: nodes, library: Some(library), ..Default::default() }
}

const FOR_EVER: i64 = i64::MAX;

/// Attributes of all datasets of numbers.
fn of_numbers() -> Attrs<'static> {
    vec![
        ("output_types", vec![DType::Int64].into_attr()),
        ("output_shapes", vec![PartialShape::scalar()].into_attr()),
    ]
}

fn range(name: &str, count: i64) -> Vec<NodeDef> {
    let part = |part: &str| format!("{name}_{part}");
    let inputs = ["start", "stop", "step"].map(part).join(" ");
    vec![
        constant(&part("start"), 0i64),
        constant(&part("stop"), count),
        constant(&part("step"), 1i64),
        node(name, "RangeDataset", &inputs, of_numbers()),
    ]
}

#[test]
fn no_graph_ends_a_server_under_a_limit_of_address_space() {
    let victim = Victim::with_address_space();

    let join = vec![node("join", "StringJoin", "x x", vec![("N", 2i64.into_attr())])];
    let doubling = loop_over(DType::String, 45, vec![constant("first", "x")], join, "join:output:0");
    victim.survives("a string that doubles 45 times", doubling, "loop:1", Code::ResourceExhausted);

    let megabyte = || Tensor::string(vec![b'a'; 1 << 20]);
    let joined = GraphBuilder::new()
        .constant("text", megabyte())
        .constant("dims", Tensor::vector(&[1i32 << 20]).unwrap())
        .typed("many", "Fill", &["dims", "text"], DType::String)
        .constant("axis", 0i32)
        .node("joined", "ReduceJoin", &["many", "axis"], &[])
        .build();
    victim.survives("a terabyte in one string", joined, "joined", Code::ResourceExhausted);

    let replaced = GraphBuilder::new()
        .constant("text", megabyte())
        .constant("pattern", "a")
        .constant("rewrite", megabyte())
        .node("replaced", "RegexReplace", &["text", "pattern", "rewrite"], &[])
        .build();
    victim.survives("a million replacements of a megabyte", replaced, "replaced", Code::ResourceExhausted);

    let double = |level: usize| {
        let callee = format!("level{}", level + 1);
        let nodes = vec![node("a", &callee, "x", vec![]), node("b", &callee, "a:out:0", vec![])];
        let (name, x) = (format!("level{level}"), [("x", DType::Int32)]);
        function(&name, &x, &[("out", DType::Int32, "b:out:0")], nodes)
    };
    let mut functions: Vec<FunctionDef> = (0..40).map(double).collect();
    let last = vec![typed("n", "Neg", "x", DType::Int32)];
    functions.push(function("level40", &[("x", DType::Int32)], &[("out", DType::Int32, "n:y:0")], last));
    let library = FunctionDefLibrary { function: functions, ..Default::default() };
    let nodes = vec![constant("x", 1i32), node("call", "level0", "x", vec![])];
    let graph = GraphDef { node: nodes, library: Some(library), ..Default::default() };
    let begin = Instant::now();
    let status =
        victim.survives("forty functions that call the next twice", graph, "call", Code::ResourceExhausted);
    assert!(status.text().contains("nodes") && begin.elapsed() < Duration::from_secs(20), "{status}");

    // Rows of no elements take no bytes, but a million of them a time are elements all the same.
    let rows = GraphBuilder::new()
        .node("queue", "FIFOQueueV2", &[], &queue_attrs(PartialShape::unknown()))
        .constant("dims", Tensor::vector(&[1i64 << 20, 0]).unwrap())
        .constant("nothing", 0i64)
        .node(
            "rows",
            "Fill",
            &["dims", "nothing"],
            &[("T", DType::Int64.into()), ("index_type", DType::Int64.into())],
        )
        .build();
    victim.fills_a_queue("a queue of empty rows", rows);

    assert!(victim.resident_bytes() < 1_500_000_000, "{} bytes stay", victim.resident_bytes());
}

fn queue_attrs(shape: PartialShape) -> Vec<(&'static str, tensorfleet_tests::graph_builder::Attr)> {
    vec![
        ("component_types", vec![DType::Int64].into()),
        ("shapes", if shape.rank().is_some() { vec![shape] } else { Vec::new() }.into()),
        ("capacity", (-1i64).into()),
        ("container", CONTAINER.into()),
        ("shared_name", "endless".into()),
    ]
}

impl Victim {
    /// Enqueues `rows` until that is refused; then the queue is thrown away.
    #[track_caller]
    fn fills_a_queue(&self, what: &str, mut graph: GraphDef) {
        let types = vec![("Tcomponents", vec![DType::Int64].into_attr())];
        graph.node.push(node("put", "QueueEnqueueManyV2", "queue rows", types));
        graph.node.push(node("size", "QueueSizeV2", "queue", vec![]));
        let session = connect(&self.cluster, graph).unwrap();
        let status = (0..10_000)
            .find_map(|_| session.run(&[], &[], &["put"], &options()).err())
            .expect("a queue without end is refused at some time");
        assert_eq!(status.code(), Code::ResourceExhausted, "{what}: {status}");
        // Who only looks, or takes something out, is not stopped by a queue that is full; nor is another client.
        let size = session.run(&[], &["size"], &[], &options()).unwrap().0;
        let other = connect(&self.cluster, variable().build()).unwrap();
        assert_eq!(
            other.run(&[], &["read"], &[], &options()).unwrap().0[0].to_scalar::<f32>().unwrap(),
            42.0
        );
        println!("{what}: refused at {:?} elements: {}", size[0], status.text());
        drop(session);
        reset(&self.target(), &[CONTAINER], &[], ANSWER_LIMIT).unwrap();
        self.is_well(what);
    }
}

#[test]
fn what_small_values_take_is_counted_where_they_are_kept() {
    let victim = Victim::with_small_limit();

    let rows = GraphBuilder::new()
        .node("queue", "FIFOQueueV2", &[], &queue_attrs(PartialShape::scalar()))
        .constant("rows", Tensor::vector(&[7i64; 10_000]).unwrap())
        .build();
    victim.fills_a_queue("a queue of numbers", rows);

    // A shape of many dimensions is a small value that takes much: the limit is reached in fewer steps.
    let wide = || Tensor::from_slice(&[7i64], &[1; 200]).unwrap();
    let list_attrs = || vec![("element_dtype", DType::Int64.into_attr())];
    let mut before = vec![constant("shape", -1i32), constant("none", -1i32)];
    let mut reserve = list_attrs();
    reserve.push(("shape_type", DType::Int32.into_attr()));
    before.push(node("first", "EmptyTensorList", "shape none", reserve));
    let push =
        vec![constant("wide", wide()), node("push", "TensorListPushBack", "x wide:output:0", list_attrs())];
    let list = loop_over(DType::Variant, FOR_EVER, before, push, "push:output_handle:0");
    victim.survives("a list that grows for ever", list, "loop:0", Code::ResourceExhausted);

    let mut endless = range("range", 1 << 50);
    endless.extend([
        constant("buffer", 1i64 << 50),
        constant("seed", 1i64),
        node("shuffled", "ShuffleDataset", "range buffer seed seed", of_numbers()),
    ]);
    victim.survives(
        "a shuffle buffer without end",
        iterated(endless, "shuffled"),
        "element",
        Code::ResourceExhausted,
    );

    let mut endless = range("range", 1 << 50);
    endless
        .extend([constant("size", 1i64 << 50), node("batched", "BatchDataset", "range size", of_numbers())]);
    victim.survives("a batch without end", iterated(endless, "batched"), "element", Code::ResourceExhausted);

    let session = connect(&victim.cluster, GraphDef::default()).unwrap();
    let more = |round: usize| {
        let nodes = (0..2000).map(|index| constant(&format!("node_{round}_{index}"), 1.0f32));
        GraphDef { node: nodes.collect(), ..Default::default() }
    };
    let status = (0..1000).find_map(|round| session.extend(more(round)).err()).expect("graphs have an end");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    drop(session);
    victim.is_well("a graph that is extended again and again");
}

/// A graph whose `element` is the next of a dataset.
fn iterated(mut nodes: Vec<NodeDef>, dataset: &str) -> GraphDef {
    let mut attrs = of_numbers();
    attrs.push(("container", "".into_attr()));
    attrs.push(("shared_name", "".into_attr()));
    nodes.push(node("iterator", "IteratorV2", "", attrs));
    nodes.push(node("make", "MakeIterator", &format!("{dataset} iterator"), vec![]));
    nodes.push(node("element", "IteratorGetNext", "iterator ^make", of_numbers()));
    GraphDef { node: nodes, ..Default::default() }
}

#[test]
fn datasets_that_are_nested_too_deeply_are_refused_by_a_server_that_goes_on() {
    let victim = Victim::with_small_limit();
    let nested = |op: &str, inputs: &str, count: i64| {
        let mut before = range("first", 10);
        before.push(constant("argument", 1i64));
        let body = vec![constant("number", 1i64), node("deeper", op, inputs, of_numbers())];
        loop_over(DType::Variant, count, before, body, "deeper:handle:0")
    };
    let taken = |graph: GraphDef| {
        let mut taken = iterated(graph.node, "loop:1");
        taken.library = graph.library;
        taken
    };
    for op in ["SkipDataset", "RepeatDataset", "PrefetchDataset", "TakeDataset"] {
        let what = format!("200 000 {op}s, one in the other");
        let graph = nested(op, "x number:output:0", 200_000);
        let status = victim.survives(&what, taken(graph), "element", Code::InvalidArgument);
        assert!(status.text().contains("1000"), "{status}");
        // Built and dropped, never walked along.
        let graph = nested(op, "x number:output:0", 200_000);
        victim.survives(&what, graph, "loop:0", Code::InvalidArgument);
    }
    let graph = nested("ConcatenateDataset", "x x", 200_000);
    victim.survives("a dataset with itself behind it", taken(graph), "element", Code::ResourceExhausted);

    // Plain nodes nest as well as a loop does.
    let mut nodes = range("d0", 10);
    nodes.push(constant("number", 1i64));
    for level in 1..=5000 {
        nodes.push(node(
            &format!("d{level}"),
            "SkipDataset",
            &format!("d{} number", level - 1),
            of_numbers(),
        ));
    }
    victim.survives("5000 nodes", iterated(nodes, "d5000"), "element", Code::InvalidArgument);
}
