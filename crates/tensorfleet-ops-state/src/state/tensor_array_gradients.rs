//! Gradients of the tensor array ops.
//!
//! Every array has a companion in each backward pass, made by `TensorArrayGradV3` and found by the name of the pass:
//! where the array is read, the companion is written, and where it is written, the companion is read. Several writes to
//! one place of a companion add up. What flows back along the array's flow is the companion's flow, so all writes of the
//! companion come before its reads.

use tensorfleet_core::{DType, Endpoint, Result, Status};

use tensorfleet_kernel::builder::NewNode;
use tensorfleet_kernel::gradients::{Differential, Grads};

/// The companion array, as handle and flow.
struct Companion {
    handle: Endpoint,
    flow: Endpoint,
}

impl Companion {
    /// The companion of the array the node works on, once `flow` is there.
    fn of(d: &mut Differential<'_>, flow: Endpoint) -> Result<Companion> {
        let (array, source) = (d.input(0)?, source(d)?);
        let grad = NewNode::new("TensorArrayGradV3").name("TensorArrayGrad/TensorArrayGradV3");
        let grad = d.add(grad.input(array).input(flow).attr("source", source).colocate_with(array.node))?;
        // Who uses the flow comes after the companion is made.
        let flow = d.emit(
            NewNode::new("Identity")
                .name("TensorArrayGrad/gradient_flow")
                .input(flow)
                .control_input(grad)
                .colocate_with(array.node),
        )?;
        Ok(Companion { handle: Endpoint::new(grad, 0), flow })
    }

    fn node(&self, op: &str) -> NewNode {
        NewNode::new(op).input(self.handle)
    }
}

/// The name of the backward pass: that of its outermost scope, up to the innermost that is a pass of gradients.
fn source(d: &mut Differential<'_>) -> Result<String> {
    let scope = d.builder().name_scope().to_string();
    let parts: Vec<&str> = scope.split('/').collect();
    let pass = parts.iter().rposition(|part| part.starts_with("gradients"));
    let pass = pass.and_then(|last| parts.get(..=last)).ok_or_else(|| {
        Status::internal(format!(
            "the scope '{scope}' is not one of gradients, so tensor arrays have no companion"
        ))
    })?;
    Ok(pass.join("/"))
}

pub(super) fn read_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, index, flow) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let companion = Companion::of(d, flow)?;
    let write = companion.node("TensorArrayWriteV3").input(index).input(dy).input(companion.flow);
    let flow = d.emit(write)?;
    d.only(2, flow)
}

pub(super) fn write_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (flow, index, value) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let companion = Companion::of(d, flow)?;
    let (dtype, shape) = (d.dtype(value)?, d.shape(value)?);
    let read = companion.node("TensorArrayReadV3").input(index).input(companion.flow);
    let read = d.emit(read.attr("dtype", dtype))?;
    d.builder().set_shape(read, &shape)?;
    d.several([(2, read), (3, flow)])
}

pub(super) fn gather_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, indices, flow) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let companion = Companion::of(d, flow)?;
    let scatter = companion.node("TensorArrayScatterV3").input(indices).input(dy).input(companion.flow);
    let flow = d.emit(scatter)?;
    d.only(2, flow)
}

pub(super) fn scatter_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (flow, indices, value) = (d.dy(0)?, d.input(1)?, d.input(2)?);
    let companion = Companion::of(d, flow)?;
    let (dtype, shape) = (d.dtype(value)?, d.shape(value)?);
    let gather = companion.node("TensorArrayGatherV3").input(indices).input(companion.flow);
    let gathered = d.emit(gather.attr("dtype", dtype))?;
    d.builder().set_shape(gathered, &shape)?;
    d.several([(2, gathered), (3, flow)])
}

pub(super) fn concat_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (dy, flow, lengths) = (d.dy(0)?, d.input(1)?, d.output(1));
    let companion = Companion::of(d, flow)?;
    let split = companion.node("TensorArraySplitV3").input(dy).input(lengths).input(companion.flow);
    let flow = d.emit(split)?;
    d.only(1, flow)
}

pub(super) fn split_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let (flow, value) = (d.dy(0)?, d.input(1)?);
    let companion = Companion::of(d, flow)?;
    let (dtype, shape): (DType, _) = (d.dtype(value)?, d.shape(value)?);
    let concat = companion.node("TensorArrayConcatV3").input(companion.flow);
    let joined = d.emit(concat.attr("dtype", dtype))?;
    d.builder().set_shape(joined, &shape)?;
    d.several([(1, joined), (3, flow)])
}
