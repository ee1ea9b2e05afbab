def program(tf, check):
    x = tf.constant([1.0, 2.0])
    p = tf.placeholder(tf.bool, [], name="p")
    q = tf.placeholder(tf.bool, [], name="q")
    v = tf.get_variable("v", initializer=5.0)

    def inner():
        return tf.cond(q, lambda: x * v, lambda: tf.constant([7.0, 8.0]))

    result = tf.cond(p, inner, lambda: x)
    update = tf.cond(p, lambda: tf.assign_add(v, 1.0), lambda: tf.identity(v))
    grads = tf.gradients(result, [x, v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for a in (True, False):
            for b in (True, False):
                feed = {p: a, q: b}
                check(f"result {a} {b}", session.run(result, feed))
                check(f"gradients {a} {b}", session.run(grads, feed))
        check("update", session.run(update, {p: True}))
        check("no update", session.run(update, {p: False}))
