//! Rust values as tensors: scalars, arrays, nested arrays, slices, vectors and strings.

use bytes::Bytes;
use half::{bf16, f16};
use num_complex::Complex;
use tensorfleet_core::{PartialShape, Result, Shape, Status, Tensor, ensure};

/// A Rust value that can be written where a graph wants a constant: a number, bool or string, or an array, slice or
/// `Vec` of such values, nested to any depth.
///
/// In an expression a literal takes the dtype its place asks for: `&x + 2` works for floats too. On its own it has the
/// dtype of its Rust type; mind that `1.0` is an `f64` in Rust, so write `1.0f32` for TensorFlow's default.
///
/// ```
/// # use tensorfleet::{DType, Graph};
/// let g = Graph::new();
/// assert_eq!(g.constant(vec![[1.0f32, 2.0], [3.0, 4.0]]).shape()?.to_string(), "[2,2]");
/// assert_eq!(g.constant(["a", "b"]).dtype()?, DType::String);
/// assert_eq!((g.constant(1.0f32) + 2).dtype()?, DType::Float);
/// assert!(g.constant(vec![vec![1], vec![2, 3]]).check().is_err()); // Rows must have one length.
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait Literal {
    /// The type of the innermost elements.
    type Leaf: Leaf;

    /// Appends the dimensions of the value.
    fn dims(&self, dims: &mut Vec<usize>);

    /// Appends the elements in row-major order; `dims` are the dimensions this value must have.
    fn leaves(&self, dims: &[usize], leaves: &mut Vec<Self::Leaf>) -> Result<()>;
}

/// An innermost element of a [`Literal`].
pub trait Leaf: Clone {
    /// A tensor of such elements.
    fn tensor(leaves: Vec<Self>, dims: &[usize]) -> Result<Tensor>;
}

macro_rules! plain_literals {
    ($($rust:ty),*) => {$(
        impl Leaf for $rust {
            fn tensor(leaves: Vec<$rust>, dims: &[usize]) -> Result<Tensor> {
                Tensor::from_slice(&leaves, dims)
            }
        }
        scalar_literal!([] $rust);
    )*};
}

macro_rules! scalar_literal {
    ([$($lifetime:lifetime)?] $rust:ty) => {
        impl$(<$lifetime>)? Literal for $rust {
            type Leaf = $rust;
            fn dims(&self, _: &mut Vec<usize>) {}
            fn leaves(&self, _: &[usize], leaves: &mut Vec<$rust>) -> Result<()> {
                leaves.push(self.clone());
                Ok(())
            }
        }
    };
}

plain_literals!(f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool, f16, bf16, Complex<f32>, Complex<f64>);

macro_rules! string_literals {
    ($([$($lifetime:lifetime)?] $rust:ty => $bytes:expr),*) => {$(
        impl$(<$lifetime>)? Leaf for $rust {
            fn tensor(leaves: Vec<$rust>, dims: &[usize]) -> Result<Tensor> {
                let bytes = $bytes;
                Tensor::from_strings(leaves.into_iter().map(bytes).collect(), dims)
            }
        }
        scalar_literal!([$($lifetime)?] $rust);
    )*};
}

string_literals!(
    ['a] &'a str => |text: &str| Bytes::copy_from_slice(text.as_bytes()),
    [] String => Bytes::from,
    [] Bytes => |bytes: Bytes| bytes
);

macro_rules! sequence_literals {
    ($([$($generics:tt)*] $rust:ty),*) => {$(
        impl<T: Literal, $($generics)*> Literal for $rust {
            type Leaf = T::Leaf;

            fn dims(&self, dims: &mut Vec<usize>) {
                dims.push(self.len());
                if let Some(first) = self.first() {
                    first.dims(dims);
                }
            }

            fn leaves(&self, dims: &[usize], leaves: &mut Vec<T::Leaf>) -> Result<()> {
                let (&len, rest) = dims.split_first().ok_or_else(ragged)?;
                ensure!(self.len() == len, InvalidArgument, "{}", ragged().text());
                self.iter().try_for_each(|item| item.leaves(rest, leaves))
            }
        }
    )*};
}

sequence_literals!([const N: usize] [T; N], [const N: usize] &[T; N], [] Vec<T>, [] &Vec<T>, [] &[T]);

#[cold]
fn ragged() -> Status {
    Status::invalid_argument("the rows of a nested literal have different lengths")
}

/// Anything a constant can be made from: a [`Tensor`] or a [`Literal`].
pub trait IntoTensor {
    /// The tensor, and whether it may take another dtype where its place asks for one.
    fn into_tensor(self) -> (Result<Tensor>, Adapts);
}

/// Whether a constant keeps its dtype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adapts {
    /// A literal takes the dtype its place asks for.
    Yes,
    /// A tensor has been given its dtype on purpose.
    No,
}

