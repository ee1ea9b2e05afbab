//! [`Window`]: a strided view of a row-major tensor, and the one loop that copies through it.
//!
//! Transposing, slicing, reversing, tiling and splitting are all "read the elements of a window in order";
//! padding, gradients of slices and slice assignments are "write them in order". Adjacent axes that continue each
//! other are merged first, so that the copy works on runs as long as the memory allows.

use smallvec::{SmallVec, smallvec};
use tensorfleet_core::{Element, Result, Shape, Status, Tensor};

use crate::rearrange::{Movement, rearrange};
use crate::transpose::transpose;
use tensorfleet_threads::Loops;

/// Element `(i0, i1, …)` of the window is element `offset + Σ ik · strides[k]` of the tensor it looks into.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    offset: isize,
    axes: SmallVec<[Axis; 6]>,
}

/// One axis of a window: how many elements, and how far apart they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// How many positions.
    pub len: usize,
    /// Elements from one position to the next.
    pub stride: isize,
}

/// Estimated hundredths of a nanosecond for copying an element.
const COPY_COST: usize = 20;

impl Window {
    /// The whole of a tensor with this shape.
    pub fn whole(dims: &[usize]) -> Window {
        let mut axes: SmallVec<[Axis; 6]> = dims.iter().map(|&len| Axis { len, stride: 0 }).collect();
        let mut stride = 1;
        for axis in axes.iter_mut().rev() {
            axis.stride = stride;
            stride *= axis.len.max(1) as isize;
        }
        Window { offset: 0, axes }
    }

    /// A window with these axes, starting at element `offset`.
    pub fn new(offset: usize, axes: impl IntoIterator<Item = Axis>) -> Window {
        Window { offset: offset as isize, axes: axes.into_iter().collect() }
    }

    /// The axes.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Every `step`th element of `axis`, `len` of them, from `start`; all of them lie in the axis.
    pub fn slice(mut self, axis: usize, start: usize, step: isize, len: usize) -> Window {
        if len > 0 {
            self.offset += start as isize * self.axes[axis].stride;
        }
        self.axes[axis] = Axis { len, stride: self.axes[axis].stride.wrapping_mul(step) };
        self
    }

    /// The axes in another order: axis `k` of the result is axis `permutation[k]` of this window.
    pub fn permuted(&self, permutation: &[usize]) -> Window {
        Window { offset: self.offset, axes: permutation.iter().map(|&axis| self.axes[axis]).collect() }
    }

    fn num_elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// Whether all elements lie in a tensor of `len` elements.
    fn lies_in(&self, len: usize) -> bool {
        if self.num_elements() == 0 {
            return true;
        }
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for axis in &self.axes {
            let reach = (axis.len as i128 - 1) * axis.stride as i128;
            low += reach.min(0);
            high += reach.max(0);
        }
        low >= 0 && high < len as i128
    }

    /// The same elements in the same order with as few axes as possible.
    fn merged(&self) -> Window {
        let mut axes: SmallVec<[Axis; 6]> = SmallVec::new();
        for &axis in self.axes.iter().filter(|axis| axis.len != 1) {
            match axes.last_mut() {
                Some(last) if last.stride == axis.stride.wrapping_mul(axis.len as isize) => {
                    *last = Axis { len: last.len * axis.len, stride: axis.stride };
                }
                _ => axes.push(axis),
            }
        }
        Window { offset: self.offset, axes }
    }

