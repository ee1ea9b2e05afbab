//! [`TensorList`]: tensors of one dtype, some of which may not be there yet.

use std::borrow::Cow;

use tensorfleet_core::{
    DType, PartialShape, Result, Shape, Status, Tensor, Variant, VariantExtent, VariantObject, ensure,
    memory::{self, Kept},
};
use tensorfleet_proto::tensorflow::VariantTensorDataProto;

use super::{list_wire as wire, zeros_like};

/// Bounds what one number can make a list allocate.
const MAX_LEN: usize = 1 << 26;

/// A list of tensors.
#[derive(Clone)]
pub(crate) struct TensorList {
    dtype: DType,
    element_shape: PartialShape,
    /// The length it may have at most.
    max_len: Option<usize>,
    /// The elements; `None` is one that nobody has set, which reads as zeros.
    items: Vec<Option<Tensor>>,
    extent: VariantExtent,
    /// For the elements.
    kept: Kept,
}

/// What keeping an element takes, beyond what is charged for its data.
fn kept_bytes(item: &Option<Tensor>) -> usize {
    item.as_ref().map_or(0, Tensor::kept_bytes)
}

impl VariantObject for TensorList {
    fn type_name(&self) -> &str {
        wire::TYPE_NAME
    }

    fn to_data(&self) -> VariantTensorDataProto {
        wire::encode(self)
    }

    fn extent(&self) -> VariantExtent {
        self.extent
    }

    fn zeros_like(&self) -> Result<Variant> {
        Ok(Variant::from_object(self.map(zeros_like)?))
    }

    fn add(&self, other: &Variant) -> Result<Variant> {
        Ok(Variant::from_object(self.plus(&*TensorList::of(other)?)?))
    }
}

impl TensorList {
    /// An empty list.
    pub(crate) fn new(dtype: DType, element_shape: PartialShape, max_len: Option<usize>) -> TensorList {
        TensorList {
            dtype,
            element_shape,
            max_len,
            items: Vec::new(),
            extent: VariantExtent::default(),
            kept: Kept::default(),
        }
    }

    /// With these elements.
    pub(crate) fn with_items(mut self, items: Vec<Option<Tensor>>) -> Result<TensorList> {
        check_len(items.len())?;
        self.extent = VariantExtent::around(items.iter().flatten())?;
        self.kept = Kept::new(size_of_val(&*items) + items.iter().map(kept_bytes).sum::<usize>())?;
        self.items = items;
        Ok(self)
    }

