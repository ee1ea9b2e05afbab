"""Input through queues that threads fill: `tf.train.string_input_producer`, `tf.train.batch` and the others."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.constant import constant, constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.input import queues
from tensorfleet.ops import control_flow

_NO_STRINGS = "string_input_producer requires a non-null input tensor"


def _summary(name, value):
    """A scalar summary of how full a queue is."""
    with ops.name_scope(name) as scope:
        summary = gen.ScalarSummary(scope.rstrip("/"), value, name=scope)
    ops.add_to_collection(ops.GraphKeys.SUMMARIES, summary)


def _add_runner(queue, enqueue_ops, cancel_op=None):
    from tensorfleet.training import queue_runner

    queue_runner.add_queue_runner(queue_runner.QueueRunner(queue, enqueue_ops, cancel_op=cancel_op))


def _local_variable(value, name, validate_shape=True):
    from tensorfleet.ops import variables

    return variables.Variable(
        value, name=name, trainable=False, validate_shape=validate_shape, collections=[ops.GraphKeys.LOCAL_VARIABLES]
    )


@export("train.match_filenames_once", "io.match_filenames_once")
def match_filenames_once(pattern, name=None):
    """The names of the files that match, looked up once."""
    with ops.name_scope(name, "matching_filenames", [pattern]) as name:
        return _local_variable(gen.MatchingFiles(pattern), name, validate_shape=False)


@export("train.limit_epochs")
def limit_epochs(tensor, num_epochs=None, name=None):
    """The tensor, as often as said; then `OutOfRangeError`."""
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError("num_epochs must be > 0 not %d." % num_epochs)
    with ops.name_scope(name, "limit_epochs", [tensor]) as name:
        epochs = _local_variable(constant(0, dtype=dtypes.int64), "epochs")
        with ops.control_dependencies([epochs.count_up_to(num_epochs)]):
            return gen.Identity(tensor, name=name)


@export("train.input_producer")
def input_producer(
    input_tensor, element_shape=None, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, summary_name=None, name=None, cancel_op=None
):
    """A queue with the rows of `input_tensor`."""
    with ops.name_scope(name, "input_producer", [input_tensor]):
        input_tensor = ops.convert_to_tensor(input_tensor, name="input_tensor")
        element_shape = input_tensor.shape[1:].merge_with(element_shape)
        if not element_shape.is_fully_defined():
            raise ValueError("Either `input_tensor` must have a fully defined shape or `element_shape` must be specified")
        if shuffle:
            input_tensor = _shuffled(input_tensor, seed)
        input_tensor = limit_epochs(input_tensor, num_epochs)
        queue = queues.FIFOQueue(
            capacity=capacity, dtypes=[input_tensor.dtype.base_dtype], shapes=[element_shape], shared_name=shared_name, name=name
        )
        _add_runner(queue, [queue.enqueue_many([input_tensor])], cancel_op)
        if summary_name is not None:
            _summary(summary_name, gen.Cast(queue.size(), DstT=dtypes.float32) * (1.0 / capacity))
        return queue


def _shuffled(value, seed):
    from tensorfleet.framework import random_seed

    seed1, seed2 = random_seed.get_seed(seed)
    return gen.RandomShuffle(value, seed=seed1 or 0, seed2=seed2 or 0)


@export("train.string_input_producer")
def string_input_producer(string_tensor, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None, cancel_op=None):
    """A queue with strings, for readers."""
    if not isinstance(string_tensor, Tensor) and not hasattr(string_tensor, "_as_graph_element") and not len(string_tensor):
        raise ValueError(_NO_STRINGS)
    from tensorfleet.ops import array

    with ops.name_scope(name, "input_producer", [string_tensor]) as name:
        string_tensor = ops.convert_to_tensor(string_tensor, dtype=dtypes.string)
        with ops.control_dependencies([control_flow.Assert(gen.Greater(array.size(string_tensor), 0), [_NO_STRINGS])]):
            string_tensor = gen.Identity(string_tensor)
        return input_producer(
            input_tensor=string_tensor,
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            name=name,
            summary_name="fraction_of_%d_full" % capacity,
            cancel_op=cancel_op,
        )


@export("train.range_input_producer")
def range_input_producer(limit, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None):
    """A queue with the numbers below `limit`."""
    from tensorfleet.ops import math

    with ops.name_scope(name, "input_producer", [limit]) as name:
        return input_producer(math.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name, "fraction_of_%d_full" % capacity, name)


@export("train.slice_input_producer")
def slice_input_producer(tensor_list, num_epochs=None, shuffle=True, seed=None, capacity=32, shared_name=None, name=None):
    """The rows of several tensors at the same position, one after the other."""
    from tensorfleet.ops import array, indexing

    with ops.name_scope(name, "input_producer", tensor_list):
        tensor_list = ops.convert_n_to_tensor_or_indexed_slices(tensor_list)
        if not tensor_list:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        queue = range_input_producer(array.shape(tensor_list[0])[0], num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [indexing.gather(tensor, index) for tensor in tensor_list]


# ---- batches


def _tensor_list(tensors):
    return [tensors[key] for key in sorted(tensors, key=str)] if isinstance(tensors, dict) else tensors


def _as_original(original, taken):
    if not isinstance(original, dict):
        return taken
    taken = [taken] if len(original) == 1 else taken
    return {key: taken[index] for index, key in enumerate(sorted(original, key=str))}


def _converted(tensor_list, what):
    if any(isinstance(tensor, SparseTensor) for tensor in tensor_list):
        raise NotImplementedError("tensorfleet has no AddSparseToTensorsMap: batches of SparseTensors need tf.data or dense tensors")
    tensor_list = ops.convert_n_to_tensor_or_indexed_slices(tensor_list)
    if not tensor_list:
        raise ValueError(f"Expected at least one tensor in {what}.")
    return tensor_list


def _keep(keep_input, enqueue_many):
    keep_input = ops.convert_to_tensor(keep_input)
    if keep_input.shape.rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and keep_input.shape.rank == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if keep_input.shape.rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep_input


def _types(lists):
    types = [tensor.dtype for tensor in lists[0]]
    for tensors in lists[1:]:
        others = [tensor.dtype for tensor in tensors]
        if others != types:
            raise TypeError(
                f"Expected types to be consistent: {', '.join(dtype.name for dtype in types)} vs. {', '.join(dtype.name for dtype in others)}."
            )
    return [dtype.base_dtype for dtype in types]


def _element_shapes(lists, shapes, enqueue_many):
    if shapes is not None:
        return shapes
    found = []
    for column in zip(*lists):
        for tensor in column:
            if tensor.shape.rank is None:
                raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
        merged = [TensorShape(tensor.shape.with_rank_at_least(1)[1:] if enqueue_many else tensor.shape) for tensor in column]
        shape = merged[0]
        for other in merged[1:]:
            shape = shape.merge_with(other)
        found.append(shape.as_list())
    return found


def _maybe(keep_input, put, tensors):
    """Puts tensors in if `keep_input` says so."""
    if keep_input.shape.rank == 1:
        chosen = gen.Cast(keep_input, DstT=dtypes.int32)
        return put([gen.DynamicPartition(tensor, chosen, num_partitions=2)[1] for tensor in tensors])
    known = constant_value(keep_input)
    if known is not None:
        return put(tensors) if known else control_flow.no_op()
    return control_flow.cond(keep_input, lambda: put(tensors), control_flow.no_op)


def _batches(lists, original, default_name, make_queue, fullness, options):
    """Queues the elements of several lists, and takes batches out."""
    batch_size, keep_input, num_threads, enqueue_many, shapes, smaller, name = options
    flat = [tensor for tensors in lists for tensor in tensors]
    with ops.name_scope(name, default_name, flat + [keep_input]) as name:
        what = "batch()" if len(lists) == 1 and num_threads else "batch_join()"
        lists = [_converted(tensors, what) for tensors in lists]
        keep_input = _keep(keep_input, enqueue_many)
        queue = make_queue(_types(lists), _element_shapes(lists, shapes, enqueue_many))
        put = queue.enqueue_many if enqueue_many else queue.enqueue
        enqueue_ops = [_maybe(keep_input, put, tensors) for tensors in lists] * (num_threads or 1)
        _add_runner(queue, enqueue_ops)
        fullness(queue)
        taken = queue.dequeue_up_to(batch_size, name=name) if smaller else queue.dequeue_many(batch_size, name=name)
        return _as_original(original, taken)


def _plain(lists, original, default_name, batch_size, keep_input, num_threads, capacity, enqueue_many, shapes, dynamic_pad, smaller, shared_name, name):
    kind = queues.PaddingFIFOQueue if dynamic_pad else queues.FIFOQueue

    def make_queue(types, shapes):
        return kind(capacity=capacity, dtypes=types, shapes=shapes, shared_name=shared_name)

    def fullness(queue):
        _summary("fraction_of_%d_full" % capacity, gen.Cast(queue.size(), DstT=dtypes.float32) * (1.0 / capacity))

    options = (batch_size, keep_input, num_threads, enqueue_many, shapes, smaller, name)
    return _batches(lists, original, default_name, make_queue, fullness, options)


def _shuffling(
    lists, original, default_name, batch_size, capacity, min_after_dequeue, keep_input, num_threads, seed, enqueue_many, shapes, smaller, shared_name, name
):
    if capacity <= min_after_dequeue:
        raise ValueError("capacity %d must be bigger than min_after_dequeue %d." % (capacity, min_after_dequeue))

    def make_queue(types, shapes):
        return queues.RandomShuffleQueue(
            capacity=capacity, min_after_dequeue=min_after_dequeue, seed=seed, dtypes=types, shapes=shapes, shared_name=shared_name
        )

    def fullness(queue):
        spare = capacity - min_after_dequeue
        above = gen.Maximum(0, queue.size() - min_after_dequeue)
        value = gen.Cast(above, DstT=dtypes.float32) * (1.0 / spare)
        _summary("fraction_over_%d_of_%d_full" % (min_after_dequeue, spare), value)

    options = (batch_size, keep_input, num_threads, enqueue_many, shapes, smaller, name)
    return _batches(lists, original, default_name, make_queue, fullness, options)


@export("train.batch")
def batch(
    tensors,
    batch_size,
    num_threads=1,
    capacity=32,
    enqueue_many=False,
    shapes=None,
    dynamic_pad=False,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches of what `tensors` give run after run."""
    return maybe_batch(
        tensors, True, batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name, name
    )


