//! The declarations of all ops, from which the package makes its functions.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tensorfleet_kernel::signature::{Arg, ArgTypes, AttrDecl, AttrKind};
use tensorfleet_proto::Message;
use tensorfleet_runtime::catalogue;

use crate::errors::OrRaise;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(op_names, module)?)?;
    module.add_function(wrap_pyfunction!(op_declaration, module)?)
}

/// The names of all ops.
#[pyfunction]
fn op_names() -> Vec<&'static str> {
    catalogue::linked().all().iter().map(|op| op.name).collect()
}

/// The declaration of an op, `None` if there is no such op: `(inputs, outputs, attributes, is_stateful, has_gradient)`.
///
/// An argument is `(name, is_ref, dtype, type_attr, number_attr, type_list_attr)` with `None` for what it has not; an attribute
/// `(name, kind, is_list, minimum, allowed, default)`, its default a serialized `AttrValue`.
#[pyfunction]
fn op_declaration<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(entry) = catalogue::linked().find(name) else { return Ok(None) };
    let signature = entry.signature().or_mistake()?;
    let declaration = PyDict::new(py);
    declaration.set_item("inputs", arguments(py, &signature.inputs)?)?;
    declaration.set_item("outputs", arguments(py, &signature.outputs)?)?;
    let attrs = PyList::empty(py);
    for attr in &signature.attrs {
        attrs.append(attribute(py, attr)?)?;
    }
    declaration.set_item("attrs", attrs)?;
    declaration.set_item("is_stateful", entry.op.stateful)?;
    declaration.set_item("has_kernel", entry.op.kernel.is_some())?;
    Ok(Some(declaration))
}

fn arguments<'py>(py: Python<'py>, arguments: &[Arg]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for argument in arguments {
        let (number_attr, each) = match &argument.types {
            ArgTypes::Repeated(attr, each) => (Some(attr.as_str()), &**each),
            other => (None, other),
        };
        let (dtype, type_attr, type_list_attr) = match each {
            ArgTypes::Fixed(dtype) => (Some(dtype.number()), None, None),
            ArgTypes::Attr(attr) => (None, Some(attr.as_str()), None),
            ArgTypes::List(attr) => (None, None, Some(attr.as_str())),
            ArgTypes::Repeated(..) => (None, None, None),
        };
        list.append((&argument.name, argument.is_ref, dtype, type_attr, number_attr, type_list_attr))?;
    }
    Ok(list)
}

fn attribute<'py>(py: Python<'py>, attr: &AttrDecl) -> PyResult<Bound<'py, PyAny>> {
    let (kind, texts, dtypes) = match &attr.kind {
        AttrKind::String(allowed) => ("string", allowed.clone(), None),
        AttrKind::Int => ("int", None, None),
        AttrKind::Float => ("float", None, None),
        AttrKind::Bool => ("bool", None, None),
        AttrKind::Type(allowed) => (
            "type",
            None,
            allowed.as_ref().map(|all| all.iter().map(|dtype| dtype.number()).collect::<Vec<_>>()),
        ),
        AttrKind::Shape => ("shape", None, None),
        AttrKind::Tensor => ("tensor", None, None),
        AttrKind::Func => ("func", None, None),
    };
    let default = attr.default.as_ref().map(|value| PyBytes::new(py, &value.encode_to_vec()));
    let parts = (&attr.name, kind, attr.is_list, attr.minimum, texts, dtypes, default);
    Ok(parts.into_pyobject(py)?.into_any())
}
