//! Gates: the gradients of a node leave it together.
//!
//! A gradient often needs the value of a reference variable: that of a product's first factor needs the second factor. If
//! the second factor's own gradient were applied before, the first would be computed with the changed variable. With gates,
//! no gradient of a node is used before all of them are computed. A loop counts as one node: its gradients leave it together.

use tensorfleet_core::{Endpoint, NodeId, Result};

use super::aggregate::Grad;
use crate::builder::{GraphBuilder, NewNode};

/// How far gradients wait for one another before they are applied. Reference variables change in place, so a gradient
/// that is computed late may see variables that others have changed already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gate {
    /// They do not wait: the most parallel, and not reproducible with reference variables.
    None,
    /// Those of each op wait for one another, as TensorFlow's optimizers have it unless told otherwise.
    #[default]
    Op,
    /// All wait for all.
    Graph,
}

/// The same gradients, none of which is there before all are. One alone needs no gate.
pub(super) fn gated(builder: &mut GraphBuilder, grads: Vec<Option<Grad>>) -> Result<Vec<Option<Grad>>> {
    if grads.iter().flatten().count() < 2 {
        return Ok(grads);
    }
    let depth = builder.depth();
    builder.enter_name_scope("tuple")?;
    let gated = behind_gate(builder, &grads);
    builder.leave(depth);
    gated
}

fn behind_gate(builder: &mut GraphBuilder, grads: &[Option<Grad>]) -> Result<Vec<Option<Grad>>> {
    let parts = |grad: &Grad| match *grad {
        Grad::Dense(whole) => vec![whole.node],
        Grad::Slices { values, indices, .. } => vec![values.node, indices.node],
    };
    let mut before: Vec<NodeId> = grads.iter().flatten().flat_map(parts).collect();
    before.sort_unstable();
    before.dedup();
    let all = before.into_iter().fold(NewNode::new("NoOp").name("group_deps"), NewNode::control_input);
    let all = builder.add(all)?;
    let mut pass = |value: Endpoint| {
        let identity = NewNode::new("Identity").name("control_dependency").input(value);
        builder.emit(identity.control_input(all).colocate_with(value.node))
    };
    grads
        .iter()
        .map(|grad| {
            Ok(match *grad {
                None => None,
                Some(Grad::Dense(whole)) => Some(Grad::Dense(pass(whole)?)),
                Some(Grad::Slices { values, indices, dense_shape }) => {
                    Some(Grad::Slices { values: pass(values)?, indices: pass(indices)?, dense_shape })
                }
            })
        })
        .collect()
}
