//! Arrays of numpy as tensors, and tensors as arrays.
//!
//! A C-contiguous array becomes a tensor without a copy: the tensor holds a reference to it. A tensor from
//! [`SHARED_FROM_BYTES`] on that nobody else holds becomes an array without a copy: the array holds the tensor. A
//! smaller one is copied, because the array's header costs more, and so is one that the library may still read.

use bytes::Bytes;
use half::bf16;
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use tensorfleet_core::{DType, Shape, Tensor};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::TensorProto;

use crate::errors::OrRaise;

/// From this size on a tensor is handed over instead of copied.
const SHARED_FROM_BYTES: usize = 64 * 1024;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Shared>()?;
    module.add_function(wrap_pyfunction!(tensor_proto, module)?)?;
    module.add_function(wrap_pyfunction!(array_of_tensor_proto, module)?)
}

/// What keeps the memory of a handed-over array.
#[pyclass(frozen, module = "tensorfleet._native")]
struct Shared(#[expect(dead_code, reason = "kept, not read")] Tensor);

/// Keeps an array while a tensor reads it.
struct Borrowed {
    array: Py<PyUntypedArray>,
    data: *const u8,
    len: usize,
}

// SAFETY: `data` points into memory that `array` keeps, and which is only read. The reference itself is dropped with the
// interpreter attached, or queued until somebody is (PyO3 does that).
unsafe impl Send for Borrowed {}
// SAFETY: see above: nothing is written through it.
unsafe impl Sync for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        let _ = &self.array;
        // SAFETY: `len` bytes of a C-contiguous array begin at `data`, and the array lives as long as `self`. A program that
        // writes to an array while a run reads it gets either value for each element, as with TensorFlow.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// The number of numpy's dtype for plain values.
fn numpy_name(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Float | DType::BFloat16 => "float32",
        DType::Double => "float64",
        DType::Half => "float16",
        DType::Int8 | DType::QInt8 => "int8",
        DType::Int16 | DType::QInt16 => "int16",
        DType::Int32 | DType::QInt32 => "int32",
        DType::Int64 => "int64",
        DType::UInt8 | DType::QUInt8 => "uint8",
        DType::UInt16 | DType::QUInt16 => "uint16",
        DType::UInt32 => "uint32",
        DType::UInt64 => "uint64",
        DType::Bool => "bool",
        DType::Complex64 => "complex64",
        DType::Complex128 => "complex128",
        _ => return None,
    })
}

/// The array as a tensor of `dtype`, whose bytes it must have.
pub(crate) fn to_tensor(array: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Tensor> {
    let py = array.py();
    let array = array.cast::<PyUntypedArray>().map_err(|_| {
        PyTypeError::new_err(format!(
            "expected an array, got {}",
            array.get_type().name().map_or_else(|_| String::new(), |name| name.to_string())
        ))
    })?;
    let dims: Vec<usize> = array.shape().to_vec();
    if dtype == DType::String {
        return strings(array, &dims);
    }
    let shape = Shape::new(&dims).or_raise(py)?;
    let expected = numpy_name(dtype)
        .ok_or_else(|| PyTypeError::new_err(format!("values of {dtype} cannot be given")))?;
    let is_native = array.dtype().is_equiv_to(&PyArrayDescr::new(py, expected)?);
    if !is_native {
        return Err(PyTypeError::new_err(format!("expected an array of {expected}, got {}", array.dtype())));
    }
    if dtype == DType::BFloat16 {
        let contiguous = contiguous(array)?;
        let bytes = borrowed_bytes(&contiguous);
        let floats: Vec<bf16> = bytes
            .as_ref()
            .chunks_exact(4)
            .map(|four| bf16::from_f32(f32::from_ne_bytes([four[0], four[1], four[2], four[3]])))
            .collect();
        return Tensor::from_slice(&floats, &dims).or_raise(py);
    }
    let contiguous = contiguous(array)?;
    let owner = borrowed_bytes(&contiguous);
    if dtype == DType::Bool {
        // Only values that are bools get into such a tensor: its bytes cannot be written.
        let bools: Vec<bool> = owner.as_ref().iter().map(|&byte| byte != 0).collect();
        return Tensor::from_slice(&bools, &dims).or_raise(py);
    }
    // Small values are copied: a reference to an array costs more than they do, and numpy reuses them soon.
    if owner.len <= 256 {
        let mut tensor = Tensor::allocate(dtype, shape).or_raise(py)?;
        tensor.make_bytes_mut().or_raise(py)?.copy_from_slice(owner.as_ref());
        return Ok(tensor);
    }
    Tensor::from_buffer(dtype, shape, tensorfleet_core::Buffer::borrowed(Bytes::from_owner(owner)))
        .or_raise(py)
}

fn contiguous<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyUntypedArray>> {
    if array.is_c_contiguous() && is_aligned(array) {
        return Ok(array.clone());
    }
    let numpy = array.py().import("numpy")?;
    // `ascontiguousarray` would make a scalar a vector.
    let copy = numpy.call_method1("array", (array,))?;
    let copy = numpy.call_method1("require", (copy, array.dtype(), "CA"))?;
    Ok(copy.cast_into::<PyUntypedArray>()?)
}

fn is_aligned(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: a live array's header may be read while the interpreter is attached.
    let data = unsafe { (*array.as_array_ptr()).fields.data };
    data.addr().is_multiple_of(16.min(array.dtype().itemsize().max(1).next_power_of_two()))
}

fn borrowed_bytes(array: &Bound<'_, PyUntypedArray>) -> Borrowed {
    let len = array.len() * array.dtype().itemsize();
    // SAFETY: a live array's header may be read while the interpreter is attached.
    let data = unsafe { (*array.as_array_ptr()).fields.data };
    // A null pointer is no slice, not even an empty one.
    let data = if len == 0 {
        std::ptr::NonNull::<u8>::dangling().as_ptr().cast_const()
    } else {
        data.cast_const().cast()
    };
    Borrowed { array: array.clone().unbind(), data, len }
}

fn strings(array: &Bound<'_, PyUntypedArray>, dims: &[usize]) -> PyResult<Tensor> {
    let py = array.py();
    let items = array.call_method0("ravel")?.call_method0("tolist")?;
    let mut strings = Vec::with_capacity(array.len());
    for item in items.cast::<PyList>()?.iter() {
        strings.push(string(&item)?);
    }
    Tensor::from_strings(strings, dims).or_raise(py)
}

fn string(item: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = item.cast::<PyBytes>() {
        return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
    }
    if let Ok(text) = item.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_cow()?.as_bytes()));
    }
    Err(PyTypeError::new_err(format!(
        "Unsupported object type {}: an element of a string tensor is bytes or str",
        item.get_type().name()?
    )))
}

