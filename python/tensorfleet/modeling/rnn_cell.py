"""`tf.nn.rnn_cell`: cells of recurrent networks."""

import collections

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape, as_shape
from tensorfleet.modeling import initializers
from tensorfleet.modeling.layers.base import InputSpec, Layer
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.ops.variables import PartitionedVariable
from tensorfleet.platform import nest

_KERNEL, _BIAS = "kernel", "bias"


def _part(value, name):
    """A batch size or a state's shape as a tensor and as far as it is known."""
    if isinstance(value, ops.Tensor):
        known = constant.constant_value(value)
        if value.shape.ndims == 0:
            return tf.expand_dims(value, 0), known
        if value.shape.ndims != 1:
            raise ValueError(f"{name} tensor must be either a scalar or vector, but saw tensor: {value}")
        return value, known
    shape = as_shape(value)
    known = shape.as_list() if shape.ndims is not None else None
    return constant.constant(shape.as_list(), dtype=dtypes.int32) if shape.is_fully_defined() else None, known


def concat_shape(prefix, suffix, static=False):
    """The shape `prefix + suffix` as a tensor, or as a list of what is known."""
    first, first_known = _part(prefix, "prefix")
    second, second_known = _part(suffix, "suffix")
    if static:
        shape = as_shape(first_known).concatenate(second_known)
        return shape.as_list() if shape.ndims is not None else None
    if first is None or second is None:
        raise ValueError(f"Provided a prefix or suffix of None: {prefix} and {suffix}")
    return tf.concat((first, second), 0)


def zero_state_tensors(state_size, batch_size, dtype):
    """Zeros in the structure of a state."""

    def zeros(size):
        state = tf.zeros(concat_shape(batch_size, size), dtype=dtype)
        state.set_shape(concat_shape(batch_size, size, static=True))
        return state

    return nest.map_structure(zeros, state_size)


