//! [`Tensor`]: an immutable value — dtype, shape and shared elements.
//!
//! Cloning a tensor shares its data. A kernel that owns the last reference may write in place
//! ([`Tensor::is_unique`], [`Tensor::make_mut`]); nobody else can tell. Plain elements live in a
//! [`Buffer`]; strings, resource handles and variants in shared slices.

use std::sync::Arc;

use bytes::Bytes;

use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::memory;
use crate::resource_handle::ResourceHandle;
use crate::shape::Shape;
use crate::status::{Result, Status};
use crate::strings::{Strings, StringsBuilder};
use crate::variant::Variant;
use crate::{bail, ensure};

/// A value with a dtype and a shape.
///
/// ```
/// use tensorfleet_core::{Shape, Tensor};
/// let matrix = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
/// assert_eq!(matrix.shape(), &Shape::new(&[2, 2]).unwrap());
/// assert_eq!(matrix.as_slice::<f32>().unwrap()[3], 4.0);
/// ```
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    data: Data,
}

/// Counts of references, and what the allocator adds.
const SHARED_HEADER: usize = 32;
const RESOURCE_BYTES: usize = 256;
/// An object's own header; what is inside objects is charged by them.
const VARIANT_BYTES: usize = 128;

/// Invariant: the variant fits `dtype`, and holds exactly `shape.num_elements()` elements; a buffer is
/// aligned for its elements and, for bool, holds only 0 and 1.
#[derive(Clone)]
pub(crate) enum Data {
    Plain(Buffer),
    Strings(Arc<Strings>),
    Resources(Arc<[ResourceHandle]>),
    Variants(Arc<[Variant]>),
}

impl Tensor {
    /// A tensor of unspecified plain content (whatever the memory held), or of empty strings. The caller
    /// writes every element.
    pub fn allocate(dtype: DType, shape: Shape) -> Result<Tensor> {
        // Old memory may hold anything, and not every byte is a bool.
        if dtype == DType::Bool || !dtype.is_plain() {
            return Tensor::zeros(dtype, shape);
        }
        let data = Data::Plain(Buffer::new(byte_len(dtype, &shape)?)?);
        Ok(Tensor { dtype, shape, data })
    }

