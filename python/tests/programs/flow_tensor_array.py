def program(tf, check):
    ta = tf.TensorArray(tf.float32, 3, clear_after_read=False)
    ta = ta.write(0, 1.0)
    ta = ta.write(1, tf.constant(2.0))
    ta = ta.write(2, 3.0)
    parts = [ta.read(1), ta.stack(), ta.gather([2, 0]), ta.size()]
    rows = tf.TensorArray(tf.float32, size=0, dynamic_size=True).unstack([[1.0, 2.0], [3.0, 4.0]])
    pieces = tf.TensorArray(tf.float32, 2, infer_shape=False).split([1.0, 2.0, 3.0], [1, 2])
    x = tf.constant([1.0, 2.0, 3.0])
    source = tf.TensorArray(tf.float32, 3).unstack(x)
    loop = tf.while_loop(
        lambda i, out: i < 3, lambda i, out: (i + 1, out.write(i, source.read(i) * 2.0)), [0, tf.TensorArray(tf.float32, 3)]
    )
    stacked = loop[1].stack()
    grads = tf.gradients(stacked * x, x)
    cond = tf.cond(tf.constant(True), lambda: rows.write(2, [5.0, 6.0]), lambda: rows.write(2, [7.0, 8.0]))
    with tf.Session() as session:
        check("parts", session.run(parts))
        check("concat", session.run(rows.concat()))
        check("pieces", session.run(pieces.concat()))
        check("loop", session.run(stacked))
        check("gradients", session.run(grads))
        check("cond", session.run(cond.stack()))
    check("properties", [ta.dtype.name, rows.dynamic_size, str(ta.element_shape)])
