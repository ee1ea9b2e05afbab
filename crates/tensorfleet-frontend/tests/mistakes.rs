//! Mistakes are reported while the graph is built, in TensorFlow's words, and spoil nothing else.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{Code, DType, Graph, Output, PartialShape, Result, Session};

fn message(result: Result<Output>) -> String {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    status.message()
}

#[test]
fn wrong_types_are_named_with_their_argument() {
    let g = Graph::new();
    let a = g.placeholder(DType::Float, [2, 3]);
    let b = g.placeholder(DType::Int32, [2, 3]);
    for (result, expected) in [
        (
            a.matmul(&b),
            "Input 'b' of 'MatMul' Op has type int32 that does not match type float32 of argument 'a'.",
        ),
        (
            a.add(&b),
            "Input 'y' of 'AddV2' Op has type int32 that does not match type float32 of argument 'x'.",
        ),
        (
            g.concat([&a, &b], 0),
            "Tensors in list passed to 'values' of 'ConcatV2' Op have types [float32, int32] that don't all match.",
        ),
        (
            g.constant("x").relu(),
            "Value passed to parameter 'features' has DataType string not in list of allowed values: float32, float64",
        ),
        (
            g.add_n([] as [Output; 0]),
            "List argument 'inputs' to 'AddN' Op with length 0 shorter than minimum length 1.",
        ),
        (
            a.logical_and(&a),
            "Input 'x' of 'LogicalAnd' Op has type float32 that does not match expected type of bool.",
        ),
    ] {
        let message = message(result);
        assert!(message.contains(expected), "{message}\nshould contain\n{expected}");
    }
}

#[test]
fn clashing_shapes_are_found_before_anything_runs() {
    let g = Graph::new();
    let a = g.placeholder(DType::Float, [2, 3]);
    let found = message(a.matmul(&a));
    assert!(found.contains("Dimensions must be equal, but are 3 and 2"), "{found}");
    assert!(found.contains("with input shapes: [2,3], [2,3]"), "{found}");
    assert!(found.contains("{{node MatMul}}"), "{found}");
    message(a.reshape([5]));
    message((&a + [1.0, 2.0]).check());
}

#[test]
fn a_bad_expression_carries_its_error_and_its_line() {
    let g = Graph::new();
    let a = g.constant([1.0f32, 2.0]);
    let bad = (&a + g.constant([1.0f32, 2.0, 3.0])) * 2.0;
    let later = message(bad.relu());
    assert!(later.contains("mistakes.rs:"), "{later}");
    let session = Session::new(&g);
    assert_eq!(message(session.run(&bad).map(|_| bad.clone())), later);
    assert_eq!(session.run(&a * 2.0).unwrap().as_slice::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn other_graphs_missing_ops_and_wrong_attributes_are_refused() {
    let (g, other) = (Graph::new(), Graph::new());
    let (a, foreign) = (g.constant(1.0f32), other.constant(1.0f32));
    assert!(message(a.add(&foreign)).contains("is not an element of this graph"));
    assert!(message(Session::new(&g).run(&foreign).map(|_| a.clone())).contains("is not an element"));
    assert_eq!(g.op("NoSuchOp").build().unwrap_err().code(), Code::NotFound);
    assert!(
        message(g.op("Identity").input(&a).attr("nonsense", 1i64).output()).contains("no attr 'nonsense'")
    );
    assert!(message(g.op("Placeholder").output()).contains("needs a value for attr 'dtype'"));
    assert!(message(g.op("Identity").output()).contains("takes 1 inputs (input), got 0"));
    let status = g.op("Assign").input(&a).input(&a).output().unwrap_err();
    assert!(status.message().contains("requires that input 'ref' be a mutable tensor"), "{status}");
    assert!(g.constant(vec![vec![1], vec![2, 3]]).check().is_err());
    assert!(g.operation("nowhere").is_err() && g.output("Const:1").is_err());
}

#[test]
fn literals_take_the_type_of_their_place_but_never_lose_an_integer() -> Result<()> {
    let g = Graph::new();
    let (float, long) = (g.placeholder(DType::Float, ()), g.placeholder(DType::Int64, ()));
    assert_eq!((&float + 2).dtype()?, DType::Float);
    assert_eq!((2.5 * &float).dtype()?, DType::Float);
    assert_eq!((&long - 1).dtype()?, DType::Int64);
    assert_eq!((&long / 2).dtype()?, DType::Double);
    assert!(message((&long + 1.5).check()).contains("has type float64 that does not match type int64"));
    let byte = g.placeholder(DType::UInt8, ());
    assert!((&byte + 300).check().is_err());
    assert!(message((&float + g.constant(1.0)).check()).contains("write 1.0f32"));
    Ok(())
}

#[test]
fn shapes_follow_through_shape_arithmetic() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, [-1, 3, 4]);
    let batch = x.shape_tensor()?.index(0..1)?;
    let target = g.concat([batch, g.constant([12])], 0)?;
    assert_eq!(x.reshape(&target)?.shape()?.to_string(), "[?,12]");
    let packed = g.stack([x.shape_tensor()?.index(1)?, g.constant(2)])?;
    assert_eq!(packed.constant_value().unwrap().as_slice::<i32>()?, [3, 2]);
    assert_eq!(g.fill(packed.cast(DType::Int64)?, 0.0)?.shape()?.to_string(), "[3,2]");
    let known = g.placeholder(DType::Float, [2, 3]);
    assert_eq!(known.size()?.constant_value().unwrap().to_scalar::<i32>()?, 6);
    assert_eq!(known.rank()?.constant_value().unwrap().to_scalar::<i32>()?, 2);
    assert_eq!(g.fill(known.shape_tensor()? * 2, 1.0)?.shape()?.to_string(), "[4,6]");
    x.set_shape([7, -1, -1])?;
    assert_eq!(x.shape()?.to_string(), "[7,3,4]");
    assert!(x.set_shape([8, 3, 4]).is_err());
    assert_eq!(g.placeholder(DType::Float, PartialShape::unknown()).relu()?.shape()?.rank(), None);
    Ok(())
}
