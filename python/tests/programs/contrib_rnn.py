"""tf.contrib.rnn: cells under their old names, stacks, projections, layer normalization."""

import numpy as np


def program(tf, check):
    rng = np.random.RandomState(2)
    rnn = tf.contrib.rnn
    x = tf.placeholder(tf.float32, [None, 4, 3], name="x")
    with tf.variable_scope("all", initializer=tf.constant_initializer(0.1)):
        results = [
            tf.nn.dynamic_rnn(rnn.BasicLSTMCell(3, forget_bias=0.5), x, dtype=tf.float32, scope="plain"),
            rnn.stack_bidirectional_dynamic_rnn([rnn.GRUCell(2), rnn.GRUCell(3)], [rnn.BasicRNNCell(2), rnn.LSTMCell(3)], x, dtype=tf.float32),
            tf.nn.dynamic_rnn(rnn.OutputProjectionWrapper(rnn.GRUCell(3), 2), x, dtype=tf.float32, scope="out"),
            tf.nn.dynamic_rnn(rnn.InputProjectionWrapper(rnn.GRUCell(3), 2), x, dtype=tf.float32, scope="in"),
            tf.nn.dynamic_rnn(rnn.LayerNormBasicLSTMCell(3), x, dtype=tf.float32, scope="norm"),
            rnn.static_rnn(rnn.MultiRNNCell([rnn.BasicLSTMCell(2) for _ in range(2)]), tf.unstack(x, axis=1), dtype=tf.float32),
        ]
    check("variables", [variable.name for variable in tf.trainable_variables()])
    state = rnn.BasicLSTMCell(4, state_is_tuple=True).zero_state(3, tf.float32)
    check("state", [type(state).__name__, state.c.shape.as_list(), state._fields])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for index, result in enumerate(results):
            check("result %d" % index, sess.run(result, {x: rng.randn(2, 4, 3)}))
