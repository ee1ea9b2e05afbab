//! Constant folding: what depends on constants alone is computed while planning.
//!
//! Only what is certain and cheap: ops without state, on plain numbers, whose output is known to be small before it is
//! computed. An op that fails stays as it is, so that its error comes from the step, with its node.

use rustc_hash::FxHashMap;
use tensorfleet_core::attr::FromAttr;
use tensorfleet_core::{Endpoint, NodeId, Result, Tensor};
use tensorfleet_kernel::NodeSpec;
use tensorfleet_kernel::constant_evaluation::{evaluate, is_evaluable};
use tensorfleet_kernel::shape_context::{InputShape, ShapeContext};
use tensorfleet_proto::tensorflow::attr_value;

use super::constants::{constant, is_constant};
use super::names::Names;
use super::step_graph::{StepGraph, StepNode};

/// A constant that is bigger than this is not worth computing in advance: it would travel in every registration.
const MAX_BYTES: usize = 64 << 10;
/// All constants that one step's plan makes.
const MAX_TOTAL_BYTES: usize = 10 << 20;
/// Nodes tried per plan, so that planning stays short.
const MAX_NODES: usize = 10_000;

/// Folds the constants of one step.
#[derive(Default)]
pub(super) struct Folder {
    /// Values of constants that have been looked at; `None` for those too big.
    values: FxHashMap<Endpoint, Option<Tensor>>,
    total_bytes: usize,
    tried: usize,
}

impl Folder {
    /// Computes node `id` if all its inputs are constant. A node with one output becomes a `Const` itself; for one with
    /// several, gives the constants that take the place of its outputs.
    pub(super) fn fold(
        &mut self,
        step: &mut StepGraph,
        id: NodeId,
        names: &Names<'_>,
    ) -> Result<Option<Vec<Endpoint>>> {
        let Some(outputs) = self.compute(step, id) else { return Ok(None) };
        self.total_bytes += outputs.iter().map(Tensor::byte_size).sum::<usize>();
        let Some(device) = step.get(id).device else { return Ok(None) };
        let name = step.get(id).node.name.clone();
        let mut endpoints = Vec::with_capacity(outputs.len());
        for (slot, output) in outputs.iter().enumerate() {
            let endpoint = if outputs.len() == 1 {
                step.nodes[id.index()] = StepNode::new(constant(&name, output), device, step.catalogue)?;
                Endpoint::new(id, 0)
            } else {
                // The same in every plan, so that a session that keeps kernels by name keeps one.
                let name = names.reserved(format!("{name}/folded_{slot}"));
                Endpoint::new(step.add(constant(&name, output), device)?, 0)
            };
            self.values.insert(endpoint, Some(output.clone()));
            endpoints.push(endpoint);
        }
        Ok(Some(endpoints))
    }

    fn compute(&mut self, step: &StepGraph, id: NodeId) -> Option<Vec<Tensor>> {
        let node = step.get(id);
        let is_foldable = is_evaluable(node.op)
            && !node.node.inputs.is_empty()
            && node.node.control_inputs.is_empty()
            && !node.outputs.is_empty()
            && node.outputs.iter().all(|output| !output.is_ref && output.dtype.is_plain());
        // Most nodes have an input that is no constant: look at the op first, parse values last.
        let is_constant = |input: &Endpoint| is_constant(step.get(input.node));
        if !is_foldable || !node.node.inputs.iter().all(is_constant) || self.tried >= MAX_NODES {
            return None;
        }
        self.tried += 1;
        let inputs: Vec<Tensor> =
            node.node.inputs.iter().map(|&input| self.value(step, input)).collect::<Option<_>>()?;
        let spec = NodeSpec::resolve(&node.node, step.catalogue).ok()?;
        let bytes = output_bytes(&spec, &inputs)?;
        if bytes > MAX_BYTES || self.total_bytes + bytes > MAX_TOTAL_BYTES {
            return None;
        }
        let outputs = evaluate(&spec, inputs)?;
        let as_declared =
            outputs.iter().zip(&node.outputs).all(|(output, edge)| output.dtype() == edge.dtype);
        as_declared.then_some(outputs)
    }

    /// The value of an output of a constant, unless it is big.
    fn value(&mut self, step: &StepGraph, endpoint: Endpoint) -> Option<Tensor> {
        let parse = || {
            let attr = step.get(endpoint.node).node.attrs.get("value")?;
            let Some(attr_value::Value::Tensor(proto)) = &attr.value else { return None };
            let dims = proto.tensor_shape.as_ref().map_or(&[][..], |shape| &shape.dim);
            let elements = dims.iter().try_fold(1usize, |product, dim| {
                product.checked_mul(usize::try_from(dim.size).ok()?).filter(|&product| product <= MAX_BYTES)
            })?;
            let tensor = (elements <= MAX_BYTES).then(|| Tensor::from_attr(attr).ok()).flatten()?;
            (tensor.dtype().is_plain() && tensor.byte_size() <= MAX_BYTES).then_some(tensor)
        };
        self.values.entry(endpoint).or_insert_with(parse).clone()
    }
}

/// A bound on the size of all outputs, if one is known for these inputs.
fn output_bytes(spec: &NodeSpec<'_>, inputs: &[Tensor]) -> Option<usize> {
    if spec.op().never_longer {
        let elements: usize = inputs.iter().map(Tensor::num_elements).sum();
        let sizes = spec.outputs.iter().map(|edge| edge.dtype.size());
        return sizes.sum::<Option<usize>>()?.checked_mul(elements);
    }
    let known = |input: &Tensor| InputShape {
        shape: input.shape().into(),
        value: Some(input.clone()),
        as_shape: None,
    };
    let inputs: Vec<InputShape> = inputs.iter().map(known).collect();
    let shapes = spec.op().shape?(&ShapeContext::new(spec, &inputs)).ok()?;
    let mut total = 0usize;
    for (shape, edge) in shapes.iter().zip(&spec.outputs) {
        let mut bytes = edge.dtype.size()?;
        for dim in shape.dims()? {
            bytes = bytes.checked_mul((*dim)?)?;
        }
        total = total.checked_add(bytes)?;
    }
    Some(total)
}
