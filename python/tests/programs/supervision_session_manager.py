"""A session manager: ready models, recovered ones, and those that are not ready."""

import os
import tempfile


def program(tf, check):
    directory = tempfile.mkdtemp()
    v = tf.Variable(1.0, name="v")
    w = tf.Variable(2.0, name="w")
    local = tf.Variable(3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="local")
    init = tf.global_variables_initializer()
    saver = tf.train.Saver({"v": v})
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables(), local_init_op=local.initializer, recovery_wait_secs=1)
    with manager.prepare_session("", init_op=init) as sess:
        check("values", sess.run([v, w, local]))
        path = saver.save(sess, os.path.join(directory, "model"))
    sess, restored = manager.recover_session("", saver=saver, checkpoint_dir=directory)
    check("half", restored)
    check("not ready", [name.decode() for name in sess.run(manager._ready_op)])
    sess, restored = manager.recover_session("", saver=saver, checkpoint_dir=os.path.join(directory, "none"))
    check("nothing", restored)
    try:
        manager.prepare_session("", init_op=v.initializer)
    except RuntimeError as error:
        check("init", str(error)[:39])
    try:
        manager.prepare_session("", checkpoint_dir=directory, checkpoint_filename_with_path=path, saver=saver)
    except ValueError as error:
        check("both", str(error))
    try:
        tf.train.SessionManager(ready_for_local_init_op=init)
    except ValueError as error:
        check("needs local init", str(error)[:57])
    try:
        manager.wait_for_session("", max_wait_secs=0.2)
    except tf.errors.DeadlineExceededError as error:
        check("waited", error.message[:33])
    ready = tf.train.SessionManager(ready_op=None)
    with ready.prepare_session("", init_op=init, init_fn=lambda sess: sess.run(w.assign(9.0))) as sess:
        check("init_fn", sess.run(w))
