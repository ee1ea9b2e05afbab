"""Recurrent networks that are unrolled in the graph, and loops that a program steers: `tf.nn.static_rnn`, `tf.nn.raw_rnn`."""

import tensorfleet as tf
from tensorfleet.framework import constant, dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.ops import variable_scope as scopes
from tensorfleet.ops.rnn import _check_cell, _concat_shape, _first_state, _outside_loops, _rnn_step, _size_shape, _state_dtype
from tensorfleet.platform import nest


def _cached(varscope):
    """Variables are read once for all steps."""
    if varscope.caching_device is None and _outside_loops():
        varscope.set_caching_device(lambda op: op.device)


def _fixed_batch_size(inputs):
    first = inputs
    while nest.is_nested(first):
        first = first[0]
    if first.shape.ndims == 1:
        return first, first.shape.with_rank_at_least(1).dims[0]
    fixed = first.shape.with_rank_at_least(2).dims[0]
    for value in nest.flatten(inputs):
        shape = value.shape.with_rank_at_least(2)
        fixed = fixed.merge_with(shape.dims[0])
        for index, size in enumerate(shape.as_list()[1:]):
            if size is None:
                raise ValueError(f"Input size (dimension {index} of inputs) must be accessible via shape inference, but saw value None.")
    return first, fixed


@export("nn.static_rnn", "contrib.rnn.static_rnn")
def static_rnn(cell, inputs, initial_state=None, dtype=None, sequence_length=None, scope=None):
    """Runs a cell over a list of inputs; gives the list of outputs and the last state."""
    _check_cell(cell)
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    outputs = []
    with scopes.variable_scope(scope or "rnn") as varscope:
        _cached(varscope)
        first, fixed = _fixed_batch_size(inputs)
        batch_size = fixed.value if fixed.value else tf.shape(first)[0]
        state = _first_state(cell, initial_state, batch_size, dtype)
        if sequence_length is not None:
            sequence_length = ops.convert_to_tensor(sequence_length, name="sequence_length")
            if sequence_length.shape.ndims not in (None, 1):
                raise ValueError("sequence_length must be a vector of length batch_size")

            def zeros(size):
                output = tf.zeros(tf.stack(_concat_shape(batch_size, size)), _state_dtype(dtype, state))
                output.set_shape(_concat_shape(fixed.value, size, static=True))
                return output

            flat_zeros = [zeros(size) for size in nest.flatten(cell.output_size)]
            zero_output = nest.pack_sequence_as(structure=cell.output_size, flat_sequence=flat_zeros)
            sequence_length = tf.cast(sequence_length, dtypes.int32)
            min_length = tf.reduce_min(sequence_length)
            max_length = tf.reduce_max(sequence_length)
        for time, value in enumerate(inputs):
            if time > 0:
                varscope.reuse_variables()
            if sequence_length is not None:
                output, state = _rnn_step(time, sequence_length, min_length, max_length, zero_output, state, lambda value=value, state=state: cell(value, state))
            else:
                output, state = cell(value, state)
            outputs.append(output)
        return outputs, state


@export("nn.static_state_saving_rnn", "contrib.rnn.static_state_saving_rnn")
def static_state_saving_rnn(cell, inputs, state_saver, state_name, sequence_length=None, scope=None):
    """`static_rnn` whose first state comes from a saver that gets the last one."""
    size = cell.state_size
    is_tuple, name_is_tuple = nest.is_nested(size), nest.is_nested(state_name)
    if is_tuple != name_is_tuple:
        raise ValueError(f"state_name should be the same type as cell.state_size.  state_name: {state_name}, cell.state_size: {size}")
    if is_tuple:
        names, sizes = nest.flatten(state_name), nest.flatten(size)
        if len(names) != len(sizes):
            raise ValueError("#elems(state_name) != #elems(state_size): %d vs. %d" % (len(names), len(sizes)))
        initial_state = nest.pack_sequence_as(structure=size, flat_sequence=[state_saver.state(name) for name in names])
    else:
        initial_state = state_saver.state(state_name)
    outputs, state = static_rnn(cell, inputs, initial_state=initial_state, sequence_length=sequence_length, scope=scope)
    if is_tuple:
        saved = [state_saver.save_state(name, substate) for name, substate in zip(nest.flatten(state_name), nest.flatten(state))]
    else:
        saved = [state_saver.save_state(state_name, state)]
    with ops.control_dependencies(saved):
        last = nest.map_structure(tf.identity, outputs[-1])
    outputs[-1] = last
    if is_tuple:
        with ops.control_dependencies([last] if isinstance(last, ops.Tensor) else nest.flatten(last)):
            state = nest.map_structure(tf.identity, state)
    return outputs, state


def _reverse_seq(input_seq, lengths):
    if lengths is None:
        return list(reversed(input_seq))
    flat_input = tuple(nest.flatten(value) for value in input_seq)
    flat_results = [[] for _ in range(len(input_seq))]
    for sequence in zip(*flat_input):
        known = TensorShape(None)
        for value in sequence:
            known = known.merge_with(value.shape)
            value.set_shape(known)
        joined = tf.stack(sequence)
        reversed_ = tf.reverse_sequence(joined, lengths, 0, 1)
        for part, flat_result in zip(tf.unstack(reversed_), flat_results):
            part.set_shape(known)
            flat_result.append(part)
    return [nest.pack_sequence_as(structure=value, flat_sequence=flat) for value, flat in zip(input_seq, flat_results)]


