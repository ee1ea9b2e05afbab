"""How gradients wait for one another, gradients of tensors, constraints, and a gradient that is given."""


def program(tf, check):
    x = tf.Variable([1.0, 2.0], name="x", constraint=lambda value: tf.clip_by_value(value, 0.0, 1.5))
    y = tf.Variable([3.0, 4.0], name="y")
    r = tf.get_variable("r", initializer=tf.constant([1.0, 5.0]), use_resource=True, constraint=lambda value: tf.minimum(value, 4.0))
    loss = tf.reduce_sum(x * y * r)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    middle = x * y
    pairs = optimizer.compute_gradients(tf.reduce_sum(middle * middle), var_list=[middle, x])
    graph_gate = optimizer.minimize(loss, gate_gradients=tf.train.Optimizer.GATE_GRAPH, name="graph_gate")
    no_gate = optimizer.minimize(loss, gate_gradients=tf.train.Optimizer.GATE_NONE, name="no_gate")
    given = optimizer.minimize(loss, grad_loss=tf.constant(0.5), name="given", colocate_gradients_with_ops=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        check("tensor gradients", sess.run([grad for grad, _ in pairs]))
        # Without a gate, what is read of a reference variable may be its value after the update.
        check("no gate", no_gate.name)
        for op in (graph_gate, given):
            sess.run(op)
            check(op.name, sess.run([x, y, r]))
    try:
        optimizer.apply_gradients([(pairs[0][0], middle)])
    except NotImplementedError as error:
        check("update of a tensor", str(error.args[0]))
