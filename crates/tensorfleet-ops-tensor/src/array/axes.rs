//! Reading the small integer inputs that steer array ops: axes, permutations, shapes, counts.

use smallvec::SmallVec;
use tensorfleet_core::{DType, Dim, PartialShape, Result, Shape, Status, Tensor, bail, ensure, memory};

use tensorfleet_kernel::shape_context::ShapeContext;

/// A few integers.
pub(crate) type Integers = SmallVec<[i64; 8]>;

/// More are no axes any more but the indices of a large tensor: then there may be no room for a copy.
const FEW: usize = 1 << 10;

/// The elements of a tensor of signed or small unsigned integers.
pub(crate) fn integers(tensor: &Tensor) -> Result<Integers> {
    macro_rules! convert {
        ($rust:ty) => {
            Ok(tensor.as_slice::<$rust>()?.iter().map(|&value| value as i64).collect())
        };
    }
    if tensor.num_elements() > FEW {
        memory::check_fits(tensor.num_elements().saturating_mul(size_of::<i64>()))?;
    }
    match tensor.dtype() {
        DType::Int8 => convert!(i8),
        DType::UInt8 => convert!(u8),
        DType::Int16 => convert!(i16),
        DType::UInt16 => convert!(u16),
        DType::Int32 => convert!(i32),
        DType::Int64 => convert!(i64),
        other => Err(Status::invalid_argument(format!("expected integers, got a {other} tensor"))),
    }
}

/// The only element of an integer tensor; `what` names the input in the error.
pub(crate) fn integer(tensor: &Tensor, what: &str) -> Result<i64> {
    match integers(tensor)?[..] {
        [value] => Ok(value),
        _ => bail!(InvalidArgument, "{what} must be a scalar, but got shape {}", tensor.shape()),
    }
}

/// `axis` counted from the front, if it lies in `[-rank, rank)`.
pub(crate) fn normalized(axis: i64, rank: usize) -> Option<usize> {
    let rank = rank as i64;
    (-rank..rank).contains(&axis).then(|| axis.rem_euclid(rank.max(1)) as usize)
}

/// A tensor of shape sizes as int32 or int64, which is refused if a size does not fit.
pub(crate) fn sizes_tensor(
    sizes: impl ExactSizeIterator<Item = usize>,
    dims: &[usize],
    out: DType,
) -> Result<Tensor> {
    if out == DType::Int64 {
        return Tensor::from_slice(&sizes.map(|size| size as i64).collect::<Integers>(), dims);
    }
    let mut narrow: SmallVec<[i32; 8]> = SmallVec::new();
    for size in sizes {
        ensure!(
            i32::try_from(size).is_ok(),
            InvalidArgument,
            "a size of {size} does not fit in int32; use out_type int64"
        );
        narrow.push(size as i32);
    }
    Tensor::from_slice(&narrow, dims)
}

/// The shape with one dimension replaced.
pub(crate) fn with_dim(shape: &Shape, axis: usize, size: usize) -> Result<Shape> {
    let mut dims: SmallVec<[usize; 8]> = SmallVec::from_slice(shape);
    dims[axis] = size;
    Shape::new(&dims)
}

/// The shape `dims` of a value, checked.
pub fn concat_dims(parts: &[&[usize]]) -> Result<Shape> {
    let dims: SmallVec<[usize; 8]> = parts.iter().flat_map(|part| part.iter().copied()).collect();
    Shape::new(&dims)
}

/// The product of dimensions, if all are known and it does not overflow.
pub(crate) fn product(dims: &[Dim]) -> Dim {
    dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim?))
}

/// Shape-rule check that input `index` has at least this rank, if it is known.
pub(crate) fn at_least_rank(ctx: &ShapeContext<'_>, index: usize, rank: usize) -> Result<()> {
    let shape = ctx.input(index);
    ensure!(
        shape.rank().is_none_or(|found| found >= rank),
        InvalidArgument,
        "Shape must be at least rank {rank} but is rank {}: input {index} has shape {shape}",
        shape.rank().unwrap_or_default()
    );
    Ok(())
}

/// The rule for one output.
pub(crate) fn one(shape: PartialShape) -> Result<Vec<PartialShape>> {
    Ok(vec![shape])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_counts_from_either_end() {
        assert_eq!(
            [-3, -2, 0, 1, 2].map(|axis| normalized(axis, 2)),
            [None, Some(0), Some(0), Some(1), None]
        );
        assert_eq!([i64::MIN, -1, 0, i64::MAX].map(|axis| normalized(axis, 0)), [None; 4]);
    }

    #[test]
    fn a_size_beyond_int32_is_refused_unless_int64_is_asked_for() {
        let size = 1usize << 40;
        assert!(sizes_tensor([size].into_iter(), &[1], DType::Int32).is_err());
        let tensor = sizes_tensor([size].into_iter(), &[1], DType::Int64).unwrap();
        assert_eq!(tensor.as_slice::<i64>().unwrap(), [1 << 40]);
    }
}
