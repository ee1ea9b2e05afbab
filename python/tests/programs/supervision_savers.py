"""Savers: their nodes, files, keys and the values they restore."""

import os
import tempfile


def program(tf, check):
    directory = tempfile.mkdtemp()
    a = tf.Variable([1.0, 2.0], name="a")
    with tf.device("/cpu:0"):
        b = tf.get_variable("b", initializer=[3.0, 4.0, 5.0], use_resource=True)
    with tf.variable_scope("scope"):
        c = tf.get_variable("c", initializer=7, trainable=False)
    saver = tf.train.Saver(max_to_keep=2)
    check("def", str(saver.as_saver_def()))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        paths = [saver.save(sess, os.path.join(directory, "model"), global_step=step) for step in (1, 2, 3)]
        check("paths", [os.path.basename(path) for path in paths])
        check("files", sorted(os.listdir(directory)))
        check("last", [os.path.basename(path) for path in saver.last_checkpoints])
        sess.run([a.assign([0.0, 0.0]), b.assign([0.0, 0.0, 0.0]), c.assign(0)])
        saver.restore(sess, paths[-1])
        check("restored", sess.run([a, b, c]))
        check("step tensor", os.path.basename(saver.save(sess, os.path.join(directory, "model"), global_step=c)))
    check("listed", tf.train.list_variables(directory))
    check("latest", os.path.basename(tf.train.latest_checkpoint(directory)))
    state = tf.train.get_checkpoint_state(directory)
    check("state", [os.path.basename(path) for path in [state.model_checkpoint_path] + list(state.all_model_checkpoint_paths)])
    check("value", tf.train.load_variable(directory, "b"))
    check("exists", [tf.train.checkpoint_exists(paths[-1]), tf.train.checkpoint_exists(directory + "/no")])
    tf.train.remove_checkpoint(paths[-1])
    check("removed", sorted(os.listdir(directory)))
