def program(tf, check):
    x = tf.constant(3.0)
    y = tf.constant(2.0)
    p = tf.placeholder(tf.bool, [], name="p")
    a = tf.cond(p, lambda: x * y, lambda: x + 1.0)
    b = tf.cond(p, lambda: (x, {"k": 1}), lambda: (x + 1.0, {"k": 2}), name="pairs")
    c = tf.cond(p, lambda: [y], lambda: [x], strict=True)
    d = tf.cond(p, fn1=lambda: tf.constant("yes"), fn2=lambda: tf.constant("no"))
    s = tf.SparseTensor([[0, 1]], [1.5], [2, 2])
    e = tf.cond(p, lambda: s, lambda: tf.SparseTensor([[1, 0]], [2.5], [2, 2]))
    g = tf.gradients(a, [x, y])
    with tf.Session() as session:
        for value in (True, False):
            for name, fetch in (("a", a), ("b", b), ("c", c), ("d", d), ("e", e)):
                check(f"{name} {value}", session.run(fetch, {p: value}))
            check(f"gradients {value}", session.run(g, {p: value}))
