"""Elements by their positions: `tf.gather`, `tf.where`, `tf.boolean_mask`, `tf.one_hot`, `tf.sequence_mask`."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.constant import constant_value
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.framework.tensor_shape import TensorShape


@export("gather")
def gather(params, indices, validate_indices=None, name=None, axis=None, batch_dims=0):
    """The slices of `params` at `indices` of an axis."""
    del validate_indices
    if batch_dims != 0:
        return _batch_gather(params, indices, batch_dims, axis)
    if axis is None:
        axis = batch_dims
    if constant_axis(axis) != 0:
        return gen.GatherV2(params, indices, axis, name=name)
    try:
        # A resource variable is gathered from where it lives.
        return params.sparse_read(indices, name=name)
    except AttributeError:
        return gen.GatherV2(params, indices, axis, name=name)


def constant_axis(axis):
    """The number of an axis, if it is known; zero otherwise, as TensorFlow takes it."""
    known = constant_value(axis) if isinstance(axis, Tensor) else axis
    return None if known is None else int(known)


def _batch_gather(params, indices, batch_dims, axis=None):
    """Gathers within each batch: the offsets of the batches are added to the indices of the flattened tensor."""
    from tensorfleet.ops import array, math, reductions
    from tensorfleet.ops.constants import ones

    if batch_dims is not None and not isinstance(batch_dims, int):
        raise TypeError(f"batch_dims must be an int; got {batch_dims!r}")
    indices = ops.convert_to_tensor(indices, name="indices")
    rank = indices.shape.rank
    if rank is None:
        raise ValueError("tf.gather does not allow indices with unknown rank when batch_dims is specified.")
    if batch_dims is None:
        batch_dims = rank - 1
    if batch_dims < 0:
        batch_dims += rank
    if batch_dims < 0 or batch_dims >= rank:
        raise ValueError(f"batch_dims = {batch_dims} must be less than rank(indices) = {rank}")
    if params.shape.rank is not None and batch_dims >= params.shape.rank:
        raise ValueError(f"batch_dims = {batch_dims} must be less than rank(params) = {params.shape.rank}")
    if axis is not None and axis != batch_dims:
        if axis < 0:
            axis += array.rank(params) if params.shape.rank is None else params.shape.rank
        forward = [*range(batch_dims), axis, *range(batch_dims, axis), *range(axis + 1, params.shape.rank)]
        gathered = _batch_gather(array.transpose(params, forward), indices, batch_dims)
        extra = rank - batch_dims
        back = [*range(batch_dims), *range(rank, axis + extra), *range(batch_dims, rank), *range(axis + extra, gathered.shape.rank)]
        return array.transpose(gathered, back)
    if not isinstance(params, Tensor):
        params = ops.convert_to_tensor(params, name="params")
    batch_indices = indices
    params_shape = array.shape(params)
    cumulated = ones((), dtype=dtypes.int32)
    for dim in range(batch_dims, 0, -1):
        dim_value = params_shape[dim - 1]
        cumulated = cumulated * params_shape[dim]
        start, step = math.cast(0, indices.dtype), math.cast(1, indices.dtype)
        dim_indices = math.range(start, math.cast(dim_value, indices.dtype), step)
        dim_indices = dim_indices * math.cast(cumulated, indices.dtype)
        shape = array.stack([1] * (dim - 1) + [dim_value] + [1] * (rank - dim), axis=0)
        batch_indices = batch_indices + array.reshape(dim_indices, shape)
    flat_indices = array.reshape(batch_indices, [-1])
    outer = params_shape[batch_dims + 1 :]
    flat_inner = reductions.reduce_prod(params_shape[: batch_dims + 1], [0], False)
    flat_params = array.reshape(params, array.concat([[flat_inner], outer], axis=0))
    flat_result = gather(flat_params, flat_indices)
    result = array.reshape(flat_result, array.concat([array.shape(indices), outer], axis=0))
    result.set_shape(indices.shape[:batch_dims].concatenate(indices.shape[batch_dims:]).concatenate(params.shape[batch_dims + 1 :]))
    return result


@export("batch_gather")
def batch_gather(params, indices, name=None):
    """Gathers along the last axis of `indices`, within each batch."""
    with ops.name_scope(name, "BatchGather", [params, indices]):
        indices = ops.convert_to_tensor(indices, name="indices")
        params = ops.convert_to_tensor(params, name="params")
        if indices.shape.rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        return _batch_gather(params, indices, batch_dims=indices.shape.rank - 1)


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
