"""Shape, rank and size: constants where they are known, nodes elsewhere."""


def program(tf, check):
    known = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    partly = tf.placeholder_with_default([[1.0, 2.0]], [None, 2])
    unknown = tf.placeholder_with_default([[1.0, 2.0]], None)
    found = []
    for tensor in (known, partly, unknown):
        for function in (tf.shape, tf.rank, tf.size, tf.zeros_like, tf.ones_like):
            found.append((f"{len(found)}", function(tensor)))
    found.append(("int64", tf.shape(partly, out_type=tf.int64)))
    found.append(("unoptimized", tf.zeros_like(known, optimize=False)))
    found.append(("dtype", tf.ones_like(partly, dtype=tf.int32)))
    found.append(("zeros dtype", tf.zeros_like(partly, dtype=tf.bool)))
    found += [("n", tf.shape_n([known, partly]))]
    found.append(("broadcast", tf.broadcast_dynamic_shape(tf.shape(partly), tf.shape(known))))
    check("static", [str(tf.broadcast_static_shape(tf.TensorShape([3, 1]), tf.TensorShape([2]))), str(partly.shape), str(unknown.shape)])

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