impl IntoTensor for Tensor {
    fn into_tensor(self) -> (Result<Tensor>, Adapts) {
        (Ok(self), Adapts::No)
    }
}

impl IntoTensor for &Tensor {
    fn into_tensor(self) -> (Result<Tensor>, Adapts) {
        (Ok(self.clone()), Adapts::No)
    }
}

impl<L: Literal> IntoTensor for L {
    fn into_tensor(self) -> (Result<Tensor>, Adapts) {
        let mut dims = Vec::new();
        self.dims(&mut dims);
        let mut leaves = Vec::new();
        let tensor = self.leaves(&dims, &mut leaves).and_then(|()| L::Leaf::tensor(leaves, &dims));
        (tensor, Adapts::Yes)
    }
}

/// What can be written for a shape: `[2, 3]`, `[-1, 784]` or `[None, Some(784)]` with unknown sizes, `()` for a scalar, a
/// [`Shape`] or a [`PartialShape`].
///
/// ```
/// # use tensorfleet::{DType, Graph};
/// let g = Graph::new();
/// let images = g.placeholder(DType::Float, [-1, 784]);
/// assert_eq!(images.shape()?.to_string(), "[?,784]");
/// assert_eq!(g.placeholder(DType::Float, ()).shape()?.rank(), Some(0));
/// # Ok::<(), tensorfleet::Status>(())
/// ```
pub trait ShapeLike {
    /// The shape.
    fn to_partial_shape(&self) -> Result<PartialShape>;
}

impl ShapeLike for () {
    fn to_partial_shape(&self) -> Result<PartialShape> {
        Ok(PartialShape::scalar())
    }
}

impl ShapeLike for PartialShape {
    fn to_partial_shape(&self) -> Result<PartialShape> {
        Ok(self.clone())
    }
}

impl ShapeLike for Shape {
    fn to_partial_shape(&self) -> Result<PartialShape> {
        Ok(self.into())
    }
}

/// A size in a [`ShapeLike`].
pub trait DimLike: Copy {
    /// The size, -1 for unknown.
    fn to_signed(self) -> Result<i64>;
}

impl DimLike for i32 {
    fn to_signed(self) -> Result<i64> {
        Ok(self.into())
    }
}

impl DimLike for i64 {
    fn to_signed(self) -> Result<i64> {
        Ok(self)
    }
}

impl DimLike for usize {
    fn to_signed(self) -> Result<i64> {
        i64::try_from(self).map_err(|_| Status::invalid_argument(format!("{self} is not a size")))
    }
}

impl DimLike for Option<usize> {
    fn to_signed(self) -> Result<i64> {
        self.map_or(Ok(-1), DimLike::to_signed)
    }
}

macro_rules! sequence_shapes {
    ($([$($generics:tt)*] $rust:ty),*) => {$(
        impl<D: DimLike, $($generics)*> ShapeLike for $rust {
            fn to_partial_shape(&self) -> Result<PartialShape> {
                let dims: Vec<i64> = self.iter().map(|&dim| dim.to_signed()).collect::<Result<_>>()?;
                PartialShape::from_signed(&dims)
            }
        }
    )*};
}

sequence_shapes!([const N: usize] [D; N], [const N: usize] &[D; N], [] Vec<D>, [] &[D]);
