//! Stories about the engine: what it builds, and what it refuses. What gradients are worth is told by tests that run them.
#![allow(clippy::unwrap_used)]

use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{Code, DType, Endpoint, Node, NodeId, PartialShape, Tensor};

use tensorfleet_kernel::builder::{GraphBuilder, Input, LoopOptions, NewNode};
use tensorfleet_kernel::gradients::{CustomGradients, Differential, Gate, Grad, GradientOptions, gradients};
use tensorfleet_ops::catalogue;

fn scalar(b: &mut GraphBuilder, value: f32) -> Endpoint {
    b.constant("x", Tensor::scalar(value)).unwrap()
}

fn binary(b: &mut GraphBuilder, op: &str, x: Endpoint, y: Endpoint) -> Endpoint {
    b.emit(NewNode::new(op).input(x).input(y)).unwrap()
}

fn name(b: &GraphBuilder, endpoint: Endpoint) -> String {
    b.node(endpoint.node).name.to_string()
}

fn dense(grads: &[Option<Grad>], index: usize) -> Endpoint {
    match grads[index] {
        Some(Grad::Dense(endpoint)) => endpoint,
        other => panic!("a whole gradient, not {other:?}"),
    }
}

fn count(b: &GraphBuilder, op: &str) -> usize {
    b.graph().nodes().iter().filter(|node| &*node.op == op).count()
}

#[test]
fn gradients_that_meet_are_added_once_and_all_xs_share_the_result() {
    let mut b = GraphBuilder::new(catalogue());
    let x = scalar(&mut b, 3.0);
    let y = binary(&mut b, "Mul", x, x);
    let grads = gradients(&mut b, &[y], &[x, x], &GradientOptions::default()).unwrap();
    assert_eq!(grads[0], grads[1]);
    assert_eq!(name(&b, dense(&grads, 0)), "gradients/AddN");
    assert_eq!(count(&b, "AddN"), 1);
    assert!(b.graph().find("gradients/grad_ys_0").is_some());
}

#[test]
fn a_value_that_is_y_and_x_gets_ones_and_what_is_not_on_a_path_gets_nothing() {
    let mut b = GraphBuilder::new(catalogue());
    let (x, other) = (scalar(&mut b, 3.0), scalar(&mut b, 4.0));
    let grads = gradients(&mut b, &[x], &[x, other], &GradientOptions::default()).unwrap();
    assert_eq!(name(&b, dense(&grads, 0)), "gradients/grad_ys_0");
    assert_eq!(grads[1], None);
}

/// The gradient of `Sign` as a program may want it: that of the identity, times seven.
#[derive(Debug)]
struct SevenTimes;

impl CustomGradients for SevenTimes {
    fn defines(&self, op: &str) -> bool {
        op == "Sign" || op == "Mine"
    }

    fn differentiate(
        &self,
        op: &str,
        differential: &mut Differential<'_>,
    ) -> tensorfleet_core::Result<Vec<Option<Grad>>> {
        let factor = if op == "Mine" { 8.0 } else { 7.0 };
        let dy = differential.dy(0)?;
        let factor = differential.scalar_like(dy, factor)?;
        Ok(vec![Some(Grad::Dense(differential.op("Mul", [dy, factor])?))])
    }
}

#[test]
fn a_program_defines_gradients_of_ops_and_of_nodes_that_name_them() {
    let mut b = GraphBuilder::new(catalogue());
    let x = scalar(&mut b, 3.0);
    let sign = b.emit(NewNode::new("Sign").input(x)).unwrap();
    let renamed = b.emit(NewNode::new("Floor").input(sign).attr("_gradient_op_type", "Mine")).unwrap();
    // Without a definition of the program, a node may have the gradient of another op of the catalogue.
    let straight =
        b.emit(NewNode::new("Round").input(renamed).attr("_gradient_op_type", "Identity")).unwrap();
    let options =
        GradientOptions { custom: Some(std::sync::Arc::new(SevenTimes)), ..GradientOptions::default() };
    let grads = gradients(&mut b, &[straight], &[x], &options).unwrap();
    let grad = dense(&grads, 0);
    assert_eq!(name(&b, grad), "gradients/Sign_grad/Mul");
    let inner = b.node(grad.node).inputs[0];
    assert_eq!(name(&b, inner), "gradients/Floor_grad/Mul");
    assert_eq!(name(&b, b.node(inner.node).inputs[0]), "gradients/grad_ys_0");

    let unknown = b.emit(NewNode::new("Floor").input(x).attr("_gradient_op_type", "Nobody's")).unwrap();
    let refused = gradients(&mut b, &[unknown], &[x], &options).unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert!(refused.text().contains("(op type: Nobody's)"), "{}", refused.text());
}

