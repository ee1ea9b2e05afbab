"""Elements by their positions: `tf.gather`, `tf.where`, `tf.boolean_mask`, `tf.one_hot`, `tf.sequence_mask`."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export, export_values
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape


@export("gather")
def gather(params, indices, validate_indices=None, name=None, axis=None, batch_dims=0):
    """The slices of `params` at `indices` of an axis."""
    del validate_indices
    if axis is None:
        axis = batch_dims
    if constant_axis(axis) != 0:
        return gen.GatherV2(params, indices, axis, batch_dims=batch_dims, name=name)
    try:
        # A resource variable is gathered from where it lives.
        return params.sparse_read(indices, name=name)
    except AttributeError:
        return gen.GatherV2(params, indices, axis, name=name)


def constant_axis(axis):
    """The number of an axis, if it is known."""
    known = constant_value(axis) if isinstance(axis, Tensor) else axis
    return None if known is None else int(known)


@export("batch_gather")
def batch_gather(params, indices, name=None):
    """Gathers along the last axis of `indices`, within each batch: the offsets of the batches are added to the indices."""
    from tensorfleet.ops import array, reductions
    from tensorfleet.ops.constants import ones, zeros

    with ops.name_scope(name, "BatchGather", [params, indices]):
        indices = ops.convert_to_tensor(indices, name="indices")
        params = ops.convert_to_tensor(params, name="params")
        rank = indices.shape.rank
        if rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        dtype = indices.dtype.base_dtype
        indices_shape, params_shape = array.shape(indices), array.shape(params)
        stride = ones((), dtype=dtype)
        lengths = gen.Cast(params_shape, DstT=dtype)
        flat = indices
        for dim in range(rank - 1, 0, -1):
            length = lengths[dim - 1]
            stride = stride * lengths[dim]
            offsets = gen.Range(zeros((), dtype=dtype), length, ones((), dtype=dtype)) * stride
            shape = array.stack([1] * (dim - 1) + [length] + [1] * (rank - dim), axis=0)
            flat = flat + array.reshape(offsets, shape)
        flat = array.reshape(flat, [-1])
        outer = params_shape[rank:]
        inner = reductions.reduce_prod(params_shape[:rank], [0], False)
        rows = gather(array.reshape(params, array.concat([[inner], outer], axis=0)), flat)
        result = array.reshape(rows, array.concat([indices_shape, outer], axis=0))
        merged = indices.shape.merge_with(params.shape[: rank - 1].concatenate(indices.shape[rank - 1 :]))
        result.set_shape(merged.concatenate(params.shape[rank:]))
        return result


@export("gather_nd", "manip.gather_nd")
def gather_nd(params, indices, name=None, batch_dims=0):
    """The slices of `params` at the coordinates that the last axis of `indices` holds."""
    batch = constant_axis(batch_dims)
    if batch is None:
        raise ValueError("tf.gather_nd does not allow batch_dims that is not known")
    if batch != 0:
        raise NotImplementedError("tf.gather_nd with batch_dims")
    try:
        return params.gather_nd(indices, name=name)
    except AttributeError:
        return gen.GatherNd(params, indices, name=name)


@export("where")
def where(condition, x=None, y=None, name=None):
    """Where the condition holds; or elements of `x` where it does and of `y` where it does not."""
    if x is None and y is None:
        with ops.name_scope(name, "Where", [condition]) as name:
            condition = ops.convert_to_tensor(condition, preferred_dtype=dtypes.bool_, name="condition")
            return gen.Where(condition, name=name)
    if x is not None and y is not None:
        return gen.Select(condition, x, y, name=name)
    raise ValueError("x and y must both be non-None or both be None.")


@export("where_v2")
def where_v2(condition, x=None, y=None, name=None):
    """`tf.where` that broadcasts."""
    if x is None and y is None:
        return where(condition, name=name)
    if x is not None and y is not None:
        return gen.SelectV2(condition, x, y, name=name)
    raise ValueError("x and y must both be non-None or both be None.")


@export("boolean_mask")
def boolean_mask(tensor, mask, name="boolean_mask", axis=None):
    """The elements, or slices, of a tensor that a mask marks."""
    from tensorfleet.ops import array, reductions

    with ops.name_scope(name, values=[tensor, mask]):
        tensor = ops.convert_to_tensor(tensor, name="tensor")
        mask = ops.convert_to_tensor(mask, name="mask")
        dims, known = mask.shape.rank, tensor.shape
        if dims == 0:
            raise ValueError("mask cannot be scalar.")
        if dims is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions are None.  E.g. shape=[None] is ok, but shape=None is not."
            )
        axis = 0 if axis is None else axis
        known[axis : axis + dims].assert_is_compatible_with(mask.shape)
        count = reductions.reduce_prod(array.shape(tensor)[axis : axis + dims], [0])
        flat = array.reshape(tensor, array.concat([array.shape(tensor)[:axis], [count], array.shape(tensor)[axis + dims :]], 0))
        if known.rank is not None:
            marked = known[axis : axis + dims].num_elements()
            flat.set_shape(TensorShape(known[:axis]).concatenate([marked]).concatenate(known[axis + dims :]))
        places = array.squeeze(where(array.reshape(mask, [-1])), axis=[1])
        return gather(flat, places, axis=axis)


@export("one_hot")
def one_hot(indices, depth, on_value=None, off_value=None, axis=None, dtype=None, name=None):
    """Vectors that are `on_value` at an index and `off_value` elsewhere."""
    with ops.name_scope(name, "one_hot", [indices, depth, on_value, off_value, axis, dtype]) as name:
        given = dtypes.as_dtype(dtype) if dtype is not None else None
        on_dtype = None if on_value is None else ops.convert_to_tensor(on_value).dtype.base_dtype
        off_dtype = None if off_value is None else ops.convert_to_tensor(off_value).dtype.base_dtype
        if on_dtype is not None or off_dtype is not None:
            if given is not None:
                for label, found in (("on_value", on_dtype), ("off_value", off_dtype)):
                    if found is not None and found != given:
                        raise TypeError(f"dtype {found} of {label} does not match dtype parameter {given}")
            else:
                given = on_dtype or off_dtype
        else:
            given = given or dtypes.float32
        if on_value is None:
            on_value = ops.convert_to_tensor(1, given, name="on_value")
            on_dtype = given
        if off_value is None:
            off_value = ops.convert_to_tensor(0, given, name="off_value")
            off_dtype = given
        if on_dtype != off_dtype:
            raise TypeError(f"dtype {on_dtype} of on_value does not match dtype {off_dtype} of off_value")
        return gen.OneHot(indices, depth, on_value, off_value, axis=axis, name=name)


@export("sequence_mask")
def sequence_mask(lengths, maxlen=None, dtype=dtypes.bool_, name=None):
    """Rows of which the first so-many elements are true."""
    from tensorfleet.framework.constant import constant
    from tensorfleet.ops import array, math, reductions

    with ops.name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = ops.convert_to_tensor(lengths)
        if maxlen is None:
            maxlen = reductions.reduce_max(lengths, reductions._all_axes(lengths, None))
            maxlen = gen.Maximum(constant(0, lengths.dtype), maxlen)
        else:
            maxlen = ops.convert_to_tensor(maxlen)
        if maxlen.shape.rank is not None and maxlen.shape.rank != 0:
            raise ValueError("maxlen must be scalar for sequence_mask")
        row = gen.Range(constant(0, maxlen.dtype), maxlen, constant(1, maxlen.dtype))
        # TensorFlow casts even where nothing changes.
        column = gen.Cast(array.expand_dims(lengths, -1), DstT=maxlen.dtype)
        result = row < column
        if dtype is None or result.dtype.base_dtype == dtypes.as_dtype(dtype).base_dtype:
            return result
        return math.cast(result, dtype)


newaxis = None
export_values(__name__, {"newaxis": "newaxis"})