@export("train.maybe_batch")
def maybe_batch(
    tensors,
    keep_input,
    batch_size,
    num_threads=1,
    capacity=32,
    enqueue_many=False,
    shapes=None,
    dynamic_pad=False,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches of those that `keep_input` is true for."""
    lists = [list(_tensor_list(tensors))]
    return _plain(
        lists, tensors, "batch", batch_size, keep_input, num_threads, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name, name
    )


@export("train.batch_join")
def batch_join(
    tensors_list,
    batch_size,
    capacity=32,
    enqueue_many=False,
    shapes=None,
    dynamic_pad=False,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches of what several lists give, each by a thread of its own."""
    return maybe_batch_join(tensors_list, True, batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch, shared_name, name)


@export("train.maybe_batch_join")
def maybe_batch_join(
    tensors_list,
    keep_input,
    batch_size,
    capacity=32,
    enqueue_many=False,
    shapes=None,
    dynamic_pad=False,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches of those that `keep_input` is true for, of several lists."""
    lists = _lists(tensors_list)
    return _plain(
        lists,
        tensors_list[0],
        "batch_join",
        batch_size,
        keep_input,
        None,
        capacity,
        enqueue_many,
        shapes,
        dynamic_pad,
        allow_smaller_final_batch,
        shared_name,
        name,
    )


def _lists(tensors_list):
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    if isinstance(tensors_list[0], dict):
        keys = set(tensors_list[0].keys())
        for tensors in tensors_list[1:]:
            if set(tensors.keys()) != keys:
                raise ValueError("All dictionaries must have the same keys")
    return [list(_tensor_list(tensors)) for tensors in tensors_list]


@export("train.shuffle_batch")
def shuffle_batch(
    tensors,
    batch_size,
    capacity,
    min_after_dequeue,
    num_threads=1,
    seed=None,
    enqueue_many=False,
    shapes=None,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches in random order."""
    return maybe_shuffle_batch(
        tensors, batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name, name
    )


@export("train.maybe_shuffle_batch")
def maybe_shuffle_batch(
    tensors,
    batch_size,
    capacity,
    min_after_dequeue,
    keep_input,
    num_threads=1,
    seed=None,
    enqueue_many=False,
    shapes=None,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches in random order of those that `keep_input` is true for."""
    lists = [list(_tensor_list(tensors))]
    rest = (seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)
    return _shuffling(lists, tensors, "shuffle_batch", batch_size, capacity, min_after_dequeue, keep_input, num_threads, *rest)


@export("train.shuffle_batch_join")
def shuffle_batch_join(
    tensors_list,
    batch_size,
    capacity,
    min_after_dequeue,
    seed=None,
    enqueue_many=False,
    shapes=None,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches in random order of what several lists give."""
    return maybe_shuffle_batch_join(
        tensors_list, batch_size, capacity, min_after_dequeue, True, seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name, name
    )


@export("train.maybe_shuffle_batch_join")
def maybe_shuffle_batch_join(
    tensors_list,
    batch_size,
    capacity,
    min_after_dequeue,
    keep_input,
    seed=None,
    enqueue_many=False,
    shapes=None,
    allow_smaller_final_batch=False,
    shared_name=None,
    name=None,
):
    """Batches in random order of those that `keep_input` is true for, of several lists."""
    rest = (seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name, name)
    return _shuffling(
        _lists(tensors_list), tensors_list[0], "shuffle_batch_join", batch_size, capacity, min_after_dequeue, keep_input, None, *rest
    )
