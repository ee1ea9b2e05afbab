"""Partitioned variables: saved as one tensor, restored in other parts."""

import os
import tempfile


def program(tf, check):
    directory = tempfile.mkdtemp()
    with tf.variable_scope("", partitioner=lambda shape, dtype: [2, 1]):
        table = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
    parts = list(table)
    change = [part.assign([[1.0 + 4 * index, 2.0], [3.0, 4.0]]) for index, part in enumerate(parts)]
    saver = tf.train.Saver()
    by_name = tf.train.Saver({"table": table}, name="save_by_name")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(change)
        path = saver.save(sess, os.path.join(directory, "model"))
        check("keys", tf.train.list_variables(path))
        check("whole", tf.train.load_variable(path, "table"))
        sess.run(tf.global_variables_initializer())
        by_name.restore(sess, path)
        check("restored", sess.run(parts))
    with tf.Graph().as_default():
        with tf.variable_scope("", partitioner=lambda shape, dtype: [4, 1]):
            other = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
        saver = tf.train.Saver()
        with tf.Session() as sess:
            saver.restore(sess, path)
            check("other parts", sess.run(list(other)))
