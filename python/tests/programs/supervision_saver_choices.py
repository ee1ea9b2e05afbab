"""Savers of some variables, under other names, with reshape, padding, another name, and their errors."""

import os
import tempfile


def message(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return "no error"


def program(tf, check):
    directory = tempfile.mkdtemp()
    a = tf.Variable([[1.0, 2.0]], name="a")
    b = tf.Variable([3.0, 4.0], name="b")
    renamed = tf.train.Saver({"x/a": a, "x/b": b}, name="renaming", pad_step_number=True)
    one = tf.train.Saver([a], reshape=True, restore_sequentially=True)
    deferred = tf.train.Saver(defer_build=True)
    check("not built", message(lambda: deferred.save(None, directory + "/m")))
    deferred.build()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = renamed.save(sess, os.path.join(directory, "model"), global_step=7, latest_filename="newest", write_meta_graph=False)
        check("path", os.path.basename(path))
        check("keys", tf.train.list_variables(path))
        check("files", sorted(os.listdir(directory)))
        plain = one.save(sess, os.path.join(directory, "one"), write_state=False)
        check("files after", sorted(os.listdir(directory)))
        one.restore(sess, plain)
        check("missing", message(lambda: one.restore(sess, path))[0])
        check("no path", message(lambda: one.restore(sess, None)))
        check("no checkpoint", message(lambda: one.restore(sess, "/no/checkpoint")))
        check("not a session", message(lambda: one.save("sess", directory + "/m"))[0])
        check("bad name", message(lambda: one.save(sess, directory + "/m", latest_filename="a/b")))
        check("same name", message(lambda: one.save(sess, directory + "/checkpoint"))[0])
    check("twice", message(lambda: tf.train.Saver([a, a])))
    check("not a variable", message(lambda: tf.train.Saver([tf.constant(1.0, name="k")]))[0])
    check("defer with list", message(lambda: tf.train.Saver([a], defer_build=True)))
    with tf.Graph().as_default():
        check("nothing", message(lambda: tf.train.Saver()))
        check("allowed", message(lambda: tf.train.Saver(allow_empty=True)))
    proto = renamed.to_proto()
    again = tf.train.Saver.from_proto(proto)
    check("proto", str(again.as_saver_def()))
    with tf.Session() as sess:
        again.restore(sess, path)
        check("restored", sess.run([a, b]))
