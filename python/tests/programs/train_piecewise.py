"""Rates that are constant between boundaries."""


def program(tf, check):
    step = tf.Variable(0, dtype=tf.int64, name="step", trainable=False)
    rate = tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.1])
    three = tf.train.piecewise_constant_decay(step, [5, 10, 15], [1.0, 0.5, 0.25, 0.1], name="three")
    floats = tf.train.piecewise_constant(tf.constant(2.5), [1.0, 3.0], [1, 2, 3])
    with tf.Session() as sess:
        sess.run(step.initializer)
        check("floats", sess.run(floats))
        for value in (0, 5, 10, 11, 20, 21):
            sess.run(step.assign(value))
            check("rate %d" % value, sess.run([rate, three]))
    for name, call in (
        ("lengths", lambda: tf.train.piecewise_constant(step, [10], [1.0])),
        ("boundary dtype", lambda: tf.train.piecewise_constant(tf.constant(1.0), [1, 2], [1.0, 2.0, 3.0])),
        ("value dtype", lambda: tf.train.piecewise_constant(step, [1, 2], [1.0, 2, 3.0])),
    ):
        try:
            call()
            check(name, "nothing raised")
        except ValueError as error:
            check(name, str(error))


DIFFERENCES = {
    "*/case/cond/*": "which nodes of a branch take the control input of the assertion before it differs",
}
