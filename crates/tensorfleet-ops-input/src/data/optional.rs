//! Optionals: an element or nothing, in a variant.

use tensorfleet_core::{PartialShape, Result, Status, Tensor, Variant, VariantExtent, VariantObject};

use super::dataset::{Element, ElementSpec};
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::{Cost, Op};
use tensorfleet_kernel::shape_context::{ShapeContext, scalars};
use tensorfleet_ops_tensor::variants::{add, zeros_like};

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
    pub(crate) extent: VariantExtent,
}

impl VariantObject for Optional {
    fn type_name(&self) -> &str {
        "tensorflow::data::Optional"
    }

    fn extent(&self) -> VariantExtent {
        self.extent
    }

    fn zeros_like(&self) -> Result<Variant> {
        let element = self.element.as_ref();
        to_variant(element.map(|element| element.iter().map(zeros_like).collect::<Result<_>>()).transpose()?)
    }

    fn add(&self, other: &Variant) -> Result<Variant> {
        let Some(other) = other.object::<Optional>() else {
            return Err(Status::invalid_argument(format!(
                "Cannot add an optional and a value of type '{}'.",
                other.type_name()
            )));
        };
        let sum = match (&self.element, &other.element) {
            (None, None) => None,
            (Some(a), Some(b)) if a.len() == b.len() => {
                Some(a.iter().zip(b).map(|(a, b)| add(a.clone(), b)).collect::<Result<_>>()?)
            }
            (Some(a), Some(b)) => {
                return Err(Status::invalid_argument(format!(
                    "Cannot add optionals because one has {} components and the other has {}.",
                    a.len(),
                    b.len()
                )));
            }
            _ => {
                return Err(Status::invalid_argument(
                    "Cannot add optionals because one has a value and the other doesn't.",
                ));
            }
        };
        to_variant(sum)
    }
}

/// A tensor that holds an element or nothing.
pub(crate) fn to_tensor(element: Option<Element>) -> Result<Tensor> {
    Tensor::from_variants(vec![to_variant(element)?], &[])
}

/// A variant that holds an element or nothing.
pub(crate) fn to_variant(element: Option<Element>) -> Result<Variant> {
    let extent = VariantExtent::around(element.iter().flatten())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_DEPTH: u32 = 32;

    fn optional_of(tensor: Tensor) -> Result<Tensor> {
        to_tensor(Some(vec![tensor]))
    }

    #[test]
    fn nesting_has_an_end() {
        let mut tensor = Tensor::scalar(1.0f32);
        for _ in 0..MAX_DEPTH {
            tensor = optional_of(tensor).unwrap();
        }
        assert!(optional_of(tensor).unwrap_err().text().contains("nested more than 32 times"));
    }

    #[test]
    fn what_occurs_often_counts_often() {
        let mut tensor = Tensor::scalar(1.0f32);
        let grown: Result<()> = (0..MAX_DEPTH).try_for_each(|_| {
            tensor = to_tensor(Some(vec![tensor.clone(); 4]))?;
            Ok(())
        });
        let status = grown.map(|()| tensor).expect_err("it grows without end");
        assert_eq!(status.code(), tensorfleet_core::Code::ResourceExhausted);
    }

    #[test]
    fn optionals_add_up_if_both_have_a_value() {
        let one = optional_of(Tensor::scalar(1.5f32)).unwrap();
        let sum = add(one.clone(), &one).unwrap();
        let value = |tensor: &Tensor| {
            let element = tensor.as_variants().unwrap()[0].object::<Optional>().unwrap().element.clone();
            element.unwrap()[0].to_scalar::<f32>().unwrap()
        };
        assert_eq!((value(&sum), value(&zeros_like(&sum).unwrap())), (3.0, 0.0));
        let none = to_tensor(None).unwrap();
        assert!(add(none.clone(), &none).is_ok() && add(none, &one).is_err());
    }
}
