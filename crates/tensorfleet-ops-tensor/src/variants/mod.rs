//! What gradients need of opaque values: zeros of the same form, and sums.
//!
//! An object of this process answers for itself ([`VariantObject`]). What came from another task is
//! a list (`TensorList`), the only opaque value that travels.

mod list;
pub(crate) mod list_wire;

use tensorfleet_core::{DType, Result, Tensor, Variant, VariantObject, ensure};
use tensorfleet_numeric::assign::add_assign;
use tensorfleet_threads::Threads;

pub(crate) use list::{TensorList, check_len};

/// The same form, with zeros inside.
pub fn zeros_like(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype() != DType::Variant {
        return Tensor::zeros(tensor.dtype(), tensor.shape().clone());
    }
    let zeros = tensor.as_variants()?.iter().map(zero).collect::<Result<_>>()?;
    Tensor::from_variants(zeros, tensor.shape())
}

fn zero(variant: &Variant) -> Result<Variant> {
    match variant.as_object() {
        Some(object) => object.zeros_like(),
        None => TensorList::of(variant)?.zeros_like(),
    }
}

/// The sum of two tensors of opaque values, or of numbers inside of them.
pub fn add(mut a: Tensor, b: &Tensor) -> Result<Tensor> {
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
        // An opaque value may stand for numbers, but knows no step; its threads are the process's.
        add_assign(Threads::of_process().loops(), &mut a, b)?;
        return Ok(a);
    }
    let pairs = a.as_variants()?.iter().zip(b.as_variants()?);
    let sums = pairs.map(|(a, b)| add_variants(a, b)).collect::<Result<_>>()?;
    Tensor::from_variants(sums, a.shape())
}

fn add_variants(a: &Variant, b: &Variant) -> Result<Variant> {
    match a.as_object() {
        Some(object) => object.add(b),
        None => TensorList::of(a)?.add(b),
    }
}
