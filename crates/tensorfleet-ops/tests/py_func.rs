//! `PyFunc` with and without an interpreter in the process: here a closure stands for it.

use tensorfleet_core::{Code, DType, Status, Tensor};
use tensorfleet_kernel::py_func::set_py_func;
use tensorfleet_kernel::testing::TestOp;

fn call(token: &str, results: Vec<DType>) -> tensorfleet_core::Result<Vec<Tensor>> {
    TestOp::new(tensorfleet_ops::catalogue(), "PyFunc")
        .attr("token", token)
        .attr("Tin", vec![DType::Float])
        .attr("Tout", results)
        .input(Tensor::scalar(2.0_f32))
        .run()
}

#[test]
fn a_node_calls_the_function_of_its_process() {
    let refused = call("double", vec![DType::Float]).unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused}");

    set_py_func(Box::new(|token, arguments, _| match token {
        "double" => Ok(vec![Tensor::scalar(arguments[0].to_scalar::<f32>()? * 2.0)]),
        _ => Err(Status::out_of_range("the end")),
    }));
    let doubled = call("double", vec![DType::Float]).unwrap();
    assert_eq!(doubled[0].to_scalar::<f32>().unwrap(), 4.0);
    assert_eq!(call("other", vec![DType::Float]).unwrap_err().code(), Code::OutOfRange);

    let too_few = call("double", vec![DType::Float, DType::Float]).unwrap_err();
    assert!(too_few.text().contains("double returns 1 values, but expects to see 2 values."), "{too_few}");
    let other_type = call("double", vec![DType::Int32]).unwrap_err();
    assert!(other_type.text().contains("0-th value returned by double is float, but expects int32"), "{other_type}");
}
