//! Resource variables: an edge carries a handle, and every op looks the variable up.
//!
//! Making a handle makes nothing; the first assignment makes the variable, and destroying it forgets it.

use std::sync::{Arc, OnceLock};

use tensorfleet_core::{DType, PartialShape, ResourceHandle, Result, Status, Tensor, ensure};

use super::naming::no_outputs;
use crate::state::variable_ops::count;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox, handle_in};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::{scalars, unknown};
use tensorfleet_kernel::variable::Variable;
use tensorfleet_numeric::assign::{add_assign, sub_assign};
use tensorfleet_ops_tensor::graph_ops::passed_back;
use tensorfleet_threads::Loops;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("VarHandleOp", "-> resource: resource")
        .attrs(
            "container: string = ''; shared_name: string = ''; debug_name: string = ''; dtype: type; \
             shape: shape; allowed_devices: list(string) = []",
        )
        .stateful()
        .shape(scalars)
        .kernel(var_handle)
        .cost(Cost::Trivial),
    Op::new("VarIsInitializedOp", "resource: resource -> is_initialized: bool")
        .not_differentiable()
        .stateful()
        .shape(scalars)
        .kernel(is_initialized)
        .cost(Cost::Trivial),
    // Readers share a variable's value anyway; a writer copies only while somebody holds it.
    Op::new("DisableCopyOnRead", "resource: resource")
        .not_differentiable()
        .stateful()
        .shape(no_outputs)
        .kernel(disable_copy_on_read)
        .cost(Cost::Trivial),
    Op::new("ReadVariableOp", "resource: resource -> value: dtype")
        .gradient(passed_back)
        .attrs("dtype: type")
        .stateful()
        .shape(unknown)
        .kernel(read)
        .cost(Cost::Trivial),
    Op::new("AssignVariableOp", "resource: resource, value: dtype")
        .attrs("dtype: type; validate_shape: bool = false")
        .stateful()
        .shape(no_outputs)
        .writes_variable()
        .kernel(assign)
        .cost(Cost::Trivial),
    Op::new("AssignAddVariableOp", "resource: resource, value: dtype")
        .work(Work::Inputs)
        .attrs("dtype: type")
        .stateful()
        .shape(no_outputs)
        .writes_variable()
        .kernel(|_| update(add_assign)),
    Op::new("AssignSubVariableOp", "resource: resource, value: dtype")
        .work(Work::Inputs)
        .attrs("dtype: type")
        .stateful()
        .shape(no_outputs)
        .writes_variable()
        .kernel(|_| update(sub_assign)),
    Op::new("VariableShape", "input: resource -> output: out_type")
        .not_differentiable()
        .attrs("out_type: {int32, int64} = int32")
        .stateful()
        .shape(|_| Ok(vec![PartialShape::of_rank(1)]))
        .kernel(variable_shape)
        .cost(Cost::Trivial),
    Op::new("ResourceCountUpTo", "resource: resource -> output: T")
        .attrs("limit: int; T: {int32, int64}")
        .stateful()
        .shape(scalars)
        .kernel(count_up_to)
        .cost(Cost::Trivial),
    Op::new("DestroyResourceOp", "resource: resource")
        .attrs("ignore_lookup_error: bool = true")
        .stateful()
        .shape(no_outputs)
        .kernel(destroy)
        .cost(Cost::Trivial),
];

fn var_handle(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let container: String = node.attr("container")?;
    let shared_name: String = node.attr("shared_name")?;
    let name = if shared_name.is_empty() { node.name().to_string() } else { shared_name };
    let (dtype, shape): (DType, PartialShape) = (node.attr("dtype")?, node.attr("shape")?);
    // The handle never changes: a kernel runs on one device.
    let handle = OnceLock::new();
    Ok(KernelBox::from_fn(move |ctx| {
        let make = || {
            let container = ctx.step.session.resources.container(&container);
            let types = vec![(dtype, shape.clone())];
            Tensor::resource(ResourceHandle::with_types(
                &ctx.step.session.device,
                container,
                &name,
                Variable::kind(),
                types,
            ))
        };
        let handle = handle.get_or_init(make).clone();
        ctx.set_output(0, handle);
        Ok(())
    }))
}

fn disable_copy_on_read(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| ctx.variable(0).map(drop)))
}

fn is_initialized(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let handle = handle_in(ctx.input(0)?)?;
        let variable = ctx.step.session.resources.get::<Variable>(handle.container(), handle.name());
        let initialized = variable.is_some_and(|variable| variable.is_initialized());
        ctx.set_output(0, Tensor::scalar(initialized));
        Ok(())
    }))
}

