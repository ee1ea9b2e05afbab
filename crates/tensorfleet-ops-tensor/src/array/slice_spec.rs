//! [`SliceSpec`]: what Python's `x[1:3, ..., None, -1]` means for a given shape.
//!
//! StridedSlice, its gradient and the slice assignments carry a list of begins, ends and strides with five bit
//! masks over it. This module turns that into one slice per input axis and a shape, once, for shape rules (where
//! sizes and bounds may be unknown) and kernels alike.

use smallvec::SmallVec;
use tensorfleet_core::{Dim, PartialShape, Result, Shape, Status, Tensor, bail, ensure};

use super::axes::{Integers, integers};
use tensorfleet_numeric::strided::Window;

/// The masks of a slicing node; bit `i` is about entry `i` of begin, end and strides.
#[derive(Clone, Copy, Debug, Default)]
pub struct SliceSpec {
    begin_mask: i64,
    end_mask: i64,
    ellipsis_mask: i64,
    new_axis_mask: i64,
    shrink_axis_mask: i64,
}

/// The bounds as far as they are known; strides and the number of entries always are.
pub struct Bounds {
    begin: Option<Integers>,
    end: Option<Integers>,
    strides: Integers,
}

/// The elements a slice takes of one axis.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AxisSlice {
    start: usize,
    step: i64,
    /// How many; unknown if the size of the axis or the bounds are.
    len: Dim,
}

/// A dimension of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ResultDim {
    /// What the slice leaves of an input axis.
    Of(usize),
    /// A new dimension of size 1.
    New,
}

/// One slice for each axis of the input.
type AxisSlices = SmallVec<[AxisSlice; 8]>;
/// Where the dimensions of the result come from.
type Layout = SmallVec<[ResultDim; 8]>;

/// A slice of a tensor whose shape is known.
#[derive(Debug)]
pub struct Slice {
    /// Where the elements are, one axis for each of the input's.
    pub window: Window,
    /// The shape of the result.
    pub shape: Shape,
}

impl Bounds {
    /// The bounds in the tensors of a kernel's inputs.
    pub fn of(begin: &Tensor, end: &Tensor, strides: &Tensor) -> Result<Bounds> {
        let (a, b, c) = (begin.shape(), end.shape(), strides.shape());
        ensure!(
            a.rank() == 1 && a == b && a == c,
            InvalidArgument,
            "Expected begin, end, and strides to be 1D equal size tensors, but got shapes {a}, {b}, and {c} instead."
        );
        Ok(Bounds { begin: Some(integers(begin)?), end: Some(integers(end)?), strides: integers(strides)? })
    }

    /// The bounds a shape rule may know; `None` if not even the strides are known.
    pub fn partial(
        begin: Option<&Tensor>,
        end: Option<&Tensor>,
        strides: Option<&Tensor>,
    ) -> Result<Option<Bounds>> {
        let Some(strides) = strides else { return Ok(None) };
        let strides = integers(strides)?;
        let (begin, end) = (begin.map(integers).transpose()?, end.map(integers).transpose()?);
        for bound in [&begin, &end].into_iter().flatten() {
            ensure!(
                bound.len() == strides.len(),
                InvalidArgument,
                "Expected begin, end, and strides to be 1D equal size tensors, but got {} bounds and {} strides",
                bound.len(),
                strides.len()
            );
        }
        Ok(Some(Bounds { begin, end, strides }))
    }
}

impl SliceSpec {
    /// Reads the masks with a node's attribute reader.
    pub fn from_attrs(attr: impl Fn(&str) -> Result<i64>) -> Result<SliceSpec> {
        Ok(SliceSpec {
            begin_mask: attr("begin_mask")?,
            end_mask: attr("end_mask")?,
            ellipsis_mask: attr("ellipsis_mask")?,
            new_axis_mask: attr("new_axis_mask")?,
            shrink_axis_mask: attr("shrink_axis_mask")?,
        })
    }

    /// The slice of a tensor of shape `input`.
    pub fn resolve(&self, input: &Shape, bounds: &Bounds) -> Result<Slice> {
        let dims: SmallVec<[Dim; 8]> = input.iter().map(|&dim| Some(dim)).collect();
        let (slices, layout) = self.resolve_dims(&dims, bounds)?;
        let mut window = Window::whole(input);
        for (axis, slice) in slices.iter().enumerate() {
            let unknown = || Status::internal("the bounds of a slice are unknown");
            let len = slice.len.ok_or_else(unknown)?;
            window = window.slice(axis, slice.start, slice.step as isize, len);
        }
        let shape: SmallVec<[usize; 8]> = layout.iter().map(|dim| dim.size(&slices).unwrap_or(0)).collect();
        Ok(Slice { window, shape: Shape::new(&shape)? })
    }

    /// What is known of the result's shape.
    pub fn resolve_shape(&self, input: &PartialShape, bounds: &Bounds) -> Result<PartialShape> {
        let Some(dims) = input.dims() else { return Ok(PartialShape::unknown()) };
        let (slices, layout) = self.resolve_dims(dims, bounds)?;
        Ok(PartialShape::new(layout.iter().map(|dim| dim.size(&slices))))
    }

