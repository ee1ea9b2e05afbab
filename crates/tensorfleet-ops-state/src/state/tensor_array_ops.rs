//! The third form of TensorFlow's tensor array ops, which is the one clients write: a handle, and a float "flow" that
//! says what comes after what.

use std::sync::Arc;

use tensorfleet_core::{
    DType, PartialShape, ResourceHandle, Result, Shape, Status, Tensor, bail, ensure, memory,
};

use super::naming::no_outputs;
use super::tensor_array::{Rules, TensorArray};
use super::tensor_array_gradients::{
    concat_gradient, gather_gradient, read_gradient, scatter_gradient, split_gradient, write_gradient,
};
use tensorfleet_kernel::kernel::{Context, KernelBox, handle_in};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::resource::Resource;
use tensorfleet_kernel::shape_context::{ShapeContext, scalars, unknown};
use tensorfleet_ops_tensor::array::concat::{concat, pack};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("TensorArrayV3", "size: int32 -> handle: resource, flow: float").not_differentiable()
        .attrs(
            "dtype: type; element_shape: shape = unknown; dynamic_size: bool = false; \
             clear_after_read: bool = true; identical_element_shapes: bool = false; tensor_array_name: string = ''",
        )
        .stateful()
        .shape(handle_and_flow)
        .kernel(make)
        .cost(Cost::Trivial),
    Op::new("TensorArrayGradV3", "handle: resource, flow_in: float -> grad_handle: resource, flow_out: float").not_differentiable()
        .attrs("source: string")
        .stateful()
        .shape(handle_and_flow)
        .kernel(gradients)
        .cost(Cost::Trivial),
    Op::new(
        "TensorArrayWriteV3",
        "handle: resource, index: int32, value: T, flow_in: float -> flow_out: float",
    ).gradient(write_gradient)
    .attrs("T: type")
    .stateful()
    .shape(scalars)
    .kernel(write)
    .cost(Cost::Trivial),
    Op::new("TensorArrayReadV3", "handle: resource, index: int32, flow_in: float -> value: dtype").gradient(read_gradient)
        .attrs("dtype: type")
        .stateful()
        .shape(unknown)
        .kernel(read)
        .cost(Cost::Trivial),
    Op::new("TensorArrayGatherV3", "handle: resource, indices: int32, flow_in: float -> value: dtype").gradient(gather_gradient)
        .attrs("dtype: type; element_shape: shape = unknown")
        .stateful()
        .shape(gather_shape)
        .kernel(gather),
    Op::new(
        "TensorArrayScatterV3",
        "handle: resource, indices: int32, value: T, flow_in: float -> flow_out: float",
    ).gradient(scatter_gradient)
    .attrs("T: type")
    .stateful()
    .shape(scalars)
    .kernel(scatter),
    Op::new("TensorArrayConcatV3", "handle: resource, flow_in: float -> value: dtype, lengths: int64").gradient(concat_gradient)
        .attrs("dtype: type; element_shape_except0: shape = unknown")
        .stateful()
        .shape(|_| Ok(vec![PartialShape::unknown(), PartialShape::of_rank(1)]))
        .kernel(concat_all),
    Op::new(
        "TensorArraySplitV3",
        "handle: resource, value: T, lengths: int64, flow_in: float -> flow_out: float",
    ).gradient(split_gradient)
    .attrs("T: type")
    .stateful()
    .shape(scalars)
    .kernel(split),
    Op::new("TensorArraySizeV3", "handle: resource, flow_in: float -> size: int32").not_differentiable()
        .stateful()
        .shape(scalars)
        .kernel(size)
        .cost(Cost::Trivial),
    Op::new("TensorArrayCloseV3", "handle: resource").not_differentiable()
        .stateful()
        .shape(no_outputs)
        .kernel(close)
        .cost(Cost::Trivial),
];

/// Where arrays live among a step's resources.
const CONTAINER: &str = "tensor_arrays";

fn handle_and_flow(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    // TensorFlow's handle was once two strings, and its shape still says so.
    Ok(vec![PartialShape::unknown(), PartialShape::scalar()])
}

