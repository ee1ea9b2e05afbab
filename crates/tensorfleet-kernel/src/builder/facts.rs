//! What is known of every output before anything runs: its type, its shape, and its value where that is constant.
//!
//! Values matter because shapes are computed by graphs, too: `reshape(x, concat(shape(y)[:1], [-1]))`. Small
//! integer tensors are therefore evaluated while the graph is built, as TensorFlow's shape refiner does, with the
//! ops' own kernels; and where only some elements are known, as far as they are ([`OutputFacts::as_shape`]).

use smallvec::SmallVec;
use tensorfleet_core::{DType, Dim, EdgeType, PartialShape, Result, Status, Tensor};

use crate::constant_evaluation;
use crate::node_spec::NodeSpec;
use crate::shape_context::{InputShape, ShapeContext};

/// Shape arithmetic works on a handful of numbers; anything larger is data, and is left to the run.
const MAX_KNOWN_ELEMENTS: usize = 1024;

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
    let passes_through =
        || matches!(spec.op().name, "Identity" | "StopGradient" | "PreventGradient" | "Snapshot");
    match (spec.op().name, &mut facts[..]) {
        ("Const", [fact]) => {
            let small = fact.shape.to_shape().is_some_and(|shape| shape.num_elements() <= MAX_KNOWN_ELEMENTS);
            if small && fact.edge.dtype.is_plain() {
                fact.value = spec.attr("value").ok();
            }
        }
        ("Shape" | "ShapeN", facts) => {
            for (fact, input) in facts.iter_mut().zip(inputs) {
                if input.shape.rank().is_some() {
                    fact.as_shape = Some(input.shape.clone());
                }
            }
        }
        ("Rank", [fact]) => {
            fact.value = inputs[0].shape.rank().and_then(|rank| integer_scalar(fact.edge.dtype, rank));
        }
        ("Size", [fact]) => {
            let count = inputs[0].shape.to_shape().map(|shape| shape.num_elements());
            fact.value = count.and_then(|count| integer_scalar(fact.edge.dtype, count));
        }
        (_, [fact]) if passes_through() && !fact.edge.is_ref => {
            fact.value = inputs[0].value.clone();
            fact.as_shape = inputs[0].as_shape.clone();
        }
        (_, facts) => {
            if inputs.iter().all(|input| input.value.is_some()) {
                run_kernel(spec, inputs, facts);
            } else if let [fact] = facts {
                fact.as_shape = partial_shape(spec, inputs);
                if spec.op().name == "StridedSlice" && fact.shape.rank() == Some(0) {
                    fact.value =
                        shape_element(spec, inputs).and_then(|dim| integer_scalar(fact.edge.dtype, dim));
                }
            }
        }
    }
    // A shape of which everything is known is a value, and a vector value is a shape.
    for fact in facts {
        if let (None, Some(shape)) = (&fact.value, fact.as_shape.as_ref().and_then(PartialShape::to_shape)) {
            fact.value = integer_vector(fact.edge.dtype, &shape);
        }
    }
}

/// Shape vectors of which some elements are known, through the ops that programs take them apart and put them
/// together with.
fn partial_shape(spec: &NodeSpec<'_>, inputs: &[InputShape]) -> Option<PartialShape> {
    let is_integer = |dtype: DType| matches!(dtype, DType::Int32 | DType::Int64);
    if spec.outputs.len() != 1 || !is_integer(spec.outputs[0].dtype) {
        return None;
    }
    match spec.op().name {
        "Cast" if is_integer(spec.input_dtype(0).ok()?) => inputs[0].as_shape.clone(),
        "Pack" => {
            let scalars = inputs.iter().all(|input| input.shape.rank() == Some(0));
            let dim = |input: &InputShape| usize::try_from(only_integer(input)?).ok();
            scalars.then(|| PartialShape::new(inputs.iter().map(dim)))
        }
        "ConcatV2" => {
            let (_, parts) = inputs.split_last()?;
            let mut dims: Vec<Dim> = Vec::new();
            for part in parts {
                dims.extend(vector_dims(part)?);
            }
            Some(PartialShape::new(dims))
        }
        "StridedSlice" => sliced_shape(spec, inputs),
        _ => None,
    }
}

/// A slice of a shape vector, where the bounds are constant and the result is again a vector.
fn sliced_shape(spec: &NodeSpec<'_>, inputs: &[InputShape]) -> Option<PartialShape> {
    let mask = |name: &str| spec.attr::<i64>(name).ok();
    if mask("ellipsis_mask")? != 0 || mask("new_axis_mask")? != 0 || mask("shrink_axis_mask")? != 0 {
        return None;
    }
    let dims = vector_dims(&inputs[0])?;
    let (begin, end, stride) =
        (only_integer(&inputs[1])?, only_integer(&inputs[2])?, only_integer(&inputs[3])?);
    if stride <= 0 {
        return None;
    }
    let len = dims.len() as i64;
    let clamped = |value: i64| (if value < 0 { value.saturating_add(len) } else { value }).clamp(0, len);
    let begin = if mask("begin_mask")? & 1 != 0 { 0 } else { clamped(begin) };
    let end = if mask("end_mask")? & 1 != 0 { len } else { clamped(end) };
    let taken = dims.get(begin as usize..end as usize).unwrap_or_default();
    Some(PartialShape::new(taken.iter().step_by(stride as usize).copied()))
}

/// One element of a shape vector, taken with a constant index: `shape(x)[1]`.
fn shape_element(spec: &NodeSpec<'_>, inputs: &[InputShape]) -> Dim {
    let mask = |name: &str| spec.attr::<i64>(name).ok();
    let others = ["begin_mask", "ellipsis_mask", "new_axis_mask"];
    if mask("shrink_axis_mask")? != 1 || others.iter().any(|name| mask(name) != Some(0)) {
        return None;
    }
    let dims = vector_dims(&inputs[0])?;
    let index = only_integer(&inputs[1])?;
    let index = if index < 0 { index.checked_add(dims.len() as i64)? } else { index };
    dims.get(usize::try_from(index).ok()?).copied().flatten()
}

fn only_integer(input: &InputShape) -> Option<i64> {
    match crate::shape_context::integers_of(input.value.as_ref()?).ok()?[..] {
        [value] => Some(value),
        _ => None,
    }
}

/// The elements of an integer vector as dimensions, where at least their number is known.
fn vector_dims(input: &InputShape) -> Option<Vec<Dim>> {
    if let Some(value) = &input.value {
        let values = crate::shape_context::integers_of(value).ok()?;
        return Some(values.into_iter().map(|value| usize::try_from(value).ok()).collect());
    }
    match (&input.as_shape, input.shape.dims()) {
        (Some(shape), _) => shape.dims().map(<[Dim]>::to_vec),
        (None, Some([Some(len)])) if *len <= MAX_KNOWN_ELEMENTS => Some(vec![None; *len]),
        _ => None,
    }
}

fn integer_scalar(dtype: DType, value: usize) -> Option<Tensor> {
    match dtype {
        DType::Int32 => Some(Tensor::scalar(i32::try_from(value).ok()?)),
        DType::Int64 => Some(Tensor::scalar(i64::try_from(value).ok()?)),
        _ => None,
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
        let integer = matches!(fact.edge.dtype, DType::Int32 | DType::Int64) && !fact.edge.is_ref;
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