#[test]
fn ys_must_be_floating_and_grad_ys_must_fit() {
    let mut b = GraphBuilder::new(catalogue());
    let whole = b.constant("i", Tensor::scalar(3i32)).unwrap();
    let refused = gradients(&mut b, &[whole], &[whole], &GradientOptions::default()).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let x = scalar(&mut b, 3.0);
    let wrong = b.constant("g", Tensor::vector(&[1.0f32, 2.0]).unwrap()).unwrap();
    let options = GradientOptions { grad_ys: vec![Some(wrong)], ..GradientOptions::default() };
    let refused = gradients(&mut b, &[x], &[x], &options).unwrap_err();
    assert!(refused.text().contains("of shape [2]"), "{refused}");
}

#[test]
fn an_op_without_a_gradient_is_named_but_only_if_the_path_goes_through_it() {
    let mut b = GraphBuilder::new(catalogue());
    let x = b.constant("x", Tensor::vector(&[3.0f32, 3.0]).unwrap()).unwrap();
    let unique = b.add(NewNode::new("Unique").input(x)).unwrap();
    let refused =
        gradients(&mut b, &[Endpoint::new(unique, 0)], &[x], &GradientOptions::default()).unwrap_err();
    assert!(refused.text().starts_with("No gradient defined for operation 'Unique'"), "{refused}");
    // Its second output is an integer, along which nothing flows.
    let index = Endpoint::new(unique, 1);
    let index = b.emit(NewNode::new("Cast").input(index).attr("DstT", DType::Float)).unwrap();
    let product = binary(&mut b, "Mul", x, index);
    assert!(gradients(&mut b, &[product], &[x], &GradientOptions::default()).unwrap()[0].is_some());
}

#[test]
fn what_is_stopped_gets_a_gradient_but_passes_none_on() {
    let mut b = GraphBuilder::new(catalogue());
    let x = scalar(&mut b, 3.0);
    let y = binary(&mut b, "Mul", x, x);
    let z = binary(&mut b, "Mul", y, y);
    let options = GradientOptions { stop_gradients: vec![y], ..GradientOptions::default() };
    let grads = gradients(&mut b, &[z], &[x, y], &options).unwrap();
    assert!(grads[0].is_none() && grads[1].is_some());
}

#[test]
fn colocated_gradients_name_the_node_they_belong_to() {
    let mut b = GraphBuilder::new(catalogue());
    let (x, w) = (scalar(&mut b, 3.0), scalar(&mut b, 2.0));
    let y = binary(&mut b, "Mul", x, w);
    let options = GradientOptions { colocate_with_ops: true, ..GradientOptions::default() };
    let grads = gradients(&mut b, &[y], &[x], &options).unwrap();
    let class = Vec::<String>::from_attr(&b.node(dense(&grads, 0).node).attrs["_class"]).unwrap();
    assert_eq!(class, ["loc:@Mul"]);
}

/// `x` multiplied by itself and added up, `times` times.
fn power_loop(b: &mut GraphBuilder, x: Endpoint, times: i32) -> Endpoint {
    let start = b.constant("start", Tensor::scalar(0i32)).unwrap();
    let mut the_loop = b.begin_loop(&[start, x], &LoopOptions::default()).unwrap();
    let depth = b.depth();
    b.enter_flow(the_loop.flow());
    let limit = Input::Tensor(Tensor::scalar(times));
    let count = the_loop.variables()[0];
    let goes_on = b.emit(NewNode::new("Less").input(count).input(limit)).unwrap();
    let inside = b.loop_condition(&mut the_loop, goes_on).unwrap();
    let one = Input::Tensor(Tensor::scalar(1i32));
    let next = b.emit(NewNode::new("AddV2").input(inside[0]).input(one)).unwrap();
    let product = binary(b, "Mul", inside[1], x);
    b.leave(depth);
    b.end_loop(&the_loop, &[next, product]).unwrap()[1]
}

#[test]
fn a_loop_keeps_on_a_stack_only_what_changes() {
    let mut b = GraphBuilder::new(catalogue());
    let x = scalar(&mut b, 3.0);
    let y = power_loop(&mut b, x, 4);
    let grads = gradients(&mut b, &[y], &[x], &GradientOptions::default()).unwrap();
    assert!(grads[0].is_some());
    // The product so far changes and is kept; what it is multiplied by does not.
    assert_eq!((count(&b, "StackV2"), count(&b, "StackPushV2"), count(&b, "StackPopV2")), (1, 1, 1));
    // Every loop is closed: each iteration leads to the next.
    for node in b.graph().nodes().iter().filter(|node| &*node.op == "Merge") {
        assert!(b.node(node.inputs[1].node).is_next_iteration(), "{}", node.name);
    }
    assert_eq!(b.complete_len(), b.graph().len());
}

