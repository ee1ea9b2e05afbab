//! Dtypes and shapes of what nodes put out: inferred if every op is known, else as far as attributes tell.

use std::collections::HashMap;

use tensorfleet::Graph;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{DType, Endpoint, NodeId, PartialShape, Shape};
use tensorfleet_proto::tensorflow::attr_value::Value;
use tensorfleet_proto::tensorflow::{GraphDef, NodeDef};

/// What is known of every output.
pub(super) struct Shapes {
    outputs: Vec<Vec<(DType, PartialShape)>>,
    /// Why shapes could not be inferred.
    pub(super) note: Option<String>,
}

impl Shapes {
    pub(super) fn of(graph: &GraphDef) -> Shapes {
        match Graph::from_graph_def(with_read_shapes(graph)) {
            Ok(graph) => Shapes { outputs: inferred(&graph), note: None },
            Err(status) => Shapes {
                outputs: graph.node.iter().map(from_attributes).collect(),
                note: Some(status.text().to_string()),
            },
        }
    }

    pub(super) fn output(&self, node: usize, slot: u32) -> Option<&(DType, PartialShape)> {
        self.outputs.get(node)?.get(slot as usize)
    }
}

/// The graph with a placeholder instead of every read of a variable whose shape is known, for inference alone: a handle
/// does not tell the shape of what it stands for.
fn with_read_shapes(graph: &GraphDef) -> GraphDef {
    let handles: HashMap<&str, &NodeDef> = graph
        .node
        .iter()
        .filter(|node| node.op == "VarHandleOp")
        .map(|node| (node.name.as_str(), node))
        .collect();
    let shape = |node: &NodeDef| {
        let handle = handles.get(node.input.first()?.as_str()).filter(|_| node.op == "ReadVariableOp")?;
        handle.attr.get("shape").cloned()
    };
    let mut typed = graph.clone();
    for node in &mut typed.node {
        if let Some(shape) = shape(node) {
            node.op = "Placeholder".to_string();
            node.input.retain(|input| input.starts_with('^'));
            node.attr.insert("shape".to_string(), shape);
        }
    }
    typed
}

fn inferred(graph: &Graph) -> Vec<Vec<(DType, PartialShape)>> {
    graph.build(|builder| {
        let outputs = |id: NodeId| {
            (0..builder.num_outputs(id) as u32)
                .filter_map(|slot| {
                    let endpoint = Endpoint::new(id, slot);
                    Some((builder.dtype(endpoint).ok()?, builder.shape(endpoint).ok()?.clone()))
                })
                .collect()
        };
        (0..builder.graph().len()).map(|index| outputs(NodeId::from_index(index))).collect()
    })
}

/// What the node says itself: shapes that TensorFlow wrote down, or those of constants, variables and placeholders.
fn from_attributes(node: &NodeDef) -> Vec<(DType, PartialShape)> {
    let Some(dtype) = ["dtype", "T", "DstT", "output_type"].iter().find_map(|name| dtype_attr(node, name))
    else {
        return Vec::new();
    };
    if let Some(shapes) =
        node.attr.get("_output_shapes").and_then(|value| Vec::<PartialShape>::from_attr(value).ok())
    {
        return shapes.into_iter().map(|shape| (dtype, shape)).collect();
    }
    match node.attr.get("value").and_then(|value| value.value.as_ref()) {
        Some(Value::Tensor(tensor)) => {
            let shape = tensor.tensor_shape.as_ref().and_then(|shape| Shape::from_proto(shape).ok());
            vec![(dtype, shape.map_or_else(PartialShape::unknown, PartialShape::from))]
        }
        _ => match shape_attr(node) {
            Some(shape) => vec![(dtype, shape)],
            None => Vec::new(),
        },
    }
}

/// The attribute `shape` of a variable or placeholder.
pub(super) fn shape_attr(node: &NodeDef) -> Option<PartialShape> {
    PartialShape::from_attr(node.attr.get("shape")?).ok()
}

pub(super) fn dtype_attr(node: &NodeDef, name: &str) -> Option<DType> {
    DType::from_attr(node.attr.get(name)?).ok()
}
