//! Stories of placement: what a TensorFlow 2.21 master answered, node by node.

use tensorfleet_core::{Code, DeviceName, NodeId, Result};

use super::place::describe;
use super::testing::{devices, extend, graph, short};
use super::*;
use crate::checked_graph::CheckedGraph;

const CLUSTER: &[&str] = &["ps:0", "ps:1", "worker:0", "worker:1", "worker:2"];

struct Cluster {
    devices: Vec<Device>,
    options: PlaceOptions,
}

fn cluster(names: &[&str], own: &str, allow_soft_placement: bool) -> Cluster {
    let devices = devices(names);
    let own = devices.iter().position(|device| device.text.contains(&own.replace(':', "/replica:0/task:")));
    let preferred_task = Some(devices[own.unwrap()].name.task_name());
    Cluster { devices, options: PlaceOptions { allow_soft_placement, preferred_task } }
}

impl Cluster {
    fn place(&self, checked: &CheckedGraph) -> Result<Vec<DeviceIndex>> {
        place(checked, &self.devices, &[], &self.options)
    }

    /// `name@task` of all nodes, in order.
    fn places(&self, text: &str) -> String {
        let checked = graph(text);
        let placement = self.place(&checked).unwrap();
        self.show(&checked, &placement)
    }

    fn show(&self, checked: &CheckedGraph, placement: &[DeviceIndex]) -> String {
        let nodes = checked.graph().iter();
        let node = |(id, node): (NodeId, &tensorfleet_core::Node)| {
            format!("{}@{}", node.name, short(&self.devices, placement[id.index()]))
        };
        nodes.map(node).collect::<Vec<_>>().join(" ")
    }

    fn refusal(&self, text: &str) -> String {
        let status = self.place(&graph(text)).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        status.message()
    }
}

/// As TensorFlow 1.15.5 was seen to place them, from whichever server.
#[test]
fn without_a_preferred_task_the_first_by_name_is_taken() {
    let mut cluster = cluster(&["worker:1", "ps:0", "worker:0", "ps:1", "chief:0"], "worker:1", true);
    cluster.options.preferred_task = None;
    for (spec, expected) in [
        ("", "chief:0"),
        ("/cpu:0", "chief:0"),
        ("/gpu:0", "chief:0"),
        ("/replica:0", "chief:0"),
        ("/task:0", "chief:0"),
        ("/task:1", "ps:1"),
        ("/job:ps", "ps:0"),
        ("/job:worker", "worker:0"),
        ("/job:worker/gpu:0", "worker:0"),
        ("/job:worker/task:1", "worker:1"),
    ] {
        let placement = cluster.place(&graph(&format!("x = NoOp @ {spec}"))).unwrap();
        assert_eq!(short(&cluster.devices, placement[0]), expected, "{spec}");
    }
}

#[test]
fn every_specification_leads_where_a_real_master_puts_it() {
    let own = [
        "",
        "/",
        "/cpu:0",
        "/device:CPU:0",
        "/device:CPU:*",
        "/device:CPU",
        "/job:*",
        "/task:0",
        "/replica:0",
    ];
    let ps =
        ["/job:ps", "/job:ps/task:0", "/task:0/job:ps", "/job:ps/cpu:*", "/job:ps/replica:0/task:0/cpu:0"];
    let soft_only = ["/device:cpu:0", "/cpu:1", "/gpu:0"];
    let never = ["/replica:1", "/job:nope"];
    for soft in [false, true] {
        let cluster = cluster(&["ps:0", "worker:0"], "worker:0", soft);
        let place = |spec: &str| {
            let checked = graph(&format!("x = NoOp @ {spec}"));
            cluster
                .place(&checked)
                .map(|placement| short(&cluster.devices, placement[0]))
                .map_err(|e| e.code())
        };
        own.iter().for_each(|spec| assert_eq!(place(spec).as_deref(), Ok("worker:0"), "{spec}"));
        ps.iter().for_each(|spec| assert_eq!(place(spec).as_deref(), Ok("ps:0"), "{spec}"));
        for spec in soft_only {
            let expected = if soft { Ok("worker:0".to_string()) } else { Err(Code::InvalidArgument) };
            assert_eq!(place(spec), expected, "{spec}");
        }
        never.iter().for_each(|spec| assert_eq!(place(spec), Err(Code::InvalidArgument), "{spec}"));
    }
}