    fn resolve_dims(&self, dims: &[Dim], bounds: &Bounds) -> Result<(AxisSlices, Layout)> {
        let count = bounds.strides.len();
        let has = |mask: i64, entry: usize| entry < 64 && mask >> entry & 1 != 0;
        let ellipsis = (0..count).filter(|&entry| has(self.ellipsis_mask, entry));
        ensure!(
            ellipsis.clone().count() <= 1,
            InvalidArgument,
            "Multiple ellipses in slice spec not allowed"
        );
        // Without an ellipsis there is one at the end.
        let ellipsis = ellipsis.clone().next().unwrap_or(count);
        let is_new = |entry: usize| entry != ellipsis && has(self.new_axis_mask, entry);
        let named = (0..count).filter(|&entry| entry != ellipsis && !is_new(entry)).count();

        let mut slices = AxisSlices::new();
        let mut layout = Layout::new();
        for entry in 0..=count {
            let axis = slices.len();
            if entry == ellipsis {
                for &dim in dims.iter().skip(axis).take(dims.len().saturating_sub(named)) {
                    layout.push(ResultDim::Of(slices.len()));
                    slices.push(AxisSlice { start: 0, step: 1, len: dim });
                }
            } else if entry == count {
                break;
            } else if is_new(entry) {
                layout.push(ResultDim::New);
            } else {
                let Some(&dim) = dims.get(axis) else {
                    bail!(
                        InvalidArgument,
                        "Index out of range using input dim {axis}; input has only {} dims",
                        dims.len()
                    )
                };
                let begin = bounds.begin.as_ref().map(|begin| begin[entry]);
                let end = bounds.end.as_ref().map(|end| end[entry]);
                let stride = bounds.strides[entry];
                ensure!(stride != 0, InvalidArgument, "strides[{axis}] must be non-zero");
                if has(self.shrink_axis_mask, entry) {
                    slices.push(index_slice(axis, dim, begin, stride)?);
                } else {
                    let begin = if has(self.begin_mask, entry) { Bound::Open } else { Bound::from(begin) };
                    let end = if has(self.end_mask, entry) { Bound::Open } else { Bound::from(end) };
                    layout.push(ResultDim::Of(axis));
                    slices.push(range_slice(dim, begin, end, stride));
                }
            }
        }
        Ok((slices, layout))
    }
}

impl ResultDim {
    fn size(self, slices: &[AxisSlice]) -> Dim {
        match self {
            ResultDim::New => Some(1),
            ResultDim::Of(axis) => slices.get(axis).and_then(|slice| slice.len),
        }
    }
}

/// One end of a range: as far as it goes, a given place, or not known yet.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    Open,
    At(i64),
    Unknown,
}

impl From<Option<i64>> for Bound {
    fn from(place: Option<i64>) -> Bound {
        place.map_or(Bound::Unknown, Bound::At)
    }
}

/// One element of an axis. Only this checks bounds.
fn index_slice(axis: usize, dim: Dim, begin: Option<i64>, stride: i64) -> Result<AxisSlice> {
    ensure!(stride > 0, InvalidArgument, "only stride 1 allowed on non-range indexing.");
    let (Some(dim), Some(begin)) = (dim, begin) else {
        return Ok(AxisSlice { start: 0, step: 1, len: Some(1) });
    };
    let index = if begin < 0 { begin + dim as i64 } else { begin };
    ensure!(
        (0..dim as i64).contains(&index),
        InvalidArgument,
        "slice index {index} of dimension {axis} out of bounds."
    );
    Ok(AxisSlice { start: index as usize, step: 1, len: Some(1) })
}

