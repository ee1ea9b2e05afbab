"""Matrices: `tf.eye`, diagonals, norms, solving."""

import numpy as np

from tensorfleet.framework import dtypes, gen, ops
from tensorfleet.framework.export import export
from tensorfleet.ops.arguments import is_integer, keep_dims_of


@export("eye", "linalg.eye")
def eye(num_rows, num_columns=None, batch_shape=None, dtype=dtypes.float32, name=None):
    """The identity matrix, or a batch of them."""
    from tensorfleet.ops.array import concat
    from tensorfleet.ops.constants import ones, zeros

    with ops.name_scope(name, default_name="eye", values=[num_rows, num_columns, batch_shape]):
        is_square = num_columns is None
        batch_shape = [] if batch_shape is None else batch_shape
        num_columns = num_rows if is_square else num_columns
        known = isinstance(num_rows, int) and isinstance(num_columns, int)
        smaller = min(num_rows, num_columns) if known else gen.Minimum(num_rows, num_columns)
        if known and isinstance(batch_shape, (list, tuple)) and all(is_integer(dim) for dim in batch_shape):
            diag_shape = [*batch_shape, smaller]
            shape = [*batch_shape, num_rows, num_columns]
        else:
            batch_shape = ops.convert_to_tensor(batch_shape, name="shape", dtype=dtypes.int32)
            diag_shape = concat((batch_shape, [smaller]), axis=0)
            shape = None if is_square else concat((batch_shape, [num_rows, num_columns]), axis=0)
        diagonal = ones(diag_shape, dtype=dtype)
        if is_square:
            return matrix_diag(diagonal)
        return matrix_set_diag(zeros(shape, dtype=dtype), diagonal)


@export("matrix_diag", "linalg.diag")
def matrix_diag(diagonal, name="diag", k=0, num_rows=-1, num_cols=-1, padding_value=0):
    """A matrix with this diagonal. Like TensorFlow 1.15, it makes the main diagonal whatever `k` says."""
    del k, num_rows, num_cols, padding_value
    return gen.MatrixDiag(diagonal, name=name)


@export("matrix_diag_part", "linalg.diag_part")
def matrix_diag_part(input, name="diag_part", k=0, padding_value=0):
    """The main diagonal."""
    del k, padding_value
    return gen.MatrixDiagPart(input, name=name)


@export("matrix_set_diag", "linalg.set_diag")
def matrix_set_diag(input, diagonal, name="set_diag", k=0):
    """The matrix with another main diagonal."""
    del k
    return gen.MatrixSetDiag(input, diagonal, name=name)


@export("linalg.adjoint")
def adjoint(matrix, name=None):
    """The conjugate transpose."""
    from tensorfleet.ops.array import matrix_transpose

    with ops.name_scope(name, "adjoint", [matrix]):
        return matrix_transpose(ops.convert_to_tensor(matrix, name="matrix"), conjugate=True)


@export("linalg.logdet")
def logdet(matrix, name=None):
    """The logarithm of the determinant of a positive definite matrix."""
    from tensorfleet.ops.math import real
    from tensorfleet.ops.reductions import reduce_sum

    with ops.name_scope(name, "logdet", [matrix]):
        chol = gen.Cholesky(matrix)
        return 2.0 * reduce_sum(gen.Log(real(matrix_diag_part(chol))), axis=[-1])


@export("cholesky_solve", "linalg.cholesky_solve")
def cholesky_solve(chol, rhs, name=None):
    """Solves `A x = rhs`, where `chol` is the Cholesky factor of `A`."""
    with ops.name_scope(name, "cholesky_solve", [chol, rhs]):
        y = gen.MatrixTriangularSolve(chol, rhs, adjoint=False, lower=True)
        return gen.MatrixTriangularSolve(chol, y, adjoint=True, lower=True)


_VECTOR_NORMS = ("euclidean", 1, 2, np.inf)
_MATRIX_NORMS = ("euclidean", "fro", 1, 2, np.inf)


def _norm_axes(ord, axis):
    """Whether it is a norm of matrices, and the axes."""
    if isinstance(axis, (tuple, list)):
        axis = tuple(axis)
        for item in axis:
            if not isinstance(item, (int, np.integer)):
                raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
        if len(axis) != 2 or axis[0] == axis[1]:
            raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
        supported, is_matrix = _MATRIX_NORMS, True
        if ord not in supported:
            raise ValueError(f"'ord' must be a supported matrix norm in {list(supported)}, got {ord}")
        return is_matrix, axis
    if not (axis is None or isinstance(axis, (int, np.integer))):
        raise ValueError("'axis' must be None, an integer, or a tuple of 2 unique integers")
    if isinstance(ord, str) and ord not in _VECTOR_NORMS:
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
    return False, None if axis is None else (axis,)


@export("norm", "linalg.norm")
def norm(tensor, ord="euclidean", axis=None, keepdims=None, name=None, keep_dims=None):
    """The norm of vectors or matrices."""
    from tensorfleet.ops.array import squeeze
    from tensorfleet.ops.math import abs, conj, pow
    from tensorfleet.ops.reductions import reduce_max, reduce_sum

    keepdims = keep_dims_of(keepdims, keep_dims)
    is_matrix, axis = _norm_axes(ord, axis)
    with ops.name_scope(name, "norm", [tensor]):
        tensor = ops.convert_to_tensor(tensor)
        if ord in ("fro", "euclidean", 2):
            if is_matrix and ord == 2:
                raise NotImplementedError("the spectral norm needs the op Svd, which tensorfleet lacks")
            result = gen.Sqrt(reduce_sum(tensor * conj(tensor), axis, keepdims=True))
        else:
            result = abs(tensor)
            if ord == 1:
                result = reduce_sum(result, None if axis is None else axis[0], keepdims=True)
                if is_matrix:
                    result = reduce_max(result, axis[-1], keepdims=True)
            elif ord == np.inf:
                if is_matrix:
                    result = reduce_sum(result, axis[1], keepdims=True)
                result = reduce_max(result, None if axis is None else axis[0], keepdims=True)
            else:
                result = pow(reduce_sum(pow(result, ord), axis, keepdims=True), 1.0 / ord)
        return result if keepdims else squeeze(result, axis)


@export("lbeta", "math.lbeta")
def lbeta(x, name=None):
    """The logarithm of the beta function along the last dimension."""
    from tensorfleet.ops.reductions import reduce_sum

    with ops.name_scope(name, "lbeta", [x]):
        x = ops.convert_to_tensor(x, name="x")
        product = reduce_sum(gen.Lgamma(x), [-1])
        return product - gen.Lgamma(reduce_sum(x, [-1]))


@export("linalg.normalize")
def normalize(tensor, ord="euclidean", axis=None, name=None):
    """The tensor divided by its norm, and the norm."""
    from tensorfleet.ops.math import cast

    with ops.name_scope(name, "normalize", [tensor]):
        tensor = ops.convert_to_tensor(tensor)
        length = cast(norm(tensor, ord, axis, keepdims=True), tensor.dtype)
        return tensor / length, length
