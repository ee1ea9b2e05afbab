"""Cells in loops: names of variables, outputs, states, sequence lengths, gradients."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(6)
    x = tf.placeholder(tf.float32, [None, 5, 3], name="x")
    length = tf.placeholder(tf.int32, [None], name="length")
    cells = tf.nn.rnn_cell
    half = tf.constant_initializer(0.1)
    with tf.variable_scope("all", initializer=half):
        made = [
            tf.nn.dynamic_rnn(cells.BasicLSTMCell(4), x, dtype=tf.float32),
            tf.nn.dynamic_rnn(cells.GRUCell(4), x, sequence_length=length, dtype=tf.float32, scope="gru"),
            tf.nn.dynamic_rnn(cells.LSTMCell(4, use_peepholes=True, num_proj=2, cell_clip=3.0), x, dtype=tf.float32, scope="lstm"),
            tf.nn.dynamic_rnn(cells.MultiRNNCell([cells.BasicRNNCell(4), cells.BasicLSTMCell(3)]), x, dtype=tf.float32, scope="deep"),
            tf.nn.dynamic_rnn(cells.ResidualWrapper(cells.BasicRNNCell(3)), x, dtype=tf.float32, scope="residual", time_major=True),
            tf.nn.bidirectional_dynamic_rnn(cells.BasicLSTMCell(2), cells.GRUCell(2), x, sequence_length=length, dtype=tf.float32),
        ]
    variables = tf.trainable_variables()
    check("variables", [variable.name for variable in variables])
    check("shapes", [variable.shape.as_list() for variable in variables])
    gradients = tf.gradients([made[0][0], made[1][0]], [x])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feeds = {x: rng.randn(3, 5, 3), length: [2, 5, 0]}
        for index, result in enumerate(made):
            check("result %d" % index, sess.run(result, feeds))
        check("gradients", sess.run(gradients, feeds))
