"""Batch normalization: fused or not, training known or fed, updates, training with them."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(4)
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    images = tf.placeholder(tf.float32, [None, 3, 3, 2], name="images")
    training = tf.placeholder(tf.bool, [], name="training")
    results = [
        tf.layers.batch_normalization(x, training=True, name="now"),
        tf.layers.batch_normalization(x, name="never"),
        tf.layers.batch_normalization(x, training=training, name="later", momentum=0.9),
        tf.layers.batch_normalization(images, training=True),
        tf.layers.batch_normalization(images, center=False, scale=False),
        tf.layers.batch_normalization(images, training=training, momentum=0.5),
    ]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    check("updates", [update.name for update in updates])
    check("variables", [(variable.name, variable.trainable) for variable in tf.global_variables()])
    loss = tf.add_n([tf.reduce_sum(tf.square(result)) for result in results])
    with tf.control_dependencies(updates):
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for flag in (True, False, True):
            feeds = {x: rng.randn(5, 4), images: rng.randn(2, 3, 3, 2), training: flag}
            check("results", sess.run(results, feeds))
            sess.run(train, feeds)
        check("averages", sess.run([variable for variable in tf.global_variables() if "moving" in variable.name]))
        check("trained", sess.run(tf.trainable_variables()))
