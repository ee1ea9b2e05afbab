"""`get_variable` and variable scopes: variables by name, made once and shared."""

import contextlib
import enum
import functools

from tensorfleet.framework import constant, dtypes, ops
from tensorfleet.framework.export import export, export_values
from tensorfleet.framework.keys import GraphKeys
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import variables
from tensorfleet.ops.variable_store import VariableStore
from tensorfleet.ops.variables import VariableAggregation, VariableSynchronization


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE = _ReuseMode.AUTO_REUSE
export_values(__name__, {"AUTO_REUSE": "AUTO_REUSE"})


@export("VariableScope")
class VariableScope:
    """The defaults of `get_variable` inside a scope."""

    def __init__(self, reuse, name="", initializer=None, regularizer=None, caching_device=None, partitioner=None, custom_getter=None, name_scope="", dtype=dtypes.float32, use_resource=None, constraint=None):
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._reuse = reuse
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtype
        self._use_resource = use_resource
        self._constraint = constraint

    name = property(lambda self: self._name)
    original_name_scope = property(lambda self: self._name_scope)
    reuse = property(lambda self: self._reuse)
    initializer = property(lambda self: self._initializer)
    dtype = property(lambda self: self._dtype)
    use_resource = property(lambda self: self._use_resource)
    regularizer = property(lambda self: self._regularizer)
    caching_device = property(lambda self: self._caching_device)
    partitioner = property(lambda self: self._partitioner)
    custom_getter = property(lambda self: self._custom_getter)
    constraint = property(lambda self: self._constraint)

    def reuse_variables(self):
        self._reuse = True

    def set_initializer(self, initializer):
        self._initializer = initializer

    def set_dtype(self, dtype):
        self._dtype = dtype

    def set_use_resource(self, use_resource):
        self._use_resource = use_resource

    def set_regularizer(self, regularizer):
        self._regularizer = regularizer

    def set_caching_device(self, caching_device):
        self._caching_device = caching_device

    def set_partitioner(self, partitioner):
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter):
        self._custom_getter = custom_getter

    def get_collection(self, name):
        scope = self._name + "/" if self._name else self._name
        return ops.get_collection(name, scope)

    def trainable_variables(self):
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self):
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self):
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(self, var_store, name, shape=None, dtype=None, initializer=None, regularizer=None, reuse=None, trainable=None, collections=None, caching_device=None, partitioner=None, validate_shape=True, use_resource=None, custom_getter=None, constraint=None, synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE):
        if regularizer is None:
            regularizer = self._regularizer
        if caching_device is None:
            caching_device = self._caching_device
        if partitioner is None:
            partitioner = self._partitioner
        if custom_getter is None:
            custom_getter = self._custom_getter
        if reuse is None:
            reuse = self._reuse
        full_name = f"{self._name}/{name}" if self._name else name
        with ops.name_scope(None):
            if dtype is not None and initializer is not None and not callable(initializer):
                found = ops.convert_to_tensor(initializer).dtype.base_dtype if isinstance(initializer, Tensor) else constant.to_array(initializer)[1]
                if found != dtypes.as_dtype(dtype).base_dtype:
                    if isinstance(initializer, Tensor):
                        raise ValueError(f"Initializer type '{found}' and explicit dtype '{dtype}' don't match.")
                    initializer = constant.to_array(initializer, dtype)[0]
            if initializer is None:
                initializer = self._initializer
            if constraint is None:
                constraint = self._constraint
            if dtype is None:
                dtype = self._dtype
            if use_resource is None:
                use_resource = self._use_resource
                if use_resource is None:
                    use_resource = variables.resource_variables_enabled()
            return var_store.get_variable(full_name, shape, dtype, initializer, regularizer, reuse, trainable, collections, caching_device, partitioner, validate_shape, use_resource, custom_getter, constraint, synchronization, aggregation)


