//! Differentiates a loop as a whole.
//!
//! The gradient of a loop is a loop that goes through the iterations from the last to the first. It carries one gradient for
//! each variable of the loop: it begins with what arrives at the variable after the loop, and each iteration turns it from
//! the gradient of what the body gave into the gradient of what the body got. For each value that the loop takes from around
//! it and uses unchanged, it carries the sum over all iterations.

use rustc_hash::FxHashSet;
use tensorfleet_core::{DType, Dim, Endpoint, NodeId, PartialShape, Result, Status, Tensor};

use super::aggregate::{Grad, densify, sum};
use super::engine::Engine;
use super::gate::gated;
use super::paths::carries_gradients;
use crate::builder::{BackwardLoop, FlowId, GraphBuilder, Input, LoopParts, NewNode, adapt_literal};

/// Differentiates a loop all of whose results' gradients have arrived; gives the values that enter it with theirs.
pub(super) fn differentiate(engine: &mut Engine<'_>, flow: FlowId) -> Result<Vec<(Endpoint, Option<Grad>)>> {
    let name = engine.builder.loop_name(flow);
    let parts = engine.builder.loop_parts(flow).cloned().ok_or_else(|| {
        Status::failed_precondition(format!("the loop '{name}' is not finished, so it has no gradient yet"))
    })?;
    if engine.builder.is_backward(flow) {
        return Err(Status::unimplemented(format!(
            "Second-order gradient for while loops not supported: '{name}' is itself the gradient of a loop"
        )));
    }
    let arriving: Vec<Option<Grad>> = parts
        .variables
        .iter()
        .map(|variable| engine.total(Endpoint::new(variable.switch, 0)))
        .collect::<Result<_>>()?;
    let entries = engine.paths.entries(engine.builder, flow);
    let outside = |builder: &GraphBuilder, enter: NodeId| builder.node(enter).inputs.first().copied();
    if arriving.iter().all(Option::is_none) {
        return Ok(entries
            .iter()
            .filter_map(|&enter| Some((outside(engine.builder, enter)?, None)))
            .collect());
    }
    let depth = engine.builder.depth();
    engine.builder.enter_name_scope(&format!("{name}_grad"))?;
    let mut backward = engine.builder.begin_backward(flow)?;
    let built = build(engine, flow, &parts, arriving, &mut backward);
    if built.is_err() {
        engine.builder.abandon_backward(&backward);
    }
    let is_outermost = engine.builder.current_loop() == engine.paths.base();
    let built = built.and_then(|built| match engine.gates_ops() && is_outermost {
        true => gated_together(engine.builder, built),
        false => Ok(built),
    });
    engine.builder.leave(depth);
    let built = built?;
    let grads = entries.into_iter().filter_map(|enter| {
        let grad = built.iter().find(|(of, _)| *of == enter).map(|(_, grad)| *grad);
        Some((outside(engine.builder, enter)?, grad))
    });
    Ok(grads.collect())
}

/// The gradients that leave a loop, none of which is there before all are. A gradient may be computed with the current value of a
/// reference variable until the loop is over, so that of the variable must not be applied before.
fn gated_together(builder: &mut GraphBuilder, grads: Vec<(NodeId, Grad)>) -> Result<Vec<(NodeId, Grad)>> {
    let (enters, grads): (Vec<NodeId>, Vec<Option<Grad>>) =
        grads.into_iter().map(|(enter, grad)| (enter, Some(grad))).unzip();
    Ok(enters.into_iter().zip(gated(builder, grads)?.into_iter().flatten()).collect())
}

