//! Which device each node asks for, compared with what TensorFlow 2.21's Python front end writes.
#![allow(clippy::unwrap_used)]

use tensorfleet::{
    ClusterSpec, DType, DeviceScope, Graph, Operand, Output, PsStrategy, replica_device_setter,
};

#[track_caller]
fn check(g: &Graph, expected: &[(&str, &str)]) {
    for (node, device) in expected {
        assert_eq!(g.operation(node).unwrap().device(), *device, "{node}");
    }
}

fn add(g: &Graph, name: &str, a: impl Operand, b: impl Operand) -> Output {
    g.op("AddV2").input(a).input(b).name(name).output().unwrap()
}

fn class_of(g: &Graph, name: &str) -> Vec<String> {
    let def = g.to_graph_def();
    let node = def.node.into_iter().find(|node| node.name == name).unwrap();
    let list = node.attr.get("_class").and_then(|class| class.value.clone());
    match list {
        Some(tensorfleet_proto::tensorflow::attr_value::Value::List(list)) => {
            list.s.iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect()
        }
        _ => Vec::new(),
    }
}

/// The first program of seed 003: "绑定操作节点到集群的作业".
#[test]
fn manual_binding_names_job_and_task() {
    let g = Graph::new();
    let a = g.device("/job:ps", || g.variable("a", 1.0f32));
    let b = g.device("/job:worker", || &a + 2.0);
    let c = g.device("/job:worker/task:1", || &a + &b);
    assert_eq!((b.device(), c.device()), ("/job:worker".to_string(), "/job:worker/task:1".to_string()));
    check(
        &g,
        &[
            ("a/initial_value", "/job:ps"),
            ("a", "/job:ps"),
            ("a/Assign", "/job:ps"),
            ("a/read", "/job:ps"),
            ("add/y", "/job:worker"),
        ],
    );
}

/// The second program of seed 003, whose comments say where its six nodes go.
#[test]
fn automatic_binding_takes_turns_and_merges_inner_scopes() {
    let g = Graph::new();
    let setter = replica_device_setter().ps_tasks(2).ps_device("/job:ps").worker_device("/job:worker");
    g.device(setter, || {
        let v1 = g.variable("v1", 1.0f32);
        let v2 = g.variable("v2", 2.0f32);
        g.variable("v3", 3.0f32);
        let s = add(&g, "s", &v1, &v2);
        g.device("/task:1", || {
            let _p1 = add(&g, "p1", &s, 2.0);
            g.device("/cpu:0", || add(&g, "p2", &s, 3.0))
        })
    });
    check(
        &g,
        &[
            ("v1", "/job:ps/task:0"),
            ("v2", "/job:ps/task:1"),
            ("v3", "/job:ps/task:0"),
            ("v3/Assign", "/job:ps/task:0"),
            ("v3/read", "/job:ps/task:0"),
            ("v3/initial_value", "/job:worker"),
            ("s", "/job:worker"),
            ("p1", "/job:worker/task:1"),
            ("p2", "/job:worker/task:1/device:CPU:0"),
        ],
    );
}

fn spec() -> ClusterSpec {
    ClusterSpec::from_hosts("a:1,b:2", "c:1,d:2").unwrap()
}

/// Variables in inner scopes, colocation and reference updates; the strings are TensorFlow's.
#[test]
fn inner_scopes_win_in_what_they_name() {
    let g = Graph::new();
    g.device(replica_device_setter().cluster(&spec()).worker_device("/job:worker/task:1/cpu:0"), || {
        let v1 = g.variable("v1", 1.0f32);
        let v2 = g.variable("v2", [2.0f32, 2.0]);
        g.variable("v3", [0.0f32; 3]);
        g.device("/cpu:0", || g.variable("w", 5.0f32));
        g.device("/task:1", || g.variable("w2", 5.0f32));
        g.colocate_with(&v2, || add(&g, "r", &v1, 2.0));
        v1.assign_add(1.0).unwrap();
    });
    check(
        &g,
        &[
            ("v1", "/job:ps/task:0"),
            ("v2", "/job:ps/task:1"),
            ("v3", "/job:ps/task:0"),
            ("v1/initial_value", "/job:worker/task:1/device:CPU:0"),
            ("w", "/job:ps/task:1/device:CPU:0"),
            ("w/Assign", "/job:ps/task:1/device:CPU:0"),
            ("w2", "/job:ps/task:1"),
            ("w2/read", "/job:ps/task:1"),
            ("r", "/job:ps/task:1"),
            ("AssignAdd", "/job:ps/task:0"),
            ("AssignAdd/value", "/job:worker/task:1/device:CPU:0"),
        ],
    );
    assert_eq!(class_of(&g, "r"), ["loc:@v2"]);
    assert_eq!(class_of(&g, "AssignAdd"), ["loc:@v1"]);
}

#[test]
fn resource_variables_are_assigned_and_read_where_they_are() {
    let g = Graph::new();
    g.device(replica_device_setter().cluster(&spec()).worker_device("/job:worker/task:1/cpu:0"), || {
        let v = g.new_variable("v").resource().init(1.0f32);
        g.colocate_with(&v, || g.no_op()).unwrap();
        let _sum = add(&g, "sum", &v, 1.0);
    });
    check(
        &g,
        &[
            ("v/Initializer/initial_value", ""),
            ("v", "/job:ps/task:0"),
            ("v/IsInitialized/VarIsInitializedOp", "/job:worker/task:1/device:CPU:0"),
            ("v/Assign", "/job:ps/task:0"),
            // The worker's device fills what the variable's leaves open, as in TensorFlow.
            ("v/Read/ReadVariableOp", "/job:ps/task:0/device:CPU:0"),
            ("sum", "/job:worker/task:1/device:CPU:0"),
        ],
    );
    let implicit = g
        .to_graph_def()
        .node
        .into_iter()
        .find(|node| node.name.ends_with("ReadVariableOp") && node.name != "v/Read/ReadVariableOp");
    assert_eq!(implicit.unwrap().device, "");
}

