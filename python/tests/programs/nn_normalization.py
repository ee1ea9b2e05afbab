"""Moments, batch normalization, local response normalization, dropout without chance, biases."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(4)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    images = tf.constant(rng.randn(2, 4, 4, 6).astype(np.float32), name="images")
    weights, biases = tf.constant(rng.randn(4, 3).astype(np.float32)), tf.constant([1.0, 2.0, 3.0])
    results = [
        tf.nn.moments(x, [0]),
        tf.nn.moments(images, [0, 1, 2], keep_dims=True),
        tf.nn.weighted_moments(x, [0], [[1.0], [2.0], [3.0]]),
        tf.nn.normalize_moments(*tf.nn.sufficient_statistics(x, [0])),
        tf.nn.normalize_moments(*tf.nn.sufficient_statistics(x, [1], shift=1.0)),
        tf.nn.batch_normalization(x, tf.zeros([4]), tf.ones([4]), None, None, 1e-3),
        tf.nn.batch_normalization(x, tf.ones([4]), tf.ones([4]), tf.fill([4], 2.0), tf.fill([4], 3.0), 1e-3),
        tf.nn.fused_batch_norm(images, tf.ones([6]), tf.zeros([6])),
        tf.nn.fused_batch_norm(images, tf.ones([6]), tf.zeros([6]), tf.zeros([6]), tf.ones([6]), is_training=False)[0],
        tf.nn.lrn(images, depth_radius=2, bias=2.0, alpha=0.5),
        tf.nn.xw_plus_b(x, weights, biases),
        tf.nn.relu_layer(x, weights, biases),
        tf.nn.bias_add(x, [1.0, 2.0, 3.0, 4.0]),
        tf.nn.dropout(x, keep_prob=1.0),
        tf.nn.compute_average_loss(x, global_batch_size=4),
        tf.nn.scale_regularization_loss(tf.nn.l2_loss(x)),
    ]
    dropped = tf.nn.dropout(x, rate=0.4, noise_shape=[3, 1], seed=7)
    with tf.Session() as sess:
        value = {x: rng.randn(3, 4)}
        for index, result in enumerate(results):
            check("result %d" % index, sess.run(result, value))
        kept = sess.run(dropped, value)
        check("whole rows are dropped", [bool(np.all(row == 0) or np.all(row != 0)) for row in kept])
