"""Counting and grouping: segments, histograms, confusion matrices."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.ops import array, math, reductions
from tensorfleet.ops.constants import ones, ones_like, zeros


def _segment_sizes(data, segment_ids, num_segments):
    """How many rows each segment has, at least one, in a shape that divides sums."""
    ones_tensor = ones(array.shape_internal(segment_ids), dtype=data.dtype)
    counts = gen.UnsortedSegmentSum(ones_tensor, segment_ids, num_segments)
    inner = data.shape.rank - segment_ids.shape.rank
    return gen.Maximum(array.reshape(counts, [num_segments, *[1] * inner]), 1)


@export("unsorted_segment_mean", "math.unsorted_segment_mean")
def unsorted_segment_mean(data, segment_ids, num_segments, name=None):
    """The means of segments."""
    with ops.name_scope(name, "UnsortedSegmentMean"):
        data = ops.convert_to_tensor(data)
        segment_ids = ops.convert_to_tensor(segment_ids)
        sizes = _segment_sizes(data, segment_ids, num_segments)
        return gen.UnsortedSegmentSum(data, segment_ids, num_segments) / sizes


@export("unsorted_segment_sqrt_n", "math.unsorted_segment_sqrt_n")
def unsorted_segment_sqrt_n(data, segment_ids, num_segments, name=None):
    """The sums of segments, each divided by the square root of its size."""
    with ops.name_scope(name, "UnsortedSegmentSqrtN"):
        data = ops.convert_to_tensor(data)
        segment_ids = ops.convert_to_tensor(segment_ids)
        sizes = _segment_sizes(data, segment_ids, num_segments)
        return gen.UnsortedSegmentSum(data, segment_ids, num_segments) / gen.Sqrt(sizes)


def _sparse_segment(op, data, indices, segment_ids, num_segments, name):
    if num_segments is not None:
        return getattr(gen, f"{op}WithNumSegments")(data, indices, segment_ids, num_segments, name=name)
    return getattr(gen, op)(data, indices, segment_ids, name=name)


@export("sparse_segment_sum", "sparse.segment_sum")
def sparse_segment_sum(data, indices, segment_ids, name=None, num_segments=None):
    """The sums of segments of the rows at `indices`."""
    return _sparse_segment("SparseSegmentSum", data, indices, segment_ids, num_segments, name)


@export("sparse_segment_mean", "sparse.segment_mean")
def sparse_segment_mean(data, indices, segment_ids, name=None, num_segments=None):
    """The means of segments of the rows at `indices`."""
    return _sparse_segment("SparseSegmentMean", data, indices, segment_ids, num_segments, name)


@export("sparse_segment_sqrt_n", "sparse.segment_sqrt_n")
def sparse_segment_sqrt_n(data, indices, segment_ids, name=None, num_segments=None):
    """The sums of segments of the rows at `indices`, each divided by the square root of its size."""
    return _sparse_segment("SparseSegmentSqrtN", data, indices, segment_ids, num_segments, name)


@export("bincount", "math.bincount")
def bincount(arr, weights=None, minlength=None, maxlength=None, dtype=dtypes.int32):
    """How often each number occurs, or the sum of its weights."""
    with ops.name_scope(None, "bincount"):
        arr = ops.convert_to_tensor(arr, name="arr", dtype=dtypes.int32)
        nonempty = reductions.reduce_prod(array.shape(arr)) > 0
        length = math.cast(nonempty, dtypes.int32) * (reductions.reduce_max(arr) + 1)
        if minlength is not None:
            length = gen.Maximum(ops.convert_to_tensor(minlength, name="minlength", dtype=dtypes.int32), length)
        if maxlength is not None:
            length = gen.Minimum(ops.convert_to_tensor(maxlength, name="maxlength", dtype=dtypes.int32), length)
        if weights is not None:
            weights = ops.convert_to_tensor(weights, name="weights")
            return gen.UnsortedSegmentSum(weights, arr, length)
        return gen.Bincount(arr, length, constant([], dtype))


@export("histogram_fixed_width")
def histogram_fixed_width(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """How many values fall into each of equal bins."""
    with ops.name_scope(name, "histogram_fixed_width", [values, value_range, nbins]) as name:
        return gen.HistogramFixedWidth(values, value_range, nbins, dtype=dtype, name=name)


@export("histogram_fixed_width_bins")
def histogram_fixed_width_bins(values, value_range, nbins=100, dtype=dtypes.int32, name=None):
    """The bin that each value falls into."""
    from tensorfleet.ops.clip import clip_by_value

    with ops.name_scope(name, "histogram_fixed_width_bins", [values, value_range, nbins]):
        values = ops.convert_to_tensor(values, name="values")
        shape = array.shape(values)
        values = array.reshape(values, [-1])
        value_range = ops.convert_to_tensor(value_range, name="value_range")
        nbins = ops.convert_to_tensor(nbins, dtype=dtypes.int32, name="nbins")
        nbins_float = math.cast(nbins, values.dtype)
        scaled = math.truediv(values - value_range[0], value_range[1] - value_range[0], name="scaled_values")
        indices = gen.Floor(nbins_float * scaled, name="indices")
        indices = math.cast(clip_by_value(indices, 0, nbins_float - 1), dtypes.int32)
        return array.reshape(indices, shape)


def remove_squeezable_dimensions(labels, predictions, expected_rank_diff=0, name=None):
    """Takes a last dimension of length one off the one that has a dimension too many."""
    with ops.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions = ops.convert_to_tensor(predictions)
        labels = ops.convert_to_tensor(labels)
        predictions_shape, labels_shape = predictions.shape, labels.shape
        predictions_rank, labels_rank = predictions_shape.rank, labels_shape.rank
        if labels_rank is not None and predictions_rank is not None:
            difference = predictions_rank - labels_rank
            if difference == expected_rank_diff + 1 and predictions_shape.dims[-1].is_compatible_with(1):
                predictions = array.squeeze(predictions, [-1])
            elif difference == expected_rank_diff - 1 and labels_shape.dims[-1].is_compatible_with(1):
                labels = array.squeeze(labels, [-1])
            return labels, predictions
        from tensorfleet.ops.control_flow import cond

        difference = array.rank(predictions) - array.rank(labels)
        if predictions_rank is None or predictions_shape.dims[-1].is_compatible_with(1):
            predictions = cond(gen.Equal(expected_rank_diff + 1, difference), lambda: array.squeeze(predictions, [-1]), lambda: predictions)
        if labels_rank is None or labels_shape.dims[-1].is_compatible_with(1):
            labels = cond(gen.Equal(expected_rank_diff - 1, difference), lambda: array.squeeze(labels, [-1]), lambda: labels)
        return labels, predictions


@export("confusion_matrix", "math.confusion_matrix")
def confusion_matrix(labels, predictions, num_classes=None, dtype=dtypes.int32, name=None, weights=None):
    """How often each class was taken for each."""
    from tensorfleet.framework.composite import SparseTensor
    from tensorfleet.ops import check
    from tensorfleet.ops.control_flow import with_dependencies

    with ops.name_scope(name, "confusion_matrix", [predictions, labels, num_classes, weights]):
        labels, predictions = remove_squeezable_dimensions(
            ops.convert_to_tensor(labels, name="labels"), ops.convert_to_tensor(predictions, name="predictions")
        )
        predictions = math.cast(predictions, dtypes.int64)
        labels = math.cast(labels, dtypes.int64)
        labels = with_dependencies([check.assert_non_negative(labels, message="`labels` contains negative values")], labels)
        predictions = with_dependencies([check.assert_non_negative(predictions, message="`predictions` contains negative values")], predictions)
        if num_classes is None:
            num_classes = gen.Maximum(reductions.reduce_max(predictions), reductions.reduce_max(labels)) + 1
        else:
            limit = math.cast(num_classes, dtypes.int64)
            labels = with_dependencies([check.assert_less(labels, limit, message="`labels` out of bound")], labels)
            predictions = with_dependencies([check.assert_less(predictions, limit, message="`predictions` out of bound")], predictions)
        if weights is not None:
            weights = ops.convert_to_tensor(weights, name="weights")
            predictions.shape.assert_is_compatible_with(weights.shape)
            weights = math.cast(weights, dtype)
        shape = array.stack([num_classes, num_classes])
        indices = array.stack([labels, predictions], axis=1)
        values = ones_like(predictions, dtype) if weights is None else weights
        counted = SparseTensor(indices=indices, values=values, dense_shape=math.cast(shape, dtypes.int64))
        from tensorfleet.ops.sparse import sparse_add

        return sparse_add(zeros(math.cast(shape, dtypes.int32), dtype), counted)
