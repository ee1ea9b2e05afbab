//! [`Dataset`] and [`DatasetIterator`]: what all datasets are, and how they travel between nodes.

use std::sync::Arc;

use tensorfleet_core::memory::Kept;
use tensorfleet_core::{
    DType, PartialShape, Result, Status, Tensor, Variant, VariantExtent, VariantObject, ensure,
};

use tensorfleet_kernel::functions::CallContext;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;

/// One element: a tensor for each component.
pub(crate) type Element = Vec<Tensor>;

/// A sequence of elements that can be walked along any number of times.
pub(super) trait Dataset: Send + Sync {
    /// What its elements are like.
    fn spec(&self) -> &ElementSpec;

    /// A new walk from the beginning, inside others.
    fn iterate(self: Arc<Self>, nesting: Nesting) -> Result<Box<dyn DatasetIterator>>;

    /// How many elements there are.
    fn cardinality(&self) -> Cardinality {
        Cardinality::Unknown
    }
}

/// How many walks a walk is inside of, which call each other on one stack. The datasets of a chain are bounded when they are made;
/// here those count as well that functions make while others are walked along, a function itself included.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Nesting(u32);

/// Longer than the longest chain of datasets, by as much again for what functions make.
const MAX_NESTING: u32 = 2000;

impl Nesting {
    /// For a walk inside the one that has this.
    pub(super) fn inner(self) -> Result<Nesting> {
        ensure!(
            self.0 < MAX_NESTING,
            InvalidArgument,
            "iterators are nested more than {MAX_NESTING} deep: does the function of a dataset make a dataset with the same \
             function?"
        );
        Ok(Nesting(self.0 + 1))
    }
}

/// What keeping an element takes, beyond what is charged for its tensors' data.
pub(super) fn kept_bytes(element: &Element) -> usize {
    element.iter().fold(2 * size_of::<Element>(), |sum, tensor| sum.saturating_add(tensor.kept_bytes()))
}

/// Charges for an element that is kept.
pub(super) fn keep(kept: &mut Kept, element: &Element) -> Result<()> {
    kept.add(kept_bytes(element))
}

/// A walk along a dataset.
pub(super) trait DatasetIterator: Send {
    /// The next element; `None` at the end, and from then on. May wait. After an error the walk may go on.
    fn next(&mut self, ctx: &CallContext) -> Result<Option<Element>>;

    /// Whether `next` would wait for no other thread and no file. A link that calls functions says no: a function may
    /// need the very thread that waits for it.
    fn is_ready(&self) -> bool;
}

/// A walk along elements that are at hand.
pub(super) struct SliceIterator {
    elements: Arc<[Element]>,
    next: usize,
}

impl SliceIterator {
    /// From the first element on.
    pub(super) fn new(elements: Arc<[Element]>) -> SliceIterator {
        SliceIterator { elements, next: 0 }
    }
}

impl DatasetIterator for SliceIterator {
    fn next(&mut self, _: &CallContext) -> Result<Option<Element>> {
        let element = self.elements.get(self.next).cloned();
        self.next += usize::from(element.is_some());
        Ok(element)
    }

    fn is_ready(&self) -> bool {
        true
    }
}

/// How many elements a dataset has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cardinality {
    Finite(u64),
    Infinite,
    Unknown,
}

impl Cardinality {
    /// The number that TensorFlow has for it.
    pub(super) fn number(self) -> i64 {
        match self {
            Cardinality::Finite(count) => i64::try_from(count).unwrap_or(i64::MAX),
            Cardinality::Infinite => -1,
            Cardinality::Unknown => -2,
        }
    }

    /// The same for a finite number that is changed by `change`.
    pub(super) fn map(self, change: impl FnOnce(u64) -> u64) -> Cardinality {
        match self {
            Cardinality::Finite(count) => Cardinality::Finite(change(count)),
            other => other,
        }
    }
}

/// Dtypes and shapes of the components of a dataset's elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ElementSpec {
    pub(super) dtypes: Vec<DType>,
    pub(super) shapes: Vec<PartialShape>,
}

impl ElementSpec {
    /// From the attributes `output_types` (or `Toutput_types`) and `output_shapes`.
    pub(super) fn of(node: &NodeSpec<'_>) -> Result<ElementSpec> {
        let is_input = node.node().attrs.contains_key("Toutput_types");
        let dtypes: Vec<DType> = node.attr(if is_input { "Toutput_types" } else { "output_types" })?;
        let shapes: Vec<PartialShape> = node.attr("output_shapes")?;
        ensure!(
            dtypes.len() == shapes.len(),
            InvalidArgument,
            "there are {} output types and {} output shapes: expected as many",
            dtypes.len(),
            shapes.len()
        );
        Ok(ElementSpec { dtypes, shapes })
    }

    /// Scalar strings, as files give them.
    pub(super) fn strings() -> ElementSpec {
        ElementSpec { dtypes: vec![DType::String], shapes: vec![PartialShape::scalar()] }
    }

