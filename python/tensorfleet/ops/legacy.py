"""Names of TensorFlow 0.x that later versions dropped: `tf.mul`, `tf.pack`, `tf.batch_matmul` and others.

They make the nodes that the names after them make, under the node names of their time.
"""

from tensorfleet.framework import dtypes, gen
from tensorfleet.framework.export import export
from tensorfleet.ops import array, linalg, math


@export("mul")
def mul(x, y, name=None):
    """`tf.multiply`."""
    return gen.Mul(x, y, name=name)


@export("sub")
def sub(x, y, name=None):
    """`tf.subtract`."""
    return gen.Sub(x, y, name=name)


@export("neg")
def neg(x, name=None):
    """`tf.negative`."""
    return gen.Neg(x, name=name)


@export("inv")
def inv(x, name=None):
    """`tf.reciprocal`."""
    return gen.Inv(x, name=name)


@export("complex_abs")
def complex_abs(x, name=None):
    """`tf.abs`."""
    return math.abs(x, name=name)


@export("select")
def select(condition, t, e, name=None):
    """`tf.where` with three arguments."""
    return gen.Select(condition, t, e, name=name)


@export("pack")
def pack(values, axis=0, name="pack"):
    """`tf.stack`."""
    return array.stack(values, axis=axis, name=name)


@export("unpack")
def unpack(value, num=None, axis=0, name="unpack"):
    """`tf.unstack`."""
    return array.unstack(value, num=num, axis=axis, name=name)


@export("concat_v2")
def concat_v2(values, axis, name="concat_v2"):
    """`tf.concat`."""
    return array.concat(values, axis, name=name)


@export("split_v")
def split_v(value=None, size_splits=None, split_dim=0, num=None, name="split_v"):
    """`tf.split` with sizes."""
    return gen.SplitV(value, size_splits, split_dim, num_split=num or len(size_splits), name=name)


@export("listdiff", "list_diff")
def listdiff(x, y, out_idx=dtypes.int32, name=None):
    """`tf.setdiff1d`."""
    return array.setdiff1d(x, y, out_idx, name)


@export("batch_matmul")
def batch_matmul(x, y, adj_x=False, adj_y=False, name=None):
    """`tf.matmul` of batches."""
    return gen.BatchMatMul(x, y, adj_x=adj_x, adj_y=adj_y, name=name)


@export("batch_cholesky")
def batch_cholesky(input, name=None):
    """`tf.cholesky`."""
    return gen.Cholesky(input, name=name)


@export("batch_cholesky_solve")
def batch_cholesky_solve(chol, rhs, name=None):
    """`tf.cholesky_solve`."""
    return linalg.cholesky_solve(chol, rhs, name=name)


@export("batch_matrix_band_part")
def batch_matrix_band_part(input, num_lower, num_upper, name=None):
    """`tf.matrix_band_part`."""
    return gen.MatrixBandPart(input, num_lower, num_upper, name=name)


@export("batch_matrix_determinant")
def batch_matrix_determinant(input, name=None):
    """`tf.matrix_determinant`."""
    return gen.MatrixDeterminant(input, name=name)


@export("batch_matrix_diag")
def batch_matrix_diag(diagonal, name=None):
    """`tf.matrix_diag`."""
    return gen.MatrixDiag(diagonal, name=name)


@export("batch_matrix_diag_part")
def batch_matrix_diag_part(input, name=None):
    """`tf.matrix_diag_part`."""
    return gen.MatrixDiagPart(input, name=name)


@export("batch_matrix_set_diag")
def batch_matrix_set_diag(input, diagonal, name=None):
    """`tf.matrix_set_diag`."""
    return gen.MatrixSetDiag(input, diagonal, name=name)


@export("batch_matrix_inverse")
def batch_matrix_inverse(input, adjoint=None, name=None):
    """`tf.matrix_inverse`."""
    return gen.MatrixInverse(input, adjoint=bool(adjoint), name=name)


@export("batch_matrix_solve")
def batch_matrix_solve(matrix, rhs, adjoint=None, name=None):
    """`tf.matrix_solve`."""
    return gen.MatrixSolve(matrix, rhs, adjoint=bool(adjoint), name=name)


@export("batch_matrix_triangular_solve")
def batch_matrix_triangular_solve(matrix, rhs, lower=None, adjoint=None, name=None):
    """`tf.matrix_triangular_solve`."""
    return gen.MatrixTriangularSolve(matrix, rhs, lower=lower is not False, adjoint=bool(adjoint), name=name)


@export("batch_matrix_transpose")
def batch_matrix_transpose(a, name="batch_matrix_transpose"):
    """`tf.matrix_transpose`."""
    return array.matrix_transpose(a, name=name)
