"""Clipping by value and by norms."""


def program(tf, check):
    a = tf.constant([[3.0, 4.0], [0.0, -5.0]])
    b = tf.constant([6.0, 8.0])
    found = [("value", tf.clip_by_value(a, -1.0, 2.0)), ("norm", tf.clip_by_norm(a, 2.0)), ("norm axes", tf.clip_by_norm(a, 2.0, axes=[1])), ("average", tf.clip_by_average_norm(a, 0.5)), ("global", tf.global_norm([a, b, None]))]
    clipped, norm = tf.clip_by_global_norm([a, b], 5.0)
    found += [("clipped", clipped), ("global norm", norm)]
    slices = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([1]), tf.constant([3, 2]))
    (kept,), _ = tf.clip_by_global_norm([slices], 1.0, name="sparse")
    found += [("slices", kept.values), ("given norm", tf.clip_by_global_norm([a], 1.0, use_norm=tf.constant(10.0))[0])]
    found += [("value tensor", tf.clip_by_value(a, tf.constant(0.0), 3))]

    with tf.Session() as session:
        for name, tensor in found:
            check(name, session.run(tensor))
