//! Optionals: an element or nothing, in a variant.

use tensorfleet_core::{PartialShape, Result, Status, Tensor, Variant, VariantObject};

use super::dataset::{Element, ElementSpec};
use crate::kernel::KernelBox;
use crate::node_spec::NodeSpec;
use crate::op::{Cost, Op};
use crate::shape_context::{ShapeContext, scalars};
use crate::variants::Extent;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    optional("OptionalNone", "-> optional: variant").shape(scalars).kernel(none),
    optional("OptionalFromValue", "components: Toutput_types -> optional: variant")
        .attrs("Toutput_types: list(type) >= 1")
        .shape(scalars)
        .kernel(from_value),
    optional("OptionalHasValue", "optional: variant -> has_value: bool").shape(scalars).kernel(has_value),
    optional("OptionalGetValue", "optional: variant -> components: output_types")
        .attrs("output_types: list(type) >= 1; output_shapes: list(shape) >= 1")
        .shape(announced_shapes)
        .kernel(get_value),
];

const fn optional(name: &'static str, signature: &'static str) -> Op {
    Op::new(name, signature).not_differentiable().cost(Cost::Trivial)
}

/// Shape rule of ops whose outputs are the components of an element.
pub(super) fn announced_shapes(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let shapes: Vec<PartialShape> = ctx.attr("output_shapes")?;
    if shapes.len() == ctx.num_outputs() {
        return Ok(shapes);
    }
    Err(Status::invalid_argument(format!(
        "`output_shapes` must be the same length as `output_types` ({} vs. {})",
        shapes.len(),
        ctx.num_outputs()
    )))
}

/// An element or nothing.
pub(crate) struct Optional {
    pub(crate) element: Option<Element>,
    /// How much is inside.
    pub(crate) extent: Extent,
}

impl VariantObject for Optional {
    fn type_name(&self) -> &str {
        "tensorflow::data::Optional"
    }
}

/// A tensor that holds an element or nothing.
pub(crate) fn to_tensor(element: Option<Element>) -> Result<Tensor> {
    Tensor::from_variants(vec![to_variant(element)?], &[])
}

/// A variant that holds an element or nothing.
pub(crate) fn to_variant(element: Option<Element>) -> Result<Variant> {
    let extent = Extent::around(element.iter().flatten())?;
    Ok(Variant::from_object(Optional { element, extent }))
}

fn content(tensor: &Tensor) -> Result<&Option<Element>> {
    let optional = match tensor.as_variants()? {
        [variant] => variant.object::<Optional>(),
        _ => None,
    };
    optional
        .map(|optional| &optional.element)
        .ok_or_else(|| Status::invalid_argument("the input is not an optional of this task"))
}

fn none(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        ctx.set_output(0, to_tensor(None)?);
        Ok(())
    }))
}

fn from_value(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let element = (0..ctx.num_inputs()).map(|index| ctx.input(index).cloned()).collect::<Result<_>>()?;
        ctx.set_output(0, to_tensor(Some(element))?);
        Ok(())
    }))
}

fn has_value(_: &NodeSpec<'_>) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(|ctx| {
        let has_value = content(ctx.input(0)?)?.is_some();
        ctx.set_output(0, Tensor::scalar(has_value));
        Ok(())
    }))
}

fn get_value(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let spec = ElementSpec::of(node)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let missing = || Status::invalid_argument("The given optional does not have a value.");
        let element = content(ctx.input(0)?)?.clone().ok_or_else(missing)?;
        spec.check_element(&element)?;
        for (index, tensor) in element.into_iter().enumerate() {
            ctx.set_output(index, tensor);
        }
        Ok(())
    }))
}
