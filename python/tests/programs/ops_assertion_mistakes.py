"""What assertions say, while the graph is built and when they run."""


def program(tf, check):
    def said(action):
        try:
            action()
            return "nothing"
        except Exception as error:
            return f"{type(error).__name__}: {error}".split("\n\n")[0]

    x = tf.placeholder(tf.float32, [2], name="x")
    cases = [
        lambda: tf.assert_equal([1, 2], [1, 3]),
        lambda: tf.assert_less([1, 2], [1, 3], message="must be less"),
        lambda: tf.assert_positive([1, -1]),
        lambda: tf.assert_rank(x, 2),
        lambda: tf.assert_rank_at_least(x, 2, message="rows"),
        lambda: tf.assert_rank_in(x, [0, 2]),
        lambda: tf.assert_scalar([1]),
        lambda: tf.assert_type(x, tf.int32),
        lambda: tf.assert_integer(1.0),
        lambda: tf.assert_proper_iterable(1),
        lambda: tf.assert_same_float_dtype([tf.constant(1)]),
        lambda: tf.assert_same_float_dtype([x, tf.constant(1.0, tf.float64)]),
    ]
    for index, case in enumerate(cases):
        check(f"{index}", said(case))
    guarded = tf.assert_greater(x, 0.0, message="only positive", name="guard")
    with tf.Session() as session:
        session.run(guarded, {x: [1.0, 2.0]})
        text = said(lambda: session.run(guarded, {x: [1.0, -2.0]}))
        check("run", [text.split(":")[0], "only positive" in text, "[1 -2]" in text])
