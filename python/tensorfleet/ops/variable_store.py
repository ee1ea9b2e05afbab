"""The variables of a graph by name: what `get_variable` makes once and shares.

A partitioned variable is made of variables that know which part of it they are.
"""

from tensorfleet.framework import dtypes, ops
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import as_shape
from tensorfleet.ops import variables
from tensorfleet.ops.variables import PartitionedVariable, Variable, VariableAggregation, VariableSynchronization


class _PartitionInfo:
    """Where a part of a variable lies, for its initializer."""

    def __init__(self, full_shape, var_offset):
        self._full_shape, self._var_offset = as_shape(full_shape), list(var_offset)

    @property
    def full_shape(self):
        return self._full_shape

    @property
    def var_offset(self):
        return self._var_offset

    def single_offset(self, shape):
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self._var_offset[axis]

    def single_slice_dim(self, shape):
        full = self._full_shape.as_list()
        cut = [axis for axis, (length, whole) in enumerate(zip(shape, full)) if length != whole]
        if len(cut) > 1:
            raise ValueError(f"Cannot use single_slice_dim() with shape {shape} and variable shape {full}: slice dim could be either dimension {cut[0]} or {cut[1]}.")
        return cut[0] if cut else None


class VariableStore:
    """The variables of a graph by name."""

    def __init__(self):
        self._vars = {}
        self._partitioned_vars = {}
        self._store_eager_variables = False

    def get_variable(self, name, shape, dtype, initializer, regularizer, reuse, trainable, collections, caching_device, partitioner, validate_shape, use_resource, custom_getter, constraint, synchronization, aggregation):
        make = self._true_getter
        keywords = dict(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            reuse=reuse,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            partitioner=partitioner,
            validate_shape=validate_shape,
            use_resource=use_resource,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )
        if custom_getter is None:
            return make(**keywords)
        return custom_getter(getter=make, **keywords)

    def _true_getter(self, name, shape=None, dtype=dtypes.float32, initializer=None, regularizer=None, reuse=None, trainable=None, collections=None, caching_device=None, partitioner=None, validate_shape=True, use_resource=None, constraint=None, synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE):
        is_scalar = shape is not None and isinstance(shape, (list, tuple)) and not shape
        keywords = dict(
            initializer=initializer,
            regularizer=regularizer,
            reuse=reuse,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            validate_shape=validate_shape,
            use_resource=use_resource,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )
        if partitioner is not None and not is_scalar:
            if not callable(partitioner):
                raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
            with ops.name_scope(None):
                return self._partitioned(name, shape, dtype, partitioner, **keywords)
        if reuse is True and partitioner is None and name in self._partitioned_vars:
            return self._partitioned(name, shape, dtype, None, **keywords)
        if f"{name}/part_0" in self._vars:
            raise ValueError(f"No partitioner was provided, but a partitioned version of the variable was found: {name}/part_0. Perhaps a variable of the same name was already created with partitioning?")
        return self._single(name, shape, dtype, **keywords)

    def _single(self, name, shape, dtype, initializer, regularizer, reuse, trainable, collections, caching_device, validate_shape, use_resource, constraint, synchronization, aggregation, partition_info=None, slice_info=None):
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError("If initializer is a constant, do not specify shape.")
        dtype = dtypes.as_dtype(dtype)
        if shape is not None:
            shape = as_shape(shape)
        if name in self._vars:
            return self._shared(name, shape, dtype, reuse)
        if reuse is True:
            raise ValueError(f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in VarScope?")
        if initializer is None:
            initializer, from_value = _default_initializer(name, shape, dtype)
        with ops.init_scope():
            if from_value:
                initial, variable_dtype = initializer, None
            else:
                if isinstance(initializer, type):
                    initializer = initializer()
                if shape is not None and shape.is_fully_defined():
                    keywords = {} if partition_info is None else {"partition_info": partition_info}
                    initial = _initial(initializer, shape, dtype, keywords)
                    variable_dtype = dtype.base_dtype
                elif shape is None and not _takes_shape(initializer):
                    initial, variable_dtype = initializer, None
                else:
                    raise ValueError(
                        "The initializer passed is not valid. It should be a callable with no arguments and the shape should not be "
                        "provided or an instance of `tf.keras.initializers.*' and `shape` should be fully defined."
                    )
        with ops.init_scope():
            made = _variable(
                initial_value=initial,
                name=name,
                trainable=trainable,
                collections=collections,
                caching_device=caching_device,
                dtype=variable_dtype,
                validate_shape=validate_shape,
                constraint=constraint,
                use_resource=use_resource,
                synchronization=synchronization,
                aggregation=aggregation,
                save_slice_info=slice_info,
            )
        self._vars[name] = made
        if regularizer is not None:
            with ops.colocate_with(made.op), ops.name_scope(name + "/Regularizer/"):
                with ops.init_scope():
                    loss = regularizer(made)
            if loss is not None:
                ops.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
        return made

    def _shared(self, name, shape, dtype, reuse):
        found = self._vars[name]
        if reuse is False:
            place = found.op._made_at()
            lines = "".join(f'  File "{file}", line {line}\n' for file, line in reversed(place[:3]))
            raise ValueError(f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope? Originally defined at:\n\n{lines}")
        if shape is not None and not shape.is_compatible_with(found.get_shape()):
            raise ValueError(f"Trying to share variable {name}, but specified shape {shape} and found shape {found.get_shape()}.")
        if not dtype.is_compatible_with(found.dtype):
            raise ValueError(f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype {found.dtype.name}.")
        return found

    def _partitioned(self, name, shape, dtype, partitioner, initializer, regularizer, reuse, collections, **keywords):
        from_value = initializer is not None and isinstance(initializer, Tensor)
        if name in self._vars:
            raise ValueError(f"A partitioner was provided, but an unpartitioned version of the variable was found: {name}. Perhaps a variable of the same name was already created without partitioning?")
        shape = as_shape(shape) if not from_value else shape.merge_with(initializer.shape) if shape is not None else initializer.shape
        if name in self._partitioned_vars:
            if reuse is False:
                raise ValueError(f"Partitioned variable with name {name} already exists. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in VarScope?")
            existing = self._partitioned_vars[name]
            if not shape.is_compatible_with(existing.get_shape()):
                raise ValueError(f"Trying to reuse partitioned variable {name}, but specified shape {shape} and found shape {existing.get_shape()}.")
            if not dtypes.as_dtype(dtype).is_compatible_with(existing.dtype):
                raise ValueError(f"Trying to reuse partitioned variable {name}, but specified dtype {dtypes.as_dtype(dtype).name} and found dtype {existing.dtype.name}.")
            if partitioner is not None and list(partitioner(shape=shape, dtype=dtype)) != existing._get_partitions():
                raise ValueError(f"Trying to reuse partitioned variable {name}, but specified partitions {list(partitioner(shape=shape, dtype=dtype))} and found partitions {existing._get_partitions()}.")
            return existing
        if reuse is True:
            raise ValueError(f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?")
        partitions = _partitions(partitioner, shape, dtype)
        if initializer is None:
            initializer, _ = _default_initializer(name, shape, dtypes.as_dtype(dtype))
        made = []
        for index, (offset, length) in enumerate(_slices(partitions, shape.as_list())):
            info = _PartitionInfo(shape, offset)
            part_shape, part_initializer = length, initializer
            if not callable(initializer):
                from tensorfleet.ops import array

                part_initializer, part_shape = array.slice(ops.convert_to_tensor(initializer), offset, length), None
            elif not _takes_shape(initializer):
                raise ValueError("initializer of a partitioned variable must take a shape")
            slice_info = Variable.SaveSliceInfo(name, shape.as_list(), offset, length)
            # A name scope at the root: parts have the full name of the variable.
            with ops.name_scope(None):
                part = self._single(
                    name=f"{name}/part_{index}",
                    shape=part_shape,
                    dtype=dtype,
                    initializer=part_initializer,
                    regularizer=regularizer,
                    reuse=reuse,
                    collections=collections,
                    partition_info=info,
                    slice_info=slice_info,
                    **keywords,
                )
            made.append(part)
        whole = PartitionedVariable(name, shape, dtypes.as_dtype(dtype), made, partitions)
        self._partitioned_vars[name] = whole
        return whole


def _initial(initializer, shape, dtype, keywords):
    """A function that builds the initial value, given what its signature takes."""
    if not keywords or not _takes(initializer, "partition_info"):
        keywords = {}
    if _takes_shape(initializer):
        return lambda: initializer(shape.as_list(), dtype=dtype.base_dtype, **keywords) if _takes(initializer, "dtype") else initializer(shape.as_list())
    return initializer


def _parameters(function):
    import inspect

    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def _takes(function, name):
    found = _parameters(function)
    return found is None or name in found or any(parameter.kind is parameter.VAR_KEYWORD for parameter in found.values())


def _takes_shape(function):
    found = _parameters(function)
    return found is None or any(parameter.kind is not parameter.KEYWORD_ONLY and parameter.kind is not parameter.VAR_KEYWORD for parameter in found.values())


def _default_initializer(name, shape, dtype):
    from tensorfleet.modeling import initializers

    if dtype.is_floating:
        return initializers.glorot_uniform_initializer(), False
    if dtype.is_integer or dtype.is_unsigned or dtype.is_bool or dtype == dtypes.string:
        return initializers.zeros_initializer(), False
    raise ValueError(f"An initializer for variable {name} of {dtype.base_dtype} is required")


def _partitions(partitioner, shape, dtype):
    if not shape.is_fully_defined():
        raise ValueError(f"Shape of a new partitioned variable must be fully defined, but instead was {shape}.")
    if shape.ndims < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1, shape: {shape}")
    found = partitioner(shape=shape, dtype=dtype)
    if not isinstance(found, (list, tuple)):
        raise ValueError(f"Partitioner must return a sequence, but saw: {found}")
    if len(found) != shape.ndims:
        raise ValueError(f"Partitioner returned a partition list that does not match the Variable's rank: {found} vs. {shape}")
    if any(count < 1 for count in found):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {found}")
    if sum(count > 1 for count in found) > 1:
        raise ValueError(f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {found}")
    return list(found)


def _slices(partitions, shape):
    axis = next((axis for axis, count in enumerate(partitions) if count > 1), 0)
    count, length = partitions[axis], shape[axis]
    offset = 0
    for index in range(count):
        size = length // count + (1 if index < length % count else 0)
        starts, sizes = [0] * len(shape), list(shape)
        starts[axis], sizes[axis] = offset, size
        yield starts, sizes
        offset += size


def _variable(save_slice_info=None, **keywords):
    """A variable at the root of names: `get_variable`'s names are whole."""
    if save_slice_info is None:
        return Variable(**keywords)
    use_resource = keywords.pop("use_resource")
    made = object.__new__(variables.ResourceVariable if use_resource else variables.RefVariable)
    made._make(bool(use_resource), save_slice_info=save_slice_info, **keywords)
    return made
