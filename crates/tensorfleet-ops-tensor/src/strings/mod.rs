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
use tensorfleet_core::{Result, StringsBuilder, Tensor, memory};

use tensorfleet_kernel::cancellation::Cancellation;
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

/// A tensor of the same shape with every string changed, unless that is given up.
fn each_string(
    cancellation: &Cancellation,
    input: &Tensor,
    mut change: impl FnMut(&Bytes) -> Result<Bytes>,
) -> Result<Tensor> {
    let strings = input.as_strings()?;
    let mut changed = StringsBuilder::new(strings.len())?;
    for text in cancellation.unless_cancelled(strings) {
        changed.push(change(text?)?)?;
    }
    changed.finish(input.shape())
}

/// The parts one after another, with something in between.
pub(crate) fn joined<'a>(parts: impl Iterator<Item = &'a [u8]> + Clone, separator: &[u8]) -> Result<Bytes> {
    let len = parts
        .clone()
        .fold(0usize, |sum, part| sum.saturating_add(part.len()).saturating_add(separator.len()));
    let mut text = memory::vec_with_room(len.saturating_sub(separator.len()))?;
    for (index, part) in parts.enumerate() {
        if index > 0 {
            text.extend_from_slice(separator);
        }
        text.extend_from_slice(part);
    }
    Ok(text.into())
}

/// The kernel of an op that changes every string of its input.
fn each_kernel(change: impl Fn(&Bytes) -> Result<Bytes> + Send + Sync + 'static) -> Result<KernelBox> {
    Ok(KernelBox::from_fn(move |ctx| {
        let output = each_string(&ctx.step.cancellation, ctx.input(0)?, &change)?;
        ctx.set_output(0, output);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn what_is_joined_is_measured_before_it_is_made() {
        let parts = ["a", "", "bc"].map(str::as_bytes);
        assert_eq!(joined(parts.into_iter(), b"-").unwrap(), "a--bc");
        assert_eq!(joined([].into_iter(), b"-").unwrap(), "");
        let megabyte = vec![b'x'; 1 << 20];
        let status = joined(std::iter::repeat_n(&megabyte[..], 1 << 24), b"").unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
    }

    /// A vector of strings.
    pub(crate) fn strings(values: &[&str]) -> Tensor {
        let values: Vec<Bytes> = values.iter().map(|value| value.to_string().into()).collect();
        let count = values.len();
        Tensor::from_strings(values, &[count]).unwrap()
    }
}