@export("nn.rnn_cell.RNNCell", "contrib.rnn.RNNCell")
class RNNCell(Layer):
    """A function of an input and a state that gives an output and the next state."""

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)

    def __call__(self, inputs, state, scope=None):
        if scope is not None:
            with scopes.variable_scope(scope, custom_getter=self._rnn_get_variable) as entered:
                return super().__call__(inputs, state, scope=entered)
        entered = self.__dict__.get("rnncell_scope")
        if entered is None:
            entered = scopes.variable_scope(scopes.get_variable_scope(), custom_getter=self._rnn_get_variable)
            self.rnncell_scope = entered
        with entered:
            return super().__call__(inputs, state)

    def _rnn_get_variable(self, getter, *args, **kwargs):
        """Keeps the variables that `call` makes."""
        variable = getter(*args, **kwargs)
        trainable = variable in tf.trainable_variables() if not isinstance(variable, PartitionedVariable) else all(part in tf.trainable_variables() for part in variable)
        kept = self._trainable_weights if trainable else self._non_trainable_weights
        if trainable and not any(variable is known for known in kept):
            kept.append(variable)
        elif not trainable and not any(variable is known for known in kept):
            kept.append(variable)
        return variable

    @property
    def state_size(self):
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self):
        raise NotImplementedError("Abstract method")

    def build(self, _):
        """Cells that make their variables in `call` build nothing."""

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        if inputs is not None:
            inputs = ops.convert_to_tensor(inputs, name="inputs")
            if batch_size is not None and isinstance(batch_size, int) and inputs.shape.as_list()[0] not in (None, batch_size):
                raise ValueError(f"batch size from input tensor is different from the input param. Input tensor batch: {inputs.shape.as_list()[0]}, batch_size: {batch_size}")
            if dtype is not None and inputs.dtype != dtype:
                raise ValueError(f"dtype from input tensor is different from the input param. Input tensor dtype: {inputs.dtype}, dtype: {dtype}")
            batch_size = inputs.shape.as_list()[0] or tf.shape(inputs)[0]
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(f"batch_size and dtype cannot be None while constructing initial state: batch_size={batch_size}, dtype={dtype}")
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size, dtype):
        """A state of zeros."""
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return zero_state_tensors(self.state_size, batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell that makes its variables as layers do."""

    def __call__(self, inputs, state, scope=None, *args, **kwargs):
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    def _input_depth(self, inputs_shape):
        depth = TensorShape(inputs_shape).as_list()[-1]
        if depth is None:
            raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {inputs_shape}")
        return depth

    def _bias_zeros(self):
        return initializers.Zeros(dtype=self.dtype)


@export("nn.rnn_cell.BasicRNNCell", "contrib.rnn.BasicRNNCell")
class BasicRNNCell(LayerRNNCell):
    """The simplest cell: `output = state = activation(inputs * W + state * U + b)`."""

    def __init__(self, num_units, activation=None, reuse=None, name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = activation or tf.tanh

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        depth = self._input_depth(inputs_shape)
        self._kernel = self.add_variable(_KERNEL, shape=[depth + self._num_units, self._num_units])
        self._bias = self.add_variable(_BIAS, shape=[self._num_units], initializer=self._bias_zeros())
        self.built = True

    def call(self, inputs, state):
        gate_inputs = gen.MatMul(tf.concat([inputs, state], 1), self._kernel)
        output = self._activation(tf.nn.bias_add(gate_inputs, self._bias))
        return output, output


@export("nn.rnn_cell.GRUCell", "contrib.rnn.GRUCell")
class GRUCell(LayerRNNCell):
    """The gated recurrent unit."""

    def __init__(self, num_units, activation=None, reuse=None, kernel_initializer=None, bias_initializer=None, name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = activation or tf.tanh
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

    @property
    def state_size(self):
        return self._num_units

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        depth = self._input_depth(inputs_shape)
        shape = [depth + self._num_units, 2 * self._num_units]
        self._gate_kernel = self.add_variable("gates/" + _KERNEL, shape=shape, initializer=self._kernel_initializer)
        ones = initializers.Constant(1.0, dtype=self.dtype)
        self._gate_bias = self.add_variable("gates/" + _BIAS, shape=[2 * self._num_units], initializer=self._bias_initializer if self._bias_initializer is not None else ones)
        shape = [depth + self._num_units, self._num_units]
        self._candidate_kernel = self.add_variable("candidate/" + _KERNEL, shape=shape, initializer=self._kernel_initializer)
        self._candidate_bias = self.add_variable(
            "candidate/" + _BIAS, shape=[self._num_units], initializer=self._bias_initializer if self._bias_initializer is not None else self._bias_zeros()
        )
        self.built = True

    def call(self, inputs, state):
        gates = gen.MatMul(tf.concat([inputs, state], 1), self._gate_kernel)
        value = tf.sigmoid(tf.nn.bias_add(gates, self._gate_bias))
        reset, update = tf.split(value=value, num_or_size_splits=2, axis=1)
        reset_state = reset * state
        candidate = gen.MatMul(tf.concat([inputs, reset_state], 1), self._candidate_kernel)
        candidate = self._activation(tf.nn.bias_add(candidate, self._candidate_bias))
        new_state = update * state + (1 - update) * candidate
        return new_state, new_state


_LSTMStateTuple = collections.namedtuple("LSTMStateTuple", ("c", "h"))


@export("nn.rnn_cell.LSTMStateTuple", "contrib.rnn.LSTMStateTuple")
class LSTMStateTuple(_LSTMStateTuple):
    """The state of an LSTM: the cell's and the output."""

    __slots__ = ()

    @property
    def dtype(self):
        c, h = self
        if c.dtype != h.dtype:
            raise TypeError(f"Inconsistent internal state: {c.dtype} vs {h.dtype}")
        return c.dtype


@export("nn.rnn_cell.BasicLSTMCell", "contrib.rnn.BasicLSTMCell")
class BasicLSTMCell(LayerRNNCell):
    """An LSTM without peepholes, projection and clipping."""

    def __init__(self, num_units, forget_bias=1.0, state_is_tuple=True, activation=None, reuse=None, name=None, dtype=None, **kwargs):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._forget_bias, self._state_is_tuple = num_units, forget_bias, state_is_tuple
        self._activation = activation or tf.tanh

    @property
    def state_size(self):
        return LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        depth = self._input_depth(inputs_shape)
        self._kernel = self.add_variable(_KERNEL, shape=[depth + self._num_units, 4 * self._num_units])
        self._bias = self.add_variable(_BIAS, shape=[4 * self._num_units], initializer=self._bias_zeros())
        self.built = True

    def call(self, inputs, state):
        one = constant.constant(1, dtype=dtypes.int32)
        if self._state_is_tuple:
            c, h = state
        else:
            c, h = tf.split(value=state, num_or_size_splits=2, axis=one)
        gate_inputs = tf.nn.bias_add(gen.MatMul(tf.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = tf.split(value=gate_inputs, num_or_size_splits=4, axis=one)
        forget_bias = constant.constant(self._forget_bias, dtype=f.dtype)
        new_c = gen.Add(gen.Mul(c, tf.sigmoid(gen.Add(f, forget_bias))), gen.Mul(tf.sigmoid(i), self._activation(j)))
        new_h = gen.Mul(self._activation(new_c), tf.sigmoid(o))
        state = LSTMStateTuple(new_c, new_h) if self._state_is_tuple else tf.concat([new_c, new_h], 1)
        return new_h, state


@export("nn.rnn_cell.LSTMCell", "contrib.rnn.LSTMCell")
class LSTMCell(LayerRNNCell):
    """An LSTM with peepholes, a projection and clipping where asked."""

    def __init__(
        self,
        num_units,
        use_peepholes=False,
        cell_clip=None,
        initializer=None,
        num_proj=None,
        proj_clip=None,
        num_unit_shards=None,
        num_proj_shards=None,
        forget_bias=1.0,
        state_is_tuple=True,
        activation=None,
        reuse=None,
        name=None,
        dtype=None,
        **kwargs,
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units, self._use_peepholes, self._cell_clip, self._initializer = num_units, use_peepholes, cell_clip, initializer
        self._num_proj, self._proj_clip = num_proj, proj_clip
        self._num_unit_shards, self._num_proj_shards = num_unit_shards, num_proj_shards
        self._forget_bias, self._state_is_tuple = forget_bias, state_is_tuple
        self._activation = activation or tf.tanh
        self._output_size = num_proj or num_units

    @property
    def state_size(self):
        sizes = LSTMStateTuple(self._num_units, self._output_size)
        return sizes if self._state_is_tuple else sizes.c + sizes.h

    @property
    def output_size(self):
        return self._output_size

    def build(self, inputs_shape):
        depth = self._input_depth(inputs_shape)
        partitioner = tf.fixed_size_partitioner(self._num_unit_shards) if self._num_unit_shards is not None else None
        self._kernel = self.add_variable(_KERNEL, shape=[depth + self._output_size, 4 * self._num_units], initializer=self._initializer, partitioner=partitioner)
        bias_initializer = None if self.dtype is None else self._bias_zeros()
        self._bias = self.add_variable(_BIAS, shape=[4 * self._num_units], initializer=bias_initializer)
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_variable(f"w_{gate}_diag", shape=[self._num_units], initializer=self._initializer) for gate in "fio"
            )
        if self._num_proj is not None:
            partitioner = tf.fixed_size_partitioner(self._num_proj_shards) if self._num_proj_shards is not None else None
            self._proj_kernel = self.add_variable("projection/" + _KERNEL, shape=[self._num_units, self._num_proj], initializer=self._initializer, partitioner=partitioner)
        self.built = True

    def call(self, inputs, state):
        if self._state_is_tuple:
            c_prev, m_prev = state
        else:
            c_prev = tf.slice(state, [0, 0], [-1, self._num_units])
            m_prev = tf.slice(state, [0, self._num_units], [-1, self._output_size])
        if inputs.shape.with_rank(2).as_list()[1] is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        matrix = gen.MatMul(tf.concat([inputs, m_prev], 1), self._kernel)
        matrix = tf.nn.bias_add(matrix, self._bias)
        i, j, f, o = tf.split(value=matrix, num_or_size_splits=4, axis=1)
        if self._use_peepholes:
            c = tf.sigmoid(f + self._forget_bias + self._w_f_diag * c_prev) * c_prev + tf.sigmoid(i + self._w_i_diag * c_prev) * self._activation(j)
        else:
            c = tf.sigmoid(f + self._forget_bias) * c_prev + tf.sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            c = tf.clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            m = tf.sigmoid(o + self._w_o_diag * c) * self._activation(c)
        else:
            m = tf.sigmoid(o) * self._activation(c)
        if self._num_proj is not None:
            m = gen.MatMul(m, self._proj_kernel)
            if self._proj_clip is not None:
                m = tf.clip_by_value(m, -self._proj_clip, self._proj_clip)
        return m, LSTMStateTuple(c, m) if self._state_is_tuple else tf.concat([c, m], 1)


@export("nn.rnn_cell.MultiRNNCell", "contrib.rnn.MultiRNNCell")
class MultiRNNCell(RNNCell):
    """Cells on top of each other."""

    def __init__(self, cells, state_is_tuple=True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in self._cells):
            raise ValueError(f"Some cells return tuples of states, but the flag state_is_tuple is not set.  State sizes are: {[cell.state_size for cell in self._cells]}")

    @property
    def state_size(self):
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self):
        return self._cells[-1].output_size

    def zero_state(self, batch_size, dtype):
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            if self._state_is_tuple:
                return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)
            return super().zero_state(batch_size, dtype)

    def call(self, inputs, state):
        position, current, states = 0, inputs, []
        for index, cell in enumerate(self._cells):
            with scopes.variable_scope(f"cell_{index}"):
                if self._state_is_tuple:
                    if not nest.is_nested(state):
                        raise ValueError(f"Expected state to be a tuple of length {len(self.state_size)}, but received: {state}")
                    own = state[index]
                else:
                    own = tf.slice(state, [0, position], [-1, cell.state_size])
                    position += cell.state_size
                current, new_state = cell(current, own)
                states.append(new_state)
        return current, tuple(states) if self._state_is_tuple else tf.concat(states, 1)
