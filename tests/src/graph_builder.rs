//! Graphs written down in a test: nodes by name, op, inputs and attributes.

use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, Tensor};
use tensorfleet_proto::tensorflow::{AttrValue, GraphDef, NodeDef};

/// Collects nodes into a `GraphDef`, without any check: tests also want broken graphs.
///
/// ```
/// use tensorfleet_core::DType;
/// use tensorfleet_tests::graph_builder::GraphBuilder;
/// let graph = GraphBuilder::new()
///     .constant("x", 2.0f32)
///     .node("y", "AddV2", &["x", "x"], &[("T", DType::Float.into())])
///     .build();
/// assert_eq!(graph.node[1].input, ["x", "x"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    graph: GraphDef,
}

/// An attribute's value.
pub struct Attr(AttrValue);

impl<T: IntoAttr> From<T> for Attr {
    fn from(value: T) -> Attr {
        Attr(value.into_attr())
    }
}

impl GraphBuilder {
    /// An empty graph.
    pub fn new() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Adds any node.
    pub fn node(mut self, name: &str, op: &str, inputs: &[&str], attrs: &[(&str, Attr)]) -> GraphBuilder {
        self.graph.node.push(NodeDef {
            name: name.to_string(),
            op: op.to_string(),
            input: inputs.iter().map(|input| input.to_string()).collect(),
            attr: attrs.iter().map(|(key, Attr(value))| (key.to_string(), value.clone())).collect(),
            ..Default::default()
        });
        self
    }

    /// Adds a node whose only attribute is `T`.
    pub fn typed(self, name: &str, op: &str, inputs: &[&str], dtype: DType) -> GraphBuilder {
        self.node(name, op, inputs, &[("T", dtype.into())])
    }

    /// Adds a `Const`.
    pub fn constant(self, name: &str, value: impl Into<Tensor>) -> GraphBuilder {
        let value = value.into();
        let dtype = value.dtype();
        self.node(name, "Const", &[], &[("value", value.into()), ("dtype", dtype.into())])
    }

    /// Adds a `Placeholder` of unknown shape.
    pub fn placeholder(self, name: &str, dtype: DType) -> GraphBuilder {
        self.node(name, "Placeholder", &[], &[("dtype", dtype.into())])
    }

    /// Asks for a device for the node added last.
    pub fn on(mut self, device: &str) -> GraphBuilder {
        if let Some(node) = self.graph.node.last_mut() {
            node.device = device.to_string();
        }
        self
    }

    /// The graph.
    pub fn build(self) -> GraphDef {
        self.graph
    }
}
