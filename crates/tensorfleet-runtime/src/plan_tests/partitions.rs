//! Stories of partitions: what each task gets, and that running them gives what the whole graph gives.

use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{Code, Node, Tensor};

use super::fleet::{Fleet, run_whole, signature};
use crate::plan::testing::{graph, show};
use crate::plan::*;

/// The graph of a recorded session of two tasks: a variable and its updates on ps, the rest on worker.
const TWO_TASKS: &str = "
    v/initial_value = Const @ /job:ps/task:0 | value=1
    v = VariableV2 @ /job:ps/task:0
    v/Assign = Assign(v, v/initial_value) @ /job:ps/task:0 | _class=loc:@v
    v/read = Identity(v) @ /job:ps/task:0 | _class=loc:@v
    names = Const @ /job:ps/task:0 | value=7
    x = Placeholder @ /job:worker/task:0
    y = AddV2(v/read, x) @ /job:worker/task:0
    n2 = Identity(names) @ /job:worker/task:0
    upd = AssignAdd(v, x) @ /job:ps/task:0 | _class=loc:@v
    done = NoOp(^upd) @ /job:worker/task:0
    init = NoOp(^v/Assign) @ /job:ps/task:0";

fn fleet() -> Fleet {
    Fleet::new(&["worker:0", "ps:0"])
}

fn shown(plan: &StepPlan) -> Vec<(usize, Vec<String>)> {
    plan.partitions.iter().map(|partition| (partition.device.index(), show(&partition.graph))).collect()
}

fn attr<A: FromAttr>(node: &Node, name: &str) -> A {
    A::from_attr(&node.attrs[name]).unwrap()
}

fn find<'a>(plan: &'a StepPlan, op: &str) -> Vec<&'a Node> {
    let nodes = plan.partitions.iter().flat_map(|partition| partition.graph.nodes());
    nodes.filter(|node| &*node.op == op).collect()
}

#[test]
fn a_step_of_one_task_is_one_partition_without_transfers() {
    let plan = fleet().plan(&graph(TWO_TASKS), &signature("", "", "init"), false).unwrap();
    let expected = [
        "v/initial_value = Const()",
        "v = VariableV2()",
        "v/Assign = Assign(v, v/initial_value)",
        "init = NoOp(^v/Assign)",
    ];
    assert_eq!(shown(&plan), [(1, expected.map(str::to_string).to_vec())]);
    assert_eq!(
        &*plan.partitions[0].graph.nodes()[0].device,
        "/job:ps/replica:0/task:0/device:CPU:0",
        "nodes carry the full name of their device"
    );
}

#[test]
fn data_crosses_in_pairs_and_feeds_and_fetches_stay_where_they_are_used_and_made() {
    let plan = fleet().plan(&graph(TWO_TASKS), &signature("x:0", "y:0 n2", ""), false).unwrap();
    let ps = [
        "v = VariableV2()",
        "v/read = Identity(v)",
        "names = Const()",
        "v/read_S1 = _Send(v/read)",
        "names_S4 = _Send(names)",
    ];
    let worker = [
        "y = AddV2(v/read_S2, _recv_x_0)",
        "n2 = Identity(names_S5)",
        "v/read_S2 = _Recv()",
        "_recv_x_0 = _Recv()",
        "names_S5 = _Recv()",
        "_send_y_0 = _Send(y)",
        "_send_n2_0 = _Send(n2)",
    ];
    let expected = [(1, ps.map(str::to_string).to_vec()), (0, worker.map(str::to_string).to_vec())];
    assert_eq!(shown(&plan), expected);
    let device = "/job:worker/replica:0/task:0/device:CPU:0";
    let key = |name: &str| format!("{device};0000000000000001;{device};{name};0:0").parse().unwrap();
    let worker = &plan.partitions[1];
    assert_eq!(worker.feeds, [(0, key("x:0"))]);
    assert_eq!(worker.fetches, [(0, key("y:0")), (1, key("n2:0"))]);
    let send = find(&plan, "_Send")[0];
    assert_eq!(attr::<String>(send, "tensor_name"), "edge_0_v/read");
    assert_eq!(attr::<String>(send, "send_device"), "/job:ps/replica:0/task:0/device:CPU:0");
    assert_eq!(attr::<String>(send, "recv_device"), device);
    assert_eq!(attr::<i64>(send, "send_device_incarnation"), 2);
    assert!(!attr::<bool>(send, "client_terminated"));
}

