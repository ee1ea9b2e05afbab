"""`tf.data.experimental`: transformations for `Dataset.apply`, and functions of datasets."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export, export_values
from tensorfleet.framework.tensor_shape import as_shape
from tensorfleet.framework.type_spec import SparseTensorSpec, TensorSpec, TypeSpec
from tensorfleet.input import reduction, structure
from tensorfleet.input.dataset import Dataset, DatasetSpec, Traced, _seeds

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2
export_values(__name__, {f"data.experimental.{name}": name for name in ("AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY")})


@export("data.experimental.shuffle_and_repeat")
def shuffle_and_repeat(buffer_size, count=None, seed=None):
    """Shuffles and repeats."""

    def apply(dataset):
        size = ops.convert_to_tensor(buffer_size, dtype=dtypes.int64, name="buffer_size")
        times = constant(-1, dtype=dtypes.int64, name="count") if count is None else ops.convert_to_tensor(count, dtype=dtypes.int64, name="count")
        seeds = _seeds(seed)
        return dataset._same(gen.ShuffleAndRepeatDataset(dataset._variant_tensor, size, *seeds, times, **dataset._flat))

    return apply


@export("data.experimental.map_and_batch", "data.experimental.map_and_batch_with_legacy_function")
def map_and_batch(map_func, batch_size, num_parallel_batches=None, drop_remainder=False, num_parallel_calls=None):
    """A map, then batches."""
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError("The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive.")
    calls = num_parallel_calls if num_parallel_batches is None else batch_size * num_parallel_batches

    def apply(dataset):
        return dataset.map(map_func, num_parallel_calls=calls).batch(batch_size, drop_remainder=drop_remainder)

    return apply


@export("data.experimental.parallel_interleave")
def parallel_interleave(map_func, cycle_length, block_length=1, sloppy=False, buffer_output_elements=None, prefetch_input_elements=None):
    """The elements of the datasets that a function gives, several at a time."""

    def apply(dataset):
        return dataset.interleave(map_func, cycle_length, block_length, num_parallel_calls=cycle_length)

    return apply


@export("data.experimental.unbatch")
def unbatch():
    """The parts of elements along their first dimension."""
    return lambda dataset: dataset.unbatch()


@export("data.experimental.enumerate_dataset")
def enumerate_dataset(start=0):
    """Elements with their numbers."""
    return lambda dataset: dataset.enumerate(start)


@export("data.experimental.take_while")
def take_while(predicate):
    """The elements before the first that a function says no to."""

    def apply(dataset):
        traced = Traced(predicate, "tf.data.experimental.take_while()", dataset.element_spec)
        given = traced.output_spec
        if not isinstance(given, TensorSpec) or given.dtype != dtypes.bool or not given.shape.is_compatible_with([]):
            raise ValueError("`predicate` must return a scalar boolean tensor.")
        return dataset._same(gen.TakeWhileDataset(dataset._variant_tensor, traced.captured, predicate=traced.defined, **dataset._flat))

    return apply


@export("data.experimental.scan")
def scan(initial_state, scan_func):
    """What a function gives for each element and the state before it."""
    return lambda dataset: reduction.scan(dataset, initial_state, scan_func)


@export("data.experimental.group_by_window")
def group_by_window(key_func, reduce_func, window_size=None, window_size_func=None):
    """Elements with the same key, reduced in groups."""
    if (window_size is not None) == (window_size_func is not None):
        raise ValueError("Must pass either window_size or window_size_func.")
    if window_size is not None:

        def constant_window_func(_):
            return ops.convert_to_tensor(window_size, dtype=dtypes.int64)

        window_size_func = constant_window_func

    def apply(dataset):
        what = "tf.data.experimental.group_by_window()"

        def key_func_wrapper(*args):
            return ops.convert_to_tensor(key_func(*args), dtype=dtypes.int64)

        def window_size_func_wrapper(key):
            return ops.convert_to_tensor(window_size_func(key), dtype=dtypes.int64)

        key = TensorSpec([], dtypes.int64)
        keys = Traced(key_func_wrapper, what, dataset.element_spec)
        sizes = Traced(window_size_func_wrapper, what, key)
        reduced = Traced(reduce_func, what, (key, DatasetSpec(dataset.element_spec)))
        if not isinstance(reduced.output_spec, DatasetSpec):
            raise TypeError("`reduce_func` must return a `Dataset` object.")
        spec = reduced.output_spec._element_spec
        variant = gen.GroupByWindowDataset(
            dataset._variant_tensor,
            keys.captured,
            reduced.captured,
            sizes.captured,
            key_func=keys.defined,
            reduce_func=reduced.defined,
            window_size_func=sizes.defined,
            output_types=structure.flat_types(spec),
            output_shapes=structure.flat_shapes(spec),
        )
        return Dataset._of(variant, spec, [dataset])

    return apply


@export("data.experimental.bucket_by_sequence_length")
def bucket_by_sequence_length(
    element_length_func,
    bucket_boundaries,
    bucket_batch_sizes,
    padded_shapes=None,
    padding_values=None,
    pad_to_bucket_boundary=False,
    no_padding=False,
    drop_remainder=False,
):
    """Batches of elements of about the same length."""
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    from tensorfleet.ops import reductions

    sizes = constant(bucket_batch_sizes, dtype=dtypes.int64)

    def element_to_bucket_id(*args):
        length = element_length_func(*args)
        boundaries = list(bucket_boundaries)
        lower = constant([dtypes.int32.min] + boundaries, dtypes.int32)
        upper = constant(boundaries + [dtypes.int32.max], dtypes.int32)
        is_inside = gen.LogicalAnd(gen.LessEqual(lower, length), gen.Less(length, upper))
        return reductions.reduce_min(gen.Where(is_inside))

    def window_size(bucket):
        return sizes[bucket]

    def batching(bucket, dataset):
        batch_size = sizes[bucket]
        if no_padding:
            return dataset.batch(batch_size, drop_remainder=drop_remainder)
        none_filler = None
        if pad_to_bucket_boundary:
            error = ops.convert_to_tensor(list(bucket_boundaries) + [0], dtype=dtypes.int64)
            none_filler = error[bucket] - 1
        shapes = _filled(padded_shapes or dataset.output_shapes, dataset.element_spec, none_filler)
        return dataset.padded_batch(batch_size, shapes, padding_values, drop_remainder=drop_remainder)

    return lambda dataset: dataset.apply(group_by_window(element_to_bucket_id, batching, window_size_func=window_size))


def _filled(shapes, spec, none_filler):
    padded = []
    for shape in structure.flatten_up_to(spec, shapes):
        shape = as_shape(shape)
        sizes = [none_filler if size is None else size for size in shape.as_list()]
        padded.append(shape if none_filler is None else ops.convert_to_tensor(sizes, dtype=dtypes.int64))
    return structure.pack(spec, padded)


@export("data.experimental.Counter")
def Counter(start=0, step=1, dtype=dtypes.int64):
    """Numbers without end."""
    with ops.name_scope("counter"):
        start = ops.convert_to_tensor(start, dtype=dtype, name="start")
        step = ops.convert_to_tensor(step, dtype=dtype, name="step")
        return Dataset.from_tensors(0).repeat(None).apply(scan(start, lambda state, _: (state + step, state)))


@export("data.experimental.RandomDataset")
class RandomDataset(Dataset):
    """Random int64 numbers without end."""

    def __init__(self, seed=None):
        self._element_spec = TensorSpec([], dtypes.int64)
        self._variant_tensor = gen.RandomDataset(*_seeds(seed), **self._flat)
        self._shown_name = "RandomDatasetV1"


@export("data.experimental.ignore_errors")
def ignore_errors():
    """The elements that are no errors."""
    return lambda dataset: dataset._same(gen.IgnoreErrorsDataset(dataset._variant_tensor, **dataset._flat))


def _directed(selector, datasets):
    spec = datasets[0].element_spec
    for dataset in datasets[1:]:
        spec = structure.map_structure(lambda one, other: one.most_specific_compatible_type(other), spec, dataset.element_spec)
    variant = gen.DirectedInterleaveDataset(
        selector._variant_tensor,
        [dataset._variant_tensor for dataset in datasets],
        output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )
    return Dataset._of(variant, spec, [selector] + list(datasets))


@export("data.experimental.choose_from_datasets")
def choose_from_datasets(datasets, choice_dataset):
    """Elements of several datasets, in the order that a dataset of numbers says."""
    spec = choice_dataset.element_spec
    if not isinstance(spec, TensorSpec) or spec.dtype != dtypes.int64 or not spec.shape.is_compatible_with([]):
        raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    return _directed(choice_dataset, datasets)


@export("data.experimental.sample_from_datasets")
def sample_from_datasets(datasets, weights=None, seed=None):
    """Elements of several datasets at random."""
    count = len(datasets)
    if weights is None:
        logits = constant([[1.0] * count], dtypes.float32) if count else None
        return _directed(_selector(logits, seed), datasets)
    if isinstance(weights, Dataset):
        raise NotImplementedError("tensorfleet samples with weights that stay the same, not with a dataset of them")
    weights = ops.convert_to_tensor(weights, name="weights")
    if weights.dtype not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"`weights` must be convertible to a tensor of `tf.float32` or `tf.float64` elements, got {weights.dtype}.")
    if not weights.shape.is_compatible_with([count]):
        raise ValueError("`weights` must be a vector of length `len(datasets)`.")
    logits = gen.ExpandDims(gen.Log(weights, name="logits"), ops.convert_to_tensor(0, name="ExpandDims/dim"))
    return _directed(_selector(logits, seed), datasets)


def _selector(logits, seed):
    """Random numbers of datasets: `logits` say how often each comes."""

    def select_dataset_constant_logits(seeds):
        drawn = gen.StatelessMultinomial(logits, 1, seeds, output_dtype=dtypes.int64)
        return gen.Squeeze(drawn, squeeze_dims=[0, 1])

    return RandomDataset(seed).batch(2).map(select_dataset_constant_logits)


@export("data.experimental.get_single_element")
def get_single_element(dataset):
    """The only element."""
    if not isinstance(dataset, Dataset):
        raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
    return structure.from_tensor_list(dataset.element_spec, gen.DatasetToSingleElement(dataset._variant_tensor, **dataset._flat))


@export("data.experimental.cardinality")
def cardinality(dataset):
    """The number of elements, as far as it is known."""
    return gen.DatasetCardinality(dataset._variant_tensor)


@export("data.experimental.get_structure")
def get_structure(dataset_or_iterator):
    """The kind of its elements."""
    try:
        return dataset_or_iterator.element_spec
    except AttributeError:
        raise TypeError(
            f"`dataset_or_iterator` must be a Dataset or Iterator object, but got {type(dataset_or_iterator)}."
        ) from None


@export("data.experimental.from_variant")
def from_variant(variant, structure):
    """The dataset in a variant tensor."""
    return Dataset._of(variant, structure, (), "_VariantDataset")


@export("data.experimental.to_variant")
def to_variant(dataset):
    """The variant tensor of a dataset."""
    return dataset._variant_tensor


@export("data.experimental.TensorStructure")
def TensorStructure(dtype, shape):
    return TensorSpec(shape, dtype)


@export("data.experimental.SparseTensorStructure")
def SparseTensorStructure(dtype, shape):
    return SparseTensorSpec(shape, dtype)


@export("data.experimental.parse_example_dataset")
def parse_example_dataset(features, num_parallel_calls=1):
    """Parses batches of serialized examples."""
    if features is None:
        raise ValueError("Missing: features was None.")
    from tensorfleet.input import parsing

    return lambda dataset: dataset.map(lambda serialized: parsing.parse_example(serialized, features), num_parallel_calls=num_parallel_calls)


# ---- values that may be missing


@export("OptionalSpec", "data.experimental.OptionalStructure")
class OptionalSpec(TypeSpec):
    """The kind of a value that may be missing."""

    def __init__(self, value_structure):
        self._value_structure = value_structure

    @staticmethod
    def from_value(value):
        return OptionalSpec(value.value_structure)

    @property
    def value_type(self):
        return Optional

    def _parts(self):
        return [self._value_structure]

    def _to_tensor(self, value):
        return value._variant_tensor

    def _from_tensor(self, tensor):
        return Optional(tensor, self._value_structure)

    def __repr__(self):
        return f"OptionalSpec({self._value_structure})"


@export("data.experimental.Optional")
class Optional:
    """A value that may be missing."""

    def __init__(self, *args, **kwargs):
        self._variant_tensor, self._value_structure = args

    @staticmethod
    def from_value(value):
        with ops.name_scope("optional") as scope:
            with ops.name_scope("value"):
                spec = structure.specs_of(structure.normalize_element(value))
                tensors = structure.to_tensor_list(spec, value)
            return Optional(gen.OptionalFromValue(tensors, name=scope), spec)

    @staticmethod
    def none_from_structure(value_structure):
        return Optional(gen.OptionalNone(), value_structure)

    @property
    def value_structure(self):
        return self._value_structure

    @property
    def _type_spec(self):
        return OptionalSpec(self._value_structure)

    def has_value(self, name=None):
        return gen.OptionalHasValue(self._variant_tensor, name=name)

    def get_value(self, name=None):
        spec = self._value_structure
        flat = gen.OptionalGetValue(self._variant_tensor, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec), name=name)
        return structure.from_tensor_list(spec, flat)


@export("data.experimental.get_next_as_optional")
def get_next_as_optional(iterator):
    """The next element, or nothing at the end."""
    spec = iterator.element_spec
    variant = gen.IteratorGetNextAsOptional(
        iterator._iterator_resource, output_types=structure.flat_types(spec), output_shapes=structure.flat_shapes(spec)
    )
    return Optional(variant, spec)