class _Scopes:
    """The current variable scope of a graph, and how often each was opened."""

    def __init__(self):
        self.current = VariableScope(False)
        self.opened = {}

    def open(self, name):
        self.opened[name] = self.opened.get(name, 0) + 1

    def close_subscopes(self, name):
        for opened in list(self.opened):
            if name is None or opened.startswith(name + "/"):
                self.opened[opened] = 0


def _state():
    graph = ops.get_default_graph()
    state = graph.__dict__.get("_variable_scopes")
    if state is None:
        state = graph._variable_scopes = _Scopes()
    return state


def _get_default_variable_store():
    graph = ops.get_default_graph()
    store = graph.__dict__.get("_variable_store")
    if store is None:
        store = graph._variable_store = VariableStore()
    return store


@export("get_variable_scope")
def get_variable_scope():
    return _state().current


def _check_synchronization(trainable, synchronization, aggregation):
    if synchronization == VariableSynchronization.ON_READ and trainable:
        raise ValueError("Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable variables. You have specified trainable=True and synchronization=VariableSynchronization.ON_READ.")


@export("get_variable")
def get_variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=None, collections=None, caching_device=None, partitioner=None, validate_shape=True, use_resource=None, custom_getter=None, constraint=None, synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE):
    """The variable called `name` in the current variable scope, made if it is new."""
    _check_synchronization(trainable, synchronization, aggregation)
    return get_variable_scope().get_variable(
        _get_default_variable_store(), name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable, collections=collections,
        caching_device=caching_device, partitioner=partitioner, validate_shape=validate_shape, use_resource=use_resource, custom_getter=custom_getter, constraint=constraint,
        synchronization=synchronization, aggregation=aggregation,
    )  # fmt: skip


@export("get_local_variable")
def get_local_variable(name, shape=None, dtype=None, initializer=None, regularizer=None, trainable=False, collections=None, caching_device=None, partitioner=None, validate_shape=True, use_resource=None, custom_getter=None, constraint=None, synchronization=VariableSynchronization.AUTO, aggregation=VariableAggregation.NONE):
    """A variable of this process, neither trained nor saved."""
    collections = [GraphKeys.LOCAL_VARIABLES] if not collections else list(collections) + [GraphKeys.LOCAL_VARIABLES]
    return get_variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=False, collections=collections, caching_device=caching_device,
        partitioner=partitioner, validate_shape=validate_shape, use_resource=use_resource, custom_getter=custom_getter, constraint=constraint,
        synchronization=synchronization, aggregation=aggregation,
    )  # fmt: skip


def _chained(inner, outer):
    """Custom getters of nested scopes: the inner one is asked first and given the outer one."""
    if outer is None:
        return inner

    def getter(getter, *args, **kwargs):
        return inner(functools.partial(outer, getter), *args, **kwargs)

    return getter


class _PureScope:
    """Enters a variable scope without a name scope."""

    def __init__(self, name_or_scope, old_name_scope=None, reuse=None, **settings):
        self._name_or_scope, self._old_name_scope = name_or_scope, old_name_scope
        self._settings, self._asked_reuse = settings, reuse

    def __enter__(self):
        state = _state()
        self._state, self._before = state, state.current
        outer, settings = state.current, self._settings
        if isinstance(self._name_or_scope, VariableScope):
            source = self._name_or_scope
            name, name_scope = source._name, source._name_scope
            reuse = self._asked_reuse if self._asked_reuse is not None else source.reuse
            self._saved_counts = dict(state.opened)
        else:
            source = outer
            name = f"{outer.name}/{self._name_or_scope}" if outer.name else self._name_or_scope
            name_scope = self._old_name_scope or self._name_or_scope
            reuse = self._asked_reuse or outer.reuse
            state.open(name)
            self._saved_counts = None
        made = VariableScope(
            reuse,
            name=name,
            initializer=source.initializer,
            regularizer=source.regularizer,
            caching_device=source.caching_device,
            partitioner=source.partitioner,
            dtype=source.dtype,
            custom_getter=source.custom_getter,
            name_scope=name_scope if not isinstance(self._name_or_scope, VariableScope) else self._old_name_scope or name_scope,
            use_resource=source.use_resource,
            constraint=source.constraint,
        )
        for key in ("initializer", "regularizer", "caching_device", "partitioner", "dtype", "use_resource"):
            if settings.get(key) is not None:
                getattr(made, f"set_{key}")(settings[key])
        if settings.get("custom_getter") is not None:
            made.set_custom_getter(_chained(settings["custom_getter"], source.custom_getter))
        if settings.get("constraint") is not None:
            made._constraint = settings["constraint"]
        self._entered = made
        state.current = made
        return made

    def __exit__(self, *exception):
        state = self._state
        if self._saved_counts is not None:
            state.opened = self._saved_counts
        else:
            state.close_subscopes(self._entered.name)
        state.current = self._before
        return False


