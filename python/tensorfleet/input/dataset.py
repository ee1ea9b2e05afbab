"""`tf.data.Dataset`: pipelines of elements. A dataset is a variant tensor; each transformation is a node."""

import functools
import inspect

from tensorfleet.framework import dtypes, function, gen, ops, random_seed
from tensorfleet.framework.constant import constant, constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape, as_shape
from tensorfleet.framework.type_spec import TensorSpec, TypeSpec
from tensorfleet.input import options as options_lib
from tensorfleet.input import structure


@export("data.DatasetSpec", "data.experimental.DatasetStructure")
class DatasetSpec(TypeSpec):
    """The kind of a dataset: that of its elements."""

    def __init__(self, element_spec, dataset_shape=()):
        self._element_spec = element_spec
        self._dataset_shape = as_shape(dataset_shape)

    @staticmethod
    def from_value(value):
        return DatasetSpec(value.element_spec)

    @property
    def value_type(self):
        return Dataset

    def _parts(self):
        return [self._element_spec, self._dataset_shape]

    def _to_tensor(self, value):
        return value._variant_tensor

    def _from_tensor(self, tensor):
        return _VariantDataset(tensor, self._element_spec)

    def __repr__(self):
        return f"DatasetSpec({self._element_spec}, {self._dataset_shape!r})"


def _shown(value):
    """A structure in the words of a dataset's `repr`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, tuple):
        return "(" + ", ".join(_shown(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return repr(value) if isinstance(value, dtypes.DType) else str(value)


class Traced:
    """A Python function of elements as a function of a graph."""

    def __init__(self, func, name, spec, input_count=1):
        if not callable(func):
            raise ValueError("Argument must be callable")
        self.output_spec = None
        readable = name.replace(".", "_")[:-2] if name.endswith("()") else name.replace(".", "_")

        def body(*tensors):
            element = structure.from_tensor_list(spec, tensors)
            result = func(*element) if isinstance(element, tuple) else func(element)
            result = tuple(result) if isinstance(result, list) else result
            try:
                self.output_spec = structure.specs_of(result)
            except (TypeError, ValueError):
                raise TypeError(f"Unsupported return value from function passed to {name}: {result}.") from None
            return structure.to_tensor_list(self.output_spec, result)

        text = f"{readable}_{_function_name(func)}"
        self.defined = function.trace(body, text, structure.flat_types(spec), structure.flat_shapes(spec))
        self.captured = self.defined.captured_inputs


def _function_name(func):
    """What TensorFlow calls a callable."""
    while isinstance(func, functools.partial):
        func = func.func
    if inspect.ismethod(func):
        return f"{type(func.__self__).__name__}.{func.__func__.__name__}"
    return getattr(func, "__name__", type(func).__name__)


def _is_from_ref(tensor, seen):
    """Whether a value comes from a variable of the old kind, which TensorFlow's optimizations cannot have."""
    if tensor._id in seen:
        return False
    seen.add(tensor._id)
    return tensor.dtype._is_ref_dtype or any(_is_from_ref(source, seen) for source in tensor.op.inputs)


def _int64(value, name):
    return ops.convert_to_tensor(value, dtype=dtypes.int64, name=name)


def _seeds(seed):
    """The two seeds of a shuffle, as tensors."""
    first, second = random_seed.get_seed(seed)
    first = constant(0 if first is None else first, dtype=dtypes.int64, name="seed")
    if second is None:
        return first, constant(0, dtype=dtypes.int64, name="seed2")
    with ops.name_scope("seed2") as scope:
        second = constant(second, dtype=dtypes.int64)
        # Two zeros would mean any seed.
        are_zero = gen.LogicalAnd(gen.Equal(first, 0), gen.Equal(second, 0))
        return first, gen.Select(are_zero, constant(2**31 - 1, dtype=dtypes.int64), second, name=scope)


