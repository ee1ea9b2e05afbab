def program(tf, check):
    index = tf.placeholder(tf.int32, [], name="index")
    x = tf.constant([1.0, 2.0])
    result = tf.switch_case(index, [lambda: x * 2.0, lambda: x + 1.0, lambda: tf.constant([9.0, 9.0])])
    by_number = tf.switch_case(index, {1: lambda: tf.constant(3), 0: lambda: tf.constant(1)}, default=lambda: tf.constant(7), name="numbers")
    with tf.Session() as session:
        for value in (0, 1, 2, 5):
            check(f"result {value}", session.run(result, {index: value}))
            check(f"by number {value}", session.run(by_number, {index: value}))
    try:
        tf.switch_case(index, {0: lambda: tf.constant(1), 2: lambda: tf.constant(3)})
    except ValueError as error:
        check("gap", str(error))
