"""Templates, partitioned variables, scopes with reuse, custom getters and regularizers."""


def program(tf, check):
    def layer(x, units):
        w = tf.get_variable("w", [2, units], initializer=tf.ones_initializer())
        return tf.matmul(x, w)

    shared = tf.make_template("shared", layer, units=3)
    x = tf.constant([[1.0, 2.0]])
    a, b = shared(x), shared(x)
    check("names", [a.name, b.name, [v.name for v in tf.global_variables()], shared.variable_scope.name])

    def getter(getter, name, *args, **kwargs):
        return getter(name, *args, **kwargs) * 2.0

    with tf.variable_scope("outer", regularizer=lambda v: tf.reduce_sum(v), initializer=tf.zeros_initializer()) as scope:
        v = tf.get_variable("v", [2])
        with tf.variable_scope("inner", custom_getter=getter):
            doubled = tf.get_variable("u", [2], initializer=tf.ones_initializer())
    with tf.variable_scope(scope, reuse=True):
        again = tf.get_variable("v", [2])
    with tf.variable_scope(None, "block"):
        first = tf.get_variable("z", [1])
    with tf.variable_scope(None, "block"):
        second = tf.get_variable("z", [1])
    parts = tf.get_variable("parts", [5, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.ones_initializer())
    whole = tf.convert_to_tensor(parts)
    check("more names", [v.name, again is v, doubled.name, first.name, second.name, [p.name for p in parts], whole.name])
    check("losses", [t.name for t in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)])
    mistakes = []
    for attempt in (
        lambda: tf.get_variable("parts", [5, 2]),
        lambda: scope.reuse_variables() or None,
        lambda: tf.get_variable("shared/w", [2, 3]),
        lambda: tf.get_variable("n", [None]),
    ):
        try:
            attempt()
        except ValueError as error:
            mistakes.append(str(error).split(" Originally defined")[0])
    with tf.variable_scope("outer", reuse=True):
        for shape, dtype in (([3], tf.float32), ([2], tf.int32)):
            try:
                tf.get_variable("v", shape, dtype)
            except ValueError as error:
                mistakes.append(str(error))
        try:
            tf.get_variable("never")
        except ValueError as error:
            mistakes.append(str(error))
    check("mistakes", mistakes)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        check("values", session.run([a, b, doubled, whole]))
