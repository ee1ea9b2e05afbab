"""`tf.contrib.rnn`: stacks of bidirectional networks, projections, layer normalization."""

import tensorfleet as tf
from tensorfleet.framework import ops
from tensorfleet.framework.export import export
from tensorfleet.modeling import initializers
from tensorfleet.modeling.rnn_cell import LayerRNNCell, LSTMStateTuple, RNNCell
from tensorfleet.ops import rnn, rnn_static
from tensorfleet.ops import variable_scope as scopes

export("contrib.rnn.LayerRNNCell")(LayerRNNCell)


@export("contrib.rnn.transpose_batch_time")
def transpose_batch_time(x):
    """Swaps the first two dimensions."""
    return rnn._transpose_batch_time(x)


@export("contrib.rnn.best_effort_input_batch_size")
def best_effort_input_batch_size(flat_input):
    """The batch's size: a number if it is known, else a tensor."""
    return rnn._batch_size(flat_input)


def _check_stacks(cells_fw, cells_bw, initial_states_fw, initial_states_bw):
    for cells, name in ((cells_fw, "cells_fw"), (cells_bw, "cells_bw")):
        if cells is None:
            raise ValueError(f"Must specify at least one {name[6:]} cell for BidirectionalRNN.")
        if not isinstance(cells, list):
            raise ValueError(f"{name} must be a list of RNNCells (one per layer).")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
    for states, cells, name in ((initial_states_fw, cells_fw, "initial_states_fw"), (initial_states_bw, cells_bw, "initial_states_bw")):
        if states is not None and (not isinstance(states, list) or len(states) != len(cells)):
            raise ValueError(f"{name} must be a list of state tensors (one per layer).")


@export("contrib.rnn.stack_bidirectional_dynamic_rnn")
def stack_bidirectional_dynamic_rnn(
    cells_fw,
    cells_bw,
    inputs,
    initial_states_fw=None,
    initial_states_bw=None,
    dtype=None,
    sequence_length=None,
    parallel_iterations=None,
    time_major=False,
    scope=None,
    swap_memory=False,
):
    """Layers of bidirectional networks; each takes the outputs of both directions of the one before."""
    _check_stacks(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw, layer = [], [], inputs
    with scopes.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw)):
            with scopes.variable_scope(f"cell_{index}"):
                outputs, (state_fw, state_bw) = rnn.bidirectional_dynamic_rnn(
                    cell_fw,
                    cell_bw,
                    layer,
                    initial_state_fw=initial_states_fw[index] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[index] if initial_states_bw else None,
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                layer = tf.concat(outputs, 2)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return layer, tuple(states_fw), tuple(states_bw)


@export("contrib.rnn.stack_bidirectional_rnn")
def stack_bidirectional_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None, initial_states_bw=None, dtype=None, sequence_length=None, scope=None):
    """Unrolled layers of bidirectional networks."""
    _check_stacks(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw, layer = [], [], inputs
    with scopes.variable_scope(scope or "stack_bidirectional_rnn"):
        for index, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw)):
            with scopes.variable_scope(f"cell_{index}") as cell_scope:
                layer, state_fw, state_bw = rnn_static.static_bidirectional_rnn(
                    cell_fw,
                    cell_bw,
                    layer,
                    initial_state_fw=initial_states_fw[index] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[index] if initial_states_bw else None,
                    sequence_length=sequence_length,
                    dtype=dtype,
                    scope=cell_scope,
                )
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return layer, tuple(states_fw), tuple(states_bw)


def _linear(values, size):
    """One dense product of several inputs side by side, with a bias."""
    values = values if isinstance(values, (list, tuple)) else [values]
    depth = sum(value.shape.as_list()[1] for value in values)
    dtype = values[0].dtype
    kernel = scopes.get_variable("kernel", [depth, size], dtype=dtype)
    product = tf.matmul(values[0], kernel) if len(values) == 1 else tf.matmul(tf.concat(values, 1), kernel)
    bias = scopes.get_variable("bias", [size], dtype=dtype, initializer=initializers.Constant(0.0, dtype=dtype))
    return tf.nn.bias_add(product, bias)


class _Around(RNNCell):
    """A cell around another, with variables of its own."""

    def __init__(self, cell, reuse=None):
        super().__init__(_reuse=reuse)
        self._cell = cell

    @property
    def state_size(self):
        return self._cell.state_size

    @property
    def output_size(self):
        return self._cell.output_size

    def zero_state(self, batch_size, dtype):
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self._cell.zero_state(batch_size, dtype)


