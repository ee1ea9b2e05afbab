"""A sharded saver: each device writes its own variables."""

import os
import tempfile

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def program(tf, check):
    directory = tempfile.mkdtemp()
    with tf.device("/cpu:0"):
        a = tf.Variable([1.0, 2.0], name="a")
    b = tf.Variable(3, name="b")
    saver = tf.train.Saver(sharded=True)
    check("def", str(saver.as_saver_def()))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, os.path.join(directory, "model"))
        check("files", sorted(os.listdir(directory)))
        sess.run([a.assign([0.0, 0.0]), b.assign(0)])
        saver.restore(sess, path)
        check("restored", sess.run([a, b]))
