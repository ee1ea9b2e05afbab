def program(tf, check):
    x = tf.constant([1.0, 2.0, 3.0])
    m = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    unknown = tf.placeholder(tf.float32, [None, 2], name="unknown")
    results = {
        "map": tf.map_fn(lambda e: e * 2.0, x),
        "map pairs": tf.map_fn(lambda e: (e[0] + e[1], e[0] > 1.5), (x, x), dtype=(tf.float32, tf.bool)),
        "map unknown": tf.map_fn(lambda row: tf.reduce_sum(row), unknown, parallel_iterations=2),
        "scan": tf.scan(lambda a, e: a + e, x),
        "scan reverse": tf.scan(lambda a, e: a * e, x, initializer=1.0, reverse=True),
        "scan rows": tf.scan(lambda a, e: a * 0.5 + e, m),
        "foldl": tf.foldl(lambda a, e: a * 2.0 + e, x),
        "foldr": tf.foldr(lambda a, e: a * 2.0 + e, x, initializer=1.0),
        "foldr plain": tf.foldr(lambda a, e: a - e, x),
    }
    grads = tf.gradients([results["map"], results["scan"], results["foldl"]], x)
    with tf.Session() as session:
        for name in sorted(results):
            check(name, session.run(results[name], {unknown: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}))
        check("gradients", session.run(grads))
