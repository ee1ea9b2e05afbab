//! [`Differential`]: what a gradient function sees and builds with.

use tensorfleet_core::attr::{FromAttr, IntoAttr};
use tensorfleet_core::{DType, Endpoint, Node, NodeId, PartialShape, Result, Status, Tensor};

use super::aggregate::{Grad, densify};
use crate::builder::{GraphBuilder, Input, NewNode, adapt_literal};
use crate::node_spec::NodeSpec;

/// One node to differentiate: its inputs and outputs, the gradients that arrive at its outputs, and the means to add
/// nodes. Nodes that are added are named `NODE_grad/…`.
pub struct Differential<'a> {
    builder: &'a mut GraphBuilder,
    node: NodeId,
    gradients: &'a [Option<Grad>],
}

impl<'a> Differential<'a> {
    pub(super) fn new(
        builder: &'a mut GraphBuilder,
        node: NodeId,
        gradients: &'a [Option<Grad>],
    ) -> Differential<'a> {
        Differential { builder, node, gradients }
    }

    /// The graph, for what this type has no method for.
    pub fn builder(&mut self) -> &mut GraphBuilder {
        self.builder
    }

    /// The id of the node to differentiate.
    pub fn node_id(&self) -> NodeId {
        self.node
    }

    /// The node to differentiate.
    pub fn node(&self) -> &Node {
        self.builder.node(self.node)
    }

    /// Data input `index`.
    pub fn input(&self, index: usize) -> Result<Endpoint> {
        self.node().inputs.get(index).copied().ok_or_else(|| {
            Status::internal(format!("the gradient of {} asks for input {index}", self.node().op))
        })
    }

    /// All data inputs.
    pub fn inputs(&self) -> Vec<Endpoint> {
        self.node().inputs.clone()
    }

    /// Output `slot`.
    pub fn output(&self, slot: u32) -> Endpoint {
        Endpoint::new(self.node, slot)
    }

    /// The node that computes a value.
    pub fn producer(&self, value: Endpoint) -> &Node {
        self.builder.node(value.node)
    }

    /// An attribute of the node, or its default.
    pub fn attr<T: FromAttr>(&self, name: &str) -> Result<T> {
        NodeSpec::resolve(self.node(), self.builder.catalogue())?.attr(name)
    }

    /// What arrives at output `slot`, as it is; `None` if nothing depends on that output.
    pub fn arriving(&self, slot: usize) -> Option<Grad> {
        self.gradients.get(slot).copied().flatten()
    }

    /// What arrives at output `slot` as a whole tensor; zeros if nothing depends on that output.
    pub fn dy(&mut self, slot: usize) -> Result<Endpoint> {
        match self.arriving(slot) {
            Some(grad) => densify(self.builder, grad),
            None => self.op("ZerosLike", [self.output(slot as u32)]),
        }
    }

    /// The dtype of a value.
    pub fn dtype(&self, value: Endpoint) -> Result<DType> {
        self.builder.dtype(value)
    }

    /// The shape of a value, as far as it is known.
    pub fn shape(&self, value: Endpoint) -> Result<PartialShape> {
        self.builder.shape(value).cloned()
    }

    /// The value, if it is constant and small.
    pub fn constant_value(&self, value: Endpoint) -> Option<Tensor> {
        self.builder.facts(value).ok()?.value.clone()
    }

    /// Adds a node without attributes of its own; gives its first output.
    pub fn op(&mut self, op: &str, inputs: impl IntoIterator<Item = Endpoint>) -> Result<Endpoint> {
        self.emit(inputs.into_iter().fold(NewNode::new(op), NewNode::input))
    }

    /// Adds a node; gives its first output.
    pub fn emit(&mut self, node: NewNode) -> Result<Endpoint> {
        self.builder.emit(node)
    }

    /// Adds a node, for those with several outputs.
    pub fn add(&mut self, node: NewNode) -> Result<NodeId> {
        self.builder.add(node)
    }

    /// A constant.
    pub fn constant(&mut self, value: Tensor) -> Result<Endpoint> {
        self.builder.constant("Const", value)
    }

    /// A scalar constant of the dtype of `like`.
    pub fn scalar_like(&mut self, like: Endpoint, value: f64) -> Result<Endpoint> {
        let dtype = self.dtype(like)?;
        let scalar = adapt_literal(&Tensor::scalar(value), dtype)
            .or_else(|| adapt_literal(&Tensor::scalar(value as i32), dtype))
            .ok_or_else(|| Status::internal(format!("there is no {dtype} for the constant {value}")))?;
        self.constant(scalar)
    }

    /// `value` as another dtype.
    pub fn cast(&mut self, value: Endpoint, dtype: DType) -> Result<Endpoint> {
        match self.dtype(value)? == dtype {
            true => Ok(value),
            false => self.emit(NewNode::new("Cast").input(value).attr("DstT", dtype)),
        }
    }

    /// The shape of `value` as an int32 vector; a constant if it is known.
    pub fn shape_of(&mut self, value: Endpoint) -> Result<Endpoint> {
        let known = self.shape(value)?.to_shape();
        let dims: Option<Vec<i32>> = known
            .and_then(|shape| shape.dims().iter().map(|&dim| i32::try_from(dim).ok()).collect::<Option<_>>());
        match dims {
            Some(dims) => self.constant(Tensor::vector(&dims)?),
            None => self.builder.shape_node(value),
        }
    }

    /// `value` in the shape of `like`.
    pub fn reshape_like(&mut self, value: Endpoint, like: Endpoint) -> Result<Endpoint> {
        let shape = self.shape_of(like)?;
        self.op("Reshape", [value, shape])
    }

    /// A node of the same op as this one's gradient op often needs: `op` with these inputs and this node's attributes
    /// of the given names.
    pub fn with_attrs(&self, op: &str, inputs: &[Endpoint], attrs: &[&str]) -> NewNode {
        let node = inputs.iter().fold(NewNode::new(op), |node, &input| node.input(input));
        attrs.iter().fold(node, |node, &name| match self.node().attrs.get(name) {
            Some(value) => node.attr(name, value.clone().into_attr()),
            None => node,
        })
    }

    /// An input that is a constant.
    pub fn literal(value: Tensor) -> Input {
        Input::Tensor(value)
    }
}
