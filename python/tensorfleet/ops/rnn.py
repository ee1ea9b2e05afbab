"""Recurrent networks over sequences: `tf.nn.dynamic_rnn`, `tf.nn.static_rnn` and the bidirectional ones."""

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.platform import nest


def _concat_shape(prefix, suffix, static=False):
    from tensorfleet.modeling.rnn_cell import concat_shape

    return concat_shape(prefix, suffix, static)


def _transpose_batch_time(x):
    """Swaps the first two dimensions."""
    shape = x.shape
    if shape.ndims is not None and shape.ndims < 2:
        return x
    rank = tf.rank(x)
    swapped = tf.transpose(x, tf.concat(([1, 0], tf.range(2, rank)), axis=0))
    swapped.set_shape(TensorShape([shape.as_list()[1], shape.as_list()[0]]).concatenate(shape[2:]) if shape.ndims is not None else None)
    return swapped


def _batch_size(flat_input):
    """The batch's size: a number if it is known, else a tensor."""
    for value in flat_input:
        shape = value.shape
        if shape.ndims is None:
            continue
        if shape.ndims < 2:
            raise ValueError(f"Expected input tensor {value.name} to have rank at least 2")
        if shape.as_list()[1] is not None:
            return shape.as_list()[1]
    return tf.shape(flat_input[0])[1]


def _state_dtype(explicit, state):
    if explicit is not None:
        return explicit
    if nest.is_nested(state):
        found = [element.dtype for element in nest.flatten(state)]
        if not found:
            raise ValueError("Unable to infer dtype from empty state.")
        if any(dtype != found[0] for dtype in found):
            raise ValueError("State has tensors of different inferred_dtypes. Unable to infer a single representative dtype.")
        return found[0]
    return state.dtype


def _check_cell(cell):
    if not hasattr(cell, "output_size") or not hasattr(cell, "state_size") or not callable(cell):
        raise TypeError(f"The argument 'cell' ({cell}) is not an RNNCell: 'output_size' property or 'state_size' property or 'zero_state' method is missing.")


def _size_shape(size):
    if isinstance(size, ops.Tensor):
        return constant.constant_value_as_shape(size)
    return TensorShape(size)


def _rnn_step(time, sequence_length, min_length, max_length, zero_output, state, call_cell, skip_conditionals=False):
    """One step; where a sequence has ended the output is zero and the state stays."""
    flat_state = nest.flatten(state)
    flat_zero_output = nest.flatten(zero_output)
    zero_output_structure = zero_output

    ended = time >= sequence_length

    def copy_some(new_output, new_state):
        def copy_one(old, new):
            if old.shape.ndims == 0:
                return new
            with ops.colocate_with(new):
                return tf.where(ended, old, new)

        new_output = [copy_one(old, new) for old, new in zip(flat_zero_output, new_output)]
        new_state = [copy_one(old, new) for old, new in zip(flat_state, new_state)]
        return new_output + new_state

    def maybe_copy():
        new_output, new_state = call_cell()
        nest.assert_same_structure(zero_output_structure, new_output)
        nest.assert_same_structure(state, new_state)
        new_output, new_state = nest.flatten(new_output), nest.flatten(new_state)
        return tf.cond(time < min_length, lambda: new_output + new_state, lambda: copy_some(new_output, new_state))

    if skip_conditionals:
        new_output, new_state = call_cell()
        nest.assert_same_structure(zero_output_structure, new_output)
        nest.assert_same_structure(state, new_state)
        final = copy_some(nest.flatten(new_output), nest.flatten(new_state))
    else:
        final = tf.cond(time >= max_length, lambda: flat_zero_output + flat_state, maybe_copy)
    if len(final) != len(flat_zero_output) + len(flat_state):
        raise ValueError("Internal error: state and output were not concatenated correctly.")
    outputs, states = final[: len(flat_zero_output)], final[len(flat_zero_output) :]
    for output, known in zip(outputs, flat_zero_output):
        output.set_shape(known.shape)
    for substate, known in zip(states, flat_state):
        substate.set_shape(known.shape)
    return nest.pack_sequence_as(zero_output_structure, outputs), nest.pack_sequence_as(state, states)


@export("nn.dynamic_rnn")
def dynamic_rnn(cell, inputs, sequence_length=None, initial_state=None, dtype=None, parallel_iterations=None, swap_memory=False, time_major=False, scope=None):
    """Runs a cell over sequences in a loop of the graph; gives all outputs and the last state."""
    _check_cell(cell)
    with scopes.variable_scope(scope or "rnn") as varscope:
        if varscope.caching_device is None and _outside_loops():
            varscope.set_caching_device(lambda op: op.device)
        flat_input = nest.flatten(inputs)
        if not time_major:
            flat_input = [ops.convert_to_tensor(value) for value in flat_input]
            flat_input = tuple(_transpose_batch_time(value) for value in flat_input)
        parallel_iterations = parallel_iterations or 32
        if sequence_length is not None:
            sequence_length = tf.cast(sequence_length, dtypes.int32)
            if sequence_length.shape.ndims not in (None, 1):
                raise ValueError(f"sequence_length must be a vector of length batch_size, but saw shape: {sequence_length.shape}")
            sequence_length = tf.identity(sequence_length, name="sequence_length")
        batch_size = _batch_size(flat_input)
        state = _first_state(cell, initial_state, batch_size, dtype)
        if sequence_length is not None:
            with ops.control_dependencies([_assert_shape(sequence_length, [batch_size])]):
                sequence_length = tf.identity(sequence_length, name="CheckSeqLen")
        inputs = nest.pack_sequence_as(structure=inputs, flat_sequence=list(flat_input))
        outputs, final_state = _dynamic_loop(cell, inputs, state, parallel_iterations, swap_memory, sequence_length, dtype)
        if not time_major:
            outputs = nest.map_structure(_transpose_batch_time, outputs)
        return outputs, final_state