#[test]
fn the_six_nodes_of_the_device_setter_example_land_as_its_comments_say() {
    let text = "
        v1 = VariableV2 @ /job:ps/task:0
        v2 = VariableV2 @ /job:ps/task:1
        v3 = VariableV2 @ /job:ps/task:0
        r1 = Identity(v1) @ /job:ps/task:0 | _class=loc:@v1
        r2 = Identity(v2) @ /job:ps/task:1 | _class=loc:@v2
        s = AddV2(r1, r2) @ /job:worker
        two = Const @ /job:worker/task:1 | value=2
        p1 = Mul(two, s) @ /job:worker/task:1
        p2 = Mul(two, s) @ /job:worker/task:1/device:CPU:0";
    let expected = "v1@ps:0 v2@ps:1 v3@ps:0 r1@ps:0 r2@ps:1 s@worker:0 two@worker:1 p1@worker:1 p2@worker:1";
    assert_eq!(cluster(CLUSTER, "ps:0", false).places(text), expected);
    // Asked from worker 2, a job without a task means that worker itself.
    let expected = expected.replace("s@worker:0", "s@worker:2");
    assert_eq!(cluster(CLUSTER, "worker:2", false).places(text), expected);
}

#[test]
fn tasks_sort_by_name_as_text() {
    let cluster = cluster(&["worker:2", "worker:10", "ps:0"], "ps:0", false);
    assert_eq!(cluster.places("x = NoOp @ /job:worker"), "x@worker:10");
}

