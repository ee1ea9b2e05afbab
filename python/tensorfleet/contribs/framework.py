"""`tf.contrib.framework`: variables of models, by scope and name, and values for them from checkpoints."""

import functools
import re

import numpy as np

import tensorfleet as tf
from tensorfleet.contribs.arg_scope import add_arg_scope
from tensorfleet.framework import dtypes, ops
from tensorfleet.framework.export import EXPORTED, export, export_values
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.platform import nest as _nest  # its names are offered here too
from tensorfleet.ops.variables import Variable, VariableAggregation, VariableSynchronization

_KEYS = ops.GraphKeys


def _exported(*names):
    """Offers a function as part of `framework` and `slim`."""
    return export(*[f"contrib.{place}.{name}" for name in names for place in ("framework", "slim")])


# ---- variables


@_exported("variable")
@add_arg_scope
def variable(
    name,
    shape=None,
    dtype=None,
    initializer=None,
    regularizer=None,
    trainable=True,
    collections=None,
    caching_device=None,
    device=None,
    partitioner=None,
    custom_getter=None,
    use_resource=None,
    synchronization=VariableSynchronization.AUTO,
    aggregation=VariableAggregation.NONE,
):
    """`tf.get_variable` on a device."""
    collections = list(dict.fromkeys(collections if collections is not None else [_KEYS.GLOBAL_VARIABLES]))
    getter = scopes.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=scopes.get_variable_scope().reuse)
    with ops.device(device or ""):
        return getter(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )


@_exported("model_variable")
@add_arg_scope
def model_variable(
    name,
    shape=None,
    dtype=dtypes.float32,
    initializer=None,
    regularizer=None,
    trainable=True,
    collections=None,
    caching_device=None,
    device=None,
    partitioner=None,
    custom_getter=None,
    use_resource=None,
    synchronization=VariableSynchronization.AUTO,
    aggregation=VariableAggregation.NONE,
):
    """A variable that also belongs to `tf.GraphKeys.MODEL_VARIABLES`."""
    collections = list(collections or []) + [_KEYS.GLOBAL_VARIABLES, _KEYS.MODEL_VARIABLES]
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        device=device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )


@_exported("add_model_variable")
def add_model_variable(var):
    """Adds a variable to the model's."""
    if var not in ops.get_collection(_KEYS.MODEL_VARIABLES):
        ops.add_to_collection(_KEYS.MODEL_VARIABLES, var)


@_exported("local_variable")
def local_variable(initial_value, validate_shape=True, name=None, use_resource=None):
    """A variable that is not saved."""
    return Variable(initial_value, trainable=False, collections=[_KEYS.LOCAL_VARIABLES], validate_shape=validate_shape, name=name, use_resource=use_resource)


@_exported("global_variable")
def global_variable(initial_value, validate_shape=True, name=None, use_resource=None):
    """A variable that is saved and not trained."""
    return Variable(initial_value, trainable=False, collections=[_KEYS.GLOBAL_VARIABLES], validate_shape=validate_shape, name=name, use_resource=use_resource)


@_exported("get_variables")
def get_variables(scope=None, suffix=None, collection=_KEYS.GLOBAL_VARIABLES):
    """The variables of a collection below a scope and with a suffix."""
    if isinstance(scope, scopes.VariableScope):
        scope = scope.name
    if suffix is not None:
        if ":" not in suffix:
            suffix += ":"
        scope = (scope or "") + ".*" + suffix
    return ops.get_collection(collection, scope)


@_exported("get_model_variables")
def get_model_variables(scope=None, suffix=None):
    """The variables of the model."""
    return get_variables(scope, suffix, _KEYS.MODEL_VARIABLES)


@_exported("get_local_variables")
def get_local_variables(scope=None, suffix=None):
    """The local variables."""
    return get_variables(scope, suffix, _KEYS.LOCAL_VARIABLES)


@_exported("get_trainable_variables")
def get_trainable_variables(scope=None, suffix=None):
    """The variables that optimizers change."""
    return get_variables(scope, suffix, _KEYS.TRAINABLE_VARIABLES)


