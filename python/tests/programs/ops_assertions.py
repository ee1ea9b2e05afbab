"""Assertions with their nodes, in a session that keeps them."""


def program(tf, check):
    x = tf.placeholder_with_default([1.0, 2.0], [2])
    n = tf.placeholder_with_default([1, 2], [2])
    u = tf.placeholder_with_default([1.0, 2.0], None)
    made = [tf.assert_equal(x, x), tf.assert_equal(x, [1.0, 2.0]), tf.assert_equal(n, [1, 2], message="same", summarize=2), tf.assert_none_equal(n, 3), tf.assert_less(n, 3), tf.assert_less_equal(x, 2.0)]
    made += [tf.assert_greater(n, 0), tf.assert_greater_equal(x, 1.0, name="least"), tf.assert_positive(x), tf.assert_negative(-x), tf.assert_non_negative(n), tf.assert_non_positive(-n), tf.assert_near(x, x + 1e-9)]
    made += [tf.assert_rank(u, 1), tf.assert_rank_at_least(u, 1), tf.assert_rank_in(u, [1, 2]), tf.assert_rank(x, 1), tf.assert_rank_in(x, (0, 1)), tf.assert_type(x, tf.float32), tf.assert_integer(n)]
    with tf.control_dependencies(made):
        y = tf.identity(x)
    found = [("y", y), ("scalar", tf.assert_scalar(3)), ("finite", tf.verify_tensor_all_finite(x, "finite")), ("numerics", tf.check_numerics(x, "numbers")), ("increasing", tf.is_strictly_increasing(n)), ("decreasing", tf.is_non_decreasing(-n))]
    found.append(("numeric", tf.constant(tf.is_numeric_tensor(x))))

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