/// The tensor as an array; a scalar as numpy's scalar, a scalar string as bytes.
pub(crate) fn to_array(py: Python<'_>, tensor: Tensor) -> PyResult<Py<PyAny>> {
    let dims: Vec<npy_intp> = tensor.shape().dims().iter().map(|&dim| dim as npy_intp).collect();
    if tensor.dtype() == DType::String {
        return strings_as_array(py, &tensor, &dims);
    }
    let Some(name) = numpy_name(tensor.dtype()) else {
        return Err(PyTypeError::new_err(format!(
            "a tensor of {} lives in its task and has no value in Python",
            tensor.dtype()
        )));
    };
    let tensor = match tensor.dtype() {
        DType::BFloat16 => {
            let floats: Vec<f32> =
                tensor.as_slice::<bf16>().or_raise(py)?.iter().map(|half| half.to_f32()).collect();
            Tensor::from_slice(&floats, tensor.shape().dims()).or_raise(py)?
        }
        _ => tensor,
    };
    plain_as_array(py, tensor, &dims, name)
}

fn plain_as_array(py: Python<'_>, mut tensor: Tensor, dims: &[npy_intp], name: &str) -> PyResult<Py<PyAny>> {
    let shares = tensor.byte_size() >= SHARED_FROM_BYTES && tensor.is_unique();
    let descr = PyArrayDescr::new(py, name)?.into_dtype_ptr();
    let mut dims = dims.to_vec();
    let (data, flags) = match shares {
        true => (tensor.make_bytes_mut().or_raise(py)?.as_mut_ptr().cast(), NPY_ARRAY_WRITEABLE),
        false => (std::ptr::null_mut(), 0),
    };
    // SAFETY: the type is numpy's array type; `dims` has as many entries as said; without data numpy allocates its own, with
    // data the memory is that of `tensor`, which the base object set below keeps alive. The reference to `descr` is taken.
    let array = unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            numpy::npyffi::get_type_object(py, numpy::npyffi::NpyTypes::PyArray_Type),
            descr,
            dims.len() as i32,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data,
            flags,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)?
    };
    if shares {
        let base = Bound::new(py, Shared(tensor))?.into_any().into_ptr();
        // SAFETY: both are live objects; the reference to `base` is taken, also on failure.
        if unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) } < 0 {
            return Err(PyErr::fetch(py));
        }
        return Ok(array.unbind());
    }
    let bytes = tensor.as_bytes().or_raise(py)?;
    // SAFETY: numpy has just allocated as many bytes for this array, which nobody else has seen.
    unsafe {
        let target = (*array.as_ptr().cast::<numpy::npyffi::PyArrayObject>()).fields.data.cast::<u8>();
        if !bytes.is_empty() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }
    match dims.is_empty() {
        true => Ok(array.get_item(pyo3::types::PyTuple::empty(py))?.unbind()),
        false => Ok(array.unbind()),
    }
}

fn strings_as_array(py: Python<'_>, tensor: &Tensor, dims: &[npy_intp]) -> PyResult<Py<PyAny>> {
    let strings = tensor.as_strings().or_raise(py)?;
    if let ([], [scalar]) = (dims, strings) {
        return Ok(PyBytes::new(py, scalar).into_any().unbind());
    }
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("empty", (strings.len(), "O"))?;
    for (index, string) in strings.iter().enumerate() {
        array.set_item(index, PyBytes::new(py, string))?;
    }
    Ok(array.call_method1("reshape", (dims.to_vec(),))?.unbind())
}

/// The serialized `TensorProto` of an array of the dtype with this number, as TensorFlow's `make_tensor_proto` writes it.
#[pyfunction]
fn tensor_proto<'py>(array: &Bound<'py, PyAny>, dtype: i32) -> PyResult<Bound<'py, PyBytes>> {
    let py = array.py();
    let dtype = DType::from_number(dtype).or_mistake()?;
    let proto = to_tensor(array, dtype)?.to_proto();
    Ok(PyBytes::new(py, &proto.encode_to_vec()))
}

/// The array of a serialized `TensorProto`.
#[pyfunction]
fn array_of_tensor_proto(py: Python<'_>, proto: &[u8]) -> PyResult<Py<PyAny>> {
    let proto = TensorProto::decode(proto).map_err(|error| PyValueError::new_err(error.to_string()))?;
    to_array(py, Tensor::from_proto(&proto).or_raise(py)?)
}
