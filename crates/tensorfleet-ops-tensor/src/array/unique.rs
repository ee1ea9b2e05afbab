//! Telling elements apart: Unique, UniqueWithCounts, UniqueV2, UniqueWithCountsV2, ListDiff.
//!
//! Every element gets a 64-bit key that equal elements share; what follows is the same for all dtypes.

use std::hash::Hash;

use half::{bf16, f16};
use rustc_hash::{FxHashMap, FxHashSet};
use tensorfleet_core::{DType, Element, PartialShape, Result, Tensor, bail, ensure, memory};

use super::axes::{integers, normalized, with_dim};
use super::gather::PickRows;
use super::transpose::transposed;
use tensorfleet_kernel::Work;
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::kernel::{Context, KernelBox};
use tensorfleet_kernel::node_spec::NodeSpec;
use tensorfleet_kernel::op::Op;
use tensorfleet_kernel::shape_context::ShapeContext;
use tensorfleet_numeric::dispatch::no_kernel;
use tensorfleet_numeric::rearrange::rearrange;
use tensorfleet_numeric::strided::around_axis;

/// The family's table.
pub(crate) static OPS: &[Op] = &[
    Op::new("Unique", "x: T -> y: T, idx: out_idx")
        .work(Work::Inputs)
        .attrs("T: type; out_idx: {int32, int64} = int32")
        .shape(unique_shape)
        .kernel(unique_kernel)
        .never_longer(),
    Op::new("UniqueWithCounts", "x: T -> y: T, idx: out_idx, count: out_idx")
        .work(Work::Inputs)
        .attrs("T: type; out_idx: {int32, int64} = int32")
        .shape(unique_shape)
        .kernel(unique_kernel),
    Op::new("UniqueV2", "x: T, axis: Taxis -> y: T, idx: out_idx")
        .work(Work::Inputs)
        .attrs("T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32")
        .shape(unique_v2_shape)
        .kernel(unique_v2_kernel),
    Op::new("UniqueWithCountsV2", "x: T, axis: Taxis -> y: T, idx: out_idx, count: out_idx")
        .work(Work::Inputs)
        .attrs("T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32")
        .shape(unique_v2_shape)
        .kernel(unique_v2_kernel),
    Op::new("ListDiff", "x: T, y: T -> out: T, idx: out_idx")
        .work(Work::Inputs)
        .attrs("T: type; out_idx: {int32, int64} = int32")
        .shape(list_diff_shape)
        .kernel(list_diff_kernel)
        .never_longer(),
];

/// Keys for the elements of several tensors of one dtype, comparable among them.
struct Keys<'a> {
    cancellation: &'a Cancellation,
    strings: FxHashMap<bytes::Bytes, u64>,
    /// How many NaNs there were. None equals another.
    nans: u64,
}