@_exported("get_variables_to_restore")
def get_variables_to_restore(include=None, exclude=None):
    """The variables below some scopes and not below others."""
    if include is None:
        found = get_variables()
    else:
        if not isinstance(include, (list, tuple)):
            raise TypeError("include is provided but is not a list or a tuple.")
        found = []
        for scope in include:
            found += get_variables(scope)
    excluded = set()
    if exclude is not None:
        if not isinstance(exclude, (list, tuple)):
            raise TypeError("exclude is provided but is not a list or a tuple.")
        for scope in exclude:
            excluded.update(get_variables(scope))
    return [variable_ for variable_ in found if variable_ not in excluded]


@_exported("get_variables_by_suffix")
def get_variables_by_suffix(suffix, scope=None):
    return get_variables(scope=scope, suffix=suffix)


@_exported("get_variables_by_name")
def get_variables_by_name(given_name, scope=None):
    return get_variables(scope=scope, suffix="/" + given_name + ":|^" + given_name + ":")


@_exported("get_variable_full_name")
def get_variable_full_name(var):
    """The name in checkpoints: that of the whole for a part."""
    info = getattr(var, "_save_slice_info", None)
    return info.full_name if info else var.op.name


@_exported("get_unique_variable")
def get_unique_variable(var_op_name):
    """The variable with this name."""
    candidates = get_variables(scope=var_op_name)
    if not candidates:
        raise ValueError(f"Couldn't find variable {var_op_name}")
    for candidate in candidates:
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


@_exported("filter_variables")
def filter_variables(var_list, include_patterns=None, exclude_patterns=None, reg_search=True):
    """The variables whose names fit one of the patterns and none of the excluding ones."""
    fits = re.search if reg_search else re.match
    if include_patterns is not None:
        var_list = [var for var in var_list if any(fits(pattern, var.name) for pattern in include_patterns)]
    if exclude_patterns is not None:
        var_list = [var for var in var_list if not any(fits(pattern, var.name) for pattern in exclude_patterns)]
    return var_list


@_exported("zero_initializer")
def zero_initializer(ref, use_locking=True, name="zero_initializer"):
    """Assigns zeros to a variable that is not initialized yet."""
    return tf.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), use_locking=use_locking, name=name)


# ---- the global step


@_exported("assert_global_step")
def assert_global_step(global_step_tensor):
    tf.train.assert_global_step(global_step_tensor)


@export("contrib.framework.assert_or_get_global_step", "contrib.slim.assert_or_get_global_step")
def assert_or_get_global_step(graph=None, global_step_tensor=None):
    """The given step, checked, or the graph's."""
    if global_step_tensor is None:
        return tf.train.get_global_step(graph)
    tf.train.assert_global_step(global_step_tensor)
    return global_step_tensor


@_exported("get_global_step")
def get_global_step(graph=None):
    return tf.train.get_global_step(graph)


@_exported("create_global_step")
def create_global_step(graph=None):
    return tf.train.create_global_step(graph)


@_exported("get_or_create_global_step")
def get_or_create_global_step(graph=None):
    return tf.train.get_or_create_global_step(graph)


# ---- values


@_exported("assign_from_values")
def assign_from_values(var_names_to_values):
    """An operation that assigns values by name, and what to feed it."""
    feed_dict, assigned = {}, []
    for name, value in var_names_to_values.items():
        if not isinstance(name, str):
            raise ValueError(f"Variable {name} must be a string")
        found = ops.get_collection(_KEYS.GLOBAL_VARIABLES, name)
        if not found:
            raise ValueError(f"Variable {name} wasn't found")
        var = next((item for item in found if item.op.name == name), None)
        if var is None:
            raise ValueError(f"Variable {name} doesn't uniquely identify a variable")
        placeholder = tf.placeholder(dtype=var.dtype.base_dtype, name=f"placeholder/{var.op.name}", shape=var.shape)
        assigned.append(var.assign(placeholder))
        feed_dict[placeholder] = np.asarray(value).reshape(var.shape.as_list())
    return tf.group(*assigned), feed_dict


