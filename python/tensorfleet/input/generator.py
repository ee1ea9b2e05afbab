"""Datasets from Python generators: `tf.data.Dataset.from_generator`."""

import threading

import numpy as np

from tensorfleet.framework import dtypes, function, gen, ops
from tensorfleet.framework.tensor_shape import TensorShape
from tensorfleet.framework.type_spec import TensorSpec
from tensorfleet.input import structure
from tensorfleet.input.dataset import Dataset
from tensorfleet.ops import script


class _Generators:
    """The generators of a dataset that are being walked along, by number."""

    def __init__(self, make):
        self._make = make
        self._lock = threading.Lock()
        self._next = 0
        self._args = {}
        self._iterators = {}

    def begin(self, *args):
        with self._lock:
            number = self._next
            self._next += 1
        self._args[number] = args
        return np.array(number, dtype=np.int64)

    def get(self, number):
        number = int(number)
        if number not in self._iterators:
            self._iterators[number] = iter(self._make(*self._args.pop(number)))
        return self._iterators[number]

    def end(self, number):
        number = int(number)
        self._args.pop(number, None)
        self._iterators.pop(number, None)


def _as_array(value, dtype, shape):
    """What a generator yielded, as the dataset announces it."""
    if dtype == dtypes.string:
        array = script._as_array(value)
    else:
        try:
            array = np.asarray(value, dtype=dtype.as_numpy_dtype)
        except (TypeError, ValueError):
            raise TypeError(f"`generator` yielded an element that could not be converted to the expected type. The expected type was {dtype.name}, but the yielded element was {value}.") from None
    if not shape.is_compatible_with(array.shape):
        raise ValueError(f"`generator` yielded an element of shape {array.shape} where an element of shape {shape} was expected.")
    return array


def _spec(output_types, output_shapes):
    types = structure.map_structure(dtypes.as_dtype, output_types)
    flat = structure.flatten(types)
    shapes = [TensorShape(None)] * len(flat) if output_shapes is None else [TensorShape(shape) for shape in structure.flatten_up_to(types, output_shapes)]
    return structure.pack(types, [TensorSpec(shape, dtype) for shape, dtype in zip(shapes, flat)])


def from_generator(generator, output_types, output_shapes=None, args=None):
    """What a generator yields, as a dataset. It runs in the process of the client."""
    if not callable(generator):
        raise TypeError("`generator` must be callable.")
    spec = _spec(output_types, output_shapes)
    args = () if args is None else tuple(ops.convert_n_to_tensor(args, name="args"))
    generators = _Generators(generator)
    flat = structure.flatten(spec)

    def next_element(number):
        element = next(generators.get(number))
        try:
            values = structure.flatten_up_to(spec, element)
        except (TypeError, ValueError):
            raise TypeError(f"`generator` yielded an element that did not match the expected structure. The expected structure was {structure.legacy_types(spec)}, but the yielded element was {element}.") from None
        return [_as_array(value, one.dtype, one.shape) for value, one in zip(values, flat)]

    def finish(number):
        generators.end(number)
        return np.array(0, dtype=np.int64)

    def flat_map_fn(_):
        return _generator_dataset(generators, args, next_element, finish, spec)

    return Dataset.from_tensors(0).flat_map(flat_map_fn)


def _generator_dataset(generators, args, next_element, finish, spec):
    def begin():
        return [script.py_func(generators.begin, args, dtypes.int64, stateful=True)]

    def following(number):
        values = script.py_func(next_element, [number], structure.flat_types(spec), stateful=True)
        for value, shape in zip(values, structure.flat_shapes(spec)):
            value.set_shape(shape)
        return values

    def final(number):
        return [script.py_func(finish, [number], dtypes.int64, stateful=True)]

    init_func = function.trace(begin, "GeneratorDataset_init", [], [])
    state = [dtypes.int64], [TensorShape([])]
    next_func = function.trace(following, "GeneratorDataset_next", *state)
    finalize_func = function.trace(final, "GeneratorDataset_finalize", *state)
    variant = gen.GeneratorDataset(
        init_func.captured_inputs,
        next_func.captured_inputs,
        finalize_func.captured_inputs,
        init_func=init_func,
        next_func=next_func,
        finalize_func=finalize_func,
        output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )
    return Dataset._of(variant, spec)
