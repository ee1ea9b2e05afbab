"""Reductions over known and unknown shapes, with the old names of the arguments."""

import numpy as np


def program(tf, check):
    a = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    d = tf.placeholder_with_default([[1.0, 2.0], [3.0, 4.0]], [None, 2])
    u = tf.placeholder_with_default([[1.0, 2.0], [3.0, 4.0]], None)
    b = tf.constant([[True, False], [True, True]])
    found = []
    for function in (tf.reduce_sum, tf.reduce_mean, tf.reduce_prod, tf.reduce_min, tf.reduce_max, tf.reduce_logsumexp):
        found += [(f"{len(found)}", function(a)), (f"{len(found)} axis", function(a, 1)), (f"{len(found)} keep", function(d, axis=[0], keepdims=True))]
        found += [(f"{len(found)} unknown", function(u)), (f"{len(found)} old", function(a, reduction_indices=[1], keep_dims=True))]
    found += [("all", tf.reduce_all(b)), ("any", tf.reduce_any(b, 0)), ("std", tf.math.reduce_std(a)), ("variance", tf.math.reduce_variance(a, 1)), ("norm", tf.math.reduce_euclidean_norm(a, 0))]
    found += [("count", tf.count_nonzero(a)), ("count axis", tf.count_nonzero(b, axis=1, dtype=tf.int32)), ("cumsum", tf.cumsum(a, 1)), ("cumsum back", tf.cumsum(a, reverse=True, exclusive=True)), ("cumprod", tf.cumprod(a, axis=1))]
    found += [("list", tf.reduce_sum([1, 2, 3])), ("named", tf.reduce_mean(a, name="average")), ("negative axis", tf.reduce_max(a, axis=-1)), ("l2", tf.norm(a)), ("l1", tf.norm(a, ord=1, axis=1)), ("inf", tf.norm(a, ord=np.inf, axis=0))]
    found += [("p", tf.norm(a, ord=3, axis=0)), ("fro", tf.norm(a, ord="fro", axis=[0, 1])), ("trace", tf.trace([[1.0, 2.0], [3.0, 4.0]]))]
    check("shapes", [str(tensor.shape) for _, tensor in found])

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
