def program(tf, check):
    x = tf.placeholder(tf.float32, [], name="x")
    exclusive = tf.case(
        [(x < 1.0, lambda: tf.constant(1)), (x > 3.0, lambda: tf.constant(3))], default=lambda: tf.constant(7), exclusive=True
    )
    first = tf.case([(x < 5.0, lambda: x * 2.0), (x < 9.0, lambda: x * 3.0)], default=lambda: x)
    single = tf.case([(x < 5.0, lambda: x + 1.0)])
    last = tf.case([(x < 1.0, lambda: tf.constant("a")), (x >= 1.0, lambda: tf.constant("b"))], name="last")
    with tf.Session() as session:
        for value in (0.0, 2.0, 4.0):
            check(f"exclusive {value}", session.run(exclusive, {x: value}))
            check(f"first {value}", session.run(first, {x: value}))
            check(f"single {value}", session.run(single, {x: value}))
            check(f"last {value}", session.run(last, {x: value}))
        check("default", session.run(first, {x: 10.0}))
        try:
            session.run(single, {x: 6.0})
        except tf.errors.InvalidArgumentError:
            check("no branch", "InvalidArgumentError")
