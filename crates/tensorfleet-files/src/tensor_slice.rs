//! [`TensorSlice`]: a rectangular part of a tensor, as the slice specs of savers describe it, and copying between
//! parts that overlap.

use bytes::Bytes;
use tensorfleet_core::{Buffer, DType, Result, Shape, Status, Tensor, bail, ensure};
use tensorfleet_proto::tensorflow::TensorSliceProto;
use tensorfleet_proto::tensorflow::tensor_slice_proto::Extent as ExtentProto;

/// A range of one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first index.
    pub start: usize,
    /// How many indices.
    pub len: usize,
}

/// A part of a tensor: a range in every dimension; `None` is all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSlice(Vec<Option<Extent>>);

impl TensorSlice {
    /// All of a tensor of this rank.
    pub fn full(rank: usize) -> TensorSlice {
        TensorSlice(vec![None; rank])
    }

    /// Reads `start,length` or `-` for each dimension, joined by `:`.
    pub fn parse(spec: &str) -> Result<TensorSlice> {
        let bad = |part: &str| {
            Status::invalid_argument(format!(
                "Expected a pair of numbers or '-' but got '{part}': string = {spec}"
            ))
        };
        let mut extents = Vec::new();
        for part in spec.split(':').filter(|_| !spec.is_empty()) {
            if part == "-" {
                extents.push(None);
                continue;
            }
            let (start, len) = part.split_once(',').ok_or_else(|| bad(part))?;
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad(part));
            let (start, len) = (number(start)? as usize, number(len)? as usize);
            ensure!(
                len > 0,
                InvalidArgument,
                "Expected non-negative start and positive length: string = {spec}"
            );
            extents.push(Some(Extent { start, len }));
        }
        Ok(TensorSlice(extents))
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The ranges.
    pub fn extents(&self) -> &[Option<Extent>] {
        &self.0
    }

    pub(crate) fn from_proto(proto: &TensorSliceProto) -> Result<TensorSlice> {
        let corrupt = || Status::data_loss("a stored slice has a negative start or length");
        let extent = |extent: &ExtentProto| {
            let start = usize::try_from(extent.start).map_err(|_| corrupt())?;
            match extent.length {
                None => Ok(None),
                Some(len) => Ok(Some(Extent { start, len: usize::try_from(len).map_err(|_| corrupt())? })),
            }
        };
        Ok(TensorSlice(proto.extent.iter().map(extent).collect::<Result<_>>()?))
    }

    pub(crate) fn to_proto(&self) -> TensorSliceProto {
        let extent = |extent: &Option<Extent>| match extent {
            None => ExtentProto { start: 0, length: None },
            Some(extent) => ExtentProto { start: extent.start as i64, length: Some(extent.len as i64) },
        };
        TensorSliceProto { extent: self.0.iter().map(extent).collect() }
    }

    /// The ranges within a tensor of shape `full`, each known to lie inside.
    pub fn within(&self, full: &Shape) -> Result<Region> {
        ensure!(
            self.rank() == full.rank(),
            InvalidArgument,
            "Mismatching ranks: shape = {full}, slice = {self}"
        );
        let mut region = Vec::with_capacity(full.rank());
        for (axis, (&dim, extent)) in full.iter().zip(&self.0).enumerate() {
            let extent = extent.unwrap_or(Extent { start: 0, len: dim });
            let inside = extent.start.checked_add(extent.len).is_some_and(|end| end <= dim);
            ensure!(
                inside,
                InvalidArgument,
                "Extent in dimension {axis} out of bounds: shape = {full}, slice = {self}"
            );
            region.push(extent);
        }
        Ok(Region(region))
    }
}

impl std::fmt::Display for TensorSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (axis, extent) in self.0.iter().enumerate() {
            let colon = if axis > 0 { ":" } else { "" };
            match extent {
                None => write!(f, "{colon}-")?,
                Some(Extent { start, len }) => write!(f, "{colon}{start},{len}")?,
            }
        }
        Ok(())
    }
}

/// A slice spec with the full shape before it, e.g. `7 2 1,4:0,2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeAndSlice {
    /// The shape of the whole tensor.
    pub full: Shape,
    /// The part.
    pub slice: TensorSlice,
}

