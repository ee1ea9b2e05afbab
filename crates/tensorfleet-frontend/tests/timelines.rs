//! Timelines of traced runs: what they show of a cluster, and that no statistics can break them.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tensorfleet::{ClusterSpec, Graph, Server, ServerOptions, Session, StepStats, Timeline};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::{
    AllocationDescription, DeviceStepStats, NodeExecStats, NodeOutput, TensorDescription,
};

/// A parameter server and a worker in this process, on free ports.
fn cluster() -> Vec<Server> {
    // Held until all ports are known, so that they differ.
    let held: Vec<_> = (0..2).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let address = |index: usize| held[index].local_addr().unwrap().to_string();
    let spec = ClusterSpec::new([("ps", vec![address(0)]), ("worker", vec![address(1)])]).unwrap();
    drop(held);
    let start = |(job, index, _): (&str, u32, &str)| {
        let options = ServerOptions::new(spec.clone(), job, index);
        Server::start(ServerOptions { bind: Some("127.0.0.1".into()), ..options }).unwrap()
    };
    spec.tasks().map(start).collect()
}

fn events(timeline: &Timeline) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&timeline.chrome_trace()).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == kind).collect()
}

fn number(event: &Value, field: &str) -> i64 {
    event[field].as_i64().unwrap_or_else(|| panic!("{event} has no number {field}"))
}