    /// Whether the window is a run of neighbours; their number is then the product of the axes.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.merged().axes[..], [] | [Axis { stride: 1, .. }])
    }

    /// Copies the elements of the window of `source`, in order, into `out`.
    pub fn read<T: Element>(&self, loops: &Loops, source: &[T], out: &mut [T]) -> Result<()> {
        self.check(source.len(), out.len())?;
        if out.is_empty() {
            return Ok(());
        }
        let window = self.merged();
        match window.transposed_axis() {
            Some(axis) => window.read_transposed(loops, axis, source, out),
            None => window.read_rows(loops, source, out),
        }
        Ok(())
    }

    /// Copies `elements`, in order, to the places of the window in `target`.
    pub fn write<T: Element>(&self, elements: &[T], target: &mut [T]) -> Result<()> {
        self.check(target.len(), elements.len())?;
        if elements.is_empty() {
            return Ok(());
        }
        let (outer, row) = self.merged().split_row();
        let mut rows = Rows::new(&outer, 0);
        for elements in elements.chunks_exact(row.len) {
            let start = rows.next_offset();
            if row.stride == 1 {
                target[start..start + row.len].copy_from_slice(elements);
            } else {
                let mut at = start as isize;
                for &element in elements {
                    target[at as usize] = element;
                    at = at.wrapping_add(row.stride);
                }
            }
        }
        Ok(())
    }

    fn check(&self, tensor_len: usize, window_len: usize) -> Result<()> {
        if self.lies_in(tensor_len) && self.num_elements() == window_len {
            return Ok(());
        }
        Err(Status::internal(format!("{self:?} does not fit {window_len} of {tensor_len} elements")))
    }

    /// The last axis apart from the ones before it.
    fn split_row(mut self) -> (Window, Axis) {
        let row = self.axes.pop().unwrap_or(Axis { len: 1, stride: 1 });
        (self, row)
    }

    fn read_rows<T: Element>(self, loops: &Loops, source: &[T], out: &mut [T]) {
        let (outer, row) = self.split_row();
        loops.chunks_mut(out, row.len, row.len * COPY_COST, |first, out| {
            let mut rows = Rows::new(&outer, first);
            for out in out.chunks_exact_mut(row.len) {
                let start = rows.next_offset();
                match row.stride {
                    1 => out.copy_from_slice(&source[start..start + row.len]),
                    0 => out.fill(source[start]),
                    stride => {
                        let mut at = start as isize;
                        for out in out {
                            *out = source[at as usize];
                            at = at.wrapping_add(stride);
                        }
                    }
                }
            }
        });
    }

    /// The axis that walks neighbours in memory while the last axis leaps, if both are worth tiles.
    fn transposed_axis(&self) -> Option<usize> {
        let (last, others) = self.axes.split_last()?;
        let axis = others.iter().rposition(|axis| axis.stride == 1)?;
        (last.stride > 1 && last.len >= 2 && others[axis].len >= 2).then_some(axis)
    }

    /// Reads with `axis` and the last axis exchanged tile by tile. Shards are made of whole steps of `axis`.
    fn read_transposed<T: Element>(mut self, loops: &Loops, axis: usize, source: &[T], out: &mut [T]) {
        let Some(last) = self.axes.pop() else { return };
        let middle = Window { offset: 0, axes: self.axes.drain(axis + 1..).collect() };
        let Some(fast) = self.axes.pop() else { return };
        let outer = self;
        let unit = middle.num_elements() * last.len;
        loops.chunks_mut(out, unit, unit * COPY_COST, |first, out| {
            let mut position = first;
            let mut out = out;
            while !out.is_empty() {
                let start = position % fast.len;
                let steps = (fast.len - start).min(out.len() / unit);
                let base = Rows::new(&outer, position / fast.len).next_offset() + start;
                let (part, rest) = out.split_at_mut(steps * unit);
                let mut between = Rows::new(&middle, 0);
                for column in 0..unit / last.len {
                    let from = &source[base + between.next_offset()..];
                    let to = &mut part[column * last.len..];
                    transpose(from, last.stride as usize, to, unit, steps, last.len);
                }
                position += steps;
                out = rest;
            }
        });
    }
}

/// Walks the offsets of a window's elements in order, from any of them on.
struct Rows<'a> {
    axes: &'a [Axis],
    index: SmallVec<[usize; 6]>,
    offset: isize,
}

impl<'a> Rows<'a> {
    fn new(window: &'a Window, first: usize) -> Rows<'a> {
        let mut index: SmallVec<[usize; 6]> = smallvec![0; window.axes.len()];
        let (mut rest, mut offset) = (first, window.offset);
        for (index, axis) in index.iter_mut().zip(&window.axes).rev() {
            *index = rest % axis.len.max(1);
            rest /= axis.len.max(1);
            offset += *index as isize * axis.stride;
        }
        Rows { axes: &window.axes, index, offset }
    }

    /// The current offset; then steps on. After the last one it starts over.
    #[inline]
    fn next_offset(&mut self) -> usize {
        let offset = self.offset as usize;
        for (index, axis) in self.index.iter_mut().zip(self.axes).rev() {
            *index += 1;
            self.offset = self.offset.wrapping_add(axis.stride);
            if *index < axis.len {
                break;
            }
            self.offset = self.offset.wrapping_sub(axis.stride.wrapping_mul(axis.len as isize));
            *index = 0;
        }
        offset
    }
}

/// The only source, read through a window.
impl Movement for Window {
    fn run<T: Element>(&self, loops: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        match sources {
            [source] => self.read(loops, source, out),
            _ => Err(Status::internal("a window looks into one source")),
        }
    }
}

/// What `window` shows of `tensor`, as a tensor of this shape. A run of neighbours shares the data.
pub fn view(loops: &Loops, tensor: &Tensor, window: &Window, shape: Shape) -> Result<Tensor> {
    if window.num_elements() > 0 && window.is_contiguous() {
        let flat = tensor.clone().reshaped(Shape::vector(tensor.num_elements()))?;
        return flat.rows(window.offset as usize, window.num_elements())?.reshaped(shape);
    }
    rearrange(loops, tensor.dtype(), shape, &[tensor], window)
}

/// Writes the first source through a window into the target, after zeros if `clear` is set.
pub struct WriteThrough<'a> {
    /// Where to write.
    pub window: &'a Window,
    /// Whether the rest is set to zero first.
    pub clear: bool,
}

