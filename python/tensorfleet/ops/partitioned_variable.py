"""`PartitionedVariable`: a variable that is made of parts."""

from tensorfleet.framework import conversion, gen, ops
from tensorfleet.framework.tensor_shape import TensorShape


class PartitionedVariable:
    """A variable that is made of parts, cut along one axis."""

    def __init__(self, name, shape, dtype, variable_list, partitions):
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list is not a list or tuple: {variable_list}")
        if not isinstance(partitions, (list, tuple)):
            raise TypeError(f"partitions is not a list or tuple: {partitions}")
        if not all(count >= 1 for count in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        for variable in variable_list:
            if not all(part.full_name == name for part in [variable._get_save_slice_info()]):
                raise AssertionError(f"All variables must have a save_slice_info named {name}")
        self._variable_list = sorted(variable_list, key=lambda variable: variable._get_save_slice_info().var_offset)
        self._name, self._shape, self._dtype, self._partitions = name, TensorShape(shape), dtype, list(partitions)
        self._as_tensor_ = None

    def __iter__(self):
        return iter(self._variable_list)

    def __len__(self):
        axes = self._partition_axes()
        if len(axes) > 1:
            raise ValueError(f"Cannot get a length for {len(axes)} > 1 partition axes")
        return len(self._variable_list)

    def _partition_axes(self):
        return [axis for axis, count in enumerate(self._partitions) if count > 1] or [0]

    def _concat(self):
        from tensorfleet.ops import array

        if len(self._variable_list) == 1:
            with ops.name_scope(None):
                return gen.Identity(self._variable_list[0], name=self._name)
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(f"Cannot concatenate along more than one dimension: {axes}. Multi-axis partition concat is not supported")
        with ops.name_scope(self._name + "/ConcatPartitions/"):
            whole = array.concat(self._variable_list, axes[0])
        with ops.name_scope(None):
            return gen.Identity(whole, name=self._name)

    def as_tensor(self):
        """The whole as one tensor."""
        with ops.control_dependencies(None):
            return self._concat()

    @property
    def name(self):
        return self._name

    @property
    def dtype(self):
        return self._dtype

    @property
    def shape(self):
        return self._shape

    def get_shape(self):
        return self._shape

    def _get_variable_list(self):
        return self._variable_list

    def _get_partitions(self):
        return self._partitions

    def _apply(self, method, value, **keywords):
        from tensorfleet.ops import array

        axes = self._partition_axes()
        value = ops.convert_to_tensor(value, dtype=self._dtype)
        sizes = [variable.shape.as_list()[axes[0]] for variable in self._variable_list]
        parts = array.split(value, sizes, axes[0]) if len(sizes) > 1 else [value]
        return [getattr(variable, method)(part, **keywords) for variable, part in zip(self._variable_list, parts)]

    def assign(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign", value, use_locking=use_locking, read_value=read_value)

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign_add", value, use_locking=use_locking, read_value=read_value)

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        return self._apply("assign_sub", value, use_locking=use_locking, read_value=read_value)


conversion.register_tensor_conversion_function(PartitionedVariable, lambda value, dtype=None, name=None, as_ref=False: value.as_tensor())
