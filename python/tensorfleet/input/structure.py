"""Elements of datasets: tuples and dictionaries of tensors inside each other, taken apart and put together again.

Unlike elsewhere a list is one value: it becomes a tensor.
"""

from collections.abc import Mapping

from tensorfleet.framework import dtypes, gen, ops
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


def _is_variant(spec):
    """Whether a value of this kind is one variant tensor: a dataset, an optional, a sparse tensor."""
    return hasattr(spec, "_to_tensor") or isinstance(spec, SparseTensorSpec)


def _to_tensor(spec, value, is_batch):
    if isinstance(spec, SparseTensorSpec):
        value = SparseTensor.from_value(value)
        serialize = gen.SerializeManySparse if is_batch else gen.SerializeSparse
        return serialize(value.indices, value.values, value.dense_shape, out_type=dtypes.variant)
    if hasattr(spec, "_to_tensor"):
        return spec._to_tensor(value)
    return ops.convert_to_tensor(value, dtype=spec.dtype)


def to_tensor_list(spec, element, is_batch=False):
    """The tensors that stand for an element, or for a batch of elements that is taken apart again."""
    return [_to_tensor(one, value, is_batch) for one, value in zip(flatten(spec), flatten_up_to(spec, element))]


def _from_tensor(spec, tensor):
    if isinstance(spec, SparseTensorSpec):
        parts = gen.DeserializeSparse(tensor, dtype=spec.dtype)
        if spec.shape.rank is not None:
            parts.sparse_indices.set_shape([None, spec.shape.rank])
            parts.sparse_shape.set_shape([spec.shape.rank])
        return SparseTensor(*parts)
    if hasattr(spec, "_from_tensor"):
        return spec._from_tensor(tensor)
    if spec.shape.rank is not None:
        tensor.set_shape(spec.shape)
    return tensor


def from_tensor_list(spec, tensors):
    """The element that tensors stand for."""
    return pack(spec, [_from_tensor(one, tensor) for one, tensor in zip(flatten(spec), tensors)])


def flat_types(spec):
    """The dtypes of the tensors that stand for an element."""
    return [dtypes.variant if _is_variant(one) else one.dtype for one in flatten(spec)]


def _flat_shape(spec):
    if isinstance(spec, SparseTensorSpec):
        return TensorShape(None)
    return TensorShape([]) if hasattr(spec, "_to_tensor") else spec.shape


def flat_shapes(spec):
    return [_flat_shape(one) for one in flatten(spec)]


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