impl Movement for WriteThrough<'_> {
    fn run<T: Element>(&self, _: &Loops, sources: &[&[T]], out: &mut [T]) -> Result<()> {
        if self.clear {
            out.fill(T::default());
        }
        match sources {
            [elements, ..] => self.window.write(elements, out),
            [] => Err(Status::internal("nothing to write through a window")),
        }
    }
}

/// The number of elements before an axis, along it, and behind it.
pub fn around_axis(shape: &Shape, axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tensorfleet_threads::Threads;

    fn loops() -> &'static Loops {
        Threads::of_process().loops()
    }

    fn naive(window: &Window, source: &[u32]) -> Vec<u32> {
        let mut offsets = vec![window.offset];
        for axis in &window.axes {
            offsets = offsets
                .iter()
                .flat_map(|&offset| (0..axis.len).map(move |i| offset + i as isize * axis.stride))
                .collect();
        }
        offsets.iter().map(|&offset| source[offset as usize]).collect()
    }

    fn read(window: &Window, source: &[u32]) -> Vec<u32> {
        let mut out = vec![0; window.num_elements()];
        window.read(loops(), source, &mut out).unwrap();
        out
    }

    #[test]
    fn adjacent_axes_that_continue_each_other_are_one() {
        assert_eq!(Window::whole(&[2, 3, 4]).merged().axes[..], [Axis { len: 24, stride: 1 }]);
        assert!(Window::whole(&[2, 3, 4]).slice(0, 1, 1, 1).is_contiguous());
        assert!(!Window::whole(&[2, 3, 4]).slice(1, 1, 1, 2).is_contiguous());
        assert_eq!(Window::whole(&[2, 3, 4]).permuted(&[2, 0, 1]).merged().axes.len(), 2);
        assert!(Window::whole(&[]).is_contiguous());
    }

    #[test]
    fn a_window_beyond_its_tensor_is_refused() {
        let window = Window::new(1, [Axis { len: 3, stride: 2 }]);
        assert!(window.read(loops(), &[0u8; 5], &mut [0; 3]).is_err());
        assert!(window.read(loops(), &[0u8; 6], &mut [0; 3]).is_ok());
        assert!(window.read(loops(), &[0u8; 6], &mut [0; 2]).is_err());
        assert!(Window::new(1, [Axis { len: 3, stride: -1 }]).read(loops(), &[0u8; 6], &mut [0; 3]).is_err());
        assert!(Window::new(9, [Axis { len: 0, stride: 1 }]).read(loops(), &[0u8; 6], &mut []).is_ok());
    }

    #[test]
    fn a_matrix_beyond_tile_and_block_sizes_is_transposed() {
        for (rows, columns) in [(1, 7), (8, 8), (65, 9), (130, 67), (1000, 333)] {
            let source: Vec<u32> = (0..(rows * columns) as u32).collect();
            let window = Window::whole(&[rows, columns]).permuted(&[1, 0]);
            assert_eq!(read(&window, &source), naive(&window, &source), "{rows}x{columns}");
        }
    }

    proptest! {
        #[test]
        fn reading_agrees_with_a_naive_walk_and_writing_undoes_it(
            dims in prop::collection::vec(1usize..12, 1..5),
            order in any::<prop::sample::Index>(),
            cuts in prop::collection::vec((0usize..12, 0usize..12, 1isize..4, any::<bool>()), 4),
        ) {
            let source: Vec<u32> = (1..=dims.iter().product::<usize>() as u32).collect();
            let mut window = Window::whole(&dims);
            for (axis, &(a, b, step, backwards)) in cuts.iter().take(dims.len()).enumerate() {
                let (low, high) = (a.min(b) % dims[axis], a.max(b) % dims[axis]);
                let (low, high) = (low.min(high), low.max(high));
                let len = (high - low) / step as usize + 1;
                window = if backwards { window.slice(axis, high, -step, len) } else { window.slice(axis, low, step, len) };
            }
            let mut permutation: Vec<usize> = (0..dims.len()).collect();
            permutation.rotate_left(order.index(dims.len()));
            if order.index(2) == 1 { permutation.reverse(); }
            let window = window.permuted(&permutation);
            let expected = naive(&window, &source);
            prop_assert_eq!(&read(&window, &source), &expected);
            let mut target = vec![0; source.len()];
            window.write(&expected, &mut target).unwrap();
            prop_assert_eq!(read(&window, &target), expected);
        }
    }
}
