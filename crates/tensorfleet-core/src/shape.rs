//! [`Shape`], the dimensions of a value, and [`PartialShape`], what is known of them before a value exists.
//!
//! A `Shape` has passed its checks: its rank is bounded and its element count fits in `isize`, so code that
//! has one can multiply its dimensions without overflow.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;
use tensorfleet_proto::tensorflow::TensorShapeProto;
use tensorfleet_proto::tensorflow::tensor_shape_proto::Dim as DimProto;

use crate::status::{Result, Status};

/// TensorFlow stores ranks in a byte and keeps 255 for "unknown".
const MAX_RANK: usize = 254;

/// The dimensions of a tensor, row-major. Dereferences to `[usize]`.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// The shape of a vector of `len` elements; `len` is the length of something that exists.
    pub fn vector(len: usize) -> Shape {
        Shape(SmallVec::from_slice(&[len]))
    }

    /// A shape with these dimensions, if its rank and element count stay within bounds.
    pub fn new(dims: &[usize]) -> Result<Shape> {
        if dims.len() > MAX_RANK {
            return Err(Status::invalid_argument(format!(
                "a shape may have at most {MAX_RANK} dimensions, got {}",
                dims.len()
            )));
        }
        // A zero anywhere must not hide an overflow of the rest: kernels multiply sub-ranges of dimensions.
        let mut count: usize = 1;
        for &dim in dims {
            count = count
                .checked_mul(dim.max(1))
                .filter(|&count| count <= isize::MAX as usize)
                .ok_or_else(|| too_large(dims))?;
        }
        Ok(Shape(SmallVec::from_slice(dims)))
    }

    /// A shape from signed dimensions, as graphs and shape tensors carry them.
    pub fn from_signed(dims: &[i64]) -> Result<Shape> {
        let mut unsigned = SmallVec::<[usize; 8]>::new();
        for &dim in dims {
            unsigned.push(usize::try_from(dim).map_err(|_| {
                Status::invalid_argument(format!("Dimension {dim} of shape {dims:?} must be >= 0"))
            })?);
        }
        Shape::new(&unsigned)
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.0.iter().product()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Decodes the shape of a value: every dimension known and not negative.
    pub fn from_proto(proto: &TensorShapeProto) -> Result<Shape> {
        if proto.unknown_rank {
            return Err(Status::invalid_argument("the shape of a value cannot have unknown rank"));
        }
        let dims: SmallVec<[i64; 8]> = proto.dim.iter().map(|dim| dim.size).collect();
        Shape::from_signed(&dims)
    }

    /// Encodes the shape.
    pub fn to_proto(&self) -> TensorShapeProto {
        let dim = self.0.iter().map(|&size| DimProto { size: size as i64, ..Default::default() }).collect();
        TensorShapeProto { dim, unknown_rank: false }
    }
}

#[cold]
fn too_large(dims: &[usize]) -> Status {
    Status::invalid_argument(format!("shape {dims:?} has too many elements: their number overflows"))
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    /// As TensorFlow prints shapes: `[2,3]`, and `[]` for a scalar.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_dims(f, self.0.iter())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_dims<D: fmt::Display>(f: &mut fmt::Formatter<'_>, dims: impl Iterator<Item = D>) -> fmt::Result {
    f.write_str("[")?;
    for (i, dim) in dims.enumerate() {
        if i > 0 {
            f.write_str(",")?;
        }
        write!(f, "{dim}")?;
    }
    f.write_str("]")
}

/// One dimension of a [`PartialShape`]: a size, or unknown.
pub type Dim = Option<usize>;

/// What is known of a shape before the value exists: nothing, the rank, some dimensions, or all.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct PartialShape(Option<SmallVec<[Dim; 4]>>);

impl PartialShape {
    /// Nothing is known, not even the rank.
    pub fn unknown() -> PartialShape {
        PartialShape(None)
    }

    /// The rank is known, the sizes are not.
    pub fn of_rank(rank: usize) -> PartialShape {
        PartialShape(Some(SmallVec::from_elem(None, rank)))
    }

    /// A scalar.
    pub fn scalar() -> PartialShape {
        PartialShape::of_rank(0)
    }

    /// A vector of that length.
    pub fn vector(len: Dim) -> PartialShape {
        PartialShape::new([len])
    }

    /// A shape with these dimensions.
    pub fn new(dims: impl IntoIterator<Item = Dim>) -> PartialShape {
        PartialShape(Some(dims.into_iter().collect()))
    }

    /// A shape from signed dimensions where -1 means unknown.
    pub fn from_signed(dims: &[i64]) -> Result<PartialShape> {
        let known: SmallVec<[usize; 8]> = dims.iter().filter_map(|&dim| usize::try_from(dim).ok()).collect();
        Shape::new(&known)?;
        if dims.len() > MAX_RANK || dims.iter().any(|&dim| dim < -1) {
            return Err(Status::invalid_argument(format!(
                "shape {dims:?} is not valid: sizes must be >= 0, or -1 for unknown, in at most {MAX_RANK} dimensions"
            )));
        }
        Ok(PartialShape::new(dims.iter().map(|&dim| usize::try_from(dim).ok())))
    }

