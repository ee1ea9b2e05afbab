def program(tf, check):
    v = tf.get_variable("v", initializer=1.0)
    with tf.device("/cpu:0"):
        a = v.assign_add(1.0)
    b = tf.constant(2.0)
    both = tf.group(a, b, name="both")
    none = tf.group(name="none")
    several = tf.group([b], {"x": b})
    first, missing, third = tf.tuple([b, None, b * 2.0], control_inputs=[both])
    check("missing", missing is None)
    checked = tf.Assert(b > 1.0, [b, "is small"], summarize=2)
    with tf.control_dependencies([checked]):
        c = tf.identity(b)
    wrong = tf.Assert(b < 1.0, [b, "is large"], name="wrong")
    text = tf.Assert(True, ["text"])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        check("tuple", session.run([first, third]))
        check("v", session.run(v))
        check("c", session.run([c, none, several, text]))
        try:
            session.run(wrong)
        except tf.errors.InvalidArgumentError as error:
            check("text", "is large" in str(error))
