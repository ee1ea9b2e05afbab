//! [`Broadcast`]: how the elements of differently shaped operands meet in one output.
//!
//! A broadcast is classified once: dimensions of size one vanish, and neighbouring dimensions in which the same
//! operands are stretched merge. What remains is short — nothing but a length when the shapes are equal — and says
//! for each operand whether it is contiguous, a single value, a row repeated over and over, or something general.
//!
//! The output is then made in blocks that fit the first-level cache. A [`BlockReader`] hands out each operand's
//! elements for a block as a plain slice: a part of the tensor itself where the elements lie together, a small
//! buffer otherwise. So an op is one loop over equally long slices, whatever the shapes, and a new op or dtype
//! costs one such loop and no more.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};
use tensorfleet_core::{Result, Shape, Tensor, bail, memory};

use crate::stored::Stored;

/// Elements per block. Two operands and an output of `f64` take 12 KiB of cache.
pub const BLOCK: usize = 512;

/// The most operands that a broadcast can have: one bit each in [`Axis::stretched`].
const MAX_OPERANDS: usize = 8;

/// Some neighbouring dimensions of the output, taken as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    len: usize,
    /// Bit `i` is set if operand `i` has only one element along this axis.
    stretched: u8,
}

/// A classified broadcast of a few operands.
#[derive(Debug)]
pub struct Broadcast {
    shape: Shape,
    axes: SmallVec<[Axis; 4]>,
    access: SmallVec<[Access; 3]>,
}

/// How the elements of one operand lie when read in the order of the output.
#[derive(Debug, PartialEq, Eq)]
enum Access {
    /// As the output's.
    Contiguous,
    /// One element for all.
    Single,
    /// A row of this length, again and again.
    Repeated(usize),
    /// By strides, one for each axis; 0 where the operand is stretched.
    Strided(SmallVec<[usize; 4]>),
}

impl Broadcast {
    /// Classifies the broadcast of two shapes.
    pub fn of_two(a: &Shape, b: &Shape) -> Result<Broadcast> {
        match Broadcast::new(&[a, b]) {
            Some(broadcast) => Ok(broadcast),
            None => bail!(InvalidArgument, "Incompatible shapes: {a} vs. {b}"),
        }
    }

    /// Classifies the broadcast of a few shapes; `None` if they do not fit, or their element count overflows.
    pub fn new(operands: &[&Shape]) -> Option<Broadcast> {
        debug_assert!(operands.len() <= MAX_OPERANDS);
        let rank = operands.iter().map(|shape| shape.rank()).max()?;
        let mut dims: SmallVec<[usize; 8]> = smallvec![1; rank];
        for shape in operands {
            for (dim, &size) in dims[rank - shape.rank()..].iter_mut().zip(shape.iter()) {
                match (*dim, size) {
                    (1, size) => *dim = size,
                    (dim, size) if size != 1 && size != dim => return None,
                    _ => {}
                }
            }
        }
        let shape = Shape::new(&dims).ok()?;
        let axes = merged_axes(&dims, operands);
        let access = (0..operands.len()).map(|operand| Access::classify(&axes, operand)).collect();
        Some(Broadcast { shape, axes, access })
    }

    /// The output's shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The number of elements of the output.
    pub fn num_elements(&self) -> usize {
        self.shape.num_elements()
    }

    /// Whether all operands have the output's elements in the output's order, so that nothing needs a reader.
    pub fn is_elementwise(&self) -> bool {
        self.access.iter().all(|access| *access == Access::Contiguous)
    }

    /// Whether `operand` has the output's elements in the output's order.
    pub fn is_contiguous(&self, operand: usize) -> bool {
        self.access[operand] == Access::Contiguous
    }

    /// The length of blocks: [`BLOCK`], or a little less so that whole rows fit.
    pub fn block_len(&self) -> usize {
        let row = self.access.iter().find_map(|access| match access {
            Access::Repeated(row) => Some(*row),
            _ => None,
        });
        match row {
            Some(row) => BLOCK / row * row,
            None => BLOCK,
        }
    }

    /// A reader of `operand`, whose elements are `data`.
    pub fn reader<'a, S: Stored>(&'a self, operand: usize, data: &'a [S]) -> BlockReader<'a, S> {
        BlockReader {
            data,
            axes: &self.axes,
            access: &self.access[operand],
            buffer: [S::Compute::default(); BLOCK],
            is_filled: false,
        }
    }

    /// The strings of `operand` in the order of the output.
    pub fn strings<'a>(&self, operand: usize, tensor: &'a Tensor) -> Result<Vec<&'a Bytes>> {
        let strings = tensor.as_strings()?;
        let mut ordered = memory::vec_with_room(self.num_elements())?;
        self.visit_runs(operand, 0, self.num_elements(), |first, len, same| {
            if same {
                ordered.extend(std::iter::repeat_n(&strings[first], len));
            } else {
                ordered.extend(&strings[first..first + len]);
            }
        });
        Ok(ordered)
    }

    /// Calls `visit` for runs of output elements from `start` on, `len` in all, that read `operand` one after the
    /// other (the flag is false) or all the same element (true): `visit(first index in operand, length, same)`.
    pub fn visit_runs(
        &self,
        operand: usize,
        start: usize,
        len: usize,
        mut visit: impl FnMut(usize, usize, bool),
    ) {
        if len == 0 {
            return;
        }
        match &self.access[operand] {
            Access::Contiguous => visit(start, len, false),
            Access::Single => visit(0, len, true),
            Access::Repeated(row) => {
                let mut position = start;
                while position < start + len {
                    let column = position % row;
                    let run = (row - column).min(start + len - position);
                    visit(column, run, false);
                    position += run;
                }
            }
            Access::Strided(strides) => visit_strided(&self.axes, strides, start, len, visit),
        }
    }
}

