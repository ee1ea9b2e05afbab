"""Unrolled networks, `raw_rnn`, and dropout of states that keeps everything."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(7)
    inputs = [tf.constant(rng.randn(2, 3).astype(np.float32)) for _ in range(3)]
    cells = tf.nn.rnn_cell
    stacked = tf.stack(inputs)
    with tf.variable_scope(tf.get_variable_scope(), initializer=tf.constant_initializer(0.2)):
        plain = tf.nn.static_rnn(cells.BasicLSTMCell(4), inputs, dtype=tf.float32)
        lengths = tf.nn.static_rnn(cells.GRUCell(4), inputs, dtype=tf.float32, sequence_length=[1, 3], scope="a")
        both = tf.nn.static_bidirectional_rnn(cells.BasicLSTMCell(4), cells.BasicLSTMCell(4), inputs, dtype=tf.float32, scope="b")
        cell = cells.DropoutWrapper(cells.LSTMCell(4), input_keep_prob=1.0, output_keep_prob=1.0)
        array = tf.TensorArray(tf.float32, size=3).unstack(stacked)

        def loop(time, output, state, loop_state):
            finished = time >= [2, 3]
            following = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([2, 3]), lambda: array.read(time))
            return finished, following, cell.zero_state(2, tf.float32) if output is None else state, output, None

        raw = tf.nn.raw_rnn(cell, loop)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("plain", sess.run(plain))
        check("lengths", sess.run(lengths))
        check("both", sess.run(both))
        check("raw", sess.run([raw[0].stack(), raw[1]]))
    check("variables", [variable.name for variable in tf.trainable_variables()])
