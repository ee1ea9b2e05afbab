"""`tf.layers.Layer`: variables with a scope of their own, made when the layer is first called."""

import inspect
import re

import tensorfleet as tf
from tensorfleet.framework import dtypes, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.modeling import initializers
from tensorfleet.modeling.layers.input_spec import InputSpec, check_input
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.ops import variables as variables_lib
from tensorfleet.ops.variables import VariableAggregation, VariableSynchronization
from tensorfleet.platform import nest

#: Numbers for the names of layers, for each graph.
_COUNTS = "_layer_name_counts"


def snake_case(name):
    """`MaxPooling2D` as `max_pooling2d`."""
    parts = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    snake = re.sub("([a-z])([A-Z])", r"\1_\2", parts).lower()
    # A name that begins with an underscore is no name of a scope.
    return snake if snake[0] != "_" else "private" + snake


def unique_layer_name(base, zero_based=False):
    """`base_1`, `base_2`, …: a name that no layer of the graph has."""
    graph = ops.get_default_graph()
    counts = graph.__dict__.setdefault(_COUNTS, {})
    if zero_based:
        number = counts.get(base, -1) + 1
        counts[base] = number
        return base if number == 0 else f"{base}_{number}"
    counts[base] = counts.get(base, 0) + 1
    return f"{base}_{counts[base]}"


def _add_to_collection(elements, name):
    collection = ops.get_collection_ref(name)
    for element in nest.flatten(elements):
        if not any(known is element for known in collection):
            collection.append(element)