#[test]
fn a_loop_keeps_the_shape_of_a_value_where_it_needs_no_more() {
    let mut b = GraphBuilder::new(catalogue());
    let rows = PartialShape::from_signed(&[-1, 3]).unwrap();
    let x = b.emit(NewNode::new("Placeholder").attr("dtype", DType::Float).attr("shape", rows)).unwrap();
    let options = LoopOptions::default();
    let mut the_loop = b.begin_loop(&[x], &options).unwrap();
    let depth = b.depth();
    b.enter_flow(the_loop.flow());
    let goes_on = b.constant("goes_on", Tensor::scalar(false)).unwrap();
    let inside = b.loop_condition(&mut the_loop, goes_on).unwrap();
    // The sine needs its argument; of the sum's operands nothing but their shapes is needed, as they may be broadcast.
    let sine = b.emit(NewNode::new("Sin").input(inside[0])).unwrap();
    let twice = binary(&mut b, "AddV2", sine, sine);
    let sum = binary(&mut b, "AddV2", twice, inside[0]);
    let parts = b.add(NewNode::new("ConcatV2").input_list([sum, sum]).input(Tensor::scalar(1i32))).unwrap();
    let wide = Endpoint::new(parts, 0);
    let half = NewNode::new("Slice").input(wide);
    let half = half.input(Tensor::vector(&[0i32, 0]).unwrap()).input(Tensor::vector(&[-1i32, 3]).unwrap());
    let half = b.emit(half).unwrap();
    b.leave(depth);
    let y = b.end_loop(&the_loop, &[half]).unwrap()[0];
    gradients(&mut b, &[y], &[x], &GradientOptions::default()).unwrap();
    let nodes = b.graph().nodes();
    let pushed = |node: &Node| b.node(node.inputs[1].node).op.to_string();
    let kept: Vec<String> = nodes.iter().filter(|node| &*node.op == "StackPushV2").map(pushed).collect();
    let (shapes, values): (Vec<&str>, Vec<&str>) =
        kept.iter().map(String::as_str).partition(|op| *op == "Shape");
    assert_eq!(values, ["Identity"], "{kept:?}");
    assert!(!shapes.is_empty());
    // How far the parts of a concatenation reach is known.
    assert_eq!(count(&b, "ConcatOffset"), 0);
}

#[test]
fn a_loop_that_cannot_be_differentiated_leaves_the_graph_usable() {
    let mut b = GraphBuilder::new(catalogue());
    let x = b.constant("x", Tensor::vector(&[3.0f32, 3.0]).unwrap()).unwrap();
    let options = LoopOptions {
        shape_invariants: vec![tensorfleet_core::PartialShape::of_rank(1)],
        ..Default::default()
    };
    let mut the_loop = b.begin_loop(&[x], &options).unwrap();
    let depth = b.depth();
    b.enter_flow(the_loop.flow());
    let goes_on = b.constant("never", Tensor::scalar(false)).unwrap();
    let inside = b.loop_condition(&mut the_loop, goes_on).unwrap();
    let unique = b.emit(NewNode::new("Unique").input(inside[0])).unwrap();
    b.leave(depth);
    let y = b.end_loop(&the_loop, &[unique]).unwrap()[0];
    let refused = gradients(&mut b, &[y], &[x], &GradientOptions::default()).unwrap_err();
    assert!(refused.text().starts_with("No gradient defined for operation 'Unique'"), "{refused}");
    assert_eq!(b.complete_len(), b.graph().len());
    assert_eq!(b.name_scope(), "");
    assert!(b.emit(NewNode::new("Neg").input(y)).is_ok());
}

/// The nodes that hold gradients back.
fn gates(b: &GraphBuilder) -> Vec<NodeId> {
    b.graph().iter().filter(|(_, node)| node.name.ends_with("/group_deps")).map(|(id, _)| id).collect()
}

#[test]
fn a_gradient_nobody_asked_for_is_not_waited_for() {
    let options = GradientOptions { gate: Gate::Op, ..GradientOptions::default() };
    for (both, expected) in [(false, 0), (true, 1)] {
        let mut b = GraphBuilder::new(catalogue());
        let (x, w) = (scalar(&mut b, 3.0), scalar(&mut b, 2.0));
        let y = binary(&mut b, "Mul", x, w);
        let xs = if both { vec![x, w] } else { vec![w] };
        gradients(&mut b, &[y], &xs, &options).unwrap();
        assert_eq!(gates(&b).len(), expected);
    }
}

#[test]
fn the_gradients_of_a_loop_leave_it_together_and_pass_no_gates_inside() {
    let mut b = GraphBuilder::new(catalogue());
    let x = scalar(&mut b, 3.0);
    let y = power_loop(&mut b, x, 4);
    let options = GradientOptions { gate: Gate::Op, ..GradientOptions::default() };
    gradients(&mut b, &[y], &[x], &options).unwrap();
    let gates = gates(&b);
    assert_eq!(gates.len(), 1);
    assert!(b.enclosing_loop(gates[0]).is_none());
    let waits_for: Vec<&str> =
        b.node(gates[0]).control_inputs.iter().map(|&before| &*b.node(before).op).collect();
    assert_eq!(waits_for, ["Exit", "Exit"]);
}
