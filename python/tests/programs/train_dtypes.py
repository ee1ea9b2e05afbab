"""Variables of half and double precision, and unknown shapes."""


def program(tf, check):
    losses = []
    for dtype in (tf.float16, tf.float64):
        v = tf.Variable(tf.constant([1.0, -2.0], dtype), name="v_" + dtype.name)
        losses.append((v, tf.reduce_sum(v * v)))
    trains = []
    for make in (
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.AdamOptimizer(0.1, epsilon=1e-3),
        lambda: tf.train.RMSPropOptimizer(0.1, epsilon=1e-3),
        lambda: tf.train.FtrlOptimizer(0.1),
    ):
        for v, loss in losses:
            trains.append((v, make().minimize(loss, var_list=[v])))
    table = tf.Variable(tf.constant([[1.0], [2.0]], tf.float64), name="table")
    trains.append((table, tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.gather(table, [1, 1])), var_list=[table])))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for v, train in trains:
            sess.run(train)
            check(train.name, sess.run(v).astype("float32").round(2))
    try:
        integer = tf.Variable(1, name="integer")
        tf.train.GradientDescentOptimizer(0.1).minimize(integer)
    except ValueError as error:
        check("integer", str(error).split(", expected")[0])
