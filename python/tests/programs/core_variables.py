"""Reference and resource variables, their reads and updates, on devices."""


def program(tf, check):
    with tf.device("/job:ps/task:0"):
        v = tf.Variable([0.0, 0.0], name="v")
        w = tf.get_variable("w", [2], use_resource=True, initializer=tf.zeros_initializer())
    with tf.device("/job:worker/task:0"):
        a = v + 1.0
        b = w * 2.0
        w.assign_add([1.0, 1.0])
        v.assign([1.0, 2.0])
        tf.identity(w)
        tf.scatter_add(v, [0], [1.0])
        tf.scatter_add(w, [0], [1.0])
        c = w[0]
        w.read_value()
        v.read_value()
    check("names", [v.name, w.name, a.name, b.name, c.name])
    check("shown", [repr(v), repr(w), repr(a), str(b)])
    check("collections", [[x.name for x in tf.global_variables()], [x.name for x in tf.trainable_variables()]])