#[test]
fn a_control_edge_sends_an_empty_tensor() {
    let plan = fleet().plan(&graph(TWO_TASKS), &signature("x", "", "done"), false).unwrap();
    let ps = [
        "v = VariableV2()",
        "upd = AssignAdd(v, _recv_x_0)",
        "_recv_x_0 = _Recv()",
        "upd/ctrl_S0 = Const(^upd)",
        "upd_S2 = _Send(upd/ctrl_S0)",
    ];
    let worker = ["done = NoOp(^upd_S4)", "upd_S3 = _Recv()", "upd_S4 = Identity(upd_S3)"];
    let expected = [(1, ps.map(str::to_string).to_vec()), (0, worker.map(str::to_string).to_vec())];
    assert_eq!(shown(&plan), expected);
    let feeds = &plan.partitions[0].feeds;
    assert!(feeds[0].1.to_string().ends_with(";x:0;0:0"), "x and x:0 are one tensor: {feeds:?}");
}

#[test]
fn state_lives_with_its_task_from_step_to_step() {
    let mut fleet = fleet();
    let checked = graph(TWO_TASKS);
    let two = [Tensor::scalar(2.0f32)];
    let uninitialized = fleet.run(&checked, &signature("x", "y", ""), &two, false).unwrap_err();
    assert_eq!(uninitialized.code(), Code::FailedPrecondition, "{uninitialized}");
    fleet.run(&checked, &signature("", "", "init"), &[], false).unwrap();
    fleet.run(&checked, &signature("x", "", "done"), &two, false).unwrap();
    let results = fleet.run(&checked, &signature("x", "y v n2 y", "done"), &two, false).unwrap();
    assert_eq!(results[2..], [Some(Tensor::scalar(7.0f32)), results[0].clone()]);
    let results = fleet.run(&checked, &signature("x", "y", ""), &two, false).unwrap();
    assert_eq!(results, [Some(Tensor::scalar(7.0f32))]);
}

#[test]
fn consumers_on_one_device_share_a_pair_but_not_those_of_a_reference() {
    let text = "
        v = VariableV2 @ /job:ps
        a = Const @ /job:ps | value=1
        b = AddV2(a, a) @ /job:worker
        c = AddV2(a, b) @ /job:worker
        d = AddV2(v, v) @ /job:worker
        e = NoOp(^a, ^v) @ /job:worker
        f = NoOp(^a, ^e) @ /job:worker";
    let plan = fleet().plan(&graph(text), &signature("", "", "c"), false).unwrap();
    assert_eq!(find(&plan, "_Recv").len(), 1);
    let plan = fleet().plan(&graph(text), &signature("", "", "d"), false).unwrap();
    assert_eq!(find(&plan, "_Recv").len(), 2);
    let plan = fleet().plan(&graph(text), &signature("", "", "f"), false).unwrap();
    assert_eq!(find(&plan, "Identity").len(), 2, "one for a and one for v");
}

#[test]
fn a_reference_is_received_after_the_consumers_other_inputs() {
    let text = "
        v = VariableV2 @ /job:ps
        a = Const @ /job:ps | value=1
        b = Const @ /job:worker | value=1
        c = NoOp @ /job:worker
        d = AddN(v, a, b, ^c) @ /job:worker | N=3";
    let plan = fleet().plan(&graph(text), &signature("", "", "d"), false).unwrap();
    let (_, worker) = &shown(&plan)[1];
    let read = worker.iter().find(|line| line.starts_with("v_S")).unwrap();
    assert!(read.contains("^a_S") && read.contains("^b") && read.contains("^c"), "{read}");
}

#[test]
fn a_fed_placeholder_needs_no_task_but_those_that_use_it() {
    let text = "
        p = Placeholder @ /job:ps
        a = Identity(p) @ /job:worker
        b = NoOp(^p) @ /job:worker
        c = Identity(p) @ /job:ps";
    let plan = fleet().plan(&graph(text), &signature("p", "a", "b"), false).unwrap();
    assert_eq!(plan.partitions.len(), 1);
    let expected =
        ["a = Identity(_recv_p_0)", "b = NoOp(^_recv_p_0)", "_recv_p_0 = _Recv()", "_send_a_0 = _Send(a)"];
    assert_eq!(show(&plan.partitions[0].graph), expected);
    let plan = fleet().plan(&graph(text), &signature("p", "a c", ""), false).unwrap();
    assert_eq!(plan.partitions.iter().map(|partition| partition.feeds.len()).collect::<Vec<_>>(), [1, 1]);
    let nothing_uses_it = fleet().plan(&graph(text), &signature("p a", "", "b"), false).unwrap();
    assert_eq!(nothing_uses_it.partitions[0].feeds.len(), 1);
    assert_eq!(nothing_uses_it.feed_dtypes.len(), 2);
}

