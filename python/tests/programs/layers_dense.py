"""tf.layers.dense: names, scopes, reuse, regularizers, collections, training."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(1)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    start = tf.constant_initializer(0.1)
    l2 = tf.contrib.layers.l2_regularizer(0.1)
    with tf.variable_scope("model", initializer=start):
        a = tf.layers.dense(x, 3)
        b = tf.layers.dense(a, 3, activation=tf.nn.relu, kernel_regularizer=l2, name="named")
        c = tf.layers.dense(a, 3, activation=tf.nn.relu, kernel_regularizer=l2, name="named", reuse=True)
        with tf.variable_scope("inner"):
            d = tf.layers.dense(c, 2, use_bias=False, activity_regularizer=tf.contrib.layers.l1_regularizer(0.1))
            e = tf.layers.dense(c, 2)
        layer = tf.layers.Dense(5, name="twice")
        f, g = layer(e), layer(d)
        h = tf.layers.dense(tf.reshape(f, [-1, 1, 5]), 2)
    check("variables", [variable.name for variable in tf.trainable_variables()])
    check("layer", [layer.name, layer.scope_name, len(layer.variables), layer.built, layer.count_params()])
    check("regularization", [loss.name for loss in tf.losses.get_regularization_losses()])
    loss = tf.reduce_mean(tf.square(h)) + tf.reduce_mean(tf.square(g)) + tf.reduce_mean(b) + tf.losses.get_regularization_loss()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        value = {x: rng.randn(6, 4)}
        check("outputs", sess.run([a, b, c, d, e, f, g, h], value))
        for _ in range(3):
            sess.run(train, value)
        check("loss", sess.run(loss, value))
        check("trained", sess.run(tf.trainable_variables()))
    for bad in (lambda: tf.layers.dense(x, 3, name="model2", reuse=True), lambda: tf.layers.dense(tf.zeros([3]), 2)):
        try:
            bad()
            check("refused", "no")
        except ValueError as error:
            check("refused", type(error).__name__)