/// Builds the loop; gives for each `Enter` node of the forward loop the gradient that leaves it.
fn build(
    engine: &mut Engine<'_>,
    flow: FlowId,
    parts: &LoopParts,
    arriving: Vec<Option<Grad>>,
    backward: &mut BackwardLoop,
) -> Result<Vec<(NodeId, Grad)>> {
    // One gradient for each variable that matters.
    let mut carried = Vec::new();
    for (variable, arriving) in parts.variables.iter().zip(arriving) {
        let matters = engine.paths.contains_node(variable.merge.node)
            && carries_gradients(engine.builder, variable.merge);
        if !matters {
            continue;
        }
        let first = match arriving {
            Some(grad) => densify(engine.builder, grad)?,
            None => zeros_like(engine.builder, variable.exit)?,
        };
        let shape = engine.builder.shape(variable.merge)?.clone();
        let gradient = engine.builder.extend_backward(backward, first, &shape)?;
        carried.push((variable, gradient));
    }
    let captures: Vec<NodeId> = engine.builder.loop_captures(flow);
    let captures: Vec<NodeId> =
        captures.into_iter().filter(|&enter| engine.paths.contains_node(enter)).collect();

    // One iteration, backwards.
    let mut edge: FxHashSet<NodeId> = captures.iter().copied().collect();
    edge.insert(parts.condition);
    for variable in &parts.variables {
        let ends = engine.builder.node(variable.merge.node).inputs.iter().map(|input| input.node);
        edge.extend(ends.chain([variable.merge.node, variable.switch]));
    }
    let around = engine.builder.depth();
    engine.builder.enter_flow(backward.flow());
    let mut ys = Vec::with_capacity(carried.len());
    for &(variable, gradient) in &carried {
        engine.arrived.entry(variable.next).or_default().push(Grad::Dense(gradient));
        ys.push(variable.next);
    }
    engine.run_level(Some(flow), &ys, &edge)?;
    let mut next = Vec::with_capacity(carried.len());
    for &(variable, gradient) in &carried {
        let body = engine.arrived.remove(&Endpoint::new(variable.switch, 1)).unwrap_or_default();
        let condition = engine.arrived.remove(&variable.merge).unwrap_or_default();
        let all: Vec<Grad> = body.into_iter().chain(condition).collect();
        let total = match sum(engine.builder, &all)? {
            Some(total) => densify(engine.builder, total)?,
            None => engine.builder.emit(NewNode::new("ZerosLike").input(gradient))?,
        };
        let shape = engine.builder.shape(variable.merge)?.clone();
        engine.builder.set_shape(total, &shape)?;
        next.push(total);
    }
    let mut sums = Vec::new();
    for &enter in &captures {
        let total = engine.total(Endpoint::new(enter, 0))?;
        let outside = engine.builder.node(enter).inputs.first().copied();
        if let (Some(grad), Some(outside)) = (total, outside) {
            sums.push((enter, outside, grad));
        }
    }
    engine.builder.leave(around);

    // The sums start outside and grow inside.
    let mut kinds = Vec::with_capacity(sums.len());
    for &(enter, outside, grad) in &sums {
        let kind = accumulate(engine.builder, backward, outside, grad, &mut next)?;
        kinds.push((enter, kind));
    }
    let mut exits = engine.builder.end_backward(backward, &next)?.into_iter();
    let mut exit = || exits.next().ok_or_else(|| Status::internal("a gradient did not leave its loop"));
    let mut grads = Vec::new();
    for (variable, _) in &carried {
        let enter = engine.builder.node(variable.merge.node).inputs.first().map(|enter| enter.node);
        let gradient = exit()?;
        grads.extend(enter.map(|enter| (enter, Grad::Dense(gradient))));
    }
    for (enter, kind) in kinds {
        grads.push(match kind {
            Sum::Whole => (enter, Grad::Dense(exit()?)),
            Sum::Rows { dense_shape } => {
                (enter, Grad::Slices { values: exit()?, indices: exit()?, dense_shape })
            }
        });
    }
    Ok(grads)
}

/// How the gradient of a value that a loop uses unchanged is summed.
enum Sum {
    /// As a tensor.
    Whole,
    /// As rows that follow one another.
    Rows { dense_shape: Endpoint },
}

