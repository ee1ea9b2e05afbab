"""Parsing `tf.train.Example`s and text: `tf.parse_example`, `tf.decode_raw`, `tf.decode_csv`."""

import collections
import re

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape, as_shape


@export("VarLenFeature", "io.VarLenFeature")
class VarLenFeature(collections.namedtuple("VarLenFeature", ["dtype"])):
    """A feature with any number of values, parsed into a `SparseTensor`."""


@export("SparseFeature", "io.SparseFeature")
class SparseFeature(collections.namedtuple("SparseFeature", ["index_key", "value_key", "dtype", "size", "already_sorted"])):
    """Indices and values of a sparse tensor, which are two features."""

    def __new__(cls, index_key, value_key, dtype, size, already_sorted=False):
        return super().__new__(cls, index_key, value_key, dtype, size, already_sorted)


@export("FixedLenFeature", "io.FixedLenFeature")
class FixedLenFeature(collections.namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"])):
    """A feature of a known shape."""

    def __new__(cls, shape, dtype, default_value=None):
        return super().__new__(cls, shape, dtype, default_value)


@export("FixedLenSequenceFeature", "io.FixedLenSequenceFeature")
class FixedLenSequenceFeature(collections.namedtuple("FixedLenSequenceFeature", ["shape", "dtype", "allow_missing", "default_value"])):
    """A feature with any number of rows of a known shape, padded in a batch."""

    def __new__(cls, shape, dtype, allow_missing=False, default_value=None):
        return super().__new__(cls, shape, dtype, allow_missing, default_value)


class _Asked:
    """What is asked for, as the ops take it."""

    def __init__(self, features):
        self.sparse, self.dense = {}, {}
        self.defaults, self.shapes = {}, {}
        for key in sorted(features):
            self._add(key, features[key])

    def _add(self, key, feature):
        if isinstance(feature, VarLenFeature):
            if not feature.dtype:
                raise ValueError(f"Missing type for feature {key}.")
            self.sparse[key] = feature.dtype
        elif isinstance(feature, SparseFeature):
            self._add_sparse(key, feature)
        elif isinstance(feature, FixedLenFeature):
            self._add_fixed(key, feature)
        elif isinstance(feature, FixedLenSequenceFeature):
            self._add_sequence(key, feature)
        else:
            raise ValueError(f"Invalid feature {key}:{feature}.")

    def _add_sparse(self, key, feature):
        if not feature.index_key:
            raise ValueError(f"Missing index_key for SparseFeature {feature}.")
        if not feature.value_key:
            raise ValueError(f"Missing value_key for SparseFeature {feature}.")
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}.")
        index_keys = [feature.index_key] if isinstance(feature.index_key, str) else feature.index_key
        for index_key in sorted(index_keys):
            self._add_part(index_key, dtypes.int64)
        self._add_part(feature.value_key, feature.dtype)

    def _add_part(self, key, dtype):
        known = self.sparse.get(key)
        if known is not None and dtypes.as_dtype(known) != dtypes.as_dtype(dtype):
            raise ValueError(f"Conflicting type {known} vs {dtype} for feature {key}.")
        self.sparse[key] = dtype

    def _add_fixed(self, key, feature):
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}.")
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}.")
        shape = as_shape(feature.shape)
        if feature.shape and shape.rank and shape.as_list()[0] is None:
            raise ValueError(f"First dimension of shape for feature {key} unknown. Consider using FixedLenSequenceFeature.")
        if feature.shape is not None and not shape.is_fully_defined():
            raise ValueError(f"All dimensions of shape for feature {key} need to be known but received {shape}.")
        self.dense[key], self.shapes[key] = feature.dtype, shape
        if feature.default_value is not None:
            self.defaults[key] = feature.default_value

    def _add_sequence(self, key, feature):
        if not feature.dtype:
            raise ValueError(f"Missing type for feature {key}.")
        if feature.shape is None:
            raise ValueError(f"Missing shape for feature {key}.")
        if not feature.allow_missing:
            raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
        self.dense[key] = feature.dtype
        self.shapes[key] = TensorShape([None]).concatenate(as_shape(feature.shape))
        if feature.default_value is not None:
            self.defaults[key] = feature.default_value

    def default_tensors(self):
        return [self._default(key, dtype) for key, dtype in self.dense.items()]

    def _default(self, key, dtype):
        shape, value = self.shapes[key], self.defaults.get(key)
        name = "key_" + re.sub("[^A-Za-z0-9_.\\-/]", "_", key)
        if shape.rank is not None and shape.rank > 0 and shape.as_list()[0] is None:
            if value is None:
                return ops.convert_to_tensor("" if dtypes.as_dtype(dtype) == dtypes.string else 0, dtype=dtype)
            return gen.Reshape(ops.convert_to_tensor(value, dtype=dtype, name=name), ops.convert_to_tensor([], dtype=dtypes.int32, name="Reshape/shape"))
        if value is None:
            return constant([], dtype=dtype)
        if not isinstance(value, Tensor):
            value = ops.convert_to_tensor(value, dtype=dtype, name=name)
            return _reshaped(value, shape)
        return value

    def results(self, parsed):
        """The op's outputs by key."""
        sparse = [SparseTensor(*parts) for parts in zip(parsed.sparse_indices, parsed.sparse_values, parsed.sparse_shapes)]
        return dict(zip(list(self.sparse) + list(self.dense), sparse + list(parsed.dense_values)))


