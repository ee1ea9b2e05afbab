//! What is known of every output before anything runs: its type, its shape, and its value where that is constant.
//!
//! Values matter because shapes are computed by graphs, too: `reshape(x, concat(shape(y)[:1], [-1]))`. Small
//! integer tensors are therefore evaluated while the graph is built, as TensorFlow's shape refiner does, with the
//! ops' own kernels; and where only some elements are known, as far as they are ([`OutputFacts::as_shape`]).

use smallvec::SmallVec;
use tensorfleet_core::{DType, EdgeType, PartialShape, Result, Status, Tensor};

use crate::constant_evaluation;
use crate::known_value::{KnownValue, MAX_KNOWN_ELEMENTS, is_integer};
use crate::node_spec::NodeSpec;
use crate::shape_context::{InputShape, ShapeContext};

/// What is known of one output.
#[derive(Clone, Debug)]
pub struct OutputFacts {
    /// Its type.
    pub edge: EdgeType,
    /// Its shape, as far as it is known.
    pub shape: PartialShape,
    /// Its value, if it is constant and small.
    pub value: Option<Tensor>,
    /// Its value read as a shape, if it is a vector of integers of which some are known.
    pub as_shape: Option<PartialShape>,
}

/// The facts of all outputs of a node.
pub(super) type NodeFacts = SmallVec<[OutputFacts; 1]>;

impl OutputFacts {
    pub(super) fn as_input(&self) -> InputShape {
        InputShape { shape: self.shape.clone(), value: self.value.clone(), as_shape: self.as_shape.clone() }
    }
}

/// Runs the shape rule and evaluates what is constant.
pub(super) fn infer(spec: &NodeSpec<'_>, inputs: &[InputShape]) -> Result<NodeFacts> {
    let shapes = match spec.op().shape {
        Some(rule) => rule(&ShapeContext::new(spec, inputs)).map_err(|status| with_shapes(status, inputs))?,
        None => Vec::new(),
    };
    let mut shapes = shapes.into_iter();
    let facts = spec.outputs.iter().map(|&edge| OutputFacts {
        edge,
        shape: shapes.next().unwrap_or_default(),
        value: None,
        as_shape: None,
    });
    let mut facts: NodeFacts = facts.collect();
    evaluate(spec, inputs, &mut facts);
    Ok(facts)
}

/// Adds the input shapes to the message, as TensorFlow does.
fn with_shapes(status: Status, inputs: &[InputShape]) -> Status {
    let shapes: Vec<String> = inputs.iter().map(|input| input.shape.to_string()).collect();
    let mut text = format!("{} with input shapes: {}.", status.text(), shapes.join(", "));
    let values = inputs.iter().enumerate().filter_map(|(index, input)| {
        let value = input.value.as_ref().filter(|value| value.num_elements() <= 16)?;
        Some(format!("input[{index}] = <{}>", value.to_string().trim()))
    });
    let values: Vec<String> = values.collect();
    if !values.is_empty() {
        text.pop();
        text = format!("{text} and with computed input tensors: {}.", values.join(", "));
    }
    Status::new(status.code(), text)
}

fn evaluate(spec: &NodeSpec<'_>, inputs: &[InputShape], facts: &mut NodeFacts) {
    let op = spec.op();
    if op.passes_through
        && let ([fact], Some(input)) = (&mut facts[..], inputs.first())
    {
        fact.value = input.value.clone();
        fact.as_shape = input.as_shape.clone();
    }
    if let Some(rule) = op.known_value {
        let context = ShapeContext::new(spec, inputs);
        for (index, fact) in facts.iter_mut().enumerate() {
            match rule(&context, index) {
                Some(KnownValue::Whole(value)) => fact.value = Some(value),
                Some(KnownValue::Shape(shape)) => fact.as_shape = Some(shape),
                None => {}
            }
        }
    }
    let is_open = facts.iter().any(|fact| fact.value.is_none());
    if is_open && inputs.iter().all(|input| input.value.is_some()) {
        run_kernel(spec, inputs, facts);
    }
    // A shape of which everything is known is a value.
    for fact in facts {
        if let (None, Some(shape)) = (&fact.value, fact.as_shape.as_ref().and_then(PartialShape::to_shape)) {
            fact.value = integer_vector(fact.edge.dtype, &shape);
        }
    }
}

fn integer_vector(dtype: DType, values: &[usize]) -> Option<Tensor> {
    match dtype {
        DType::Int32 => {
            let values: Vec<i32> =
                values.iter().map(|&value| i32::try_from(value).ok()).collect::<Option<_>>()?;
            Tensor::vector(&values).ok()
        }
        DType::Int64 => Tensor::vector(&values.iter().map(|&value| value as i64).collect::<Vec<_>>()).ok(),
        _ => None,
    }
}

/// Computes small integer outputs of an op without state from constant inputs. Errors are left to the run, which
/// reports them with their place.
fn run_kernel(spec: &NodeSpec<'_>, inputs: &[InputShape], facts: &mut [OutputFacts]) {
    let small = |fact: &OutputFacts| {
        let integer = is_integer(fact.edge.dtype) && !fact.edge.is_ref;
        let count = fact.shape.to_shape().map_or(usize::MAX, |shape| shape.num_elements());
        integer && count <= MAX_KNOWN_ELEMENTS
    };
    if inputs.is_empty() || facts.is_empty() || !facts.iter().all(small) {
        return;
    }
    let values = inputs.iter().filter_map(|input| input.value.clone());
    let Some(outputs) = constant_evaluation::evaluate(spec, values) else { return };
    for (fact, output) in facts.iter_mut().zip(outputs) {
        if fact.shape.admits(output.shape()) {
            fact.value = Some(output);
        }
    }
}