fn gather_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let count = ctx.input_with_rank(1, 1)?.dim(0);
    let element: PartialShape = ctx.attr("element_shape")?;
    Ok(vec![match element.dims() {
        Some(dims) => PartialShape::new(std::iter::once(count).chain(dims.iter().copied())),
        None => PartialShape::unknown(),
    }])
}

fn handle(ctx: &Context<'_>, name: &str) -> Tensor {
    Tensor::resource(ResourceHandle::new(&ctx.step.session.device, CONTAINER, name, TensorArray::kind()))
}

fn array_in(ctx: &Context<'_>) -> Result<Arc<TensorArray>> {
    ctx.step.step_resources.lookup(&handle_in(ctx.input(0)?)?)
}

fn make(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let given: String = node.attr("tensor_array_name")?;
    let base = if given.is_empty() { node.name().to_string() } else { given };
    let dtype: DType = node.attr("dtype")?;
    let element_shape: PartialShape = node.attr("element_shape")?;
    let rules = Rules {
        is_dynamic: node.attr("dynamic_size")?,
        clear_after_read: node.attr("clear_after_read")?,
        identical_shapes: node.attr("identical_element_shapes")?,
        adds_up: false,
    };
    Ok(KernelBox::from_fn(move |ctx| {
        let size: i32 = ctx.input(0)?.to_scalar()?;
        let size = usize::try_from(size).map_err(|_| Status::invalid_argument("Size should be >= 0."))?;
        let resources = &ctx.step.step_resources;
        let name = resources.private_name(&base);
        let make = || TensorArray::new(&name, dtype, size, element_shape.clone(), rules, ctx.loops().clone());
        resources.get_or_create(CONTAINER, &name, make)?;
        let handle = handle(ctx, &name);
        ctx.set_output(0, handle);
        ctx.set_output(1, Tensor::scalar(0.0f32));
        Ok(())
    }))
}

/// The gradient array of an array for a source: made once, found by all who ask later.
fn gradients(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let source: String = node.attr("source")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let forward = array_in(ctx)?;
        let name = format!("{}@{source}", forward.name());
        ctx.step.step_resources.get_or_create(CONTAINER, &name, || forward.gradients(&name))?;
        let handle = handle(ctx, &name);
        ctx.set_output(0, handle);
        ctx.forward(1, 1);
        Ok(())
    }))
}

fn index_in(tensor: &Tensor) -> Result<i64> {
    ensure!(
        tensor.is_scalar(),
        InvalidArgument,
        "TensorArray index must be scalar, but had shape: {}",
        tensor.shape()
    );
    Ok(tensor.to_scalar::<i32>()? as i64)
}

fn indices_in(tensor: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        tensor.shape().rank() == 1,
        InvalidArgument,
        "Expected indices to be a vector, but received shape: {}",
        tensor.shape()
    );
    memory::collect(tensor.as_slice::<i32>()?.iter().map(|&index| index as i64))
}

fn write(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let array = array_in(ctx)?;
        let index = index_in(ctx.input(1)?)?;
        array.write(index, ctx.take_input(2)?)?;
        ctx.forward(3, 0);
        Ok(())
    }))
}

fn read(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let array = array_in(ctx)?;
        array.check_dtype(dtype, "read")?;
        let index = index_in(ctx.input(1)?)?;
        let Some(value) = array.read_many([index])?.pop() else { bail!(Internal, "nothing was read") };
        ctx.set_output(0, value);
        Ok(())
    }))
}