/// The value of the variable in input `index`, with the errors of ops that read.
fn value_of(ctx: &Context<'_>, index: usize) -> Result<Tensor> {
    let handle = handle_in(ctx.input(index)?)?;
    let found = ctx.step.session.resources.get::<Variable>(handle.container(), handle.name());
    found.and_then(|variable| variable.snapshot()).ok_or_else(|| cannot_find(&handle))
}

#[cold]
fn cannot_find(handle: &ResourceHandle) -> Status {
    let (container, name) = (handle.container(), handle.name());
    Status::failed_precondition(format!(
        "Could not find variable {name}. This could mean that the variable has been deleted. In TF1, it can \
         also mean the variable is uninitialized. Debug info: container={container}, status error \
         message=Resource {container}/{name}/{} does not exist.",
        Variable::kind()
    ))
}

fn read(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let value = value_of(ctx, 0)?;
        ensure!(
            value.dtype() == dtype,
            InvalidArgument,
            "Trying to read variable with wrong dtype. Expected {dtype} got {}",
            value.dtype()
        );
        ctx.set_output(0, value);
        Ok(())
    }))
}

fn assign(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let validate: bool = node.attr("validate_shape")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let handle = handle_in(ctx.input(0)?)?;
        let value = ctx.take_input(1)?.kept()?;
        let make = || Ok(Variable::new(handle.name(), value.dtype()));
        let variable = ctx.step.session.resources.get_or_create(handle.container(), handle.name(), make)?;
        ensure!(
            variable.dtype() == value.dtype(),
            InvalidArgument,
            "Trying to assign variable with wrong dtype. Expected {} got {}",
            variable.dtype(),
            value.dtype()
        );
        let _old = variable.update_or_init(|current| {
            if let (true, Some(current)) = (validate, &current) {
                ensure!(
                    current.shape() == value.shape(),
                    InvalidArgument,
                    "Trying to assign to variable with tensor with wrong shape. Expected {} got {}",
                    current.shape(),
                    value.shape()
                );
            }
            Ok(current.replace(value))
        })?;
        Ok(())
    }))
}

/// The variable in input `index` for an update in place: it must exist.
pub(super) fn variable_to_update(ctx: &Context<'_>, index: usize) -> Result<Arc<Variable>> {
    let variable = ctx.variable(index)?;
    // The first assignment is what makes a resource variable, so this one is not there yet.
    ensure!(
        variable.is_initialized() || ctx.input(index).is_err(),
        NotFound,
        "Resource {} does not exist: the variable is uninitialized.",
        variable.name()
    );
    Ok(variable)
}

/// `AssignAddVariableOp` and `AssignSubVariableOp`.
fn update(apply: fn(&Loops, &mut Tensor, &Tensor) -> Result<()>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let variable = variable_to_update(ctx, 0)?;
        let operand = ctx.take_input(1)?;
        ensure!(
            variable.dtype() == operand.dtype(),
            InvalidArgument,
            "DType of variable handle and value does not match. Expected {} got {}",
            variable.dtype(),
            operand.dtype()
        );
        variable.update(|value| {
            ensure!(
                value.shape() == operand.shape(),
                InvalidArgument,
                "Cannot update variable with shape {} using a Tensor with shape {}, shapes must be equal.",
                value.shape(),
                operand.shape()
            );
            apply(ctx.loops(), value, &operand)
        })
    }))
}

fn variable_shape(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let out_type = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let variable = variable_to_update(ctx, 0)?;
        let shape = variable.inspect(|value| Ok(value.shape().clone()))?;
        let dims = if out_type == DType::Int64 {
            Tensor::vector(&shape.iter().map(|&dim| dim as i64).collect::<Vec<_>>())?
        } else {
            let dim = |&dim| {
                i32::try_from(dim).map_err(|_| {
                    Status::invalid_argument(format!("dimension {dim} of {shape} exceeds int32"))
                })
            };
            Tensor::vector(&shape.iter().map(dim).collect::<Result<Vec<_>>>()?)?
        };
        ctx.set_output(0, dims);
        Ok(())
    }))
}

fn count_up_to(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let limit: i64 = node.attr("limit")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let counted = count(&variable_to_update(ctx, 0)?, limit)?;
        ctx.set_output(0, counted);
        Ok(())
    }))
}