impl ShapeAndSlice {
    /// Reads a spec.
    pub fn parse(spec: &str) -> Result<ShapeAndSlice> {
        let words: Vec<&str> = spec.split(' ').filter(|word| !word.is_empty()).collect();
        let Some((slice, dims)) = words.split_last().filter(|(_, dims)| !dims.is_empty()) else {
            bail!(InvalidArgument, "Need at least two elements in shape_and_slice specification: {spec}")
        };
        let number = |word: &&str| {
            let parsed = word.parse::<u32>();
            parsed.map(|dim| dim as usize).map_err(|_| {
                Status::invalid_argument(format!(
                    "Non numerical dimension in shape_and_slice specification: {spec}"
                ))
            })
        };
        let dims: Vec<usize> = dims.iter().map(number).collect::<Result<_>>()?;
        let parsed = ShapeAndSlice { full: Shape::new(&dims)?, slice: TensorSlice::parse(slice)? };
        parsed.slice.within(&parsed.full)?;
        Ok(parsed)
    }
}

/// A part of a tensor whose ranges are all known and lie inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region(Vec<Extent>);

impl Region {
    /// The shape of the part.
    pub fn shape(&self) -> Result<Shape> {
        Shape::new(&self.0.iter().map(|extent| extent.len).collect::<Vec<_>>())
    }

    /// Whether the part is all of `full`.
    pub fn is_all_of(&self, full: &Shape) -> bool {
        self.0.iter().zip(full.iter()).all(|(extent, &dim)| extent.start == 0 && extent.len == dim)
    }

    /// What both parts have in common, if they have anything.
    pub(crate) fn intersect(&self, other: &Region) -> Option<Region> {
        let common = |(a, b): (&Extent, &Extent)| {
            let start = a.start.max(b.start);
            let end = (a.start + a.len).min(b.start + b.len);
            (start < end).then(|| Extent { start, len: end - start })
        };
        self.0.iter().zip(&other.0).map(common).collect::<Option<_>>().map(Region)
    }

    pub(crate) fn num_elements(&self) -> usize {
        self.0.iter().map(|extent| extent.len).product()
    }

    /// The same part with every element split in `size` bytes.
    fn in_bytes(&self, size: usize) -> Region {
        let mut extents = self.0.clone();
        extents.push(Extent { start: 0, len: size });
        Region(extents)
    }
}

/// A part of a larger tensor being put together from stored parts.
pub(crate) struct Assembly {
    region: Region,
    shape: Shape,
    dtype: DType,
    content: Content,
    covered: usize,
}

enum Content {
    Plain(Buffer),
    Strings(Vec<Bytes>),
}

impl Assembly {
    /// An empty assembly of `region`. Gaps would be zeros, never old memory.
    pub(crate) fn new(dtype: DType, region: Region) -> Result<Assembly> {
        let shape = region.shape()?;
        let content = match dtype.size() {
            Some(size) => {
                let bytes = shape.num_elements().checked_mul(size);
                let bytes = bytes.ok_or_else(|| Status::resource_exhausted("a slice has too many bytes"))?;
                Content::Plain(Buffer::zeroed(bytes)?)
            }
            None => Content::Strings(Tensor::zeros(DType::String, shape.clone())?.as_strings()?.to_vec()),
        };
        Ok(Assembly { region, shape, dtype, content, covered: 0 })
    }

    /// Copies what `part`, which holds `from`, has of the wanted region.
    pub(crate) fn add(&mut self, part: &Tensor, from: &Region) -> Result<()> {
        ensure!(
            part.dtype() == self.dtype && *part.shape() == from.shape()?,
            DataLoss,
            "a stored slice is a {} tensor of shape {}, not what its key says",
            part.dtype(),
            part.shape()
        );
        let Some(common) = self.region.intersect(from) else { return Ok(()) };
        self.covered = self.covered.saturating_add(common.num_elements());
        match (&mut self.content, self.dtype.size()) {
            (Content::Plain(buffer), Some(size)) => {
                let target = buffer.as_bytes_mut().ok_or_else(|| Status::internal("a shared assembly"))?;
                let (from, to) = (from.in_bytes(size), self.region.in_bytes(size));
                copy_region(part.as_bytes()?, &from, target, &to, &common.in_bytes(size));
            }
            (Content::Strings(strings), _) => {
                copy_region(part.as_strings()?, from, strings, &self.region, &common);
            }
            _ => bail!(Internal, "a plain dtype without a size"),
        }
        Ok(())
    }

