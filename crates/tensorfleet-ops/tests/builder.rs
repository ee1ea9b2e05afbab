//! Stories about the builder itself; what it builds for whole programs is told by the tests of the front end.
#![allow(clippy::unwrap_used)]

use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{Code, DType, Endpoint, NodeId, PartialShape, Status, Tensor};
use tensorfleet_kernel::builder::{GraphBuilder, Input, LoopOptions, NewNode};
use tensorfleet_ops::catalogue;
use tensorfleet_proto::tensorflow::{GraphDef, NodeDef};

fn placeholder(b: &mut GraphBuilder, dtype: DType, dims: &[i64]) -> Endpoint {
    let shape = PartialShape::from_signed(dims).unwrap();
    b.emit(NewNode::new("Placeholder").attr("dtype", dtype).attr("shape", shape)).unwrap()
}

fn node(name: &str, op: &str, inputs: &[&str], attrs: &[(&str, DType)]) -> NodeDef {
    NodeDef {
        name: name.to_string(),
        op: op.to_string(),
        input: inputs.iter().map(|input| input.to_string()).collect(),
        attr: attrs.iter().map(|(name, dtype)| (name.to_string(), dtype.into_attr())).collect(),
        ..Default::default()
    }
}

#[test]
fn types_and_lengths_follow_from_the_inputs_and_defaults_are_written() {
    let mut b = GraphBuilder::new(catalogue());
    let x = placeholder(&mut b, DType::Float, &[2]);
    let y = placeholder(&mut b, DType::Int32, &[3]);
    let both = b.add(NewNode::new("IdentityN").input(x).input(y)).unwrap();
    let types = Vec::<DType>::from_attr(&b.node(both).attrs["T"]).unwrap();
    assert_eq!(types, [DType::Float, DType::Int32]);
    assert_eq!(b.shape(Endpoint::new(both, 1)).unwrap().to_string(), "[3]");
    let merged = b.add(NewNode::new("Merge").input_list([x, x, x])).unwrap();
    assert_eq!(i64::from_attr(&b.node(merged).attrs["N"]), Ok(3));
    let entered = b.add(NewNode::new("Enter").input(x).attr("frame_name", "f")).unwrap();
    assert_eq!(i64::from_attr(&b.node(entered).attrs["parallel_iterations"]), Ok(10));
}

#[test]
fn literals_become_constants_named_after_their_argument() {
    let mut b = GraphBuilder::new(catalogue());
    let x = placeholder(&mut b, DType::Double, &[]);
    let list = vec![Input::Literal(Tensor::scalar(2i32)), Input::Edge(x)];
    let merged = b.add(NewNode::new("Merge").name("m").input(Input::List(list))).unwrap();
    let constant = b.node(merged).inputs[0];
    assert_eq!(&*b.node(constant.node).name, "m/inputs_0");
    assert_eq!(b.facts(constant).unwrap().value, Some(Tensor::scalar(2.0f64)));
}

#[test]
fn a_name_with_a_slash_at_its_end_is_exact_and_must_be_free() {
    let mut b = GraphBuilder::new(catalogue());
    b.enter_name_scope("scope").unwrap();
    let named = b.add(NewNode::new("NoOp").name("other/name/")).unwrap();
    assert_eq!(&*b.node(named).name, "other/name");
    let again = b.add(NewNode::new("NoOp").name("other/name/")).unwrap_err();
    assert_eq!(again.text(), "Duplicate node name in graph: 'other/name'");
    let inside = b.add(NewNode::new("NoOp")).unwrap();
    assert_eq!(&*b.node(inside).name, "scope/NoOp");
    assert!(b.add(NewNode::new("NoOp").name("not a name")).is_err());
    assert_eq!(b.graph().len(), 2);
}

#[test]
fn a_loop_under_construction_is_not_complete() {
    let mut b = GraphBuilder::new(catalogue());
    let start = placeholder(&mut b, DType::Bool, &[]);
    let mut the_loop = b.begin_loop(&[start], &LoopOptions::default()).unwrap();
    assert_eq!(b.complete_len(), 1);
    b.enter_flow(the_loop.flow());
    let condition = the_loop.variables()[0];
    let inside = b.loop_condition(&mut the_loop, condition).unwrap();
    let unrelated = b.add(NewNode::new("NoOp")).unwrap();
    assert_eq!(b.node(unrelated).control_inputs, [inside[0].node]);
    b.leave(0);
    assert_eq!(b.complete_len(), 1);
    let exits = b.end_loop(&the_loop, &inside).unwrap();
    assert_eq!(b.complete_len(), b.graph().len());
    assert_eq!(&*b.node(exits[0].node).op, "Exit");
    assert!(b.enclosing_loop(inside[0].node).is_some() && b.enclosing_loop(exits[0].node).is_none());
}

