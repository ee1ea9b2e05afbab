"""Texts: `tf.strings.*` and the older names."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import SparseTensor
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.ops.arguments import renamed


@export("strings.regex_full_match")
def regex_full_match(input, pattern, name=None):
    """Whether whole texts match a regular expression."""
    if isinstance(pattern, (str, bytes)):
        return gen.StaticRegexFullMatch(input, pattern=pattern, name=name)
    return gen.RegexFullMatch(input, pattern, name=name)


@export("regex_replace", "strings.regex_replace")
def regex_replace(input, pattern, rewrite, replace_global=True, name=None):
    """Replaces what a regular expression matches."""
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return gen.StaticRegexReplace(input, pattern=pattern, rewrite=rewrite, replace_global=replace_global, name=name)
    return gen.RegexReplace(input, pattern, rewrite, replace_global=replace_global, name=name)


@export("strings.length")
def string_length(input, name=None, unit="BYTE"):
    """Lengths, in bytes or characters."""
    return gen.StringLength(input, unit=unit, name=name)


@export("substr", "strings.substr")
def substr(input, pos, len, name=None, unit="BYTE"):
    """A part of each text."""
    return gen.Substr(input, pos, len, unit=unit, name=name)


@export("string_to_hash_bucket", "strings.to_hash_bucket")
def string_to_hash_bucket(string_tensor=None, num_buckets=None, name=None, input=None):
    """The number of a bucket for each text."""
    return gen.StringToHashBucket(renamed("input", input, "string_tensor", string_tensor), num_buckets=num_buckets, name=name)


@export("string_to_number", "strings.to_number")
def string_to_number(string_tensor=None, out_type=dtypes.float32, name=None, input=None):
    """The numbers that texts say."""
    return gen.StringToNumber(renamed("input", input, "string_tensor", string_tensor), out_type=out_type, name=name)


def _join_axes(inputs, axis):
    """The axes to join along: those given, or all, the last first."""
    if axis is not None:
        return axis
    known = inputs.shape.rank
    if known is not None:
        return constant(np.arange(known - 1, -1, -1), dtype=dtypes.int32)
    from tensorfleet.ops import array, math

    return math.range(array.rank(inputs) - 1, -1, -1)


@export("reduce_join", "strings.reduce_join")
def reduce_join(inputs, axis=None, keep_dims=None, separator="", name=None, reduction_indices=None, keepdims=None):
    """Joins texts along axes."""
    keepdims = renamed("keepdims", keepdims, "keep_dims", keep_dims)
    keepdims = False if keepdims is None else keepdims
    axis = renamed("axis", axis, "reduction_indices", reduction_indices)
    with ops.name_scope(name, "ReduceJoin", [inputs]):
        tensor = ops.convert_to_tensor(inputs)
        return gen.ReduceJoin(tensor, _join_axes(tensor, axis), keep_dims=keepdims, separator=separator, name=name)


def _sparse_of(parts):
    indices, values, shape = parts
    indices.set_shape([None, 2])
    values.set_shape([None])
    shape.set_shape([2])
    return SparseTensor(indices=indices, values=values, dense_shape=shape)


def _only_sparse(result_type):
    if result_type == "RaggedTensor":
        raise NotImplementedError("tensorfleet has no ragged tensors; use result_type='SparseTensor'")
    if result_type != "SparseTensor":
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")


@export("string_split")
def string_split(source, sep=None, skip_empty=True, delimiter=None, result_type="SparseTensor", name=None):
    """Splits texts at any of the separator's characters; gives a sparse tensor."""
    with ops.name_scope(name, "StringSplit", [source]):
        sep = renamed("sep", sep, "delimiter", delimiter)
        sep = " " if sep is None else sep
        delimiter = ops.convert_to_tensor(sep, dtype=dtypes.string)
        source = ops.convert_to_tensor(source, dtype=dtypes.string)
        _only_sparse(result_type)
        return _sparse_of(gen.StringSplit(source, delimiter, skip_empty=skip_empty))


@export("strings.split")
def strings_split(input=None, sep=None, maxsplit=-1, result_type="SparseTensor", source=None, name=None):
    """Splits texts at a separator; gives a sparse tensor."""
    input = renamed("input", input, "source", source)
    with ops.name_scope(name, "StringSplit", [input]):
        input = ops.convert_to_tensor(input, dtype=dtypes.string, name="input")
        if input.shape.rank == 0:
            from tensorfleet.ops.array import expand_dims

            input = expand_dims(input, 0)
        _only_sparse(result_type)
        sep = ops.convert_to_tensor("" if sep is None else sep, dtype=dtypes.string)
        return _sparse_of(gen.StringSplitV2(input, sep, maxsplit=maxsplit))