@export("contrib.rnn.OutputProjectionWrapper")
class OutputProjectionWrapper(_Around):
    """A dense layer after a cell."""

    def __init__(self, cell, output_size, activation=None, reuse=None):
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError("Parameter output_size must be > 0: %d." % output_size)
        self._output_size, self._activation = output_size, activation

    @property
    def output_size(self):
        return self._output_size

    def call(self, inputs, state):
        output, state = self._cell(inputs, state)
        projected = _linear(output, self._output_size)
        return self._activation(projected) if self._activation else projected, state


@export("contrib.rnn.InputProjectionWrapper")
class InputProjectionWrapper(_Around):
    """A dense layer before a cell."""

    def __init__(self, cell, num_proj, activation=None, input_size=None, reuse=None):
        super().__init__(cell, reuse)
        self._num_proj, self._activation = num_proj, activation

    def call(self, inputs, state):
        projected = _linear(inputs, self._num_proj)
        return self._cell(self._activation(projected) if self._activation else projected, state)


@export("contrib.rnn.EmbeddingWrapper")
class EmbeddingWrapper(_Around):
    """An embedding before a cell, whose inputs are ids."""

    def __init__(self, cell, embedding_classes, embedding_size, initializer=None, reuse=None):
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError("Both embedding_classes and embedding_size must be > 0: %d, %d." % (embedding_classes, embedding_size))
        self._classes, self._size, self._initializer = embedding_classes, embedding_size, initializer

    def call(self, inputs, state):
        with ops.device("/cpu:0"):
            initializer = self._initializer or scopes.get_variable_scope().initializer or initializers.RandomUniform(-(3**0.5), 3**0.5)
            dtype = state[0].dtype if isinstance(state, tuple) else state.dtype
            embedding = scopes.get_variable("embedding", [self._classes, self._size], initializer=initializer, dtype=dtype)
            embedded = tf.nn.embedding_lookup(embedding, tf.reshape(inputs, [-1]))
        return self._cell(embedded, state)


@export("contrib.rnn.LayerNormBasicLSTMCell")
class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM whose gates are normalized, with dropout of the candidate."""

    def __init__(
        self, num_units, forget_bias=1.0, input_size=None, activation=None, layer_norm=True, norm_gain=1.0, norm_shift=0.0, dropout_keep_prob=1.0, dropout_prob_seed=None, reuse=None
    ):
        super().__init__(_reuse=reuse)
        self._num_units, self._forget_bias = num_units, forget_bias
        self._activation = activation or tf.tanh
        self._layer_norm, self._norm_gain, self._norm_shift = layer_norm, norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    @property
    def state_size(self):
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        return self._num_units

    def _norm(self, inputs, scope, dtype):
        shape = inputs.shape[-1:]
        with scopes.variable_scope(scope):
            scopes.get_variable("gamma", shape=shape, initializer=initializers.Constant(self._norm_gain), dtype=dtype)
            scopes.get_variable("beta", shape=shape, initializer=initializers.Constant(self._norm_shift), dtype=dtype)
        return tf.contrib.layers.layer_norm(inputs, reuse=True, scope=scope)

    def call(self, inputs, state):
        c, h = state
        arguments = tf.concat([inputs, h], 1)
        dtype = arguments.dtype
        weights = scopes.get_variable("kernel", [arguments.shape.as_list()[-1], 4 * self._num_units], dtype=dtype)
        product = tf.matmul(arguments, weights)
        if not self._layer_norm:
            bias = scopes.get_variable("bias", [4 * self._num_units], dtype=dtype)
            product = tf.nn.bias_add(product, bias)
        i, j, f, o = tf.split(value=product, num_or_size_splits=4, axis=1)
        if self._layer_norm:
            i, j, f, o = (self._norm(gate, name, dtype) for gate, name in ((i, "input"), (j, "transform"), (f, "forget"), (o, "output")))
        g = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            g = tf.nn.dropout(g, self._keep_prob, seed=self._seed)
        new_c = c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * g
        if self._layer_norm:
            new_c = self._norm(new_c, "state", dtype)
        new_h = self._activation(new_c) * tf.sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)
