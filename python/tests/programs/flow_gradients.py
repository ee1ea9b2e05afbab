def program(tf, check):
    x = tf.constant(2.0)
    w = tf.get_variable("w", initializer=[[0.5, 0.1], [0.2, 0.3]], use_resource=True)
    plain = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * x), [0, tf.constant(1.0)])[1]
    stopped = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * x), [0, x], back_prop=False)[1]
    counted = tf.while_loop(lambda i, t: t < 50.0, lambda i, t: [i + 1, t * x], [0, x], maximum_iterations=10)[1]
    sequence = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    state = tf.scan(lambda s, e: tf.tanh(tf.matmul(tf.expand_dims(s + e, 0), w)[0]), sequence, initializer=tf.zeros([2]))
    table = tf.get_variable("table", initializer=[1.0, 2.0, 3.0])
    gathered = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + tf.gather(table, i) * tf.cast(i, tf.float32)), [0, 0.0])[1]
    grads = {
        "plain": tf.gradients(plain, x),
        "counted": tf.gradients(counted, x),
        "state": tf.gradients(tf.reduce_sum(state), [w, sequence]),
        "gathered": tf.convert_to_tensor(tf.gradients(gathered, table)[0]),
        "second": tf.gradients(tf.gradients(x * x * x, x)[0], x),
    }
    check("stopped", tf.gradients(stopped, x) == [None])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for name in sorted(grads):
            check(name, session.run(grads[name]))
