//! Gathering straight from a resource variable, without a snapshot of the whole.

use std::sync::Arc;

use tensorfleet_core::{DType, Result, ensure};

use super::resource_variable_ops::variable_to_update;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::unknown;
use tensorfleet_kernel::variable::Variable;
use tensorfleet_ops_tensor::array::gather::{
    gather, gather_nd, gathered_rows, gathered_slices, scatter_back,
};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("ResourceGather", "resource: resource, indices: Tindices -> output: dtype")
        .work(Work::Measured)
        .gradient(gather_gradient)
        .attrs("batch_dims: int = 0; validate_indices: bool = true; dtype: type; Tindices: {int32, int64}")
        .stateful()
        .shape(unknown)
        .kernel(resource_gather)
        .touches_rows(),
    Op::new("ResourceGatherNd", "resource: resource, indices: Tindices -> output: dtype")
        .work(Work::Measured)
        .gradient(gather_nd_gradient)
        .attrs("dtype: type; Tindices: {int32, int64}")
        .stateful()
        .shape(unknown)
        .kernel(resource_gather_nd)
        .touches_rows(),
];

fn variable_to_read(ctx: &Context<'_>, dtype: DType) -> Result<Arc<Variable>> {
    let variable = variable_to_update(ctx, 0)?;
    ensure!(
        variable.dtype() == dtype,
        InvalidArgument,
        "Trying to read variable with wrong dtype. Expected {dtype} got {}",
        variable.dtype()
    );
    Ok(variable)
}

fn resource_gather(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let batch_dims: i64 = node.attr("batch_dims")?;
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let variable = variable_to_read(ctx, dtype)?;
        let indices = ctx.input(1)?;
        // The axis behind the batch dimensions is the one indexed.
        let axis = if batch_dims < 0 { batch_dims + indices.shape().rank() as i64 } else { batch_dims };
        let gathered = variable.inspect(|value| gather(ctx.loops(), value, indices, axis, batch_dims))?;
        ctx.set_output(0, gathered);
        Ok(())
    }))
}

fn resource_gather_nd(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let variable = variable_to_read(ctx, dtype)?;
        let indices = ctx.input(1)?;
        let gathered = variable.inspect(|value| gather_nd(ctx.loops(), value, indices))?;
        ctx.set_output(0, gathered);
        Ok(())
    }))
}

fn gather_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (handle, indices) = (d.input(0)?, d.input(1)?);
    let shape = d.op("VariableShape", [handle])?;
    let batch_dims: i64 = d.attr("batch_dims")?;
    if batch_dims == 0 {
        let rows = gathered_rows(d, indices, shape)?;
        return d.only(0, rows);
    }
    let mut axis = d.int(batch_dims as i32)?;
    if batch_dims < 0 {
        let rank = d.rank_of(indices)?;
        axis = d.op("AddV2", [axis, rank])?;
    }
    let dense = scatter_back(d, indices, shape, axis, axis)?;
    d.only(0, dense)
}

fn gather_nd_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (handle, indices) = (d.input(0)?, d.input(1)?);
    let index = d.dtype(indices)?;
    let shape = d.emit(NewNode::new("VariableShape").input(handle).attr("out_type", index))?;
    let grad = gathered_slices(d, indices, shape)?;
    d.only(0, grad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{test_op, test_step};
    use tensorfleet_core::{Code, PartialShape, Tensor};

    #[test]
    fn rows_are_gathered_once_there_is_a_value() {
        let step = test_step();
        let handle =
            test_op("VarHandleOp").attr("dtype", DType::Int32).attr("shape", PartialShape::unknown());
        let handle = handle.attr("shared_name", "w").in_step(&step).run_one().unwrap();
        let run = |op: &str, batch_dims: Option<i64>, indices: Tensor| {
            let mut op = test_op(op).attr("dtype", DType::Int32).attr("Tindices", DType::Int32);
            if let Some(batch_dims) = batch_dims {
                op = op.attr("batch_dims", batch_dims);
            }
            op.in_step(&step).input(handle.clone()).input(indices).run_one()
        };
        let indices = |values: &[i32], dims: &[usize]| Tensor::from_slice(values, dims).unwrap();
        assert_eq!(run("ResourceGather", None, indices(&[0], &[1])).unwrap_err().code(), Code::NotFound);
        let assign = test_op("AssignVariableOp").attr("dtype", DType::Int32).in_step(&step);
        assign.input(handle.clone()).input(indices(&[1, 2, 3, 4], &[2, 2])).run().unwrap();
        let rows = run("ResourceGather", None, indices(&[1, 0, 1], &[3])).unwrap();
        assert_eq!(rows.as_slice::<i32>().unwrap(), [3, 4, 1, 2, 3, 4]);
        let picked = run("ResourceGather", Some(1), indices(&[1, 0], &[2, 1])).unwrap();
        assert_eq!((picked.shape().dims(), picked.as_slice::<i32>().unwrap()), (&[2, 1][..], &[2, 3][..]));
        let status = run("ResourceGather", None, indices(&[2], &[1])).unwrap_err();
        assert_eq!(status.text(), "indices[0] = 2 is not in [0, 2)");
        let picked = run("ResourceGatherNd", None, indices(&[1, 0], &[1, 2])).unwrap();
        assert_eq!(picked.as_slice::<i32>().unwrap(), [3]);
    }
}
