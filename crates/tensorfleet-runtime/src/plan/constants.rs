//! Constants as nodes: made by folding, and as tokens for what only says that something happened.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Node, Result, Shape, Tensor};

use super::step_graph::StepNode;

/// Whether a node is a constant that is there whenever the step starts.
pub(super) fn is_constant(node: &StepNode) -> bool {
    &*node.node.op == "Const" && node.node.control_inputs.is_empty()
}

/// A constant with this value.
pub(super) fn constant(name: &str, value: &Tensor) -> Node {
    let mut node = Node::new(name, "Const");
    node.attrs.insert("dtype".into(), value.dtype().into_attr());
    node.attrs.insert("value".into(), value.clone().into_attr());
    node
}

/// A constant without elements, for what only says that something happened.
pub(super) fn empty_constant(name: &str) -> Result<Node> {
    Ok(constant(name, &Tensor::zeros(DType::Float, Shape::new(&[0])?)?))
}