impl<'a> Keys<'a> {
    fn new(cancellation: &'a Cancellation) -> Keys<'a> {
        Keys { cancellation, strings: FxHashMap::default(), nans: 0 }
    }

    fn of(&mut self, tensor: &Tensor) -> Result<Vec<u64>> {
        fn plain<T: Element>(tensor: &Tensor, key: impl FnMut(T) -> u64) -> Result<Vec<u64>> {
            memory::collect(tensor.as_slice::<T>()?.iter().copied().map(key))
        }
        match tensor.dtype().storage() {
            DType::Int8 => plain(tensor, |x: i8| x as u64),
            DType::UInt8 => plain(tensor, |x: u8| x as u64),
            DType::Int16 => plain(tensor, |x: i16| x as u64),
            DType::UInt16 => plain(tensor, |x: u16| x as u64),
            DType::Int32 => plain(tensor, |x: i32| x as u64),
            DType::UInt32 => plain(tensor, |x: u32| x as u64),
            DType::Int64 => plain(tensor, |x: i64| x as u64),
            DType::UInt64 => plain(tensor, |x: u64| x),
            DType::Bool => plain(tensor, |x: bool| x as u64),
            DType::Float => plain(tensor, |x: f32| self.float(x as f64)),
            DType::Double => plain(tensor, |x: f64| self.float(x)),
            DType::Half => plain(tensor, |x: f16| self.half(x.to_f64(), x.to_bits())),
            DType::BFloat16 => plain(tensor, |x: bf16| self.half(x.to_f64(), x.to_bits())),
            DType::String => self.strings(tensor.as_strings()?),
            other => Err(no_kernel(other)),
        }
    }

    /// Equal numbers have equal keys, zeros of both signs included; a NaN is its payload's number.
    fn float(&mut self, x: f64) -> u64 {
        const NAN: u64 = 0x7ff8_0000_0000_0000;
        if x.is_nan() {
            self.nans += 1;
            NAN | self.nans
        } else if x == 0.0 {
            0
        } else {
            x.to_bits()
        }
    }

    /// The same for 16 bits, but zeros of different signs differ: TensorFlow's table finds halves by their bits, and compares only
    /// those it finds.
    fn half(&mut self, x: f64, bits: u16) -> u64 {
        if x.is_nan() { self.float(x) } else { bits.into() }
    }

    fn strings(&mut self, strings: &[bytes::Bytes]) -> Result<Vec<u64>> {
        let mut keys = memory::vec_with_room(strings.len())?;
        for text in self.cancellation.unless_cancelled(strings) {
            let next = self.strings.len() as u64;
            keys.push(*self.strings.entry(text?.clone()).or_insert(next));
        }
        Ok(keys)
    }
}

/// What tells items apart.
#[derive(Default)]
struct Groups {
    /// The first item of each group, in order of occurrence.
    firsts: Vec<usize>,
    /// The group of each item.
    group_of: Vec<usize>,
    /// How many items each group has.
    counts: Vec<usize>,
}

impl Groups {
    fn of<K: Hash + Eq>(
        cancellation: &Cancellation,
        items: impl ExactSizeIterator<Item = K>,
    ) -> Result<Groups> {
        // The table takes at most a few times as much as a key, a number and a mark for each item, and so do the groups.
        memory::check_fits(items.len().saturating_mul(2 * (size_of::<K>() + 3 * size_of::<usize>())))?;
        let mut groups = Groups { group_of: memory::vec_with_room(items.len())?, ..Groups::default() };
        let mut seen: FxHashMap<K, usize> = FxHashMap::default();
        // Growing would hash everything again; most ids of a batch differ.
        seen.reserve(items.len());
        for (position, item) in cancellation.unless_cancelled(items).enumerate() {
            let group = *seen.entry(item?).or_insert_with(|| {
                groups.firsts.push(position);
                groups.counts.push(0);
                groups.firsts.len() - 1
            });
            groups.group_of.push(group);
            groups.counts[group] += 1;
        }
        Ok(groups)
    }
}

fn index_tensor(indices: &[usize], dtype: DType) -> Result<Tensor> {
    match dtype {
        DType::Int64 => Tensor::vector(&memory::collect(indices.iter().map(|&index| index as i64))?),
        _ => {
            ensure!(
                i32::try_from(indices.len()).is_ok(),
                InvalidArgument,
                "unique does not support input tensors larger than {} elements",
                i32::MAX
            );
            Tensor::vector(&memory::collect(indices.iter().map(|&index| index as i32))?)
        }
    }
}

fn unique_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    let x = ctx.input_with_rank(0, 1)?;
    let mut shapes = vec![PartialShape::vector(None), x];
    shapes.resize(ctx.num_outputs(), PartialShape::vector(None));
    Ok(shapes)
}

/// `Unique` and `UniqueWithCounts`.
fn unique_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (out_idx, outputs) = (node.attr("out_idx")?, node.outputs.len());
    Ok(KernelBox::from_fn(move |ctx| {
        let x = ctx.input(0)?;
        ensure!(x.shape().rank() == 1, InvalidArgument, "unique expects a 1D vector.");
        for (index, tensor) in unique(ctx, x, 0, out_idx)?.into_iter().take(outputs).enumerate() {
            ctx.set_output(index, tensor);
        }
        Ok(())
    }))
}

