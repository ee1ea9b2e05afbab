//! What people get wrong, and what they are told: TensorFlow's error code, the node and op by name, and a session
//! that goes on working.

#![allow(clippy::unwrap_used)]

use tensorfleet_core::{Code, DType, PartialShape, Result, Status, Tensor};
use tensorfleet_runtime::{DirectSession, RunOptions, SessionOptions, Task};
use tensorfleet_tests::graph_builder::GraphBuilder;

const FLOAT: DType = DType::Float;

/// A session whose graph has a node `fine` that works.
fn session() -> DirectSession {
    let session = DirectSession::new(Task::local(), SessionOptions::default());
    session.extend(GraphBuilder::new().constant("fine", 42i32).build()).unwrap();
    session
}

fn fetch(session: &DirectSession, name: &str) -> Result<Vec<Tensor>> {
    session.run(&[], &[name], &[], &RunOptions::default())
}

/// Adds a graph and fetches `bad:0`; the error of whichever fails. Afterwards the session must still work.
fn error_of(graph: GraphBuilder) -> Status {
    let session = session();
    let result = session.extend(graph.build()).and_then(|()| fetch(&session, "bad:0"));
    let status = result.expect_err("the graph should not work");
    assert_eq!(fetch(&session, "fine:0").unwrap(), [Tensor::scalar(42i32)], "after {status}");
    status
}

fn check(graph: GraphBuilder, code: Code, fragments: &[&str]) {
    let status = error_of(graph);
    assert_eq!(status.code(), code, "{status}");
    for fragment in fragments {
        assert!(status.message().contains(fragment), "'{status}' should contain '{fragment}'");
    }
}

fn graph() -> GraphBuilder {
    GraphBuilder::new()
}

fn ints(values: &[i32]) -> Tensor {
    Tensor::vector(values).unwrap()
}

#[test]
fn an_unknown_op_is_not_found() {
    check(graph().node("bad", "Frobnicate", &[], &[]), Code::NotFound, &["Frobnicate", "bad"]);
}

#[test]
fn a_missing_attribute_is_named() {
    let status = error_of(graph().constant("x", 1.0f32).node("bad", "Neg", &["x"], &[]));
    assert!(matches!(status.code(), Code::InvalidArgument | Code::NotFound), "{status}");
    for fragment in ["'T'", "bad", "Neg"] {
        assert!(status.message().contains(fragment), "{status}");
    }
}

#[test]
fn an_attribute_of_the_wrong_kind_or_value_is_named() {
    let x = || graph().constant("x", 1.0f32);
    check(
        x().node("bad", "Neg", &["x"], &[("T", 3i64.into())]),
        Code::InvalidArgument,
        &["'T'", "bad", "Neg"],
    );
    check(x().typed("bad", "Neg", &["x"], DType::String), Code::InvalidArgument, &["'T'", "bad", "Neg"]);
}

#[test]
fn too_few_and_too_many_inputs_are_counted() {
    let x = || graph().constant("x", 1.0f32);
    check(x().typed("bad", "AddV2", &["x"], FLOAT), Code::InvalidArgument, &["bad", "AddV2"]);
    check(x().typed("bad", "Neg", &["x", "x"], FLOAT), Code::InvalidArgument, &["bad", "Neg"]);
    check(x().typed("bad", "Neg", &["x:1"], FLOAT), Code::InvalidArgument, &["bad", "x"]);
}

#[test]
fn an_edge_of_the_wrong_dtype_is_refused() {
    let graph = graph().constant("x", 1.0f32).constant("i", 1i32).typed("bad", "AddV2", &["x", "i"], FLOAT);
    check(graph, Code::InvalidArgument, &["bad", "AddV2", "int32", "float"]);
}

#[test]
fn shapes_that_do_not_fit_are_shown() {
    let pair = |a: &[usize], b: &[usize]| {
        let zeros = |dims: &[usize]| Tensor::from_slice(&vec![0.0f32; dims.iter().product()], dims).unwrap();
        graph().constant("a", zeros(a)).constant("b", zeros(b))
    };
    let sum = pair(&[2], &[3]).typed("bad", "AddV2", &["a", "b"], FLOAT);
    check(sum, Code::InvalidArgument, &["Incompatible shapes: [2] vs. [3]", "bad", "AddV2"]);
    let product = pair(&[2, 3], &[2, 3]).typed("bad", "MatMul", &["a", "b"], FLOAT);
    check(product, Code::InvalidArgument, &["Matrix size-incompatible", "bad", "MatMul"]);
}

