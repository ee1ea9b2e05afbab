"""Sparse tensors: `tf.sparse.*` and the older names."""

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.composite import IndexedSlices, SparseTensor, SparseTensorValue
from tensorfleet.framework.constant import constant, constant_value, constant_value_as_shape
from tensorfleet.framework.export import export
from tensorfleet.framework.tensor import Tensor
from tensorfleet.ops import array, math, reductions
from tensorfleet.ops.arguments import keep_dims_of, renamed
from tensorfleet.ops.constants import fill, ones, ones_like, zeros
from tensorfleet.ops.indexing import gather, where, where_v2


def _sparse(value):
    """The value as a `SparseTensor`; anything else is a mistake."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


@export("sparse_to_dense")
def sparse_to_dense(sparse_indices, output_shape, sparse_values, default_value=0, validate_indices=True, name=None):
    """A dense tensor from positions and values."""
    return gen.SparseToDense(
        sparse_indices, output_shape, sparse_values, default_value=default_value, validate_indices=validate_indices, name=name
    )


@export("sparse_tensor_to_dense", "sparse.to_dense")
def sparse_tensor_to_dense(sp_input, default_value=None, validate_indices=True, name=None):
    """The dense tensor that a sparse one stands for."""
    sp_input = _sparse(sp_input)
    if default_value is None:
        default_value = zeros([], dtype=sp_input.dtype)
    return gen.SparseToDense(
        sp_input.indices, sp_input.dense_shape, sp_input.values, default_value=default_value, validate_indices=validate_indices, name=name
    )


@export("sparse.from_dense")
def from_dense(tensor, name=None):
    """The elements of a dense tensor that are not zero."""
    with ops.name_scope(name, "dense_to_sparse"):
        tensor = ops.convert_to_tensor(tensor)
        zero = "" if tensor.dtype.base_dtype == dtypes.string else 0
        indices = where(gen.NotEqual(tensor, constant(zero, tensor.dtype)))
        return SparseTensor(indices, gen.GatherNd(tensor, indices), array.shape(tensor, out_type=dtypes.int64))


@export("sparse_tensor_dense_matmul", "sparse.matmul", "sparse.sparse_dense_matmul")
def sparse_tensor_dense_matmul(sp_a, b, adjoint_a=False, adjoint_b=False, name=None):
    """A sparse matrix times a dense one."""
    sp_a = _sparse(sp_a)
    with ops.name_scope(name, "SparseTensorDenseMatMul", [sp_a.indices, sp_a.values, b]):
        b = ops.convert_to_tensor(b, name="b")
        return gen.SparseTensorDenseMatMul(sp_a.indices, sp_a.values, sp_a.dense_shape, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


@export("sparse_reduce_sum", "sparse.reduce_sum")
def sparse_reduce_sum(sp_input, axis=None, keepdims=None, reduction_axes=None, keep_dims=None):
    """The sum of a sparse tensor along axes, as a dense one."""
    keepdims = keep_dims_of(keepdims, keep_dims)
    axis = renamed("axis", axis, "reduction_axes", reduction_axes)
    axes = reductions._all_axes(sp_input, axis)
    return gen.SparseReduceSum(sp_input.indices, sp_input.values, sp_input.dense_shape, axes, keep_dims=keepdims)


@export("sparse_add", "sparse.add")
def sparse_add(a, b, threshold=None, thresh=None):
    """The sum of a sparse tensor and a dense one."""
    threshold = renamed("threshold", threshold, "thresh", thresh)
    kinds = (SparseTensor, SparseTensorValue)
    if not isinstance(a, kinds) and not isinstance(b, kinds):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if isinstance(a, kinds) and isinstance(b, kinds):
        raise NotImplementedError(f"the sum of two sparse tensors (threshold {threshold}): there is no op SparseAdd")
    if isinstance(b, kinds):
        a, b = b, a
    a = _sparse(a)
    return gen.SparseTensorDenseAdd(a.indices, a.values, a.dense_shape, b)


@export("sparse_reorder", "sparse.reorder")
def sparse_reorder(sp_input, name=None):
    """The same sparse tensor with its positions in order."""
    sp_input = _sparse(sp_input)
    indices, values = gen.SparseReorder(sp_input.indices, sp_input.values, sp_input.dense_shape, name=name)
    known = sp_input.shape
    if known.is_fully_defined():
        return SparseTensor(indices, values, known.as_list())
    return SparseTensor(indices, values, gen.Identity(sp_input.dense_shape))


@export("sparse_reshape", "sparse.reshape")
def sparse_reshape(sp_input, shape, name=None):
    """The same elements in another shape."""
    sp_input = _sparse(sp_input)
    shape = math.cast(shape, dtype=dtypes.int64)
    with ops.name_scope(name, "SparseReshape", [sp_input]) as name:
        indices, new_shape = gen.SparseReshape(sp_input.indices, sp_input.dense_shape, shape, name=name)
        known = constant_value_as_shape(shape)
        count = constant_value_as_shape(sp_input.dense_shape).num_elements()
        dims = None if known.rank is None else list(known._dims)
        if dims is not None and dims.count(None) == 1 and count is not None:
            rest = 1
            for dim in dims:
                rest *= 1 if dim is None else dim
            dims[dims.index(None)] = count // rest if rest else 0
        if dims is not None and None not in dims:
            total = 1
            for dim in dims:
                total *= dim
            if count is not None and total != count:
                raise ValueError(f"Cannot reshape a tensor with {count} elements to shape ({', '.join(str(dim) for dim in dims)}) ({total} elements)")
            new_shape = constant(dims, dtype=dtypes.int64)
        return SparseTensor(indices, gen.Identity(sp_input.values), new_shape)


@export("sparse_retain", "sparse.retain")
def sparse_retain(sp_input, to_retain):
    """Only the elements that a mask marks."""
    sp_input = _sparse(sp_input)
    to_retain = ops.convert_to_tensor(to_retain)
    marked = to_retain.shape
    if marked.rank is not None and sp_input.values.shape.rank is not None:
        marked.dims[0].merge_with(sp_input.values.shape.dims[0])
    places = array.reshape(where(to_retain), [-1])
    return SparseTensor(gather(sp_input.indices, places), gather(sp_input.values, places), gen.Identity(sp_input.dense_shape))


@export("sparse_fill_empty_rows", "sparse.fill_empty_rows")
def sparse_fill_empty_rows(sp_input, default_value, name=None):
    """Gives rows without elements one; gives also which rows those were."""
    sp_input = _sparse(sp_input)
    with ops.name_scope(name, "SparseFillEmptyRows", [sp_input]):
        default_value = ops.convert_to_tensor(default_value, dtype=sp_input.values.dtype.base_dtype)
        made = gen.SparseFillEmptyRows(sp_input.indices, sp_input.values, sp_input.dense_shape, default_value)
        return SparseTensor(made[0], made[1], sp_input.dense_shape), made[2]


@export("sparse_transpose", "sparse.transpose")
def sparse_transpose(sp_input, perm=None, name=None):
    """Changes the order of the dimensions."""
    with ops.name_scope(name, "SparseTranspose", [sp_input]):
        if perm is None:
            rank = array.rank(sp_input)
            perm = (rank - 1) - math.range(0, rank, 1)
        indices = array.transpose(gather(array.transpose(sp_input.indices), perm))
        shape = gather(sp_input.dense_shape, perm)
        indices, values = gen.SparseReorder(indices, sp_input.values, shape)
        return SparseTensor(indices, values, gen.Identity(shape))


@export("sparse_reset_shape", "sparse.reset_shape")
def sparse_reset_shape(sp_input, new_shape=None):
    """The same elements in a larger shape, or in the smallest that holds them."""
    sp_input = _sparse(sp_input)
    indices = gen.Identity(sp_input.indices)
    values = gen.Identity(sp_input.values)
    shape = gen.Identity(sp_input.dense_shape)
    if new_shape is None:
        lowest = reductions.reduce_max(indices, axis=0)
        new = gen.Maximum(constant(0, dtype=dtypes.int64), gen.Add(lowest, ones_like(lowest)))
        return SparseTensor(indices, values, new)
    new = ops.convert_to_tensor(new_shape)
    new.shape.with_rank(1)
    new = math.cast(new, dtypes.int64)
    new.shape.dims[0].merge_with(shape.shape.dims[0])
    known, own = constant_value_as_shape(new), constant_value_as_shape(sp_input.dense_shape)
    if known.is_fully_defined() and own.is_fully_defined():
        if len(known) != len(own):
            raise ValueError(f"new_shape has rank {len(known)} but sp_input rank is {len(own)}")
        if any(after < before for after, before in zip(known.as_list(), own.as_list())):
            raise ValueError(f"Requested dense_shape size {known.as_list()} is smaller than the input's {own.as_list()}")
        return SparseTensor(indices, values, known.as_list())
    from tensorfleet.ops import check
    from tensorfleet.ops.control_flow import with_dependencies

    shape = with_dependencies([check.assert_equal(array.shape(shape), array.shape(new))], shape)
    new = with_dependencies([check.assert_less_equal(shape, new)], new)
    return SparseTensor(indices, values, new)


@export("sparse_merge", "sparse.merge")
def sparse_merge(sp_ids, sp_values, vocab_size, name=None, already_sorted=False):
    """A sparse tensor whose last coordinates are ids."""
    if isinstance(sp_ids, (SparseTensor, SparseTensorValue)):
        sp_ids = [sp_ids]
        if not isinstance(vocab_size, (Tensor, int)):
            raise TypeError(f"vocab_size has to be a Tensor or Python int. Found {type(vocab_size)}")
        vocab_size = [vocab_size]
    elif not hasattr(vocab_size, "__iter__"):
        raise TypeError(f"vocab_size has to be a list of Tensors or Python ints. Found {type(vocab_size)}")
    with ops.name_scope(name, "SparseMerge", [*sp_ids, sp_values]):
        return _merged([_sparse(ids) for ids in sp_ids], _sparse(sp_values), vocab_size, already_sorted)


def _merged(sp_ids, sp_values, vocab_size, already_sorted=False):
    """The values at the coordinates of the ids without the last, then the ids; in the scope of the caller."""
    columns = [array.expand_dims(math.cast(ids.values, dtypes.int64), axis=1) for ids in sp_ids]
    sizes = [math.cast(size, dtypes.int64) for size in vocab_size]
    first = sp_ids[0]
    indices = array.concat([first.indices[:, :-1], *columns], axis=1)
    shape = array.concat([first.dense_shape[:-1], sizes], axis=0)
    result = SparseTensor(indices, sp_values.values, shape)
    if already_sorted:
        return result
    dims = constant_value_as_shape(first.dense_shape)
    numbers = [constant_value(size) if isinstance(size, Tensor) else size for size in vocab_size]
    if dims.is_fully_defined() and None not in numbers:
        reordered = _reordered(result, dims.as_list()[:-1] + numbers)
    else:
        reordered = sparse_reorder(result)
    return SparseTensor(reordered.indices, reordered.values, shape)


def _reordered(sparse, dims):
    """In order, with a shape that is known though inference does not see it."""
    indices, values = gen.SparseReorder(sparse.indices, sparse.values, sparse.dense_shape)
    return SparseTensor(indices, values, [int(dim) for dim in dims])


@export("sparse_to_indicator", "sparse.to_indicator")
def sparse_to_indicator(sp_input, vocab_size, name=None):
    """A dense tensor that is true at the ids that occur."""
    sp_input = _sparse(sp_input)
    with ops.name_scope(name, "SparseToIndicator", [sp_input]) as name:
        count = array.shape(sp_input.indices)[0]
        true = fill(array.expand_dims(count, 0), True)
        marks = SparseTensor(sp_input.indices, true, sp_input.dense_shape)
        merged = _merged([sp_input], marks, [vocab_size])
        return sparse_tensor_to_dense(merged, default_value=False, validate_indices=False, name=name)


@export("sparse_mask", "sparse.mask")
def sparse_mask(a, mask_indices, name=None):
    """`IndexedSlices` without some of the rows."""
    with ops.name_scope(name, "sparse_mask", [a, mask_indices]) as name:
        indices, kept = array.setdiff1d(a.indices, mask_indices)
        return IndexedSlices(gather(a.values, kept, name=name), indices, a.dense_shape)


@export("sparse.eye")
def sparse_eye(num_rows, num_columns=None, dtype=dtypes.float32, name=None):
    """The identity matrix."""
    with ops.name_scope(name, default_name="eye", values=[num_rows, num_columns]):
        num_rows = ops.convert_to_tensor(num_rows, dtype=dtypes.int64, name="num_rows")
        num_columns = num_rows if num_columns is None else ops.convert_to_tensor(num_columns, dtype=dtypes.int64, name="num_columns")
        size = gen.Minimum(num_rows, num_columns)
        places = math.range(size, dtype=dtypes.int64)
        return SparseTensor(array.stack([places, places], axis=1), ones(size, dtype=dtype), [num_rows, num_columns])


@export("sparse.expand_dims")
def sparse_expand_dims(sp_input, axis=None, name=None):
    """Adds a dimension of length one."""
    rank = sp_input.dense_shape.shape._dims[0]
    axis = -1 if axis is None else axis
    with ops.name_scope(name, default_name="expand_dims", values=[sp_input]):
        axis = ops.convert_to_tensor(axis, name="axis", dtype=dtypes.int32)
        axis = where_v2(axis >= 0, axis, axis + rank + 1)
        count = array.shape(sp_input.indices)[0]
        column = zeros([count, 1], dtype=dtypes.int64)
        before = array.slice(sp_input.indices, [0, 0], [-1, axis])
        after = array.slice(sp_input.indices, [0, axis], [-1, -1])
        indices = array.concat([before, column, after], axis=1)
        shape_before = array.slice(sp_input.dense_shape, [0], [axis])
        shape_after = array.slice(sp_input.dense_shape, [axis], [-1])
        one = ops.convert_to_tensor([1], name="new_shape", dtype=dtypes.int64)
        shape = array.concat([shape_before, one, shape_after], axis=0)
        return SparseTensor(indices, sp_input.values, shape)