#[test]
fn without_merging_any_inner_scope_is_final() {
    let g = Graph::new();
    g.device(replica_device_setter().ps_tasks(2).merge_devices(false), || {
        g.variable("v1", 1.0f32);
        g.device("/cpu:0", || g.variable("w", 5.0f32));
        g.device("/task:1", || add(&g, "c", 1.0f32, 1.0f32));
        g.variable("v2", 1.0f32);
    });
    check(
        &g,
        &[
            ("v1", "/job:ps/task:0"),
            ("v1/initial_value", "/job:worker"),
            ("w", "/device:CPU:0"),
            ("w/initial_value", "/device:CPU:0"),
            ("c", "/task:1"),
            ("v2", "/job:ps/task:1"),
        ],
    );
}

#[test]
fn outer_scopes_fill_and_none_forgets_them() {
    let g = Graph::new();
    g.device("/job:worker/task:1/cpu:1", || {
        g.device(replica_device_setter().ps_tasks(2).ps_device("/job:ps/cpu:0"), || {
            g.variable("v", 1.0f32);
            g.device(None, || g.variable("nv", 1.0f32));
            // Another job's variable takes no turn.
            g.device("/job:chief", || g.variable("chief", 1.0f32));
            g.variable("v2", 1.0f32);
        });
        g.device_fn(
            |node| format!("/job:fn/task:{}", node.inputs.len()),
            || {
                let a = g.constant(1.0f32);
                let _b = add(&g, "fb", &a, &a);
                g.device("/cpu:2", || add(&g, "fc", &a, &a));
            },
        );
    });
    check(
        &g,
        &[
            ("v", "/job:ps/task:0/device:CPU:0"),
            ("v/initial_value", "/job:worker/task:1/device:CPU:1"),
            ("nv", ""),
            ("nv/Assign", ""),
            ("chief", "/job:chief/task:1/device:CPU:0"),
            ("v2", "/job:ps/task:1/device:CPU:0"),
            ("Const", "/job:fn/task:0/device:CPU:1"),
            ("fb", "/job:fn/task:2/device:CPU:1"),
            ("fc", "/job:fn/task:2/device:CPU:1"),
        ],
    );
}

#[test]
fn a_cluster_without_such_servers_changes_nothing_but_resets() {
    let g = Graph::new();
    let workers = ClusterSpec::from_hosts("", "w:1").unwrap();
    let forms = [replica_device_setter(), replica_device_setter().cluster(&workers)];
    for setter in forms {
        let c = g.device("/job:outer", || g.device(setter, || g.constant(1.0f32)));
        assert_eq!(c.device(), "");
    }
}

#[test]
fn servers_with_gaps_in_their_indices_take_turns() {
    let g = Graph::new();
    let sparse = ClusterSpec::sparse([("ps", [(1, "a:1"), (4, "b:1")])]).unwrap();
    let scope = DeviceScope::from(replica_device_setter().cluster(&sparse));
    g.device(scope.clone(), || g.variable("v1", 1.0f32));
    g.device(scope.clone(), || g.variable("v2", 1.0f32));
    g.device(scope, || g.variable("v3", 1.0f32));
    check(&g, &[("v1", "/job:ps/task:1"), ("v2", "/job:ps/task:4"), ("v3", "/job:ps/task:1")]);
}

#[test]
fn bytes_are_balanced_greedily() {
    let g = Graph::new();
    let setter = replica_device_setter().ps_tasks(3).strategy(PsStrategy::FewestBytes);
    g.device(setter, || {
        g.variable("big", [0.0f32; 100]);
        g.variable("middle", [0.0f64; 20]);
        g.variable("small", 0.0f32);
        g.new_variable("ids").dtype(DType::Int64).resource().init([0i64; 10]);
        g.variable("next", [0.0f32; 30]);
        g.variable("last", [0.0f32; 10]);
    });
    check(
        &g,
        &[
            ("big", "/job:ps/task:0"),
            ("middle", "/job:ps/task:1"),
            ("small", "/job:ps/task:2"),
            ("ids", "/job:ps/task:2"),
            ("next", "/job:ps/task:2"),
            ("last", "/job:ps/task:1"),
        ],
    );
}

#[test]
fn ops_for_servers_can_be_chosen_and_mistakes_are_named() {
    let g = Graph::new();
    g.device(replica_device_setter().ps_tasks(1).ps_ops(["Const"]), || g.variable("v", 1.0f32));
    check(&g, &[("v", "/job:worker"), ("v/initial_value", "/job:ps/task:0")]);
    let bad = g.device(replica_device_setter().ps_tasks(1).worker_device("worker"), || g.constant(1.0f32));
    let status = bad.check().unwrap_err();
    assert!(status.text().contains("worker_device of replica_device_setter"), "{status}");
    let bad = g.device_fn(|_| "nonsense".to_string(), || g.constant(1.0f32));
    assert!(bad.check().unwrap_err().text().contains("'nonsense'"));
}