#[test]
fn broken_structure_is_refused_with_the_node_named() {
    let cycle = graph().typed("bad", "Neg", &["other"], FLOAT).typed("other", "Neg", &["bad"], FLOAT);
    check(cycle, Code::InvalidArgument, &["cycle", "bad"]);
    check(graph().constant("bad", 1i32).constant("bad", 1i32), Code::InvalidArgument, &["bad", "not unique"]);
    check(graph().constant("fine", 1i32), Code::InvalidArgument, &["fine"]);
    check(graph().typed("bad", "Neg", &["gone"], FLOAT), Code::InvalidArgument, &["bad", "gone"]);
    check(graph().node("bad", "NoOp", &["^gone"], &[]), Code::InvalidArgument, &["bad", "gone"]);
    check(graph().constant("no good", 1i32), Code::InvalidArgument, &["no good"]);
}

#[test]
fn an_unfed_placeholder_is_named_with_its_dtype() {
    let fragments = ["You must feed a value for placeholder tensor 'bad' with dtype float"];
    check(graph().placeholder("bad", FLOAT), Code::InvalidArgument, &fragments);
}

#[test]
fn a_variable_without_a_value_is_a_failed_precondition() {
    let shape = || PartialShape::vector(Some(2));
    let variable = graph()
        .node("v", "VariableV2", &[], &[("dtype", FLOAT.into()), ("shape", shape().into())])
        .typed("bad", "Identity", &["v"], FLOAT);
    check(variable, Code::FailedPrecondition, &["uninitialized value v", "bad"]);
    let resource = graph()
        .node("v", "VarHandleOp", &[], &[("dtype", FLOAT.into()), ("shape", shape().into())])
        .node("bad", "ReadVariableOp", &["v"], &[("dtype", FLOAT.into())]);
    check(resource, Code::FailedPrecondition, &["v", "bad", "ReadVariableOp"]);
}

#[test]
fn dividing_integers_by_zero_is_refused() {
    for op in ["Div", "FloorDiv", "FloorMod", "TruncateDiv"] {
        let graph = graph().constant("a", ints(&[1, 2])).constant("b", ints(&[1, 0]));
        // TensorFlow 2.21 notices the last one only when it has divided.
        let code = if op == "TruncateDiv" { Code::Internal } else { Code::InvalidArgument };
        check(
            graph.typed("bad", op, &["a", "b"], DType::Int32),
            code,
            &["Integer division by zero", "bad", op],
        );
    }
}

#[test]
fn an_index_out_of_range_is_shown_with_the_range() {
    for (index, shown) in [(7, "indices[1] = 7 is not in [0, 3)"), (-1, "indices[1] = -1 is not in [0, 3)")] {
        let graph = graph()
            .constant("params", ints(&[1, 2, 3]))
            .constant("at", ints(&[0, index]))
            .constant("axis", 0i32);
        let attrs = [
            ("Tparams", DType::Int32.into()),
            ("Tindices", DType::Int32.into()),
            ("Taxis", DType::Int32.into()),
        ];
        let graph = graph.node("bad", "GatherV2", &["params", "at", "axis"], &attrs);
        check(graph, Code::InvalidArgument, &[shown, "bad", "GatherV2"]);
    }
}

#[test]
fn a_shape_whose_size_overflows_is_refused_before_anything_is_allocated() {
    let fill = |dims: Tensor| {
        let attrs = [("T", FLOAT.into()), ("index_type", dims.dtype().into())];
        graph().constant("dims", dims).constant("x", 1.0f32).node("bad", "Fill", &["dims", "x"], &attrs)
    };
    let overflowing = Tensor::vector(&[i64::MAX, i64::MAX]).unwrap();
    check(fill(overflowing), Code::InvalidArgument, &["bad", "Fill"]);
    check(fill(ints(&[-1])), Code::InvalidArgument, &["bad", "Fill"]);
    let huge = Tensor::vector(&[1i64 << 50]).unwrap();
    check(fill(huge), Code::ResourceExhausted, &["bad", "Fill"]);
}

#[test]
fn bad_requests_name_what_is_missing() {
    let session = session();
    let run = |feeds: &[(&str, Tensor)], fetches: &[&str], targets: &[&str]| {
        session.run(feeds, fetches, targets, &RunOptions::default()).unwrap_err()
    };
    for (status, code) in [
        (run(&[], &["gone:0"], &[]), Code::NotFound),
        (run(&[], &[], &["gone"]), Code::NotFound),
        (run(&[("gone:0", Tensor::scalar(1i32))], &["fine:0"], &[]), Code::NotFound),
    ] {
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains("gone"), "{status}");
    }
    let wrong_dtype = run(&[("fine:0", Tensor::scalar(1.0f32))], &["fine:0"], &[]);
    assert_eq!(wrong_dtype.code(), Code::InvalidArgument, "{wrong_dtype}");
    assert_eq!(fetch(&session, "fine:0").unwrap(), [Tensor::scalar(42i32)]);
}