/// Drops dimensions of size one and merges neighbours that stretch the same operands.
fn merged_axes(dims: &[usize], operands: &[&Shape]) -> SmallVec<[Axis; 4]> {
    let rank = dims.len();
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    for (index, &len) in dims.iter().enumerate().filter(|&(_, &len)| len != 1) {
        let mut stretched = 0;
        for (operand, shape) in operands.iter().enumerate() {
            let missing = rank - shape.rank();
            if index < missing || shape[index - missing] == 1 {
                stretched |= 1 << operand;
            }
        }
        match axes.last_mut() {
            Some(last) if last.stretched == stretched => last.len *= len,
            _ => axes.push(Axis { len, stretched }),
        }
    }
    axes
}

impl Access {
    fn classify(axes: &[Axis], operand: usize) -> Access {
        let is_stretched = |axis: &Axis| axis.stretched & (1 << operand) != 0;
        if !axes.iter().any(is_stretched) {
            return Access::Contiguous;
        }
        if axes.iter().all(is_stretched) {
            return Access::Single;
        }
        if let [first, row] = axes
            && is_stretched(first)
            && (1..=BLOCK / 2).contains(&row.len)
        {
            return Access::Repeated(row.len);
        }
        let mut strides: SmallVec<[usize; 4]> = smallvec![0; axes.len()];
        let mut stride = 1;
        for (slot, axis) in strides.iter_mut().zip(axes).rev().filter(|(_, axis)| !is_stretched(axis)) {
            *slot = stride;
            stride *= axis.len;
        }
        Access::Strided(strides)
    }
}

/// Walks the output's elements `start..start + len` axis by axis. There are at least two axes and no empty one.
fn visit_strided(
    axes: &[Axis],
    strides: &[usize],
    start: usize,
    len: usize,
    mut visit: impl FnMut(usize, usize, bool),
) {
    let (Some((inner, outer)), Some((&inner_stride, outer_strides))) =
        (axes.split_last(), strides.split_last())
    else {
        return;
    };
    if inner.len == 0 || len == 0 {
        return;
    }
    // Where `start` is: the position along every outer axis, and the operand's index that belongs to it.
    let (mut row, mut column) = (start / inner.len, start % inner.len);
    let mut position: SmallVec<[usize; 4]> = smallvec![0; outer.len()];
    let mut base = 0;
    for ((slot, axis), stride) in position.iter_mut().zip(outer).zip(outer_strides).rev() {
        (row, *slot) = (row / axis.len.max(1), row % axis.len.max(1));
        base += *slot * stride;
    }
    let mut left = len;
    loop {
        let run = (inner.len - column).min(left);
        visit(base + column * inner_stride, run, inner_stride == 0);
        left -= run;
        if left == 0 {
            return;
        }
        column = 0;
        // Next row: as an odometer, the last wheel first.
        for ((slot, axis), stride) in position.iter_mut().zip(outer).zip(outer_strides).rev() {
            *slot += 1;
            base += stride;
            if *slot < axis.len {
                break;
            }
            base -= *slot * stride;
            *slot = 0;
        }
    }
}

/// Hands out the elements of one operand block by block, in the order of the output.
pub struct BlockReader<'a, S: Stored> {
    data: &'a [S],
    axes: &'a [Axis],
    access: &'a Access,
    buffer: [S::Compute; BLOCK],
    /// Whether the buffer holds what it will hold for all blocks (a single value, a repeated row).
    is_filled: bool,
}