/// The distinct slices of `x` along `axis`, the number of each slice among them, and how often each occurs.
fn unique(ctx: &Context<'_>, x: &Tensor, axis: usize, out_idx: DType) -> Result<[Tensor; 3]> {
    let (loops, cancellation) = (ctx.loops(), &ctx.step.cancellation);
    let (outer, len, inner) = around_axis(x.shape(), axis);
    let slice_len = outer * inner;
    let groups = if slice_len == 1 {
        Groups::of(cancellation, Keys::new(cancellation).of(x)?.into_iter())?
    } else {
        let order: Vec<usize> =
            [axis].into_iter().chain((0..x.shape().rank()).filter(|&k| k != axis)).collect();
        let keys = Keys::new(cancellation).of(&transposed(loops, x, &order)?)?;
        Groups::of(cancellation, (0..len).map(|slice| &keys[slice * slice_len..(slice + 1) * slice_len]))?
    };
    let shape = with_dim(x.shape(), axis, groups.firsts.len())?;
    let pick = PickRows { indices: &groups.firsts, batches: 1, outer, axis: len, inner };
    let y = rearrange(loops, x.dtype(), shape, &[x], &pick)?;
    Ok([y, index_tensor(&groups.group_of, out_idx)?, index_tensor(&groups.counts, out_idx)?])
}

fn unique_v2_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(1, 1)?;
    let rank = ctx.input(0).rank();
    let mut shapes = vec![rank.map_or_else(PartialShape::unknown, PartialShape::of_rank)];
    shapes.resize(ctx.num_outputs(), PartialShape::vector(None));
    Ok(shapes)
}

/// `UniqueV2` and `UniqueWithCountsV2`: along an axis, or over a vector if the list of axes is empty.
fn unique_v2_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let (out_idx, outputs) = (node.attr("out_idx")?, node.outputs.len());
    Ok(KernelBox::from_fn(move |ctx| {
        let (x, axis) = (ctx.input(0)?, ctx.input(1)?);
        let rank = x.shape().rank();
        ensure!(axis.shape().rank() == 1, InvalidArgument, "axis expects a 1D vector.");
        let axis = match integers(axis)?[..] {
            [] => {
                ensure!(rank == 1, InvalidArgument, "unique expects a 1D vector.");
                0
            }
            [axis] => match normalized(axis, rank) {
                Some(axis) => axis,
                None => bail!(InvalidArgument, "axis has to be between [0, {rank})"),
            },
            _ => bail!(InvalidArgument, "axis does not support input tensors larger than 1 elements"),
        };
        for (index, tensor) in unique(ctx, x, axis, out_idx)?.into_iter().take(outputs).enumerate() {
            ctx.set_output(index, tensor);
        }
        Ok(())
    }))
}

fn list_diff_shape(ctx: &ShapeContext<'_>) -> Result<Vec<PartialShape>> {
    ctx.input_with_rank(0, 1)?;
    ctx.input_with_rank(1, 1)?;
    Ok(vec![PartialShape::vector(None); 2])
}

