def program(tf, check):
    n = tf.placeholder(tf.int32, [], name="n")
    w = tf.get_variable("w", initializer=[[0.5, 0.25], [0.125, 0.75]])
    x = tf.constant([[1.0, 2.0]])

    def outer(i, total):
        def inner(j, acc):
            return j + 1, tf.matmul(acc, w) + 1.0

        _, acc = tf.while_loop(lambda j, acc: j < i, inner, [0, total])
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: acc, lambda: acc * 2.0)

    _, result = tf.while_loop(lambda i, t: i < n, outer, [0, x])
    loss = tf.reduce_sum(result)
    grads = tf.gradients(loss, [w, x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for count in (0, 1, 4):
            check(f"result {count}", session.run(result, {n: count}))
            check(f"gradients {count}", session.run(grads, {n: count}))
