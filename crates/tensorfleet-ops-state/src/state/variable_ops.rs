//! Reference variables: an edge carries the variable itself.
//!
//! All nodes with the same container and name, in whatever session of the task, mean the same variable.

use std::sync::Arc;

use tensorfleet_core::{PartialShape, Result, Status, Tensor, ensure};

use super::naming::{container_attr, shared_name_attr};
use tensorfleet_kernel::Work;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_kernel::variable::Variable;
use tensorfleet_numeric::assign::{add_assign, sub_assign};
use tensorfleet_threads::Loops;

const VARIABLE_ATTRS: &str = "shape: shape; dtype: type; container: string = ''; shared_name: string = ''";

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Variable", "-> ref: Ref(dtype)")
        .attrs(VARIABLE_ATTRS)
        .stateful()
        .shape(old_variable_shape)
        .kernel(variable)
        .cost(Cost::Trivial),
    Op::new("VariableV2", "-> ref: Ref(dtype)")
        .attrs(VARIABLE_ATTRS)
        .stateful()
        .shape(declared_shape)
        .kernel(variable)
        .cost(Cost::Trivial),
    Op::new("TemporaryVariable", "-> ref: Ref(dtype)")
        .attrs("shape: shape; dtype: type; var_name: string = ''")
        .stateful()
        .shape(declared_shape)
        .kernel(temporary_variable)
        .cost(Cost::Trivial),
    Op::new("DestroyTemporaryVariable", "ref: Ref(T) -> value: T")
        .attrs("T: type; var_name: string")
        .shape(tensorfleet_kernel::shape_context::same_as_input)
        .kernel(destroy_temporary_variable)
        .cost(Cost::Trivial),
    Op::new("IsVariableInitialized", "ref: Ref(dtype) -> is_initialized: bool")
        .attrs("dtype: type")
        .shape(scalars)
        .kernel(is_initialized)
        .cost(Cost::Trivial)
        .allow_uninitialized(),
    Op::new("Assign", "ref: Ref(T), value: T -> output_ref: Ref(T)")
        .not_differentiable()
        .attrs("T: type; validate_shape: bool = true; use_locking: bool = true")
        .shape(assign_shape)
        .writes_variable()
        .kernel(assign)
        .cost(Cost::Trivial)
        .allow_uninitialized(),
    Op::new("AssignAdd", "ref: Ref(T), value: T -> output_ref: Ref(T)")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("T: number; use_locking: bool = false")
        .shape(update_shape)
        .writes_variable()
        .kernel(|_| update(add_assign)),
    Op::new("AssignSub", "ref: Ref(T), value: T -> output_ref: Ref(T)")
        .work(Work::Inputs)
        .not_differentiable()
        .attrs("T: number; use_locking: bool = false")
        .shape(update_shape)
        .writes_variable()
        .kernel(|_| update(sub_assign)),
    Op::new("CountUpTo", "ref: Ref(T) -> output: T")
        .attrs("limit: int; T: {int32, int64}")
        .shape(scalars)
        .kernel(count_up_to)
        .cost(Cost::Trivial),
];

fn declared_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.attr("shape")?])
}

/// The old op writes "unknown" as a scalar shape.
fn old_variable_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape: PartialShape = ctx.attr("shape")?;
    Ok(vec![if shape.rank() == Some(0) { PartialShape::unknown() } else { shape }])
}

fn variable(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let container = container_attr(node)?;
    let shared_name = shared_name_attr(node)?;
    let name = if shared_name.is_empty() { node.name().to_string() } else { shared_name };
    let dtype = node.output_dtype(0)?;
    let shape: PartialShape = node.attr("shape")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let make = || Ok(Variable::with_shape(&name, dtype, shape.clone()));
        let variable = ctx.step.session.resources.get_or_create(&container, &name, make)?;
        ensure!(
            variable.dtype() == dtype,
            Internal,
            "variable {name} has dtype {}, but this node asks for {dtype}",
            variable.dtype()
        );
        ctx.set_ref_output(0, variable);
        Ok(())
    }))
}

/// Where temporary variables live among a step's resources.
const TEMPORARY: &str = "temporary_variables";

fn temporary_variable(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let var_name: String = node.attr("var_name")?;
    let name = if var_name.is_empty() { node.name().to_string() } else { var_name };
    let dtype = node.output_dtype(0)?;
    let shape: PartialShape = node.attr("shape")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let mut is_new = false;
        let make = || {
            is_new = true;
            Ok(Variable::with_shape(&name, dtype, shape.clone()))
        };
        let key = temporary_key(ctx, &name);
        let variable = ctx.step.step_resources.get_or_create(TEMPORARY, &key, make)?;
        ensure!(is_new, AlreadyExists, "Resource {TEMPORARY}/{name} already exists.");
        // It counts as initialised from the start, with whatever it holds.
        if let Some(shape) = shape.to_shape() {
            variable.assign(Tensor::zeros(dtype, shape)?);
        }
        ctx.set_ref_output(0, variable);
        Ok(())
    }))
}

