"""tf.layers: dilated, separable, transposed and one-dimensional convolutions, pools, channels first."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(3)
    x = tf.constant(rng.randn(2, 8, 8, 3).astype(np.float32), name="x")
    s = tf.constant(rng.randn(2, 8, 3).astype(np.float32), name="s")
    with tf.variable_scope("net", initializer=tf.constant_initializer(0.1)):
        results = [
            tf.layers.conv2d(x, 4, 3, dilation_rate=2, padding="same"),
            tf.layers.separable_conv2d(x, 4, 3, depth_multiplier=2),
            tf.layers.conv2d_transpose(x, 4, 3, strides=2),
            tf.layers.conv2d_transpose(x, 4, 3, strides=2, padding="same", activation=tf.nn.tanh),
            tf.layers.conv1d(s, 4, 3, activation=tf.nn.relu),
            tf.layers.conv1d(s, 4, 2, dilation_rate=2, padding="same"),
            tf.layers.separable_conv1d(s, 4, 3),
            tf.layers.max_pooling1d(s, 2, 2),
            tf.layers.average_pooling1d(s, 2, 1, padding="same"),
            tf.layers.max_pooling2d(x, (2, 3), (2, 2)),
            tf.layers.average_pooling2d(x, 2, 2, padding="same"),
        ]
    check("shapes", [result.shape.as_list() for result in results])
    check("variables", [(variable.name, variable.shape.as_list()) for variable in tf.global_variables()])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for index, value in enumerate(sess.run(results)):
            check("result %d" % index, value)