    /// Whether elements of a dataset fit where `self` is expected.
    pub(super) fn check_dataset(&self, found: &ElementSpec) -> Result<()> {
        ensure!(
            self.dtypes.len() == found.dtypes.len(),
            InvalidArgument,
            "Number of components does not match: expected {} types but got {}.",
            self.dtypes.len(),
            found.dtypes.len()
        );
        for (index, (expected, found)) in self.dtypes.iter().zip(&found.dtypes).enumerate() {
            ensure!(
                expected == found,
                InvalidArgument,
                "Data type mismatch at component {index}: expected {expected} but got {found}."
            );
        }
        for (index, (expected, found)) in self.shapes.iter().zip(&found.shapes).enumerate() {
            ensure!(
                expected.merge(found).is_ok(),
                InvalidArgument,
                "Incompatible shapes at component {index}: expected {expected} but got {found}."
            );
        }
        Ok(())
    }

    /// Whether an element is what was announced.
    pub(super) fn check_element(&self, element: &[Tensor]) -> Result<()> {
        ensure!(
            self.dtypes.len() == element.len(),
            InvalidArgument,
            "Number of components does not match: expected {} but got {}.",
            self.dtypes.len(),
            element.len()
        );
        for (index, (tensor, dtype)) in element.iter().zip(&self.dtypes).enumerate() {
            ensure!(
                tensor.dtype() == *dtype,
                InvalidArgument,
                "Data type mismatch at component {index}: expected {dtype} but got {}.",
                tensor.dtype()
            );
        }
        for (index, (tensor, shape)) in element.iter().zip(&self.shapes).enumerate() {
            ensure!(
                shape.admits(tensor.shape()),
                InvalidArgument,
                "Incompatible shapes at component {index}: expected {shape} but got {}.",
                tensor.shape()
            );
        }
        Ok(())
    }
}

/// What stands in the variant.
struct Shared {
    dataset: Arc<dyn Dataset>,
    /// How many datasets it is made of.
    extent: VariantExtent,
}

/// The name TensorFlow gives such variants.
const TYPE_NAME: &str = "tensorflow::DatasetVariantWrapper";

impl VariantObject for Shared {
    fn type_name(&self) -> &str {
        TYPE_NAME
    }

    fn extent(&self) -> VariantExtent {
        self.extent
    }
}

/// A tensor that holds a dataset, which is made of what stands in these tensors.
pub(super) fn to_tensor<'a>(
    dataset: Arc<dyn Dataset>,
    made_of: impl IntoIterator<Item = &'a Tensor>,
) -> Result<Tensor> {
    with_extent(dataset, VariantExtent::of_link(made_of)?)
}

fn with_extent(dataset: Arc<dyn Dataset>, extent: VariantExtent) -> Result<Tensor> {
    Tensor::from_variants(vec![Variant::from_object(Shared { dataset, extent })], &[])
}

/// The dataset in a tensor.
pub(super) fn from_tensor(tensor: &Tensor) -> Result<Arc<dyn Dataset>> {
    let [variant] = tensor.as_variants()? else {
        return Err(Status::invalid_argument(format!(
            "Dataset tensor must be a scalar, got shape {}",
            tensor.shape()
        )));
    };
    let shared = variant.object::<Shared>().ok_or_else(|| {
        Status::invalid_argument(format!(
            "the variant holds '{}', not a dataset of this task. Datasets cannot be sent to other tasks: put the \
             dataset's ops and its iterator on one device",
            variant.type_name()
        ))
    })?;
    Ok(shared.dataset.clone())
}

/// A kernel that makes a dataset from its inputs.
pub(super) fn kernel(
    make: impl Fn(&mut Context<'_>) -> Result<Arc<dyn Dataset>> + Send + Sync + 'static,
) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let inputs = (0..ctx.num_inputs()).filter_map(|index| ctx.input(index).ok());
        let extent = VariantExtent::of_link(inputs)?;
        let dataset = make(ctx)?;
        ctx.set_output(0, with_extent(dataset, extent)?);
        Ok(())
    }))
}

/// The dataset in input `index`.
pub(super) fn input(ctx: &Context<'_>, index: usize) -> Result<Arc<dyn Dataset>> {
    from_tensor(ctx.input(index)?)
}

/// The scalar in input `index`; `name` is for messages.
pub(super) fn scalar<T: tensorfleet_core::Element>(ctx: &Context<'_>, index: usize, name: &str) -> Result<T> {
    let tensor = ctx.input(index)?;
    ensure!(tensor.is_scalar(), InvalidArgument, "{name} must be a scalar, got shape {}", tensor.shape());
    tensor.to_scalar()
}

/// The positive number in input `index`.
pub(super) fn positive(ctx: &Context<'_>, index: usize, name: &str) -> Result<u64> {
    let value = scalar::<i64>(ctx, index, name)?;
    ensure!(value > 0, InvalidArgument, "{name} must be greater than zero, got {value}");
    Ok(value as u64)
}
