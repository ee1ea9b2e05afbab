//! Sets as rows of a tensor: DenseToDenseSetOperation.

use std::collections::BTreeMap;

use tensorfleet_core::{DType, PartialShape, Result, Shape, Tensor, bail, ensure, memory};

use super::axes::integers;
use super::concat::concat;
use super::gather::PickRows;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::KernelBox;
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::rearrange::rearrange;

/// The family's table.
pub(crate) static OPS: &[Op] =
    &[Op::new("DenseToDenseSetOperation", "set1: T, set2: T -> result_indices: int64, result_values: T, result_shape: int64").not_differentiable()
        .attrs("set_operation: string; validate_indices: bool = true; T: {int8, int16, int32, int64, uint8, uint16, string}")
        .shape(set_shape)
        .kernel(set_kernel)];

#[derive(Clone, Copy)]
enum SetOperation {
    FirstOnly,
    SecondOnly,
    Intersection,
    Union,
}

impl SetOperation {
    fn parse(name: &str) -> Result<SetOperation> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "a-b" => SetOperation::FirstOnly,
            "b-a" => SetOperation::SecondOnly,
            "intersection" => SetOperation::Intersection,
            "union" => SetOperation::Union,
            _ => bail!(InvalidArgument, "Invalid set_operation {name}."),
        })
    }

    fn keeps(self, in_first: bool, in_second: bool) -> bool {
        match self {
            SetOperation::FirstOnly => in_first && !in_second,
            SetOperation::SecondOnly => in_second && !in_first,
            SetOperation::Intersection => in_first && in_second,
            SetOperation::Union => true,
        }
    }
}

fn set_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let rank = ctx.input(0).rank().or(ctx.input(1).rank());
    if let (Some(a), Some(b)) = (ctx.input(0).rank(), ctx.input(1).rank()) {
        ensure!(a == b, InvalidArgument, "Shape must be rank {a} but is rank {b}");
    }
    Ok(vec![PartialShape::new([None, rank]), PartialShape::vector(None), PartialShape::vector(rank)])
}

/// All dimensions but the last, which number the sets.
fn groups(shape: &Shape) -> Result<&[usize]> {
    ensure!(shape.rank() >= 2, InvalidArgument, "Shape {shape} has rank {} < 2", shape.rank());
    Ok(&shape[..shape.rank() - 1])
}

/// For each group, in ascending order of their values, the places of the kept elements among those of both tensors.
fn combine<K: Ord>(
    cancellation: &Cancellation,
    first: &[K],
    second: &[K],
    groups: usize,
    operation: SetOperation,
) -> Result<Vec<Vec<usize>>> {
    let (width1, width2) = (first.len() / groups.max(1), second.len() / groups.max(1));
    let mut kept = memory::vec_with_room(groups)?;
    for group in 0..groups {
        cancellation.check()?;
        // The place of a value, and whether each of the sets has it.
        let mut members: BTreeMap<&K, (usize, bool, bool)> = BTreeMap::new();
        let values = cancellation.unless_cancelled(&first[group * width1..(group + 1) * width1]);
        for (offset, value) in values.enumerate() {
            members.entry(value?).or_insert((group * width1 + offset, false, false)).1 = true;
        }
        let values = cancellation.unless_cancelled(&second[group * width2..(group + 1) * width2]);
        for (offset, value) in values.enumerate() {
            let place = first.len() + group * width2 + offset;
            members.entry(value?).or_insert((place, false, false)).2 = true;
        }
        let keeps = |&&(_, in_first, in_second): &&(usize, bool, bool)| operation.keeps(in_first, in_second);
        kept.push(memory::collect(members.values().filter(keeps).map(|&(place, ..)| place))?);
    }
    Ok(kept)
}

