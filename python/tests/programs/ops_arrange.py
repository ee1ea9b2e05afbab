"""Reshaping, joining, splitting, transposing, padding."""

import numpy as np


def program(tf, check):
    a = tf.constant(np.arange(12).reshape(3, 4), tf.float32)
    d = tf.placeholder_with_default(np.arange(12).reshape(3, 4).astype("float32"), [None, 4])
    u = tf.placeholder_with_default(np.arange(12).reshape(3, 4).astype("float32"), None)
    found = [("reshape", tf.reshape(a, [2, -1])), ("expand", tf.expand_dims(a, 1)), ("expand dim", tf.expand_dims(a, dim=0)), ("squeeze", tf.squeeze([[1], [2]]))]
    found += [("squeeze axis", tf.squeeze([[[1], [2]]], axis=0)), ("squeeze dims", tf.squeeze([[[1], [2]]], squeeze_dims=[0, 2])), ("concat", tf.concat([a, d], 0))]
    found += [("concat 1", tf.concat([a, a], axis=1, name="wide")), ("concat one", tf.concat([a], 0)), ("stack", tf.stack([a, a])), ("stack 1", tf.stack([1, 2, 3])), ("stack axis", tf.stack([a, a], axis=-1))]
    found += [("stack mixed", tf.stack([tf.shape(d)[0], 5]))]
    found += [(f"unstack {index}", tensor) for index, tensor in enumerate(tf.unstack(a))]
    found += [(f"unstack axis {index}", tensor) for index, tensor in enumerate(tf.unstack(d, axis=1))]
    found += [(f"split {index}", tensor) for index, tensor in enumerate(tf.split(a, 2, axis=1))]
    found += [(f"split sizes {index}", tensor) for index, tensor in enumerate(tf.split(a, [1, 2]))]
    found += [("transpose", tf.transpose(a)), ("transpose perm", tf.transpose(tf.reshape(a, [3, 2, 2]), [1, 0, 2])), ("transpose unknown", tf.transpose(u))]
    found += [("matrix transpose", tf.matrix_transpose(tf.reshape(a, [3, 2, 2]))), ("pad", tf.pad(a, [[1, 0], [0, 2]])), ("pad value", tf.pad(a, [[1, 0], [0, 2]], constant_values=-1.0))]
    found += [("pad reflect", tf.pad(a, [[1, 1], [2, 2]], "REFLECT")), ("pad symmetric", tf.pad(a, [[1, 1], [2, 2]], mode="symmetric")), ("tile", tf.tile([[1, 2]], [2, 2]))]
    found += [("reverse", tf.reverse(a, [0])), ("reverse seq", tf.reverse_sequence(a, [1, 2, 4], seq_axis=1, batch_axis=0)), ("broadcast", tf.broadcast_to([1, 2], [2, 2]))]
    found += [("identity", tf.identity(a)), ("space", tf.space_to_depth(tf.reshape(a[:, :], [1, 2, 6, 1]), 2)), ("batch", tf.space_to_batch_nd(tf.ones([1, 2, 2, 1]), [2, 2], [[0, 0], [0, 0]]))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
