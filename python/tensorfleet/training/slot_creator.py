"""Slots: variables that stand beside other variables, such as the momentum that an optimizer keeps of each."""

from tensorfleet.framework import ops
from tensorfleet.ops import variable_scope
from tensorfleet.ops.variables import Variable


def _slot_variable(primary, initial, validate_shape, shape, dtype):
    """The variable that the current variable scope is named after."""
    scope = variable_scope.get_variable_scope()
    use_resource = primary._is_resource if isinstance(primary, Variable) else None
    # A part of a variable has slots of its own, which are not cut again.
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        slot = variable_scope.get_variable(
            "",
            initializer=initial,
            trainable=False,
            use_resource=use_resource,
            shape=shape if callable(initial) else None,
            dtype=dtype,
            validate_shape=validate_shape,
        )
    finally:
        scope.set_partitioner(partitioner)
    part = primary._get_save_slice_info() if isinstance(primary, Variable) else None
    if part:
        own_name = slot.op.name[len(primary.op.name) + 1 :]
        slot._set_save_slice_info(
            Variable.SaveSliceInfo(f"{part.full_name}/{own_name}", list(part.full_shape), list(part.var_offset), list(part.var_shape))
        )
    return slot


def _create(primary, name, colocate, *arguments):
    with variable_scope.variable_scope(None, f"{primary.op.name}/{name}"):
        if not colocate:
            return _slot_variable(primary, *arguments)
        with ops.colocate_with(primary):
            return _slot_variable(primary, *arguments)


def create_slot(primary, val, name, colocate_with_primary=True):
    """A slot that starts with the tensor `val`."""
    return _create(primary, name, colocate_with_primary, val, val.get_shape().is_fully_defined(), None, None)


def create_slot_with_initializer(primary, initializer, shape, dtype, name, colocate_with_primary=True):
    """A slot that starts with what `initializer` gives for a shape and a dtype."""
    return _create(primary, name, colocate_with_primary, initializer, shape.is_fully_defined(), shape, dtype)


def create_zeros_slot(primary, name, dtype=None, colocate_with_primary=True):
    """A slot of zeros, of the shape of `primary`."""
    from tensorfleet.modeling import initializers
    from tensorfleet.ops import array, constants

    dtype = primary.dtype if dtype is None else dtype
    shape = primary.get_shape()
    if shape.is_fully_defined():
        return create_slot_with_initializer(primary, initializers.Zeros(), shape, dtype, name, colocate_with_primary)
    first = primary.initialized_value() if isinstance(primary, Variable) else primary
    return create_slot(primary, constants.zeros(array.shape(first), dtype=dtype), name, colocate_with_primary)


__all__ = ["create_slot", "create_slot_with_initializer", "create_zeros_slot"]