    /// A tensor of zeros, `false` or empty strings.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Tensor> {
        let data = match dtype {
            DType::String => Data::Strings(Strings::filled(&[], shape.num_elements(), Bytes::new())?),
            DType::Resource | DType::Variant => {
                bail!(InvalidArgument, "a {dtype} tensor has no default value")
            }
            _ => Data::Plain(Buffer::zeroed(byte_len(dtype, &shape)?)?),
        };
        Ok(Tensor { dtype, shape, data })
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        let mut tensor = match Tensor::allocate(T::DTYPE, Shape::scalar()) {
            Ok(tensor) => tensor,
            Err(_) => unreachable!("a scalar fits the space inside the buffer's header"),
        };
        if let Ok([element]) = tensor.make_mut() {
            *element = value;
        }
        tensor
    }

    /// A tensor with these elements, row-major.
    pub fn from_slice<T: Element>(elements: &[T], dims: &[usize]) -> Result<Tensor> {
        let shape = Shape::new(dims)?;
        check_count(elements.len(), &shape)?;
        let mut tensor = Tensor::allocate(T::DTYPE, shape)?;
        tensor.make_mut::<T>()?.copy_from_slice(elements);
        Ok(tensor)
    }

    /// A vector with these elements.
    pub fn vector<T: Element>(elements: &[T]) -> Result<Tensor> {
        Tensor::from_slice(elements, &[elements.len()])
    }

    /// A tensor whose elements are written by `fill`, which gets unspecified content to overwrite.
    pub fn build<T: Element>(shape: Shape, fill: impl FnOnce(&mut [T]) -> Result<()>) -> Result<Tensor> {
        let mut tensor = Tensor::allocate(T::DTYPE, shape)?;
        fill(tensor.make_mut::<T>()?)?;
        Ok(tensor)
    }

    /// A tensor of plain elements that shares `buffer` if it is aligned for them, or else copies it.
    pub fn from_buffer(dtype: DType, shape: Shape, buffer: Buffer) -> Result<Tensor> {
        let expected = byte_len(dtype, &shape)?;
        ensure!(
            buffer.len() == expected,
            InvalidArgument,
            "a {dtype} tensor of shape {shape} needs {expected} bytes of content, got {}",
            buffer.len()
        );
        let alignment = alignment(dtype);
        let clean = dtype != DType::Bool || buffer.as_bytes().iter().all(|&byte| byte <= 1);
        if buffer.is_aligned_to(alignment) && clean {
            return Ok(Tensor { dtype, shape, data: Data::Plain(buffer) });
        }
        let mut copy = Buffer::new(expected)?;
        if let Some(bytes) = copy.as_bytes_mut() {
            bytes.copy_from_slice(buffer.as_bytes());
            if dtype == DType::Bool {
                bytes.iter_mut().for_each(|byte| *byte = (*byte != 0) as u8);
            }
        }
        Ok(Tensor { dtype, shape, data: Data::Plain(copy) })
    }

    /// A tensor of byte strings.
    pub fn from_strings(strings: Vec<Bytes>, dims: &[usize]) -> Result<Tensor> {
        let shape = Shape::new(dims)?;
        check_count(strings.len(), &shape)?;
        Ok(Tensor { dtype: DType::String, shape, data: Data::Strings(Strings::new(strings)?) })
    }

    pub(crate) fn from_string_data(strings: Arc<Strings>, shape: Shape) -> Result<Tensor> {
        check_count(strings.len(), &shape)?;
        Ok(Tensor { dtype: DType::String, shape, data: Data::Strings(strings) })
    }

    /// A string scalar. It is there already, so it is charged without asking; who makes a long one asks before.
    pub fn string(value: impl Into<Bytes>) -> Tensor {
        let strings = Strings::one(value.into());
        Tensor { dtype: DType::String, shape: Shape::scalar(), data: Data::Strings(Arc::new(strings)) }
    }

    /// A scalar holding a resource handle.
    pub fn resource(handle: ResourceHandle) -> Tensor {
        Tensor { dtype: DType::Resource, shape: Shape::scalar(), data: Data::Resources(Arc::new([handle])) }
    }

    /// A tensor of resource handles.
    pub fn from_resources(handles: Vec<ResourceHandle>, dims: &[usize]) -> Result<Tensor> {
        let shape = Shape::new(dims)?;
        check_count(handles.len(), &shape)?;
        check_values(&handles)?;
        Ok(Tensor { dtype: DType::Resource, shape, data: Data::Resources(handles.into()) })
    }

    /// A tensor of variants.
    pub fn from_variants(variants: Vec<Variant>, dims: &[usize]) -> Result<Tensor> {
        let shape = Shape::new(dims)?;
        check_count(variants.len(), &shape)?;
        check_values(&variants)?;
        Ok(Tensor { dtype: DType::Variant, shape, data: Data::Variants(variants.into()) })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The number of elements.
    pub fn num_elements(&self) -> usize {
        self.shape.num_elements()
    }

    /// Whether the tensor is a scalar.
    pub fn is_scalar(&self) -> bool {
        self.shape.rank() == 0
    }

    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    /// The elements, if they are stored as `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        match &self.data {
            Data::Plain(buffer) if self.dtype.storage() == T::DTYPE => {
                // SAFETY: the data is of the dtype that `T` stores, and an `Element` takes whatever a tensor of its dtype
                // holds (of bools, only 0 and 1: the invariant of `Data`).
                Ok(unsafe { buffer.as_elements() })
            }
            _ => Err(self.is_not(T::DTYPE)),
        }
    }

    /// The only element of a tensor with one element.
    pub fn to_scalar<T: Element>(&self) -> Result<T> {
        match self.as_slice::<T>()? {
            [value] => Ok(*value),
            _ => Err(Status::invalid_argument(format!("expected a scalar, got shape {}", self.shape))),
        }
    }

    /// The elements for writing. If others share the data, this tensor gets a copy of its own first.
    pub fn make_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        if self.dtype.storage() != T::DTYPE {
            return Err(self.is_not(T::DTYPE));
        }
        let buffer = self.unique_buffer()?;
        // SAFETY: the data is of the dtype that `T` stores, and an `Element` takes whatever a tensor of its dtype holds;
        // what is written are values of that dtype, so the invariant of `Data` stays.
        unsafe { buffer.as_elements_mut() }.ok_or_else(not_writable)
    }

    /// The plain bytes for writing, copying shared data first.
    pub fn make_bytes_mut(&mut self) -> Result<&mut [u8]> {
        // Arbitrary bytes are no bools.
        if self.dtype == DType::Bool || !self.dtype.is_plain() {
            return Err(Status::internal(format!("the bytes of a {} tensor cannot be written", self.dtype)));
        }
        self.unique_buffer()?.as_bytes_mut().ok_or_else(not_writable)
    }

    /// The buffer of plain data, which others do not share: this tensor gets a copy of its own first if they do.
    fn unique_buffer(&mut self) -> Result<&mut Buffer> {
        if !self.is_unique() {
            *self = self.deep_copy()?;
        }
        match &mut self.data {
            Data::Plain(buffer) => Ok(buffer),
            _ => Err(Status::internal("a plain dtype is stored in a buffer")),
        }
    }

    /// The elements as another type of the same width, for code that moves elements without looking at them.
    pub fn as_words<W: Element>(&self) -> Result<&[W]> {
        self.check_words::<W>()?;
        // SAFETY: `check_words` lets through the type that stores the dtype, which takes whatever the tensor holds, and
        // numbers of its width, of which any bits are valid.
        Ok(unsafe { self.buffer()?.as_elements() })
    }

    /// The elements for writing, as another type of the same width; copies shared data first.
    pub fn make_words_mut<W: Element>(&mut self) -> Result<&mut [W]> {
        self.check_words::<W>()?;
        let buffer = self.unique_buffer()?;
        // SAFETY: `check_words` lets through the type that stores the dtype, which takes whatever the tensor holds and
        // writes what it may hold, and otherwise numbers of its width for a dtype of numbers, of which any bits are valid.
        unsafe { buffer.as_elements_mut() }.ok_or_else(not_writable)
    }

    /// Any bits make a number, but not every byte is a bool: bool stands for itself only.
    fn check_words<W: Element>(&self) -> Result<()> {
        let is_bool = self.dtype == DType::Bool || W::DTYPE == DType::Bool;
        let fits = self.dtype.size() == Some(size_of::<W>()) && align_of::<W>() <= alignment(self.dtype);
        if self.dtype.storage() == W::DTYPE || (fits && !is_bool) {
            Ok(())
        } else {
            Err(self.is_not(W::DTYPE))
        }
    }

    /// Whether this is the only owner of plain, writable data.
    pub fn is_unique(&mut self) -> bool {
        match &mut self.data {
            Data::Plain(buffer) => buffer.is_unique(),
            _ => false,
        }
    }

    /// A copy that shares nothing.
    pub fn deep_copy(&self) -> Result<Tensor> {
        let Data::Plain(buffer) = &self.data else { return Ok(self.clone()) };
        let mut copy = Buffer::new(buffer.len())?;
        if let Some(bytes) = copy.as_bytes_mut() {
            bytes.copy_from_slice(buffer.as_bytes());
        }
        Ok(Tensor { dtype: self.dtype, shape: self.shape.clone(), data: Data::Plain(copy) })
    }

    /// The strings of a string tensor.
    pub fn as_strings(&self) -> Result<&[Bytes]> {
        match &self.data {
            Data::Strings(strings) => Ok(strings),
            _ => Err(self.is_not(DType::String)),
        }
    }

    /// The only string of a string tensor with one element.
    pub fn to_string_scalar(&self) -> Result<&Bytes> {
        match self.as_strings()? {
            [value] => Ok(value),
            _ => Err(Status::invalid_argument(format!("expected a string scalar, got shape {}", self.shape))),
        }
    }

    /// The handles of a resource tensor.
    pub fn as_resources(&self) -> Result<&[ResourceHandle]> {
        match &self.data {
            Data::Resources(handles) => Ok(handles),
            _ => Err(self.is_not(DType::Resource)),
        }
    }

    /// The variants of a variant tensor.
    pub fn as_variants(&self) -> Result<&[Variant]> {
        match &self.data {
            Data::Variants(variants) => Ok(variants),
            _ => Err(self.is_not(DType::Variant)),
        }
    }

    /// The variants for writing, if nobody else holds them.
    pub fn variants_mut(&mut self) -> Option<&mut [Variant]> {
        match &mut self.data {
            Data::Variants(variants) => Arc::get_mut(variants),
            _ => None,
        }
    }

    /// The raw bytes of a plain tensor.
    pub fn as_bytes(&self) -> Result<&[u8]> {
        Ok(self.buffer()?.as_bytes())
    }

    /// The shared bytes of a plain tensor.
    pub fn buffer(&self) -> Result<&Buffer> {
        match &self.data {
            Data::Plain(buffer) => Ok(buffer),
            _ => Err(Status::invalid_argument(format!("a {} tensor is not plain bytes", self.dtype))),
        }
    }

    /// The tensor for whoever keeps it beyond the run it came into: a copy if its bytes are borrowed from the program.
    pub fn kept(self) -> Result<Tensor> {
        match &self.data {
            Data::Plain(buffer) if buffer.is_borrowed() => self.deep_copy(),
            _ => Ok(self),
        }
    }

    /// Roughly how many bytes the tensor's data takes.
    pub fn byte_size(&self) -> usize {
        match &self.data {
            Data::Plain(buffer) => buffer.len(),
            Data::Strings(strings) => strings.bytes(),
            Data::Resources(handles) => size_of_val(&**handles),
            Data::Variants(variants) => size_of_val(&**variants),
        }
    }

    /// Bytes that keeping this tensor takes beyond those that its data is charged for: what a queue, a list or a buffer adds to
    /// its account ([`memory::Kept`]).
    pub fn kept_bytes(&self) -> usize {
        let content = match &self.data {
            Data::Plain(buffer) => buffer.header_bytes(),
            Data::Strings(strings) => SHARED_HEADER + strings.uncharged_bytes(),
            // Names and a device stand behind each.
            Data::Resources(handles) => SHARED_HEADER + handles.len() * RESOURCE_BYTES,
            Data::Variants(variants) => SHARED_HEADER + variants.len() * VARIANT_BYTES,
        };
        size_of::<Tensor>() + self.shape.rank() * size_of::<usize>() + content
    }

    /// The same elements under another shape with as many elements; shares the data.
    pub fn reshaped(mut self, shape: Shape) -> Result<Tensor> {
        check_count(self.num_elements(), &shape)?;
        self.shape = shape;
        Ok(self)
    }

    /// Rows `start..start + len` of the first dimension; shares plain data.
    pub fn rows(&self, start: usize, len: usize) -> Result<Tensor> {
        let Some((&count, rest)) = self.shape.split_first() else {
            bail!(InvalidArgument, "a scalar has no rows")
        };
        ensure!(
            start.checked_add(len).is_some_and(|end| end <= count),
            InvalidArgument,
            "rows {start}..{start}+{len} do not lie in the {count} rows of shape {}",
            self.shape
        );
        let mut dims = self.shape.to_vec();
        dims[0] = len;
        let per_row: usize = rest.iter().product();
        self.elements(start * per_row, len * per_row, &dims)
    }

    /// Row `index` of the first dimension, without that dimension; shares plain data.
    pub fn row(&self, index: usize) -> Result<Tensor> {
        let row = self.rows(index, 1)?;
        let shape = Shape::new(&row.shape[1..])?;
        row.reshaped(shape)
    }

    fn elements(&self, start: usize, len: usize, dims: &[usize]) -> Result<Tensor> {
        let outside = || Status::internal("an element range does not lie in its tensor");
        let range = || start..start + len;
        let data = match &self.data {
            Data::Plain(buffer) => {
                let size = self.dtype.size().ok_or_else(outside)?;
                let slice = buffer.slice(start * size, len * size).ok_or_else(outside)?;
                return Tensor::from_buffer(self.dtype, Shape::new(dims)?, slice);
            }
            Data::Strings(strings) => {
                Data::Strings(Strings::new(strings.get(range()).ok_or_else(outside)?.to_vec())?)
            }
            Data::Resources(handles) => Data::Resources(handles.get(range()).ok_or_else(outside)?.into()),
            Data::Variants(variants) => Data::Variants(variants.get(range()).ok_or_else(outside)?.into()),
        };
        Ok(Tensor { dtype: self.dtype, shape: Shape::new(dims)?, data })
    }

    /// The same bytes as another dtype of the same width, e.g. quantised as plain integers.
    pub fn with_dtype(mut self, dtype: DType) -> Result<Tensor> {
        ensure!(
            dtype.storage() == self.dtype.storage(),
            Internal,
            "a {} tensor cannot be renamed to {dtype}",
            self.dtype
        );
        self.dtype = dtype;
        Ok(self)
    }

    #[cold]
    fn is_not(&self, expected: DType) -> Status {
        Status::invalid_argument(format!(
            "the elements of this tensor are {}, and cannot be read as {expected}: ask for them as they are, or cast",
            self.dtype
        ))
    }
}