@export("nn.static_bidirectional_rnn", "contrib.rnn.static_bidirectional_rnn")
def static_bidirectional_rnn(cell_fw, cell_bw, inputs, initial_state_fw=None, initial_state_bw=None, dtype=None, sequence_length=None, scope=None):
    """Two cells over a list of inputs: one forwards, one backwards; outputs side by side."""
    _check_cell(cell_fw)
    _check_cell(cell_bw)
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with scopes.variable_scope(scope or "bidirectional_rnn"):
        with scopes.variable_scope("fw") as fw_scope:
            output_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=fw_scope)
        with scopes.variable_scope("bw") as bw_scope:
            backwards = _reverse_seq(inputs, sequence_length)
            tmp, state_bw = static_rnn(cell_bw, backwards, initial_state_bw, dtype, sequence_length, scope=bw_scope)
    output_bw = _reverse_seq(tmp, sequence_length)
    flat = tuple(tf.concat([fw, bw], 1) for fw, bw in zip(nest.flatten(output_fw), nest.flatten(output_bw)))
    return nest.pack_sequence_as(structure=output_fw, flat_sequence=list(flat)), state_fw, state_bw


@export("nn.raw_rnn")
def raw_rnn(cell, loop_fn, parallel_iterations=None, swap_memory=False, scope=None):
    """A loop over a cell; `loop_fn(time, output, state, loop_state)` says what comes next and what has ended."""
    _check_cell(cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    parallel_iterations = parallel_iterations or 32
    with scopes.variable_scope(scope or "rnn") as varscope:
        _cached(varscope)
        time = constant.constant(0, dtype=dtypes.int32)
        elements_finished, next_input, initial_state, emit_structure, init_loop_state = loop_fn(time, None, None, None)
        flat_input = nest.flatten(next_input)
        loop_state = init_loop_state if init_loop_state is not None else constant.constant(0, dtype=dtypes.int32)
        static_batch_size = flat_input[0].shape.dims[0]
        for value in flat_input:
            static_batch_size = static_batch_size.merge_with(value.shape.dims[0])
        const_batch_size = static_batch_size.value
        batch_size = const_batch_size if const_batch_size is not None else tf.shape(flat_input[0])[0]
        nest.assert_same_structure(initial_state, cell.state_size)
        flat_state = [ops.convert_to_tensor(part) for part in nest.flatten(initial_state)]
        state = nest.pack_sequence_as(structure=initial_state, flat_sequence=flat_state)
        emit_ta, zero_emit = _emit_arrays(cell, emit_structure, flat_state, batch_size, const_batch_size)

        def condition(unused_time, elements_finished, *_):
            return gen.LogicalNot(tf.reduce_all(elements_finished))

        def body(time, elements_finished, current_input, emit_ta, state, loop_state):
            next_output, cell_state = cell(current_input, state)
            nest.assert_same_structure(state, cell_state)
            nest.assert_same_structure(cell.output_size, next_output)
            next_time = time + 1
            next_finished, next_input, next_state, emit_output, next_loop_state = loop_fn(next_time, next_output, cell_state, loop_state)
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(current_input, next_input)
            nest.assert_same_structure(emit_ta, emit_output)
            loop_state = loop_state if next_loop_state is None else next_loop_state

            def copy(current, candidate):
                if not isinstance(current, ops.Tensor) or current.shape.ndims == 0:
                    return candidate
                with ops.colocate_with(candidate):
                    return tf.where(elements_finished, current, candidate)

            emit_output = nest.map_structure(copy, zero_emit, emit_output)
            next_state = nest.map_structure(copy, state, next_state)
            emit_ta = nest.map_structure(lambda array, emit: array.write(time, emit), emit_ta, emit_output)
            elements_finished = gen.LogicalOr(elements_finished, next_finished)
            return next_time, elements_finished, next_input, emit_ta, next_state, loop_state

        returned = tf.while_loop(
            condition, body, loop_vars=[time, elements_finished, next_input, emit_ta, state, loop_state], parallel_iterations=parallel_iterations, swap_memory=swap_memory
        )
        emit_ta, final_state, final_loop_state = returned[-3:]
        return emit_ta, final_state, None if init_loop_state is None else final_loop_state


def _emit_arrays(cell, emit_structure, flat_state, batch_size, const_batch_size):
    if emit_structure is not None:
        flat = nest.flatten(emit_structure)
        sizes = [emit.shape if emit.shape.is_fully_defined() else tf.shape(emit) for emit in flat]
        kinds = [emit.dtype for emit in flat]
    else:
        emit_structure = cell.output_size
        sizes = nest.flatten(emit_structure)
        kinds = [flat_state[0].dtype] * len(sizes)
    arrays = [
        tf.TensorArray(
            dtype=kind, dynamic_size=True, element_shape=TensorShape([const_batch_size]).concatenate(_size_shape(size)), size=0, name=f"rnn_output_{index}"
        )
        for index, (kind, size) in enumerate(zip(kinds, sizes))
    ]
    zeros = [tf.zeros(_concat_shape(batch_size, size), kind) for size, kind in zip(sizes, kinds)]
    return nest.pack_sequence_as(structure=emit_structure, flat_sequence=arrays), nest.pack_sequence_as(structure=emit_structure, flat_sequence=zeros)