/// Every iteration of a loop has its own temporaries.
fn temporary_key(ctx: &Context<'_>, name: &str) -> String {
    format!("{}:{}/{name}", ctx.frame.frame_id, ctx.frame.iteration)
}

fn destroy_temporary_variable(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let name: String = node.attr("var_name")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let value = ctx.variable(0)?.read()?;
        let key = temporary_key(ctx, &name);
        let found = ctx.step.step_resources.remove::<Variable>(TEMPORARY, &key);
        ensure!(found, NotFound, "Resource {TEMPORARY}/{name} does not exist.");
        ctx.set_output(0, value);
        Ok(())
    }))
}

fn is_initialized(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let initialized = ctx.variable(0)?.is_initialized();
        ctx.set_output(0, Tensor::scalar(initialized));
        Ok(())
    }))
}

fn assign_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let validate: bool = ctx.attr("validate_shape")?;
    Ok(vec![if validate { ctx.input(0).merge(ctx.input(1))? } else { ctx.input(1).clone() }])
}

fn assign(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let validate: bool = node.attr("validate_shape")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let variable = ctx.variable(0)?;
        let value = ctx.take_input(1)?.kept()?;
        check_dtype(&variable, &value)?;
        // The old value goes after the lock is released.
        let _old = variable.update_or_init(|current| {
            if validate {
                check_assigned_shape(&variable, current.as_ref(), &value)?;
            }
            Ok(current.replace(value))
        })?;
        ctx.set_ref_output(0, variable);
        Ok(())
    }))
}

fn check_assigned_shape(variable: &Variable, current: Option<&Tensor>, value: &Tensor) -> Result<()> {
    let (fits, left) = match current {
        Some(current) => (current.shape() == value.shape(), current.shape().to_string()),
        None => {
            let declared = variable.declared_shape();
            (declared.admits(value.shape()), declared.to_string())
        }
    };
    ensure!(
        fits,
        InvalidArgument,
        "Assign requires shapes of both tensors to match. lhs shape= {left} rhs shape= {}",
        value.shape()
    );
    Ok(())
}

fn check_dtype(variable: &Variable, value: &Tensor) -> Result<()> {
    ensure!(
        variable.dtype() == value.dtype(),
        InvalidArgument,
        "variable {} has dtype {}, but the value is {}",
        variable.name(),
        variable.dtype(),
        value.dtype()
    );
    Ok(())
}

fn update_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.input(0).merge(ctx.input(1))?])
}

/// `AssignAdd` and `AssignSub`.
fn update(apply: fn(&Loops, &mut Tensor, &Tensor) -> Result<()>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let variable = ctx.variable(0)?;
        let operand = ctx.take_input(1)?;
        check_dtype(&variable, &operand)?;
        variable.update(|value| {
            ensure!(
                value.shape() == operand.shape(),
                InvalidArgument,
                "Parameters and update must be the same size: the variable's shape is {}, the update's {}",
                value.shape(),
                operand.shape()
            );
            apply(ctx.loops(), value, &operand)
        })?;
        ctx.set_ref_output(0, variable);
        Ok(())
    }))
}

fn count_up_to(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let limit: i64 = node.attr("limit")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let counted = count(&ctx.variable(0)?, limit)?;
        ctx.set_output(0, counted);
        Ok(())
    }))
}