def _unique_scope(prefix):
    state = _state()
    current = state.current.name
    name = f"{current}/{prefix}" if current else prefix
    if not state.opened.get(name):
        return prefix
    index = 1
    while state.opened.get(f"{name}_{index}"):
        index += 1
    return f"{prefix}_{index}"


@export("variable_scope")
class variable_scope:
    """A scope for names of variables, with defaults for `get_variable`."""

    def __init__(self, name_or_scope, default_name=None, values=None, initializer=None, regularizer=None, caching_device=None, partitioner=None, custom_getter=None, reuse=None, dtype=None, use_resource=None, constraint=None, auxiliary_name_scope=True):
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = values or []
        self._settings = dict(initializer=initializer, regularizer=regularizer, caching_device=caching_device, partitioner=partitioner, custom_getter=custom_getter, dtype=dtype, use_resource=use_resource, constraint=constraint)
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if reuse is False:
            reuse = None
        if not (reuse is True or reuse is None or reuse is AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        self._reuse = reuse
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}")
        self._auxiliary_name_scope = auxiliary_name_scope

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        try:
            graph = ops._graph_of_values(self._values) if self._values else None
            if graph is not None and graph is not ops.get_default_graph():
                self._stack.enter_context(graph.as_default())
            return self._enter()
        except BaseException:
            self._stack.close()
            raise

    def _enter(self):
        scope = self._name_or_scope
        if scope is not None:
            if not isinstance(scope, (str, VariableScope)):
                raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
            name = scope if isinstance(scope, str) else scope.name.split("/")[-1]
            if name or not self._auxiliary_name_scope:
                old = self._name_scope(name)
                if isinstance(scope, VariableScope):
                    old = scope.original_name_scope
                return self._pure(scope, old)
            return self._pure(scope, None)
        if self._reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        old = self._name_scope(self._default_name)
        return self._pure(_unique_scope(self._default_name), old)

    def _name_scope(self, name):
        if self._auxiliary_name_scope:
            return self._stack.enter_context(ops.name_scope(name))
        current = ops.get_name_scope()
        return current + "/" if current else current

    def _pure(self, scope, old_name_scope):
        return self._stack.enter_context(_PureScope(scope, old_name_scope, self._reuse, **self._settings))

    def __exit__(self, *exception):
        return self._stack.__exit__(*exception)


@export("variable_op_scope")
@contextlib.contextmanager
def variable_op_scope(values, name_or_scope, default_name=None, initializer=None, regularizer=None, caching_device=None, partitioner=None, custom_getter=None, reuse=None, dtype=None, use_resource=None, constraint=None):
    """`variable_scope` with the arguments in the order of TensorFlow 0.x."""
    with variable_scope(name_or_scope, default_name=default_name, values=values, initializer=initializer, regularizer=regularizer, caching_device=caching_device, partitioner=partitioner, custom_getter=custom_getter, reuse=reuse, dtype=dtype, use_resource=use_resource, constraint=constraint) as scope:
        yield scope


@export("no_regularizer")
def no_regularizer(_):
    """For variables inside a scope with a regularizer that are to have none."""
    return None