impl<S: Stored> BlockReader<'_, S> {
    /// The operand's elements for the output's `start..start + len`. `len` is at most [`Broadcast::block_len`] and
    /// `start` a multiple of it.
    pub fn block(&mut self, start: usize, len: usize) -> &[S::Compute] {
        let buffer = &mut self.buffer[..];
        match self.access {
            Access::Contiguous => {
                let elements = &self.data[start..start + len];
                if let Some(direct) = S::as_compute(elements) {
                    return direct;
                }
                S::widen(elements, &mut buffer[..len]);
            }
            Access::Single if !self.is_filled => {
                if let Some(first) = self.data.first() {
                    buffer.fill(first.widened());
                }
                self.is_filled = true;
            }
            Access::Repeated(row) if !self.is_filled => {
                let row = &self.data[..*row];
                buffer.chunks_exact_mut(row.len()).for_each(|part| S::widen(row, part));
                self.is_filled = true;
            }
            Access::Single | Access::Repeated(_) => {}
            Access::Strided(strides) => {
                let mut filled = 0;
                visit_strided(self.axes, strides, start, len, |first, run, same| {
                    let part = &mut buffer[filled..filled + run];
                    if same {
                        part.fill(self.data[first].widened());
                    } else {
                        S::widen(&self.data[first..first + run], part);
                    }
                    filled += run;
                });
            }
        }
        &buffer[..len]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// For every element of the output of a broadcast, the operand's index. The plainest way to say it.
    pub(crate) fn naive_indices(output: &[usize], operand: &[usize]) -> Vec<usize> {
        let count: usize = output.iter().product();
        let missing = output.len() - operand.len();
        (0..count)
            .map(|flat| {
                let (mut rest, mut index, mut stride) = (flat, 0, 1);
                for axis in (0..output.len()).rev() {
                    let position = rest % output[axis];
                    rest /= output[axis];
                    if axis >= missing {
                        let size = operand[axis - missing];
                        index += stride * if size == 1 { 0 } else { position };
                        stride *= size;
                    }
                }
                index
            })
            .collect()
    }

    /// Two shapes that broadcast: sizes 0 to 5 (and sometimes enough for several blocks), some replaced by one,
    /// some leading ones left out.
    pub(crate) fn compatible_shapes() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
        let dim = prop_oneof![8 => 0usize..6, 1 => Just(300usize), 1 => Just(37usize)];
        (prop::collection::vec((dim, any::<bool>(), any::<bool>()), 0..=4), 0usize..3, 0usize..3).prop_map(
            |(dims, cut_a, cut_b)| {
                let side = |pick: fn(&(usize, bool, bool)) -> bool, cut: usize| -> Vec<usize> {
                    let sizes = dims.iter().map(|dim| if pick(dim) { 1 } else { dim.0 });
                    let sizes: Vec<usize> = sizes.collect();
                    let leading_ones = sizes.iter().take_while(|&&size| size == 1).count();
                    sizes[cut.min(leading_ones)..].to_vec()
                };
                (side(|dim| dim.1, cut_a), side(|dim| dim.2 && !dim.1, cut_b))
            },
        )
    }

    fn shape(dims: &[usize]) -> Shape {
        Shape::new(dims).unwrap()
    }

    #[test]
    fn common_broadcasts_are_recognised() {
        let classify = |a: &[usize], b: &[usize]| {
            let broadcast = Broadcast::of_two(&shape(a), &shape(b)).unwrap();
            format!("{:?}", broadcast.access.as_slice())
        };
        assert_eq!(classify(&[2, 3], &[2, 3]), "[Contiguous, Contiguous]");
        assert_eq!(classify(&[2, 1, 3], &[2, 1, 3]), "[Contiguous, Contiguous]");
        assert_eq!(classify(&[], &[2, 3]), "[Single, Contiguous]");
        assert_eq!(classify(&[2, 3], &[1]), "[Contiguous, Single]");
        assert_eq!(classify(&[4, 2, 3], &[2, 3]), "[Contiguous, Repeated(6)]");
        assert_eq!(classify(&[4, 3], &[4, 1]), "[Contiguous, Strided([1, 0])]");
        assert_eq!(classify(&[4, 1000], &[1000]), "[Contiguous, Strided([0, 1])]");
    }

    #[test]
    fn shapes_that_clash_are_refused_by_name() {
        let status = Broadcast::of_two(&shape(&[2, 3]), &shape(&[4])).unwrap_err();
        assert_eq!(status.text(), "Incompatible shapes: [2,3] vs. [4]");
        assert!(Broadcast::new(&[&shape(&[0]), &shape(&[2])]).is_none());
        assert_eq!(Broadcast::new(&[&shape(&[0]), &shape(&[1])]).unwrap().shape(), &shape(&[0]));
        let huge = shape(&[1 << 40, 1]);
        assert!(Broadcast::new(&[&huge, &shape(&[1 << 40])]).is_none(), "the product overflows");
    }

    proptest! {
        #[test]
        fn readers_hand_out_what_the_naive_index_arithmetic_says((a, b) in compatible_shapes()) {
            let (a, b) = (shape(&a), shape(&b));
            let broadcast = Broadcast::of_two(&a, &b).unwrap();
            prop_assume!(broadcast.num_elements() < 500_000);
            for (operand, dims) in [&a, &b].into_iter().enumerate() {
                let data: Vec<i32> = (0..dims.num_elements() as i32).collect();
                let mut reader = broadcast.reader(operand, &data);
                let mut got: Vec<i32> = Vec::new();
                while got.len() < broadcast.num_elements() {
                    let len = broadcast.block_len().min(broadcast.num_elements() - got.len());
                    got.extend_from_slice(reader.block(got.len(), len));
                }
                let want = naive_indices(broadcast.shape(), dims);
                prop_assert!(got.iter().map(|&index| index as usize).eq(want.iter().copied()));
                let mut visited = Vec::new();
                broadcast.visit_runs(operand, 0, want.len(), |first, len, same| {
                    visited.extend((0..len).map(|i| if same { first } else { first + i }));
                });
                prop_assert_eq!(visited, want);
            }
        }
    }
}
