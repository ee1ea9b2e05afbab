"""Loops over the first dimension: `tf.map_fn`, `tf.scan`, `tf.foldl`, `tf.foldr`."""

from tensorfleet.framework import ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor_shape import Dimension, TensorShape, dimension_value
from tensorfleet.ops.control_flow import while_loop
from tensorfleet.ops.tensor_array import TensorArray
from tensorfleet.platform import nest


def _first_dimension(tensors):
    """The length of the first dimension: a number if it is known."""
    from tensorfleet.ops import array

    shape = tensors[0].shape
    if shape.rank is not None and shape.rank < 1:
        if len(tensors) == 1:
            raise ValueError("elems must be a 1+ dimensional Tensor, not a scalar")
        raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
    return (dimension_value(shape[0]) if shape.rank is not None else None) or array.shape(tensors[0])[0]


def _unstacked(tensors, count, with_shapes=False):
    arrays = [
        TensorArray(
            dtype=tensor.dtype, size=count, dynamic_size=False, element_shape=tensor.shape[1:] if with_shapes else None, infer_shape=True
        )
        for tensor in tensors
    ]
    return [array.unstack(tensor) for array, tensor in zip(arrays, tensors)]


def _set_first_dimension(results, elems):
    length = Dimension(dimension_value(elems[0].shape.with_rank_at_least(1)[0]))
    for elem in elems[1:]:
        length.merge_with(Dimension(dimension_value(elem.shape.with_rank_at_least(1)[0])))
    for result in results:
        result.set_shape(TensorShape(length).concatenate(result.shape[1:]))


@export("map_fn")
def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True, swap_memory=False, infer_shape=True, name=None):
    """`fn` of each element of `elems` along the first dimension."""
    if not callable(fn):
        raise TypeError("fn must be callable.")
    if isinstance(elems, SparseTensor):
        raise TypeError(
            "To perform a map over the values of a sparse tensor use either SparseTensor(input.indices, fn(input.values), input.dense_shape) or "
            "SparseTensor(input.indices, map_fn(fn, input.values), input.dense_shape)"
        )
    flat = nest.flatten(elems)
    with ops.name_scope(name, "map", flat):
        flat = [ops.convert_to_tensor(elem, name="elem") for elem in flat]
        structure = elems if dtype is None else dtype
        dtypes = [elem.dtype for elem in flat] if dtype is None else nest.flatten(dtype)
        count = _first_dimension(flat)
        arrays = _unstacked(flat, count)
        first = constant(0)
        results = [TensorArray(dtype=item, size=count, dynamic_size=False, infer_shape=infer_shape) for item in dtypes]

        def compute(i, results):
            values = nest.pack_sequence_as(elems, [array.read(i) for array in arrays])
            mapped = fn(values)
            nest.assert_same_structure(structure, mapped)
            written = [array.write(i, value) for array, value in zip(results, nest.flatten(mapped))]
            return i + 1, written

        _, results = while_loop(
            lambda i, _: i < count,
            compute,
            (first, results),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        results = [array.stack() for array in results]
        _set_first_dimension(results, flat)
        return nest.pack_sequence_as(structure, results)


@export("scan")
def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, infer_shape=True, reverse=False, name=None):
    """All values of an accumulator that `fn` takes from element to element."""
    if not callable(fn):
        raise TypeError("fn must be callable.")
    flat = nest.flatten(elems)
    structure = elems if initializer is None else initializer
    with ops.name_scope(name, "scan", flat):
        flat = [ops.convert_to_tensor(elem, name="elem") for elem in flat]
        count = _first_dimension(flat)
        arrays = _unstacked(flat, count, with_shapes=True)
        if initializer is None:
            state = [array.read(count - 1 if reverse else 0) for array in arrays]
            i = 1
        else:
            state = [ops.convert_to_tensor(value) for value in nest.flatten(initializer)]
            i = 0
        results = [
            TensorArray(
                dtype=value.dtype,
                size=count,
                element_shape=value.shape if infer_shape else None,
                dynamic_size=False,
                infer_shape=infer_shape,
            )
            for value in state
        ]
        if initializer is None:
            results = [array.write(count - 1 if reverse else 0, value) for array, value in zip(results, state)]

        def compute(i, state, results):
            values = nest.pack_sequence_as(elems, [array.read(i) for array in arrays])
            accumulated = fn(nest.pack_sequence_as(structure, state), values)
            nest.assert_same_structure(structure, accumulated)
            state = nest.flatten(accumulated)
            results = [array.write(i, value) for array, value in zip(results, state)]
            return (i - 1 if reverse else i + 1), state, results

        if reverse:
            first = count - 1 - i
            goes_on = lambda i, *_: i >= 0  # noqa: E731 - one of two conditions
        else:
            first = i
            goes_on = lambda i, *_: i < count  # noqa: E731
        _, _, results = while_loop(
            goes_on,
            compute,
            (first, state, results),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        results = [array.stack() for array in results]
        _set_first_dimension(results, flat)
        return nest.pack_sequence_as(structure, results)


def _fold(fn, elems, initializer, is_right, default_name, parallel_iterations, back_prop, swap_memory, name):
    if not callable(fn):
        raise TypeError("fn must be callable.")
    flat = nest.flatten(elems)
    with ops.name_scope(name, default_name, flat):
        flat = [ops.convert_to_tensor(elem, name="elem") for elem in flat]
        count = _first_dimension(flat)
        arrays = _unstacked(flat, count)
        pack = lambda values: nest.pack_sequence_as(elems, values)  # noqa: E731
        i = count if is_right else None
        if initializer is None:
            if is_right:
                i = i - 1
            accumulated = pack([array.read(i if is_right else 0) for array in arrays])
            i = i if is_right else constant(1)
        else:
            accumulated = initializer
            i = i if is_right else constant(0)

        def compute(i, accumulated):
            if is_right:
                i = i - 1
            values = pack([array.read(i) for array in arrays])
            accumulated = fn(accumulated, values)
            return [i, accumulated] if is_right else [i + 1, accumulated]

        _, result = while_loop(
            (lambda i, _: i > 0) if is_right else (lambda i, _: i < count),
            compute,
            [i, accumulated],
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=count,
        )
        return result


@export("foldl")
def foldl(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    """Combines the elements from the first to the last."""
    return _fold(fn, elems, initializer, False, "foldl", parallel_iterations, back_prop, swap_memory, name)


@export("foldr")
def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True, swap_memory=False, name=None):
    """Combines the elements from the last to the first."""
    return _fold(fn, elems, initializer, True, "foldr", parallel_iterations, back_prop, swap_memory, name)
