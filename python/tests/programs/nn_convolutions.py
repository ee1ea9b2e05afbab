"""Convolutions in all forms, plain, dilated and transposed."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(2)
    x = tf.constant(rng.randn(2, 8, 8, 3).astype(np.float32), name="x")
    w = tf.constant(rng.randn(3, 3, 3, 4).astype(np.float32), name="w")
    back = tf.constant(rng.randn(3, 3, 4, 3).astype(np.float32), name="back")
    s = tf.constant(rng.randn(2, 8, 3).astype(np.float32), name="s")
    k = tf.constant(rng.randn(3, 3, 4).astype(np.float32), name="k")
    dynamic = tf.placeholder_with_default(x, [None, None, None, 3], name="dynamic")
    results = [
        tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"),
        tf.nn.conv2d(x, w, 2, "VALID", name="named"),
        tf.nn.conv2d(x, w, [1, 1, 1, 1], [[0, 0], [1, 1], [2, 2], [0, 0]]),
        tf.nn.convolution(x, w, "SAME"),
        tf.nn.convolution(x, w, "SAME", dilation_rate=[2, 2]),
        tf.nn.convolution(x, w, "VALID", dilation_rate=[2, 3]),
        tf.nn.convolution(dynamic, w, "SAME", dilation_rate=[2, 2]),
        tf.nn.atrous_conv2d(x, w, 2, "SAME"),
        tf.nn.conv1d(s, k, 2, "SAME"),
        tf.nn.convolution(s, k, "SAME", dilation_rate=[2]),
        tf.nn.conv2d_transpose(x, back, [2, 16, 16, 4], 2),
        tf.nn.atrous_conv2d_transpose(x, back, [2, 8, 8, 4], 2, "SAME"),
        tf.nn.conv_transpose(x, back, [2, 16, 16, 4], 2),
        tf.nn.conv1d_transpose(s, tf.transpose(k, [0, 2, 1]), [2, 16, 4], 2),
        tf.nn.conv2d_backprop_filter(x, [3, 3, 3, 4], tf.ones([2, 8, 8, 4]), [1, 1, 1, 1], "SAME"),
        tf.nn.conv2d_backprop_input([2, 8, 8, 3], w, tf.ones([2, 8, 8, 4]), [1, 1, 1, 1], "SAME"),
    ]
    with tf.Session() as sess:
        for index, value in enumerate(sess.run(results)):
            check("result %d" % index, value)
