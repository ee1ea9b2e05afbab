"""Clipping: `tf.clip_by_value`, `tf.clip_by_global_norm` and their relatives."""

from tensorfleet.framework import gen, ops
from tensorfleet.framework.composite import IndexedSlices
from tensorfleet.framework.constant import constant
from tensorfleet.framework.export import export
from tensorfleet.ops import reductions
from tensorfleet.ops.constants import ones_like
from tensorfleet.ops.indexing import where


def _values_of(t):
    return t.values if isinstance(t, IndexedSlices) else t


def _like(t, values):
    return IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values


@export("clip_by_value")
def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    """Values between two limits."""
    with ops.name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as name:
        values = ops.convert_to_tensor(_values_of(t), name="t")
        lower = gen.Minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(lower.shape)
        clipped = gen.Maximum(lower, clip_value_min, name=name)
        values.shape.assert_is_compatible_with(clipped.shape)
        return _like(t, clipped)


@export("clip_by_norm")
def clip_by_norm(t, clip_norm, axes=None, name=None):
    """Scaled so that the norm is at most `clip_norm`."""
    with ops.name_scope(name, "clip_by_norm", [t, clip_norm]) as name:
        values = ops.convert_to_tensor(_values_of(t), name="t")
        squares = reductions.reduce_sum(values * values, axes, keepdims=True)
        # The square root of zero has no gradient.
        positive = squares > 0
        norm = where(positive, gen.Sqrt(where(positive, squares, ones_like(squares))), squares)
        intermediate = values * clip_norm
        values.shape.assert_is_compatible_with(intermediate.shape)
        clipped = gen.Identity(intermediate / gen.Maximum(norm, clip_norm), name=name)
        return _like(t, clipped)


def _sequence(t_list):
    if not isinstance(t_list, (list, tuple)) and not hasattr(t_list, "__getitem__") or isinstance(t_list, str):
        raise TypeError("t_list should be a sequence")
    return list(t_list)


def _all_values(t_list):
    return [None if t is None else ops.convert_to_tensor(_values_of(t), name=f"t_{index}") for index, t in enumerate(t_list)]


@export("global_norm", "linalg.global_norm")
def global_norm(t_list, name=None):
    """The norm of several tensors together."""
    t_list = _sequence(t_list)
    with ops.name_scope(name, "global_norm", t_list):
        halves = []
        for value in _all_values(t_list):
            if value is not None:
                with ops.colocate_with(value):
                    halves.append(gen.L2Loss(value))
        from tensorfleet.ops.array import stack

        half = reductions.reduce_sum(stack(halves))
        return gen.Sqrt(half * constant(2.0, dtype=half.dtype), name="global_norm")


@export("clip_by_global_norm")
def clip_by_global_norm(t_list, clip_norm, use_norm=None, name=None):
    """Several tensors scaled so that their common norm is at most `clip_norm`; gives them and the norm."""
    t_list = _sequence(t_list)
    if use_norm is None:
        use_norm = global_norm(t_list, name)
    with ops.name_scope(name, "clip_by_global_norm", [*t_list, clip_norm]) as name:
        finite = clip_norm * gen.Minimum(1.0 / use_norm, constant(1.0, dtype=use_norm.dtype) / clip_norm)
        scale = where(gen.IsFinite(use_norm), finite, constant(float("nan"), dtype=use_norm.dtype))
        clipped = []
        for index, value in enumerate(_all_values(t_list)):
            if value is None:
                clipped.append(None)
                continue
            with ops.colocate_with(value):
                clipped.append(gen.Identity(value * scale, name=f"{name}_{index}"))
        return [None if value is None else _like(t, value) for t, value in zip(t_list, clipped)], use_norm


@export("clip_by_average_norm")
def clip_by_average_norm(t, clip_norm, name=None):
    """Scaled so that the norm per element is at most `clip_norm`."""
    from tensorfleet.ops import array, math

    with ops.name_scope(name, "clip_by_average_norm", [t, clip_norm]) as name:
        t = ops.convert_to_tensor(t, name="t")
        count = math.cast(array.size(t), "float32")
        inverse = gen.Rsqrt(reductions.reduce_sum(t * t, math.range(array.rank(t))))
        intermediate = t * clip_norm
        return gen.Identity(intermediate * gen.Minimum(inverse * count, constant(1.0) / clip_norm), name=name)