/// Adds variables that sum `grad`, of the loop's body, over the iterations; puts what they are next into `next`.
fn accumulate(
    builder: &mut GraphBuilder,
    backward: &mut BackwardLoop,
    outside: Endpoint,
    grad: Grad,
    next: &mut Vec<Endpoint>,
) -> Result<Sum> {
    let inside = |builder: &mut GraphBuilder, flow: FlowId, node: NewNode| {
        let depth = builder.depth();
        builder.enter_flow(flow);
        let result = builder.emit(node);
        builder.leave(depth);
        result
    };
    let flow = backward.flow();
    let (values, indices) = match grad {
        Grad::Dense(grad) => {
            let first = zeros_of_dtype(builder, outside, builder.dtype(grad)?)?;
            let shape = match builder.dtype(outside)? {
                DType::Resource => PartialShape::unknown(),
                _ => builder.shape(outside)?.clone(),
            };
            let before = builder.extend_backward(backward, first, &shape)?;
            let sum = inside(builder, flow, NewNode::new("AddV2").name("b_acc").input(before).input(grad))?;
            builder.set_shape(sum, &shape)?;
            next.push(sum);
            return Ok(Sum::Whole);
        }
        Grad::Slices { values, indices, .. } => (values, indices),
    };
    let rows = NoRows::like(builder, outside, builder.dtype(values)?, builder.dtype(indices)?)?;
    let row_shape = builder.shape(values)?.dims().map(<[Dim]>::to_vec);
    let row_shape = match row_shape {
        Some(dims) => PartialShape::new(std::iter::once(None).chain(dims.into_iter().skip(1))),
        None => PartialShape::unknown(),
    };
    for (first, more, shape) in
        [(rows.values, values, row_shape), (rows.indices, indices, PartialShape::of_rank(1))]
    {
        let before = builder.extend_backward(backward, first, &shape)?;
        let axis = Input::Tensor(Tensor::scalar(0i32));
        let concat = NewNode::new("ConcatV2").name("b_acc").input_list([before, more]).input(axis);
        let sum = inside(builder, flow, concat)?;
        builder.set_shape(sum, &shape)?;
        next.push(sum);
    }
    Ok(Sum::Rows { dense_shape: rows.shape })
}

/// No rows of a value, as a gradient.
pub(super) struct NoRows {
    pub(super) values: Endpoint,
    pub(super) indices: Endpoint,
    pub(super) shape: Endpoint,
}

impl NoRows {
    /// No rows of `value`, a tensor or the handle of a variable. They are dead where `value` is.
    pub(super) fn like(
        builder: &mut GraphBuilder,
        value: Endpoint,
        dtype: DType,
        index: DType,
    ) -> Result<NoRows> {
        let shape = runtime_shape(builder, value)?;
        let ints = |values: &[i32]| Ok(Input::Tensor(Tensor::vector(values)?));
        let part = |begin: &[i32], end: &[i32], mask: i64| -> Result<NewNode> {
            let node = NewNode::new("StridedSlice").input(shape).input(ints(begin)?).input(ints(end)?);
            Ok(node.input(ints(&[1])?).attr("end_mask", mask))
        };
        let none = builder.emit(part(&[0], &[0], 0)?)?;
        let row = builder.emit(part(&[1], &[0], 1)?)?;
        let axis = Input::Tensor(Tensor::scalar(0i32));
        let dims = vec![ints(&[0])?, Input::Edge(row)];
        let dims =
            builder.emit(NewNode::new("ConcatV2").name("concat").input(Input::List(dims)).input(axis))?;
        let values = builder.emit(NewNode::new("Fill").input(dims).input(zero(dtype)?))?;
        let indices = match index {
            DType::Int32 => none,
            _ => builder.emit(NewNode::new("Cast").input(none).attr("DstT", index))?,
        };
        Ok(NoRows { values, indices, shape })
    }
}

fn zero(dtype: DType) -> Result<Input> {
    let zero = adapt_literal(&Tensor::scalar(0i32), dtype);
    zero.map(Input::Tensor).ok_or_else(|| Status::internal(format!("there is no zero of {dtype}")))
}

/// The shape of a tensor, or of the variable behind a handle, as an int32 vector that is dead where `value` is.
fn runtime_shape(builder: &mut GraphBuilder, value: Endpoint) -> Result<Endpoint> {
    let op = if builder.dtype(value)? == DType::Resource { "VariableShape" } else { "Shape" };
    builder.emit(NewNode::new(op).input(value))
}

/// Zeros of the shape of `value`.
fn zeros_like(builder: &mut GraphBuilder, value: Endpoint) -> Result<Endpoint> {
    let dtype = builder.dtype(value)?;
    zeros_of_dtype(builder, value, dtype)
}

/// Zeros of the shape of `value`, a tensor or the handle of a variable of this dtype; dead where `value` is.
pub(super) fn zeros_of_dtype(builder: &mut GraphBuilder, value: Endpoint, dtype: DType) -> Result<Endpoint> {
    if builder.dtype(value)? == dtype {
        return builder.emit(NewNode::new("ZerosLike").input(value));
    }
    let shape = runtime_shape(builder, value)?;
    builder.emit(NewNode::new("Fill").name("zeros").input(shape).input(zero(dtype)?))
}
