def program(tf, check):
    i = tf.constant(0)
    x = tf.constant(1.0)
    c = tf.constant(2.0)
    plain = tf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, x * c), [i, x])
    single = tf.while_loop(lambda i: i < 7, lambda i: i + 2, [0])
    bounded = tf.while_loop(lambda i, x: i < 10, lambda i, x: [i + 1, x * c], [i, x], maximum_iterations=4, name="bounded")
    same = tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [0], return_same_structure=True)
    nested = tf.while_loop(lambda i, d: i < 3, lambda i, d: (i + 1, {"a": d["a"] + 1.0, "b": d["b"]}), (0, {"a": x, "b": c}))
    growing = tf.while_loop(
        lambda i, v: i < 3,
        lambda i, v: [i + 1, tf.concat([v, v], 0)],
        [tf.constant(0), tf.constant([1.0])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
        parallel_iterations=1,
    )
    grads = tf.gradients(plain[1], [x, c])
    with tf.Session() as session:
        for name, fetch in (("plain", plain), ("single", single), ("bounded", bounded), ("same", same), ("nested", nested), ("growing", growing), ("gradients", grads)):
            check(name, session.run(fetch))