pub(crate) fn byte_len(dtype: DType, shape: &Shape) -> Result<usize> {
    let size = dtype
        .size()
        .ok_or_else(|| Status::invalid_argument(format!("{dtype} elements have no fixed size")))?;
    shape.num_elements().checked_mul(size).ok_or_else(|| {
        Status::resource_exhausted(format!(
            "a {dtype} tensor of shape {shape} has more bytes than can be counted"
        ))
    })
}

/// Fewer bytes of handles or variants are not worth a look at the account.
const SMALL_VALUES: usize = 1 << 10;

/// Handles and variants are copied into shared memory, which is not charged while steps pass it on.
fn check_values<T>(values: &[T]) -> Result<()> {
    match size_of_val(values) {
        0..=SMALL_VALUES => Ok(()),
        bytes => memory::check_fits(bytes),
    }
}

#[cold]
fn not_writable() -> Status {
    Status::internal("a unique buffer cannot be written")
}

fn alignment(dtype: DType) -> usize {
    match dtype {
        DType::Complex64 => 4,
        DType::Complex128 => 8,
        other => other.size().unwrap_or(1),
    }
}

fn check_count(count: usize, shape: &Shape) -> Result<()> {
    ensure!(
        count == shape.num_elements(),
        InvalidArgument,
        "shape {shape} holds {} elements, but there are {count}",
        shape.num_elements()
    );
    Ok(())
}

