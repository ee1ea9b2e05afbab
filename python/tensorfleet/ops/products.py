"""Products of matrices and tensors: `tf.matmul`, `tf.tensordot`, `tf.einsum`."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export


@export("matmul", "linalg.matmul")
def matmul(a, b, transpose_a=False, transpose_b=False, adjoint_a=False, adjoint_b=False, a_is_sparse=False, b_is_sparse=False, name=None):
    """The product of matrices; with more than two dimensions, of each matrix of the batches."""
    from tensorfleet.ops.math import conj

    with ops.name_scope(name, "MatMul", [a, b]) as name:
        if transpose_a and adjoint_a:
            raise ValueError("Only one of transpose_a and adjoint_a can be True.")
        if transpose_b and adjoint_b:
            raise ValueError("Only one of transpose_b and adjoint_b can be True.")
        a = ops.convert_to_tensor(a, name="a")
        b = ops.convert_to_tensor(b, name="b")
        a_rank, b_rank = a.shape.rank, b.shape.rank
        if (not a_is_sparse and not b_is_sparse) and (a_rank is None or a_rank > 2 or b_rank is None or b_rank > 2):
            # The batched op knows adjoints only.
            if transpose_a:
                a, adjoint_a = conj(a), True
            if transpose_b:
                b, adjoint_b = conj(b), True
            return gen.BatchMatMulV2(a, b, adj_x=adjoint_a, adj_y=adjoint_b, name=name)
        if adjoint_a:
            a, transpose_a = conj(a), True
        if adjoint_b:
            b, transpose_b = conj(b), True
        # The op for factors that are mostly zeros is not in the catalogue; its values are those of the dense one.
        return gen.MatMul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, name=name)


@export("linalg.matvec")
def matvec(a, b, transpose_a=False, adjoint_a=False, a_is_sparse=False, b_is_sparse=False, name=None):
    """A matrix times a vector."""
    from tensorfleet.ops.array import expand_dims, squeeze

    with ops.name_scope(name, "MatVec", [a, b]):
        column = expand_dims(b, axis=-1)
        product = matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a, a_is_sparse=a_is_sparse, b_is_sparse=b_is_sparse)
        return squeeze(product, axis=-1)


def _tensordot_axes(a, axes):
    """The axes of both factors as lists."""
    known = a.shape.rank
    if isinstance(axes, (int, np.integer)):
        if axes < 0:
            raise ValueError("'axes' must be at least 0.")
        if known is not None:
            if axes > known:
                raise ValueError(f"'axes' must not be larger than the number of dimensions of tensor {a}.")
            return list(range(known - axes, known)), list(range(axes))
        from tensorfleet.ops import math
        from tensorfleet.ops.array import rank

        dims = rank(a)
        return math.range(dims - axes, dims, dtype=dtypes.int32), math.range(axes, dtype=dtypes.int32)
    if isinstance(axes, (list, tuple)):
        if len(axes) != 2:
            raise ValueError("'axes' must be an integer or have length 2.")
        first, second = axes
        if isinstance(first, (int, np.integer)) and isinstance(second, (int, np.integer)):
            first, second = [first], [second]
        if len(first) != len(second):
            raise ValueError(f"Different number of contraction axes 'a' and 'b', {len(first)} != {len(second)}.")
        return first, second
    axes = ops.convert_to_tensor(axes, name="axes", dtype=dtypes.int32)
    return axes[0], axes[1]


def _as_matrix(a, axes, flipped=False):
    """A tensor as a matrix whose one side runs over `axes`; also the free dimensions, as numbers and as far as known."""
    from tensorfleet.ops import array, math, reductions

    if a.shape.is_fully_defined() and isinstance(axes, (list, tuple)):
        dims = a.shape.as_list()
        axes = [axis if axis >= 0 else axis + len(dims) for axis in axes]
        free = [axis for axis in range(len(dims)) if axis not in axes]
        free_dims = [dims[axis] for axis in free]
        prod_free = int(np.prod([dims[axis] for axis in free]))
        prod_axes = int(np.prod([dims[axis] for axis in axes]))
        perm = list(axes) + free if flipped else free + list(axes)
        shape = [prod_axes, prod_free] if flipped else [prod_free, prod_axes]
        return array.reshape(array.transpose(a, perm), shape), free_dims, free_dims
    if a.shape.rank is not None and isinstance(axes, (list, tuple)):
        dims = a.shape.as_list()
        axes = [axis if axis >= 0 else axis + len(dims) for axis in axes]
        free = [axis for axis in range(len(dims)) if axis not in axes]
        static = [dims[axis] for axis in free]
        axes = ops.convert_to_tensor(axes, dtype=dtypes.int32, name="axes")
        free = ops.convert_to_tensor(free, dtype=dtypes.int32, name="free")
        shape = array.shape(a)
    else:
        static = None
        shape = array.shape(a)
        rank = array.rank(a)
        axes = ops.convert_to_tensor(axes, dtype=dtypes.int32, name="axes")
        axes = gen.Select(axes >= 0, axes, axes + rank)
        free, _ = gen.ListDiff(math.range(rank), axes, out_idx=dtypes.int32)
    from tensorfleet.ops.indexing import gather

    free_dims = gather(shape, free)
    axes_dims = gather(shape, axes)
    prod_free = reductions.reduce_prod(free_dims)
    prod_axes = reductions.reduce_prod(axes_dims)
    if flipped:
        perm = array.concat([axes, free], 0)
        new_shape = array.stack([prod_axes, prod_free])
    else:
        perm = array.concat([free, axes], 0)
        new_shape = array.stack([prod_free, prod_axes])
    return array.reshape(array.transpose(a, perm), new_shape), free_dims, static


@export("tensordot", "linalg.tensordot")
def tensordot(a, b, axes, name=None):
    """The sum over products along axes of both factors."""
    from tensorfleet.ops import array

    with ops.name_scope(name, "Tensordot", [a, b, axes]) as name:
        a = ops.convert_to_tensor(a, name="a")
        b = ops.convert_to_tensor(b, name="b")
        a_axes, b_axes = _tensordot_axes(a, axes)
        a_matrix, a_free, a_static = _as_matrix(a, a_axes)
        b_matrix, b_free, b_static = _as_matrix(b, b_axes, True)
        product = matmul(a_matrix, b_matrix)
        if isinstance(a_free, list) and isinstance(b_free, list):
            return array.reshape(product, a_free + b_free, name=name)
        a_free = ops.convert_to_tensor(a_free, dtype=dtypes.int32)
        b_free = ops.convert_to_tensor(b_free, dtype=dtypes.int32)
        result = array.reshape(product, array.concat([a_free, b_free], 0), name=name)
        if a_static is not None and b_static is not None:
            result.set_shape(list(a_static) + list(b_static))
        return result


@export("einsum", "linalg.einsum")
def einsum(equation, *inputs, **kwargs):
    """A sum of products written as an equation: `tf.einsum("ij,jk->ik", a, b)`."""
    from tensorfleet.ops import contraction

    return contraction.einsum(equation, inputs, kwargs)


__all__ = ["einsum", "matmul", "matvec", "tensordot"]
