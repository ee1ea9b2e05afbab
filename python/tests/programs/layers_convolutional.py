"""A convolutional network by tf.layers, trained with Adam."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(2)
    x = tf.placeholder(tf.float32, [None, 8, 8, 3], name="x")
    labels = tf.placeholder(tf.int32, [None], name="labels")

    def start(shape, dtype=None, partition_info=None):
        return tf.constant(0.3 * rng.randn(*[int(size) for size in shape]), dtype)

    with tf.variable_scope("net", initializer=start):
        y = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu)
        y = tf.layers.max_pooling2d(y, 2, 2)
        y = tf.layers.conv2d(y, 4, (3, 2), strides=2, padding="same", use_bias=False, activation=tf.nn.relu)
        y = tf.layers.dropout(y, 0.5, training=False)
        flat = tf.layers.flatten(y)
        logits = tf.layers.dense(flat, 3)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.01).minimize(loss, global_step=step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feeds = {x: rng.randn(5, 8, 8, 3), labels: [0, 1, 2, 0, 1]}
        check("flat", flat.shape.as_list())
        for _ in range(4):
            check("loss", sess.run([loss, train], feeds)[0])
        check("step", sess.run(step))
        check("variables", [variable.name for variable in tf.global_variables()])
        check("logits", sess.run(logits, feeds))