def _outside_loops():
    return ops.get_default_graph()._get_control_flow_context() is None


def _first_state(cell, initial_state, batch_size, dtype):
    if initial_state is not None:
        return initial_state
    if not dtype:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def _assert_shape(x, shape):
    actual = tf.shape(x)
    wanted = tf.stack(shape)
    return tf.Assert(tf.reduce_all(gen.Equal(actual, wanted)), [f"Expected shape for Tensor {x.name} is ", wanted, " but saw shape: ", actual])


def _dynamic_loop(cell, inputs, initial_state, parallel_iterations, swap_memory, sequence_length, dtype):
    state = initial_state
    flat_input = nest.flatten(inputs)
    flat_output_size = nest.flatten(cell.output_size)
    time_steps = tf.shape(flat_input[0])[0]
    batch_size = _batch_size(flat_input)
    input_shapes = tuple(value.shape.with_rank_at_least(3) for value in flat_input)
    const_time_steps, const_batch_size = input_shapes[0].as_list()[:2]
    for shape in input_shapes:
        if not shape[2:].is_fully_defined():
            raise ValueError("Input size (depth of inputs) must be accessible via shape inference, but saw value None.")
        if shape.as_list()[0] != const_time_steps:
            raise ValueError("Time steps is not the same for all the elements in the input in a batch.")
        if shape.as_list()[1] != const_batch_size:
            raise ValueError("Batch_size is not the same for all the elements in the input.")
    state_dtype = _state_dtype(dtype, state)
    flat_zero_output = [tf.zeros(tf.stack(_concat_shape(batch_size, size)), state_dtype) for size in flat_output_size]
    zero_output = nest.pack_sequence_as(structure=cell.output_size, flat_sequence=flat_zero_output)
    min_length = max_length = None
    if sequence_length is not None:
        min_length = tf.reduce_min(sequence_length)
        max_length = tf.reduce_max(sequence_length)
    else:
        max_length = time_steps
    time = constant.constant(0, dtype=dtypes.int32, name="time")
    with ops.name_scope("dynamic_rnn") as scope:
        base_name = scope

    def array(name, element_shape, element_dtype):
        return tf.TensorArray(dtype=element_dtype, size=time_steps, element_shape=element_shape, tensor_array_name=base_name + name)

    output_ta = tuple(array(f"output_{i}", TensorShape([const_batch_size]).concatenate(_size_shape(size)), state_dtype) for i, size in enumerate(flat_output_size))
    input_ta = tuple(array(f"input_{i}", value.shape[1:], value.dtype) for i, value in enumerate(flat_input))
    input_ta = tuple(ta.unstack(value) for ta, value in zip(input_ta, flat_input))

    def step(time, output_ta_t, state):
        values = tuple(ta.read(time) for ta in input_ta)
        for value, shape in zip(values, input_shapes):
            value.set_shape(shape[1:])
        input_t = nest.pack_sequence_as(structure=inputs, flat_sequence=list(values))
        if sequence_length is not None:
            output, new_state = _rnn_step(time, sequence_length, min_length, max_length, zero_output, state, lambda: cell(input_t, state), skip_conditionals=True)
        else:
            output, new_state = cell(input_t, state)
        written = tuple(ta.write(time, out) for ta, out in zip(output_ta_t, nest.flatten(output)))
        return time + 1, written, new_state

    loop_bound = gen.Minimum(time_steps, gen.Maximum(1, max_length))
    _, final_ta, final_state = tf.while_loop(
        cond=lambda time, *_: time < loop_bound,
        body=step,
        loop_vars=(time, output_ta, state),
        parallel_iterations=parallel_iterations,
        maximum_iterations=time_steps,
        swap_memory=swap_memory,
    )
    final_outputs = tuple(ta.stack() for ta in final_ta)
    for output, size in zip(final_outputs, flat_output_size):
        output.set_shape(_concat_shape([const_time_steps, const_batch_size], size, static=True))
    return nest.pack_sequence_as(structure=cell.output_size, flat_sequence=list(final_outputs)), final_state


@export("nn.bidirectional_dynamic_rnn")
def bidirectional_dynamic_rnn(
    cell_fw, cell_bw, inputs, sequence_length=None, initial_state_fw=None, initial_state_bw=None, dtype=None, parallel_iterations=None, swap_memory=False, time_major=False, scope=None
):
    """Two cells over sequences: one forwards, one backwards."""
    _check_cell(cell_fw)
    _check_cell(cell_bw)
    keywords = {"sequence_length": sequence_length, "dtype": dtype, "parallel_iterations": parallel_iterations, "swap_memory": swap_memory, "time_major": time_major}
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def reverse(value):
        if sequence_length is not None:
            return tf.reverse_sequence(input=value, seq_lengths=sequence_length, seq_axis=time_axis, batch_axis=batch_axis)
        return tf.reverse(value, axis=[time_axis])

    with scopes.variable_scope(scope or "bidirectional_rnn"):
        with scopes.variable_scope("fw") as fw_scope:
            output_fw, state_fw = dynamic_rnn(cell=cell_fw, inputs=inputs, initial_state=initial_state_fw, scope=fw_scope, **keywords)
        with scopes.variable_scope("bw") as bw_scope:
            reversed_inputs = nest.map_structure(reverse, inputs)
            tmp, state_bw = dynamic_rnn(cell=cell_bw, inputs=reversed_inputs, initial_state=initial_state_bw, scope=bw_scope, **keywords)
    output_bw = nest.map_structure(reverse, tmp)
    return (output_fw, output_bw), (state_fw, state_bw)
