"""Scaffolds with parts of their own, an init function, and a checkpoint to begin with."""

import os
import tempfile

DIFFERENCES = {"save/StringJoin/inputs_1": "a name made up for each saver"}


def program(tf, check):
    directory = tempfile.mkdtemp()
    v = tf.Variable(1.0, name="v")
    step = tf.train.get_or_create_global_step()
    start = tf.placeholder(tf.float32, [], name="start")
    set_v = v.assign(start)
    saver = tf.train.Saver()
    got = []

    def init_fn(scaffold, session):
        got.append(scaffold.saver is saver)
        session.run(set_v, {start: 8.0})

    scaffold = tf.train.Scaffold(saver=saver, init_fn=init_fn)
    creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=directory)
    with tf.train.MonitoredSession(creator) as session:
        check("init_fn", [got, session.run(v)])
    check("parts", [scaffold.init_op.name, scaffold.ready_op.name, scaffold.ready_for_local_init_op.name, scaffold.local_init_op.name, str(scaffold.summary_op)])
    with tf.Session() as sess:
        sess.run(scaffold.init_op)
        path = saver.save(sess, os.path.join(directory, "model"))
    del got[:]
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold, checkpoint_filename_with_path=path)) as session:
        check("restored", [got, session.run(v)])
    copied = tf.train.Scaffold(copy_from_scaffold=scaffold, init_op=step.initializer)
    check("copied", [copied.saver is saver, copied.init_op.name, copied.ready_op.name])
    check("collections", [item.name for item in tf.get_collection(tf.GraphKeys.READY_OP)])
