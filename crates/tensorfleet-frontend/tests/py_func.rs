//! `PyFunc` with and without an interpreter in the process: here a closure stands for it.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{Code, DType, Graph, Result, Session, Status, Tensor};
use tensorfleet_kernel::py_func::set_py_func;

fn call(token: &str, results: Vec<DType>) -> Result<Tensor> {
    let g = Graph::new();
    let x = g.constant(2.0_f32);
    let called = g.op("PyFunc").inputs([&x]).attr("token", token).attr("Tout", results).output()?;
    Session::new(&g).run(&called)
}

#[test]
fn a_node_calls_the_function_of_its_process() {
    let refused = call("double", vec![DType::Float]).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused}");

    set_py_func(Box::new(|token, arguments, _| match token {
        "double" => Ok(vec![Tensor::scalar(arguments[0].to_scalar::<f32>()? * 2.0)]),
        _ => Err(Status::out_of_range("the end")),
    }));
    assert_eq!(call("double", vec![DType::Float]).unwrap().to_scalar::<f32>().unwrap(), 4.0);
    assert_eq!(call("other", vec![DType::Float]).unwrap_err().code(), Code::OutOfRange);

    let too_few = call("double", vec![DType::Float, DType::Float]).unwrap_err();
    assert!(too_few.message().contains("double returns 1 values, but expects to see 2 values."), "{too_few}");
    let other_type = call("double", vec![DType::Int32]).unwrap_err();
    assert!(
        other_type.message().contains("0-th value returned by double is float, but expects int32"),
        "{other_type}"
    );
}
