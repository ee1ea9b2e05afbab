//! Gradients of `Switch` and `Merge`, where they make branches.
//!
//! A gradient that arrives at a `Merge` goes on to the branch that ran, and is dead for the other, so that everything built
//! from it is dead, too. At the `Switch` through which a value came into a branch, what comes back from the branch meets
//! zeros for the case that the branch did not run. Which branch ran is told by the predicate, or, in graphs that were
//! imported and have lost their contexts, by the `Merge` itself.

use tensorfleet_core::{DType, Endpoint, Node, Result, Status, Tensor};

use super::aggregate::{Grad, densify};
use super::differential::Differential;
use super::loops::{NoRows, zeros_of_dtype};
use super::shapes::Grads;
use crate::builder::{Input, NewNode};

/// The error for loops of which only the nodes are known.
pub fn next_iteration_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    Err(loop_without_context(d.node()))
}

pub(super) fn loop_without_context(node: &Node) -> Status {
    Status::unimplemented(format!(
        "The gradient of '{}' ({}) does not exist: it is part of a while loop that was imported as nodes, or that is not \
         finished; only a loop that was built in this graph can be differentiated, as a whole and from outside",
        node.name, node.op
    ))
}

/// `Merge` and `RefMerge`.
pub fn merge_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let inputs = d.inputs();
    let is_back_edge = |input: &Endpoint| d.producer(*input).is_next_iteration();
    if inputs.iter().any(is_back_edge) {
        return Err(loop_without_context(d.node()));
    }
    let Some(grad) = d.arriving(0) else { return Ok(vec![None; inputs.len()]) };
    let branches: Vec<Option<(Endpoint, bool)>> =
        inputs.iter().map(|input| d.builder().branch_of(input.node)).collect();
    if let [Some((predicate, a)), Some((other, b))] = branches[..]
        && predicate == other
        && a != b
    {
        return Ok(vec![Some(switched(d, grad, predicate, a)?), Some(switched(d, grad, predicate, b)?)]);
    }
    let mut grads = Vec::with_capacity(inputs.len());
    for index in 0..inputs.len() {
        let which = Input::Tensor(Tensor::scalar(index as i32));
        let ran = d.emit(NewNode::new("Equal").input(d.output(1)).input(which))?;
        grads.push(Some(switched(d, grad, ran, true)?));
    }
    Ok(grads)
}

/// A gradient that is dead unless the predicate is `when`.
fn switched(d: &mut Differential<'_>, grad: Grad, predicate: Endpoint, when: bool) -> Result<Grad> {
    let mut switch = |value: Endpoint| -> Result<Endpoint> {
        let node = NewNode::new("Switch").name("cond_grad").input(value).input(predicate);
        Ok(Endpoint::new(d.add(node)?, u32::from(when)))
    };
    Ok(match grad {
        Grad::Dense(grad) => Grad::Dense(switch(grad)?),
        Grad::Slices { values, indices, dense_shape } => Grad::Slices {
            values: switch(values)?,
            indices: switch(indices)?,
            dense_shape: switch(dense_shape)?,
        },
    })
}

/// `Switch` and `RefSwitch`.
pub fn switch_gradient(d: &mut Differential<'_>) -> Result<Grads> {
    let predicate = d.input(1)?;
    if &*d.producer(predicate).op == "LoopCond" {
        return Err(loop_without_context(d.node()));
    }
    let merged = match (d.arriving(0), d.arriving(1)) {
        (None, None) => return Ok(vec![None; 2]),
        (Some(grad), None) => with_zeros(d, grad, 1)?,
        (None, Some(grad)) => with_zeros(d, grad, 0)?,
        (
            Some(Grad::Slices { values, indices, dense_shape }),
            Some(Grad::Slices { values: v, indices: i, dense_shape: s }),
        ) => merge_rows(d, [(values, v), (indices, i), (dense_shape, s)])?,
        (Some(a), Some(b)) => {
            let (a, b) = (densify(d.builder(), a)?, densify(d.builder(), b)?);
            Grad::Dense(merge(d, a, b)?)
        }
    };
    d.only(0, merged)
}

/// What comes back from one branch, or zeros if the branch did not run; `slot` is that of the other branch.
fn with_zeros(d: &mut Differential<'_>, grad: Grad, slot: u32) -> Result<Grad> {
    let (data, other) = (d.input(0)?, d.output(slot));
    match grad {
        Grad::Dense(grad) => {
            let dtype = d.dtype(grad)?;
            let zeros = match d.shape(data)?.to_shape() {
                // Zeros of a known shape do not need the value, which in a loop would have to be kept for them.
                Some(shape) if d.dtype(data)? != DType::Resource => {
                    let zeros = d.constant(Tensor::zeros(dtype, shape)?)?;
                    let predicate = d.input(1)?;
                    let switch = d.add(NewNode::new("Switch").name("zeros").input(zeros).input(predicate))?;
                    Endpoint::new(switch, slot)
                }
                _ => zeros_of_dtype(d.builder(), other, dtype)?,
            };
            Ok(Grad::Dense(merge(d, grad, zeros)?))
        }
        Grad::Slices { values, indices, dense_shape } => {
            let (dtype, index) = (d.dtype(values)?, d.dtype(indices)?);
            let none = NoRows::like(d.builder(), other, dtype, index)?;
            let shape_dtype = d.dtype(dense_shape)?;
            let shape = d.cast(none.shape, shape_dtype)?;
            merge_rows(d, [(values, none.values), (indices, none.indices), (dense_shape, shape)])
        }
    }
}

fn merge(d: &mut Differential<'_>, a: Endpoint, b: Endpoint) -> Result<Endpoint> {
    d.emit(NewNode::new("Merge").name("cond_grad").input_list([a, b]))
}

fn merge_rows(d: &mut Differential<'_>, pairs: [(Endpoint, Endpoint); 3]) -> Result<Grad> {
    let [(v, w), (i, j), (s, t)] = pairs;
    Ok(Grad::Slices { values: merge(d, v, w)?, indices: merge(d, i, j)?, dense_shape: merge(d, s, t)? })
}