impl PartialEq for Tensor {
    /// Same dtype, shape and bytes; a NaN equals itself.
    fn eq(&self, other: &Tensor) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && match (&self.data, &other.data) {
                (Data::Plain(a), Data::Plain(b)) => a.as_bytes() == b.as_bytes(),
                (Data::Strings(a), Data::Strings(b)) => a[..] == b[..],
                (Data::Resources(a), Data::Resources(b)) => a == b,
                (Data::Variants(a), Data::Variants(b)) => a == b,
                _ => false,
            }
    }
}

impl<T: Element> From<T> for Tensor {
    fn from(value: T) -> Tensor {
        Tensor::scalar(value)
    }
}

impl From<&str> for Tensor {
    fn from(value: &str) -> Tensor {
        Tensor::string(value.as_bytes().to_vec())
    }
}

impl StringsBuilder {
    /// The tensor.
    pub fn finish(self, dims: &[usize]) -> Result<Tensor> {
        Tensor::from_string_data(Arc::new(self.strings()?), Shape::new(dims)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn the_last_owner_writes_in_place_and_others_keep_their_value() {
        let mut a = Tensor::vector(&[1i32, 2, 3]).unwrap();
        let b = a.clone();
        a.make_mut::<i32>().unwrap()[0] = 10;
        assert_eq!((a.as_slice::<i32>().unwrap()[0], b.as_slice::<i32>().unwrap()[0]), (10, 1));
        let address = a.as_bytes().unwrap().as_ptr();
        a.make_mut::<i32>().unwrap()[1] = 20;
        assert_eq!(a.as_bytes().unwrap().as_ptr(), address);
    }

    #[test]
    fn elements_are_readable_as_words_of_their_width_but_bool_only_as_itself() {
        let mut floats = Tensor::vector(&[1.0f32, -0.0]).unwrap();
        assert_eq!(floats.as_words::<u32>().unwrap(), [1.0f32.to_bits(), 1 << 31]);
        floats.make_words_mut::<u32>().unwrap()[1] = 2.0f32.to_bits();
        assert_eq!(floats.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert!(floats.as_words::<u64>().is_err() && floats.as_words::<u16>().is_err());
        let mut bools = Tensor::vector(&[true]).unwrap();
        assert!(bools.as_words::<u8>().is_err() && bools.make_words_mut::<u8>().is_err());
        assert_eq!(bools.as_words::<bool>().unwrap(), [true]);
        assert!(Tensor::scalar(2u8).as_words::<bool>().is_err());
        assert!(Tensor::string("a").as_words::<u8>().is_err());
        // Foreign bytes of complex64 are aligned for floats only.
        let complex = Tensor::zeros(DType::Complex64, Shape::scalar()).unwrap();
        assert!(
            complex.as_words::<u64>().is_err() && complex.as_words::<num_complex::Complex<f32>>().is_ok()
        );
    }

    #[test]
    fn rows_share_the_data_and_are_bounded() {
        let matrix = Tensor::from_slice(&[1u8, 2, 3, 4, 5, 6], &[3, 2]).unwrap();
        assert_eq!(matrix.row(1).unwrap().as_slice::<u8>().unwrap(), [3, 4]);
        assert_eq!(matrix.rows(1, 2).unwrap().shape().dims(), [2, 2]);
        assert_eq!(matrix.rows(2, 2).unwrap_err().code(), Code::InvalidArgument);
        assert!(Tensor::scalar(1u8).row(0).is_err());
    }

    #[test]
    fn foreign_bools_are_cleaned_before_anyone_reads_them() {
        let buffer = Buffer::from_foreign(Bytes::from_static(&[0, 1, 2, 255]));
        let tensor = Tensor::from_buffer(DType::Bool, Shape::vector(4), buffer).unwrap();
        assert_eq!(tensor.as_slice::<bool>().unwrap(), [false, true, true, true]);
    }

    #[test]
    fn misaligned_foreign_bytes_are_copied() {
        let bytes = Bytes::from(vec![0u8; 64]);
        for offset in 0..4 {
            let buffer = Buffer::from_foreign(bytes.slice(offset..offset + 8));
            let tensor = Tensor::from_buffer(DType::Int64, Shape::scalar(), buffer).unwrap();
            assert_eq!(tensor.to_scalar::<i64>().unwrap(), 0);
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let shape = Shape::new(&[1 << 31, 1 << 31]).unwrap();
        for dtype in [DType::Float, DType::Complex128, DType::String] {
            assert_eq!(Tensor::zeros(dtype, shape.clone()).unwrap_err().code(), Code::ResourceExhausted);
        }
    }
}
