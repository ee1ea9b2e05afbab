"""Variables that begin with the values of a checkpoint."""

import os
import tempfile


def program(tf, check):
    directory = tempfile.mkdtemp()
    with tf.Graph().as_default():
        with tf.variable_scope("old"):
            tf.get_variable("a", initializer=[1.0, 2.0])
            tf.get_variable("b", initializer=5)
        saver = tf.train.Saver()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            saver.save(sess, os.path.join(directory, "model"))
    with tf.variable_scope("new"):
        a = tf.get_variable("a", [2], initializer=tf.zeros_initializer())
        b = tf.get_variable("b", [], tf.int32, initializer=tf.zeros_initializer())
    tf.train.init_from_checkpoint(directory, {"old/": "new/"})
    c = tf.Variable([0.0, 0.0], name="c")
    tf.train.init_from_checkpoint(directory, {"old/a": c})
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("values", sess.run([a, b, c]))
    reader = tf.train.load_checkpoint(directory)
    check("shapes", reader.get_variable_to_shape_map())
    check("dtypes", {key: str(value) for key, value in reader.get_variable_to_dtype_map().items()})
    check("has", [reader.has_tensor("old/a"), reader.has_tensor("a")])
    check("tensor", reader.get_tensor("old/a"))


DIFFERENCES = {
    "checkpoint_initializer*/prefix": "the directory is another one",
}