@export("layers.Layer")
class Layer:
    """A function of tensors with variables; classes that derive from it say what `build` and `call` do."""

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        scope = kwargs.pop("_scope", None)
        self._reuse = kwargs.pop("_reuse", None)
        self._use_resource_variables = False
        self.built = False
        self.stateful = False
        self.supports_masking = False
        self._trainable = trainable
        self._trainable_weights, self._non_trainable_weights = [], []
        self._updates, self._losses, self._callable_losses = [], [], []
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        kwargs.pop("autocast", None)
        kwargs.pop("weights", None)
        self._batch_input_shape = kwargs.pop("batch_input_shape", None)
        if "input_shape" in kwargs:
            self._batch_input_shape = (kwargs.pop("batch_size", None),) + tuple(kwargs.pop("input_shape"))
        for key in kwargs:
            raise TypeError("Keyword argument not understood:", key)
        self.input_spec = None
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype.name
        self._inbound_inputs, self._inbound_outputs = [], []
        self._init_set_name(name)
        self._graph = ops.get_default_graph()
        self._scope = None
        self._current_scope = None
        if scope:
            with scopes.variable_scope(scope) as captured:
                self._scope = captured

    def _init_set_name(self, name):
        if name:
            self._name = self._base_name = name
        else:
            self._base_name = snake_case(type(self).__name__)
            self._name = unique_layer_name(self._base_name)

    # ---- what it is

    @property
    def name(self):
        return self._name

    @property
    def dtype(self):
        return self._dtype

    @property
    def graph(self):
        return self._graph

    @property
    def scope_name(self):
        if not self._scope:
            raise ValueError(f'No name available for layer scope because the layer "{self._name}" has not been used yet. The scope name  is determined the first time the layer instance is called. You must therefore call the layer before querying `scope_name`.')
        return self._scope.name

    @property
    def trainable(self):
        return self._trainable

    @trainable.setter
    def trainable(self, value):
        self._trainable = value

    @property
    def activity_regularizer(self):
        return self._activity_regularizer

    @activity_regularizer.setter
    def activity_regularizer(self, regularizer):
        self._activity_regularizer = regularizer

    @property
    def dynamic(self):
        return False

    def _sublayers(self):
        found = []
        for value in self.__dict__.values():
            for item in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(item, Layer) and item is not self and not any(item is known for known in found):
                    found.append(item)
        return found

    @property
    def trainable_weights(self):
        if not self.trainable:
            return []
        return _unique(self._trainable_weights + [weight for layer in self._sublayers() for weight in layer.trainable_weights])

    @property
    def non_trainable_weights(self):
        children = self._sublayers()
        if self.trainable:
            return _unique(self._non_trainable_weights + [weight for layer in children for weight in layer.non_trainable_weights])
        return _unique(self._trainable_weights + self._non_trainable_weights + [weight for layer in children for weight in layer.weights])

    @property
    def weights(self):
        return _unique(self.trainable_weights + self.non_trainable_weights)

    @property
    def variables(self):
        return self.weights

    @property
    def trainable_variables(self):
        return self.trainable_weights

    @property
    def non_trainable_variables(self):
        return self.non_trainable_weights

    @property
    def updates(self):
        if not self.trainable and not self.stateful:
            return []
        return self._updates + [update for layer in self._sublayers() for update in layer.updates]

    @property
    def losses(self):
        losses = list(self._losses)
        losses += [loss for loss in (penalty() for penalty in self._callable_losses) if loss is not None]
        return losses + [loss for layer in self._sublayers() for loss in layer.losses]

    @property
    def input(self):
        return self._only(self._inbound_inputs, "inbound nodes", "input")

    @property
    def output(self):
        return self._only(self._inbound_outputs, "inbound nodes", "output")

    @property
    def input_shape(self):
        return nest.map_structure(lambda tensor: tuple(tensor.shape.as_list()), self.input)

    @property
    def output_shape(self):
        return nest.map_structure(lambda tensor: tuple(tensor.shape.as_list()), self.output)

    def _only(self, found, what, attribute):
        if not found:
            raise AttributeError(f"Layer {self.name} is not connected, no {attribute} to return.")
        if len(found) > 1:
            raise AttributeError(f"Layer {self.name} has multiple {what}, hence the notion of \"layer {attribute}\" is ill-defined.")
        return found[0]

    def get_losses_for(self, inputs=None):
        """Losses that depend on no inputs (`None`); those of inputs are not told apart."""
        if inputs is None:
            return [loss for loss in self.losses if not any(loss is own for own in self._losses)]
        return list(self._losses)

    def get_updates_for(self, inputs=None):
        return [] if inputs is None else list(self.updates)

    def count_params(self):
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on {self.name}, but the layer isn't built. You can build it manually via: `{self.name}.build(batch_input_shape)`.")
        return sum(weight.shape.num_elements() for weight in self.weights)

    def get_weights(self):
        return ops.get_default_session().run(self.weights)

    def set_weights(self, weights):
        for variable, value in zip(self.weights, weights):
            variable.load(value, ops.get_default_session())

    def get_config(self):
        config = {"name": self.name, "trainable": self.trainable}
        if self._batch_input_shape is not None:
            config["batch_input_shape"] = self._batch_input_shape
        config["dtype"] = self.dtype
        return config

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def compute_output_shape(self, input_shape):
        raise NotImplementedError

    def compute_mask(self, inputs, mask=None):
        return None

    # ---- what it adds

    def add_loss(self, losses, inputs=None):
        """Adds losses; those of weights are functions without arguments. They join the regularization losses."""
        for loss in nest.flatten(losses):
            if callable(loss) and not isinstance(loss, ops.Tensor):
                self._callable_losses.append(loss)
                loss = loss()
            elif loss is not None:
                loss = loss if isinstance(loss, ops.Tensor) else ops.convert_to_tensor(loss)
                self._losses.append(loss)
            if loss is not None:
                _add_to_collection([loss], ops.GraphKeys.REGULARIZATION_LOSSES)

    def add_update(self, updates, inputs=None):
        """Adds updates that a step should run: operations, tensors, or functions that make them."""
        for update in updates if isinstance(updates, (list, tuple)) else [updates]:
            while callable(update) and not isinstance(update, (ops.Tensor, ops.Operation)):
                update = update()
            if update is None:
                continue
            self._updates.append(update if isinstance(update, ops.Operation) else getattr(update, "op", update))

    def add_metric(self, value, aggregation=None, name=None):
        raise NotImplementedError("metrics of layers belong to Keras; use tf.metrics")

    @property
    def metrics(self):
        return []

    def add_variable(self, *args, **kwargs):
        return self.add_weight(*args, **kwargs)

    def add_weight(
        self,
        name,
        shape,
        dtype=None,
        initializer=None,
        regularizer=None,
        trainable=None,
        constraint=None,
        use_resource=None,
        synchronization=VariableSynchronization.AUTO,
        aggregation=VariableAggregation.NONE,
        partitioner=None,
        **kwargs,
    ):
        """A variable of the layer, made by `tf.get_variable` in its scope."""
        for key in kwargs:
            if key not in ("experimental_autocast",):
                raise TypeError("Unknown keyword argument:", key)
        if synchronization == VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError("Synchronization value can be set to VariableSynchronization.ON_READ only for non-trainable variables. You have specified trainable=True and synchronization=VariableSynchronization.ON_READ.")
            trainable = False
        elif trainable is None:
            trainable = True
        existing = {id(variable) for variable in variables_lib.global_variables()}
        dtype = dtypes.as_dtype(dtype if dtype is not None else self.dtype or "float32")
        self._set_scope(None)
        with scopes.variable_scope(self._scope, reuse=self.built or self._reuse, auxiliary_name_scope=False) as scope:
            self._current_scope = scope
            with ops.name_scope(self._name_scope()):
                use_resource = use_resource or self._use_resource_variables or scope.use_resource
                if initializer is None:
                    initializer = scope.initializer
                if initializer is None:
                    initializer = _default_initializer(name, dtype)
                elif isinstance(initializer, str):
                    initializer = initializers.get(initializer)
                variable = scopes.get_variable(
                    name,
                    shape=shape,
                    initializer=initializer,
                    dtype=dtype,
                    constraint=constraint,
                    trainable=trainable and self.trainable,
                    partitioner=partitioner,
                    use_resource=use_resource,
                    synchronization=synchronization,
                    aggregation=aggregation,
                )
                parts = list(variable) if isinstance(variable, variables_lib.PartitionedVariable) else [variable]
                if regularizer and not any(id(part) in existing for part in parts):
                    for part in parts:
                        self.add_loss(_Penalty(name, part, regularizer))
        kept = self._trainable_weights if trainable else self._non_trainable_weights
        kept.append(variable) if len(parts) == 1 else kept.extend(parts)
        return variable

    # ---- scopes and calls

    def _name_scope(self):
        return self._current_scope.original_name_scope

    def _set_scope(self, scope=None):
        if self._scope is not None:
            return
        if self._reuse:
            entered = scopes.variable_scope(scope if scope is not None else self._base_name)
        else:
            entered = scopes.variable_scope(scope, default_name=self._base_name)
        with entered as captured:
            self._scope = captured

    def build(self, input_shape):
        """Makes the variables."""
        self.built = True

    def call(self, inputs, **kwargs):
        """The layer's function."""
        return inputs

    def _maybe_build(self, inputs):
        if self.built:
            return
        flat = nest.flatten(inputs)
        if self.input_spec is not None:
            check_input(self.input_spec, inputs, self.name)
        if flat and self._dtype is None:
            dtype = getattr(flat[0], "dtype", None)
            if dtype is not None:
                self._dtype = dtypes.as_dtype(dtype).base_dtype.name
        shapes = None
        if all(hasattr(value, "shape") for value in flat):
            shapes = nest.map_structure(lambda value: value.shape, inputs)
        self.build(shapes)
        self.built = True

    def __call__(self, inputs, *args, **kwargs):
        scope = kwargs.pop("scope", None)
        self._set_scope(scope)
        if self.built:
            entered = scopes.variable_scope(self._scope, reuse=True, auxiliary_name_scope=False)
        else:
            entered = scopes.variable_scope(self._scope, reuse=self._reuse, auxiliary_name_scope=False)
        with entered as scope:
            self._current_scope = scope
            if "scope" in self._call_arguments():
                kwargs["scope"] = scope
            outputs = self._call_in_scope(inputs, args, kwargs)
        _add_to_collection(self.updates, ops.GraphKeys.UPDATE_OPS)
        return outputs

    def _call_arguments(self):
        return inspect.signature(self.call).parameters

    def _call_in_scope(self, inputs, args, kwargs):
        with ops.name_scope(self._name_scope()):
            import numpy as np

            inputs = nest.map_structure(lambda value: ops.convert_to_tensor(value) if isinstance(value, (np.ndarray, float, int)) else value, inputs)
            self._maybe_build(inputs)
            if self.input_spec is not None:
                check_input(self.input_spec, inputs, self.name)
            outputs = self.call(inputs, *args, **kwargs)
            if outputs is None:
                raise ValueError(f"A layer's `call` method should return a Tensor or a list of Tensors, not None (layer: {self.name}).")
            self._penalize_activity(outputs, inputs)
        self._inbound_inputs.append(inputs)
        self._inbound_outputs.append(outputs)
        return outputs

    def _penalize_activity(self, outputs, inputs):
        if not self._activity_regularizer:
            return
        with ops.name_scope("ActivityRegularizer"):
            for output in nest.flatten(outputs):
                loss = self._activity_regularizer(output)
                batch_size = tf.cast(tf.shape(output)[0], loss.dtype)
                self.add_loss(loss / batch_size, inputs=inputs)

    def apply(self, inputs, *args, **kwargs):
        return self.__call__(inputs, *args, **kwargs)

    def __deepcopy__(self, memo):
        import copy

        unshared = {"_graph", "_scope", "_always_reuse_variable_scope"}
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for key, value in self.__dict__.items():
            copied.__dict__[key] = value if key in unshared else copy.deepcopy(value, memo)
        return copied


class _Penalty:
    """The penalty of a weight as a function: `losses` makes it again."""

    def __init__(self, name, variable, regularizer):
        self.name, self.variable, self.regularizer = name, variable, regularizer

    def __call__(self):
        with ops.name_scope(self.name + "/Regularizer"):
            return self.regularizer(self.variable)


def _default_initializer(name, dtype):
    if dtype.is_floating:
        return initializers.GlorotUniform()
    if dtype.is_integer or dtype.is_unsigned or dtype.is_bool:
        return initializers.Zeros()
    raise ValueError(f"An initializer for variable {name} of type {dtype.base_dtype} is required")


def _unique(items):
    seen, kept = set(), []
    for item in items:
        if id(item) not in seen:
            seen.add(id(item))
            kept.append(item)
    return kept


def as_shape_list(input_shape):
    return TensorShape(input_shape).as_list()
