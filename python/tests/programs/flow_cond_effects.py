def program(tf, check):
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.get_variable("v", initializer=1.0)
    w = tf.get_variable("w", initializer=1.0)
    ran = tf.cond(p, lambda: v.assign_add(1.0).op, lambda: tf.group(v.assign_add(10.0), w.assign(3.0)))
    nothing = tf.cond(p, tf.no_op, lambda: tf.no_op(name="other"))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        check("true", session.run([ran, nothing], {p: True}))
        check("v", session.run([v, w]))
        check("false", session.run(ran, {p: False}))
        check("both", session.run([v, w]))