def _reshaped(value, shape):
    from tensorfleet.ops import array

    return array.reshape(value, shape)


def _prepend_none_dimension(features):
    """Features of one example's rows as those of a batch of examples."""
    changed = {}
    for key, feature in features.items():
        if isinstance(feature, FixedLenSequenceFeature):
            if not feature.allow_missing:
                raise ValueError("Unsupported: FixedLenSequenceFeature requires allow_missing to be True.")
            feature = FixedLenSequenceFeature([None] + list(feature.shape), feature.dtype, feature.allow_missing, feature.default_value)
        changed[key] = feature
    return changed


def _merged(features, parsed):
    """Puts sparse features together from their indices and values."""
    import tensorfleet

    parsed = dict(parsed)
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            keys = feature.index_key
            ids = parsed[keys] if isinstance(keys, str) else [parsed[index_key] for index_key in keys]
            parsed[key] = tensorfleet.sparse_merge(ids, parsed[feature.value_key], vocab_size=feature.size, already_sorted=feature.already_sorted)
    return {key: value for key, value in parsed.items() if key in features}


@export("parse_example", "io.parse_example")
def parse_example(serialized, features, name=None, example_names=None):
    """The features of a batch of serialized examples, by key."""
    if not features:
        raise ValueError(f"Missing: features was {features}.")
    asked = _Asked(features)
    with ops.name_scope(name, "ParseExample", [serialized, example_names]):
        defaults = asked.default_tensors()
        parsed = gen.ParseExample(
            serialized,
            constant([], dtypes.string, name=f"{name or 'ParseExample'}/names") if example_names is None else example_names,
            list(asked.sparse),
            list(asked.dense),
            defaults,
            sparse_types=list(asked.sparse.values()),
            dense_shapes=list(asked.shapes.values()),
            name=name,
        )
        results = asked.results(parsed)
    return _merged(features, results)


@export("parse_single_example", "io.parse_single_example")
def parse_single_example(serialized, features, name=None, example_names=None):
    """The features of one serialized example, by key."""
    if not features:
        raise ValueError("Missing features.")
    if example_names is not None:
        return _single_by_batch(serialized, features, name, example_names)
    asked = _Asked(features)
    with ops.name_scope(name, "ParseSingleExample", [serialized]):
        serialized = ops.convert_to_tensor(serialized, name="serialized")
        defaults = asked.default_tensors()
        parsed = gen.ParseSingleExample(
            serialized,
            defaults,
            num_sparse=len(asked.sparse),
            sparse_keys=list(asked.sparse),
            sparse_types=list(asked.sparse.values()),
            dense_keys=list(asked.dense),
            dense_shapes=list(asked.shapes.values()),
            name=name,
        )
        results = asked.results(parsed)
    return _merged(features, results)


