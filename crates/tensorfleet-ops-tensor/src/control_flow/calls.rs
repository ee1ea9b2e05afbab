//! Nodes that call functions of the graph's library, and `ToBool`, which such branches and loops judge by.
//!
//! The calls have no kernels: a graph that arrives gets the functions' nodes in their place (the runtime's `functions`).
//! They are declared here so that functions can refer to their outputs by name.

use tensorfleet_core::{DType, Result, Tensor};

use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Call, Cost, Op};
use tensorfleet_kernel::shape_context::{scalars, unknown};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    call("PartitionedCall"),
    call("StatefulPartitionedCall").stateful(),
    branch("If"),
    branch("StatelessIf"),
    case("Case"),
    case("StatelessCase"),
    repeat("While"),
    repeat("StatelessWhile"),
    Op::new("ToBool", "input: T -> output: bool")
        .attrs("T: type")
        .not_differentiable()
        .cost(Cost::Trivial)
        .shape(scalars)
        .kernel(to_bool),
];

const fn call(name: &'static str) -> Op {
    Op::new(name, "args: Tin -> output: Tout")
        .attrs(
            "Tin: list(type) >= 0; Tout: list(type) >= 0; f: func; config: string = ''; config_proto: string = ''; \
             executor_type: string = ''",
        )
        .shape(unknown)
        .calls(Call::Function)
}

const fn branch(name: &'static str) -> Op {
    Op::new(name, "cond: Tcond, input: Tin -> output: Tout")
        .attrs(
            "Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; \
             output_shapes: list(shape) = []",
        )
        .shape(unknown)
        .calls(Call::If)
}

const fn case(name: &'static str) -> Op {
    Op::new(name, "branch_index: int32, input: Tin -> output: Tout")
        .attrs(
            "Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []",
        )
        .shape(unknown)
        .calls(Call::Case)
}

const fn repeat(name: &'static str) -> Op {
    Op::new(name, "input: T -> output: T")
        .attrs(
            "T: list(type) >= 0; cond: func; body: func; output_shapes: list(shape) = []; \
             parallel_iterations: int = 10",
        )
        .shape(unknown)
        .calls(Call::While)
}

/// A scalar is true if it is not zero or not the empty string; anything else if it has elements.
fn to_bool(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let input = ctx.input(0)?;
        let is_true = match (input.is_scalar(), input.dtype()) {
            (false, _) => input.num_elements() > 0,
            (true, DType::String) => !input.to_string_scalar()?.is_empty(),
            (true, DType::Float) => input.to_scalar::<f32>()? != 0.0,
            (true, DType::Double) => input.to_scalar::<f64>()? != 0.0,
            (true, dtype) if dtype.is_plain() => input.as_bytes()?.iter().any(|&byte| byte != 0),
            (true, dtype) => {
                return Err(tensorfleet_core::Status::invalid_argument(format!(
                    "a {dtype} scalar is neither true nor false"
                )));
            }
        };
        ctx.set_output(0, Tensor::scalar(is_true));
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    #[test]
    fn zero_the_empty_string_and_no_elements_are_false() {
        let truth = |value: Tensor| {
            let op = test_op("ToBool").with_shape_check().attr("T", value.dtype()).input(value);
            op.run_one().unwrap().to_scalar::<bool>().unwrap()
        };
        assert!(truth(Tensor::scalar(2i32)) && !truth(Tensor::scalar(0i32)));
        assert!(truth(Tensor::scalar(0.5f32)) && !truth(Tensor::scalar(-0.0f32)));
        assert!(truth(Tensor::string("x")) && !truth(Tensor::string("")));
        assert!(truth(Tensor::vector(&[0i32]).unwrap()) && !truth(Tensor::vector::<i32>(&[]).unwrap()));
    }
}