/// A range of an axis, cut to what there is, as in Python.
fn range_slice(dim: Dim, begin: Bound, end: Bound, stride: i64) -> AxisSlice {
    let unknown = AxisSlice { start: 0, step: stride, len: None };
    let Some(size) = dim else { return unknown };
    let size = size as i64;
    // Walking backwards, the place before the first element is where a range can end.
    let (low, high) = if stride > 0 { (0, size) } else { (-1, size - 1) };
    let place = |bound: Bound, open: i64| match bound {
        Bound::Open => Some(open),
        Bound::At(place) => Some((if place < 0 { place + size } else { place }).clamp(low, high)),
        Bound::Unknown => None,
    };
    let (first, last) = if stride > 0 { (low, high) } else { (high, low) };
    let (Some(begin), Some(end)) = (place(begin, first), place(end, last)) else { return unknown };
    let distance = end - begin;
    if distance == 0 || (distance < 0) != (stride < 0) {
        return AxisSlice { start: 0, step: 1, len: Some(0) };
    }
    let len = distance.unsigned_abs().div_ceil(stride.unsigned_abs()) as usize;
    AxisSlice { start: begin as usize, step: stride, len: Some(len) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tensorfleet_threads::Threads;

    fn bounds(begin: &[i64], end: &[i64], strides: &[i64]) -> Bounds {
        let list = Integers::from_slice;
        Bounds { begin: Some(list(begin)), end: Some(list(end)), strides: list(strides) }
    }

    fn shape_of(spec: SliceSpec, input: &[usize], bounds: Bounds) -> Vec<usize> {
        spec.resolve(&Shape::new(input).unwrap(), &bounds).unwrap().shape.to_vec()
    }

    #[test]
    fn an_ellipsis_stands_for_the_axes_nobody_names() {
        let spec = SliceSpec {
            ellipsis_mask: 0b10,
            new_axis_mask: 0b100,
            shrink_axis_mask: 0b1001,
            ..Default::default()
        };
        // x[1, ..., None, -1]
        let result = shape_of(spec, &[2, 3, 4, 5], bounds(&[1, 0, 0, -1], &[2, 0, 0, 0], &[1, 1, 1, 1]));
        assert_eq!(result, [3, 4, 1]);
        // It may stand for none.
        let spec = SliceSpec { ellipsis_mask: 1, shrink_axis_mask: 0b10, ..Default::default() };
        assert_eq!(shape_of(spec, &[4], bounds(&[0, 1], &[0, 2], &[1, 1])), []);
    }

    #[test]
    fn axes_behind_the_last_entry_are_whole() {
        assert_eq!(shape_of(SliceSpec::default(), &[4, 3], bounds(&[1], &[3], &[1])), [2, 3]);
        assert_eq!(shape_of(SliceSpec::default(), &[4, 3], bounds(&[], &[], &[])), [4, 3]);
    }

    #[test]
    fn wrong_specs_are_refused_with_the_words_of_tensorflow() {
        let refuse = |spec: SliceSpec, bounds: Bounds| {
            spec.resolve(&Shape::vector(3), &bounds).unwrap_err().text().to_string()
        };
        let shrink = SliceSpec { shrink_axis_mask: 1, ..Default::default() };
        assert_eq!(refuse(shrink, bounds(&[5], &[6], &[1])), "slice index 5 of dimension 0 out of bounds.");
        assert_eq!(refuse(shrink, bounds(&[-4], &[6], &[1])), "slice index -1 of dimension 0 out of bounds.");
        assert!(refuse(shrink, bounds(&[0], &[1], &[-1])).contains("only stride 1 allowed"));
        let plain = SliceSpec::default();
        assert_eq!(refuse(plain, bounds(&[0], &[3], &[0])), "strides[0] must be non-zero");
        assert!(refuse(plain, bounds(&[0, 0], &[3, 1], &[1, 1])).contains("input has only 1 dims"));
        let twice = SliceSpec { ellipsis_mask: 0b11, ..Default::default() };
        assert!(refuse(twice, bounds(&[0, 0], &[1, 1], &[1, 1])).contains("Multiple ellipses"));
    }

    #[test]
    fn what_is_unknown_stays_unknown_and_the_rest_is_told() {
        let input = PartialShape::from_signed(&[-1, 3, 4]).unwrap();
        let spec =
            SliceSpec { begin_mask: 0b10, end_mask: 0b10, shrink_axis_mask: 0b100, ..Default::default() };
        let known = bounds(&[1, 0, 2], &[2, 0, 3], &[1, 1, 1]);
        assert_eq!(spec.resolve_shape(&input, &known).unwrap().to_string(), "[?,3]");
        let blind = Bounds { begin: None, end: None, strides: Integers::from_slice(&[1, 2, 1]) };
        assert_eq!(spec.resolve_shape(&input, &blind).unwrap().to_string(), "[?,2]");
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_python(
            size in 0usize..7, begin in prop::option::of(-9i64..9), end in prop::option::of(-9i64..9),
            stride in prop::sample::select(vec![-3i64, -2, -1, 1, 2, 3, i64::MIN, i64::MAX]),
        ) {
            let mask = |bound: Option<i64>| bound.is_none() as i64;
            let spec = SliceSpec { begin_mask: mask(begin), end_mask: mask(end), ..Default::default() };
            let (b, e) = (begin.unwrap_or(77), end.unwrap_or(-77));
            let slice = spec.resolve(&Shape::vector(size), &bounds(&[b], &[e], &[stride])).unwrap();
            // Python: walk from the first place by the stride while inside the bounds.
            let n = size as i64;
            let at = |place: i64| if place < 0 { place + n } else { place };
            let mut place = begin.map_or(if stride > 0 { 0 } else { n - 1 }, at);
            place = if stride > 0 { place.max(0) } else { place.min(n - 1) };
            let stop = end.map_or(if stride > 0 { n } else { -1 }, |end| at(end).max(-1));
            let mut expected = Vec::new();
            while (0..n).contains(&place) && (if stride > 0 { place < stop } else { place > stop }) {
                expected.push(place as u32);
                place = place.saturating_add(stride);
            }
            let source: Vec<u32> = (0..size as u32).collect();
            let mut found = vec![0; slice.shape.num_elements()];
            slice.window.read(Threads::of_process().loops(), &source, &mut found).unwrap();
            prop_assert_eq!(found, expected);
        }
    }
}