#[test]
fn a_reference_keeps_its_consumers_and_overrules_their_wishes() {
    let cluster = cluster(CLUSTER, "worker:0", false);
    let assign = |variable: &str, consumer: &str| {
        format!("one = Const | value=1\nv = VariableV2 @ {variable}\na = Assign(v, one) @ {consumer}")
    };
    assert_eq!(
        cluster.places(&assign("/job:ps/task:1", "/job:worker/task:1")),
        "one@ps:1 v@ps:1 a@ps:1",
        "an assignment put elsewhere silently goes to the variable"
    );
    assert_eq!(cluster.places(&assign("", "/job:ps/task:1")), "one@ps:1 v@ps:1 a@ps:1");
    assert_eq!(cluster.places(&assign("/job:ps", "/job:ps/task:1")), "one@ps:1 v@ps:1 a@ps:1");
    assert_eq!(cluster.places(&assign("/cpu:0", "/gpu:0")), "one@worker:0 v@worker:0 a@worker:0");
    let text = cluster.refusal(&assign("/job:ps", "/gpu:0"));
    let expected = "Cannot assign a device for operation v: Could not satisfy explicit device specification '/job:ps' \
                    because the node {{colocation_node v}} was colocated with a group of nodes that required \
                    incompatible device '/job:ps/device:GPU:0'.";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn resource_handles_bind_like_references() {
    let text = "
        one = Const @ /job:worker/task:1 | value=1
        v = VarHandleOp @ /job:ps/task:1
        a = AssignVariableOp(v, one) @ /job:worker/task:1
        r = ReadVariableOp(v)";
    let expected = "one@worker:1 v@ps:1 a@ps:1 r@ps:1";
    assert_eq!(cluster(CLUSTER, "worker:0", false).places(text), expected);
}

#[test]
fn groups_share_a_device_even_if_no_node_has_their_name() {
    let text = "
        x = Placeholder
        a = Identity(x) @ /job:ps/task:1 | _class=loc:@ghost
        b = Identity(x) | _class=loc:@ghost
        c = Identity(x) | _class=loc:@b";
    assert_eq!(cluster(CLUSTER, "worker:0", false).places(text), "x@ps:1 a@ps:1 b@ps:1 c@ps:1");
}

#[test]
fn a_group_that_cannot_agree_is_refused_and_soft_placement_ignores_it() {
    let text = "a = Const @ /job:ps | value=1\nb = Identity(a) @ /job:worker | _class=loc:@a";
    assert_eq!(
        cluster(CLUSTER, "worker:0", false).refusal(text).lines().next().unwrap(),
        "Cannot colocate nodes {{colocation_node b}} and {{colocation_node a}}: \
         Cannot merge devices with incompatible jobs: '/job:worker' and '/job:ps'"
    );
    assert_eq!(cluster(CLUSTER, "worker:0", true).places(text), "a@ps:0 b@worker:0");
}

#[test]
fn soft_placement_changes_the_device_but_not_the_task() {
    let text = "v = VariableV2 @ /job:ps/task:1/gpu:0\none = Const | value=1\na = Assign(v, one) @ /cpu:0";
    assert_eq!(cluster(CLUSTER, "worker:0", true).places(text), "v@ps:1 one@ps:1 a@ps:1");
}

#[test]
fn values_from_nothing_go_to_their_consumers() {
    let text = "
        c = Const | value=1
        y = NoOp(^c) @ /job:ps/task:1
        c2 = Const | value=1
        z = AddV2(c2, c2) @ /job:ps/task:1
        c3 = Const(^z) | value=3
        w = Identity(c3) @ /job:ps/task:0
        c4 = Const | value=4
        here = Identity(c4)
        there = Identity(c4) @ /job:ps
        unused = Const | value=5
        fixed = Const @ /job:worker/task:1 | value=6
        user = Identity(fixed) @ /job:ps";
    assert_eq!(
        cluster(CLUSTER, "worker:0", false).places(text),
        "c@ps:1 y@ps:1 c2@ps:1 z@ps:1 c3@ps:0 w@ps:0 c4@worker:0 here@worker:0 there@ps:0 unused@worker:0 \
         fixed@worker:1 user@ps:0"
    );
}

#[test]
fn shapes_are_taken_where_the_tensor_is() {
    let text = "
        zero = Const | value=0
        x = Identity(zero) @ /job:ps/task:1
        s = Shape(x)
        r = Rank(x) @ /cpu:0
        q = Size(x) @ /job:worker/task:1";
    let expected = "zero@ps:1 x@ps:1 s@ps:1 r@ps:1 q@worker:1";
    assert_eq!(cluster(CLUSTER, "worker:0", false).places(text), expected);
}

#[test]
fn state_stays_where_it_is_when_the_graph_grows() {
    let cluster = cluster(CLUSTER, "worker:0", false);
    let mut checked = graph("v = VariableV2");
    let before = cluster.place(&checked).unwrap();
    extend(&mut checked, "r = Identity(v) @ /job:ps/task:1 | _class=loc:@v");
    assert!(cluster.place(&checked).unwrap() != before, "left alone, the variable would follow the new node");
    let fixed: Vec<Option<DeviceIndex>> = before.iter().copied().map(Some).collect();
    let status = place(&checked, &cluster.devices, &fixed, &cluster.options).unwrap_err();
    assert!(status.text().contains("Cannot colocate nodes"), "{status}");
    let mut checked = graph("v = VariableV2");
    extend(&mut checked, "one = Const | value=1\na = Assign(v, one) @ /job:ps/task:1");
    let after = place(&checked, &cluster.devices, &[Some(before[0])], &cluster.options).unwrap();
    assert_eq!(cluster.show(&checked, &after), "v@worker:0 one@worker:0 a@worker:0");
}

#[test]
fn a_device_that_does_not_exist_is_named_together_with_those_that_do() {
    let cluster = cluster(&["worker:0", "ps:0"], "worker:0", false);
    assert_eq!(
        cluster.refusal("x = NoOp @ /job:nope").lines().next().unwrap(),
        "Cannot assign a device for operation x: {{node x}} was explicitly assigned to /job:nope but available \
         devices are [ /job:ps/replica:0/task:0/device:CPU:0, /job:worker/replica:0/task:0/device:CPU:0 ]. Make sure \
         the device specification refers to a valid device."
    );
}

#[test]
fn a_foreign_gpu_must_be_asked_for_by_task() {
    let mut cluster = cluster(&["ps:0", "worker:0"], "ps:0", true);
    let gpu = "/job:worker/replica:0/task:0/device:GPU:0".parse::<DeviceName>().unwrap();
    cluster.devices.push(Device::new(gpu, 9));
    let at = |spec: &str| {
        let placement = cluster.place(&graph(&format!("x = NoOp @ {spec}"))).unwrap();
        placement[0].index()
    };
    assert_eq!(at("/job:worker/task:0/gpu:0"), 2);
    assert_eq!(at("/job:worker/task:0"), 1);
    assert_eq!(at("/gpu:0"), 0, "soft placement prefers the own CPU to somebody else's GPU");
}

#[test]
fn the_log_lists_nodes_in_the_order_they_are_placed() {
    let cluster = cluster(&["ps:0", "worker:0"], "worker:0", false);
    let checked = graph("c = Const | value=1\ni = Identity(c) @ /job:ps\nn = NoOp(^i)");
    let placement = cluster.place(&checked).unwrap();
    let lines: Vec<String> = describe(&checked, &placement, &cluster.devices).collect();
    assert_eq!(
        lines,
        [
            "i: (Identity): /job:ps/replica:0/task:0/device:CPU:0",
            "n: (NoOp): /job:worker/replica:0/task:0/device:CPU:0",
            "c: (Const): /job:ps/replica:0/task:0/device:CPU:0",
        ]
    );
}

#[test]
fn a_hundred_thousand_nodes_are_placed() {
    let mut text = String::from("v = VariableV2 @ /job:ps/task:1\nx0 = Identity(v)\n");
    for i in 1..100_000 {
        let device = ["/job:worker/task:1", "/job:ps", "", "/cpu:0"][i % 4];
        text += &format!("x{i} = Identity(x{}) @ {device} | _class=loc:@g{}\n", i - 1, i % 4);
    }
    let cluster = cluster(CLUSTER, "worker:0", false);
    let checked = graph(&text);
    let started = std::time::Instant::now();
    let placement = cluster.place(&checked).unwrap();
    eprintln!("placed {} nodes in {:?}", placement.len(), started.elapsed());
    assert_eq!(short(&cluster.devices, placement[99_997]), "worker:1");
}
