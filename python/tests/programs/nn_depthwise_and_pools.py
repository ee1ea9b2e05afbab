"""Depthwise and separable convolutions, pools of all kinds, and gradients through them."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(3)
    x = tf.constant(rng.randn(2, 8, 8, 3).astype(np.float32), name="x")
    d = tf.constant(rng.randn(3, 3, 3, 2).astype(np.float32), name="d")
    p = tf.constant(rng.randn(1, 1, 6, 5).astype(np.float32), name="p")
    s = tf.constant(rng.randn(2, 8, 3).astype(np.float32), name="s")
    results = [
        tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME"),
        tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME", rate=[2, 2]),
        tf.nn.separable_conv2d(x, d, p, [1, 2, 2, 1], "VALID"),
        tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
        tf.nn.avg_pool(x, 2, 2, "VALID"),
        tf.nn.max_pool2d(x, 3, 1, "SAME"),
        tf.nn.max_pool1d(s, 2, 2, "SAME"),
        tf.nn.avg_pool1d(s, 3, 1, "VALID"),
        tf.nn.max_pool_v2(x, 2, 2, "SAME"),
        tf.nn.avg_pool_v2(x, 2, 2, "SAME"),
        tf.nn.pool(x, [2, 2], "MAX", "VALID", dilation_rate=[2, 2]),
        tf.nn.pool(x, [2, 2], "AVG", "SAME", strides=[2, 2]),
        tf.nn.pool(s, [2], "MAX", "VALID"),
    ]
    argmax = tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    gradients = tf.gradients([results[0], results[2], results[3], results[4]], [x, d, p])
    with tf.Session() as sess:
        for index, value in enumerate(sess.run(results)):
            check("result %d" % index, value)
        check("argmax", sess.run(argmax))
        check("gradients", sess.run(gradients))
