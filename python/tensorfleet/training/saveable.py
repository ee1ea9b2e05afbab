"""What a `Saver` saves: variables, their parts, and objects of programs that know how to save themselves."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor


class SaveSpec:
    """One tensor of a checkpoint."""

    def __init__(self, tensor, slice_spec, name, dtype=None, device=None):
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        self.dtype = (tensor().dtype if callable(tensor) and dtype is None else tensor.dtype if dtype is None else dtype).base_dtype
        self.device = device if device is not None else getattr(tensor, "device", "")

    @property
    def tensor(self):
        return self._tensor() if callable(self._tensor) else self._tensor


@export("train.experimental.SaveableObject", "contrib.checkpoint.SaveableObject")
class SaveableObject:
    """Something that saves and restores itself; programs derive from it."""

    def __init__(self, op, specs, name):
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def optional_restore(self):
        return False

    @property
    def device(self):
        return self.specs[0].device

    def restore(self, restored_tensors, restored_shapes):
        raise NotImplementedError("restore")


class ReferenceVariableSaveable(SaveableObject):
    """A reference variable, or a part of one."""

    def __init__(self, var, slice_spec, name):
        self._variable = var
        # A whole variable is passed by reference, so that it is read when it is saved; a part by its read, as TensorFlow does.
        value = var._ref() if not slice_spec and hasattr(var, "_ref") else (var.value() if hasattr(var, "value") else var)
        super().__init__(var, [SaveSpec(value, slice_spec, name, dtype=var.dtype)], name)
        self._device = var.device

    @property
    def device(self):
        return self._device

    def restore(self, restored_tensors, restored_shapes):
        restored = restored_tensors[0]
        if restored_shapes is not None:
            restored = gen.Reshape(restored, restored_shapes[0])
        target = self._variable._ref() if hasattr(self._variable, "_ref") else self._variable
        validate = restored_shapes is None and self.op.get_shape().is_fully_defined()
        return gen.Assign(target, restored, validate_shape=validate).op


class ResourceVariableSaveable(SaveableObject):
    """A resource variable."""

    def __init__(self, var, slice_spec, name):
        self._variable = var
        super().__init__(var, [SaveSpec(var._snapshot, slice_spec, name, dtype=var.dtype)], name)
        self._device = var.device

    @property
    def device(self):
        return self._device

    def restore(self, restored_tensors, restored_shapes):
        restored = restored_tensors[0]
        if restored_shapes is not None:
            restored = gen.Reshape(restored, restored_shapes[0])
        with ops.device(self._device):
            restored = gen.Identity(restored)
            return gen.AssignVariableOp(self._variable.handle, restored)


def _is_partitioned(value):
    from tensorfleet.ops.partitioned_variable import PartitionedVariable

    return isinstance(value, PartitionedVariable)


def _is_variable(value):
    from tensorfleet.ops import variables

    return isinstance(value, variables.Variable)


def _is_reference(value):
    return isinstance(value, Tensor) and value.op.type in ("Variable", "VariableV2", "AutoReloadVariable")


def op_list_to_dict(op_list, convert_variable_to_tensor=True):
    """Variables by the names they are saved under; the parts of a partitioned one are a list."""
    if not isinstance(op_list, (list, tuple, set)):
        raise TypeError("Variables to save should be passed in a dict or a list: {}".format(op_list))
    named = {}
    for value in sorted(op_list, key=lambda value: value.name):
        if isinstance(value, SaveableObject):
            named[value.name] = value
        elif _is_partitioned(value):
            if value.name in named:
                raise ValueError("At least two variables have the same name: {}".format(value.name))
            named[value.name] = value
        elif _is_variable(value) and value._get_save_slice_info() is not None:
            name = value._get_save_slice_info().full_name
            parts = named.setdefault(name, [])
            if not isinstance(parts, list):
                raise ValueError("Mixing slices and non-slices with the same name: {}".format(name))
            parts.append(value)
        else:
            if not _is_variable(value) and not _is_reference(value):
                raise TypeError("Variable to save is not a Variable: {}".format(value))
            name = value.op.name
            if name in named:
                raise ValueError("At least two variables have the same name: {}".format(name))
            named[name] = value
    return named


def saveables_of(value, name):
    """The saveable objects of a variable, of parts of one, or of an object."""
    if isinstance(value, SaveableObject):
        yield value
    elif isinstance(value, (list, tuple)) or _is_partitioned(value):
        for part in value:
            if not _is_variable(part):
                raise ValueError("Slices must all be Variables: {}".format(part))
            if part._get_save_slice_info() is None:
                raise ValueError("Slices must all be slices: {}".format(part))
            if part._get_save_slice_info().full_name != name and not _is_partitioned(value):
                raise ValueError("Slices must all be from the same tensor: {} != {}".format(part._get_save_slice_info().full_name, name))
            kind = ResourceVariableSaveable if part._is_resource else ReferenceVariableSaveable
            yield kind(part, part._get_save_slice_info().spec, name)
    elif _is_variable(value) and value._is_resource:
        yield ResourceVariableSaveable(value, "", name)
    elif _is_variable(value) or _is_reference(value):
        yield ReferenceVariableSaveable(value, "", name)
    else:
        raise TypeError("names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: {}".format(value))


def validate_and_slice_inputs(names_to_saveables):
    """All saveable objects, in the order of their names; none may be saved twice."""
    if not isinstance(names_to_saveables, dict):
        names_to_saveables = op_list_to_dict(names_to_saveables)
    saveables, seen = [], set()
    for name in sorted(names_to_saveables):
        for saveable in saveables_of(names_to_saveables[name], name):
            op = getattr(saveable.op, "op", saveable.op)
            if id(op) in seen:
                raise ValueError("The same saveable will be restored with two names: {}".format(saveable.name))
            seen.add(id(op))
            saveables.append(saveable)
    return saveables