/// `ListDiff`: the elements of x that are not in y, and where they were.
fn list_diff_kernel(node: &NodeSpec<'_>) -> Result<KernelBox> {
    let out_idx = node.attr("out_idx")?;
    Ok(KernelBox::from_fn(move |ctx| {
        let (x, y) = (ctx.input(0)?, ctx.input(1)?);
        for (tensor, name) in [(x, "x"), (y, "y")] {
            ensure!(tensor.shape().rank() == 1, InvalidArgument, "{name} should be a 1D vector.");
        }
        let cancellation = &ctx.step.cancellation;
        let mut keys = Keys::new(cancellation);
        let dropped = keys.of(y)?;
        memory::check_fits(dropped.len().saturating_mul(4 * size_of::<u64>()))?;
        let dropped: FxHashSet<u64> = cancellation.unless_cancelled(dropped).collect::<Result<_>>()?;
        let keys = keys.of(x)?;
        let mut kept: Vec<usize> = memory::vec_with_room(keys.len())?;
        for (place, key) in cancellation.unless_cancelled(&keys).enumerate() {
            if !dropped.contains(key?) {
                kept.push(place);
            }
        }
        let pick = PickRows { indices: &kept, batches: 1, outer: 1, axis: x.num_elements(), inner: 1 };
        let out = rearrange(ctx.loops(), x.dtype(), with_dim(x.shape(), 0, kept.len())?, &[x], &pick)?;
        ctx.set_output(0, out);
        ctx.set_output(1, index_tensor(&kept, out_idx)?);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_op;

    fn run_unique(op: &str, x: Tensor) -> Result<Vec<Tensor>> {
        test_op(op).with_shape_check().attr("T", x.dtype()).input(x).run()
    }

    #[test]
    fn first_occurrences_come_in_order_with_indices_and_counts() {
        let out = run_unique("UniqueWithCounts", Tensor::vector(&[4i32, 2, 4, 4, 9]).unwrap()).unwrap();
        let slices: Vec<&[i32]> = out.iter().map(|tensor| tensor.as_slice::<i32>().unwrap()).collect();
        assert_eq!(slices, [&[4, 2, 9][..], &[0, 1, 0, 0, 2], &[3, 1, 1]]);
        let words = Tensor::from_strings(vec!["b".into(), "a".into(), "b".into()], &[3]).unwrap();
        assert_eq!(run_unique("Unique", words).unwrap()[0].as_strings().unwrap(), ["b", "a"]);
        let empty = run_unique("Unique", Tensor::vector::<i64>(&[]).unwrap()).unwrap();
        assert_eq!((empty[0].num_elements(), empty[1].num_elements()), (0, 0));
        let matrix = Tensor::from_slice(&[1i32], &[1, 1]).unwrap();
        assert!(run_unique("Unique", matrix).unwrap_err().text().contains("unique expects a 1D vector."));
    }

    #[test]
    fn zeros_are_equal_and_nans_are_not() {
        let x = Tensor::vector(&[f32::NAN, f32::NAN, 0.0, -0.0]).unwrap();
        assert_eq!(run_unique("Unique", x).unwrap()[1].as_slice::<i32>().unwrap(), [0, 1, 2, 2]);
        // What TensorFlow 2.21 gives for halves.
        let halves = [f16::NAN, f16::NAN, f16::ZERO, f16::NEG_ZERO, f16::ZERO, f16::NEG_ZERO];
        let found = run_unique("Unique", Tensor::vector(&halves).unwrap()).unwrap();
        assert_eq!(found[1].as_slice::<i32>().unwrap(), [0, 1, 2, 3, 2, 3]);
        let brains = [bf16::NEG_ZERO, bf16::ZERO, bf16::ONE, bf16::NEG_ZERO];
        let found = run_unique("Unique", Tensor::vector(&brains).unwrap()).unwrap();
        assert_eq!(found[1].as_slice::<i32>().unwrap(), [0, 1, 2, 0]);
    }

    #[test]
    fn slices_along_an_axis_are_compared_as_a_whole() {
        let run = |x: Tensor, axis: &[i64]| {
            let op = test_op("UniqueV2").with_shape_check().attr("T", x.dtype()).input(x);
            op.input(Tensor::vector(axis).unwrap()).run()
        };
        let x = Tensor::from_slice(&[1i32, 2, 1, 3, 4, 3], &[2, 3]).unwrap();
        let out = run(x.clone(), &[1]).unwrap();
        assert_eq!(out[0], Tensor::from_slice(&[1i32, 2, 3, 4], &[2, 2]).unwrap());
        assert_eq!(out[1].as_slice::<i32>().unwrap(), [0, 1, 0]);
        assert!(run(x.clone(), &[]).unwrap_err().text().contains("unique expects a 1D vector."));
        assert!(run(x, &[5]).unwrap_err().text().contains("axis has to be between [0, 2)"));
    }

    #[test]
    fn a_difference_keeps_duplicates_and_places() {
        let op = test_op("ListDiff").with_shape_check().attr("T", DType::Int32);
        let op = op.input(Tensor::vector(&[1, 2, 3, 1, 2]).unwrap()).input(Tensor::vector(&[2, 7]).unwrap());
        let out = op.attr("out_idx", DType::Int64).run().unwrap();
        assert_eq!(out[0].as_slice::<i32>().unwrap(), [1, 3, 1]);
        assert_eq!(out[1].as_slice::<i64>().unwrap(), [0, 2, 3]);
    }
}