    /// The tensor, if the parts covered it all; otherwise `None`.
    pub(crate) fn finish(self) -> Result<Option<Tensor>> {
        if self.covered < self.shape.num_elements() {
            return Ok(None);
        }
        let tensor = match self.content {
            Content::Plain(buffer) => Tensor::from_buffer(self.dtype, self.shape, buffer)?,
            Content::Strings(strings) => Tensor::from_strings(strings, self.shape.dims())?,
        };
        Ok(Some(tensor))
    }
}

/// Copies the elements of `common` from `source`, which holds `from`, to `target`, which holds `to`. Both contain
/// `common`, and the slices hold all elements of their regions.
fn copy_region<T: Clone>(source: &[T], from: &Region, target: &mut [T], to: &Region, common: &Region) {
    let Some((run, outer)) = common.0.split_last() else {
        target.clone_from_slice(source);
        return;
    };
    let position = |region: &Region, index: &[usize]| {
        let row =
            index.iter().zip(&region.0).fold(0, |row, (&i, extent)| row * extent.len + (i - extent.start));
        let last = region.0[region.0.len() - 1];
        row * last.len + (run.start - last.start)
    };
    let mut index: Vec<usize> = outer.iter().map(|extent| extent.start).collect();
    loop {
        let (read, write) = (position(from, &index), position(to, &index));
        target[write..write + run.len].clone_from_slice(&source[read..read + run.len]);
        // Counts up like an odometer, last dimension first.
        let mut axis = outer.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < outer[axis].start + outer[axis].len {
                break;
            }
            index[axis] = outer[axis].start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn specs_are_read_and_checked() {
        let spec = ShapeAndSlice::parse("7 2 1,4:-").unwrap();
        assert_eq!(&spec.full[..], [7, 2]);
        assert_eq!(&spec.slice.within(&spec.full).unwrap().shape().unwrap()[..], [4, 2]);
        assert_eq!(spec.slice.to_string(), "1,4:-");
        for bad in
            ["", "7", "7 2 1,4", "7 2 4,4:-", "x 2 1,1:-", "7 2 1,x:-", "7 2 1:-", "7 2 -1,2:-", "7 2 1,0:-"]
        {
            assert!(ShapeAndSlice::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn slices_survive_their_message() {
        let slice = TensorSlice::parse("2,1:-:0,5").unwrap();
        assert_eq!(TensorSlice::from_proto(&slice.to_proto()).unwrap(), slice);
        let bad = TensorSliceProto { extent: vec![ExtentProto { start: -1, length: Some(1) }] };
        assert!(TensorSlice::from_proto(&bad).is_err());
    }

    fn region(extents: &[(usize, usize)]) -> Region {
        Region(extents.iter().map(|&(start, len)| Extent { start, len }).collect())
    }

    proptest! {
        #[test]
        fn parts_of_any_cut_give_back_any_window(
            rows in 1usize..6, columns in 1usize..6, cut in 0usize..6, window in (0usize..6, 1usize..6, 0usize..6, 1usize..6)
        ) {
            let cut = cut.min(rows - 1);
            let (top, left) = (window.0.min(rows - 1), window.2.min(columns - 1));
            let (height, width) = (window.1.min(rows - top), window.3.min(columns - left));
            let wanted = region(&[(top, height), (left, width)]);
            let mut assembly = Assembly::new(DType::Int32, wanted).unwrap();
            for (start, len) in [(0, cut), (cut, rows - cut)] {
                let values: Vec<i32> = (start * columns..(start + len) * columns).map(|x| x as i32).collect();
                let part = Tensor::from_slice(&values, &[len, columns]).unwrap();
                assembly.add(&part, &region(&[(start, len), (0, columns)])).unwrap();
            }
            let got = assembly.finish().unwrap().unwrap();
            let naive = (top..top + height).flat_map(|row| (left..left + width).map(move |column| (row * columns + column) as i32));
            prop_assert_eq!(got.as_slice::<i32>().unwrap(), naive.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_gap_is_noticed() {
        let mut assembly = Assembly::new(DType::Float, region(&[(0, 3)])).unwrap();
        assembly.add(&Tensor::vector(&[1.0f32, 2.0]).unwrap(), &region(&[(0, 2)])).unwrap();
        assert!(assembly.finish().unwrap().is_none());
    }
}