#[test]
fn names_of_added_nodes_are_new_in_the_session() {
    let text = "
        a = Const @ /job:ps | value=1
        a_S1 = Const @ /job:worker | value=2
        _send_b_0 = Const @ /job:worker | value=3
        b = AddV2(a, a_S1) @ /job:worker
        c = AddV2(b, _send_b_0) @ /job:worker";
    let (mut fleet, checked) = (fleet(), graph(text));
    for _ in 0..2 {
        let results = fleet.run(&checked, &signature("", "b c b", ""), &[], false).unwrap();
        assert_eq!(results[1], Some(Tensor::scalar(6.0f32)));
        assert_eq!(results[0], results[2]);
    }
    let plans = [(); 2].map(|()| fleet.plan(&checked, &signature("", "c", ""), false).unwrap());
    let names =
        |plan: &StepPlan| find(plan, "_Recv").iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    assert_ne!(names(&plans[0]), names(&plans[1]));
}

#[test]
fn devices_of_one_task_are_cut_by_the_task_itself() {
    let checked = graph(
        "a = Const @ /cpu:1 | value=1\nb = Identity(a) @ /cpu:0\np = Placeholder\nc = AddV2(a, p) @ /cpu:1",
    );
    let mut devices = testing::devices(&["worker:0", "worker:0"]);
    devices[1] = Device::new("/job:worker/replica:0/task:0/device:CPU:1".parse().unwrap(), 7);
    let preferred_task = Some(devices[0].name.task_name());
    let options = PlaceOptions { allow_soft_placement: false, preferred_task };
    let placement = place(&checked, &devices, &[], &options).unwrap();
    let plan = plan_step(
        &checked,
        &placement,
        &devices,
        &signature("p", "b c", ""),
        &mut 0,
        &PlanOptions { simplify: false, terminals: Terminals::Rendezvous },
    )
    .unwrap();
    assert_eq!(plan.partitions.len(), 1);
    let nodes = plan.partitions[0].graph.nodes();
    let device = |name: &str| nodes.iter().find(|node| &*node.name == name).unwrap().device.to_string();
    assert!(
        device("a").ends_with("CPU:1")
            && device("b").ends_with("CPU:0")
            && device("_send_c_0").ends_with("CPU:1")
    );
    assert!(device("_recv_p_0").ends_with("CPU:0"), "feeds enter at the first device of a task");
    assert!(plan.partitions[0].fetches[1].1.to_string().contains("CPU:1;0000000000000007;"));
}

#[test]
fn requests_that_make_no_sense_get_tensorflows_codes() {
    let checked = graph(TWO_TASKS);
    let code = |feeds, fetches, targets| {
        fleet().plan(&checked, &signature(feeds, fetches, targets), false).unwrap_err().code()
    };
    assert_eq!(code("", "", ""), Code::InvalidArgument);
    assert_eq!(code("nope", "y", ""), Code::NotFound);
    assert_eq!(code("", "y:1", ""), Code::InvalidArgument);
    assert_eq!(code("x x:0", "y", ""), Code::InvalidArgument);
    assert_eq!(code("x", "x", ""), Code::InvalidArgument);
    assert_eq!(code("", "done", ""), Code::InvalidArgument);
    assert_eq!(code("v", "", "upd"), Code::InvalidArgument, "a fed value is not a reference");
}

#[test]
fn a_condition_across_tasks_passes_deadness_on() {
    let text = "
        x = Const @ /job:worker | value=3
        p = Placeholder<bool> @ /job:worker
        sw = Switch(x, p) @ /job:worker
        no = Neg(sw:0) @ /job:ps
        yes = Square(sw:1) @ /job:ps
        pivot = Identity<bool>(p) @ /job:worker
        psw = Switch<bool>(p, p) @ /job:worker
        t = Identity<bool>(psw:1) @ /job:worker
        only_yes = Const(^t) @ /job:ps | value=5
        sum = AddV2(yes, only_yes) @ /job:ps
        merge = Merge(no, sum) @ /job:worker";
    let checked = graph(text);
    for (taken, value, index) in [(true, 14.0f32, 1i32), (false, -3.0, 0)] {
        let feeds = [Tensor::scalar(taken)];
        let wanted = signature("p", "merge merge:1", "");
        let results = fleet().run(&checked, &wanted, &feeds, false).unwrap();
        assert_eq!(results, [Some(Tensor::scalar(value)), Some(Tensor::scalar(index))]);
        assert_eq!(results, run_whole(&checked, &wanted, &feeds).unwrap());
        let dead = fleet().run(&checked, &signature("p", "no yes", ""), &feeds, false).unwrap();
        assert_eq!([dead[0].is_none(), dead[1].is_none()], [taken, !taken]);
    }
}
