"""Products of matrices and tensors."""

import numpy as np


def program(tf, check):
    a = tf.constant(np.arange(6).reshape(2, 3), tf.float32)
    b = tf.constant(np.arange(12).reshape(3, 4), tf.float32)
    c = tf.constant(np.arange(24).reshape(2, 3, 4), tf.float32)
    d = tf.placeholder_with_default(np.arange(24).reshape(2, 3, 4).astype("float32"), [None, 3, 4])
    u = tf.placeholder_with_default(np.arange(6).reshape(2, 3).astype("float32"), None)
    found = [("matmul", tf.matmul(a, b)), ("transpose", tf.matmul(a, a, transpose_b=True)), ("transpose a", tf.matmul(a, a, transpose_a=True)), ("adjoint", tf.matmul(a, a, adjoint_a=True))]
    found += [("batch", tf.matmul(c, c, transpose_a=True)), ("unknown", tf.matmul(u, b)), ("matvec", tf.linalg.matvec(a, [1.0, 2.0, 3.0])), ("tensordot", tf.tensordot(c, b, [[2], [1]])), ("tensordot 1", tf.tensordot(a, b, 1))]
    found += [("tensordot dynamic", tf.tensordot(d, tf.transpose(b), 1)), ("tensordot axes", tf.tensordot(c, c, axes=[[1, 2], [1, 2]])), ("einsum", tf.einsum("ij,jk->ik", a, b)), ("einsum t", tf.einsum("ij->ji", a))]
    found += [("einsum batch", tf.einsum("bij,bkj->bik", c, c)), ("einsum sum", tf.einsum("ij->", a)), ("einsum outer", tf.einsum("i,j->ij", a[0], b[0])), ("einsum dynamic", tf.einsum("bij,jk->bik", d, tf.transpose(b)))]
    found += [("einsum implicit", tf.einsum("ij,jk", a, b)), ("cross", tf.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])), ("scalar", tf.scalar_mul(2.0, a)), ("add_n", tf.add_n([a, a, a])), ("accumulate", tf.accumulate_n([a, a]))]
    found += [("polyval", tf.math.polyval([1.0, 2.0, 3.0], a))]
    check("shapes", [str(tensor.shape) for _, tensor in found])

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