    /// The list in a variant, which may have come from another task.
    pub(crate) fn of(variant: &Variant) -> Result<Cow<'_, TensorList>> {
        if let Some(list) = variant.object::<TensorList>() {
            return Ok(Cow::Borrowed(list));
        }
        match variant.data() {
            Some(data) if data.type_name == wire::TYPE_NAME => wire::decode(data).map(Cow::Owned),
            _ => Err(Status::invalid_argument(format!(
                "Input handle is not a list. Saw: '{}'",
                variant.type_name()
            ))),
        }
    }

    /// The list in a scalar tensor.
    pub(crate) fn in_tensor(tensor: &Tensor) -> Result<Cow<'_, TensorList>> {
        match tensor.as_variants()? {
            [variant] if tensor.is_scalar() => TensorList::of(variant),
            _ => {
                Err(Status::invalid_argument(format!("Input list must be a scalar saw: {}", tensor.shape())))
            }
        }
    }

    /// Changes the list in a scalar tensor: in place if the tensor is its last owner, a copy otherwise.
    pub(crate) fn change<R>(
        mut tensor: Tensor,
        change: impl FnOnce(&mut TensorList) -> Result<R>,
    ) -> Result<(Tensor, R)> {
        let is_scalar = tensor.is_scalar();
        let own = match tensor.variants_mut() {
            Some([variant]) if is_scalar => variant.object_mut::<TensorList>(),
            _ => None,
        };
        if let Some(list) = own {
            let result = change(list)?;
            return Ok((tensor, result));
        }
        let list = TensorList::in_tensor(&tensor)?;
        memory::check_fits(size_of_val(list.items()))?;
        let mut list = list.into_owned();
        let result = change(&mut list)?;
        Ok((list.into_tensor()?, result))
    }

    /// The list as a tensor.
    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        Tensor::from_variants(vec![Variant::from_object(self)], &[])
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn element_shape(&self) -> &PartialShape {
        &self.element_shape
    }

    pub(crate) fn max_len(&self) -> Option<usize> {
        self.max_len
    }

    pub(crate) fn items(&self) -> &[Option<Tensor>] {
        &self.items
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Checks the dtype of a node that handles the list.
    pub(crate) fn check_dtype(&self, dtype: DType) -> Result<()> {
        ensure!(
            dtype == self.dtype,
            InvalidArgument,
            "Invalid data types; op elements {dtype} but list elements {}",
            self.dtype
        );
        Ok(())
    }

    /// Adds an element at the end.
    pub(crate) fn push(&mut self, tensor: Tensor) -> Result<()> {
        ensure!(
            self.element_shape.admits(tensor.shape()),
            InvalidArgument,
            "Tried to append a tensor with incompatible shape to a list. Op element shape: {} list shape: {}",
            tensor.shape(),
            self.element_shape
        );
        self.check_dtype(tensor.dtype())?;
        if let Some(max) = self.max_len {
            ensure!(
                self.len() < max,
                InvalidArgument,
                "Tried to push item into a full list list size: {} max_num_elements: {max}",
                self.len()
            );
        }
        check_len(self.len() + 1)?;
        self.extent = self.extent.with(&tensor)?;
        self.kept.add(size_of::<Option<Tensor>>() + tensor.kept_bytes())?;
        memory::make_room(&mut self.items, 1)?;
        self.items.push(Some(tensor));
        Ok(())
    }

    /// Takes the last element off; the inner `None` is one that nobody has set.
    pub(crate) fn pop(&mut self) -> Result<Option<Tensor>> {
        let last = self.items.pop();
        let last = last.ok_or_else(|| Status::invalid_argument("Trying to pop from an empty list."))?;
        if let Some(tensor) = &last {
            self.extent = self.extent.without(tensor);
        }
        self.kept.remove(size_of::<Option<Tensor>>() + kept_bytes(&last));
        Ok(last)
    }

    /// Sets an element that is there.
    pub(crate) fn set(&mut self, index: usize, tensor: Tensor) -> Result<()> {
        ensure!(
            self.element_shape.admits(tensor.shape()),
            InvalidArgument,
            "Tried to set a tensor with incompatible shape at a list index. Item element shape: {} list shape: {}",
            tensor.shape(),
            self.element_shape
        );
        self.check_dtype(tensor.dtype())?;
        let Some(item) = self.items.get_mut(index) else {
            return Err(Status::internal("an element of a list is set beyond its end"));
        };
        let extent = item.as_ref().map_or(self.extent, |old| self.extent.without(old));
        self.extent = extent.with(&tensor)?;
        self.kept.add(tensor.kept_bytes())?;
        self.kept.remove(kept_bytes(item));
        *item = Some(tensor);
        Ok(())
    }

    /// Makes it shorter, or longer by elements that nobody has set.
    pub(crate) fn resize(&mut self, len: usize) -> Result<()> {
        check_len(len)?;
        let more = len.saturating_sub(self.len());
        self.kept.add(more.saturating_mul(size_of::<Option<Tensor>>()))?;
        memory::make_room(&mut self.items, more)?;
        for tensor in self.items.iter().skip(len).flatten() {
            self.extent = self.extent.without(tensor);
        }
        let less = self.items.get(len..).unwrap_or_default();
        self.kept.remove(size_of_val(less) + less.iter().map(kept_bytes).sum::<usize>());
        self.items.resize(len, None);
        Ok(())
    }

    /// Each element that was set replaced by what `change` makes of it.
    pub(crate) fn map(&self, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<TensorList> {
        let items = self.items.iter().map(|item| item.as_ref().map(&change).transpose());
        let items = items.collect::<Result<_>>()?;
        TensorList::new(self.dtype, self.element_shape.clone(), self.max_len).with_items(items)
    }

    /// The sum, element by element; an element that nobody has set adds nothing.
    pub(crate) fn plus(&self, other: &TensorList) -> Result<TensorList> {
        ensure!(
            self.dtype == other.dtype,
            InvalidArgument,
            "Trying to add two lists of tensors of different dtypes. One is {} and the other is {}",
            self.dtype,
            other.dtype
        );
        let element_shape = self.element_shape.merge(&other.element_shape).map_err(|_| {
            Status::invalid_argument(format!(
                "Trying to add two lists of tensors with incompatible element shapes. One is {} and the other is {}",
                self.element_shape, other.element_shape
            ))
        })?;
        ensure!(
            self.len() == other.len(),
            InvalidArgument,
            "Trying to add two lists of tensors with different lengths. One is {} and the other is {}",
            self.len(),
            other.len()
        );
        let sums = self.items.iter().zip(&other.items).map(|pair| match pair {
            (Some(a), Some(b)) => super::add(a.clone(), b).map(Some),
            (a, b) => Ok(a.as_ref().or(b.as_ref()).cloned()),
        });
        let items = sums.collect::<Result<_>>()?;
        TensorList::new(self.dtype, element_shape, self.max_len).with_items(items)
    }

    /// What is known of the shape of elements, with `also`, which the node says.
    pub(crate) fn known_shape(&self, also: &PartialShape) -> Result<PartialShape> {
        also.merge(&self.element_shape).map_err(|_| {
            Status::invalid_argument(format!(
                "Incompatible shapes during merge: {also} vs. {}",
                self.element_shape
            ))
        })
    }

    /// The shape that all of some elements have: what is known, refined by those that were set.
    pub(crate) fn common_shape<'a>(
        known: PartialShape,
        items: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<PartialShape> {
        items.into_iter().try_fold(known, |shape, item| {
            if shape.to_shape().as_ref() == Some(item.shape()) {
                return Ok(shape);
            }
            shape.merge(&item.shape().into()).map_err(|_| {
                Status::invalid_argument(format!(
                    "Incompatible shapes during merge: {shape} vs. {}",
                    item.shape()
                ))
            })
        })
    }

    /// Element `index`; zeros if nobody has set it, as far as their shape is known.
    pub(crate) fn read(&self, index: i64, shape: &PartialShape) -> Result<Tensor> {
        let item = usize::try_from(index).ok().and_then(|index| self.items.get(index));
        let Some(item) = item else {
            return Err(Status::invalid_argument(format!(
                "Trying to access element {index} in a list with {} elements.",
                self.len()
            )));
        };
        if let Some(tensor) = item {
            return Ok(tensor.clone());
        }
        let mut shape = self.known_shape(shape)?;
        if shape.to_shape().is_none() {
            shape = TensorList::common_shape(shape, self.items.iter().flatten())?;
        }
        let unknown = || {
            Status::invalid_argument(format!(
                "Trying to read an uninitialized tensor but element_shape is not fully defined: {shape} and no list \
                 element is set."
            ))
        };
        self.zeros(shape.to_shape().ok_or_else(unknown)?)
    }

    /// What an element of this shape is that nobody has set.
    pub(crate) fn zeros(&self, shape: Shape) -> Result<Tensor> {
        Tensor::zeros(self.dtype, shape)
    }
}

pub(crate) fn check_len(len: usize) -> Result<()> {
    ensure!(len <= MAX_LEN, ResourceExhausted, "a list of {len} tensors is too long: at most {MAX_LEN} fit");
    Ok(())
}