@_exported("assign_from_values_fn")
def assign_from_values_fn(var_names_to_values):
    """A function of a session that assigns values by name."""
    assign_op, feed_dict = assign_from_values(var_names_to_values)

    def run(session):
        return session.run(assign_op, feed_dict)

    return run


def _named(var_list):
    """Variables by their names in a checkpoint; the parts of one are a list."""
    if isinstance(var_list, dict):
        return {name: value if isinstance(value, (list, tuple)) else [value] for name, value in var_list.items()}
    named = {}
    for var in var_list:
        named.setdefault(get_variable_full_name(var), []).append(var)
    return named


@_exported("assign_from_checkpoint")
def assign_from_checkpoint(model_path, var_list, ignore_missing_vars=False):
    """An operation that assigns the values of a checkpoint, and what to feed it."""
    reader = tf.train.NewCheckpointReader(model_path)
    feed_dict, assigned = {}, []
    for name, parts in _named(var_list).items():
        if not reader.has_tensor(name):
            text = f"Checkpoint is missing variable [{name}]"
            if not ignore_missing_vars:
                raise ValueError(text)
            tf.logging.warning(text)
            continue
        value = reader.get_tensor(name)
        for var in parts:
            info = getattr(var, "_save_slice_info", None)
            own = value
            if info is not None:
                own = value[tuple(slice(start, start + size) for start, size in zip(info.var_offset, info.var_shape))]
            if not var.shape.is_compatible_with(own.shape):
                raise ValueError(f"Total size of new array must be unchanged for {name} lh_shape: [{own.shape}], rh_shape: [{var.shape}]")
            placeholder = tf.placeholder(dtype=var.dtype.base_dtype, name=f"placeholder/{var.op.name}", shape=own.shape)
            assigned.append(var.assign(placeholder))
            feed_dict[placeholder] = own
    return tf.group(*assigned), feed_dict


@_exported("assign_from_checkpoint_fn")
def assign_from_checkpoint_fn(model_path, var_list, ignore_missing_vars=False, reshape_variables=False):
    """A function of a session that restores variables from a checkpoint."""
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = tf.train.NewCheckpointReader(model_path)
        named = var_list if isinstance(var_list, dict) else {var.op.name: var for var in var_list}
        available = {}
        for name, var in named.items():
            if reader.has_tensor(name):
                available[name] = var
            else:
                tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
        var_list = available
        if not var_list:
            tf.logging.warning("No Variables to restore")
            return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables)

    def restore(session):
        saver.restore(session, model_path)

    return restore


# ---- tensors


@export("contrib.framework.get_graph_from_inputs")
def get_graph_from_inputs(op_input_list, graph=None):
    """The graph of the first input that has one."""
    if graph is not None:
        return graph
    return next((item.graph for item in op_input_list if getattr(item, "graph", None) is not None), ops.get_default_graph())


@export("contrib.framework.get_placeholders")
def get_placeholders(graph):
    """The placeholders of a graph."""
    return [output for op in graph.get_operations() if op.type == "Placeholder" for output in op.values()]


@export("contrib.framework.with_shape")
def with_shape(expected_shape, tensor):
    """The tensor, with a shape that is known and checked."""
    tensor.set_shape(expected_shape)
    return tensor


@export("contrib.framework.with_same_shape")
def with_same_shape(expected_tensor, tensor):
    """The tensor, with the shape of another."""
    with ops.name_scope(f"{tensor.op.name}/", values=[expected_tensor, tensor]):
        return with_shape(expected_tensor.shape, tensor)