fn set_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let operation = SetOperation::parse(&node.attr::<String>("set_operation")?)?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (first, second) = (ctx.input(0)?, ctx.input(1)?);
        let (dims, others) = (groups(first.shape())?, groups(second.shape())?);
        ensure!(
            dims == others,
            InvalidArgument,
            "Mismatched shapes {} vs {}",
            Shape::new(dims)?,
            Shape::new(others)?
        );
        let (count, cancellation) = (dims.iter().product(), &ctx.step.cancellation);
        let kept = match first.dtype() {
            DType::String => {
                combine(cancellation, first.as_strings()?, second.as_strings()?, count, operation)?
            }
            _ => combine(cancellation, &integers(first)?, &integers(second)?, count, operation)?,
        };
        let flat = |tensor: &Tensor| tensor.clone().reshaped(Shape::vector(tensor.num_elements()));
        let all = concat(ctx.loops(), &[&flat(first)?, &flat(second)?], 0)?;
        let places: Vec<usize> = memory::collect(kept.iter().flatten().copied())?;
        let pick = PickRows { indices: &places, batches: 1, outer: 1, axis: all.num_elements(), inner: 1 };
        let values = rearrange(ctx.loops(), all.dtype(), Shape::vector(places.len()), &[&all], &pick)?;

        let rank = dims.len() + 1;
        let mut indices: Vec<i64> = memory::vec_with_room(places.len() * rank)?;
        for (group, members) in kept.iter().enumerate() {
            for member in 0..members.len() {
                let start = indices.len();
                indices.resize(start + rank, member as i64);
                let mut rest = group;
                for (axis, &dim) in dims.iter().enumerate().rev() {
                    indices[start + axis] = (rest % dim) as i64;
                    rest /= dim;
                }
            }
        }
        let widest = kept.iter().map(Vec::len).max().unwrap_or(0);
        let shape: Vec<i64> = dims.iter().chain([&widest]).map(|&dim| dim as i64).collect();
        ctx.set_output(0, Tensor::from_slice(&indices, &[places.len(), rank])?);
        ctx.set_output(1, values);
        ctx.set_output(2, Tensor::vector(&shape)?);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run(first: Tensor, second: Tensor, operation: &str) -> Result<Vec<Tensor>> {
        let op = test_op("DenseToDenseSetOperation").with_shape_check().attr("T", first.dtype());
        op.attr("set_operation", operation).input(first).input(second).run()
    }

    fn rows(elements: &[i32], dims: &[usize]) -> Tensor {
        Tensor::from_slice(elements, dims).unwrap()
    }

    #[test]
    fn results_are_sorted_sets_in_sparse_form() {
        let (a, b) = (|| rows(&[1, 2, 2, 3, 4, 5], &[2, 3]), || rows(&[2, 9, 5, 3], &[2, 2]));
        let check = |operation: &str, indices: &[i64], values: &[i32], shape: [i64; 2]| {
            let out = run(a(), b(), operation).unwrap();
            assert_eq!(out[0].as_slice::<i64>().unwrap(), indices, "{operation}");
            assert_eq!(out[1].as_slice::<i32>().unwrap(), values, "{operation}");
            assert_eq!(out[2].as_slice::<i64>().unwrap(), shape, "{operation}");
        };
        check("a-b", &[0, 0, 1, 0], &[1, 4], [2, 1]);
        check("b-a", &[0, 0], &[9], [2, 1]);
        check("intersection", &[0, 0, 1, 0, 1, 1], &[2, 3, 5], [2, 2]);
        check("union", &[0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2], &[1, 2, 9, 3, 4, 5], [2, 3]);
        let words = |words: &[&'static str]| {
            let words: Vec<bytes::Bytes> = words.iter().map(|&word| word.into()).collect();
            let count = words.len();
            Tensor::from_strings(words, &[1, count]).unwrap()
        };
        let out = run(words(&["b", "a"]), words(&["c"]), "union").unwrap();
        assert_eq!(out[1].as_strings().unwrap(), ["a", "b", "c"]);
        let empty = run(rows(&[1], &[1, 1]), rows(&[2], &[1, 1]), "intersection").unwrap();
        assert_eq!(empty[2].as_slice::<i64>().unwrap(), [1, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let text = |a: Tensor, b: Tensor, operation| run(a, b, operation).unwrap_err().text().to_string();
        assert!(
            text(rows(&[1, 2], &[2, 1]), rows(&[1], &[1, 1]), "union")
                .contains("Mismatched shapes [2] vs [1]")
        );
        assert!(text(rows(&[1], &[1]), rows(&[1], &[1]), "union").contains("Shape [1] has rank 1 < 2"));
        assert!(text(rows(&[1], &[1, 1]), rows(&[1], &[1, 1]), "foo").contains("Invalid set_operation foo."));
    }
}
