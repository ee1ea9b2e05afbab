"""Operations on sets: the last dimension of a tensor holds the elements."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.composite import SparseTensor, SparseTensorValue
from tensorfleet.framework.export import export


def _operation(a, b, kind, validate_indices):
    if isinstance(a, (SparseTensor, SparseTensorValue)) or isinstance(b, (SparseTensor, SparseTensorValue)):
        raise NotImplementedError("sets in sparse tensors: there is no op SparseToSparseSetOperation")
    a = ops.convert_to_tensor(a, name="a")
    b = ops.convert_to_tensor(b, name="b")
    if a.dtype.base_dtype != b.dtype.base_dtype:
        raise TypeError(f"Types don't match, {a.dtype.base_dtype} vs {b.dtype.base_dtype}.")
    return SparseTensor(*gen.DenseToDenseSetOperation(a, b, set_operation=kind, validate_indices=validate_indices))


@export("sets.set_intersection", "sets.intersection")
def set_intersection(a, b, validate_indices=True):
    """The elements that both have."""
    return _operation(a, b, "intersection", validate_indices)


@export("sets.set_difference", "sets.difference")
def set_difference(a, b, aminusb=True, validate_indices=True):
    """The elements of one that the other lacks."""
    return _operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


@export("sets.set_union", "sets.union")
def set_union(a, b, validate_indices=True):
    """The elements that one of them has."""
    return _operation(a, b, "union", validate_indices)