fn gather(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    let element_shape: PartialShape = node.attr("element_shape")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let array = array_in(ctx)?;
        array.check_dtype(dtype, "gather")?;
        let indices = indices_in(ctx.input(1)?)?;
        let expected = array.element_shape()?.merge(&element_shape)?;
        let values = array.read_many(indices)?;
        for (position, value) in values.iter().enumerate() {
            ensure!(
                expected.admits(value.shape()) && value.shape() == values[0].shape(),
                InvalidArgument,
                "TensorArray has inconsistent shapes.  Index 0 has shape: {} but index {position} has shape: {}, \
                 expected {expected}",
                values[0].shape(),
                value.shape()
            );
        }
        let stacked = if values.is_empty() {
            empty(dtype, &expected)?
        } else {
            pack(ctx.loops(), &values.iter().collect::<Vec<_>>(), 0)?
        };
        ctx.set_output(0, stacked);
        Ok(())
    }))
}

/// No elements of a known shape.
fn empty(dtype: DType, element_shape: &PartialShape) -> Result<Tensor> {
    let Some(element) = element_shape.to_shape() else {
        bail!(
            InvalidArgument,
            "TensorArray has size zero, but element shape {element_shape} is not fully defined. Currently only \
             static shapes are supported when packing zero-size TensorArrays."
        )
    };
    let dims: Vec<usize> = std::iter::once(0).chain(element.iter().copied()).collect();
    Tensor::zeros(dtype, Shape::new(&dims)?)
}

fn scatter(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let array = array_in(ctx)?;
        let (indices, value) = (indices_in(ctx.input(1)?)?, ctx.input(2)?);
        ensure!(
            value.shape().first() == Some(&indices.len()),
            InvalidArgument,
            "Expected len(indices) == values.shape[0], but saw: {} vs. shape {}",
            indices.len(),
            value.shape()
        );
        let rows = indices.iter().enumerate().map(|(row, &index)| Ok((index, value.row(row)?)));
        array.write_many(0, rows.collect::<Result<_>>()?)?;
        ctx.forward(3, 0);
        Ok(())
    }))
}

fn concat_all(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    let except0: PartialShape = node.attr("element_shape_except0")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let array = array_in(ctx)?;
        array.check_dtype(dtype, "concat")?;
        let values = array.read_many(0..array.size()? as i64)?;
        let mut lengths = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let Some((&len, rest)) = value.shape().split_first() else {
                bail!(
                    InvalidArgument,
                    "Concat saw a scalar shape at index {index} but requires at least vectors.  Did you mean to call \
                     pack?"
                )
            };
            ensure!(
                except0.admits(&Shape::new(rest)?) && rest == &values[0].shape()[1..],
                InvalidArgument,
                "TensorArray has inconsistent shapes.  Index 0 has shape: {} but index {index} has shape: {}",
                values[0].shape(),
                value.shape()
            );
            lengths.push(len as i64);
        }
        let joined = if values.is_empty() {
            empty(dtype, &except0)?
        } else {
            concat(ctx.loops(), &values.iter().collect::<Vec<_>>(), 0)?
        };
        ctx.set_output(0, joined);
        ctx.set_output(1, Tensor::vector(&lengths)?);
        Ok(())
    }))
}

fn split(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let array = array_in(ctx)?;
        let (value, lengths) = (ctx.input(1)?, ctx.input(2)?);
        ensure!(
            lengths.shape().rank() == 1,
            InvalidArgument,
            "Expected lengths to be a vector, received shape: {}",
            lengths.shape()
        );
        let lengths = lengths.as_slice::<i64>()?;
        ensure!(
            value.shape().rank() >= 1 && lengths.iter().all(|&len| len >= 0),
            InvalidArgument,
            "Expected a value that is at least a vector, and lengths that are not negative: {} and {lengths:?}",
            value.shape()
        );
        let total = lengths.iter().fold(0i64, |total, &len| total.saturating_add(len));
        ensure!(
            value.shape().first().is_some_and(|&rows| rows as i64 == total),
            InvalidArgument,
            "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {total} and value's shape \
             is: {}",
            value.shape()
        );
        let mut start = 0usize;
        let mut parts = Vec::with_capacity(lengths.len());
        for (index, &len) in lengths.iter().enumerate() {
            parts.push((index as i64, value.rows(start, len as usize)?));
            start += len as usize;
        }
        check_split(&array, parts.len())?;
        array.write_many(parts.len(), parts)?;
        ctx.forward(3, 0);
        Ok(())
    }))
}

