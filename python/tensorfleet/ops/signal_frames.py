"""Signals cut into frames and put together again, and weights for mel scales."""

import math as scalar_math

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant, constant_value
from tensorfleet.framework.export import export
from tensorfleet.ops import array, math, reductions
from tensorfleet.ops.constants import ones_like, zeros, zeros_like


def _common_divisor(a, b):
    """The greatest common divisor of two lengths that are known."""
    with ops.name_scope(None, "gcd", [a, b]):
        known = [constant_value(value) for value in (a, b)]
        if None in known:
            raise NotImplementedError("tf.signal.frame with lengths that only a run tells")
        return constant(scalar_math.gcd(int(known[0]), int(known[1])), dtype=dtypes.int32)


@export("signal.frame")
def frame(signal, frame_length, frame_step, pad_end=False, pad_value=0, axis=-1, name=None):
    """Frames of a length, each a step after the one before it."""
    with ops.name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        signal = ops.convert_to_tensor(signal, name="signal")
        frame_length = ops.convert_to_tensor(frame_length, name="frame_length")
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        axis = ops.convert_to_tensor(axis, name="axis")
        signal.shape.with_rank_at_least(1)
        for value in (frame_length, frame_step, axis):
            value.shape.assert_has_rank(0)
        rank = array.rank(signal)
        axis = math.range(rank)[axis]
        shape = array.shape(signal)
        outer, length, inner = array.split(shape, [axis, 1, rank - 1 - axis], 0)
        length = array.reshape(length, [])
        num_outer, num_inner = array.size(outer), array.size(inner)
        if pad_end:
            frames = -(-length // frame_step)
            missing = gen.Maximum(0, frame_length + frame_step * (frames - 1) - length)
            paddings = array.concat([zeros([num_outer, 2], dtype=missing.dtype), [[0, missing]], zeros([num_inner, 2], dtype=missing.dtype)], 0)
            signal = array.pad(signal, paddings, constant_values=ops.convert_to_tensor(pad_value, signal.dtype.base_dtype))
            length = array.shape(signal)[axis]
        else:
            frames = gen.Maximum(0, 1 + (length - frame_length) // frame_step)
        divisor = _common_divisor(frame_length, frame_step)
        parts_of_frame, parts_of_step, parts = frame_length // divisor, frame_step // divisor, length // divisor
        slice_shape = array.concat([outer, [parts * divisor], inner], 0)
        parts_shape = array.concat([outer, [parts, divisor], inner], 0)
        begin = zeros_like(slice_shape)
        cut = array.reshape(array.strided_slice(signal, begin, slice_shape, ones_like(slice_shape)), parts_shape)
        starts = array.reshape(math.range(frames) * parts_of_step, [frames, 1])
        offsets = array.reshape(math.range(parts_of_frame), [1, parts_of_frame])
        chosen = gen.GatherV2(cut, starts + offsets, axis)
        return array.reshape(chosen, array.concat([outer, [frames, frame_length], inner], 0))


@export("signal.overlap_and_add")
def overlap_and_add(signal, frame_step, name=None):
    """The signal of which frames were cut: where they overlap, they are added."""
    with ops.name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = ops.convert_to_tensor(signal, name="signal")
        signal.shape.with_rank_at_least(2)
        frame_step = ops.convert_to_tensor(frame_step, name="frame_step")
        frame_step.shape.assert_has_rank(0)
        shape = array.shape(signal)
        outer = shape[:-2]
        outer_rank = array.size(outer)

        def full(inner):
            return array.concat([outer, inner], 0)

        frame_length, frames = shape[-1], shape[-2]
        output_length = frame_length + frame_step * (frames - 1)
        segments = -(-frame_length // frame_step)
        paddings = array.concat([zeros([outer_rank, 2], dtype=dtypes.int32), [[0, segments], [0, segments * frame_step - frame_length]]], 0)
        signal = array.pad(signal, paddings)
        signal = array.reshape(signal, full([frames + segments, segments, frame_step]))
        perm = array.concat([math.range(outer_rank), outer_rank + [1, 0, 2]], 0)
        signal = array.transpose(signal, perm)
        signal = array.reshape(signal, full([(frames + segments) * segments, frame_step]))
        signal = signal[..., : (frames + segments - 1) * segments, :]
        signal = array.reshape(signal, full([segments, frames + segments - 1, frame_step]))
        signal = reductions.reduce_sum(signal, -3)
        signal = array.reshape(signal, full([(frames + segments - 1) * frame_step]))
        return signal[..., :output_length]


def _mel(hertz, name=None):
    """Hertz on the mel scale."""
    with ops.name_scope(name, "hertz_to_mel", [hertz]):
        return 1127.0 * gen.Log(1.0 + hertz / 700.0)


@export("signal.linear_to_mel_weight_matrix")
def linear_to_mel_weight_matrix(
    num_mel_bins=20, num_spectrogram_bins=129, sample_rate=8000, lower_edge_hertz=125.0, upper_edge_hertz=3800.0, dtype=dtypes.float32, name=None
):
    """A matrix that turns linear spectrograms into mel ones."""
    with ops.name_scope(name, "linear_to_mel_weight_matrix") as name:
        if num_mel_bins <= 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
        if lower_edge_hertz < 0.0:
            raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower_edge_hertz}")
        if lower_edge_hertz >= upper_edge_hertz:
            raise ValueError(f"lower_edge_hertz {lower_edge_hertz:.1f} >= upper_edge_hertz {upper_edge_hertz:.1f}")
        sample_rate = math.cast(sample_rate, dtype, name="sample_rate") if isinstance(sample_rate, ops.Tensor) else constant(sample_rate, dtype, name="sample_rate")
        lower_edge_hertz = ops.convert_to_tensor(lower_edge_hertz, dtype, name="lower_edge_hertz")
        upper_edge_hertz = ops.convert_to_tensor(upper_edge_hertz, dtype, name="upper_edge_hertz")
        zero = ops.convert_to_tensor(0.0, dtype)
        linear = gen.LinSpace(zero, sample_rate / 2.0, num_spectrogram_bins)[1:]
        spectrogram = array.expand_dims(_mel(linear), 1)
        edges = frame(gen.LinSpace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2), frame_length=3, frame_step=1)
        lower, center, upper = (array.reshape(part, [1, num_mel_bins]) for part in array.split(edges, 3, axis=1))
        lower_slopes = (spectrogram - lower) / (center - lower)
        upper_slopes = (upper - spectrogram) / (upper - center)
        weights = gen.Maximum(zero, gen.Minimum(lower_slopes, upper_slopes))
        return array.pad(weights, [[1, 0], [0, 0]], name=name)