/// No two regions of a lane overlap.
fn assert_lanes_are_exclusive(events: &[Value]) {
    let mut lanes: BTreeMap<(i64, i64), Vec<(i64, i64)>> = BTreeMap::new();
    for region in of_kind(events, "X") {
        let (start, length) = (number(region, "ts"), number(region, "dur"));
        assert!(length >= 0, "{region}");
        let lane = (number(region, "pid"), number(region, "tid"));
        lanes.entry(lane).or_default().push((start, start + length));
    }
    for (lane, mut regions) in lanes {
        regions.sort();
        assert!(regions.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{lane:?}: {regions:?}");
    }
}

#[test]
fn two_tasks_are_shown_with_every_node_once_and_arrows_between_them() {
    let servers = cluster();
    let g = Graph::new();
    let v = g.device("/job:ps/task:0", || g.variable("v", [[1.0f32, 2.0], [3.0, 4.0]]));
    let sum = g.device("/job:worker/task:0", || v.value().matmul(&v).unwrap().reduce_sum(..)).unwrap();
    let session = Session::connect(&servers[1].target(), &g).unwrap();
    session.run(v.initializer()).unwrap();
    let (_, metadata) = session.step().run_traced(&sum).unwrap();

    let events = events(&Timeline::new(&metadata));
    let processes: BTreeMap<i64, &str> = of_kind(&events, "M")
        .into_iter()
        .map(|event| (number(event, "pid"), event["args"]["name"].as_str().unwrap()))
        .collect();
    let expected: BTreeSet<String> = ["ps", "worker"]
        .iter()
        .flat_map(|job| {
            ["Compute", "Tensors"].map(|kind| format!("/job:{job}/replica:0/task:0/device:CPU:0 {kind}"))
        })
        .chain(["Allocators".to_string()])
        .collect();
    assert_eq!(processes.values().map(|name| name.to_string()).collect::<BTreeSet<_>>(), expected);

    let regions = of_kind(&events, "X");
    let place = |name: &str| -> Vec<(&str, &str)> {
        let named = regions.iter().filter(|region| region["args"]["name"] == name);
        named.map(|region| (processes[&number(region, "pid")], region["name"].as_str().unwrap())).collect()
    };
    let (ps, worker) = (
        "/job:ps/replica:0/task:0/device:CPU:0 Compute",
        "/job:worker/replica:0/task:0/device:CPU:0 Compute",
    );
    assert_eq!(place("v"), [(ps, "VariableV2")]);
    assert_eq!(place("v/read"), [(ps, "Identity")]);
    assert_eq!(place("MatMul"), [(worker, "MatMul")]);
    assert_eq!(place("Sum"), [(worker, "Sum")]);
    assert_eq!(place("RecvTensor"), [(worker, "RecvTensor")]);
    assert_lanes_are_exclusive(&events);

    // An arrow has two ends of one number, the first at the producer.
    let starts = of_kind(&events, "s");
    let ends = of_kind(&events, "t");
    assert_eq!(starts.len(), ends.len());
    let across: Vec<_> = starts
        .iter()
        .zip(&ends)
        .filter(|(start, end)| start["id"] == end["id"] && start["pid"] != end["pid"])
        .collect();
    assert!(!across.is_empty(), "{events:#?}");
    for (start, end) in across {
        assert_eq!((start["name"].as_str(), processes[&number(start, "pid")]), (Some("v/read"), ps));
        assert_eq!(processes[&number(end, "pid")], worker);
    }
    assert!(of_kind(&events, "C").iter().any(|counter| number(&counter["args"], "cpu") >= 16));
}

fn node(name: &str, label: &str, start: i64, length: i64) -> NodeExecStats {
    NodeExecStats {
        node_name: name.to_string(),
        timeline_label: label.to_string(),
        all_start_micros: start,
        all_end_rel_micros: length,
        ..Default::default()
    }
}

fn output(bytes: i64) -> NodeOutput {
    let allocation =
        AllocationDescription { requested_bytes: bytes, allocator_name: "cpu".into(), ..Default::default() };
    let tensor =
        TensorDescription { dtype: 1, allocation_description: Some(allocation), ..Default::default() };
    NodeOutput { tensor_description: Some(tensor), ..Default::default() }
}

fn stats(devices: Vec<(&str, Vec<NodeExecStats>)>) -> StepStats {
    let device = |(device, node_stats): (&str, Vec<NodeExecStats>)| DeviceStepStats {
        device: device.to_string(),
        node_stats,
        ..Default::default()
    };
    StepStats { dev_stats: devices.into_iter().map(device).collect() }
}

#[test]
fn memory_counts_from_the_start_of_the_producer_to_the_last_use() {
    let a = NodeExecStats { output: vec![output(100)], ..node("a", "a = Const()", 10, 5) };
    let b = NodeExecStats { output: vec![output(8)], ..node("b", "b = Neg(a)", 20, 5) };
    let events = events(&Timeline::from_step_stats(&stats(vec![("/cpu:0", vec![a, b])])));
    let counted: Vec<(i64, i64)> = of_kind(&events, "C")
        .into_iter()
        .map(|counter| (number(counter, "ts"), number(&counter["args"], "cpu")))
        .collect();
    assert_eq!(counted, [(10, 100), (20, 108), (25, 100), (25, 0)]);
    // Producer and consumer share a lane: no arrow is needed.
    assert!(of_kind(&events, "s").is_empty());
}

#[test]
fn names_of_receiving_nodes_lead_to_the_producer() {
    for input in ["w/_7", "w_S7", "w"] {
        let w = NodeExecStats { output: vec![output(4)], ..node("w", "w = VariableV2()", 10, 5) };
        let label = format!("y = Neg({input})");
        let all = stats(vec![("/job:ps", vec![w]), ("/job:worker", vec![node("y", &label, 30, 2)])]);
        let events = events(&Timeline::from_step_stats(&all));
        let (from, to) = (of_kind(&events, "s"), of_kind(&events, "t"));
        assert_eq!((from.len(), to.len()), (1, 1), "{input}");
        assert_eq!((number(from[0], "ts"), number(to[0], "ts")), (15, 30));
    }
}

#[test]
fn odd_statistics_are_shown_as_far_as_they_make_sense() {
    let nodes = vec![
        node("negative", "", -5, 3),
        node("backwards", "backwards = Op()", 5, -1),
        node("far", "far = Op(far, nowhere, )", i64::MAX, i64::MAX),
        node("quote\"\n\u{1}\\", "no label = ((", 1, 1),
        NodeExecStats { output: vec![output(i64::MIN), NodeOutput::default()], ..node("", " = ()", 0, 0) },
    ];
    let events = events(&Timeline::from_step_stats(&stats(vec![("\"dev\\ice\"", nodes)])));
    let names: BTreeSet<&str> =
        of_kind(&events, "X").into_iter().map(|region| region["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["", "far", "quote\"\n\u{1}\\"]));
    assert!(Timeline::new(&Default::default()).chrome_trace().contains("traceEvents"));
}

/// Statistics of a real run with bytes damaged; what still can be decoded must be shown without a panic.
#[test]
fn damaged_statistics_never_break_the_timeline() {
    let g = Graph::new();
    let x = g.constant([1.0f32, 2.0, 3.0]);
    let y = (&x * &x + 1.0).reduce_sum(..).unwrap();
    let (_, metadata) = Session::new(&g).step().run_traced(&y).unwrap();
    let bytes = metadata.step_stats.unwrap().encode_to_vec();
    let mut seed = 7u64;
    let mut random = |bound: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % bound
    };
    let mut shown = 0;
    for _ in 0..2000 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + random(3) {
            let at = random(damaged.len());
            damaged[at] = random(256) as u8;
        }
        if let Ok(stats) = StepStats::decode(&damaged[..]) {
            let trace = Timeline::from_step_stats(&stats).chrome_trace();
            assert!(serde_json::from_str::<Value>(&trace).is_ok());
            shown += 1;
        }
    }
    assert!(shown > 100, "{shown}");
}