fn check_split(array: &TensorArray, parts: usize) -> Result<()> {
    let size = array.size()?;
    ensure!(
        size == parts || array.is_dynamic()?,
        InvalidArgument,
        "TensorArray's size is not equal to the size of lengths ({size} vs. {parts}), and the TensorArray is not \
         marked as dynamically resizeable."
    );
    Ok(())
}

fn size(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let size = array_in(ctx)?.size()?;
        ctx.set_output(0, Tensor::scalar(i32::try_from(size).unwrap_or(i32::MAX)));
        Ok(())
    }))
}

fn close(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        array_in(ctx)?.close();
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestOp, test_op, test_step};
    use tensorfleet_core::Code;
    use tensorfleet_core::attr::IntoAttr;
    use tensorfleet_kernel::kernel::StepContext;

    struct Array {
        step: Arc<StepContext>,
        handle: Tensor,
    }

    impl Array {
        fn new(size: i32, attrs: &[(&str, bool)]) -> Array {
            Array::shaped(size, attrs, PartialShape::unknown())
        }

        fn shaped(size: i32, attrs: &[(&str, bool)], shape: PartialShape) -> Array {
            let step = test_step();
            let mut op = test_op("TensorArrayV3").attr("dtype", DType::Float).in_step(&step);
            for &(name, value) in attrs {
                op = op.attr(name, value);
            }
            let op = op.attr("element_shape", shape).input(Tensor::scalar(size));
            let handle = op.run().unwrap().remove(0);
            Array { step, handle }
        }

        fn op(&self, name: &str, attr: (&str, impl IntoAttr)) -> TestOp {
            let op = test_op(&format!("TensorArray{name}V3")).attr(attr.0, attr.1);
            op.in_step(&self.step).input(self.handle.clone())
        }

        fn gradients(&self) -> Array {
            let op = self.op("Grad", ("source", "g")).input(flow());
            Array { step: self.step.clone(), handle: op.run().unwrap().remove(0) }
        }

        fn write(&self, index: i32, values: &[f32]) -> Result<()> {
            let value = Tensor::vector(values).unwrap();
            let op = self.op("Write", ("T", DType::Float)).input(Tensor::scalar(index));
            op.input(value).input(flow()).run().map(drop)
        }

        fn read(&self, index: i32) -> Result<Vec<f32>> {
            let op = self.op("Read", ("dtype", DType::Float)).input(Tensor::scalar(index));
            Ok(op.input(flow()).run_one()?.as_slice()?.to_vec())
        }

        fn gather(&self, indices: &[i32]) -> Result<Tensor> {
            let op = self.op("Gather", ("dtype", DType::Float));
            op.input(Tensor::vector(indices).unwrap()).input(flow()).run_one()
        }

        fn size(&self) -> i32 {
            let op = test_op("TensorArraySizeV3").in_step(&self.step);
            op.input(self.handle.clone()).input(flow()).run_one().unwrap().to_scalar().unwrap()
        }
    }

    fn flow() -> Tensor {
        Tensor::scalar(0.0f32)
    }

    #[test]
    fn elements_are_written_once_and_read_once() {
        let array = Array::new(3, &[]);
        array.write(1, &[1.0, 2.0]).unwrap();
        assert!(array.write(1, &[1.0, 2.0]).unwrap_err().text().contains("already been written to"));
        assert_eq!(array.read(1).unwrap(), [1.0, 2.0]);
        assert!(array.read(1).unwrap_err().text().contains("twice because it was cleared"));
        assert!(array.write(1, &[1.0, 2.0]).unwrap_err().text().contains("already been read"));
        assert!(array.write(3, &[1.0]).unwrap_err().text().contains("not resizeable and size is: 3"));
        assert_eq!(array.write(-1, &[1.0]).unwrap_err().code(), Code::InvalidArgument);
        assert!(array.read(0).unwrap_err().text().contains("element shape is not fully defined"));
        assert!(array.read(3).unwrap_err().text().contains("array size is: 3"));
    }

    #[test]
    fn an_array_may_grow_keep_its_elements_and_infer_their_shape() {
        let attrs = [("dynamic_size", true), ("clear_after_read", false), ("identical_element_shapes", true)];
        let array = Array::new(0, &attrs);
        array.write(2, &[1.0, 2.0]).unwrap();
        assert_eq!(array.size(), 3);
        assert_eq!(array.read(0).unwrap(), [0.0, 0.0]);
        assert_eq!(array.read(2).unwrap(), array.read(2).unwrap());
        assert!(array.write(1, &[1.0]).unwrap_err().text().contains("inferred element shape: [2]"));
        assert_eq!(array.write(i32::MAX, &[1.0, 2.0]).unwrap_err().code(), Code::ResourceExhausted);
    }

    #[test]
    fn rows_are_scattered_and_gathered() {
        let array = Array::new(3, &[("clear_after_read", false)]);
        let rows = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let scatter = |indices: &[i32]| {
            let op = array.op("Scatter", ("T", DType::Float)).input(Tensor::vector(indices).unwrap());
            op.input(rows.clone()).input(flow()).run()
        };
        assert_eq!(scatter(&[0]).unwrap_err().code(), Code::InvalidArgument);
        scatter(&[2, 0]).unwrap();
        let gathered = array.gather(&[0, 2]).unwrap();
        assert_eq!(gathered.as_slice::<f32>().unwrap(), [3.0, 4.0, 1.0, 2.0]);
        assert!(array.gather(&[]).unwrap_err().text().contains("has size zero"));
        let known = Array::shaped(2, &[], PartialShape::vector(Some(2)));
        assert_eq!(known.gather(&[]).unwrap().shape().dims(), [0, 2]);
        assert_eq!(known.gather(&[0, 1]).unwrap().as_slice::<f32>().unwrap(), [0.0; 4]);
    }

    #[test]
    fn a_tensor_is_split_by_lengths_and_joined_again() {
        let array = Array::new(3, &[]);
        let split = |lengths: &[i64]| {
            let op =
                array.op("Split", ("T", DType::Float)).input(Tensor::vector(&[1.0f32, 2.0, 3.0]).unwrap());
            op.input(Tensor::vector(lengths).unwrap()).input(flow()).run()
        };
        assert!(split(&[1, 1, 0]).unwrap_err().text().contains("sum of lengths is 2"));
        assert!(split(&[1, 2]).unwrap_err().text().contains("(3 vs. 2)"));
        assert_eq!(split(&[4, -1, 0]).unwrap_err().code(), Code::InvalidArgument);
        split(&[1, 2, 0]).unwrap();
        let joined = array.op("Concat", ("dtype", DType::Float)).input(flow()).run().unwrap();
        assert_eq!(joined[0].as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(joined[1].as_slice::<i64>().unwrap(), [1, 2, 0]);
    }

    #[test]
    fn gradients_add_up_and_are_zero_where_nothing_was_written() {
        let array = Array::new(3, &[]);
        array.write(1, &[1.0, 2.0]).unwrap();
        array.write(2, &[1.0, 2.0]).unwrap();
        let gradients = array.gradients();
        gradients.write(1, &[1.0, 1.0]).unwrap();
        array.gradients().write(1, &[5.0, 6.0]).unwrap();
        assert!(gradients.write(1, &[5.0]).unwrap_err().text().contains("Could not aggregate"));
        assert_eq!(gradients.read(1).unwrap(), [6.0, 7.0]);
        assert_eq!(gradients.read(2).unwrap(), [0.0, 0.0]);
        assert_eq!(gradients.read(0).unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(gradients.size(), 3);
    }

    #[test]
    fn a_closed_array_is_of_no_more_use() {
        let array = Array::new(1, &[]);
        let close = test_op("TensorArrayCloseV3").in_step(&array.step).input(array.handle.clone());
        close.run().unwrap();
        assert!(array.write(0, &[1.0]).unwrap_err().text().contains("has already been closed"));
    }
}
