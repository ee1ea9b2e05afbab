"""Gradient descent of reference and resource variables, of rows and whole tensors, over several steps."""

import numpy as np


def program(tf, check):
    for use_resource in (False, True):
        with tf.variable_scope("resource" if use_resource else "ref", use_resource=use_resource):
            w = tf.get_variable("w", initializer=tf.constant([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]]))
            b = tf.get_variable("b", initializer=tf.constant([0.1, -0.2]))
            step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer(), trainable=False)
            rows = tf.nn.embedding_lookup(w, [0, 2, 0])
            loss = tf.reduce_sum(tf.square(rows + b)) + tf.reduce_sum(tf.abs(b))
            optimizer = tf.train.GradientDescentOptimizer(0.1)
            train = optimizer.minimize(loss, global_step=step, var_list=[w, b])
            dense = tf.get_variable("dense", initializer=tf.constant([1.0, 2.0, 3.0], tf.float64))
            other = tf.train.GradientDescentOptimizer(lambda: 0.01, use_locking=True, name="Other")
            other_train = other.minimize(tf.reduce_sum(tf.square(dense) * dense), var_list=[dense], name="other_train")
        check("train op", [train.name, train.type, other_train.name, other_train.type])
        check("slot names", optimizer.get_slot_names())
        check("slots", [optimizer.get_slot(w, name).name for name in optimizer.get_slot_names()])
        check("no slot", optimizer.get_slot(w, "nothing"))
        check("variables", [var.name for var in optimizer.variables()])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for count in range(3):
                sess.run([train, other_train])
                kept = [w, b, dense, step] + optimizer.variables() + other.variables()
                for var, value in zip(kept, sess.run(kept)):
                    check("%s after %d" % (var.name, count), np.asarray(value))
    check("collections", [op.name for op in tf.get_collection(tf.GraphKeys.TRAIN_OP)])
    check("trainable", [var.name for var in tf.trainable_variables()])
    check("global", [var.name for var in tf.global_variables()])


DIFFERENCES = {
    "resource/GradientDescent/update_resource/w/mul*": "rows are scaled by the tensor that all updates share, not by a constant of their own",
}
