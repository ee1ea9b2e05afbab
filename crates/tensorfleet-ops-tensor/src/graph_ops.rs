//! Graph basics: constants, placeholders, identities, and ops that exist for their edges.

use prost::Message as _;
use tensorfleet_core::{DType, PartialShape, Result, Shape, Status, Tensor, ensure};
use tensorfleet_proto::tensorflow::{TensorProto, attr_value};

use tensorfleet_kernel::gradients::{Differential, Grads};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::known_value::{KnownValue, MAX_KNOWN_ELEMENTS};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Flow, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, same_as_input};

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("NoOp", "").shape(no_outputs).kernel(no_op).cost(Cost::Trivial),
    Op::new("ControlTrigger", "").shape(no_outputs).kernel(no_op).flow(Flow::Trigger).cost(Cost::Trivial),
    Op::new("Const", "-> output: dtype")
        .not_differentiable()
        .attrs("value: tensor; dtype: type")
        .shape(const_shape)
        .kernel(const_kernel)
        .cost(Cost::Trivial)
        .known_value(const_value),
    Op::new("Placeholder", "-> output: dtype")
        .attrs("dtype: type; shape: shape = unknown")
        .shape(declared_shape)
        .kernel(placeholder)
        .cost(Cost::Trivial)
        .placeholder(),
    Op::new("PlaceholderV2", "-> output: dtype")
        .attrs("dtype: type; shape: shape")
        .shape(declared_shape)
        .kernel(placeholder)
        .cost(Cost::Trivial)
        .placeholder(),
    Op::new("PlaceholderWithDefault", "input: dtype -> output: dtype")
        .gradient(passed_back)
        .attrs("dtype: type; shape: shape")
        .shape(declared_shape)
        .kernel(identity)
        .cost(Cost::Trivial)
        .never_merged(),
    Op::new("Identity", "input: T -> output: T")
        .gradient(passed_back)
        .attrs("T: type")
        .shape(same_as_input)
        .kernel(identity)
        .cost(Cost::Trivial)
        .passes_references(),
    Op::new("StopGradient", "input: T -> output: T")
        .not_differentiable()
        .attrs("T: type")
        .shape(same_as_input)
        .kernel(identity)
        .cost(Cost::Trivial)
        .passes_through(),
    Op::new("PreventGradient", "input: T -> output: T")
        .gradient(prevented)
        .attrs("T: type; message: string = ''")
        .shape(same_as_input)
        .kernel(identity)
        .cost(Cost::Trivial)
        .passes_through(),
    Op::new("GuaranteeConst", "input: T -> output: T")
        .attrs("T: type")
        .stateful()
        .shape(same_as_input)
        .kernel(identity)
        .cost(Cost::Trivial),
    Op::new("Snapshot", "input: T -> output: T")
        .gradient(passed_back)
        .attrs("T: type")
        .shape(same_as_input)
        .kernel(identity)
        .cost(Cost::Trivial)
        .passes_through(),
    Op::new("IdentityN", "input: T -> output: T")
        .gradient(passed_back)
        .attrs("T: list(type) >= 1")
        .shape(same_as_inputs)
        .kernel(identity)
        .cost(Cost::Trivial),
];

fn no_outputs(_: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(Vec::new())
}

fn no_op(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|_| Ok(())))
}

fn const_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shape = match uniform(ctx.node)? {
        Some((_, shape)) => shape,
        None => ctx.attr::<Tensor>("value")?.shape().clone(),
    };
    Ok(vec![(&shape).into()])
}

fn const_value(ctx: &ShapeContext<'_>, _: usize) -> Option<KnownValue> {
    let Some(attr_value::Value::Tensor(proto)) = &ctx.node.raw_attr("value").ok()?.value else { return None };
    let shape = Shape::from_proto(proto.tensor_shape.as_ref()?).ok()?;
    let is_small = shape.num_elements() <= MAX_KNOWN_ELEMENTS && ctx.node.output_dtype(0).ok()?.is_plain();
    is_small.then(|| ctx.attr("value").ok().map(KnownValue::Whole))?
}

/// Constants of many equal numbers that are larger than this are made when they are needed. TensorFlow's programs write the
/// first values of an optimizer's slots so: kept, they would be as large as the slots, for ever.
const KEEP_UNIFORM_BYTES: usize = 1 << 20;

/// The value and shape of a constant that is one number many times over, if it is large.
fn uniform<'a>(node: &'a NodeSpec<'_>) -> Result<Option<(&'a TensorProto, Shape)>> {
    let attr = node.node().attrs.get("value").and_then(|attr| attr.value.as_ref());
    let Some(attr_value::Value::Tensor(proto)) = attr else { return Ok(None) };
    let (Ok(dtype), Some(shape)) = (DType::from_number(proto.dtype), &proto.tensor_shape) else {
        return Ok(None);
    };
    if !dtype.is_plain() || !proto.tensor_content.is_empty() {
        return Ok(None);
    }
    // One number may be many bytes, none is zero; many numbers are rarely so many that they matter here.
    let is_one = proto.encoded_len() < 256;
    let shape = Shape::from_proto(shape)?;
    let is_large = shape.num_elements() > KEEP_UNIFORM_BYTES / dtype.size().unwrap_or(1);
    Ok((is_one && is_large).then_some((&**proto, shape)))
}

/// `Const`: the value is decoded once and shared by all steps, unless it is large and easily made.
fn const_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let dtype = node.output_dtype(0)?;
    let check = |found: DType| -> Result<()> {
        ensure!(
            found == dtype,
            InvalidArgument,
            "the value is a {found} tensor, but attr dtype says {dtype}"
        );
        Ok(())
    };
    if let Some((proto, _)) = uniform(node)? {
        check(DType::from_number(proto.dtype)?)?;
        let proto = proto.clone();
        return Ok(KernelBox::from_fn(move |ctx| {
            ctx.set_output(0, Tensor::from_proto(&proto)?);
            Ok(())
        }));
    }
    let value: Tensor = node.attr("value")?;
    check(value.dtype())?;
    Ok(KernelBox::from_fn(move |ctx| {
        ctx.set_output(0, value.clone());
        Ok(())
    }))
}

fn declared_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok(vec![ctx.attr("shape")?])
}

/// `Placeholder`: running one means that nobody fed it.
fn placeholder(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (name, dtype) = (node.name().to_string(), node.output_dtype(0)?);
    let shape: PartialShape = node.attr("shape")?;
    Ok(KernelBox::from_fn(move |_| {
        let known = if shape.rank().is_some() { format!(" and shape {shape}") } else { String::new() };
        Err(Status::invalid_argument(format!(
            "You must feed a value for placeholder tensor '{name}' with dtype {dtype}{known}"
        )))
    }))
}

fn same_as_inputs(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    Ok((0..ctx.num_outputs()).map(|index| ctx.input(index).clone()).collect())
}

/// `Identity` and its kin: values pass through untouched.
fn identity(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let count = node.outputs.len();
    Ok(KernelBox::from_fn(move |ctx| {
        for index in 0..count {
            ctx.forward(index, index);
        }
        Ok(())
    }))
}

/// What arrives at an output goes on to the input in the same place; inputs without such an output get nothing.
pub fn passed_back(d: &mut Differential<'_>) -> Result<Grads> {
    Ok((0..d.inputs().len()).map(|index| d.arriving(index)).collect())
}

fn prevented(d: &mut Differential<'_>) -> Result<Grads> {
    let (message, name) = (d.attr::<String>("message")?, &d.node().name);
    Err(Status::not_found(format!("Gradient explicitly disabled at '{name}'. Reason: {message}")))
}