@export("contrib.framework.reduce_sum_n")
def reduce_sum_n(tensors, name=None):
    """The sum of all elements of several tensors."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with ops.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(tensor, name=f"{tensor.op.name}/sum") if tensor.shape.ndims != 0 else tensor for tensor in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


@export("contrib.framework.assert_scalar")
def assert_scalar(tensor, name=None, message=None):
    """The tensor, if it is a scalar."""
    with ops.name_scope(name, "assert_scalar", [tensor]):
        tensor = ops.convert_to_tensor(tensor)
        if tensor.shape.ndims != 0:
            raise ValueError(f"{message or ''}Expected scalar shape, saw shape: {tensor.shape}.")
        return tensor


@export("contrib.framework.smart_constant_value")
def smart_constant_value(pred):
    """A condition as a Python value if it is known."""
    if isinstance(pred, ops.Tensor):
        return tf.contrib.util.constant_value(pred)
    if pred in (0, 1) or isinstance(pred, bool):
        return bool(pred)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred}")


@export("contrib.framework.smart_cond")
def smart_cond(pred, true_fn=None, false_fn=None, name=None):
    """`tf.cond`, or one of the functions if the condition is known."""
    if not callable(true_fn):
        raise TypeError("`true_fn` must be callable.")
    if not callable(false_fn):
        raise TypeError("`false_fn` must be callable.")
    value = smart_constant_value(pred)
    if value is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if value else false_fn()


@export("contrib.framework.load_checkpoint")
def load_checkpoint(filepattern):
    return tf.train.load_checkpoint(filepattern)


@export("contrib.framework.load_variable")
def load_variable(checkpoint_dir, name):
    return tf.train.load_variable(checkpoint_dir, name)


@export("contrib.framework.list_variables")
def list_variables(checkpoint_dir):
    return tf.train.list_variables(checkpoint_dir)


@export("contrib.framework.init_from_checkpoint")
def init_from_checkpoint(checkpoint_dir, assignment_map):
    return tf.train.init_from_checkpoint(checkpoint_dir, assignment_map)




export_values("tensorfleet.platform.nest", {f"contrib.framework.nest.{name.partition('.')[2]}": attribute for name, (module, attribute) in list(EXPORTED.items()) if module == _nest.__name__ and name.startswith("nest.")})
export("contrib.framework.get_name_scope")(ops.get_name_scope)
export("contrib.framework.strip_name_scope")(ops.strip_name_scope)
export("contrib.framework.prepend_name_scope")(ops.prepend_name_scope)


@export("contrib.framework.smart_case")
def smart_case(pred_fn_pairs, default=None, exclusive=False, name="smart_case"):
    """`tf.case`, or one of the functions if the conditions are known."""
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, dict) else list(pred_fn_pairs)
    known = [smart_constant_value(pred) for pred, _ in pairs]
    if any(value is None for value in known):
        return tf.case(pred_fn_pairs, default=default, exclusive=exclusive, name=name)
    for value, (_, function) in zip(known, pairs):
        if value:
            return function()
    if default is None:
        raise ValueError("none of the conditions holds, and there is no default")
    return default()


@export("contrib.framework.assert_scalar_int")
def assert_scalar_int(tensor, name=None):
    """The tensor, if it is an integer scalar."""
    with ops.name_scope(name, "assert_scalar_int", [tensor]) as name_scope:
        tensor = ops.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(f"Expected integer type for {tensor.name}, received type: {tensor.dtype}.")
        return assert_scalar(tensor, name=name_scope)


@export("contrib.framework.remove_squeezable_dimensions")
def remove_squeezable_dimensions(predictions, labels, name=None):
    """Predictions and labels without a last dimension of 1 that only one of them has."""
    from tensorfleet.modeling import loss_weights

    labels, predictions = loss_weights.remove_squeezable_dimensions(labels, predictions, name=name)
    return predictions, labels


@export("contrib.framework.deprecated", "contrib.slim.deprecated")
def deprecated(date, instructions, warn_once=True):
    """A decorator that says once that a function is deprecated."""

    def decorate(function):
        told = []

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            if not (warn_once and told):
                told.append(True)
                when = "in a future version" if date is None else f"after {date}"
                tf.logging.warning("%s (from %s) is deprecated and will be removed %s.\nInstructions for updating:\n%s", function.__name__, function.__module__, when, instructions)
            return function(*args, **kwargs)

        return wrapped

    return decorate
