"""Slices of tensors by numbers, ranges, tensors, masks and new axes."""

import numpy as np


def program(tf, check):
    a = tf.constant(np.arange(24).reshape(2, 3, 4), name="a")
    i = tf.constant(1)
    found = [("0", a[0]), ("-1", a[-1]), ("1:", a[1:]), (":, 1", a[:, 1]), ("..., 2", a[..., 2]), ("None", a[None, 0]), ("step", a[:, ::2, 1:3])]
    found += [("reverse", a[::-1]), ("tensor", a[i]), ("tensor range", a[:, i:]), ("tensor end", a[:, : i + 1, i]), ("newaxis", a[:, tf.newaxis, 1])]
    found += [("mask", tf.constant([1, 2, 3])[tf.constant([True, False, True])]), ("whole", a[:]), ("dots", a[...])]
    found += [("strided", tf.strided_slice(a, [0, 1, 0], [2, 3, 4], [1, 1, 2])), ("no strides", tf.strided_slice(a, [0, 0, 0], [1, 2, 2]))]
    found += [("slice", tf.slice(a, [0, 1, 1], [1, -1, 2]))]
    check("shapes", [str(tensor.shape) for _, tensor in found])

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
