"""Elements of datasets: tuples and dictionaries of tensors inside each other, taken apart and put together again.

Unlike elsewhere a list is one value: it becomes a tensor.
"""

from collections.abc import Mapping

from tensorfleet.framework import dtypes, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.framework.type_spec import SparseTensorSpec, TensorSpec, TypeSpec, type_spec_from_value
from tensorfleet.platform import nest


def is_nested(value):
    return isinstance(value, (tuple, Mapping)) or getattr(type(value), "__attrs_attrs__", None) is not None


def _parts(structure):
    return [part for _, part in nest._items(structure)]


def flatten(structure):
    """The single values, in order."""
    if not is_nested(structure):
        return [structure]
    return [leaf for part in _parts(structure) for leaf in flatten(part)]


def pack(structure, values):
    """A structure like the given one with other values."""
    values = iter(values)

    def packed(part):
        if not is_nested(part):
            return next(values)
        return nest._like(part, [packed(inner) for inner in _parts(part)])

    return packed(structure)


def map_structure(function, structure, *others):
    return pack(structure, [function(*leaves) for leaves in zip(flatten(structure), *[flatten_up_to(structure, other) for other in others])])


def flatten_up_to(shallow, tree):
    """The values of `tree` at the places of the single values of `shallow`."""
    if not is_nested(shallow):
        return [tree]
    if not is_nested(tree) and not isinstance(tree, list):
        raise TypeError(f"If shallow structure is a sequence, input must also be a sequence. Input has type: '{type(tree).__name__}'.")
    ours = _parts(shallow)
    if isinstance(shallow, Mapping):
        theirs = [tree[key] for key in sorted(shallow)]
    else:
        theirs = list(tree) if isinstance(tree, list) else _parts(tree)
    if len(ours) != len(theirs):
        raise ValueError(
            f"The two structures don't have the same sequence length. Input structure has length {len(theirs)}, while shallow structure has length {len(ours)}."
        )
    return [leaf for one, other in zip(ours, theirs) for leaf in flatten_up_to(one, other)]


def convert_legacy_structure(output_types, output_shapes, output_classes):
    """Specs from dtypes, shapes and classes."""
    types, found = flatten(output_types), []
    shapes = flatten_up_to(output_types, output_shapes) if output_shapes is not None else [None] * len(types)
    classes = flatten_up_to(output_types, output_classes) if output_classes is not None else [None] * len(types)
    for dtype, shape, kind in zip(types, shapes, classes):
        if isinstance(dtype, TypeSpec):
            found.append(dtype)
        elif kind is SparseTensor:
            found.append(SparseTensorSpec(shape, dtype))
        else:
            found.append(TensorSpec(shape, dtype))
    return pack(output_types, found)


def normalize_element(element):
    """The element with tensors, datasets and sparse tensors as its values."""
    values = []
    with ops.name_scope("normalize_element"):
        for index, value in enumerate(flatten(element)):
            if isinstance(value, SparseTensor) or isinstance(getattr(value, "_type_spec", None), TypeSpec):
                values.append(value)
            else:
                values.append(ops.convert_to_tensor(value, name=f"component_{index}"))
    return pack(element, values)


def specs_of(element):
    return map_structure(type_spec_from_value, element)


def _no_sparse(spec):
    if isinstance(spec, SparseTensorSpec):
        raise NotImplementedError("tensorfleet has no SerializeSparse: elements of datasets cannot be SparseTensors; use dense tensors")


def to_tensor_list(spec, element):
    """The tensors that stand for an element."""
    tensors = []
    for one, value in zip(flatten(spec), flatten_up_to(spec, element)):
        _no_sparse(one)
        if hasattr(one, "_to_tensor"):
            tensors.append(one._to_tensor(value))
        else:
            tensors.append(ops.convert_to_tensor(value, dtype=one.dtype))
    return tensors


def from_tensor_list(spec, tensors):
    """The element that tensors stand for."""
    values = []
    for one, tensor in zip(flatten(spec), tensors):
        if hasattr(one, "_from_tensor"):
            values.append(one._from_tensor(tensor))
        else:
            if one.shape.rank is not None and tensor.graph is not None:
                tensor.set_shape(one.shape)
            values.append(tensor)
    return pack(spec, values)


def flat_types(spec):
    """The dtypes of the tensors that stand for an element."""
    for one in flatten(spec):
        _no_sparse(one)
    return [dtypes.variant if hasattr(one, "_to_tensor") else one.dtype for one in flatten(spec)]


def flat_shapes(spec):
    return [TensorShape([]) if hasattr(one, "_to_tensor") else one.shape for one in flatten(spec)]


def legacy_types(spec):
    return map_structure(lambda one: one if hasattr(one, "_to_tensor") else one.dtype, spec)


def legacy_shapes(spec):
    return map_structure(lambda one: one if hasattr(one, "_to_tensor") else one.shape, spec)


def legacy_classes(spec):
    return map_structure(lambda one: one if hasattr(one, "_to_tensor") else one.value_type, spec)


def batched(spec, size):
    """The spec of a batch of elements."""
    return map_structure(lambda one: type(one)(TensorShape([size]).concatenate(one.shape), one.dtype), spec)


def unbatched(spec):
    return map_structure(lambda one: type(one)(one.shape[1:] if one.shape.rank is not None else None, one.dtype), spec)