#[test]
fn import_checks_types_and_outputs_and_adds_all_or_nothing() {
    let float = [("dtype", DType::Float)];
    let mut b = GraphBuilder::new(catalogue());
    b.add(NewNode::new("NoOp").name("taken")).unwrap();
    for (nodes, code, fragment) in [
        (
            vec![
                node("x", "Placeholder", &[], &float),
                node("y", "Identity", &["x"], &[("T", DType::Int32)]),
            ],
            Code::InvalidArgument,
            "Input 0 of node y was passed float from x:0 incompatible with expected int32.",
        ),
        (
            vec![
                node("x", "Placeholder", &[], &float),
                node("y", "Identity", &["x:1"], &[("T", DType::Float)]),
            ],
            Code::InvalidArgument,
            "Connecting to invalid output 1 of source node x which has 1 outputs.",
        ),
        (
            vec![
                node("x", "Placeholder", &[], &float),
                node("y", "RefIdentity", &["x"], &[("T", DType::Float)]),
            ],
            Code::InvalidArgument,
            "expected float_ref",
        ),
        (vec![node("x", "NoSuchOp", &[], &[])], Code::NotFound, "Op type not registered 'NoSuchOp'"),
        (vec![node("x", "Placeholder", &[], &[])], Code::NotFound, "No attr named 'dtype'"),
        (
            vec![node("new", "NoOp", &[], &[]), node("taken", "NoOp", &[], &[])],
            Code::InvalidArgument,
            "not unique",
        ),
    ] {
        let status = b.import(GraphDef { node: nodes, ..Default::default() }, "").unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(fragment), "{status} should contain {fragment}");
        assert_eq!((b.graph().len(), b.num_outputs(NodeId::from_index(1))), (1, 0));
    }
}

#[test]
fn import_takes_nodes_in_any_order_renames_them_and_follows_loops() {
    let float = [("T", DType::Float)];
    let mut enter = node("enter", "Enter", &["x"], &float);
    enter.attr.insert("frame_name".to_string(), "f".into_attr());
    let mut merge = node("merge", "Merge", &["enter", "next"], &float);
    merge.attr.insert("N".to_string(), 2i64.into_attr());
    let mut next = node("next", "NextIteration", &["merge", "^enter"], &float);
    next.attr.insert("_class".to_string(), vec!["loc:@x".to_string()].into_attr());
    let x = node("x", "Placeholder", &[], &[("dtype", DType::Float)]);
    let def = GraphDef { node: vec![next, merge, enter, x], ..Default::default() };
    let mut b = GraphBuilder::new(catalogue());
    let ids = b.import(def, "model").unwrap();
    assert_eq!(b.graph().node_def(ids[0]).input, ["model/merge", "^model/enter"]);
    let class = Vec::<String>::from_attr(&b.node(ids[0]).attrs["_class"]).unwrap();
    assert_eq!(class, ["loc:@model/x"]);
    assert_eq!(b.dtype(Endpoint::new(ids[1], 0)).unwrap(), DType::Float);
    let fresh = b.add(NewNode::new("NoOp").name("model")).unwrap();
    assert_eq!(&*b.node(fresh).name, "model_1");
}

#[test]
fn a_chain_of_a_hundred_thousand_nodes_is_imported_without_recursion() {
    let mut nodes = vec![node("n0", "Placeholder", &[], &[("dtype", DType::Float)])];
    for i in 1..100_000 {
        nodes.push(node(&format!("n{i}"), "Identity", &[&format!("n{}", i - 1)], &[("T", DType::Float)]));
    }
    nodes.reverse();
    let mut b = GraphBuilder::new(catalogue());
    assert_eq!(b.import(GraphDef { node: nodes, ..Default::default() }, "").unwrap().len(), 100_000);
}

#[test]
fn an_invalid_scope_spoils_only_what_is_built_inside() {
    let mut b = GraphBuilder::new(catalogue());
    let depth = b.depth();
    b.enter_invalid(Status::invalid_argument("why"));
    assert_eq!(b.add(NewNode::new("NoOp")).unwrap_err().text(), "why");
    b.leave(depth);
    assert!(b.add(NewNode::new("NoOp")).is_ok());
}