    /// Decodes a shape attribute.
    pub fn from_proto(proto: &TensorShapeProto) -> Result<PartialShape> {
        if proto.unknown_rank {
            return Ok(PartialShape::unknown());
        }
        let dims: SmallVec<[i64; 8]> = proto.dim.iter().map(|dim| dim.size).collect();
        PartialShape::from_signed(&dims)
    }

    /// Encodes the shape, unknown sizes as -1.
    pub fn to_proto(&self) -> TensorShapeProto {
        match &self.0 {
            None => TensorShapeProto { dim: Vec::new(), unknown_rank: true },
            Some(dims) => {
                let size = |dim: &Dim| dim.map_or(-1, |size| size as i64);
                let dim = dims.iter().map(|dim| DimProto { size: size(dim), ..Default::default() }).collect();
                TensorShapeProto { dim, unknown_rank: false }
            }
        }
    }

    /// The dimensions, if the rank is known.
    pub fn dims(&self) -> Option<&[Dim]> {
        self.0.as_deref()
    }

    /// The rank, if known.
    pub fn rank(&self) -> Option<usize> {
        self.0.as_ref().map(|dims| dims.len())
    }

    /// Dimension `axis`; unknown if the rank is, or if there is no such axis.
    pub fn dim(&self, axis: usize) -> Dim {
        self.0.as_ref().and_then(|dims| dims.get(axis).copied().flatten())
    }

    /// The full shape, if every dimension is known.
    pub fn to_shape(&self) -> Option<Shape> {
        let dims: Option<SmallVec<[usize; 8]>> = self.0.as_ref()?.iter().copied().collect();
        Shape::new(&dims?).ok()
    }

    /// Whether a value of shape `shape` agrees with what is known.
    pub fn admits(&self, shape: &Shape) -> bool {
        match &self.0 {
            None => true,
            Some(dims) => {
                dims.len() == shape.rank()
                    && dims.iter().zip(shape.iter()).all(|(dim, &size)| dim.is_none_or(|dim| dim == size))
            }
        }
    }

    /// What two descriptions of the same shape say together.
    pub fn merge(&self, other: &PartialShape) -> Result<PartialShape> {
        let (Some(a), Some(b)) = (&self.0, &other.0) else {
            return Ok(if self.0.is_some() { self.clone() } else { other.clone() });
        };
        let clash = || Status::invalid_argument(format!("Shapes must be equal, but are {self} and {other}"));
        if a.len() != b.len() {
            return Err(clash());
        }
        let mut merged = SmallVec::new();
        for (&x, &y) in a.iter().zip(b) {
            merged.push(match (x, y) {
                (Some(x), Some(y)) if x != y => return Err(clash()),
                (known, unknown) => known.or(unknown),
            });
        }
        Ok(PartialShape(Some(merged)))
    }
}

impl From<&Shape> for PartialShape {
    fn from(shape: &Shape) -> PartialShape {
        PartialShape::new(shape.iter().map(|&dim| Some(dim)))
    }
}

impl From<Shape> for PartialShape {
    fn from(shape: Shape) -> PartialShape {
        PartialShape::from(&shape)
    }
}

impl fmt::Display for PartialShape {
    /// As TensorFlow prints partial shapes: `[2,?]`, and `<unknown>` without a rank.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("<unknown>"),
            Some(dims) => {
                write_dims(f, dims.iter().map(|dim| dim.map_or("?".to_string(), |dim| dim.to_string())))
            }
        }
    }
}

impl fmt::Debug for PartialShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn a_product_that_overflows_is_refused_even_beside_a_zero() {
        let huge = 1usize << 40;
        for dims in [&[huge, huge][..], &[0, huge, huge], &[huge, 0, huge]] {
            assert_eq!(Shape::new(dims).unwrap_err().code(), Code::InvalidArgument, "{dims:?}");
        }
        assert_eq!(Shape::new(&[0, huge]).unwrap().num_elements(), 0);
    }

    #[test]
    fn negative_sizes_are_only_legal_as_unknown() {
        assert!(Shape::from_signed(&[2, -1]).is_err());
        assert_eq!(PartialShape::from_signed(&[2, -1]).unwrap().to_string(), "[2,?]");
        assert!(PartialShape::from_signed(&[2, -2]).is_err());
    }

    #[test]
    fn merging_fills_gaps_and_finds_clashes() {
        let a = PartialShape::from_signed(&[2, -1]).unwrap();
        let b = PartialShape::from_signed(&[-1, 3]).unwrap();
        assert_eq!(a.merge(&b).unwrap().to_shape(), Shape::new(&[2, 3]).ok());
        assert!(a.merge(&PartialShape::from_signed(&[4, -1]).unwrap()).is_err());
        assert!(a.merge(&PartialShape::of_rank(3)).is_err());
        assert_eq!(PartialShape::unknown().merge(&a).unwrap(), a);
    }
}
