//! Byte strings: joining, splitting, matching, hashing and conversion.

mod base64;
mod c_format;
mod format;
mod hash_buckets;
mod hashes;
mod joining;
mod letter_case;
mod matching;
pub mod number_text;
mod numbers;
mod re2;
mod splitting;
mod substr;
pub mod tensor_text;

use bytes::Bytes;
use tensorfleet_core::{Result, Tensor};

use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::op::Op;

/// The tables of this group.
pub(crate) static FAMILIES: &[&[Op]] = &[
    joining::OPS,
    matching::OPS,
    numbers::OPS,
    hash_buckets::OPS,
    splitting::OPS,
    substr::OPS,
    letter_case::OPS,
    base64::OPS,
    format::OPS,
];

/// A tensor of the same shape with every string changed.
fn each_string(input: &Tensor, change: impl FnMut(&Bytes) -> Result<Bytes>) -> Result<Tensor> {
    let strings: Vec<Bytes> = input.as_strings()?.iter().map(change).collect::<Result<_>>()?;
    Tensor::from_strings(strings, input.shape())
}

/// The kernel of an op that changes every string of its input.
fn each_kernel(change: impl Fn(&Bytes) -> Result<Bytes> + Send + Sync + 'static) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let output = each_string(ctx.input(0)?, &change)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vector of strings.
    pub(crate) fn strings(values: &[&str]) -> Tensor {
        let values: Vec<Bytes> = values.iter().map(|value| value.to_string().into()).collect();
        let count = values.len();
        Tensor::from_strings(values, &[count]).unwrap()
    }
}