fn destroy(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let ignore: bool = node.attr("ignore_lookup_error")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let handle = handle_in(ctx.input(0)?)?;
        let found = ctx.step.session.resources.remove::<Variable>(handle.container(), handle.name());
        ensure!(
            found || ignore,
            NotFound,
            "Resource {}/{}/{} does not exist.",
            handle.container(),
            handle.name(),
            Variable::kind()
        );
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op, test_step};
    use tensorfleet_core::Code;
    use tensorfleet_kernel::kernel::StepContext;

    fn handle(step: &Arc<StepContext>, dtype: DType) -> Tensor {
        let op = test_op("VarHandleOp").attr("dtype", dtype).attr("shape", PartialShape::unknown());
        op.attr("shared_name", "w").in_step(step).run_one().unwrap()
    }

    struct Fixture {
        step: Arc<StepContext>,
        handle: Tensor,
    }

    impl Fixture {
        fn new() -> Fixture {
            let step = test_step();
            Fixture { handle: handle(&step, DType::Float), step }
        }

        fn op(&self, op: &str) -> TestOp {
            test_op(op).in_step(&self.step).input(self.handle.clone())
        }

        fn read(&self) -> Result<Tensor> {
            self.op("ReadVariableOp").attr("dtype", DType::Float).run_one()
        }

        fn write(&self, op: &str, values: &[f32]) -> Result<()> {
            let op = self.op(op).attr("dtype", DType::Float);
            op.input(Tensor::vector(values).unwrap()).run().map(drop)
        }

        fn is_initialized(&self) -> bool {
            self.op("VarIsInitializedOp").run_one().unwrap().to_scalar().unwrap()
        }
    }

    #[test]
    fn a_variable_exists_from_its_first_assignment_until_it_is_destroyed() {
        let f = Fixture::new();
        assert!(!f.is_initialized());
        let status = f.read().unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.text().starts_with("Could not find variable w. This could mean"));
        assert_eq!(f.write("AssignAddVariableOp", &[1.0]).unwrap_err().code(), Code::NotFound);
        assert_eq!(f.op("VariableShape").run().unwrap_err().code(), Code::NotFound);

        f.write("AssignVariableOp", &[1.0, 2.0]).unwrap();
        assert!(f.is_initialized());
        let before = f.read().unwrap();
        f.write("AssignAddVariableOp", &[1.0, 1.0]).unwrap();
        f.write("AssignSubVariableOp", &[0.0, 4.0]).unwrap();
        assert_eq!(before.as_slice::<f32>().unwrap(), [1.0, 2.0], "a read is a snapshot");
        assert_eq!(f.read().unwrap().as_slice::<f32>().unwrap(), [2.0, -1.0]);
        assert_eq!(f.op("VariableShape").run_one().unwrap().as_slice::<i32>().unwrap(), [2]);

        let destroy = |ignore: bool| f.op("DestroyResourceOp").attr("ignore_lookup_error", ignore).run();
        destroy(false).unwrap();
        assert_eq!(destroy(false).unwrap_err().code(), Code::NotFound);
        destroy(true).unwrap();
        assert!(!f.is_initialized());
    }

    #[test]
    fn assignment_may_change_the_shape_but_not_the_dtype() {
        let f = Fixture::new();
        f.write("AssignVariableOp", &[1.0]).unwrap();
        f.write("AssignVariableOp", &[1.0, 2.0]).unwrap();
        let status = f.write("AssignAddVariableOp", &[1.0]).unwrap_err();
        assert_eq!(
            status.text(),
            "Cannot update variable with shape [2] using a Tensor with shape [1], shapes must be equal."
        );
        let strict = f.op("AssignVariableOp").attr("dtype", DType::Float).attr("validate_shape", true);
        let status = strict.input(Tensor::vector(&[1.0f32]).unwrap()).run().unwrap_err();
        assert!(status.text().contains("Expected [2] got [1]"));
        let other = f.op("AssignVariableOp").attr("dtype", DType::Int32).input(Tensor::scalar(1i32));
        assert_eq!(other.run().unwrap_err().code(), Code::InvalidArgument);
        let other = f.op("ReadVariableOp").attr("dtype", DType::Int32);
        assert!(other.run().unwrap_err().text().contains("Expected int32 got float"));
    }

    #[test]
    fn counting_needs_a_value() {
        let f = Fixture::new();
        let count = || f.op("ResourceCountUpTo").attr("T", DType::Int64).attr("limit", 1i64).run_one();
        assert_eq!(count().unwrap_err().code(), Code::NotFound);
        let assign = f.op("AssignVariableOp").attr("dtype", DType::Int64).input(Tensor::scalar(0i64));
        assign.run().unwrap();
        assert_eq!(count().unwrap().to_scalar::<i64>(), Ok(0));
        assert_eq!(count().unwrap_err().code(), Code::OutOfRange);
    }
}
