"""Elements by position: gather, where, masks, scatter, unique."""

import numpy as np


def program(tf, check):
    a = tf.constant(np.arange(12).reshape(3, 4), tf.float32)
    d = tf.placeholder_with_default(np.arange(12).reshape(3, 4).astype("float32"), [None, 4])
    found = [("gather", tf.gather(a, [2, 0])), ("gather axis", tf.gather(a, [1, 1], axis=1)), ("gather dynamic", tf.gather(d, tf.constant([0]))), ("gather nd", tf.gather_nd(a, [[0, 1], [2, 3]]))]
    found += [("gather batch", tf.gather(a, [[0], [1], [2]], batch_dims=1)), ("batch gather", tf.batch_gather(a, [[0], [1], [2]])), ("where", tf.where(a > 5.0)), ("where 3", tf.where(a > 5.0, a, -a))]
    found += [("where rows", tf.where([True, False, True], a, -a)), ("where v2", tf.where_v2(a > 5.0, a, 0.0)), ("mask", tf.boolean_mask(a, [True, False, True])), ("mask axis", tf.boolean_mask(d, [True, False, True, False], axis=1))]
    found += [("mask full", tf.boolean_mask(a, a > 3.0)), ("scatter", tf.scatter_nd([[1], [3]], [5.0, 6.0], [5])), ("update", tf.tensor_scatter_update(a, [[0, 0]], [9.0])), ("add", tf.tensor_scatter_add(a, [[0, 0]], [9.0]))]
    found += [("unique", tf.unique([1, 2, 1, 3])), ("counts", tf.unique_with_counts([1, 2, 1, 3])), ("diff", tf.setdiff1d([1, 2, 3], [2])), ("invert", tf.invert_permutation([2, 0, 1])), ("unravel", tf.unravel_index([1, 5], [2, 3]))]
    found += [("stitch", tf.dynamic_stitch([[0, 2], [1]], [[1.0, 3.0], [2.0]])), ("partition", tf.dynamic_partition([1, 2, 3], [0, 1, 0], 2)), ("sort", tf.sort([3, 1, 2])), ("sort down", tf.sort([3.0, 1.0, 2.0], direction="DESCENDING"))]
    found += [("argsort", tf.argsort([[3, 1], [2, 5]], axis=0)), ("repeat", tf.repeat([1, 2], [2, 3])), ("repeat axis", tf.repeat([[1, 2], [3, 4]], 2, axis=1)), ("argmax", tf.argmax(a, 1)), ("argmin", tf.argmin(a, axis=0, output_type=tf.int32))]
    found += [("arg_max", tf.arg_max(a, dimension=1)), ("argmax 0", tf.argmax(a))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