def _single_by_batch(serialized, features, name, example_names):
    """One example as a batch of one, whose dimension is taken away again."""
    from tensorfleet.ops import array

    with ops.name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = array.expand_dims(ops.convert_to_tensor(serialized, dtypes.string), 0)
        example_names = array.expand_dims(ops.convert_to_tensor(example_names, dtypes.string), 0)
        results = parse_example(serialized, features, example_names=example_names)
        for key, value in results.items():
            if isinstance(value, SparseTensor):
                indices = array.slice(value.indices, [0, 1], [-1, -1])
                results[key] = SparseTensor(indices, value.values, array.slice(value.dense_shape, [1], [-1]))
            else:
                results[key] = array.squeeze(value, [0])
        return results


@export("decode_raw", "io.decode_raw")
def decode_raw(input_bytes=None, out_type=None, little_endian=True, name=None, bytes=None):
    """The bytes of strings as numbers."""
    if bytes is not None:
        if input_bytes is not None:
            raise ValueError("Got values for both 'bytes' and 'input_bytes'.")
        input_bytes = bytes
    if out_type is None:
        raise ValueError("decode_raw_v1() missing 1 positional argument: 'out_type'")
    return gen.DecodeRaw(input_bytes, out_type=out_type, little_endian=little_endian, name=name)


@export("decode_csv", "io.decode_csv")
def decode_csv(records, record_defaults, field_delim=",", use_quote_delim=True, name=None, na_value="", select_cols=None):
    """The columns of lines with separated fields."""
    if select_cols is not None:
        if any(select_cols[index] >= select_cols[index + 1] for index in range(len(select_cols) - 1)):
            raise ValueError("select_cols is not strictly increasing.")
        if select_cols and select_cols[0] < 0:
            raise ValueError("select_cols contains negative values.")
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    result = gen.DecodeCSV(
        records,
        record_defaults,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=select_cols or [],
        name=name,
    )
    return result


@export("read_file", "io.read_file")
def read_file(filename, name=None):
    """The contents of a file."""
    return gen.ReadFile(filename, name=name)


@export("write_file", "io.write_file")
def write_file(filename, contents, name=None):
    """Writes a file, and the directories it is in."""
    return gen.WriteFile(filename, contents, name=name)


@export("matching_files", "io.matching_files")
def matching_files(pattern, name=None):
    """The names of files that match a pattern."""
    return gen.MatchingFiles(pattern, name=name)


@export("serialize_tensor", "io.serialize_tensor")
def serialize_tensor(tensor, name=None):
    """A tensor as a serialized `TensorProto`."""
    return gen.SerializeTensor(tensor, name=name)


@export("parse_tensor", "io.parse_tensor")
def parse_tensor(serialized, out_type, name=None):
    """The tensor in a serialized `TensorProto`."""
    return gen.ParseTensor(serialized, out_type=out_type, name=name)


def _sparse(value):
    from tensorfleet.framework.composite import is_sparse_value

    if isinstance(value, SparseTensor) or is_sparse_value(value):
        return SparseTensor.from_value(value)
    raise TypeError(f"Input must be a SparseTensor. Got {value}")


@export("serialize_sparse", "io.serialize_sparse")
def serialize_sparse(sp_input, name=None, out_type=dtypes.string):
    """A sparse tensor as a vector of three strings or variants."""
    value = _sparse(sp_input)
    return gen.SerializeSparse(value.indices, value.values, value.dense_shape, name=name, out_type=out_type)


@export("serialize_many_sparse", "io.serialize_many_sparse")
def serialize_many_sparse(sp_input, name=None, out_type=dtypes.string):
    """The rows of a sparse tensor, three strings or variants each."""
    value = _sparse(sp_input)
    return gen.SerializeManySparse(value.indices, value.values, value.dense_shape, name=name, out_type=out_type)


@export("deserialize_many_sparse", "io.deserialize_many_sparse")
def deserialize_many_sparse(serialized_sparse, dtype, rank=None, name=None):
    """Serialized sparse tensors as one with one more dimension in front."""
    indices, values, shape = gen.DeserializeManySparse(serialized_sparse, dtype=dtype, name=name)
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
