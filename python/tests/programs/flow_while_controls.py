def program(tf, check):
    v = tf.get_variable("v", initializer=0.0)
    before = v.assign_add(5.0)
    with tf.control_dependencies([before]):
        loop = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        branch = tf.cond(tf.constant(True), lambda: tf.constant(1.0), lambda: tf.constant(2.0))

    def body(i, x):
        with tf.control_dependencies([tf.assert_less(i, 100)]):
            return i + 1, x + tf.constant(1.0)

    inside = tf.while_loop(lambda i, x: i < 3, body, [0, 0.0])
    sparse = tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, tf.SparseTensor(s.indices, s.values * 2.0, s.dense_shape)), (0, tf.SparseTensor([[0, 0]], [1.0], [1, 1])))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        check("loop", session.run([loop, branch]))
        check("v", session.run(v))
        check("inside", session.run(inside))
        check("sparse", session.run(sparse))
