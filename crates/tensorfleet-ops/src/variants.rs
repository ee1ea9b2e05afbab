//! What gradients need of opaque values: how much is inside, zeros of the same form, and sums.
//!
//! Lists and optionals may hold others. A loop can put one into the next as often as it likes, so both depth and the
//! number of tensors are bounded where a value is put into another: whoever walks over the inside, to add, to send or to
//! free it, may do so by recursion.

use tensorfleet_core::{DType, Result, Status, Tensor, Variant, ensure};

use crate::data::optional::{self, Optional};
use crate::lists::TensorList;
use crate::state::arithmetic::add_assign;

/// How deeply lists and optionals may be nested. Gradients of loops in loops nest once for each loop.
const MAX_DEPTH: u32 = 32;
/// How many tensors one value may hold, counting those that occur several times as often as they do.
const MAX_TENSORS: usize = 1 << 26;

/// How much is inside an opaque value.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    depth: u32,
    tensors: usize,
}

impl Extent {
    /// That of a value which holds these tensors, if it may exist.
    pub(crate) fn around<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<Extent> {
        tensors.into_iter().try_fold(Extent::default(), |extent, tensor| extent.with(tensor))
    }

    /// With one more tensor inside.
    pub(crate) fn with(self, tensor: &Tensor) -> Result<Extent> {
        let inner = Extent::inside(tensor);
        let sum = Extent {
            depth: self.depth.max(inner.depth + 1),
            tensors: self.tensors.saturating_add(inner.tensors).saturating_add(1),
        };
        ensure!(
            sum.depth <= MAX_DEPTH,
            InvalidArgument,
            "lists and optionals are nested more than {MAX_DEPTH} times"
        );
        ensure!(
            sum.tensors <= MAX_TENSORS,
            ResourceExhausted,
            "a list or optional would hold more than {MAX_TENSORS} tensors"
        );
        Ok(sum)
    }

    /// With one tensor less inside; the depth stays what it was at most.
    pub(crate) fn without(self, tensor: &Tensor) -> Extent {
        Extent { tensors: self.tensors.saturating_sub(Extent::inside(tensor).tensors + 1), ..self }
    }

    /// All that a tensor holds.
    fn inside(tensor: &Tensor) -> Extent {
        let variants = tensor.as_variants().unwrap_or_default();
        variants.iter().fold(Extent::default(), |sum, variant| {
            let list = variant.object::<TensorList>().map(TensorList::extent);
            let optional = || variant.object::<Optional>().map(|optional| optional.extent);
            let one = list.or_else(optional).unwrap_or_default();
            Extent { depth: sum.depth.max(one.depth), tensors: sum.tensors.saturating_add(one.tensors) }
        })
    }
}

/// The same form, with zeros inside.
pub(crate) fn zeros_like(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype() != DType::Variant {
        return Tensor::zeros(tensor.dtype(), tensor.shape().clone());
    }
    let zeros = tensor.as_variants()?.iter().map(zero).collect::<Result<_>>()?;
    Tensor::from_variants(zeros, tensor.shape())
}

fn zero(variant: &Variant) -> Result<Variant> {
    if let Some(optional) = variant.object::<Optional>() {
        let element = optional.element.as_ref();
        let zeros =
            element.map(|element| element.iter().map(zeros_like).collect::<Result<_>>()).transpose()?;
        return optional::to_variant(zeros);
    }
    let list = TensorList::of(variant)?;
    Ok(Variant::from_object(list.map(zeros_like)?))
}

/// The sum of two tensors of opaque values, or of numbers inside of them.
pub(crate) fn add(mut a: Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.shape() == b.shape(),
        InvalidArgument,
        "Trying to add two tensors with incompatible element shapes. One is {} and the other is {}",
        a.shape(),
        b.shape()
    );
    if a.dtype() != DType::Variant || b.dtype() != DType::Variant {
        ensure!(
            a.dtype() == b.dtype(),
            InvalidArgument,
            "Trying to add tensors of different dtypes. One is {} and the other is {}",
            a.dtype(),
            b.dtype()
        );
        add_assign(&mut a, b)?;
        return Ok(a);
    }
    let pairs = a.as_variants()?.iter().zip(b.as_variants()?);
    let sums = pairs.map(|(a, b)| add_variants(a, b)).collect::<Result<_>>()?;
    Tensor::from_variants(sums, a.shape())
}

fn add_variants(a: &Variant, b: &Variant) -> Result<Variant> {
    let optionals = (a.object::<Optional>(), b.object::<Optional>());
    let (Some(a), Some(b)) = optionals else {
        return Ok(Variant::from_object(TensorList::of(a)?.plus(&*TensorList::of(b)?)?));
    };
    let sum = match (&a.element, &b.element) {
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
    optional::to_variant(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn optional_of(tensor: Tensor) -> Result<Tensor> {
        optional::to_tensor(Some(vec![tensor]))
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
            tensor = optional::to_tensor(Some(vec![tensor.clone(); 4]))?;
            Ok(())
        });
        let status = grown.map(|()| tensor).expect_err("it grows without end");
        assert!(status.text().contains("would hold more than"));
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
        let none = optional::to_tensor(None).unwrap();
        assert!(add(none.clone(), &none).is_ok() && add(none, &one).is_err());
    }
}
