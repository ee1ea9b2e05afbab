"""Diagonals, inverses, solving, determinants."""


def program(tf, check):
    a = tf.constant([[4.0, 1.0], [1.0, 3.0]])
    r = tf.constant([[1.0], [2.0]])
    found = [("inverse", tf.matrix_inverse(a)), ("solve", tf.matrix_solve(a, r)), ("determinant", tf.matrix_determinant(a)), ("cholesky", tf.cholesky(a)), ("cholesky solve", tf.cholesky_solve(tf.cholesky(a), r))]
    found += [("triangular", tf.matrix_triangular_solve(tf.cholesky(a), r)), ("logdet", tf.linalg.logdet(a)), ("slogdet", tf.linalg.slogdet(a)), ("diag", tf.diag([1.0, 2.0])), ("diag part", tf.diag_part(a)), ("matrix diag", tf.matrix_diag([[1.0, 2.0]]))]
    found += [("matrix diag part", tf.matrix_diag_part(a)), ("set diag", tf.matrix_set_diag(a, [9.0, 8.0])), ("band", tf.matrix_band_part(a, 0, -1)), ("adjoint", tf.linalg.adjoint(tf.complex(a, a))), ("lbeta", tf.lbeta([1.0, 2.0, 3.0]))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
