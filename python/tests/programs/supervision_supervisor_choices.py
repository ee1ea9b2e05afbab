"""Supervisors with an init function, feeds, loops, errors and no directory."""

import time


def program(tf, check):
    start = tf.placeholder(tf.float32, [], name="start")
    v = tf.Variable(start, name="v")
    triple = v.assign(v * 3.0)
    local = tf.Variable(5, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False, name="local")
    inits = []

    def init_fn(sess):
        inits.append(sess.run(triple))

    sv = tf.train.Supervisor(init_feed_dict={start: 2.0}, init_fn=init_fn)
    sess = sv.prepare_or_wait_for_session()
    check("initialised", [inits, sess.run([v, local])])
    ticks = []
    looper = sv.loop(0.01, ticks.append, args=(1,))
    while len(ticks) < 3:
        time.sleep(0.01)
    check("alive", [looper.is_alive(), looper.daemon])
    sv.request_stop()
    sv.stop()
    sess.close()
    check("joined", [looper.is_alive(), sv.should_stop()])

    class Mine(Exception):
        pass

    def failing():
        raise Mine("in a thread")

    other = tf.train.Supervisor(init_op=sv.init_op, init_feed_dict={start: 2.0}, ready_op=None, local_init_op=None, saver=None, summary_op=None)
    try:
        with other.managed_session() as sess:
            other.loop(None, failing)
            other.wait_for_stop()
    except Mine as error:
        check("raised", str(error))
    try:
        with other.managed_session() as sess:
            raise Mine("in the block")
    except Mine as error:
        check("raised in block", str(error))
    with other.managed_session() as sess:
        raise tf.errors.OutOfRangeError(None, None, "the end of an input")
    check("went on", True)
    try:
        other.summary_computed(sess, b"")
    except RuntimeError as error:
        check("no writer", str(error))