@export("data.Dataset")
class Dataset:
    """Elements, one after the other. Transformations give new datasets."""

    _inputs = ()

    def __init__(self):
        self._variant_tensor = None
        self._element_spec = None

    @classmethod
    def _of(cls, variant, spec, inputs=(), name="DatasetV1Adapter"):
        made = object.__new__(Dataset if cls is not Dataset else cls)
        made._variant_tensor = variant
        made._element_spec = spec
        made._inputs = tuple(inputs)
        made._shown_name = name
        return made

    _shown_name = "DatasetV1Adapter"

    # ---- what it is

    @property
    def element_spec(self):
        return self._element_spec

    @property
    def _type_spec(self):
        return DatasetSpec(self._element_spec)

    @property
    def output_types(self):
        return structure.legacy_types(self._element_spec)

    @property
    def output_shapes(self):
        return structure.legacy_shapes(self._element_spec)

    @property
    def output_classes(self):
        return structure.legacy_classes(self._element_spec)

    @property
    def _flat(self):
        """The attributes that most of its nodes have."""
        return {"output_types": structure.flat_types(self._element_spec), "output_shapes": structure.flat_shapes(self._element_spec)}

    def _as_variant_tensor(self):
        return self._variant_tensor

    def options(self):
        """The options of this dataset and those it is made of."""
        found = options_lib.Options()
        for source in self._inputs:
            found = found.merge(source.options())
        return found

    def __repr__(self):
        return f"<{self._shown_name} shapes: {_shown(self.output_shapes)}, types: {_shown(self.output_types)}>"

    __str__ = __repr__

    def __iter__(self):
        raise RuntimeError("__iter__() is only supported inside of tf.function or when eager execution is enabled.")

    def _same(self, variant):
        return Dataset._of(variant, self._element_spec, [self])

    # ---- sources

    @staticmethod
    def from_tensors(tensors):
        """One element."""
        element = structure.normalize_element(tensors)
        spec = structure.specs_of(element)
        variant = gen.TensorDataset(structure.to_tensor_list(spec, element), output_shapes=structure.flat_shapes(spec))
        return Dataset._of(variant, spec)

    @staticmethod
    def from_tensor_slices(tensors):
        """The elements along the first dimension."""
        element = structure.normalize_element(tensors)
        spec = structure.specs_of(element)
        components = structure.to_tensor_list(spec, element, is_batch=True)
        spec = structure.unbatched(spec)
        first = components[0].shape.with_rank_at_least(1)[0]
        for component in components[1:]:
            first = first.merge_with(component.shape.with_rank_at_least(1)[0])
        return Dataset._of(gen.TensorSliceDataset(components, output_shapes=structure.flat_shapes(spec)), spec)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor):
        """The rows of a sparse tensor. (TensorFlow gives three tensors for each; here it is a `SparseTensor`.)"""
        raise NotImplementedError("tensorfleet has no SparseTensorSliceDataset: give the SparseTensor to from_tensor_slices")

    @staticmethod
    def from_generator(generator, output_types, output_shapes=None, args=None):
        """What a Python generator yields."""
        from tensorfleet.input import generator as generator_lib

        return generator_lib.from_generator(generator, output_types, output_shapes, args)

    @staticmethod
    def range(*args):
        """Numbers, as Python's `range` counts them."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid arguments to RangeDataset: {args}")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        bounds = [_int64(value, name) for value, name in ((start, "start"), (stop, "stop"), (step, "step"))]
        spec = TensorSpec([], dtypes.int64)
        return Dataset._of(gen.RangeDataset(*bounds, output_types=[dtypes.int64], output_shapes=[TensorShape([])]), spec)

    @staticmethod
    def zip(datasets):
        """Elements of several datasets together."""
        flat = structure.flatten(datasets)
        for dataset in flat:
            if not isinstance(dataset, Dataset):
                if isinstance(dataset, list):
                    raise TypeError("The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects. Nested structures do not support Python lists; please use a tuple instead.")
                raise TypeError("The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects.")
        spec = structure.pack(datasets, [dataset.element_spec for dataset in flat])
        variant = gen.ZipDataset(
            [dataset._variant_tensor for dataset in flat], output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
        )
        return Dataset._of(variant, spec, flat)

    @staticmethod
    def list_files(file_pattern, shuffle=None, seed=None):
        """The names of files that match."""
        from tensorfleet.input import dataset_files

        return dataset_files.list_files(file_pattern, shuffle, seed)

    # ---- elements in another order or number

    def concatenate(self, dataset):
        """These elements and then those of another dataset."""
        if structure.legacy_types(self._element_spec) != structure.legacy_types(dataset.element_spec):
            raise TypeError(f"Two datasets to concatenate have different types {self.output_types} and {dataset.output_types}")
        spec = structure.map_structure(lambda one, other: one.most_specific_compatible_type(other), self._element_spec, dataset.element_spec)
        variant = gen.ConcatenateDataset(
            self._variant_tensor, dataset._variant_tensor, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
        )
        return Dataset._of(variant, spec, [self, dataset])

    def prefetch(self, buffer_size):
        """Computes elements before they are asked for."""
        buffer_size = -1 if buffer_size is None else buffer_size
        return self._same(gen.PrefetchDataset(self._variant_tensor, _int64(buffer_size, "buffer_size"), **self._flat))

    def shuffle(self, buffer_size, seed=None, reshuffle_each_iteration=None):
        """Elements in random order, from a buffer."""
        buffer_size = _int64(buffer_size, "buffer_size")
        seeds = _seeds(seed)
        reshuffle = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        return self._same(gen.ShuffleDataset(self._variant_tensor, buffer_size, *seeds, reshuffle_each_iteration=reshuffle, **self._flat))

    def repeat(self, count=None):
        """The elements again, `count` times or without end."""
        count = constant(-1, dtype=dtypes.int64, name="count") if count is None else _int64(count, "count")
        return self._same(gen.RepeatDataset(self._variant_tensor, count, **self._flat))

    def take(self, count):
        """The first elements."""
        return self._same(gen.TakeDataset(self._variant_tensor, _int64(count, "count"), **self._flat))

    def skip(self, count):
        """All but the first elements."""
        return self._same(gen.SkipDataset(self._variant_tensor, _int64(count, "count"), **self._flat))

    def shard(self, num_shards, index):
        """Each `num_shards`-th element, from number `index` on."""
        known = constant_value(num_shards) if isinstance(num_shards, Tensor) else num_shards
        if known is not None and known < 1:
            raise ValueError(f"num_shards must be >= 1; got {known}")
        place = constant_value(index) if isinstance(index, Tensor) else index
        if place is not None and place < 0:
            raise ValueError(f"index must be >= 0; got {place}")
        if known is not None and place is not None and place >= known:
            raise ValueError(f"index must be <= num_shards; {place} is not < {known}")
        return self._same(gen.ShardDataset(self._variant_tensor, _int64(num_shards, "num_shards"), _int64(index, "index"), **self._flat))

    def cache(self, filename=""):
        """Keeps the elements, in memory or in a file."""
        filename = ops.convert_to_tensor(filename, dtype=dtypes.string, name="filename")
        return self._same(gen.CacheDataset(self._variant_tensor, filename, **self._flat))

    def enumerate(self, start=0):
        """Elements with their numbers."""
        return Dataset.zip((Dataset.range(start, dtypes.int64.max), self))

    # ---- batches

    def batch(self, batch_size, drop_remainder=False):
        """Several elements as one."""
        size = _int64(batch_size, "batch_size")
        drop = ops.convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        known = constant_value(size) if constant_value(drop) else None
        spec = structure.batched(self._element_spec, None if known is None else int(known))
        variant = gen.BatchDatasetV2(
            self._variant_tensor, size, drop, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
        )
        return Dataset._of(variant, spec, [self])

    def padded_batch(self, batch_size, padded_shapes, padding_values=None, drop_remainder=False):
        """Several elements of different sizes as one."""
        from tensorfleet.input import padding

        return padding.padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)

    def unbatch(self):
        """The parts of elements along their first dimension."""
        normalized = self.map(normalize)
        spec = structure.unbatched(self._element_spec)
        variant = gen.UnbatchDataset(
            normalized._variant_tensor, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
        )
        return Dataset._of(variant, spec, [normalized], "_UnbatchDataset")

    def window(self, size, shift=None, stride=1, drop_remainder=False):
        """Datasets of neighbouring elements."""
        size = _int64(size, "size")
        shift = size if shift is None else _int64(shift, "shift")
        stride = _int64(stride, "stride")
        drop = ops.convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        spec = structure.map_structure(DatasetSpec, self._element_spec)
        variant = gen.WindowDataset(
            self._variant_tensor, size, shift, stride, drop, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
        )
        return Dataset._of(variant, spec, [self])

    # ---- functions

    def map(self, map_func, num_parallel_calls=None):
        """What a function gives for each element."""
        traced = Traced(map_func, "Dataset.map()", self._element_spec)
        spec = traced.output_spec
        flat = {"f": traced.defined, "output_types": structure.flat_types(spec), "output_shapes": structure.flat_shapes(spec)}
        if num_parallel_calls is None:
            variant = gen.MapDataset(self._variant_tensor, traced.captured, **flat)
        else:
            calls = ops.convert_to_tensor(num_parallel_calls, dtype=dtypes.int32, name="num_parallel_calls")
            variant = gen.ParallelMapDataset(self._variant_tensor, traced.captured, calls, **flat)
        return Dataset._of(variant, spec, [self])

    map_with_legacy_function = map

    def flat_map(self, map_func):
        """The elements of the datasets that a function gives."""
        traced = Traced(map_func, "Dataset.flat_map()", self._element_spec)
        spec = _dataset_spec(traced)
        variant = gen.FlatMapDataset(
            self._variant_tensor, traced.captured, f=traced.defined, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
        )
        return Dataset._of(variant, spec, [self])

    def interleave(self, map_func, cycle_length=-1, block_length=1, num_parallel_calls=None):
        """The elements of the datasets that a function gives, in turn."""
        import os

        cycle_length = (os.cpu_count() or 1) if cycle_length == -1 else cycle_length
        traced = Traced(map_func, "Dataset.interleave()", self._element_spec)
        spec = _dataset_spec(traced)
        flat = {"f": traced.defined, "output_types": structure.flat_types(spec), "output_shapes": structure.flat_shapes(spec)}
        lengths = [_int64(cycle_length, "cycle_length"), _int64(block_length, "block_length")]
        if num_parallel_calls is None:
            variant = gen.InterleaveDataset(self._variant_tensor, traced.captured, *lengths, **flat)
        else:
            calls = _int64(num_parallel_calls, "num_parallel_calls")
            variant = gen.ParallelInterleaveDatasetV2(self._variant_tensor, traced.captured, *lengths, calls, **flat)
        return Dataset._of(variant, spec, [self])

    def filter(self, predicate):
        """The elements that a function says yes to."""
        traced = Traced(predicate, "Dataset.filter()", self._element_spec)
        given = traced.output_spec
        if not isinstance(given, TensorSpec) or given.dtype != dtypes.bool or not given.shape.is_compatible_with([]):
            raise ValueError(f"`predicate` return type must be convertible to a scalar boolean tensor. Was {given}.")
        return self._same(gen.FilterDataset(self._variant_tensor, traced.captured, predicate=traced.defined, **self._flat))

    filter_with_legacy_function = filter

    def reduce(self, initial_state, reduce_func):
        """What a function makes of all elements."""
        from tensorfleet.input import reduction

        return reduction.reduce(self, initial_state, reduce_func)

    def apply(self, transformation_func):
        """What a function of datasets makes of this one."""
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"`transformation_func` must return a Dataset. Got {dataset}.")
        return dataset

    def with_options(self, options):
        """The same with options."""
        made = self._same(self._variant_tensor)
        merged = self.options().merge(options)
        made.options = lambda: merged
        return made

    # ---- iterators

    def make_initializable_iterator(self, shared_name=None):
        """An iterator that an operation begins."""
        from tensorfleet.input import iterators

        return iterators.make_initializable_iterator(self, shared_name)

    def make_one_shot_iterator(self):
        """An iterator that begins by itself, once."""
        from tensorfleet.input import iterators

        return iterators.make_one_shot_iterator(self)

    def _apply_options(self):
        """The dataset as iterators take it: TensorFlow adds nodes for its optimizations, which the runtime passes over."""
        chosen, dataset = self.options(), self
        optimizations = chosen._static_optimizations()
        if optimizations and not _is_from_ref(self._variant_tensor, set()):
            names = ops.convert_to_tensor(optimizations, dtype=dtypes.string, name="optimizations")
            configs = ["map_vectorization:use_choose_fastest:false"]
            dataset = dataset._same(gen.OptimizeDataset(dataset._variant_tensor, names, optimization_configs=configs, **dataset._flat))
        if chosen._autotune():
            dataset = dataset._same(gen.ModelDataset(dataset._variant_tensor, **dataset._flat))
        return dataset


def normalize(arg, *rest):
    """An element as it is: what `unbatch` maps over, so that sparse tensors would become dense."""
    return (arg, *rest) if rest else arg


def _dataset_spec(traced):
    given = traced.output_spec
    if not isinstance(given, DatasetSpec):
        raise TypeError(f"`map_func` must return a `Dataset` object. Got {type(given)}")
    return given._element_spec


def _VariantDataset(variant, spec):
    return Dataset._of(variant, spec, (), "_VariantDataset")


@export("data.get_output_types")
def get_legacy_output_types(dataset_or_iterator):
    return structure.legacy_types(dataset_or_iterator.element_spec)


@export("data.get_output_shapes")
def get_legacy_output_shapes(dataset_or_iterator):
    return structure.legacy_shapes(dataset_or_iterator.element_spec)


@export("data.get_output_classes")
def get_legacy_output_classes(dataset_or_iterator):
    return structure.legacy_classes(dataset_or_iterator.element_spec)
