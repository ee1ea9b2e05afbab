"""Layers and embeddings whose variables are divided over parts, with initializers that know the whole."""

import numpy as np


def program(tf, check):
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    with tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(2), initializer=tf.constant_initializer(0.5)):
        hidden = tf.layers.dense(x, 6, kernel_regularizer=tf.contrib.layers.l2_regularizer(0.1))
        normed = tf.layers.batch_normalization(hidden, training=True)
        table = tf.get_variable("table", [6, 2])
        rows = tf.nn.embedding_lookup(table, [0, 3, 5], partition_strategy="div")
    loss = tf.reduce_sum(tf.square(hidden)) + tf.reduce_sum(tf.square(rows)) + tf.reduce_sum(normed) + tf.losses.get_regularization_loss()
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    check("variables", [(variable.name, variable.shape.as_list()) for variable in tf.global_variables()])
    check("losses", [penalty.name for penalty in tf.losses.get_regularization_losses()])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feeds = {x: np.arange(8.0).reshape(2, 4)}
        for _ in range(3):
            sess.run(train, feeds)
        check("loss", sess.run(loss, feeds))
        check("values", sess.run(tf.trainable_variables()))
