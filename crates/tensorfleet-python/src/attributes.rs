//! Attributes of nodes: values of Python as `AttrValue`, by what the op declares, and back.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use tensorfleet_core::attr::IntoAttr;
use tensorfleet_core::{DType, PartialShape};
use tensorfleet_kernel::signature::{AttrDecl, AttrKind};
use tensorfleet_proto::Message;
use tensorfleet_proto::tensorflow::attr_value::{ListValue, Value};
use tensorfleet_proto::tensorflow::{AttrValue, NameAttrList};

use crate::arrays;
use crate::errors::OrRaise;

/// A value as the declaration asks for it: dtypes are their numbers, shapes are lists with -1 (`None` if nothing is known),
/// tensors are pairs of an array and the number of its dtype, functions are names or serialized `NameAttrList`s.
pub(crate) fn declared(value: &Bound<'_, PyAny>, decl: &AttrDecl) -> PyResult<AttrValue> {
    if let Some(ready) = serialized(value)? {
        return Ok(ready);
    }
    if decl.is_list {
        return list(value, &decl.kind);
    }
    Ok(match &decl.kind {
        AttrKind::String(_) => AttrValue { value: Some(Value::S(text(value)?)) },
        AttrKind::Int => value.extract::<i64>()?.into_attr(),
        AttrKind::Float => value.extract::<f32>()?.into_attr(),
        AttrKind::Bool => value.is_truthy()?.into_attr(),
        AttrKind::Type(_) => dtype(value)?.into_attr(),
        AttrKind::Shape => shape(value)?.into_attr(),
        AttrKind::Tensor => tensor(value)?.into_attr(),
        AttrKind::Func => AttrValue { value: Some(Value::Func(function(value)?)) },
    })
}

/// A value that no declaration tells of, as those of attributes whose names begin with `_`.
pub(crate) fn undeclared(value: &Bound<'_, PyAny>) -> PyResult<AttrValue> {
    if let Some(ready) = serialized(value)? {
        return Ok(ready);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.into_attr());
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract::<i64>()?.into_attr());
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(value.extract::<f32>()?.into_attr());
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>() {
        return Ok(AttrValue { value: Some(Value::S(text(value)?)) });
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return list(value, &AttrKind::String(None));
    }
    Err(PyTypeError::new_err(format!("{} is not the value of an attribute", value.get_type().name()?)))
}

/// The value of something with `SerializeToString`, an `AttrValue` of Python.
fn serialized(value: &Bound<'_, PyAny>) -> PyResult<Option<AttrValue>> {
    if !value.hasattr("SerializeToString")? || value.get_type().name()? != "AttrValue" {
        return Ok(None);
    }
    let bytes = value.call_method0("SerializeToString")?;
    let bytes = bytes.cast::<PyBytes>()?;
    let parsed =
        AttrValue::decode(bytes.as_bytes()).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(Some(parsed))
}

fn list(value: &Bound<'_, PyAny>, kind: &AttrKind) -> PyResult<AttrValue> {
    let mut list = ListValue::default();
    for item in value.try_iter()? {
        let item = item?;
        match kind {
            AttrKind::String(_) => list.s.push(text(&item)?),
            AttrKind::Int => list.i.push(item.extract()?),
            AttrKind::Float => list.f.push(item.extract()?),
            AttrKind::Bool => list.b.push(item.is_truthy()?),
            AttrKind::Type(_) => list.r#type.push(dtype(&item)?.number()),
            AttrKind::Shape => list.shape.push(shape(&item)?.to_proto()),
            AttrKind::Tensor => list.tensor.push(tensor(&item)?.to_proto()),
            AttrKind::Func => list.func.push(function(&item)?),
        }
    }
    Ok(AttrValue { value: Some(Value::List(Box::new(list))) })
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<bytes::Bytes> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes::Bytes::copy_from_slice(bytes.as_bytes())),
        Err(_) => Ok(bytes::Bytes::from(value.extract::<String>()?)),
    }
}

fn dtype(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    DType::from_number(value.extract()?).or_mistake()
}

/// A shape from a list with -1 for what is not known, or `None`.
pub(crate) fn shape(value: &Bound<'_, PyAny>) -> PyResult<PartialShape> {
    match value.extract::<Option<Vec<i64>>>()? {
        None => Ok(PartialShape::unknown()),
        Some(dims) => PartialShape::from_signed(&dims).or_mistake(),
    }
}

/// A shape as a list with -1 for what is not known, or `None`.
pub(crate) fn dims(shape: &PartialShape) -> Option<Vec<i64>> {
    let dims = shape.dims()?;
    Some(dims.iter().map(|dim| dim.map_or(-1, |dim| dim as i64)).collect())
}

fn tensor(value: &Bound<'_, PyAny>) -> PyResult<tensorfleet_core::Tensor> {
    let (array, dtype) = value.extract::<(Bound<'_, PyAny>, i32)>()?;
    arrays::to_tensor(&array, DType::from_number(dtype).or_mistake()?)?.deep_copy().or_mistake()
}

fn function(value: &Bound<'_, PyAny>) -> PyResult<NameAttrList> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => {
            NameAttrList::decode(bytes.as_bytes()).map_err(|error| PyValueError::new_err(error.to_string()))
        }
        Err(_) => Ok(NameAttrList { name: value.extract()?, ..Default::default() }),
    }
}