/// Increments an integer scalar and returns what it was; refuses to pass `limit`.
pub(super) fn count(variable: &Arc<Variable>, limit: i64) -> Result<Tensor> {
    variable.update(|value| {
        let before = tensorfleet_kernel::shape_context::integers_of(value)?;
        let [before] = before[..] else {
            return Err(Status::invalid_argument(format!("input is not a scalar: {}", value.shape())));
        };
        ensure!(before < limit, OutOfRange, "Reached limit of {limit}");
        let counted = value.clone();
        tensorfleet_numeric::dispatch!(value.dtype(), T in index => {
            value.make_mut::<T>()?.iter_mut().for_each(|count| *count = count.wrapping_add(1));
            Ok(())
        })?;
        Ok(counted)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{test_op, test_step};
    use tensorfleet_core::{Code, DType};
    use tensorfleet_kernel::kernel::{StepContext, Value};

    fn make_variable(step: &Arc<StepContext>, name: &str, dtype: DType) -> Result<Arc<Variable>> {
        let op = test_op("VariableV2").attr("dtype", dtype).attr("shape", PartialShape::vector(Some(2)));
        match op.attr("shared_name", name).in_step(step).run_values()?.pop() {
            Some(Some(Value::Ref(variable))) => Ok(variable),
            other => panic!("not a reference: {other:?}"),
        }
    }

    fn floats(values: &[f32]) -> Tensor {
        Tensor::vector(values).unwrap()
    }

    #[test]
    fn nodes_of_one_name_share_a_variable_unless_the_dtype_differs() {
        let step = test_step();
        let first = make_variable(&step, "v", DType::Float).unwrap();
        assert!(Arc::ptr_eq(&first, &make_variable(&step, "v", DType::Float).unwrap()));
        assert!(!Arc::ptr_eq(&first, &make_variable(&step, "w", DType::Float).unwrap()));
        assert_eq!(make_variable(&step, "v", DType::Int32).unwrap_err().code(), Code::Internal);
        let bad = test_op("VariableV2").attr("dtype", DType::Float).attr("shape", PartialShape::scalar());
        let status = bad.attr("container", "a_b").run().unwrap_err();
        assert_eq!(
            (status.code(), status.text()),
            (Code::InvalidArgument, "container contains invalid characters: a_b")
        );
    }

    #[test]
    fn assign_keeps_to_the_shape_unless_told_otherwise() {
        let step = test_step();
        let v = make_variable(&step, "v", DType::Float).unwrap();
        let assign = |values: &[f32], validate: bool| {
            let op = test_op("Assign").attr("T", DType::Float).attr("validate_shape", validate);
            op.variable(&v).input(floats(values)).run_one()
        };
        let status = assign(&[1.0, 2.0, 3.0], true).unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(
            status.text(),
            "Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]"
        );
        assert!(!v.is_initialized());
        assert_eq!(assign(&[1.0, 2.0], true).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assign(&[1.0, 2.0, 3.0], false).unwrap();
        assert!(assign(&[1.0, 2.0], true).unwrap_err().text().contains("lhs shape= [3] rhs shape= [2]"));
        assert_eq!(v.read().unwrap().num_elements(), 3);
    }

    #[test]
    fn updates_need_a_value_of_the_same_shape() {
        let step = test_step();
        let v = make_variable(&step, "v", DType::Float).unwrap();
        let run = |op: &str, values: &[f32]| {
            test_op(op).attr("T", DType::Float).variable(&v).input(floats(values)).run_one()
        };
        assert_eq!(run("AssignAdd", &[1.0]).unwrap_err().code(), Code::FailedPrecondition);
        v.assign(floats(&[1.0, 2.0]));
        assert_eq!(run("AssignAdd", &[1.0, 1.0]).unwrap().as_slice::<f32>().unwrap(), [2.0, 3.0]);
        assert_eq!(run("AssignSub", &[3.0, 1.0]).unwrap().as_slice::<f32>().unwrap(), [-1.0, 2.0]);
        let status = run("AssignSub", &[3.0]).unwrap_err();
        assert!(status.text().starts_with("Parameters and update must be the same size"));
    }

    #[test]
    fn a_counter_stops_at_its_limit() {
        let v = Arc::new(Variable::new("n", DType::Int32));
        v.assign(Tensor::scalar(1i32));
        let count =
            || test_op("CountUpTo").attr("T", DType::Int32).attr("limit", 3i64).variable(&v).run_one();
        assert_eq!(count().unwrap().to_scalar::<i32>(), Ok(1));
        assert_eq!(count().unwrap().to_scalar::<i32>(), Ok(2));
        let status = count().unwrap_err();
        assert_eq!((status.code(), status.text()), (Code::OutOfRange, "Reached limit of 3"));
        assert_eq!(v.read().unwrap().to_scalar::<i32>(), Ok(3));
    }

    #[test]
    fn a_temporary_lives_until_destroyed_and_once_at_a_time() {
        let step = test_step();
        let make = || {
            let op = test_op("TemporaryVariable").attr("dtype", DType::Float).attr("var_name", "t");
            op.attr("shape", PartialShape::vector(Some(2))).in_step(&step).run_values()
        };
        let destroy = |v: &Arc<Variable>| {
            let op = test_op("DestroyTemporaryVariable").attr("T", DType::Float).attr("var_name", "t");
            op.variable(v).in_step(&step).run_one()
        };
        let Some(Some(Value::Ref(v))) = make().unwrap().pop() else { panic!("not a reference") };
        assert_eq!(make().unwrap_err().code(), Code::AlreadyExists);
        v.assign(floats(&[1.0, 2.0]));
        assert_eq!(destroy(&v).unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(destroy(&v).unwrap_err().code(), Code::NotFound);
        make().unwrap();
    }
}
