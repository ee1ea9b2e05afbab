"""`tf.nn.rnn_cell`: wrappers of cells."""

import hashlib

import tensorfleet as tf
from tensorfleet.framework import constant, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.modeling.rnn_cell import LSTMStateTuple, RNNCell, concat_shape
from tensorfleet.platform import nest


class _Wrapper(RNNCell):
    """A cell around another."""

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        if not hasattr(cell, "output_size") or not hasattr(cell, "state_size") or not callable(cell):
            raise TypeError(f"The argument 'cell' ({cell}) is not an RNNCell: 'output_size' property or 'state_size' property or 'zero_state' method is missing.")
        self.cell = cell

    @property
    def wrapped_cell(self):
        return self.cell

    @property
    def state_size(self):
        return self.cell.state_size

    @property
    def output_size(self):
        return self.cell.output_size

    def zero_state(self, batch_size, dtype):
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)

    def __call__(self, inputs, state, scope=None):
        """Calls the cell as it is; a wrapper has no scope of its own."""
        return self._call_wrapped(inputs, state, scope)

    def _call_wrapped(self, inputs, state, scope):
        raise NotImplementedError

    def _of_cell(self, inputs, state, scope):
        return self.cell(inputs, state) if scope is None else self.cell(inputs, state, scope=scope)


def _default_state_filter(substate):
    """Drops the output part of an LSTM's state only."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    if type(substate).__name__ == "TensorArray":
        return False
    return True


@export("nn.rnn_cell.DropoutWrapper", "contrib.rnn.DropoutWrapper")
class DropoutWrapper(_Wrapper):
    """Dropout of a cell's inputs, outputs and state."""

    def __init__(
        self,
        cell,
        input_keep_prob=1.0,
        output_keep_prob=1.0,
        state_keep_prob=1.0,
        variational_recurrent=False,
        input_size=None,
        dtype=None,
        seed=None,
        dropout_state_filter_visitor=None,
        **kwargs,
    ):
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._dropout_state_filter = dropout_state_filter_visitor or _default_state_filter
        with ops.name_scope("DropoutWrapperInit"):

            def checked(probability, name):
                tensor = ops.convert_to_tensor(probability)
                known = constant.constant_value(tensor)
                if known is None:
                    return tensor
                if not 0 < known <= 1:
                    raise ValueError(f"Parameter {name} must be between 0 and 1: {known:g}")
                return float(known)

            self._input_keep_prob = checked(input_keep_prob, "input_keep_prob")
            self._state_keep_prob = checked(state_keep_prob, "state_keep_prob")
            self._output_keep_prob = checked(output_keep_prob, "output_keep_prob")
            self._variational_recurrent, self._input_size, self._seed = variational_recurrent, input_size, seed
            self._noises = {}
            if variational_recurrent:
                self._make_noises(dtype, input_size)

    def _make_noises(self, dtype, input_size):
        """One pattern for all steps of a sequence."""
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")

        def noise(size, salt, index):
            shape = concat_shape([1], TensorShape(size).as_list())
            return tf.random_uniform(shape, seed=self._gen_seed(salt, index), dtype=dtype)

        if not isinstance(self._input_keep_prob, float) or self._input_keep_prob < 1.0:
            if input_size is None:
                raise ValueError("When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be provided")
            self._noises["input"] = [noise(size, "input", index) for index, size in enumerate(nest.flatten(input_size))]
        self._noises["state"] = [noise(size, "state", index) for index, size in enumerate(nest.flatten(self.cell.state_size))]
        self._noises["output"] = [noise(size, "output", index) for index, size in enumerate(nest.flatten(self.cell.output_size))]

    def _gen_seed(self, salt_prefix, index):
        if self._seed is None:
            return None
        text = f"{self._seed}{salt_prefix}_{index}".encode()
        return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _dropout(self, values, salt_prefix, keep_prob, filtered=None):
        flat = nest.flatten(values)
        kept = [True] * len(flat) if filtered is None else _spread(filtered, values)
        dropped = []
        for index, (value, chosen) in enumerate(zip(flat, kept)):
            if not chosen:
                dropped.append(value)
            elif self._variational_recurrent:
                dropped.append(self._masked(value, self._noises[salt_prefix][index], keep_prob))
            else:
                dropped.append(tf.nn.dropout(value, rate=1.0 - keep_prob, seed=self._gen_seed(salt_prefix, index)))
        return nest.pack_sequence_as(values, dropped)

    def _masked(self, value, noise, keep_prob):
        binary = tf.floor(keep_prob + noise)
        masked = tf.div(value, keep_prob) * binary
        masked.set_shape(value.shape)
        return masked

    def _should(self, probability):
        return not isinstance(probability, float) or probability < 1

    def _call_wrapped(self, inputs, state, scope):
        if self._should(self._input_keep_prob):
            inputs = self._dropout(inputs, "input", self._input_keep_prob)
        output, new_state = self._of_cell(inputs, state, scope)
        if self._should(self._state_keep_prob):
            new_state = self._dropout(new_state, "state", self._state_keep_prob, self._filter(new_state))
        if self._should(self._output_keep_prob):
            output = self._dropout(output, "output", self._output_keep_prob)
        return output, new_state

    def _filter(self, state):
        if isinstance(state, (tuple, list)) and not isinstance(state, LSTMStateTuple):
            return [self._filter(part) for part in state]
        return self._dropout_state_filter(state)


def _spread(filtered, values):
    """One answer for each leaf of `values`."""
    if isinstance(filtered, bool):
        return [filtered] * len(nest.flatten(values))
    answers = []
    for part, value in zip(filtered, values):
        answers += _spread(part, value)
    return answers


@export("nn.rnn_cell.ResidualWrapper", "contrib.rnn.ResidualWrapper")
class ResidualWrapper(_Wrapper):
    """Adds a cell's inputs to its outputs."""

    def __init__(self, cell, residual_fn=None, **kwargs):
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _call_wrapped(self, inputs, state, scope):
        outputs, new_state = self._of_cell(inputs, state, scope)

        def added(one, other):
            nest.assert_same_structure(one, other)
            nest.map_structure(lambda x, y: x.shape.assert_is_compatible_with(y.shape), one, other)
            return nest.map_structure(lambda x, y: x + y, one, other)

        return (self._residual_fn or added)(inputs, outputs), new_state


@export("nn.rnn_cell.DeviceWrapper", "contrib.rnn.DeviceWrapper")
class DeviceWrapper(_Wrapper):
    """Runs a cell on a device."""

    def __init__(self, cell, device, **kwargs):
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size, dtype):
        with ops.name_scope(type(self).__name__ + "ZeroState", values=[batch_size]):
            with ops.device(self._device):
                return self.cell.zero_state(batch_size, dtype)

    def _call_wrapped(self, inputs, state, scope):
        with ops.device(self._device):
            return self._of_cell(inputs, state, scope)
