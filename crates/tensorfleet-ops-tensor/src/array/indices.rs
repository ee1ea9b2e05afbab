//! Checking indices that come from data, once, before any element is touched.

use smallvec::SmallVec;
use tensorfleet_core::{Result, Shape, Status, Tensor, memory};

use tensorfleet_numeric::dispatch;

/// The elements of an index tensor, all of which lie in `[0, limit)`. `what` names the input in the error, which
/// reads as TensorFlow's: `indices[1,0] = 4 is not in [0, 4)`.
pub(crate) fn checked_indices(indices: &Tensor, limit: usize, what: &str) -> Result<Vec<usize>> {
    dispatch!(indices.dtype(), I in [i32, i64, i16] => {
        let elements = indices.as_slice::<I>()?;
        check(elements, limit)
            .map_err(|(place, index)| out_of_range(what, indices.shape(), place, index, limit))?;
        memory::collect(elements.iter().map(|&index| Into::<i64>::into(index) as usize))
    })
}

/// Fails with place and value of the first bad index.
fn check<I: Copy + Into<i64>>(indices: &[I], limit: usize) -> Result<(), (usize, i64)> {
    // Negative numbers wrap to huge ones, so that one comparison checks both ends.
    let is_bad = |&index: &I| Into::<i64>::into(index) as u64 >= limit as u64;
    match indices.iter().position(is_bad) {
        Some(bad) => Err((bad, indices[bad].into())),
        None => Ok(()),
    }
}

#[cold]
fn out_of_range(what: &str, shape: &Shape, position: usize, index: i64, limit: usize) -> Status {
    let place = coordinates(shape, position);
    Status::invalid_argument(format!("{what}{place} = {index} is not in [0, {limit})"))
}

/// The place of element `position` in a tensor of this shape as TensorFlow prints it: `[1,0]`, nothing for scalars.
pub fn coordinates(shape: &[usize], position: usize) -> String {
    let mut place: SmallVec<[String; 8]> = SmallVec::new();
    let mut rest = position;
    for &dim in shape.iter().rev() {
        place.push((rest % dim.max(1)).to_string());
        rest /= dim.max(1);
    }
    place.reverse();
    if place.is_empty() { String::new() } else { format!("[{}]", place.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    #[test]
    fn the_first_bad_index_is_named_with_its_place() {
        let indices = Tensor::from_slice(&[0i32, 1, 4, -1], &[2, 2]).unwrap();
        let status = checked_indices(&indices, 4, "indices").unwrap_err();
        assert_eq!(
            (status.code(), status.text()),
            (Code::InvalidArgument, "indices[1,0] = 4 is not in [0, 4)")
        );
        let scalar = checked_indices(&Tensor::scalar(-1i64), 4, "indices").unwrap_err();
        assert_eq!(scalar.text(), "indices = -1 is not in [0, 4)");
        assert_eq!(checked_indices(&Tensor::vector(&[3i64, 0]).unwrap(), 4, "indices").unwrap(), [3, 0]);
    }
}
