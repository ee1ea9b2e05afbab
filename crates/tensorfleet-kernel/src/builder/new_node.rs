//! [`NewNode`]: the request to add a node, with as much left open as the op's declaration can fill in.

use std::collections::BTreeMap;

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Endpoint, NodeId, Tensor};
use tensorfleet_proto::tensorflow::AttrValue;

/// What an input argument of a new node is.
#[derive(Clone, Debug)]
pub enum Input {
    /// An output of a node that exists.
    Edge(Endpoint),
    /// A constant of exactly this dtype.
    Tensor(Tensor),
    /// A constant written in a program: takes the dtype its place asks for, where that loses nothing but
    /// floating-point precision.
    Literal(Tensor),
    /// The value of a resource variable of this dtype, read for this node.
    Read(Endpoint, DType),
    /// The edges of an argument that has several (`values: N * T`).
    List(Vec<Input>),
}

impl From<Endpoint> for Input {
    fn from(endpoint: Endpoint) -> Input {
        Input::Edge(endpoint)
    }
}

impl From<NodeId> for Input {
    /// The node's first output.
    fn from(node: NodeId) -> Input {
        Input::Edge(Endpoint::new(node, 0))
    }
}

impl From<Tensor> for Input {
    fn from(tensor: Tensor) -> Input {
        Input::Tensor(tensor)
    }
}

/// A node to be added by [`super::GraphBuilder::add`]. Type and length attributes that follow from the inputs, and
/// attributes with defaults, need not be given.
#[derive(Clone, Debug)]
pub struct NewNode {
    pub(super) op: String,
    pub(super) name: Option<String>,
    pub(super) device: String,
    pub(super) inputs: Vec<Input>,
    pub(super) control_inputs: Vec<NodeId>,
    pub(super) attrs: BTreeMap<String, AttrValue>,
    pub(super) colocate_with: Vec<NodeId>,
    pub(super) capture: bool,
}

impl NewNode {
    /// A node of this op, named after it.
    pub fn new(op: impl Into<String>) -> NewNode {
        NewNode {
            op: op.into(),
            name: None,
            device: String::new(),
            inputs: Vec::new(),
            control_inputs: Vec::new(),
            attrs: BTreeMap::new(),
            colocate_with: Vec::new(),
            capture: true,
        }
    }

    /// The op.
    pub fn op_type(&self) -> &str {
        &self.op
    }

    /// Names the node. The name gets the prefix of the name scope and a suffix if it is taken; a name that ends
    /// in `/` is used as it is, without the slash.
    pub fn name(mut self, name: impl Into<String>) -> NewNode {
        self.name = Some(name.into());
        self
    }

    /// Asks for a device, as if in an innermost device scope.
    pub fn device(mut self, device: impl Into<String>) -> NewNode {
        self.device = device.into();
        self
    }

    /// Adds an input argument.
    pub fn input(mut self, input: impl Into<Input>) -> NewNode {
        self.inputs.push(input.into());
        self
    }

    /// Adds an input argument that has several edges.
    pub fn input_list<I: Into<Input>>(mut self, inputs: impl IntoIterator<Item = I>) -> NewNode {
        self.inputs.push(Input::List(inputs.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds a control input.
    pub fn control_input(mut self, before: NodeId) -> NewNode {
        self.control_inputs.push(before);
        self
    }

    /// Sets an attribute.
    pub fn attr(mut self, name: impl Into<String>, value: impl IntoAttr) -> NewNode {
        self.attrs.insert(name.into(), value.into_attr());
        self
    }

    /// Places the node where `node` is.
    pub fn colocate_with(mut self, node: NodeId) -> NewNode {
        self.colocate_with.push(node);
        self
    }

    /// Takes the inputs as they are, without bringing them into the current branch or loop: for the nodes that
    /// do just that.
    pub(super) fn raw(mut self) -> NewNode {
        self.capture = false;
        self
    }
}
